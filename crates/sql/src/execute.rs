//! The life of a statement: from its text to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use datafusion::execution::SessionState;
use forebay_base::{ErrorKind, Result, TableId};
use forebay_changes::changes_rows;
use forebay_context::durability::SessionDurability;
use forebay_context::lock::lock;
use forebay_context::logged::Logged;
use forebay_context::statement::StatementContext;
use forebay_context::waiting::LockTimeout;
use forebay_engine::compact::{Merging, small_runs};
use forebay_plans::kept::PlanKey;
use forebay_store::Transaction;
use forebay_syntax::parse::{self, Command};
use forebay_transactions::{OpenTransaction, Retries};

use crate::answer::Answer;
use crate::catalog::Planner;
use crate::run::Run;
use crate::session::{Base, Session};

impl Session {
    /// Runs one statement.
    pub fn execute(&self, text: &str) -> Result<Answer> {
        let started = Instant::now();
        let base = lock(&self.base).clone();
        let logged = Logged::of(&self.shared.engine, &base.state, text, started);
        let answer = self.answer(text, base, started);
        match logged {
            Some(logged) => match answer {
                Ok(answer) => Ok(answer.noted_by(logged)),
                Err(error) => {
                    logged.failed(lock(&self.running.statement).as_deref(), &error);
                    Err(error)
                }
            },
            None => answer,
        }
    }

    fn answer(&self, text: &str, base: Base, started: Instant) -> Result<Answer> {
        self.transactions.set_durability(SessionDurability::of(base.state.config()));
        let ended = |transaction: &Arc<OpenTransaction>| -> Result<Answer> {
            let answer = self.answer_in(transaction, text, base.clone(), started)?;
            let check = |unchecked: &Transaction| self.begin_untold(transaction, SCANNING).check_again(unchecked);
            self.merge_gathered(&transaction.end_statement(&check)?);
            Ok(answer)
        };
        let may_be_tried_again = || {
            parse::parse(text).is_ok_and(|command| match command {
                Command::Plan(statement) => changes_rows(&statement),
                // A checkpoint puts rows into other segments step by step, which may meet changes of others at each.
                command => matches!(command, Command::Merge(_) | Command::Checkpoint),
            })
        };
        let mut transaction = self.transactions.of_statement();
        let working = self.transactions.work(&transaction, text, started);
        let mut retries = Retries::new(LockTimeout::of(base.state.config()));
        let answer: Result<Answer> = loop {
            // Where others have changed the same, nothing has been published of it.
            match ended(&transaction) {
                Err(error) if error.kind() == ErrorKind::Conflict && may_be_tried_again() => {
                    let is_cancelled = || self.running.cancel.check();
                    let again = retries.again(error, &self.transactions, &mut transaction, &is_cancelled);
                    if let Err(error) = again {
                        break Err(error);
                    }
                    working.goes_on_in(&transaction);
                }
                answer => break answer,
            }
        };
        self.shared.plans.forget_before(self.shared.engine.store().catalog().schema_number());
        match answer {
            Ok(answer) => Ok(answer.of(transaction, working)),
            Err(error) => {
                transaction.fail();
                Err(error)
            }
        }
    }

    fn answer_in(
        &self,
        transaction: &Arc<OpenTransaction>,
        text: &str,
        base: Base,
        started: Instant,
    ) -> Result<Answer> {
        let Base { state, settings } = base;
        let key = PlanKey { settings, text: text.trim().to_owned() };
        let mut is_anew = false;
        if let Some(plan) = transaction.schema_number().and_then(|schema| self.shared.plans.find(&key, schema)) {
            let run = self.begin(transaction, Arc::clone(&state), SCANNING, key.clone(), started);
            if let Some(answer) = run.known(plan)? {
                return Ok(answer);
            }
            is_anew = true;
        }
        let command = parse::parse(text)?;
        if !matches!(command, Command::Transaction(_)) {
            transaction.check_usable()?;
        }
        let mut run = self.begin(transaction, state, activity(&command), key, started);
        run.leaves_room = is_anew;
        run.command(command)
    }

    /// Does `work` as a statement that runs nothing.
    pub(crate) fn on_snapshot<T>(&self, work: impl FnOnce(Run<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.transactions.of_statement();
        let (catalog, read_before) = (transaction.catalog(), transaction.catalog().noted_reads());
        let done = transaction.check_usable().and_then(|()| work(self.begin_untold(&transaction, "preparing")));
        catalog.forget_reads_since(&read_before);
        done.inspect_err(|_| transaction.fail())
    }

    /// Merges small segments of tables that a commit has just changed, where many have gathered and no transaction is open.
    pub(crate) fn merge_gathered(&self, changed: &[TableId]) {
        let store = self.shared.engine.store();
        if store.is_held() {
            return;
        }
        let catalog = store.catalog();
        let tables = changed.iter().filter_map(|id| catalog.stored_table(*id));
        for table in tables.filter(|table| !small_runs(table, Merging::Gathered).is_empty()) {
            let Some(turn) = self.shared.merges.take(table.id) else { continue };
            let run = self.begin_untold(&self.transactions.of_statement(), activity(&Command::Checkpoint));
            // The commit stands; where others have changed the same, or hot rows lie between segments, or there is no room, a later one
            // tries again.
            if run.maintenance().merge_gathered(table.id).is_ok_and(|merged| merged) {
                turn.done();
            }
        }
    }

    /// A statement that no text says.
    pub(crate) fn begin_untold(&self, transaction: &Arc<OpenTransaction>, activity: &str) -> Run<'_> {
        let Base { state, settings } = lock(&self.base).clone();
        self.begin(transaction, state, activity, PlanKey { settings, text: String::new() }, Instant::now())
    }

    fn begin(
        &self,
        transaction: &Arc<OpenTransaction>,
        state: Arc<SessionState>,
        activity: &str,
        key: PlanKey,
        started: Instant,
    ) -> Run<'_> {
        let cancel = self.running.cancel.clone();
        cancel.reset();
        let account = self.shared.engine.open_account(&key.text);
        let statement = Arc::new(StatementContext::new(cancel, account, activity, started));
        if self.records.load(Ordering::Relaxed) {
            statement.record();
        }
        *lock(&self.running.statement) = Some(Arc::clone(&statement));
        let (engine, transaction) = (Arc::clone(&self.shared.engine), Arc::clone(transaction));
        let planner = Planner::new(state, engine, Arc::clone(&statement), transaction, self.path());
        Run::new(self, planner, statement, key)
    }
}

/// What a query does.
pub(crate) const SCANNING: &str = "scanning";

fn activity(command: &Command) -> &'static str {
    match command {
        Command::Copy(copy) if copy.to => "writing",
        Command::Copy(_) => "loading",
        Command::CheckDatabase => "checking",
        Command::BackUp(_) => "copying",
        Command::Checkpoint | Command::Optimize(_) => "merging",
        Command::Analyze(_) => "analysing",
        Command::ClusterBy(_) => "clustering",
        Command::AlterProjection(_) => "sorting",
        _ => SCANNING,
    }
}
