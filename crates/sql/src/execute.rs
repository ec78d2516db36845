//! The life of a statement: from its text to its answer.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use datafusion::execution::SessionState;
use forebay_base::Result;
use forebay_context::lock::lock;
use forebay_context::statement::StatementContext;
use forebay_syntax::parse::{self, Command};

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
        let Base { state, settings } = base;
        let key = PlanKey { settings, text: text.trim().to_owned() };
        let schema = self.shared.engine.store().catalog().schema_number();
        let mut is_anew = false;
        if let Some(plan) = self.shared.plans.find(&key, schema) {
            let run = self.begin(Arc::clone(&state), SCANNING, key.clone(), started);
            // Commits may have come in between: a plan is bound to the rows of the schema that it was made for.
            if run.planner.snapshot().schema_number() == schema
                && let Some(answer) = run.known(plan)?
            {
                return Ok(answer);
            }
            is_anew = true;
        }
        let command = parse::parse(text)?;
        let mut run = self.begin(state, activity(&command), key, started);
        run.leaves_room = is_anew;
        let answer = run.command(command);
        self.shared.plans.forget_before(self.shared.engine.store().catalog().schema_number());
        answer
    }

    /// Does `work` as a statement that runs nothing.
    pub(crate) fn on_snapshot<T>(&self, work: impl FnOnce(Run<'_>) -> Result<T>) -> Result<T> {
        let Base { state, settings } = lock(&self.base).clone();
        work(self.begin(state, "preparing", PlanKey { settings, text: String::new() }, Instant::now()))
    }

    fn begin(&self, state: Arc<SessionState>, activity: &str, key: PlanKey, started: Instant) -> Run<'_> {
        let cancel = self.running.cancel.clone();
        cancel.reset();
        let statement = Arc::new(StatementContext::new(cancel, activity, started));
        if self.records.load(Ordering::Relaxed) {
            statement.record();
        }
        *lock(&self.running.statement) = Some(Arc::clone(&statement));
        let planner = Planner::new(state, Arc::clone(&self.shared.engine), Arc::clone(&statement), self.path());
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
