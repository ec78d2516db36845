//! The transaction.
//!
//! Invariant: what it finds are the rows of its snapshot with its own changes. Must not know: where rows lie within segments.

use std::sync::Arc;

use forebay_base::{Durability, Error, ErrorKind, Result};
use forebay_engine::Engine;
use forebay_engine::keyed::{self, SegmentRow};
use forebay_store::{
    Cell, DEFAULT_SCHEMA, Held, HotChange, HotRow, ReplacedCopies, RowChanges, RowId, TableSnapshot, Transaction,
    end_of_prefix, push_key,
};

use crate::table::KeyedTable;

/// A transaction over rows by key, at snapshot isolation: who changes a row that another one has changed since it began has a conflict.
#[derive(Debug)]
pub struct KeyedTransaction {
    engine: Arc<Engine>,
    transaction: Transaction,
    /// Nobody merges small segments meanwhile.
    _held: Held,
}

/// A row where it was found.
#[derive(Debug, Clone, Copy)]
enum Found {
    Hot(RowId),
    Stored(SegmentRow),
}

impl KeyedTransaction {
    /// One that sees what is committed now.
    ///
    /// # Errors
    /// `Locked` in a database that is open read-only.
    pub fn begin(engine: &Arc<Engine>) -> Result<Self> {
        let store = engine.store();
        let held = store.hold();
        Ok(Self { engine: Arc::clone(engine), transaction: store.begin_on(store.catalog())?, _held: held })
    }

    /// Has its commit acknowledged as early as this says.
    pub fn set_durability(&mut self, durability: Durability) {
        self.transaction.set_durability(durability);
    }

    /// A table of the schema `main`, or one that is named with its schema.
    ///
    /// # Errors
    /// `NotFound`; `Unsupported` for a table without a primary key, and for one with projections, foreign keys, CHECK, generated columns or
    /// unique indexes.
    pub fn table(&self, name: &str) -> Result<KeyedTable> {
        let catalog = self.transaction.catalog();
        let (schema, table) = name.split_once('.').unwrap_or((DEFAULT_SCHEMA, name));
        let found = catalog.stored_table_named(schema, table);
        let missing = || Error::new(ErrorKind::NotFound, format!("table {name} does not exist"));
        KeyedTable::of(found.ok_or_else(missing)?, catalog)
    }

