//! The transactions of one session, one after the other.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_base::{Durability, Error, Result, TableId};
use forebay_store::{Catalog, Store};

use crate::activity::{self, Activity};
use crate::phase::Killed;
use crate::{CheckAgain, Isolation, Modes, OpenTransaction, TransactionState, TransactionStatus, Working};

/// How a transaction has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All of it is kept; others see these tables changed.
    Committed(Vec<TableId>),
    /// Nothing of it is.
    RolledBack,
}

/// Cancels the statement that runs in a session.
pub struct Cancel(pub Box<dyn Fn() + Send + Sync>);

impl fmt::Debug for Cancel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Cancel")
    }
}

/// The transactions of a session.
#[derive(Debug)]
pub struct SessionTransactions {
    store: Store,
    /// The session's number.
    number: u64,
    cancel: Cancel,
    activity: Arc<Mutex<Activity>>,
    /// That between BEGIN and COMMIT.
    open: Mutex<Option<Arc<OpenTransaction>>>,
    /// When commits are acknowledged from now on.
    durability: Arc<Mutex<Durability>>,
}

impl SessionTransactions {
    /// Those of a new session.
    pub(crate) fn new(store: &Store, number: u64, cancel: Cancel) -> Self {
        let (store, open, activity, durability) = (store.clone(), Mutex::default(), Arc::default(), Arc::default());
        Self { store, number, cancel, activity, open, durability }
    }

    /// The number of the session.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Notes that a statement runs in this transaction, which began at this time, until what is returned is dropped.
    pub fn work(&self, transaction: &Arc<OpenTransaction>, text: impl Into<Arc<str>>, began: Instant) -> Working {
        Working::begin(&self.activity, transaction, (text.into(), began))
    }

    /// Ends the transaction that is open if it has this number and waits for its next statement for so long: how long it may still wait; `None`
    /// where it has ended.
    pub fn end_if_idle(&self, number: u64, longest: Duration) -> Option<Duration> {
        let open = self.open().clone().filter(|open| open.number() == number && open.is_open())?;
        let activity = self.activity();
        if activity.running > 0 {
            return Some(longest);
        }
        let idle = activity.since.elapsed();
        match longest.checked_sub(idle).filter(|left| !left.is_zero()) {
            Some(left) => Some(left),
            None => {
                open.kill(Killed::Idle);
                None
            }
        }
    }

    /// The number of the transaction that is open.
    pub fn open_number(&self) -> Option<u64> {
        self.open().as_ref().map(|open| open.number())
    }

    /// The transaction that is open, or that of the statement that runs.
    pub(crate) fn current(&self) -> Option<Arc<OpenTransaction>> {
        let open = self.open().clone();
        open.or_else(|| {
            let activity = self.activity();
            if activity.running > 0 { activity.transaction.upgrade() } else { None }
        })
    }

    /// Ends the transaction of this number, or has its only statement cancelled; whether it was there.
    pub(crate) fn kill(&self, number: u64) -> bool {
        let Some(current) = self.current().filter(|current| current.number() == number) else { return false };
        let runs = self.activity().running > 0;
        if runs {
            self.cancel.0();
        }
        if current.is_block() { current.kill(Killed::Asked) } else { runs }
    }

    /// What its transaction does, if it has one.
    pub(crate) fn status(&self) -> Option<TransactionStatus> {
        let current = self.current()?;
        let (is_aborted, snapshot) = match current.looked_at() {
            Some(_) if current.is_block() && !current.is_open() => return None,
            Some(seen) => seen,
            None => (false, None),
        };
        let activity = self.activity();
        let state = match (activity.running > 0, activity.waits) {
            (true, true) => TransactionState::Waiting,
            (true, false) => TransactionState::Running,
            (false, _) if is_aborted => TransactionState::Aborted,
            (false, _) => TransactionState::Idle,
        };
        Some(TransactionStatus {
            number: current.number(),
            session: self.number(),
            started: current.started(),
            isolation: current.isolation(),
            is_read_only: current.is_read_only(),
            is_explicit: current.is_block(),
            state,
            since: activity.since,
            snapshot,
            statement: Arc::clone(&activity.text),
        })
    }

    /// Notes that the statement that runs waits for another transaction, or no longer.
    pub(crate) fn set_waiting(&self, waits: bool) {
        let mut activity = self.activity();
        (activity.waits, activity.since) = (waits, Instant::now());
    }

