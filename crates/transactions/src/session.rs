//! The transactions of one session, one after the other.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Durability, Error, Result, TableId};
use forebay_store::{Catalog, Store};

use crate::{CheckAgain, Isolation, Modes, OpenTransaction};

/// How a transaction has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All of it is kept; others see these tables changed.
    Committed(Vec<TableId>),
    /// Nothing of it is.
    RolledBack,
}

/// The transactions of a session.
#[derive(Debug)]
pub struct SessionTransactions {
    store: Store,
    /// That between BEGIN and COMMIT.
    open: Mutex<Option<Arc<OpenTransaction>>>,
    /// When commits are acknowledged from now on.
    durability: Arc<Mutex<Durability>>,
}

impl SessionTransactions {
    /// Those of a new session.
    pub fn new(store: &Store) -> Self {
        Self { store: store.clone(), open: Mutex::default(), durability: Arc::default() }
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
    use crate::Access;

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
        let session = SessionTransactions::new(&store);
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
        let (session, other) = (SessionTransactions::new(&store), SessionTransactions::new(&store));
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
        let session = SessionTransactions::new(&store);
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
        let session = SessionTransactions::new(&store);
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
