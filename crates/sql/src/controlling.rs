//! BEGIN, COMMIT, ROLLBACK and savepoints, and statements that a transaction of several cannot have.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::{Error, Result};
use forebay_context::lock::lock;
use forebay_context::waiting::{DefaultIsolation, IdleTimeout};
use forebay_store::Transaction;
use forebay_transactions::{CheckAgain, Control, Ended, Isolation};

use crate::answer::{Answer, ResultKind, Source};
use crate::execute::SCANNING;
use crate::points::no_columns;
use crate::prepared::Prepared;
use crate::run::Run;
use crate::session::Session;

impl Session {
    /// Runs a prepared BEGIN, COMMIT or the like, as it was read when it was prepared.
    pub(crate) fn execute_control(&self, prepared: &Prepared, control: &Control) -> Result<Answer> {
        let started = Instant::now();
        let base = lock(&self.base).clone();
        let settings = self.points.settings(base.settings, base.state.config());
        self.transactions.set_durability(settings.durability);
        self.running.cancel.reset();
        let transaction = self.transactions.of_statement();
        let _working = self.transactions.work(&transaction, Arc::clone(prepared.template.text()), started);
        let check = |unchecked: &Transaction| self.begin_untold(&transaction, SCANNING).check_again(unchecked);
        let done = self.control(control, &check).inspect_err(|_| transaction.fail())?;
        self.shared.plans.forget_before(self.shared.engine.store().catalog().schema_number());
        let (kind, source) = (ResultKind::Done(done.to_owned()), Source::nothing());
        Ok(self.answer_without_plan((kind, no_columns(), source), transaction, (started, Instant::now())))
    }

    /// Does with the session's transaction what a statement says; what is said of it then.
    fn control(&self, control: &Control, check: CheckAgain<'_>) -> Result<&'static str> {
        let transactions = &self.transactions;
        match control {
            Control::Begin(modes) => {
                let base = lock(&self.base).clone();
                let level = DefaultIsolation::of(base.state.config());
                transactions.begin(*modes, Isolation::named(level).unwrap_or_default())?;
                self.end_when_idle(IdleTimeout::of(base.state.config()));
                Ok("BEGIN")
            }
            Control::Commit => match transactions.commit(check)? {
                Ended::Committed(changed) => {
                    self.merge_gathered(&changed);
                    Ok("COMMIT")
                }
                // What it is, as in PostgreSQL.
                Ended::RolledBack => Ok("ROLLBACK"),
            },
            Control::Rollback => transactions.roll_back().map(|()| "ROLLBACK"),
            Control::Savepoint(name) => transactions.set_savepoint(name).map(|()| "SAVEPOINT"),
            Control::RollbackTo(name) => transactions.roll_back_to(name).map(|()| "ROLLBACK TO"),
            Control::Release(name) => transactions.release(name).map(|()| "RELEASE"),
            Control::Kill(number) => {
                self.shared.sessions.kill(*number, transactions.number())?;
                Ok("KILL")
            }
        }
    }

    /// Has the transaction that is open ended where it waits so long for a statement; 0 = never.
    fn end_when_idle(&self, longest: Duration) {
        let transactions = &self.transactions;
        let Some(number) = transactions.open_number().filter(|_| !longest.is_zero()) else { return };
        let session = Arc::downgrade(transactions);
        self.shared.runtime.spawn(async move {
            while let Some(left) = session.upgrade().and_then(|session| session.end_if_idle(number, longest)) {
                tokio::time::sleep(left).await;
            }
        });
    }
}

impl Run<'_> {
    /// Does with the session's transaction what a statement says.
    pub(crate) fn control(&self, control: &Control) -> Result<Answer> {
        self.done(self.session.control(control, &|unchecked| self.check_again(unchecked))?)
    }

    /// An error where `statement` is one of several of a transaction: it publishes what it does step by step.
    pub(crate) fn check_outside(&self, statement: &str) -> Result<()> {
        match self.planner.transaction().is_block() {
            false => Ok(()),
            true => Err(Error::input(format!("{statement} cannot run within a transaction"))
                .hint("COMMIT or ROLLBACK first: it changes how tables lie on disk, and no rows")),
        }
    }
}
