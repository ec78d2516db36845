//! What a transaction changes of hot rows, and moments that it can go back to.
//!
//! Invariant: whoever asks the transaction's catalog for a table after a change finds the change there.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use forebay_base::{Context, Error, ErrorKind, Result, TableId};
use forebay_hot::{Cell, HotTable, KeyIndex, Row, RowId, Savepoint};

use super::{Transaction, constraint, not_found};
use crate::catalog::Catalog;
use crate::deleted::DeletedRows;
use crate::hot::{HotChange, frozen, key_in, read_row};
use crate::segment::Segment;
use crate::store::Store;
use crate::table_snapshot::TableSnapshot;

/// What a transaction had changed at some time.
#[derive(Debug, Clone)]
pub struct Moment {
    catalog: Arc<Catalog>,
    /// `None` where it had written no hot rows.
    hot: Option<Savepoint>,
}

impl Moment {
    /// When a transaction that began on this catalog had changed nothing.
    pub fn before_changes(catalog: Arc<Catalog>) -> Self {
        Self { catalog, hot: None }
    }
}

impl Transaction {
    /// Now, to come back to.
    pub fn moment(&mut self) -> Moment {
        Moment { catalog: Arc::clone(&self.working), hot: self.hot.as_mut().map(forebay_hot::Transaction::savepoint) }
    }

    /// Takes back all that was changed since a moment of this transaction's.
    pub fn return_to(&mut self, moment: &Moment) {
        match (moment.hot, &mut self.hot) {
            (Some(savepoint), Some(writes)) => writes.roll_back_to(savepoint),
            (_, writes) => drop(writes.take()),
        }
        self.working = Arc::clone(&moment.catalog);
    }

