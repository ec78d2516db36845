//! Prepared statements that find their rows by key, as programs of `forebay_point`: without a plan.
//!
//! They are not in the query log, which is for choosing orders of rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Instant, UNIX_EPOCH};

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::sql::parser::Statement as PlanStatement;
use forebay_base::{ErrorKind, Result};
use forebay_context::durability::SessionDurability;
use forebay_context::lock::lock;
use forebay_context::settings::{DescendingOrder, PointAccess};
use forebay_context::statement::StatementContext;
use forebay_point::{Named, Outcome, Parameters, Program, Scope, ordered, recognize};
use forebay_store::Transaction;
use forebay_syntax::parse::{self, Command};
use forebay_transactions::OpenTransaction;

use crate::answer::{Answer, ResultKind, Source};
use crate::execute::{SCANNING, TRIES};
use crate::prepared::Prepared;
use crate::session::Session;

impl Session {
    /// Runs a statement as a program; `None` where it is none, or has to be planned with these values.
    pub(crate) fn by_key(&self, prepared: &Prepared, values: &[Named<'_>]) -> Result<Option<Answer>> {
        let started = Instant::now();
        let base = lock(&self.base).clone();
        let config = base.state.config();
        let is_off = !PointAccess::of(config) || DescendingOrder::of(config) || self.records.load(Ordering::Relaxed);
        let Some(arrays) = ordered(prepared.template.names(), values).filter(|_| !is_off) else { return Ok(None) };
        let mut transaction = self.transactions.of_statement();
        let Some(schema) = transaction.schema_number() else { return Ok(None) };
        let recognized = |types: &[DataType]| self.recognized(prepared, &transaction, types);
        let known = prepared.point.find((schema, base.settings), &arrays, recognized);
        let (Some(program), Some(parameters)) = (known.program(), Parameters::of(&arrays)) else { return Ok(None) };
        self.transactions.set_durability(SessionDurability::of(config));
        let is_utc = config.options().execution.time_zone.as_deref().is_none_or(|zone| zone == "UTC");
        let mut tries = 1;
        let outcome = loop {
            let since = transaction.started().duration_since(UNIX_EPOCH).ok().filter(|_| is_utc);
            let now = since.and_then(|since| i64::try_from(since.as_micros()).ok());
            let run = |changes: &mut Transaction| {
                let engine = &self.shared.engine;
                program.run(Scope { engine, transaction: changes, parameters: &parameters, now })
            };
            let check = |unchecked: &Transaction| self.begin_untold(&transaction, SCANNING).check_again(unchecked);
            let outcome = transaction.rows_by_key(program.changes_rows(), run).and_then(|outcome| {
                // What is planned begins anew.
                if outcome.is_some() {
                    transaction.end_statement(&check)?;
                }
                Ok(outcome)
            });
            match outcome {
                Err(error) if error.kind() == ErrorKind::Conflict && !transaction.is_block() && tries < TRIES => {
                    transaction.fail();
                    self.shared.engine.store().wait_for_commits();
                    (transaction, tries) = (self.transactions.of_statement(), tries + 1);
                }
                // A plan says what there is to say of a read-only database.
                Err(error) if error.kind() == ErrorKind::Locked => break None,
                Err(error) => {
                    transaction.fail();
                    return Err(error);
                }
                Ok(outcome) => break outcome,
            }
        };
        Ok(outcome.map(|outcome| self.answer_by_key(outcome, transaction, started)))
    }

    /// The statement as a program, if it is one.
    fn recognized(&self, prepared: &Prepared, transaction: &OpenTransaction, types: &[DataType]) -> Option<Program> {
        let Command::Plan(statement) = parse::parse(&prepared.template.numbered()).ok()? else { return None };
        let PlanStatement::Statement(statement) = *statement else { return None };
        let (catalog, path) = (transaction.catalog(), self.path());
        let finder = |name: &_| {
            let name = path.find(&catalog, name).ok()?;
            catalog.stored_table_named(&name.schema, &name.name).cloned()
        };
        let parameters = (prepared.template.names(), types);
        recognize(&statement, &catalog, &finder, parameters, prepared.columns.as_ref())
    }

    fn answer_by_key(&self, outcome: Outcome, transaction: Arc<OpenTransaction>, started: Instant) -> Answer {
        let (cancel, account) = (self.running.cancel.clone(), self.shared.engine.open_account(""));
        let (kind, schema, batches, changed) = match outcome {
            Outcome::Rows(batch) => (ResultKind::Rows, batch.schema(), vec![batch], None),
            Outcome::Changed(rows) => {
                (ResultKind::Changed(rows), SchemaRef::new(Schema::empty()), Vec::new(), Some(rows))
            }
        };
        Answer {
            kind,
            schema,
            is_renamed: false,
            statement: Arc::new(StatementContext::new(cancel, account, SCANNING, started)),
            rows: changed.unwrap_or(0),
            elapsed: changed.map(|_| started.elapsed()),
            transaction: Some(transaction),
            logged: None,
            source: Source::Batches(batches.into_iter()),
        }
    }
}
