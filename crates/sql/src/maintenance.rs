//! Statements that change how tables lie on disk, and nothing that queries see: CHECKPOINT, OPTIMIZE TABLE.

use forebay_base::Result;
use forebay_context::settings;
use forebay_engine::compact;

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::named::parse_name;
use crate::run::Run;

impl Run<'_> {
    /// Merges small segments of every table.
    pub(crate) fn checkpoint(&self) -> Result<Answer> {
        let engine = self.planner.engine();
        for table in self.planner.snapshot().tables() {
            let merged = compact::merge_small(engine, table, &self.statement.cancel)?;
            if merged.is_empty() {
                continue;
            }
            let mut transaction = engine.store().begin()?;
            for (old, new) in merged {
                transaction.replace(table.id, &old, new)?;
            }
            transaction.commit()?;
        }
        drop(engine.store().begin()?);
        self.done("CHECKPOINT")
    }

    /// Writes a table's segments anew, as the session's settings say.
    pub(crate) fn optimize(&self, text: &str) -> Result<Answer> {
        let engine = self.planner.engine();
        let name = find_name(&self.planner, &parse_name(text.trim().trim_end_matches(';'))?)?;
        let table = find_table(&self.planner, &name)?;
        // Only to fail early on a read-only database.
        drop(engine.store().begin()?);
        let state = self.state();
        let config = state.config();
        let (options, threads) = (settings::of_loads(config), config.target_partitions());
        let cancel = &self.statement.cancel;
        if let Some((old, new)) = compact::rewrite_all(engine, &table, options, threads, cancel)? {
            let mut transaction = engine.store().begin()?;
            transaction.replace(table.id, &old, new)?;
            transaction.commit()?;
        }
        self.done("OPTIMIZE TABLE")
    }
}
