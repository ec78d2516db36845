//! What a transaction changes of hot rows, and moments that it can go back to.
//!
//! Invariant: whoever asks the transaction's catalog for a table after a change finds the change there.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use forebay_base::{Context, Error, ErrorKind, Result, SegmentId, TableId};
use forebay_hot::{Blocker, Cell, IndexedColumns, Row, RowId, Savepoint, TransactionId, UniqueIndex, View};

use super::projections::{RowChanges, there};
use super::{Transaction, constraint, not_found};
use crate::catalog::Catalog;
use crate::deleted::DeletedRows;
use crate::hot::{HotChange, HotRows, Indexes, has_same_values, key_in, read_row};
use crate::segment::{Deleted, Segment};
use crate::table_snapshot::TableSnapshot;

/// What a transaction had changed at some time.
#[derive(Debug, Clone)]
pub struct Moment {
    /// What it had changed that of.
    base: Arc<Catalog>,
    catalog: Arc<Catalog>,
    /// `None` where it had written no hot rows.
    hot: Option<Savepoint>,
}

impl Moment {
    /// When a transaction that began on this catalog had changed nothing.
    pub fn before_changes(catalog: Arc<Catalog>) -> Self {
        Self { base: Arc::clone(&catalog), catalog, hot: None }
    }
}

/// Enters a key that a row has now; whom to wait for is known where another transaction is in the way.
fn enter(index: &UniqueIndex, writes: &mut forebay_hot::Transaction, key: &[u8], row: RowId) -> Result<()> {
    index.insert(writes.view(), key, row).inspect_err(|_| {
        let blocker = index.blocker(writes.view(), key);
        writes.blocked_by(blocker);
    })
}

/// Bytes of a value.
fn bytes_of(cell: &Cell<'_>) -> usize {
    match cell {
        Cell::Bytes(string) => 16 + string.len(),
        Cell::Null | Cell::Fixed(_) => 8,
    }
}

impl Transaction {
    /// Now, to come back to.
    pub fn moment(&mut self) -> Moment {
        let hot = self.hot.as_mut().map(forebay_hot::Transaction::savepoint);
        Moment { base: Arc::clone(&self.base), catalog: Arc::clone(&self.working), hot }
    }

    /// Takes back all that was changed since a moment of this transaction's. What it sees of others stays as new as it is.
    ///
    /// # Errors
    /// `Conflict` where what it had changed by then does not go with what it sees of others now: then it is of no use any more.
    pub fn return_to(&mut self, moment: &Moment) -> Result<()> {
        match (moment.hot, &mut self.hot) {
            (Some(savepoint), Some(writes)) => writes.roll_back_to(savepoint),
            (_, writes) => {
                let left = writes.take();
                self.blocker = left.and_then(|mut writes| writes.take_blocker()).or(self.blocker.take());
            }
        }
        self.known_hot.clear();
        self.working = match Arc::ptr_eq(&moment.base, &self.base) {
            true => Arc::clone(&moment.catalog),
            false if Arc::ptr_eq(&moment.base, &moment.catalog) => Arc::clone(&self.base),
            false => Arc::new(self.merged((&moment.base, &moment.catalog), &self.base)?),
        };
        Ok(())
    }

    /// Whom to wait for after a conflict before trying the same again; `None` where that is of no use.
    pub fn take_blocker(&mut self) -> Option<Blocker> {
        let blocker = self.hot.as_mut().and_then(forebay_hot::Transaction::take_blocker);
        blocker.or(self.blocker.take())
    }

    /// Its name among those who wait for each other; `None` where it has written nothing that others may wait for.
    pub fn writer(&self) -> Option<TransactionId> {
        self.hot.as_ref().filter(|writes| !writes.is_read_only()).map(forebay_hot::Transaction::id)
    }

