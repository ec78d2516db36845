//! Statements that change how tables lie on disk, and nothing that queries see: CHECKPOINT, OPTIMIZE TABLE, ANALYZE, CLUSTER BY,
//! ADD and DROP PROJECTION; what of them stays in memory; and changes of rows, in all projections of their table.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::settings;
use forebay_engine::morsels;
use forebay_layout::{Maintenance, statements};
use forebay_store::{RowChanges, SealedSegment, Table, TableSnapshot};
use forebay_syntax::tokens::parse_name;
use forebay_system::answers;

use crate::answer::Answer;
use crate::execute::SCANNING;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

impl Run<'_> {
    pub(crate) fn maintenance(&self) -> Maintenance<'_> {
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

    /// CACHE TABLE and UNCACHE TABLE.
    pub(crate) fn pin(&self, name: &ObjectName, is_pinned: bool, if_exists: bool) -> Result<Answer> {
        match find_name(&self.planner, name).and_then(|name| find_table(&self.planner, &name)) {
            Err(error) if if_exists && error.kind() == ErrorKind::NotFound => {}
            table => self.planner.engine().cache().pin(table?.id, is_pinned),
        }
        self.done(if is_pinned { "CACHE TABLE" } else { "UNCACHE TABLE" })
    }

    /// Merges small segments of every table.
    pub(crate) fn checkpoint(&self) -> Result<Answer> {
        self.check_outside("CHECKPOINT")?;
        self.maintenance().checkpoint()?;
        self.done("CHECKPOINT")
    }

    /// Writes a table's segments anew, as the session's settings say; with SUGGEST, says what projections it is worth.
    pub(crate) fn optimize(&self, text: &str) -> Result<Answer> {
        let text = text.trim().trim_end_matches(';').trim_end();
        if let Some((table, word)) = text.rsplit_once(char::is_whitespace)
            && word.eq_ignore_ascii_case("suggest")
        {
            let table = find_table(&self.planner, &find_name(&self.planner, &parse_name(table.trim())?)?)?;
            return self.batch(answers::suggestions(&self.maintenance().suggest(&table)?)?);
        }
        self.check_outside("OPTIMIZE TABLE")?;
        self.on_segments(&|run| {
            let name = find_name(&run.planner, &parse_name(text)?)?;
            run.maintenance().optimize(&find_table(&run.planner, &name)?)?;
            run.done("OPTIMIZE TABLE")
        })
    }

    /// BACKUP TO: a copy of the database as of the last commit.
    pub(crate) fn back_up(&self, directory: &str) -> Result<Answer> {
        self.check_outside("BACKUP")?;
        let path = std::path::absolute(directory);
        let path = path.map_err(|error| Error::io(format_args!("find the directory '{directory}'"), &error))?;
        let (statement, mut reported) = (Arc::clone(&self.statement), 0);
        let holder = format!("process {}, which makes a backup", std::process::id());
        let report = self.planner.engine().back_up(&path.to_string_lossy(), &holder, &mut |done, total| {
            statement.expect(total);
            statement.advance(done - reported);
            reported = done;
            statement.cancel.check()
        })?;
        self.batch(answers::backup_report(&report)?)
    }

    /// Runs a statement over tables without hot rows, as facts and projections need them: those that there are become segments before, unless a
    /// transaction is changing them.
    fn on_segments(&self, work: &dyn Fn(&Run<'_>) -> Result<Answer>) -> Result<Answer> {
        if self.planner.snapshot().hot_tables().is_empty() {
            return work(self);
        }
        self.planner.engine().store().freeze()?;
        work(&self.session.begin_untold(&self.session.transactions.of_statement(), SCANNING))
    }

    /// Runs ALTER TABLE … CLUSTER BY, of which `text` is what stands behind these first words.
    pub(crate) fn cluster_by(&self, text: &str) -> Result<Answer> {
        self.check_outside("CLUSTER BY")?;
        let statement = statements::cluster_by(text)?;
        self.on_segments(&|run| {
            let name = find_name(&run.planner, &statement.name)?;
            match find_table(&run.planner, &name) {
                Err(error) if statement.if_exists && error.kind() == ErrorKind::NotFound => {}
                found => {
                    let (table, maintenance) = (found?, run.maintenance());
                    run.statement.watch(&maintenance.metrics, morsels(&table)?.len());
                    maintenance.cluster(&table, statement.columns.as_deref(), statement.curve)?;
                }
            }
            run.done("ALTER TABLE")
        })
    }

    /// Runs ALTER TABLE … ADD PROJECTION or DROP PROJECTION, of which `text` is what stands behind these first words.
    pub(crate) fn alter_projection(&self, text: &str) -> Result<Answer> {
        self.check_outside("ADD and DROP PROJECTION")?;
        let statement = statements::alter_projection(text)?;
        self.on_segments(&|run| {
            let name = find_name(&run.planner, &statement.table)?;
            match find_table(&run.planner, &name) {
                Err(error) if statement.if_exists && error.kind() == ErrorKind::NotFound => {}
                found => {
                    let (table, maintenance) = (found?, run.maintenance());
                    run.statement.watch(&maintenance.metrics, morsels(&table)?.len());
                    maintenance.alter_projection(&table, &statement)?;
                }
            }
            run.done("ALTER TABLE")
        })
    }

    /// Adds rows to a table and its projections.
    pub(crate) fn publish(&self, table: &Table, segments: Vec<SealedSegment>) -> Result<()> {
        if segments.is_empty() {
            return Ok(());
        }
        let maintenance = self.maintenance();
        let segments = maintenance.in_order(table, segments)?;
        let copies = maintenance.copies_of_new(table, &segments)?;
        let added = vec![(Vec::new(), segments)];
        self.planner.transaction().change(|transaction| transaction.change_rows(table.id, added, copies))
    }

    /// Changes rows of a table, and has its projections follow.
    pub(crate) fn replace(&self, table: &TableSnapshot, changes: RowChanges) -> Result<()> {
        if changes.is_empty() {
            return Ok(());
        }
        let copies = self.maintenance().copies_of_changed(table, &changes.replaced)?;
        self.planner.transaction().change(|transaction| {
            let (values, changes) = self.in_place(transaction, table, changes)?;
            transaction.change_rows(table.id, changes, copies)?;
            values.iter().try_for_each(|values| values.set(transaction))
        })
    }

    /// Finds out anew which values the blocks of a table have, or those of all tables. `text` is what stands behind ANALYZE.
    pub(crate) fn analyze(&self, text: &str) -> Result<Answer> {
        self.check_outside("ANALYZE")?;
        let statement = statements::analyze(text)?;
        self.on_segments(&|run| {
            let tables: Vec<Arc<TableSnapshot>> = match &statement.table {
                Some(name) => vec![find_table(&run.planner, &find_name(&run.planner, name)?)?],
                None => run.planner.snapshot().tables().cloned().collect(),
            };
            tables.iter().try_for_each(|table| run.maintenance().analyze(table, statement.sideways_only))?;
            run.done("ANALYZE")
        })
    }
}
