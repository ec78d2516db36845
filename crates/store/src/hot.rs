//! Hot rows of tables: rows in memory with versions (`forebay_hot`), beside the segments of the catalog.
//!
//! ```text
//! HotTables            the hot rows of each table with indexes of its keys, the clock of their commits
//!   Deletions          rows of segments that were deleted one by one
//! Catalog::hot         what a catalog sees of them: HotView
//!   HotPart            the hot rows of one table at one snapshot; once somebody asks for the table they are encoded as segments
//! Transaction          inserts, updates and deletes hot rows; its own view of them
//! redo log, manifest   the values of changed rows (row_bytes)
//! ```
//!
//! A table with hot rows is seen as one with some segments more, which lie in memory and which no manifest names: so whoever reads
//! tables reads hot rows in the same ways. These segments are the *copies of dirty blocks* of H2TAP (Appuswamy et al. 2017, §4.3), one for each
//! chunk; it is made when somebody asks after a commit that has changed the chunk, and shared by all that read until the next one.
//!
//! Invariants: a catalog and its view are of the same commit; hot rows become visible together with the catalog of the transaction
//! that wrote them. A number of a row is not given twice as long as older ones lie in the log. Keys (PRIMARY KEY, UNIQUE) are unique among
//! hot rows; whether a row in a segment has one is for the caller to know. Must not know: SQL.

mod deletions;
mod image;
mod row_bytes;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use forebay_base::{ColumnId, Context, Error, ErrorKind, PhysicalType, Result, TableId};
use forebay_hot::{Cell, Commits, HotTable, KeyIndex, Row, RowId, Snapshot, Transaction, View};

use crate::catalog::{Catalog, Constraint, Table};
use crate::table_snapshot::TableSnapshot;
use crate::volume::{Volume, locked};
use deletions::is_deletion;
pub(crate) use deletions::{Deletions, first_deletion};
pub(crate) use image::frozen;
#[cfg(test)]
pub(crate) use row_bytes::{HOT_BYTES, HOT_FIXED, HOT_NULL};
pub(crate) use row_bytes::{decode_row, encode_row};
pub(crate) use view::HotView;

/// What becomes of hot rows: their values (`row_bytes.rs`); `None` where they are not there any more.
pub(crate) type HotChanges = BTreeMap<(TableId, RowId), Option<Vec<u8>>>;

/// Hot rows as they are found when a database is opened.
pub(crate) type FoundHotRows = BTreeMap<(TableId, RowId), Vec<u8>>;

/// The hot rows of all tables of a database.
#[derive(Debug)]
pub(crate) struct HotTables {
    commits: Arc<Commits>,
    tables: Mutex<BTreeMap<TableId, Known>>,
}

/// The hot rows of a table.
#[derive(Debug)]
struct Known {
    rows: HotTable,
    /// The columns of their values.
    columns: Vec<ColumnId>,
    /// Its PRIMARY KEY and UNIQUE ones.
    constraints: Vec<Constraint>,
    indexes: Indexes,
    deletions: Deletions,
    /// The table that they were last found to be of, for who asks again.
    of: Weak<TableSnapshot>,
    /// How often chunks had been changed when it was last asked which are cold.
    looked_at: BTreeMap<u32, u64>,
}

/// The hot rows of a table, for who changes them.
#[derive(Debug, Clone)]
pub(crate) struct HotRows {
    pub(crate) rows: HotTable,
    pub(crate) indexes: Indexes,
    /// Rows of its segments that are deleted.
    pub(crate) deletions: Deletions,
}

/// The indexes of a table's hot rows.
#[derive(Debug, Clone)]
pub(crate) struct Indexes {
    /// Of its keys, in their order.
    pub(crate) keys: Arc<[KeyIndex]>,
    /// Those that somebody has asked for by their columns. They have entries for NULL, too.
    others: Arc<RwLock<Vec<Arc<KeyIndex>>>>,
}

impl Indexes {
    /// The index of these columns, which is filled where nobody has asked for it before.
    pub(crate) fn of_columns(&self, rows: &HotTable, columns: &[usize]) -> Arc<KeyIndex> {
        let is_it = |index: &&Arc<KeyIndex>| index.columns() == columns;
        if let Some(known) = self.others().iter().find(is_it) {
            return Arc::clone(known);
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.iter().find(is_it) {
            return Arc::clone(known);
        }
        // Writers that come after this wait, and enter their keys; those before have written what it is filled with.
        let new = Arc::new(KeyIndex::new(rows, columns.to_vec(), false));
        new.fill();
        others.push(Arc::clone(&new));
        new
    }

    /// Those that are not of keys. Who writes a row holds them from before the write until it has entered the row.
    pub(crate) fn others(&self) -> RwLockReadGuard<'_, Vec<Arc<KeyIndex>>> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn sweep(&self) {
        self.keys.iter().for_each(KeyIndex::sweep);
        let others = self.others().clone();
        others.iter().for_each(|index| index.sweep());
    }
}

