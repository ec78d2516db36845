//! BEGIN, COMMIT, ROLLBACK and savepoints, and statements that a transaction of several cannot have.

use std::sync::Arc;
use std::time::Duration;

use forebay_base::{Error, Result};
use forebay_context::lock::lock;
use forebay_context::waiting::{DefaultIsolation, IdleTimeout};
use forebay_transactions::{Control, Ended, Isolation};

use crate::answer::Answer;
use crate::run::Run;

impl Run<'_> {
    /// Does with the session's transaction what a statement says.
    pub(crate) fn control(&self, control: Control) -> Result<Answer> {
        let transactions = &self.session.transactions;
        match control {
            Control::Begin(modes) => {
                let base = lock(&self.session.base).clone();
                let level = DefaultIsolation::of(base.state.config());
                transactions.begin(modes, Isolation::named(level).unwrap_or_default())?;
                self.end_when_idle(IdleTimeout::of(base.state.config()));
                self.done("BEGIN")
            }
            Control::Commit => match transactions.commit(&|unchecked| self.check_again(unchecked))? {
                Ended::Committed(changed) => {
                    self.session.merge_gathered(&changed);
                    self.done("COMMIT")
                }
                // What it is, as in PostgreSQL.
                Ended::RolledBack => self.done("ROLLBACK"),
            },
            Control::Rollback => {
                transactions.roll_back()?;
                self.done("ROLLBACK")
            }
            Control::Savepoint(name) => {
                transactions.set_savepoint(&name)?;
                self.done("SAVEPOINT")
            }
            Control::RollbackTo(name) => {
                transactions.roll_back_to(&name)?;
                self.done("ROLLBACK TO")
            }
            Control::Release(name) => {
                transactions.release(&name)?;
                self.done("RELEASE")
            }
            Control::Kill(number) => {
                self.session.shared.sessions.kill(number, transactions.number())?;
                self.done("KILL")
            }
        }
    }

    /// Has the transaction that is open ended where it waits so long for a statement; 0 = never.
    fn end_when_idle(&self, longest: Duration) {
        let transactions = &self.session.transactions;
        let Some(number) = transactions.open_number().filter(|_| !longest.is_zero()) else { return };
        let session = Arc::downgrade(transactions);
        self.session.shared.runtime.spawn(async move {
            while let Some(left) = session.upgrade().and_then(|session| session.end_if_idle(number, longest)) {
                tokio::time::sleep(left).await;
            }
        });
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