    /// Adds a hot row with a value for each column; its number.
    ///
    /// # Errors
    /// `Constraint` for NULL in a column that is NOT NULL; `NotFound`; those of [`HotTable::insert`].
    pub fn insert_hot(&mut self, id: TableId, cells: &[Cell<'_>]) -> Result<RowId> {
        self.check_values(id, cells.iter().copied().enumerate())?;
        let (rows, keys) = self.hot_rows_of(id)?;
        let writes = self.hot_writes();
        let row = rows.insert(writes, cells)?;
        let enter = |index: &KeyIndex| match key_in(index, |column| cells[column]) {
            Some(key) => index.insert(writes.view(), &key, row),
            None => Ok(()),
        };
        let entered = keys.iter().try_for_each(enter);
        if entered.is_err() {
            rows.delete(writes, row)?;
        }
        self.see_hot(id, &rows);
        self.with_key(id, entered)?;
        self.relies_on_segments(id, &keys);
        Ok(row)
    }

    /// Changes values of a hot row; false if the transaction does not see it.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the row; else as [`Transaction::insert_hot`].
    pub fn update_hot(&mut self, id: TableId, row: RowId, changes: &[HotChange<'_>]) -> Result<bool> {
        self.check_values(id, changes.iter().copied())?;
        let (rows, keys) = self.hot_rows_of(id)?;
        let is_changed =
            |index: &&KeyIndex| index.columns().iter().any(|column| changes.iter().any(|(own, _)| own == column));
        let changed: Vec<&KeyIndex> = keys.iter().filter(is_changed).collect();
        let writes = self.hot_writes();
        if changed.is_empty() {
            let is_there = rows.update(writes, row, changes)?;
            self.see_hot(id, &rows);
            return Ok(is_there);
        }
        let before = writes.savepoint();
        let is_there = rows.update(writes, row, changes)?;
        let mut entered = Ok(());
        if let Some(values) = read_row(&rows, writes.view(), row)?.filter(|_| is_there) {
            let keys = changed.iter().filter_map(|index| Some((index, key_in(index, |column| values.cell(column))?)));
            entered = { keys }.try_for_each(|(index, key)| index.insert(writes.view(), &key, row));
        }
        if entered.is_err() {
            writes.roll_back_to(before);
        }
        self.see_hot(id, &rows);
        self.with_key(id, entered)?;
        self.relies_on_segments(id, &keys);
        Ok(is_there)
    }

    /// Deletes a hot row; false if the transaction does not see it.
    ///
    /// # Errors
    /// As [`Transaction::update_hot`].
    pub fn delete_hot(&mut self, id: TableId, row: RowId) -> Result<bool> {
        let (rows, _) = self.hot_rows_of(id)?;
        let is_there = rows.delete(self.hot_writes(), row)?;
        self.see_hot(id, &rows);
        Ok(is_there)
    }

    /// All values of a hot row; `None` if the transaction does not see it.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn hot_row(&mut self, id: TableId, row: RowId) -> Result<Option<Row>> {
        let (rows, _) = self.hot_rows_of(id)?;
        read_row(&rows, self.hot_writes().view(), row)
    }

    /// The hot row with this key that it sees: values of the columns of the table's `key`-th PRIMARY KEY or UNIQUE constraint, in that order.
    ///
    /// # Errors
    /// `NotFound` where there is no such table or key.
    pub fn find_hot(&mut self, id: TableId, key: usize, values: &[Cell<'_>]) -> Result<Option<RowId>> {
        let (_, keys) = self.hot_rows_of(id)?;
        let index = keys.get(key).ok_or_else(|| not_found("key", &format!("number {key}")))?;
        Ok(index.find(self.hot_writes().view(), &index.prefix_of(values)))
    }

    /// Calls `each` with hot rows that it sees whose key begins with these values, in the order of the key, until it says that it has
    /// enough; see [`Transaction::find_hot`].
    ///
    /// # Errors
    /// Those of `each`, and of [`Transaction::find_hot`].
    pub fn hot_range(
        &mut self,
        id: TableId,
        key: usize,
        values: &[Cell<'_>],
        each: impl FnMut(RowId) -> Result<bool>,
    ) -> Result<()> {
        let (_, keys) = self.hot_rows_of(id)?;
        let index = keys.get(key).ok_or_else(|| not_found("key", &format!("number {key}")))?;
        let low = index.prefix_of(values);
        let high = forebay_hot::end_of_prefix(&low);
        let high = high.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        index.range(self.hot_writes().view(), (Bound::Included(&low), high), each)
    }

    /// The numbers of the hot rows of a table that it sees, in the order in which whoever scans the table finds them.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn hot_row_ids(&self, id: TableId) -> Result<Vec<RowId>> {
        let images = self.working.hot.images(self.stored_table(id)?);
        Ok(images.flat_map(|(_, rows)| rows).copied().collect())
    }

    /// Reads columns of a hot row into `out`; false if the transaction does not see it.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn read_hot(&mut self, id: TableId, row: RowId, columns: &[usize], out: &mut Row) -> Result<bool> {
        let (rows, _) = self.hot_rows_of(id)?;
        rows.get(self.hot_writes().view(), row, columns, out)
    }

    /// Puts the hot rows of a table that it sees into a segment, behind all others.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed one of them; those of writing.
    pub fn freeze_hot(&mut self, id: TableId) -> Result<()> {
        let Some(rows) = self.working.hot.rows(id).cloned() else { return Ok(()) };
        let table = Arc::clone(self.stored_table(id)?);
        let store = Store { inner: Arc::clone(&self.inner) };
        let writes = self.hot_writes();
        let Some((sealed, ids)) = frozen(&rows, writes.view(), &table, |columns| store.segment_writer(columns))? else {
            return Ok(());
        };
        for row in ids {
            rows.delete(writes, row)?;
        }
        self.see_hot(id, &rows);
        self.snapshot_mut(id)?.append([Arc::clone(sealed.segment())]);
        Ok(())
    }

    /// The numbers of hot rows that are these rows of a segment of the table as it is seen; of all of its rows where none are named.
    pub(super) fn rows_of_image(&self, id: TableId, image: &Segment, rows: Option<&DeletedRows>) -> Result<Vec<RowId>> {
        let found = self.working.hot.images(self.stored_table(id)?).find(|(segment, _)| *segment == image.id());
        let (_, ids) = found.ok_or_else(|| Error::internal("hot rows were changed since they were seen"))?;
        let Some(rows) = rows else { return Ok(ids.to_vec()) };
        let block_rows = image.groups()?.iter().flat_map(|group| &group.block_rows);
        let starts = block_rows.scan(0, |next, rows| Some(std::mem::replace(next, *next + *rows as usize)));
        let starts: Vec<usize> = starts.collect();
        let places = rows.blocks().flat_map(|(block, rows)| {
            let start = starts.get(block as usize).copied().unwrap_or(usize::MAX);
            rows.rows().map(move |row| start.saturating_add(row as usize))
        });
        let ids: Option<Vec<RowId>> = places.map(|place| ids.get(place).copied()).collect();
        ids.ok_or_else(|| Error::internal(format!("{} does not have all of these rows", image.path())))
    }

    /// Deletes hot rows that were seen.
    pub(super) fn delete_seen(&mut self, id: TableId, rows: &[RowId]) -> Result<()> {
        for row in rows {
            if !self.delete_hot(id, *row)? {
                return Err(Error::internal(format!("hot {row} is gone, though it was seen")));
            }
        }
        Ok(())
    }

    /// The tables of whose hot rows it has written some.
    pub(super) fn hot_tables(&self) -> BTreeSet<TableId> {
        self.hot.iter().flat_map(forebay_hot::Transaction::written).map(|(table, _)| TableId(table)).collect()
    }

    /// An error where it changes the definition of a table whose hot rows others have changed, or the other way round.
    pub(super) fn check_hot_conflicts(&self, now: &Catalog, hot_beside: &BTreeSet<TableId>) -> Result<()> {
        let is_same = |one: Option<&Arc<TableSnapshot>>, other: Option<&Arc<TableSnapshot>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.is_declared_as(other),
            (None, None) => true,
            _ => false,
        };
        let is_altered = |catalog: &Catalog, id: TableId| !is_same(self.base.tables.get(&id), catalog.tables.get(&id));
        let conflict = |id: TableId, what: &str| {
            let name = self.base.tables.get(&id).map_or_else(|| format!("number {id}"), |table| table.full_name());
            let message = format!("table {name} was {what} by another transaction");
            Error::new(ErrorKind::Conflict, message).hint("Run the transaction again")
        };
        // A table that it has made itself nobody else can have altered.
        let is_known = |id: &TableId| self.base.tables.contains_key(id);
        if let Some(id) = self.hot_tables().into_iter().filter(is_known).find(|id| is_altered(now, *id)) {
            return Err(conflict(id, "altered or dropped"));
        }
        match hot_beside.iter().filter(|id| is_known(id)).find(|id| is_altered(&self.working, **id)) {
            Some(id) => Err(conflict(*id, "changed")),
            None => Ok(()),
        }
    }