impl Known {
    /// None, where the numbers of the first chunks of rows and of deletions are these.
    fn new(table: &Table, (first_chunk, first_deletions): (u32, u32), commits: &Arc<Commits>) -> Self {
        let types = types(table).collect();
        let rows = HotTable::new(table.id.0, table.full_name(), types, first_chunk, commits);
        let constraints: Vec<Constraint> = unique_keys(table).cloned().collect();
        let position = |id: &ColumnId| table.column_by_id(*id).map(|(position, _)| position);
        let key = |key: &Constraint| KeyIndex::new(&rows, key.columns().iter().filter_map(position).collect(), true);
        let indexes = Indexes { keys: constraints.iter().map(key).collect(), others: Arc::default() };
        let columns = table.columns.iter().map(|column| column.id).collect();
        let deletions = Deletions::new(table, first_deletions, commits);
        Self { rows, columns, constraints, indexes, deletions, of: Weak::new(), looked_at: BTreeMap::new() }
    }

    /// Whether its rows are of these columns, and have these keys.
    fn fits(&self, table: &Table) -> bool {
        self.columns.iter().copied().eq(table.columns.iter().map(|column| column.id))
            && self.rows.types().iter().copied().eq(types(table))
            && self.constraints.iter().eq(unique_keys(table))
    }

    fn hot_rows(&self) -> HotRows {
        HotRows { rows: self.rows.clone(), indexes: self.indexes.clone(), deletions: self.deletions.clone() }
    }

    /// Puts a row where it was.
    fn put(&self, id: RowId, bytes: &[u8]) -> Result<()> {
        if is_deletion(id) {
            return self.deletions.put(id, bytes);
        }
        let row = decode_row(bytes, self.rows.types())?;
        self.rows.put(id, &row.cells().collect::<Vec<_>>())?;
        for index in self.indexes.keys.iter() {
            key_in(index, |column| row.cell(column)).into_iter().for_each(|key| index.add(&key, id));
        }
        Ok(())
    }
}

impl HotTables {
    /// Those that were found, of tables of this catalog, whose commits go on after its own.
    pub(crate) fn found(rows: &FoundHotRows, catalog: &Catalog) -> Result<Self> {
        let commits = Commits::new(catalog.commit);
        let mut tables = BTreeMap::new();
        for ((id, row), bytes) in rows {
            let Some(table) = catalog.tables.get(id) else { continue };
            // Rows come in the order of their numbers, deletions last.
            let known = tables.entry(*id).or_insert_with(|| {
                let first = if is_deletion(*row) { 0 } else { row.chunk() };
                let deletion = rows.range((*id, first_deletion())..).next().filter(|((table, _), _)| table == id);
                let first_deletions = deletion.map_or(0, |((_, row), _)| row.chunk());
                Known::new(table, (first, first_deletions), &commits)
            });
            known.put(*row, bytes).context(|| format!("hot {row} of table {}", table.full_name()))?;
        }
        Ok(Self { commits, tables: Mutex::new(tables) })
    }

