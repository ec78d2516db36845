//! The transaction.
//!
//! Invariant: what it finds are the rows of its snapshot with its own changes. Must not know: where rows lie.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::{Durability, Error, ErrorKind, Result};
use forebay_engine::Engine;
use forebay_engine::keyed::KeyColumns;
use forebay_store::{Cell, Held, HotChange, HotRow, LOCK_TIMEOUT, Transaction, wait_for_writer};

use crate::added::check_added_segments;
use crate::known::KnownTables;
use crate::rows::{KeyedRow, KeyedRows};
use crate::table::KeyedTable;

/// A transaction over rows by key, at snapshot isolation unless it is made serializable. Who changes a row that another open transaction has changed waits
/// for that to end; where it commits, this one has a conflict.
#[derive(Debug)]
pub struct KeyedTransaction {
    engine: Arc<Engine>,
    tables: Arc<KnownTables>,
    transaction: Transaction,
    lock_timeout: Duration,
    /// Nobody merges small segments meanwhile.
    _held: Held,
}

impl KeyedTransaction {
    /// One that sees what is committed now.
    ///
    /// # Errors
    /// `Locked` in a database that is open read-only.
    pub fn begin(engine: &Arc<Engine>, tables: &Arc<KnownTables>) -> Result<Self> {
        let store = engine.store();
        let held = store.hold();
        let (engine, tables) = (Arc::clone(engine), Arc::clone(tables));
        let transaction = engine.store().begin_on(store.catalog())?;
        Ok(Self { transaction, engine, tables, lock_timeout: LOCK_TIMEOUT, _held: held })
    }

    /// Has its commit acknowledged as early as this says.
    pub fn set_durability(&mut self, durability: Durability) {
        self.transaction.set_durability(durability);
    }

    /// Has each call wait so long at most for another transaction that has changed the same; 0 = not at all. 10 seconds where this is not called.
    pub fn set_lock_timeout(&mut self, timeout: Duration) {
        self.lock_timeout = timeout;
    }

    /// Makes it serializable: its commit is a conflict where others have changed what it reads from now on.
    pub fn make_serializable(&mut self) {
        self.transaction.make_serializable();
    }

    /// A table of the schema `main`, or one that is named with its schema.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` for a table with projections, foreign keys, CHECK, generated columns, unique indexes, or columns of types that texts stand for (ENUM, UUID, JSON, lists, …).
    pub fn table(&self, name: &str) -> Result<KeyedTable> {
        self.tables.find(name, self.transaction.catalog(), |id| self.transaction.takes_hot_rows(id))
    }

