//! The transactions of one session, one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, Result};
use forebay_store::Store;

use crate::{Access, OpenTransaction};

/// How a transaction has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// All of it is kept.
    Committed,
    /// Nothing of it is.
    RolledBack,
}

/// The transactions of a session.
#[derive(Debug)]
pub struct SessionTransactions {
    store: Store,
    /// That between BEGIN and COMMIT.
    open: Mutex<Option<Arc<OpenTransaction>>>,
}

impl SessionTransactions {
    /// Those of a new session.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), open: Mutex::default() }
    }

    /// The transaction of a statement that begins now: that which is open, or one of its own.
    pub fn of_statement(&self) -> Arc<OpenTransaction> {
        let open = self.open().clone();
        open.unwrap_or_else(|| Arc::new(OpenTransaction::of_statement(&self.store)))
    }

    /// BEGIN.
    ///
    /// # Errors
    /// Where one is open.
    pub fn begin(&self, access: Access) -> Result<()> {
        let mut open = self.open();
        if let Some(known) = open.as_ref() {
            known.check_usable()?;
            return Err(
                Error::input("a transaction cannot begin within another one").hint("COMMIT or ROLLBACK ends it")
            );
        }
        *open = Some(Arc::new(OpenTransaction::of_block(&self.store, access)));
        Ok(())
    }

    /// COMMIT. Where a statement of the transaction has failed, nothing is kept.
    ///
    /// # Errors
    /// Where none is open; those of a commit, after which none is open.
    pub fn commit(&self) -> Result<Ended> {
        Ok(match self.take("commit")?.commit()? {
            true => Ended::Committed,
            false => Ended::RolledBack,
        })
    }

    /// ROLLBACK.
    ///
    /// # Errors
    /// Where none is open.
    pub fn roll_back(&self) -> Result<()> {
        self.take("roll back")?.roll_back();
        Ok(())
    }

    /// SAVEPOINT.
    ///
    /// # Errors
    /// Where no transaction is open, or it is aborted.
    pub fn set_savepoint(&self, name: &str) -> Result<()> {
        self.known("set a savepoint")?.set_savepoint(name)
    }

    /// ROLLBACK TO.
    ///
    /// # Errors
    /// Where no transaction is open, or it has no such savepoint.
    pub fn roll_back_to(&self, name: &str) -> Result<()> {
        self.known("roll back")?.roll_back_to(name)
    }

    /// RELEASE.
    ///
    /// # Errors
    /// Where no transaction is open, it is aborted, or it has no such savepoint.
    pub fn release(&self, name: &str) -> Result<()> {
        self.known("release a savepoint")?.release(name)
    }

    /// The session ends: what is open is rolled back.
    pub fn close(&self) {
        if let Some(open) = self.open().take() {
            open.roll_back();
        }
    }

    fn known(&self, what: &str) -> Result<Arc<OpenTransaction>> {
        self.open().clone().ok_or_else(|| none_open(what))
    }

    fn take(&self, what: &str) -> Result<Arc<OpenTransaction>> {
        self.open().take().ok_or_else(|| none_open(what))
    }

    fn open(&self) -> MutexGuard<'_, Option<Arc<OpenTransaction>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn none_open(what: &str) -> Error {
    Error::input(format!("cannot {what}: no transaction is open")).hint("BEGIN opens one")
}
