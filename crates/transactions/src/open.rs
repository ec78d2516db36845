//! A transaction while it is open.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::SystemTime;

use forebay_base::{Durability, Error, ErrorKind, Result, TableId};
use forebay_store::{
    Blocker, Catalog, Held, Moment, Store, Table, TableSnapshot, Transaction, TransactionId, names_equal,
};

use crate::phase::{Killed, Phase};
use crate::{Access, Isolation};

/// Looks whether changes are right beside those that others have committed in the meantime, of which [`Transaction::unchecked`] tells.
pub type CheckAgain<'c> = &'c dyn Fn(&Transaction) -> Result<()>;

/// A transaction: of one statement, or of several between BEGIN and COMMIT.
#[derive(Debug)]
pub struct OpenTransaction {
    store: Store,
    access: Access,
    isolation: Isolation,
    /// Of several statements.
    is_block: bool,
    /// When it began; of one statement, when that is first asked.
    started: OnceLock<SystemTime>,
    /// Its number, once somebody has asked for it.
    number: OnceLock<u64>,
    /// When the session has commits acknowledged.
    durability: Arc<Mutex<Durability>>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// What the database was like when its first statement began; `None` before that.
    base: Option<Arc<Catalog>>,
    /// What it has changed of that; `None` while that is nothing.
    changes: Option<Transaction>,
    /// The number of the schema that it sees; `None` where it has changed that itself.
    schema: Option<u64>,
    savepoints: Vec<Savepoint>,
    phase: Phase,
    /// Of several statements, until it has ended.
    held: Option<Held>,
    /// Before the first change of the statement that runs, where it is one of several.
    before_statement: Option<Moment>,
    /// Whose change was in the way of its last one.
    blocker: Option<Blocker>,
}

/// A moment to which a transaction can go back.
#[derive(Debug)]
struct Savepoint {
    name: String,
    moment: Moment,
}

impl OpenTransaction {
    /// The transaction of one statement that begins now.
    pub(crate) fn of_statement(store: &Store, durability: &Arc<Mutex<Durability>>) -> Self {
        let new = Self::new(store, (Access::default(), Isolation::default()), false, durability);
        new.catalog();
        new
    }

    /// A transaction of several statements, which sees what its first statement will find.
    pub(crate) fn of_block(store: &Store, modes: (Access, Isolation), durability: &Arc<Mutex<Durability>>) -> Self {
        Self::new(store, modes, true, durability)
    }

    fn new(
        store: &Store,
        (access, isolation): (Access, Isolation),
        is_block: bool,
        durability: &Arc<Mutex<Durability>>,
    ) -> Self {
        let state = State {
            base: None,
            changes: None,
            schema: None,
            savepoints: Vec::new(),
            phase: Phase::Running,
            held: is_block.then(|| store.hold()),
            before_statement: None,
            blocker: None,
        };
        let (store, durability) = (store.clone(), Arc::clone(durability));
        let (number, started) = (OnceLock::new(), OnceLock::new());
        if is_block {
            started.get_or_init(SystemTime::now);
        }
        Self { store, access, isolation, is_block, started, number, durability, state: Mutex::new(state) }
    }

    /// Begins the next statement of several: where each of them has a snapshot of its own, it sees what is committed now. What the
    /// transaction has changed and what others have may not go together; then it goes on seeing what it saw, and its commit fails.
    pub(crate) fn begin_statement(&self) {
        let mut state = self.state();
        state.before_statement = None;
        if self.isolation == Isolation::ReadCommitted && state.phase == Phase::Running {
            state.see_newest(&self.store);
        }
    }

    /// Whether the next try of a statement that has met a conflict may see more than the one before.
    pub(crate) fn sees_more(&self) -> bool {
        !self.is_block || self.isolation == Isolation::ReadCommitted
    }

    /// Takes back what the statement that runs has changed.
    ///
    /// # Errors
    /// Those of going back to a moment.
    pub(crate) fn undo_statement(&self) -> Result<()> {
        let mut state = self.state();
        if let (Some(moment), Some(changes)) = (state.before_statement.take(), &mut state.changes) {
            changes.return_to(&moment)?;
            state.find_schema();
        }
        Ok(())
    }

    /// Whom to wait for after a conflict before the same is tried again, and the transaction's own name among those who wait.
    pub(crate) fn take_blocker(&self) -> Option<(Blocker, Option<TransactionId>)> {
        let mut state = self.state();
        let blocker = state.blocker.take()?;
        Some((blocker, state.changes.as_ref().and_then(Transaction::writer)))
    }