    /// Reads columns of the row with this primary key into `out`, in the order in which they are named; false where there is none.
    ///
    /// # Errors
    /// Those of reading; `Input` for a key of other columns.
    pub fn get(&mut self, table: &KeyedTable, key: &[Cell<'_>], columns: &[usize], out: &mut HotRow) -> Result<bool> {
        match self.find(table, key)? {
            None => Ok(false),
            Some(found) => self.rows().read(table, found, columns, out).map(|()| true),
        }
    }

    /// Adds a row with a value for each column.
    ///
    /// # Errors
    /// `Constraint` where another row has one of its keys, or for NULL in a column that is NOT NULL; `Conflict` where a transaction that this one
    /// does not see has written a row with its key, `Busy` where that has not ended in time; `Input` for values that a column cannot have.
    pub fn insert(&mut self, table: &KeyedTable, cells: &[Cell<'_>]) -> Result<()> {
        self.waiting(|transaction| transaction.rows().insert(table, cells))
    }

    /// Changes values of the row with this primary key; false where there is none.
    ///
    /// # Errors
    /// As [`KeyedTransaction::insert`]; `Conflict` where another transaction has changed the row and committed, or waits for this one.
    pub fn update(&mut self, table: &KeyedTable, key: &[Cell<'_>], changes: &[HotChange<'_>]) -> Result<bool> {
        self.waiting(|transaction| match transaction.find(table, key)? {
            None => changes.iter().try_for_each(|(column, cell)| table.check_value(*column, *cell)).map(|()| false),
            Some(found) => transaction.rows().update(table, found, changes).map(|()| true),
        })
    }

    /// Deletes the row with this primary key; false where there is none.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the row.
    pub fn delete(&mut self, table: &KeyedTable, key: &[Cell<'_>]) -> Result<bool> {
        self.waiting(|transaction| match transaction.find(table, key)? {
            None => Ok(false),
            Some(found) => transaction.rows().delete(table, found).map(|()| true),
        })
    }

    /// Gives `each` these columns of the rows whose primary key begins with these values, in the order of the key, until it says that it has
    /// enough.
    ///
    /// # Errors
    /// Those of reading, and of `each`.
    pub fn range(
        &mut self,
        table: &KeyedTable,
        values: &[Cell<'_>],
        columns: &[usize],
        each: impl FnMut(&HotRow) -> Result<bool>,
    ) -> Result<()> {
        let key = primary(table)?;
        self.each(table, &table.keys()[key].clone(), values, columns, each)
    }

    /// Reads columns of the first of these rows into `out`; false where there is none.
    ///
    /// # Errors
    /// Those of reading.
    pub fn first(
        &mut self,
        table: &KeyedTable,
        values: &[Cell<'_>],
        columns: &[usize],
        out: &mut HotRow,
    ) -> Result<bool> {
        let key = &table.keys()[primary(table)?];
        let range = KeyedRows::keys_with(table, key, values)?;
        match self.rows().range(table, key, (values, (None, None)), &range, 1)?.first() {
            None => Ok(false),
            Some(found) => self.rows().read(table, *found, columns, out).map(|()| true),
        }
    }

    /// The rows of [`KeyedTransaction::range`] by an index, in its order: by the name of CREATE INDEX, whose columns begin with these values.
    ///
    /// # Errors
    /// As [`KeyedTransaction::range`]; `NotFound` where the table has no such index over columns.
    pub fn range_by(
        &mut self,
        table: &KeyedTable,
        index: &str,
        values: &[Cell<'_>],
        columns: &[usize],
        each: impl FnMut(&HotRow) -> Result<bool>,
    ) -> Result<()> {
        let index = table.index(index)?.clone();
        self.each(table, &index, values, columns, each)
    }

    /// Makes its changes visible, as durable as was asked for.
    ///
    /// # Errors
    /// `Conflict` where others have committed what is in its way: nothing of it is kept, and it can be run again. Those of writing.
    pub fn commit(self) -> Result<()> {
        let mut left = self.transaction.try_commit()?;
        while let Some(transaction) = left {
            if transaction.unchecked().is_some() {
                // Who changes rows by key relies on those alone.
                return Err(Error::internal("a transaction by key relies on rows of a table"));
            }
            check_added_segments(&self.engine, &transaction)?;
            left = transaction.try_commit()?;
        }
        Ok(())
    }

    /// Keeps nothing of it.
    pub fn roll_back(self) {
        drop(self);
    }

    /// A change, which waits for the transaction that is in its way and is tried again.
    fn waiting<T>(&mut self, mut change: impl FnMut(&mut Self) -> Result<T>) -> Result<T> {
        let mut until = None;
        loop {
            let error = match change(self) {
                Err(error) if error.kind() == ErrorKind::Conflict && !self.lock_timeout.is_zero() => error,
                done => return done,
            };
            let Some(blocker) = self.transaction.take_blocker() else { return Err(error) };
            let until = *until.get_or_insert_with(|| Instant::now() + self.lock_timeout);
            wait_for_writer(&error, (&blocker, self.transaction.writer()), until, &|| Ok(()))?;
        }
    }

    fn rows(&mut self) -> KeyedRows<'_> {
        KeyedRows::new(&self.engine, &mut self.transaction)
    }

    fn find(&mut self, table: &KeyedTable, key: &[Cell<'_>]) -> Result<Option<KeyedRow>> {
        let primary = primary(table)?;
        self.rows().find(table, primary, key)
    }

    fn each(
        &mut self,
        table: &KeyedTable,
        by: &KeyColumns,
        values: &[Cell<'_>],
        columns: &[usize],
        mut each: impl FnMut(&HotRow) -> Result<bool>,
    ) -> Result<()> {
        let range = KeyedRows::keys_with(table, by, values)?;
        let mut row = HotRow::default();
        for found in self.rows().range(table, by, (values, (None, None)), &range, usize::MAX)? {
            self.rows().read(table, found, columns, &mut row)?;
            if !each(&row)? {
                break;
            }
        }
        Ok(())
    }
}

/// The number of a table's primary key.
fn primary(table: &KeyedTable) -> Result<usize> {
    table.primary().ok_or_else(|| table.unsupported("it has no primary key"))
}
