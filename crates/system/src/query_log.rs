//! `forebay.query_log`: the statements that were run, by this process and earlier ones.

use std::sync::Arc;

use forebay_engine::facts::{Asked, OrderKey};
use forebay_engine::query_log::LoggedQuery;
use forebay_store::{Catalog, TableSnapshot};

use crate::columns::{Column, Of, known};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;

/// Rows of a batch.
const BATCH_ROWS: usize = 1024;

/// The statements.
#[derive(Debug)]
pub(crate) struct QueryLog(pub(crate) Arc<dyn Seen>);

/// A statement.
pub(crate) struct QueryRow {
    seen: Arc<dyn Seen>,
    query: LoggedQuery,
}

impl QueryRow {
    /// The columns that scans tested, as far as they are still there: each with its table in front, or with the table that its
    /// rows were joined with and the column that leads there.
    fn tested(&self) -> Option<String> {
        let catalog = self.seen.catalog();
        let mut names = Vec::new();
        for Asked { table, tests, .. } in &self.query.asked {
            let Some(table) = catalog.table_by_id(*table) else { continue };
            for name in tests.iter().filter_map(|(key, _)| column_name(catalog, table, key)) {
                let name = format!("{}.{name}", table.name);
                if !names.contains(&name) {
                    names.push(name);
                }
            }
        }
        (!names.is_empty()).then(|| names.join(", "))
    }
}

fn column_name(catalog: &Catalog, table: &TableSnapshot, key: &OrderKey) -> Option<String> {
    let (mut at, mut names) = (table, Vec::new());
    for hop in &key.hops {
        names.push(at.column_by_id(hop.column)?.1.name.as_str());
        at = catalog.table_by_id(hop.table)?;
    }
    names.push(at.column_by_id(key.column)?.1.name.as_str());
    Some(names.join("."))
}

impl Rows for QueryLog {
    type Row = QueryRow;

    const COLUMNS: &'static [Column<QueryRow>] = &[
        known("started_at", Of::Moment(|row| Ok(Some(row.query.started_us)))),
        known("elapsed_ms", Of::Real(|row| Ok(Some(row.query.elapsed_ns as f64 / 1e6)))),
        known("text", Of::Text(|row| Ok(Some(row.query.text.clone())))),
        known("is_cut", Of::Flag(|row| Ok(Some(row.query.is_cut)))),
        known("rows", Of::Count(|row| Ok(Some(row.query.rows)))),
        known("error", Of::Text(|row| Ok(row.query.error.clone()))),
        known("read_bytes", Of::Count(|row| Ok(Some(row.query.figures.read_bytes)))),
        known("scanned_bytes", Of::Count(|row| Ok(Some(row.query.figures.scanned_bytes)))),
        known("plain_bytes", Of::Count(|row| Ok(Some(row.query.figures.plain_bytes)))),
        known("chunks", Of::Count(|row| Ok(Some(row.query.figures.chunks)))),
        known("chunks_pruned", Of::Count(|row| Ok(Some(row.query.figures.chunks_pruned)))),
        known("blocks", Of::Count(|row| Ok(Some(row.query.figures.blocks)))),
        known("blocks_pruned", Of::Count(|row| Ok(Some(row.query.figures.blocks_pruned)))),
        known("tested_columns", Of::Text(|row| Ok(row.tested()))),
    ];

    fn batches(&self, _passes: Passes<QueryRow>) -> Batches<QueryRow> {
        let row = |query| QueryRow { seen: Arc::clone(&self.0), query };
        let mut rows = self.0.engine().query_log().read().into_iter().map(row).collect::<Vec<_>>().into_iter();
        Box::new(std::iter::from_fn(move || {
            let batch: Vec<QueryRow> = rows.by_ref().take(BATCH_ROWS).collect();
            (!batch.is_empty()).then_some(Ok(batch))
        }))
    }
}