    /// Adds a hot row with a value for each column; its number.
    ///
    /// # Errors
    /// `Constraint` for NULL in a column that is NOT NULL; `NotFound`; those of [`forebay_hot::HotTable::insert`].
    pub fn insert_hot(&mut self, id: TableId, cells: &[Cell<'_>]) -> Result<RowId> {
        self.check_values(id, cells.iter().copied().enumerate())?;
        self.inner.hot.wrote(cells.iter().map(bytes_of).sum())?;
        let hot = self.hot_rows_of(id)?;
        let HotRows { rows, indexes, .. } = &*hot;
        let others = indexes.others();
        let writes = self.hot_writes();
        let row = rows.insert(writes, cells)?;
        let keys = indexes.keys.iter().filter_map(|index| Some((index, key_in(index, |column| cells[column])?)));
        let entered = { keys }.try_for_each(|(index, key)| enter(index, writes, &key, row));
        match entered {
            Ok(()) => others.iter().for_each(|index| index.add(&index.columns().key_of(|column| cells[column]), row)),
            Err(_) => drop(rows.delete(writes, row)?),
        }
        self.see_hot(&hot);
        self.with_key(id, entered)?;
        self.relies_on_segments(id, indexes);
        Ok(row)
    }

    /// Changes values of a hot row; false if the transaction does not see it.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the row; else as [`Transaction::insert_hot`].
    pub fn update_hot(&mut self, id: TableId, row: RowId, changes: &[HotChange<'_>]) -> Result<bool> {
        self.check_values(id, changes.iter().copied())?;
        self.inner.hot.wrote(changes.iter().map(|(_, cell)| bytes_of(cell)).sum())?;
        let hot = self.hot_rows_of(id)?;
        let HotRows { rows, indexes, .. } = &*hot;
        let is_changed = |columns: &IndexedColumns| {
            columns.positions().iter().any(|column| changes.iter().any(|(own, _)| own == column))
        };
        let changed: Vec<&UniqueIndex> = indexes.keys.iter().filter(|index| is_changed(index.columns())).collect();
        let others = indexes.others();
        let mut changed_others = others.iter().filter(|index| is_changed(index.columns())).peekable();
        let writes = self.hot_writes();
        if changed.is_empty() && changed_others.peek().is_none() {
            let is_there = rows.update(writes, row, changes)?;
            self.see_hot(&hot);
            return Ok(is_there);
        }
        let before = writes.savepoint();
        let is_there = rows.update(writes, row, changes)?;
        let mut entered = Ok(());
        if let Some(values) = read_row(rows, writes.view(), row)?.filter(|_| is_there) {
            let keys = changed.iter().filter_map(|index| Some((index, key_in(index, |column| values.cell(column))?)));
            entered = { keys }.try_for_each(|(index, key)| enter(index, writes, &key, row));
            changed_others.for_each(|index| index.add(&index.columns().key_of(|column| values.cell(column)), row));
        }
        if entered.is_err() {
            writes.roll_back_to(before);
        }
        self.see_hot(&hot);
        self.with_key(id, entered)?;
        if !changed.is_empty() {
            self.relies_on_segments(id, indexes);
        }
        Ok(is_there)
    }

    /// Deletes a hot row; false if the transaction does not see it.
    ///
    /// # Errors
    /// As [`Transaction::update_hot`].
    pub fn delete_hot(&mut self, id: TableId, row: RowId) -> Result<bool> {
        let hot = self.hot_rows_of(id)?;
        let rows = &hot.rows;
        let is_there = rows.delete(self.hot_writes(), row)?;
        self.see_hot(&hot);
        Ok(is_there)
    }

    /// All values of a hot row; `None` if the transaction does not see it.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn hot_row(&mut self, id: TableId, row: RowId) -> Result<Option<Row>> {
        let hot = self.hot_rows_of(id)?;
        let rows = &hot.rows;
        read_row(rows, self.hot_writes().view(), row)
    }

    /// The hot row with this key that it sees: values of the columns of the table's `key`-th PRIMARY KEY or UNIQUE constraint, in that order.
    ///
    /// # Errors
    /// `NotFound` where there is no such table or key.
    pub fn find_hot(&mut self, id: TableId, key: usize, values: &[Cell<'_>]) -> Result<Option<RowId>> {
        let hot = self.hot_rows_of(id)?;
        let index = hot.indexes.keys.get(key).ok_or_else(|| not_found("key", &format!("number {key}")))?;
        Ok(index.find(self.hot_view(), &index.columns().prefix_of(values)))
    }

    /// Calls `each` with hot rows that it sees whose values of some columns lie within bounds, which are keys of these columns (`push_key`),
    /// in their order, until it says that it has enough. The first that asks for rows by these columns waits until an index is made.
    ///
    /// # Errors
    /// Those of `each`; `NotFound` where there is no such table.
    pub fn hot_range(
        &mut self,
        id: TableId,
        columns: &[usize],
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        each: impl FnMut(RowId) -> Result<bool>,
    ) -> Result<()> {
        let hot = self.hot_rows_of(id)?;
        let HotRows { rows, indexes, .. } = &*hot;
        let index = indexes.of_columns(rows, columns);
        index.range(self.hot_view(), (low, high), each)
    }

    /// The numbers of the hot rows of a table that it sees, in the order in which whoever scans the table finds them.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn hot_row_ids(&self, id: TableId) -> Result<Vec<RowId>> {
        let images = self.working.hot.images(self.stored_table(id)?);
        Ok(images.flat_map(|(_, rows)| rows).collect())
    }

    /// Reads columns of a hot row into `out`; false if the transaction does not see it.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn read_hot(&mut self, id: TableId, row: RowId, columns: &[usize], out: &mut Row) -> Result<bool> {
        let hot = self.hot_rows_of(id)?;
        hot.rows.get(self.hot_view(), row, columns, out)
    }

