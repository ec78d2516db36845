//! Statements that find their rows by key, as programs of `forebay_point`: without a plan.
//!
//! They are not in the query log, which is for choosing orders of rows.

use std::sync::atomic::Ordering;
use std::sync::{Arc, LazyLock};
use std::time::{Instant, UNIX_EPOCH};

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use forebay_base::{ErrorKind, Result, TableId};
use forebay_context::lock::lock;
use forebay_context::settings::PointAccess;
use forebay_context::statement::StatementContext;
use forebay_layout::CLUSTER_OPTION;
use forebay_names::search_path::SearchPath;
use forebay_point::{Named, Outcome, Parameters, Program, Scope, recognize};
use forebay_store::{Catalog, Transaction};
use forebay_syntax::parse::{self, Command};
use forebay_transactions::{OpenTransaction, Retries, Working};

use crate::answer::{Answer, ResultKind, Source};
use crate::execute::SCANNING;
use crate::prepared::Prepared;
use crate::run::Run;
use crate::session::Session;

/// When a transaction began, in microseconds since 1970; `None` where programs may not ask for it.
fn began(transaction: &OpenTransaction, is_utc: bool) -> Option<i64> {
    let since = transaction.started().duration_since(UNIX_EPOCH).ok().filter(|_| is_utc)?;
    i64::try_from(since.as_micros()).ok()
}

