//! Statements that change how tables lie on disk, and nothing that queries see: CHECKPOINT, OPTIMIZE TABLE, ANALYZE, CLUSTER BY.

use std::sync::Arc;

use forebay_base::{ErrorKind, Result};
use forebay_context::settings;
use forebay_engine::morsels;
use forebay_layout::{Maintenance, statements};
use forebay_store::TableSnapshot;

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::named::parse_name;
use crate::run::Run;

impl Run<'_> {
    fn maintenance(&self) -> Maintenance<'_> {
        let state = self.state();
        let config = state.config();
        Maintenance {
            engine: self.planner.engine(),
            catalog: self.planner.snapshot(),
            options: settings::of_loads(config),
            threads: config.target_partitions(),
            cancel: &self.statement.cancel,
            metrics: Arc::default(),
        }
    }

    /// Merges small segments of every table.
    pub(crate) fn checkpoint(&self) -> Result<Answer> {
        self.maintenance().checkpoint()?;
        self.done("CHECKPOINT")
    }

    /// Writes a table's segments anew, as the session's settings say.
    pub(crate) fn optimize(&self, text: &str) -> Result<Answer> {
        let name = find_name(&self.planner, &parse_name(text.trim().trim_end_matches(';'))?)?;
        self.maintenance().optimize(&find_table(&self.planner, &name)?)?;
        self.done("OPTIMIZE TABLE")
    }

    /// Runs ALTER TABLE … CLUSTER BY, of which `text` is what stands behind these first words.
    pub(crate) fn cluster_by(&self, text: &str) -> Result<Answer> {
        let statement = statements::cluster_by(text)?;
        let name = find_name(&self.planner, &statement.name)?;
        match find_table(&self.planner, &name) {
            Err(error) if statement.if_exists && error.kind() == ErrorKind::NotFound => {}
            found => {
                let (table, maintenance) = (found?, self.maintenance());
                self.statement.watch(&maintenance.metrics, morsels(&table)?.len());
                maintenance.cluster(&table, statement.columns.as_deref(), statement.curve)?;
            }
        }
        self.done("ALTER TABLE")
    }

    /// Finds out anew which values the blocks of a table have, or those of all tables. `text` is what stands behind ANALYZE.
    pub(crate) fn analyze(&self, text: &str) -> Result<Answer> {
        let statement = statements::analyze(text)?;
        let tables: Vec<Arc<TableSnapshot>> = match &statement.table {
            Some(name) => vec![find_table(&self.planner, &find_name(&self.planner, name)?)?],
            None => self.planner.snapshot().tables().cloned().collect(),
        };
        tables.iter().try_for_each(|table| self.maintenance().analyze(table, statement.sideways_only))?;
        self.done("ANALYZE")
    }
}