    /// Deletes one row of a segment, which is there: as a change of hot rows, not of the catalog.
    ///
    /// # Errors
    /// `Conflict` where another transaction has deleted it; `NotFound` where there is no such table.
    pub fn delete_stored(&mut self, id: TableId, segment: SegmentId, block: u32, row: u16) -> Result<()> {
        self.inner.hot.wrote(0)?;
        let hot = self.hot_rows_of(id)?;
        hot.deletions.add(self.hot_writes(), (segment, block, row))?;
        self.see_deletions(&hot);
        Ok(())
    }

    /// Tells of a row of a segment, by block and row of the block, whether it sees that it was deleted so.
    ///
    /// # Errors
    /// `NotFound` where there is no such table.
    pub fn deleted_one_by_one(&mut self, id: TableId) -> Result<impl Fn(SegmentId, u32, u16) -> bool> {
        let hot = self.hot_rows_of(id)?;
        let view = self.hot_view();
        Ok(move |segment, block, row| hot.deletions.has(view, (segment, block, row)))
    }

    /// Makes marks in the catalog of the rows of segments that it sees deleted one by one.
    ///
    /// # Errors
    /// Those of reading footers.
    pub(crate) fn mark_deletions(&mut self, id: TableId) -> Result<()> {
        let Some(hot) = self.working.hot.hot_rows(id).cloned() else { return Ok(()) };
        let writes = self.hot_writes();
        let (deleted, ids) = hot.deletions.seen(writes.view())?;
        if ids.is_empty() {
            return Ok(());
        }
        for row in ids {
            hot.deletions.rows().delete(writes, row)?;
        }
        self.see_deletions(&hot);
        let segments = &mut self.table_mut(id)?.segments;
        deleted.iter().try_for_each(|(segment, rows)| segments.delete(*segment, rows))
    }

    /// Tables of which this transaction has deleted rows one by one while others have changed the segments, or the other way round, between its base
    /// and `now`.
    pub(super) fn deletions_to_check(&self, now: &Catalog, hot_beside: &BTreeSet<TableId>) -> Vec<TableId> {
        if now.has_objects_of(&self.base) && self.working.has_objects_of(&self.base) {
            return Vec::new();
        }
        let is_same =
            |other: &Catalog, id: TableId| match (self.base.objects.tables.get(&id), other.objects.tables.get(&id)) {
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                (one, other) => one.is_none() && other.is_none(),
            };
        let own = self.hot_tables();
        let is_met = |id: &TableId| {
            own.contains(id) && !is_same(now, *id) || hot_beside.contains(id) && !is_same(&self.working, *id)
        };
        now.objects.tables.keys().copied().filter(is_met).collect()
    }