    fn activity(&self) -> MutexGuard<'_, Activity> {
        activity::locked(&self.activity)
    }

    /// Says when commits are acknowledged from now on, also that of a transaction that is open.
    pub fn set_durability(&self, durability: Durability) {
        *self.durability.lock().unwrap_or_else(PoisonError::into_inner) = durability;
    }

    /// The transaction of a statement that begins now: that which is open, or one of its own.
    pub fn of_statement(&self) -> Arc<OpenTransaction> {
        match self.open().clone() {
            Some(open) => {
                open.begin_statement();
                open
            }
            None => Arc::new(OpenTransaction::of_statement(&self.store, &self.durability)),
        }
    }

    /// The catalog as a statement would see it that began now, though none does.
    pub fn catalog(&self) -> Arc<Catalog> {
        let seen = self.open().as_ref().and_then(|open| open.seen());
        seen.unwrap_or_else(|| self.store.catalog())
    }

    /// BEGIN, at this isolation level where its words name none.
    ///
    /// # Errors
    /// Where one is open.
    pub fn begin(&self, modes: Modes, default: Isolation) -> Result<()> {
        let mut open = self.open();
        if let Some(known) = open.as_ref() {
            known.check_usable()?;
            return Err(
                Error::input("a transaction cannot begin within another one").hint("COMMIT or ROLLBACK ends it")
            );
        }
        let modes = (modes.access, modes.isolation.unwrap_or(default));
        *open = Some(Arc::new(OpenTransaction::of_block(&self.store, modes, &self.durability)));
        Ok(())
    }

    /// COMMIT. Where a statement of the transaction has failed, nothing is kept.
    ///
    /// # Errors
    /// Where none is open; those of a commit and of `check`, after which none is open.
    pub fn commit(&self, check: CheckAgain<'_>) -> Result<Ended> {
        Ok(self.take("commit")?.commit(check)?.map_or(Ended::RolledBack, Ended::Committed))
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

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;
    use forebay_disk::MemoryDisk;
    use forebay_store::OpenMode;

    use super::*;
    use crate::{Access, Sessions};

    fn session(store: &Store) -> Arc<SessionTransactions> {
        Sessions::default().begin(store, Cancel(Box::new(|| ())))
    }

    fn store() -> Store {
        Store::open(Arc::new(MemoryDisk::new()), OpenMode::ReadWrite, "a test").expect("a database")
    }

    /// A statement that makes a view of this name.
    fn make(session: &SessionTransactions, name: &str) -> Result<()> {
        let transaction = session.of_statement();
        transaction.check_usable()?;
        let made = transaction.change(|changes| changes.create_view("main", name, "SELECT 1", false));
        match made.and_then(|()| transaction.end_statement(&|_| Ok(()))) {
            Ok(_) => Ok(()),
            Err(error) => {
                transaction.fail();
                Err(error)
            }
        }
    }

    fn views(catalog: &Catalog) -> Vec<String> {
        catalog.views().map(|view| view.name.clone()).collect()
    }

    #[test]
    fn statements_outside_are_transactions_of_their_own() {
        let store = store();
        let session = session(&store);
        make(&session, "a").expect("made");
        assert_eq!(make(&session, "a").expect_err("it is there").kind(), ErrorKind::AlreadyExists);
        // Who failed has let go of the writer's turn.
        make(&session, "b").expect("made");
        assert_eq!(views(&store.catalog()), ["a", "b"]);
        assert_eq!(session.commit(&|_| Ok(())).expect_err("none is open").kind(), ErrorKind::Input);
    }

    #[test]
    fn a_block_is_kept_or_not() {
        let store = store();
        let (session, other) = (session(&store), session(&store));
        session.begin(Modes::default(), Isolation::default()).expect("begun");
        make(&other, "before").expect("made");
        assert_eq!(views(&session.catalog()), ["before"], "looking is no statement");
        make(&session, "a").expect("made");
        make(&other, "after").expect("it does not wait");
        assert_eq!(views(&session.catalog()), ["a", "before"]);
        assert_eq!(views(&store.catalog()), ["after", "before"]);
        assert_eq!(
            session.commit(&|_| Ok(())).expect("committed"),
            Ended::Committed(Vec::new()),
            "views are no tables"
        );
        assert_eq!(views(&store.catalog()), ["a", "after", "before"]);
        session.begin(Modes::default(), Isolation::default()).expect("begun");
        make(&session, "b").expect("made");
        make(&session, "b").expect_err("it is there");
        assert_eq!(make(&session, "c").expect_err("refused").kind(), ErrorKind::Aborted);
        assert_eq!(session.commit(&|_| Ok(())).expect("ended"), Ended::RolledBack);
        assert_eq!(views(&store.catalog()).len(), 3);
        session.begin(Modes { access: Access::ReadOnly, ..Modes::default() }, Isolation::default()).expect("begun");
        assert!(make(&session, "b").is_err());
        session.roll_back().expect("ended");
    }

    #[test]
    fn savepoints_forget_what_came_after_them() {
        let store = store();
        let session = session(&store);
        session.begin(Modes::default(), Isolation::default()).expect("begun");
        session.set_savepoint("s").expect("set");
        make(&session, "a").expect("made");
        session.set_savepoint("S").expect("set");
        make(&session, "b").expect("made");
        make(&session, "b").expect_err("it is there");
        session.roll_back_to("s").expect("the later one");
        assert_eq!(views(&session.catalog()), ["a"]);
        session.release("s").expect("the later one");
        session.roll_back_to("s").expect("the earlier one");
        assert_eq!(views(&session.catalog()), Vec::<String>::new());
        assert_eq!(session.release("t").expect_err("never set").kind(), ErrorKind::NotFound);
        session.close();
        assert_eq!(session.roll_back().expect_err("closed").kind(), ErrorKind::Input);
    }

    #[test]
    fn plans_are_kept_for_schemas_that_others_see() {
        let store = store();
        let session = session(&store);
        let number = || session.of_statement().schema_number();
        let outside = number();
        assert!(outside.is_some());
        session.begin(Modes::default(), Isolation::default()).expect("begun");
        session.set_savepoint("s").expect("set");
        assert_eq!(number(), outside);
        make(&session, "a").expect("made");
        assert_eq!(number(), None);
        session.roll_back_to("s").expect("gone back");
        assert_eq!(number(), outside);
        make(&session, "a").expect("made");
        session.commit(&|_| Ok(())).expect("committed");
        assert!(number().is_some_and(|now| outside.is_some_and(|before| before < now)));
    }
}
