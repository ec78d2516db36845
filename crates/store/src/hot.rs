//! Hot rows of tables: rows in memory with versions (`forebay_hot`), beside the segments of the catalog.
//!
//! ```text
//! HotTables            the hot rows of each table with indexes of its keys, the clock of their commits
//! Catalog::hot         what a catalog sees of them: HotView
//!   HotPart            the hot rows of one table at one snapshot; once somebody asks for the table they are encoded as segments
//! Transaction          inserts, updates and deletes hot rows; its own view of them
//! redo log, manifest   the values of changed rows (row_bytes)
//! ```
//!
//! A table with hot rows is seen as one with some segments more, which lie in memory and which no manifest names: so whoever reads
//! tables reads hot rows in the same ways. These segments are the *copies of dirty blocks* of H2TAP (Appuswamy et al. 2017, §4.3); one is made
//! for each commit after which somebody asks, and shared by all that read at that commit.
//!
//! Invariants: a catalog and its view are of the same commit; hot rows become visible together with the catalog of the transaction
//! that wrote them. A number of a row is not given twice as long as older ones lie in the log. Keys (PRIMARY KEY, UNIQUE) are unique among
//! hot rows; whether a row in a segment has one is for the caller to know. Must not know: SQL.

mod image;
mod row_bytes;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use forebay_base::{ColumnId, Context, Error, ErrorKind, PhysicalType, Result, TableId};
use forebay_hot::{Cell, Commits, HotTable, KeyIndex, Row, RowId, Snapshot, Transaction, View};

use crate::catalog::{Catalog, Constraint, Table};
use crate::volume::{Volume, locked};
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
    keys: Arc<[KeyIndex]>,
}

impl Known {
    fn new(table: &Table, first_chunk: u32, commits: &Arc<Commits>) -> Self {
        let types = types(table).collect();
        let rows = HotTable::new(table.id.0, table.full_name(), types, first_chunk, commits);
        let constraints: Vec<Constraint> = unique_keys(table).cloned().collect();
        let position = |id: &ColumnId| table.column_by_id(*id).map(|(position, _)| position);
        let key = |key: &Constraint| KeyIndex::new(&rows, key.columns().iter().filter_map(position).collect(), true);
        let keys = constraints.iter().map(key).collect();
        Self { rows, columns: table.columns.iter().map(|column| column.id).collect(), constraints, keys }
    }

    /// Whether its rows are of these columns, and have these keys.
    fn fits(&self, table: &Table) -> bool {
        self.columns.iter().copied().eq(table.columns.iter().map(|column| column.id))
            && self.rows.types().iter().copied().eq(types(table))
            && self.constraints.iter().eq(unique_keys(table))
    }

    /// Puts a row where it was.
    fn put(&self, id: RowId, bytes: &[u8]) -> Result<()> {
        let row = decode_row(bytes, self.rows.types())?;
        self.rows.put(id, &row.cells().collect::<Vec<_>>())?;
        for index in self.keys.iter() {
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
            // Rows come in the order of their numbers.
            let known = tables.entry(*id).or_insert_with(|| Known::new(table, row.chunk(), &commits));
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
    pub(crate) fn of(&self, table: &Table) -> Result<(HotTable, Arc<[KeyIndex]>)> {
        let mut tables = locked(&self.tables);
        let mut first_chunk = 0;
        if let Some(known) = tables.get(&table.id) {
            if known.fits(table) {
                return Ok((known.rows.clone(), Arc::clone(&known.keys)));
            }
            if !known.rows.is_empty() {
                let message = format!("table {} was altered while rows of it were changed", table.full_name());
                return Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"));
            }
            first_chunk = known.rows.chunks().end;
        }
        let new = Known::new(table, first_chunk, &self.commits);
        let found = (new.rows.clone(), Arc::clone(&new.keys));
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
        let parts = tables.iter().filter(fits).map(|(id, known)| (*id, known.rows.clone()));
        catalog.hot = HotView::new(snapshot, parts, before, changed, volume);
    }

    /// Lets go of what nobody needs any more: versions, chunks without rows, entries of indexes.
    pub(crate) fn tidy(&self) {
        let tables: Vec<_> =
            locked(&self.tables).values().map(|known| (known.rows.clone(), Arc::clone(&known.keys))).collect();
        for (rows, keys) in tables {
            rows.prune();
            rows.release_empty();
            keys.iter().for_each(KeyIndex::sweep);
        }
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
            let hot = view.rows(table).ok_or_else(|| Error::internal("hot rows of a table that has none"))?;
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