    /// An error where rows of segments of these tables that this transaction has deleted one by one, or others have, are not there in what it
    /// commits.
    pub(super) fn check_deletions(&self, tables: &[TableId]) -> Result<()> {
        let own = self.hot.as_ref().map(forebay_hot::Transaction::id);
        for id in tables {
            let table = self.working.objects.tables.get(id);
            let Some((table, deletions)) = table.zip(self.working.hot.deletions(*id)) else { continue };
            if !deletions.are_of(&table.segments, own) {
                let message = format!("rows of table {} were changed by another transaction", table.full_name());
                return Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"));
            }
        }
        Ok(())
    }

    /// The numbers of hot rows that are these rows of a segment of a table with its hot rows.
    ///
    /// # Errors
    /// `Conflict` where the segment is not one of what it sees; those of reading footers.
    pub fn rows_of_version(&self, id: TableId, deleted: &Deleted) -> Result<Vec<RowId>> {
        let known = self.table(id)?;
        self.rows_of_image(id, there(known, deleted.segment)?, Some(&deleted.rows))
    }

    /// The numbers of hot rows that are these rows of a segment of the table as it is seen; of all of its rows where none are named.
    pub(super) fn rows_of_image(&self, id: TableId, image: &Segment, rows: Option<&DeletedRows>) -> Result<Vec<RowId>> {
        let found = self.working.hot.images(self.stored_table(id)?).find(|(segment, _)| *segment == image.id());
        let (_, ids) = found.ok_or_else(|| Error::internal("hot rows were changed since they were seen"))?;
        let ids: Vec<RowId> = ids.collect();
        let Some(rows) = rows else { return Ok(ids) };
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

    /// An error where another transaction, which has not ended, has deleted rows one by one of segments that are to be replaced, or rows that are to
    /// be deleted.
    pub(super) fn check_nobody_deletes(&mut self, id: TableId, changes: &RowChanges) -> Result<()> {
        let replaced: BTreeSet<SegmentId> =
            changes.replaced.iter().flat_map(|(old, _)| old).map(|version| version.id).collect();
        let Some(hot) = self.inner.hot.known(id).filter(|_| !replaced.is_empty() || !changes.deleted.is_empty()) else {
            return Ok(());
        };
        let is_changed = |(segment, block, row): (SegmentId, u32, u16)| {
            let is_deleted = |(deleted, _): &(Deleted, Vec<_>)| {
                deleted.segment.id == segment
                    && deleted.rows.of_block(block).is_some_and(|rows| rows.contains(row.into()))
            };
            replaced.contains(&segment) || changes.deleted.iter().any(is_deleted)
        };
        let Some(blocker) = hot.deletions.pending(self.hot_view(), is_changed) else { return Ok(()) };
        self.hot_writes().blocked_by(Some(blocker));
        let message =
            format!("rows of table {} are being changed by another transaction", self.stored_table(id)?.full_name());
        Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"))
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
        self.hot.iter().flat_map(forebay_hot::Transaction::written_tables).map(TableId).collect()
    }

    /// An error where it changes the definition of a table whose hot rows others have changed, or the other way round.
    pub(super) fn check_hot_conflicts(&self, now: &Catalog, hot_beside: &BTreeSet<TableId>) -> Result<()> {
        if now.has_objects_of(&self.base) && self.working.has_objects_of(&self.base) {
            return Ok(());
        }
        let is_same = |one: Option<&Arc<TableSnapshot>>, other: Option<&Arc<TableSnapshot>>| match (one, other) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other) || one.is_declared_as(other),
            (None, None) => true,
            _ => false,
        };
        let is_altered = |catalog: &Catalog, id: TableId| {
            !is_same(self.base.objects.tables.get(&id), catalog.objects.tables.get(&id))
        };
        let conflict = |id: TableId, what: &str| {
            let name =
                self.base.objects.tables.get(&id).map_or_else(|| format!("number {id}"), |table| table.full_name());
            let message = format!("table {name} was {what} by another transaction");
            Error::new(ErrorKind::Conflict, message).hint("Run the transaction again")
        };
        // A table that it has made itself nobody else can have altered.
        let is_known = |id: &TableId| self.base.objects.tables.contains_key(id);
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

