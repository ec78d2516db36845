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
use crate::plan_cache::PlanKey;
use crate::run::Run;
use crate::session::{Base, Session};

impl Session {
    /// Runs one statement.
    pub fn execute(&self, text: &str) -> Result<Answer> {
        let started = Instant::now();
        let Base { state, settings } = lock(&self.base).clone();
        let key = PlanKey { settings, text: text.trim().to_owned() };
        let commit = self.shared.engine.store().catalog().commit_number();
        if let Some(plan) = self.shared.plans.find(&key, commit) {
            return self.begin(state, SCANNING, key, started).known(plan);
        }
        let command = parse::parse(text)?;
        let answer = self.begin(state, activity(&command), key, started).command(command);
        let catalog = self.shared.engine.store().catalog();
        self.shared.plans.forget_before(catalog.commit_number());
        self.shared.known.forget_others(&catalog);
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
        let planner = Planner::new(
            state,
            Arc::clone(&self.shared.engine),
            Arc::clone(&self.shared.known),
            Arc::clone(&statement),
            self.path(),
        );
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
        _ => SCANNING,
    }
}
