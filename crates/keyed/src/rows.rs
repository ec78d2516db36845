//! Rows of tables by the values of some of their columns, as a transaction sees and changes them.
//!
//! Invariant: a call that fails has changed nothing. Must not know: where rows lie within segments, who began the transaction.

use std::ops::Bound;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result, limits};
use forebay_engine::Engine;
use forebay_engine::keyed::{self, FoundRows, KeyColumns, SegmentRow, WantedRows};
use forebay_store::{
    Cell, HotChange, HotRow, RowId, TableSnapshot, Transaction, end_of_prefix, place_of_chunk, push_key,
};

use crate::table::KeyedTable;

/// The rows of a database, for a transaction.
#[derive(Debug)]
pub struct KeyedRows<'t> {
    engine: &'t Engine,
    transaction: &'t mut Transaction,
    most_blocks: usize,
}

/// A row where it was found. Their order is that in which whoever scans the table finds them, as long as they are of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyedRow {
    /// A row of a segment.
    Stored(SegmentRow),
    /// A hot row.
    Hot(RowId),
}

/// Keys (`forebay_store::push_key`) from the first one on and below the second, if there is one.
pub type KeyRange = (Vec<u8>, Option<Vec<u8>>);

/// What the first columns are equal to, and least and greatest value of the next one.
pub type Beginning<'c> = (&'c [Cell<'c>], (Option<Cell<'c>>, Option<Cell<'c>>));

impl<'t> KeyedRows<'t> {
    /// The rows that this transaction sees.
    pub fn new(engine: &'t Engine, transaction: &'t mut Transaction) -> Self {
        Self { engine, transaction, most_blocks: usize::MAX }
    }

    /// The same, for who does otherwise where more blocks of a table may have a key: this is `Unsupported` then.
    #[must_use]
    pub fn in_few_blocks(self, most_blocks: usize) -> Self {
        Self { most_blocks, ..self }
    }

    /// The keys that begin with these values of the first columns.
    ///
    /// # Errors
    /// `Input` for values of other types than the columns have.
    pub fn keys_with(table: &KeyedTable, columns: &KeyColumns, values: &[Cell<'_>]) -> Result<KeyRange> {
        Self::check_types(table, columns, values)?;
        let mut low = Vec::with_capacity(9 * values.len());
        for (cell, position) in values.iter().zip(columns.positions()) {
            push_key(&mut low, *cell, table.columns()[*position].1.physical());
        }
        let high = end_of_prefix(&low);
        Ok((low, high))
    }

    fn check_types(table: &KeyedTable, columns: &KeyColumns, values: &[Cell<'_>]) -> Result<()> {
        let fits = |(cell, position): (&Cell<'_>, &usize)| cell.fits(table.columns()[*position].1.physical());
        match values.iter().zip(columns.positions()).all(fits) {
            true => Ok(()),
            false => Err(Error::input(format!("a key of table {} is of another type than its column", table.name()))),
        }
    }

    /// The row with these values in all columns of a PRIMARY KEY or UNIQUE constraint, by its number.
    ///
    /// # Errors
    /// Those of reading; `Input` for values of other types, or another number of them.
    pub fn find(&mut self, table: &KeyedTable, key: usize, values: &[Cell<'_>]) -> Result<Option<KeyedRow>> {
        let columns = &table.keys()[key];
        if values.len() != columns.positions().len() {
            let (name, columns) = (table.name(), columns.positions().len());
            return Err(Error::input(format!("a key of table {name} has {columns} values, not {}", values.len())));
        }
        Self::check_types(table, columns, values)?;
        if self.transaction.is_serializable() {
            let (low, high) = Self::keys_with(table, columns, values)?;
            self.transaction.note_key_range(table.id, columns.positions(), (&low, high.as_deref()));
        }
        if let Some(id) = self.transaction.find_hot(table.id, key, values)? {
            return Ok(Some(KeyedRow::Hot(id)));
        }
        if self.segments(table)?.segments.is_empty() {
            return Ok(None);
        }
        let (low, high) = Self::keys_with(table, columns, values)?;
        let found = self.stored(table, columns, (values, (None, None)), (&low, high.as_deref()), 1)?;
        Ok(found.rows().next().map(KeyedRow::Stored))
    }

    /// At most `most` rows whose values of these columns lie within a range, in the order of the values. `begin` says what it is about their first columns.
    ///
    /// # Errors
    /// Those of reading.
    pub fn range(
        &mut self,
        table: &KeyedTable,
        columns: &KeyColumns,
        begin: Beginning<'_>,
        range: &KeyRange,
        most: usize,
    ) -> Result<Vec<KeyedRow>> {
        let bounds = (range.0.as_slice(), range.1.as_deref());
        self.transaction.note_key_range(table.id, columns.positions(), bounds);
        let stored = self.stored(table, columns, begin, bounds, most)?;
        let mut hot = Vec::new();
        if most > 0 {
            let high = bounds.1.map_or(Bound::Unbounded, Bound::Excluded);
            self.transaction.hot_range(table.id, columns.positions(), (Bound::Included(bounds.0), high), |id| {
                hot.push(id);
                Ok(hot.len() < most)
            })?;
        }
        if hot.is_empty() {
            return Ok(stored.rows().map(KeyedRow::Stored).collect());
        }
        if stored.is_empty() {
            return Ok(hot.into_iter().map(KeyedRow::Hot).collect());
        }
        let mut all: Vec<(Vec<u8>, KeyedRow)> =
            stored.with_keys().map(|(key, row)| (key, KeyedRow::Stored(row))).collect();
        let mut row = HotRow::default();
        for id in hot {
            self.read(table, KeyedRow::Hot(id), columns.positions(), &mut row)?;
            let mut key = Vec::new();
            for (cell, column) in row.cells().zip(columns.positions()) {
                push_key(&mut key, cell, table.columns()[*column].1.physical());
            }
            all.push((key, KeyedRow::Hot(id)));
        }
        all.sort();
        all.truncate(most);
        Ok(all.into_iter().map(|(_, found)| found).collect())
    }

    /// Whether a row lies in a segment that is so small that a plan writes it anew where it is.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn is_rewritten_in_place(&self, table: &KeyedTable, row: KeyedRow) -> Result<bool> {
        let KeyedRow::Stored(row) = row else { return Ok(false) };
        Ok(row.segment(self.segments(table)?).stored_rows() <= limits::SMALL_SEGMENT_ROWS)
    }

    /// Puts rows into the order in which whoever scans the table finds them.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn sort_as_scanned(&self, table: &KeyedTable, rows: &mut [KeyedRow]) -> Result<()> {
        let is_hot = |row: &KeyedRow| matches!(row, KeyedRow::Hot(_));
        if rows.iter().all(is_hot) || !rows.iter().any(is_hot) {
            rows.sort_unstable();
            return Ok(());
        }
        let segments = self.segments(table)?;
        rows.sort_by_cached_key(|row| match row {
            KeyedRow::Stored(stored) => (stored.segment_place(segments), *row),
            KeyedRow::Hot(id) => (place_of_chunk(id.chunk()), *row),
        });
        Ok(())
    }

    /// Reads columns of a row into `out`, in the order in which they are named.
    ///
    /// # Errors
    /// Those of reading.
    pub fn read(&mut self, table: &KeyedTable, row: KeyedRow, columns: &[usize], out: &mut HotRow) -> Result<()> {
        match row {
            KeyedRow::Hot(id) => match self.transaction.read_hot(table.id, id, columns, out)? {
                true => Ok(()),
                false => Err(Error::internal("a hot row was found and is not there")),
            },
            KeyedRow::Stored(row) => {
                out.clear();
                keyed::read_row(self.engine, self.segments(table)?, row, columns, out)
            }
        }
    }

    /// Adds a row with a value for each column.
    ///
    /// # Errors
    /// `Constraint` where another row has one of its keys, or for NULL in a column that is NOT NULL; `Conflict` where a transaction that this one
    /// does not see has written a row with its key; `Input` for values that a column cannot have.
    pub fn insert(&mut self, table: &KeyedTable, cells: &[Cell<'_>]) -> Result<()> {
        if cells.len() != table.columns().len() {
            let (count, columns) = (cells.len(), table.columns().len());
            return Err(Error::input(format!("{count} values for the {columns} columns of table {}", table.name())));
        }
        cells.iter().enumerate().try_for_each(|(column, cell)| table.check_value(column, *cell))?;
        self.check_keys(table, |column| cells[column], |_| true)?;
        self.transaction.insert_hot(table.id, cells).map(drop)
    }

    /// Changes values of a row.
    ///
    /// # Errors
    /// As [`KeyedRows::insert`]; `Conflict` where another transaction has changed the row.
    pub fn update(&mut self, table: &KeyedTable, found: KeyedRow, changes: &[HotChange<'_>]) -> Result<()> {
        changes.iter().try_for_each(|(column, cell)| table.check_value(*column, *cell))?;
        let is_changed = |column: &usize| changes.iter().any(|(own, _)| own == column);
        let changes_keys = table.keys().iter().any(|key| key.positions().iter().any(is_changed));
        let row = match found {
            KeyedRow::Hot(id) if !changes_keys => return self.transaction.update_hot(table.id, id, changes).map(drop),
            _ => {
                let mut row = HotRow::with_capacity(table.columns().len());
                self.read(table, found, &(0..table.columns().len()).collect::<Vec<_>>(), &mut row)?;
                row
            }
        };
        let mut cells: Vec<Cell<'_>> = row.cells().collect();
        for (column, cell) in changes {
            cells[*column] = *cell;
        }
        if changes_keys {
            self.check_keys(table, |column| cells[column], |column| cells[column] != row.cell(column))?;
        }
        match found {
            KeyedRow::Hot(id) => self.transaction.update_hot(table.id, id, changes).map(drop),
            KeyedRow::Stored(row) => {
                let before = self.transaction.moment();
                let moved = self.delete_stored(table, row).and_then(|()| self.transaction.insert_hot(table.id, &cells));
                if moved.is_err() {
                    self.transaction.return_to(&before)?;
                }
                moved.map(drop)
            }
        }
    }

    /// Deletes a row.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the row.
    pub fn delete(&mut self, table: &KeyedTable, row: KeyedRow) -> Result<()> {
        match row {
            KeyedRow::Hot(id) => self.transaction.delete_hot(table.id, id).map(drop),
            KeyedRow::Stored(row) => self.delete_stored(table, row),
        }
    }

    /// Rows of segments within a range.
    fn stored(
        &mut self,
        table: &KeyedTable,
        columns: &KeyColumns,
        (values, next): Beginning<'_>,
        range: (&[u8], Option<&[u8]>),
        most: usize,
    ) -> Result<FoundRows> {
        let segments = Arc::clone(self.segments(table)?);
        if segments.segments.is_empty() {
            return Ok(FoundRows::default());
        }
        let is_deleted = self.transaction.deleted_one_by_one(table.id)?;
        let is_there = |row: &SegmentRow| {
            let (segment, block, row) = row.place(&segments);
            !is_deleted(segment, block, row)
        };
        let wanted = WantedRows { most, next, most_blocks: self.most_blocks, is_there: &is_there };
        keyed::rows_between(self.engine, &segments, columns, values, range, wanted)
    }

    fn delete_stored(&mut self, table: &KeyedTable, row: SegmentRow) -> Result<()> {
        let (segment, block, row) = row.place(self.segments(table)?);
        self.transaction.delete_stored(table.id, segment, block, row)
    }

    /// An error where a row of a segment has one of the keys that a row with these values would have, of those with such a column.
    fn check_keys<'c>(
        &mut self,
        table: &KeyedTable,
        cell: impl Fn(usize) -> Cell<'c>,
        is_new: impl Fn(usize) -> bool,
    ) -> Result<()> {
        for key in table.keys() {
            let values: Vec<Cell<'_>> = key.positions().iter().map(|column| cell(*column)).collect();
            let concerns = key.positions().iter().any(|column| is_new(*column)) && !values.contains(&Cell::Null);
            if !concerns {
                continue;
            }
            let (low, high) = Self::keys_with(table, key, &values)?;
            if !self.stored(table, key, (&values, (None, None)), (&low, high.as_deref()), 1)?.is_empty() {
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