    /// Its hot rows and their indexes.
    fn hot_rows_of(&mut self, id: TableId) -> Result<Arc<HotRows>> {
        if let Some(known) = self.known_hot.iter().find(|known| known.id() == id) {
            return Ok(Arc::clone(known));
        }
        let table = self.stored_table(id)?;
        if !self.may_have_hot_rows(table) {
            return Err(Error::internal(format!("rows of table {} are not hot", table.full_name())));
        }
        let found = self.seen_hot_rows(table)?;
        self.known_hot.push(Arc::clone(&found));
        Ok(found)
    }

    /// The hot rows of a table as it sees it, which may be another table by now, or gone.
    pub(super) fn seen_hot_rows(&self, table: &Arc<TableSnapshot>) -> Result<Arc<HotRows>> {
        let is_same = |now: &Arc<TableSnapshot>| Arc::ptr_eq(now, table) || has_same_values(now, table);
        if self.inner.catalog().stored_table(table.id).is_some_and(is_same) {
            return self.inner.hot.of(table);
        }
        match self.working.hot.hot_rows(table.id).filter(|seen| seen.fits(table)) {
            Some(seen) => Ok(Arc::clone(seen)),
            // It had none, and gets none: who writes some cannot commit.
            None => Ok(self.inner.hot.apart(table)),
        }
    }

    /// What became of entering a key, with the name of the table.
    fn with_key(&self, id: TableId, entered: Result<()>) -> Result<()> {
        let table = self.stored_table(id)?;
        entered.context(|| format!("table {}", table.full_name()))
    }

    /// New keys are looked for among hot rows: whoever has looked for them in segments has to look again where others add some.
    fn relies_on_segments(&mut self, id: TableId, indexes: &Indexes) {
        if !indexes.keys.is_empty() && !self.relied_on_segments.contains(&id) {
            self.relied_on_segments.insert(id);
        }
    }

    /// Whether there is memory for more hot rows. Where there is none, rows that are added go to segments, until hot rows have, too.
    pub fn has_room_for_hot_rows(&self) -> bool {
        self.inner.hot.memory.has_room()
    }

    /// Whether rows of a table can be looked for and written by key: it has no projections, and the columns and keys that it had when the
    /// transaction began, whatever they are called now.
    pub fn takes_hot_rows(&self, id: TableId) -> bool {
        self.working.objects.tables.get(&id).is_some_and(|table| self.may_have_hot_rows(table))
    }

    fn may_have_hot_rows(&self, table: &Arc<TableSnapshot>) -> bool {
        let has_same = |before: &Arc<TableSnapshot>| Arc::ptr_eq(before, table) || has_same_values(before, table);
        table.projections.is_empty() && self.base.objects.tables.get(&table.id).is_some_and(has_same)
    }

    pub(super) fn hot_writes(&mut self) -> &mut forebay_hot::Transaction {
        self.hot.get_or_insert_with(|| match self.base.hot.snapshot() {
            Some(snapshot) => forebay_hot::Transaction::at(snapshot),
            None => forebay_hot::Transaction::at(&self.inner.hot.snapshot()),
        })
    }

    /// What it sees of hot rows.
    fn hot_view(&mut self) -> View<'_> {
        if self.hot.is_none() && self.base.hot.snapshot().is_none() {
            self.hot_writes();
        }
        match (&self.hot, self.base.hot.snapshot()) {
            (Some(writes), _) => writes.view(),
            (None, snapshot) => snapshot.expect("without one it has writes").view(),
        }
    }

    /// Says that other rows of a table's segments are deleted.
    fn see_deletions(&mut self, hot: &Arc<HotRows>) {
        let Some(own) = self.hot.as_ref().map(forebay_hot::Transaction::id) else { return };
        Arc::make_mut(&mut self.working).hot.see_own_deletions(hot, own);
    }

    /// Says that hot rows of a table have changed.
    pub(super) fn see_hot(&mut self, rows: &Arc<HotRows>) {
        let Some(own) = self.hot.as_ref().map(forebay_hot::Transaction::id) else { return };
        Arc::make_mut(&mut self.working).hot.see_own(rows, own);
    }
}
