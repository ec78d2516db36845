//! The sessions of a database as others see them: which transactions there are, what they do, and how one is ended from outside.
//!
//! A session that does nothing costs nothing here, and one that runs statements notes them in a place of its own. Must not know: what a statement does.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use forebay_base::{Error, ErrorKind, Result};
use forebay_store::Store;

use crate::{Cancel, SessionTransactions, TransactionStatus};

/// The sessions of a database.
#[derive(Debug, Default)]
pub struct Sessions {
    last: AtomicU64,
    known: Mutex<BTreeMap<u64, Weak<SessionTransactions>>>,
}

impl Sessions {
    /// The transactions of a new session, of which `cancel` cancels the statement that runs.
    pub fn begin(&self, store: &Store, cancel: Cancel) -> Arc<SessionTransactions> {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let session = Arc::new(SessionTransactions::new(store, number, cancel));
        let mut known = self.known();
        // Of sessions that have ended nobody knows any more.
        known.retain(|_, session| session.strong_count() > 0);
        known.insert(number, Arc::downgrade(&session));
        session
    }

    /// All transactions, those of one statement while that runs.
    pub fn transactions(&self) -> Vec<TransactionStatus> {
        self.sessions().iter().filter_map(|session| session.status()).collect()
    }

    /// Ends a transaction: nothing that it has changed is kept, its snapshot is given up, and the statement that runs is cancelled. `own` is the
    /// number of the session that asks for it.
    ///
    /// # Errors
    /// `NotFound`; `Input` where it is the one that asks.
    pub fn kill(&self, number: u64, own: u64) -> Result<()> {
        let is_it = |session: &&Arc<SessionTransactions>| session.current().is_some_and(|it| it.number() == number);
        let sessions = self.sessions();
        let session = sessions.iter().find(is_it);
        if session.is_some_and(|session| session.number() == own) {
            let message = format!("transaction {number} is the one of this session");
            return Err(Error::input(message).hint("ROLLBACK ends it"));
        }
        match session.is_some_and(|session| session.kill(number)) {
            true => Ok(()),
            false => Err(Error::new(ErrorKind::NotFound, format!("transaction {number} is not open"))
                .hint("SELECT transaction_id, state, statement FROM forebay.transactions")),
        }
    }

    fn sessions(&self) -> Vec<Arc<SessionTransactions>> {
        self.known().values().filter_map(Weak::upgrade).collect()
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<SessionTransactions>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