    /// Reads columns of the row with this primary key into `out`, in the order in which they are named; false where there is none.
    ///
    /// # Errors
    /// Those of reading; `Input` for a key of other columns.
    pub fn get(&mut self, table: &KeyedTable, key: &[Cell<'_>], columns: &[usize], out: &mut HotRow) -> Result<bool> {
        match self.find(table, table.primary(), key)? {
            None => Ok(false),
            Some(found) => self.read(table, found, columns, out).map(|()| true),
        }
    }

    /// Adds a row with a value for each column.
    ///
    /// # Errors
    /// `Constraint` where another row has one of its keys, or for NULL in a column that is NOT NULL; `Conflict` where a transaction that this one
    /// does not see has written a row with its key.
    pub fn insert(&mut self, table: &KeyedTable, cells: &[Cell<'_>]) -> Result<()> {
        if cells.len() != table.columns().len() {
            let (count, columns) = (cells.len(), table.columns().len());
            return Err(Error::input(format!("{count} values for the {columns} columns of table {}", table.name())));
        }
        self.check_keys(table, |column| cells[column], |_| true)?;
        self.transaction.insert_hot(table.id, cells).map(drop)
    }

    /// Changes values of the row with this primary key; false where there is none.
    ///
    /// # Errors
    /// As [`KeyedTransaction::insert`]; `Conflict` where another transaction has changed the row.
    pub fn update(&mut self, table: &KeyedTable, key: &[Cell<'_>], changes: &[HotChange<'_>]) -> Result<bool> {
        let Some(found) = self.find(table, table.primary(), key)? else { return Ok(false) };
        let is_changed = |column: &usize| changes.iter().any(|(own, _)| own == column);
        let changes_keys = table.keys().iter().any(|key| key.positions().iter().any(is_changed));
        let row = match found {
            Found::Hot(id) if !changes_keys => return self.transaction.update_hot(table.id, id, changes),
            _ => {
                let mut row = HotRow::default();
                self.read(table, found, &(0..table.columns().len()).collect::<Vec<_>>(), &mut row)?;
                row
            }
        };
        let mut cells: Vec<Cell<'_>> = row.cells().collect();
        for (column, cell) in changes {
            let place = cells.get_mut(*column);
            *place.ok_or_else(|| Error::input(format!("table {} has no column {column}", table.name())))? = *cell;
        }
        if changes_keys {
            self.check_keys(table, |column| cells[column], |column| cells[column] != row.cell(column))?;
        }
        match found {
            Found::Hot(id) => self.transaction.update_hot(table.id, id, changes),
            Found::Stored(row) => {
                let before = self.transaction.moment();
                let moved = self.delete_stored(table, row).and_then(|()| self.transaction.insert_hot(table.id, &cells));
                moved.inspect_err(|_| self.transaction.return_to(&before)).map(|_| true)
            }
        }
    }

    /// Deletes the row with this primary key; false where there is none.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the row.
    pub fn delete(&mut self, table: &KeyedTable, key: &[Cell<'_>]) -> Result<bool> {
        match self.find(table, table.primary(), key)? {
            None => Ok(false),
            Some(Found::Hot(id)) => self.transaction.delete_hot(table.id, id),
            Some(Found::Stored(row)) => self.delete_stored(table, row).map(|()| true),
        }
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
        mut each: impl FnMut(&HotRow) -> Result<bool>,
    ) -> Result<()> {
        let mut row = HotRow::default();
        for found in self.find_all(table, table.primary(), values)? {
            self.read(table, found, columns, &mut row)?;
            if !each(&row)? {
                break;
            }
        }
        Ok(())
    }

    /// Makes its changes visible, as durable as was asked for.
    ///
    /// # Errors
    /// `Conflict` where others have committed what is in its way: nothing of it is kept, and it can be run again. Those of writing.
    pub fn commit(self) -> Result<()> {
        self.transaction.commit()
    }

    /// Keeps nothing of it.
    pub fn roll_back(self) {
        drop(self);
    }

    /// The row with these values in all columns of a key.
    fn find(&mut self, table: &KeyedTable, key: usize, values: &[Cell<'_>]) -> Result<Option<Found>> {
        if values.len() != table.keys()[key].positions().len() {
            let (name, columns) = (table.name(), table.keys()[key].positions().len());
            return Err(Error::input(format!("a key of table {name} has {columns} values, not {}", values.len())));
        }
        if let Some(id) = self.transaction.find_hot(table.id, key, values)? {
            return Ok(Some(Found::Hot(id)));
        }
        Ok(self.stored(table, key, values)?.first().map(|(_, row)| Found::Stored(*row)))
    }

    /// The rows whose key begins with these values, in its order.
    fn find_all(&mut self, table: &KeyedTable, key: usize, values: &[Cell<'_>]) -> Result<Vec<Found>> {
        let mut hot = Vec::new();
        let each = |id| {
            hot.push(id);
            Ok(true)
        };
        self.transaction.hot_range(table.id, key, values, each)?;
        let stored = self.stored(table, key, values)?;
        let mut all = Vec::with_capacity(hot.len() + stored.len());
        for id in hot {
            let row = self.transaction.hot_row(table.id, id)?;
            let row = row.ok_or_else(|| Error::internal("a hot row was found and is not there"))?;
            all.push((key_of(table, key, |column| row.cell(column)), Found::Hot(id)));
        }
        all.extend(stored.into_iter().map(|(key, row)| (key, Found::Stored(row))));
        all.sort_by(|(one, _), (other, _)| one.cmp(other));
        Ok(all.into_iter().map(|(_, found)| found).collect())
    }

    /// The same of rows in segments, with the bytes of their keys.
    fn stored(&self, table: &KeyedTable, key: usize, values: &[Cell<'_>]) -> Result<Vec<(Vec<u8>, SegmentRow)>> {
        let segments = self.segments(table)?;
        if segments.segments.is_empty() {
            return Ok(Vec::new());
        }
        let columns = &table.keys()[key];
        let mut low = Vec::new();
        for (cell, position) in values.iter().zip(columns.positions()) {
            let physical = table.columns()[*position].1.physical();
            if !cell.fits(physical) {
                let message = format!("a key of table {} is of another type than its column", table.name());
                return Err(Error::input(message));
            }
            push_key(&mut low, *cell, physical);
        }
        let high = end_of_prefix(&low);
        keyed::rows_between(&self.engine, segments, columns, values, (&low, high.as_deref()))
    }

    fn read(&mut self, table: &KeyedTable, found: Found, columns: &[usize], out: &mut HotRow) -> Result<()> {
        match found {
            Found::Hot(id) => match self.transaction.read_hot(table.id, id, columns, out)? {
                true => Ok(()),
                false => Err(Error::internal("a hot row was found and is not there")),
            },
            Found::Stored(row) => {
                out.clear();
                keyed::read_row(&self.engine, self.segments(table)?, row, columns, out)
            }
        }
    }

    fn delete_stored(&mut self, table: &KeyedTable, row: SegmentRow) -> Result<()> {
        let deleted = row.deleted(self.segments(table)?);
        let changes = RowChanges { replaced: Vec::new(), deleted: vec![(deleted, Vec::new())] };
        self.transaction.change_rows(table.id, changes, ReplacedCopies::new())
    }

    /// An error where a row of a segment has one of the keys that a row with these values would have, of those with such a column.
    fn check_keys<'c>(
        &mut self,
        table: &KeyedTable,
        cell: impl Fn(usize) -> Cell<'c>,
        is_new: impl Fn(usize) -> bool,
    ) -> Result<()> {
        for (number, key) in table.keys().iter().enumerate() {
            let values: Vec<Cell<'_>> = key.positions().iter().map(|column| cell(*column)).collect();
            let concerns = key.positions().iter().any(|column| is_new(*column)) && !values.contains(&Cell::Null);
            if concerns && !self.stored(table, number, &values)?.is_empty() {
                let names = key.positions().iter().map(|column| table.columns()[*column].0.as_str());
                let names = names.collect::<Vec<_>>().join(", ");
                let message = format!("another row of table {} has this key ({names})", table.name());
                return Err(Error::new(ErrorKind::Constraint, message));
            }
        }
        Ok(())
    }

    /// The table without its hot rows.
    fn segments(&self, table: &KeyedTable) -> Result<&Arc<TableSnapshot>> {
        let found = self.transaction.catalog().stored_table(table.id);
        found.ok_or_else(|| Error::new(ErrorKind::NotFound, format!("table {} does not exist", table.name())))
    }
}

/// The bytes of a row's key.
fn key_of<'c>(table: &KeyedTable, key: usize, cell: impl Fn(usize) -> Cell<'c>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for column in table.keys()[key].positions() {
        push_key(&mut bytes, cell(*column), table.columns()[*column].1.physical());
    }
    bytes
}