    fn check_values<'c>(&self, id: TableId, cells: impl Iterator<Item = (usize, Cell<'c>)>) -> Result<()> {
        let table = self.stored_table(id)?;
        let is_wrong = |(column, cell): &(usize, Cell<'_>)| {
            *cell == Cell::Null && table.columns.get(*column).is_some_and(|column| !column.nullable)
        };
        match { cells }.find(is_wrong) {
            None => Ok(()),
            Some((column, _)) => {
                let (column, table) = (&table.columns[column].name, table.full_name());
                Err(constraint(format!("NULL in column {column} of table {table}, which is NOT NULL")))
            }
        }
    }

    /// Its hot rows and the indexes of its keys.
    fn hot_rows_of(&self, id: TableId) -> Result<(HotTable, Arc<[KeyIndex]>)> {
        let table = self.stored_table(id)?;
        if !self.may_have_hot_rows(table) {
            return Err(Error::internal(format!("rows of table {} are not hot", table.full_name())));
        }
        self.inner.hot.of(table)
    }

    /// What became of entering a key, with the name of the table.
    fn with_key(&self, id: TableId, entered: Result<()>) -> Result<()> {
        let table = self.stored_table(id)?;
        entered.context(|| format!("table {}", table.full_name()))
    }

    /// New keys are looked for among hot rows: whoever has looked for them in segments has to look again where others add some.
    fn relies_on_segments(&mut self, id: TableId, keys: &[KeyIndex]) {
        if !keys.is_empty() {
            self.relied_on_segments.insert(id);
        }
    }

    /// Whether rows of a table that this transaction writes may be hot: it has no projections, and is declared as when the transaction began.
    fn may_have_hot_rows(&self, table: &Arc<TableSnapshot>) -> bool {
        let is_same = |before: &Arc<TableSnapshot>| Arc::ptr_eq(before, table) || before.is_declared_as(table);
        table.projections.is_empty() && self.base.tables.get(&table.id).is_some_and(is_same)
    }

    fn hot_writes(&mut self) -> &mut forebay_hot::Transaction {
        self.hot.get_or_insert_with(|| match self.base.hot.snapshot() {
            Some(snapshot) => forebay_hot::Transaction::at(snapshot),
            None => forebay_hot::Transaction::at(&self.inner.hot.snapshot()),
        })
    }

    /// Says that hot rows of a table have changed.
    fn see_hot(&mut self, id: TableId, rows: &HotTable) {
        let Some(own) = self.hot.as_ref().map(forebay_hot::Transaction::id) else { return };
        Arc::make_mut(&mut self.working).hot.see_own(id, rows, own, &self.inner.volume);
    }
}