    /// The database that it is of.
    pub(crate) fn store(&self) -> &Store {
        &self.store
    }

    /// When it began: the time that its statements tell.
    pub fn started(&self) -> SystemTime {
        *self.started.get_or_init(SystemTime::now)
    }

    /// Its number, which no other one of the process has.
    pub(crate) fn number(&self) -> u64 {
        static LAST: AtomicU64 = AtomicU64::new(0);
        *self.number.get_or_init(|| LAST.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// What it sees of others.
    pub(crate) fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Whether its statements may not change anything.
    pub(crate) fn is_read_only(&self) -> bool {
        self.access == Access::ReadOnly
    }

    /// Whether a statement of it has failed, and the number of the commit that it sees the database after, if there is one yet; `None` while it
    /// is being changed.
    pub(crate) fn looked_at(&self) -> Option<(bool, Option<u64>)> {
        let state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        let base = state.base.as_ref();
        Some((state.phase == Phase::Aborted, base.map(|base| base.commit_number())))
    }

    /// Whether it may go on, or could after ROLLBACK TO.
    pub(crate) fn is_open(&self) -> bool {
        self.state().phase.is_open()
    }

    /// Ends one of several statements from outside: nothing of it is kept, it sees nothing any more, and its session is told at the next
    /// statement. Whether it was open.
    pub(crate) fn kill(&self, why: Killed) -> bool {
        let mut state = self.state();
        if !self.is_block || !state.phase.is_open() {
            return false;
        }
        state.phase = Phase::Killed(why);
        state.savepoints.clear();
        (state.held, state.base, state.schema, state.before_statement) = (None, None, None, None);
        // Others may wait for it.
        drop(state.changes.take());
        true
    }

    /// Whether it is one of several statements.
    pub fn is_block(&self) -> bool {
        self.is_block
    }

    /// The catalog as its next statement sees it.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.state().catalog(&self.store, self.isolation)
    }

    /// The number of the schema that [`OpenTransaction::catalog`] has, for plans that are kept; `None` where it is one that nobody else sees,
    /// and where no statement may run.
    pub fn schema_number(&self) -> Option<u64> {
        let mut state = self.state();
        state.catalog(&self.store, self.isolation);
        state.schema.filter(|_| state.phase == Phase::Running)
    }

    /// An error where no statement may run because an earlier one has failed.
    ///
    /// # Errors
    /// `Aborted`.
    pub fn check_usable(&self) -> Result<()> {
        self.state().phase.check_usable()
    }

    /// An error where nothing may be changed.
    ///
    /// # Errors
    /// `Input` in a read-only transaction; `Locked` in a database that is opened read-only.
    pub fn check_writable(&self) -> Result<()> {
        if self.access == Access::ReadOnly {
            return Err(Error::input("the transaction is read-only").hint("End it, and BEGIN one that may write"));
        }
        self.store.check_writable()
    }

    /// Says that it depends on the rows of a table whether what this transaction changes is right; gives the table as the transaction sees
    /// it. Nobody waits for it: who commits is asked again where others have changed these rows ([`CheckAgain`]).
    ///
    /// # Errors
    /// Those of [`OpenTransaction::check_writable`]; `Conflict` where the table is not there any more.
    pub fn rely_on_rows(&self, table: &Table) -> Result<Arc<TableSnapshot>> {
        self.check_writable()?;
        let mut state = self.state();
        let changes = state.begun(&self.store, self.isolation, |base| self.store.begin_on(base))?;
        changes.rely_on_rows(table.id);
        let now = changes.catalog().table_by_id(table.id).cloned();
        now.ok_or_else(|| Error::new(ErrorKind::Conflict, format!("table {} was dropped meanwhile", table.name)))
    }

    /// Changes the database for this transaction. One of a single statement changes the catalog of now, and commits of others wait from here
    /// until it has ended.
    ///
    /// # Errors
    /// Those of `change`, and of [`OpenTransaction::check_writable`]; `Conflict` where another transaction has changed the same and committed
    /// first.
    pub fn change<T>(&self, change: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        self.check_writable()?;
        let mut state = self.state();
        let begin = |base| if self.is_block { self.store.begin_on(base) } else { self.store.begin() };
        let changes = state.begun(&self.store, self.isolation, begin)?;
        let before = self.is_block.then(|| changes.moment());
        let changed = change(changes);
        let checked = if self.is_block && changed.is_ok() { changes.check_conflicts() } else { Ok(()) };
        let blocker = if changed.is_err() { changes.take_blocker() } else { None };
        (state.blocker, state.before_statement) = (blocker, state.before_statement.take().or(before));
        if self.is_block {
            state.find_schema();
        }
        checked.and(changed)
    }

    /// Has rows looked up by key, and changed where it `writes`: in what this transaction sees, and beside others who do the same.
    ///
    /// # Errors
    /// Those of `work`, and where it writes of [`OpenTransaction::check_writable`]; `Locked` in a database that is opened read-only.
    pub fn rows_by_key<T>(&self, writes: bool, work: impl FnOnce(&mut Transaction) -> Result<T>) -> Result<T> {
        if writes {
            self.check_writable()?;
        }
        let mut state = self.state();
        let changes = state.begun(&self.store, self.isolation, |base| self.store.begin_on(base))?;
        let done = work(changes);
        let blocker = if done.is_err() { changes.take_blocker() } else { None };
        if !self.is_block && changes.is_unchanged() {
            // What comes next begins otherwise.
            state.changes = None;
        }
        state.blocker = blocker;
        done
    }

    /// Takes the next `count` numbers of a sequence: at once and for good, whatever becomes of the transaction, but for a sequence that it
    /// has made itself.
    ///
    /// # Errors
    /// `NotFound`, `Constraint` where there are not as many, and `Conflict` where another transaction has made it anew.
    pub fn take_numbers(&self, schema: &str, name: &str, count: usize) -> Result<Vec<i64>> {
        self.check_writable()?;
        let seen = self.catalog();
        let base = self.state().base.clone();
        let is_same = |catalog: &Catalog| match (catalog.sequence(schema, name), seen.sequence(schema, name)) {
            (Some(one), Some(other)) => one.is_declared_as(other),
            (None, None) => true,
            _ => false,
        };
        if self.is_block && !base.is_some_and(|base| is_same(&base)) {
            return self.change(|changes| changes.take_numbers(schema, name, count));
        }
        let mut alone = self.store.begin()?;
        if !is_same(alone.catalog()) {
            let message = format!("sequence {schema}.{name} was changed by another transaction");
            return Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"));
        }
        let numbers = alone.take_numbers(schema, name, count)?;
        alone.set_durability(self.durability());
        alone.commit()?;
        Ok(numbers)
    }

    /// The catalog that it has seen so far, with its changes; `None` where none of its statements has begun.
    pub fn seen(&self) -> Option<Arc<Catalog>> {
        let state = self.state();
        state.changes.as_ref().map(|changes| Arc::clone(changes.catalog())).or_else(|| state.base.clone())
    }

    /// Says that a statement of it has failed: nothing more is done in a transaction of several, and nothing is kept of one.
    pub fn fail(&self) {
        let mut state = self.state();
        match self.is_block {
            true if state.phase == Phase::Running => state.phase = Phase::Aborted,
            true => {}
            // Others wait for it.
            false => drop(state.changes.take()),
        }
    }

    /// Ends a statement that has not failed: one that is a transaction of its own is committed. Gives the tables that others see
    /// changed now.
    ///
    /// # Errors
    /// Those of a commit, and of `check`.
    pub fn end_statement(&self, check: CheckAgain<'_>) -> Result<Vec<TableId>> {
        published(if self.is_block { None } else { self.state().changes.take() }, self.durability(), check)
    }

    /// Keeps what it has changed, and gives the tables that others see changed now; `None` where a statement has failed, and nothing of it
    /// is kept.
    ///
    /// # Errors
    /// Those of a commit, and of `check`. It has ended in any case.
    pub(crate) fn commit(&self, check: CheckAgain<'_>) -> Result<Option<Vec<TableId>>> {
        match self.end() {
            (Phase::Running, changes) => published(changes, self.durability(), check).map(Some),
            (Phase::Killed(why), _) => Err(why.error()),
            _ => Ok(None),
        }
    }

    fn durability(&self) -> Durability {
        *self.durability.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps nothing of what it has changed.
    pub(crate) fn roll_back(&self) {
        drop(self.end());
    }

    /// Remembers this moment.
    ///
    /// # Errors
    /// `Aborted`.
    pub(crate) fn set_savepoint(&self, name: &str) -> Result<()> {
        self.check_usable()?;
        let mut state = self.state();
        let catalog = state.catalog(&self.store, self.isolation);
        let moment = state.changes.as_mut().map(Transaction::moment);
        let moment = moment.unwrap_or_else(|| Moment::before_changes(catalog));
        state.savepoints.push(Savepoint { name: name.to_owned(), moment });
        Ok(())
    }

    /// Goes back to the last moment that was remembered by this name.
    ///
    /// # Errors
    /// `NotFound`.
    pub(crate) fn roll_back_to(&self, name: &str) -> Result<()> {
        let mut state = self.state();
        if let Phase::Killed(why) = state.phase {
            return Err(why.error());
        }
        let place = state.savepoint(name)?;
        state.savepoints.truncate(place + 1);
        let moment = state.savepoints[place].moment.clone();
        if let Some(changes) = &mut state.changes {
            changes.return_to(&moment)?;
        }
        state.find_schema();
        state.phase = Phase::Running;
        Ok(())
    }

    /// Forgets a moment, and those after it.
    ///
    /// # Errors
    /// `Aborted`, `NotFound`.
    pub(crate) fn release(&self, name: &str) -> Result<()> {
        self.check_usable()?;
        let mut state = self.state();
        let place = state.savepoint(name)?;
        state.savepoints.truncate(place);
        Ok(())
    }

    /// Ends it: in which phase it was, and what it had changed.
    fn end(&self) -> (Phase, Option<Transaction>) {
        let mut state = self.state();
        let before = std::mem::replace(&mut state.phase, Phase::Ended);
        state.savepoints.clear();
        state.held = None;
        (before, state.changes.take())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // What a panic left is as it was: changes are made to copies.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn catalog(&mut self, store: &Store, isolation: Isolation) -> Arc<Catalog> {
        if let Some(changes) = &self.changes {
            return Arc::clone(changes.catalog());
        }
        if self.base.is_none() {
            let catalog = store.catalog();
            self.base = Some(match isolation {
                Isolation::Snapshot | Isolation::ReadCommitted => catalog,
                Isolation::Serializable => Arc::new(catalog.noting_reads()),
            });
            self.find_schema();
        }
        self.base.clone().unwrap_or_default()
    }

    /// What the transaction changes, begun like this where it has changed nothing yet.
    fn begun(
        &mut self,
        store: &Store,
        isolation: Isolation,
        begin: impl FnOnce(Arc<Catalog>) -> Result<Transaction>,
    ) -> Result<&mut Transaction> {
        if !self.phase.is_open() {
            self.phase.check_usable()?;
        }
        let base = self.catalog(store, isolation);
        let changes = match self.changes.take() {
            Some(changes) => changes,
            None => begin(base)?,
        };
        Ok(self.changes.insert(changes))
    }

    /// Sees what is committed now, unless that does not go with what it has changed.
    fn see_newest(&mut self, store: &Store) {
        match &mut self.changes {
            Some(changes) => {
                if changes.see_newest().is_ok() {
                    self.base = Some(Arc::clone(changes.base()));
                }
            }
            None => self.base = self.base.take().map(|_| store.catalog()),
        }
        self.find_schema();
    }

    /// Finds out whether others see the schema that it sees.
    fn find_schema(&mut self) {
        let Some(base) = &self.base else { return };
        let is_own = self.changes.as_ref().is_some_and(|changes| !changes.catalog().has_schema_of(base));
        self.schema = (!is_own).then(|| base.schema_number());
    }

    fn savepoint(&self, name: &str) -> Result<usize> {
        let found = self.savepoints.iter().rposition(|savepoint| names_equal(&savepoint.name, name));
        found.ok_or_else(|| {
            Error::new(ErrorKind::NotFound, format!("savepoint {name} does not exist"))
                .hint("SAVEPOINT makes one, in the transaction that is open")
        })
    }
}

/// Commits changes; the tables that are concerned.
fn published(changes: Option<Transaction>, durability: Durability, check: CheckAgain<'_>) -> Result<Vec<TableId>> {
    let mut left = changes;
    let mut tables = Vec::new();
    while let Some(mut changes) = left {
        changes.set_durability(durability);
        tables = changes.changed_tables();
        left = changes.try_commit()?;
        if let Some(unchecked) = &left {
            check(unchecked)?;
        }
    }
    Ok(tables)
}