    /// What everybody sees who begins now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(self.commits.snapshot())
    }

    /// The hot rows of a table, which there are from now on at least in name.
    ///
    /// # Errors
    /// `Conflict` where the table had other columns when rows became hot that are there still.
    pub(crate) fn of(&self, table: &Arc<TableSnapshot>) -> Result<HotRows> {
        let mut tables = locked(&self.tables);
        let mut first_chunks = (0, 0);
        if let Some(known) = tables.get_mut(&table.id) {
            let is_known = std::ptr::eq(known.of.as_ptr(), Arc::as_ptr(table));
            if is_known || known.fits(table) {
                known.of = if is_known { Weak::clone(&known.of) } else { Arc::downgrade(table) };
                return Ok(known.hot_rows());
            }
            if !known.rows.is_empty() || !known.deletions.rows.is_empty() {
                let message = format!("table {} was altered while rows of it were changed", table.full_name());
                return Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"));
            }
            first_chunks = (known.rows.chunks().end, known.deletions.rows.chunks().end);
        }
        let new = Known::new(table, first_chunks, &self.commits);
        let found = new.hot_rows();
        tables.insert(table.id, new);
        Ok(found)
    }

    /// Makes the view of a catalog that is visible from now on; `before` is the one until now, of which what has not changed stays.
    pub(crate) fn publish(
        &self,
        catalog: &mut Catalog,
        before: &HotView,
        changed: &BTreeSet<TableId>,
        volume: &Arc<Volume>,
    ) {
        let mut tables = locked(&self.tables);
        tables.retain(|id, _| catalog.tables.contains_key(id));
        let snapshot = if changed.is_empty() { before.snapshot().cloned() } else { None };
        let snapshot = snapshot.unwrap_or_else(|| self.snapshot());
        let fits = |(id, known): &(&TableId, &Known)| catalog.tables.get(id).is_some_and(|table| known.fits(table));
        let parts = tables.iter().filter(fits).map(|(id, known)| (*id, known.hot_rows()));
        catalog.hot = HotView::new(snapshot, parts, before, changed, volume);
    }

    /// Lets go of what nobody needs any more: versions, chunks without rows, entries of indexes.
    pub(crate) fn tidy(&self) {
        let tables: Vec<HotRows> = locked(&self.tables).values().map(Known::hot_rows).collect();
        for HotRows { rows, indexes, deletions } in tables {
            rows.prune();
            rows.release_empty();
            indexes.sweep();
            deletions.sweep();
        }
    }

    /// Tables of whose segments rows are deleted one by one.
    pub(crate) fn tables_with_deletions(&self) -> Vec<TableId> {
        let tables = locked(&self.tables);
        tables.iter().filter(|(_, known)| !known.deletions.rows().is_empty()).map(|(id, _)| *id).collect()
    }

    /// By table the chunks that take no more rows and that nobody has changed since this was last asked.
    pub(crate) fn cold_chunks(&self) -> Vec<(TableId, Vec<u32>)> {
        let snapshot = self.snapshot();
        let mut tables = locked(&self.tables);
        let cold = tables.iter_mut().map(|(id, known)| {
            let mut chunks = known.rows.chunks();
            chunks.end -= 1;
            let full = chunks.filter(|chunk| known.rows.chunk_rows(*chunk) > 0);
            let now: BTreeMap<u32, u64> =
                full.filter_map(|chunk| Some((chunk, known.rows.changes_seen(snapshot.view(), chunk)?))).collect();
            let before = std::mem::replace(&mut known.looked_at, now);
            let is_cold = |(chunk, changes): &(&u32, &u64)| before.get(chunk) == Some(*changes);
            (*id, known.looked_at.iter().filter(is_cold).map(|(chunk, _)| *chunk).collect())
        });
        cold.filter(|(_, chunks): &(_, Vec<u32>)| !chunks.is_empty()).collect()
    }

    /// Whether there are none, not even in name.
    pub(crate) fn is_unused(&self) -> bool {
        locked(&self.tables).is_empty()
    }

    /// What a transaction that is about to commit has made of the rows that it has written. `view` is its own.
    pub(crate) fn changes(transaction: &Transaction, view: &HotView) -> Result<HotChanges> {
        let mut changes = HotChanges::new();
        let mut row = Row::default();
        for (number, id) in transaction.written() {
            let table = TableId(number);
            let of_table = if is_deletion(id) { view.deletions(table).map(|own| &own.rows) } else { view.rows(table) };
            let hot = of_table.ok_or_else(|| Error::internal("hot rows of a table that has none"))?;
            let columns: Vec<usize> = (0..hot.types().len()).collect();
            let bytes = hot.get(transaction.view(), id, &columns, &mut row)?.then(|| encode_row(row.cells()));
            changes.insert((table, id), bytes);
        }
        Ok(changes)
    }
}

/// The types of a table's columns.
fn types(table: &Table) -> impl Iterator<Item = PhysicalType> + '_ {
    table.columns.iter().map(|column| column.logical.physical())
}

/// Its keys that no two rows have.
fn unique_keys(table: &Table) -> impl Iterator<Item = &Constraint> {
    table.constraints.iter().filter(|key| matches!(key, Constraint::PrimaryKey(_) | Constraint::Unique(_)))
}

/// The key of a row with these values; `None` where one of them is NULL, which is no key.
pub(crate) fn key_in<'c>(index: &KeyIndex, cell: impl Fn(usize) -> Cell<'c>) -> Option<Vec<u8>> {
    let has_null = index.columns().iter().any(|column| cell(*column) == Cell::Null);
    (!has_null).then(|| index.key_of(cell))
}

/// All values of a row; `None` if the view does not see it.
pub(crate) fn read_row(rows: &HotTable, view: View<'_>, id: RowId) -> Result<Option<Row>> {
    let columns: Vec<usize> = (0..rows.types().len()).collect();
    let mut row = Row::default();
    Ok(rows.get(view, id, &columns, &mut row)?.then_some(row))
}

/// A change of a value of a row: the position of its column in the table, the new value.
pub type HotChange<'c> = (usize, Cell<'c>);