impl Run<'_> {
    /// Runs a statement that changes rows as a program, where texts are such; `None` where it has to be planned.
    pub(crate) fn changed_by_key(&self, statement: &PlanStatement) -> Result<Option<Answer>> {
        let PlanStatement::Statement(statement) = statement else { return Ok(None) };
        if !matches!(**statement, Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_)) {
            return Ok(None);
        }
        let base = lock(&self.session.base).clone();
        let settings = self.session.points.settings(base.settings, base.state.config());
        if settings.access != PointAccess::On {
            return Ok(None);
        }
        let (catalog, path) = (self.planner.snapshot(), self.planner.path());
        let Some(program) = program_of(statement, catalog, path, (&[], &[]), None) else { return Ok(None) };
        // New rows of a table with an order are put into that.
        if matches!(**statement, Ast::Insert(_)) && program.is_of(&|id| is_clustered(catalog, id)) {
            return Ok(None);
        }
        let Some(parameters) = Parameters::of(&[]) else { return Ok(None) };
        let (engine, transaction) = (self.planner.engine(), self.planner.transaction());
        let now = began(transaction, settings.is_utc);
        let run = |changes: &mut Transaction| {
            // Whoever changes rows within a transaction has others wait for these, and not for all of their segment.
            let keeps_order = !transaction.is_block();
            program.run(Scope { engine, transaction: changes, parameters: &parameters, now, keeps_order })
        };
        match transaction.rows_by_key(true, run) {
            Ok(Some(Outcome::Changed(rows))) => self.changed(rows).map(Some),
            Ok(_) => Ok(None),
            // A plan says what there is to say of a transaction or a database that is read-only.
            Err(error) if matches!(error.kind(), ErrorKind::Locked | ErrorKind::Input) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

fn is_clustered(catalog: &Catalog, id: TableId) -> bool {
    catalog.stored_table(id).is_some_and(|table| table.options.get(None, CLUSTER_OPTION).is_some())
}

/// The program of a statement, if it is one.
fn program_of(
    statement: &Ast,
    catalog: &Catalog,
    path: &SearchPath,
    parameters: (&[String], &[DataType]),
    columns: Option<&SchemaRef>,
) -> Option<Program> {
    let finder = |name: &_| {
        let name = path.find(catalog, name).ok()?;
        catalog.stored_table_named(&name.schema, &name.name).cloned()
    };
    recognize(statement, catalog, &finder, parameters, columns)
}

impl Session {
    /// Runs a statement as a program; `None` where it is none, or has to be planned with these values.
    pub(crate) fn by_key(&self, prepared: &Prepared, values: &[Named]) -> Result<Option<Answer>> {
        let started = Instant::now();
        let base = lock(&self.base).clone();
        let settings = self.points.settings(base.settings, base.state.config());
        let is_on = settings.access != PointAccess::Off && !self.records.load(Ordering::Relaxed);
        let Some(values) = prepared.ordered(values).filter(|_| is_on) else { return Ok(None) };
        let mut transaction = self.transactions.of_statement();
        // One of its own is over before anybody has looked.
        let text = prepared.template.text();
        let working = transaction.is_block().then(|| self.transactions.work(&transaction, Arc::clone(text), started));
        let Some(schema) = transaction.schema_number() else { return Ok(None) };
        let recognized = |types: &[DataType]| self.recognized(prepared, &transaction, types);
        let known = prepared.point.find((schema, base.settings), &values, recognized);
        let (Some(program), Some(parameters)) = (known.program(), Parameters::of(&values)) else { return Ok(None) };
        self.transactions.set_durability(settings.durability);
        self.running.cancel.reset();
        let mut retries = Retries::new(settings.lock_timeout);
        let outcome = loop {
            let now = if program.needs_now() { began(&transaction, settings.is_utc) } else { None };
            let run = |changes: &mut Transaction| {
                let engine = &self.shared.engine;
                let parameters = &parameters;
                program.run(Scope { engine, transaction: changes, parameters, now, keeps_order: false })
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
                Err(error) if error.kind() == ErrorKind::Conflict => {
                    let is_cancelled = || self.running.cancel.check();
                    let again = retries.again(error, &self.transactions, &mut transaction, &is_cancelled);
                    if let Err(error) = again {
                        transaction.fail();
                        return Err(error);
                    }
                    if transaction.schema_number() != Some(schema) {
                        break None;
                    }
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
        Ok(outcome.map(|outcome| self.answer_by_key(outcome, (transaction, working), started)))
    }

    /// The statement as a program, if it is one.
    fn recognized(&self, prepared: &Prepared, transaction: &OpenTransaction, types: &[DataType]) -> Option<Program> {
        let Command::Plan(statement) = parse::parse(&prepared.template.numbered()).ok()? else { return None };
        let PlanStatement::Statement(statement) = *statement else { return None };
        let parameters = (prepared.template.names(), types);
        program_of(&statement, &transaction.catalog(), &self.path(), parameters, prepared.columns.as_ref())
    }

    fn answer_by_key(
        &self,
        outcome: Outcome,
        (transaction, working): (Arc<OpenTransaction>, Option<Working>),
        started: Instant,
    ) -> Answer {
        let given = match outcome {
            Outcome::Rows(rows) => (ResultKind::Rows, SchemaRef::clone(rows.schema()), Source::Found(rows)),
            Outcome::Changed(rows) => (ResultKind::Changed(rows), no_columns(), Source::nothing()),
        };
        let ended = Instant::now();
        if let Some(working) = working {
            working.end(ended);
        }
        self.answer_without_plan(given, transaction, (started, ended))
    }

    /// The answer of a statement without a plan: of its work nothing is counted.
    pub(crate) fn answer_without_plan(
        &self,
        (kind, schema, source): (ResultKind, SchemaRef, Source),
        transaction: Arc<OpenTransaction>,
        (started, ended): (Instant, Instant),
    ) -> Answer {
        let statement = self.points.statement(|| {
            let (cancel, account) = (self.running.cancel.clone(), self.shared.engine.open_account("by key"));
            Arc::new(StatementContext::new(cancel, account, SCANNING, started))
        });
        let rows = match kind {
            ResultKind::Changed(rows) => rows,
            ResultKind::Rows | ResultKind::Done(_) => 0,
        };
        let (elapsed, transaction) = (Some(ended - started), Some(transaction));
        let (working, logged, is_renamed) = (None, None, false);
        Answer { kind, schema, is_renamed, statement, rows, elapsed, transaction, working, logged, source }
    }
}

/// The schema of what has no rows.
pub(crate) fn no_columns() -> SchemaRef {
    static NONE: LazyLock<SchemaRef> = LazyLock::new(|| SchemaRef::new(Schema::empty()));
    SchemaRef::clone(&NONE)
}
