//! The life of a statement: from its text to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use datafusion::execution::SessionState;
use forebay_base::Result;
use forebay_context::lock::lock;
use forebay_context::statement::StatementContext;
use forebay_syntax::parse::{self, Command};
use forebay_transactions::OpenTransaction;

use crate::answer::Answer;
use crate::catalog::Planner;
use crate::logged::Logged;
use crate::plan_cache::PlanKey;
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
        let transaction = self.transactions.of_statement();
        let answer = self.answer_in(&transaction, text, base, started).and_then(|answer| {
            transaction.end_statement()?;
            Ok(answer)
        });
        self.shared.plans.forget_before(self.shared.engine.store().catalog().schema_number());
        match answer {
            Ok(answer) => Ok(answer.of(transaction)),
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
        let Base { state, settings } = lock(&self.base).clone();
        let (transaction, key) = (self.transactions.of_statement(), PlanKey { settings, text: String::new() });
        let run = || self.begin(&transaction, state, "preparing", key, Instant::now());
        let done = transaction.check_usable().and_then(|()| work(run()));
        done.inspect_err(|_| transaction.fail())
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
        let statement = Arc::new(StatementContext::new(cancel, activity, started));
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
const SCANNING: &str = "scanning";

fn activity(command: &Command) -> &'static str {
    match command {
        Command::Copy(copy) if copy.to => "writing",
        Command::Copy(_) => "loading",
        Command::CheckDatabase => "checking",
        Command::Checkpoint | Command::Optimize(_) => "merging",
        Command::Analyze(_) => "analysing",
        Command::ClusterBy(_) => "clustering",
        Command::AlterProjection(_) => "sorting",
        _ => SCANNING,
    }
}
