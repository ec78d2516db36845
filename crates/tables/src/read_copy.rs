//! Which copy of a table's rows a scan reads that is not part of pipelines, and how EXPLAIN tells what was chosen and among what.
//!
//! Rows of small tables come in the order in which they were added: these scans read the table's own, as do those that ask nothing of
//! rows and so read all of them.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::prelude::SessionConfig;
use forebay_base::limits;
use forebay_base::units::format_bytes;
use forebay_context::settings;
use forebay_engine::copies::{CopyChoice, CopyCost, CopyOptions, ScanNeeds, choose};
use forebay_engine::{CopyUse, Engine, ScanSettings};
use forebay_pipeline::ColumnPredicate;
use forebay_store::TableSnapshot;

/// How a session scans tables.
#[derive(Debug, Clone)]
pub struct Reading {
    /// Workers.
    pub(crate) partitions: usize,
    copies: CopyUse,
    scan: ScanSettings,
    /// Columns that are fetched later of rows of the same copy.
    fetched: Vec<usize>,
}

impl Reading {
    /// As the settings of a session say.
    pub fn of(config: &SessionConfig) -> Self {
        let (partitions, copies) = (config.target_partitions(), settings::copies(config));
        Self { partitions, copies, scan: settings::of_scans(config), fetched: Vec::new() }
    }

    /// The same, where these columns are fetched by the places of rows.
    pub(crate) fn fetching(self, fetched: &[usize]) -> Self {
        Self { fetched: fetched.to_vec(), ..self }
    }

    /// The copy that is read, and what others would take; `None` where there is nothing to choose.
    pub(crate) fn choose(
        &self,
        (engine, table): (&Engine, &Arc<TableSnapshot>),
        projection: &[usize],
        predicates: &[Arc<dyn PhysicalExpr>],
        tests: &[ColumnPredicate],
    ) -> Option<(Arc<TableSnapshot>, CopyChoice)> {
        let is_small = table.rows() <= (limits::BLOCK_ROWS * limits::GROUP_BLOCKS) as u64;
        if self.copies == CopyUse::Cheapest && (is_small || tests.is_empty()) {
            return None;
        }
        let mut columns: BTreeSet<usize> = projection.iter().chain(&self.fetched).copied().collect();
        columns.extend(predicates.iter().flat_map(collect_columns).map(|column| column.index()));
        let options = CopyOptions { copies: &self.copies, scan: self.scan, threads: self.partitions };
        choose(engine, table, &ScanNeeds { columns, tests }, &options)
    }
}

/// What is read, and what other copies would take.
pub fn text(choice: &CopyChoice) -> String {
    let name = |cost: &CopyCost| match &cost.name {
        Some(name) => format!("projection {name}"),
        None => "the table's own rows".to_owned(),
    };
    let cost = |cost: &CopyCost| format!("{} in {:.1} ms", format_bytes(cost.read_bytes), cost.seconds * 1e3);
    let others = choice.costs.iter().enumerate().filter(|(number, _)| *number != choice.chosen);
    let others: Vec<String> = others.map(|(_, other)| format!("{}: {}", name(other), cost(other))).collect();
    let read = &choice.costs[choice.chosen];
    let others = if others.is_empty() { String::new() } else { format!(" ({})", others.join(", ")) };
    format!("reads {}: {}{others}", name(read), cost(read))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_say_what_others_would_take() {
        let cost = |name: Option<&str>, read_bytes, seconds| CopyCost {
            name: name.map(str::to_owned),
            blocks: 1,
            read_bytes,
            seconds,
        };
        let costs = vec![cost(None, 3 << 20, 0.003), cost(Some("p"), 1 << 20, 0.001)];
        let shown = text(&CopyChoice { costs: costs.clone(), chosen: 1 });
        assert_eq!(shown, "reads projection p: 1.00 MiB in 1.0 ms (the table's own rows: 3.00 MiB in 3.0 ms)");
        let shown = text(&CopyChoice { costs: costs[..1].to_vec(), chosen: 0 });
        assert_eq!(shown, "reads the table's own rows: 3.00 MiB in 3.0 ms");
    }
}
