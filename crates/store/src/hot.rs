//! Hot rows of tables: rows in memory with versions (`forebay_hot`), beside the segments of the catalog.
//!
//! ```text
//! HotTables            the hot rows of each table, the clock of their commits
//!   HotRows            those of one table, with indexes of its keys
//!     Deletions        rows of segments that were deleted one by one
//! Catalog::hot         what a catalog sees of them: HotView
//!   SeenTable          the hot rows of one table at one snapshot; once somebody asks for the table they are encoded as segments
//! Transaction          inserts, updates and deletes hot rows; its own view of them
//! redo log, manifest   the values of changed rows (row_bytes)
//! ```
//!
//! A table with hot rows is seen as one with some segments more, which lie in memory at the places of these rows (`segment_list.rs`) and which no manifest names: so whoever reads
//! tables reads hot rows in the same ways. These segments are the *copies of dirty blocks* of H2TAP (Appuswamy et al. 2017, §4.3), one for each
//! chunk; its columns are made when somebody asks for them after a commit that has changed the chunk, and shared by all that read until the next one.
//!
//! Invariants: a catalog and its view are of the same commit; hot rows become visible together with the catalog of the transaction
//! that wrote them. A number of a row is not given twice as long as older ones lie in the log. Keys (PRIMARY KEY, UNIQUE) are unique among
//! hot rows; whether a row in a segment has one is for the caller to know. Must not know: SQL.

mod commit;
mod deletions;
mod encoding;
mod image;
mod memory;
mod row_bytes;
mod rows;
mod view;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use forebay_base::{Context, Error, ErrorKind, PhysicalType, Result, TableId, limits};
use forebay_hot::{Cell, Commits, HotTable, Row, RowId, Snapshot, UniqueIndex, View};

use crate::catalog::{Catalog, Constraint, Table};
pub(crate) use crate::hot_files::{FoundHotRows, HotRowId};
use crate::segment_list::chunk_behind;
use crate::table_snapshot::TableSnapshot;
use crate::volume::{Volume, locked};
pub(crate) use commit::{ChangedRows, HOT_COLUMNS, HOT_GONE, HOT_WHOLE, HotCommit, HotRecord};
use deletions::is_deletion;
pub(crate) use deletions::{Deletions, first_deletion};
pub(crate) use image::frozen;
use memory::HotMemory;
pub(crate) use row_bytes::with_columns;
#[cfg(test)]
pub(crate) use row_bytes::{HOT_BYTES, HOT_FIXED, HOT_NULL};
pub(crate) use rows::{HotRows, Indexes};
pub(crate) use view::HotView;

/// The hot rows of tables, by table.
type KnownTables = BTreeMap<TableId, Arc<HotRows>>;

/// The hot rows of all tables of a database.
#[derive(Debug)]
pub(crate) struct HotTables {
    commits: Arc<Commits>,
    known: Mutex<Known>,
    pub(crate) memory: HotMemory,
    volume: Arc<Volume>,
}

/// The hot rows of tables, by table; the maps are replaced where a table comes or goes.
#[derive(Debug)]
struct Known {
    /// Also those of tables that have other columns now, or other keys: they have no rows for whoever comes later.
    all: Arc<KnownTables>,
    /// The others, which views share.
    seen: Arc<KnownTables>,
}

impl HotTables {
    /// Those that were found, of tables of this catalog, whose commits go on after its own.
    pub(crate) fn found(rows: &FoundHotRows, catalog: &Catalog, volume: &Arc<Volume>) -> Result<Self> {
        let commits = Commits::new(catalog.commit);
        let mut tables = KnownTables::new();
        for ((id, row), bytes) in rows {
            let Some(table) = catalog.stored_table(*id) else { continue };
            // Rows come in the order of their numbers, deletions last.
            let known = tables.entry(*id).or_insert_with(|| {
                let first = if is_deletion(*row) { first_chunk(table) } else { row.chunk() };
                let deletion = rows.range((*id, first_deletion())..).next().filter(|((table, _), _)| table == id);
                let first_deletions = deletion.map_or(0, |((_, row), _)| row.chunk());
                Arc::new(HotRows::new(table, (first, first_deletions), &commits, volume))
            });
            known.put(*row, bytes).context(|| format!("hot {row} of table {}", table.full_name()))?;
        }
        for (id, known) in &tables {
            catalog.stored_table(*id).into_iter().for_each(|table| known.rows.open(first_chunk(table)));
        }
        let all = Arc::new(tables);
        let known = Mutex::new(Known { seen: Arc::clone(&all), all });
        Ok(Self { commits, known, memory: HotMemory::default(), volume: Arc::clone(volume) })
    }

    /// The hot rows of a table, if there are any at least in name.
    pub(crate) fn known(&self, table: TableId) -> Option<Arc<HotRows>> {
        locked(&self.known).all.get(&table).cloned()
    }

    /// What everybody sees who begins now.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::new(self.commits.snapshot())
    }

    /// The hot rows of a table, which there are from now on at least in name.
    ///
    /// # Errors
    /// `Conflict` where the table had other columns when rows became hot that are there still.
    pub(crate) fn of(&self, table: &Arc<TableSnapshot>) -> Result<Arc<HotRows>> {
        let mut tables = locked(&self.known);
        let mut first_chunks = (first_chunk(table), 0);
        if let Some(known) = tables.all.get(&table.id) {
            if known.fits(table) {
                return Ok(Arc::clone(known));
            }
            if !known.is_empty() {
                let message = format!("table {} was altered while rows of it were changed", table.full_name());
                return Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"));
            }
            first_chunks = (first_chunks.0.max(known.rows.chunks().end), known.deletions.rows.chunks().end);
        }
        let new = Arc::new(HotRows::new(table, first_chunks, &self.commits, &self.volume));
        Arc::make_mut(&mut tables.all).insert(table.id, Arc::clone(&new));
        Arc::make_mut(&mut tables.seen).insert(table.id, Arc::clone(&new));
        Ok(new)
    }

    /// None, for who sees a table that is altered or dropped by now, and may write some that nobody else ever sees.
    pub(crate) fn apart(&self, table: &TableSnapshot) -> Arc<HotRows> {
        Arc::new(HotRows::new(table, (first_chunk(table), 0), &self.commits, &self.volume))
    }

    /// Makes the view of a catalog that is visible from now on; `before` is the one until now, at whose snapshot it sees hot rows unless they have
    /// changed.
    pub(crate) fn publish(&self, catalog: &mut Catalog, before: &Catalog, has_changed: bool) {
        let mut tables = locked(&self.known);
        if !catalog.has_objects_of(before) {
            let is_there = |id: &TableId| catalog.stored_table(*id).is_some();
            if !tables.all.keys().all(is_there) {
                Arc::make_mut(&mut tables.all).retain(|id, _| is_there(id));
            }
            let fits = |(id, known): &(&TableId, &Arc<HotRows>)| {
                catalog.stored_table(**id).is_some_and(|table| known.fits(table))
            };
            let seen = tables.all.iter().filter(fits).map(|(id, known)| (*id, Arc::clone(known))).collect();
            tables.seen = Arc::new(seen);
        }
        let snapshot = if has_changed { None } else { before.hot.snapshot().cloned() };
        catalog.hot = HotView::new(snapshot.unwrap_or_else(|| self.snapshot()), Arc::clone(&tables.seen));
    }

    /// Lets go of what nobody needs any more: versions, chunks without rows, entries of indexes.
    pub(crate) fn tidy(&self) {
        self.tables().values().for_each(|rows| rows.tidy());
        self.measure();
    }

    /// Whether they take more memory than that, or many rows of a table's segments are deleted one by one.
    pub(crate) fn are_many(&self, bytes: u64) -> bool {
        let (snapshot, tables) = (self.snapshot(), self.tables());
        let deleted = |known: &Arc<HotRows>| known.deletions.rows.count(snapshot.view());
        tables.values().any(|known| deleted(known) > limits::DELETED_ONE_BY_ONE) || self.measure() as u64 > bytes
    }

    /// Measures what memory they take, in bytes.
    pub(crate) fn measure(&self) -> usize {
        let bytes = self.tables().values().map(|known| known.memory_bytes()).sum();
        self.memory.measured(bytes);
        bytes
    }

    /// Says that values of so many bytes were written in a row.
    ///
    /// # Errors
    /// `OutOfMemory` where they take more than they may.
    pub(crate) fn wrote(&self, bytes: usize) -> Result<()> {
        if self.memory.wrote(bytes)? {
            self.measure();
        }
        Ok(())
    }

    /// Tables of whose segments rows are deleted one by one.
    pub(crate) fn tables_with_deletions(&self) -> Vec<TableId> {
        let tables = self.tables();
        tables.iter().filter(|(_, known)| !known.deletions.rows().is_empty()).map(|(id, _)| *id).collect()
    }

    /// By table the chunks that take no more rows and that nobody has changed since this was last asked.
    pub(crate) fn cold_chunks(&self) -> Vec<(TableId, Vec<u32>)> {
        let (snapshot, tables) = (self.snapshot(), self.tables());
        let cold = tables.iter().map(|(id, known)| (*id, known.cold_chunks(snapshot.view())));
        cold.filter(|(_, chunks)| !chunks.is_empty()).collect()
    }

    /// Has rows that are added to tables which take much of the memory go to chunks of their own, so that the others may become segments, and
    /// what was rolled back takes none.
    pub(crate) fn close_chunks(&self) {
        /// A table takes much if it takes so great a part of what all take.
        const PART: usize = 16;
        let (total, tables) = (self.measure(), self.tables());
        let takes_much = |known: &&Arc<HotRows>| known.memory_bytes() >= total / PART;
        for known in tables.values().filter(takes_much) {
            known.rows.close_last();
        }
    }

    /// By table all chunks that have rows none of which an open transaction has changed, those of the tables first that take most memory.
    pub(crate) fn unchanging_chunks(&self) -> Vec<(TableId, u32)> {
        let (snapshot, tables) = (self.snapshot(), self.tables());
        let mut sizes: Vec<_> = tables.iter().map(|(id, known)| (known.memory_bytes(), *id)).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let chunks_of = |id: TableId| {
            let rows = &tables[&id].rows;
            let is_unchanging =
                |chunk: &u32| rows.chunk_rows(*chunk) > 0 && rows.changes_seen(snapshot.view(), *chunk).is_some();
            rows.chunks().filter(is_unchanging).map(|chunk| (id, chunk)).collect::<Vec<_>>()
        };
        sizes.into_iter().flat_map(|(_, id)| chunks_of(id)).collect()
    }

    /// Whether there are none, not even in name.
    pub(crate) fn is_unused(&self) -> bool {
        locked(&self.known).all.is_empty()
    }

    fn tables(&self) -> Arc<KnownTables> {
        Arc::clone(&locked(&self.known).all)
    }
}

/// The first chunk whose rows lie behind all segments of a table.
fn first_chunk(table: &Table) -> u32 {
    table.segments.last_place().map_or(0, chunk_behind)
}

/// The types of a table's columns.
fn types(table: &Table) -> impl Iterator<Item = PhysicalType> + '_ {
    table.columns.iter().map(|column| column.logical.physical())
}

/// Whether two tables have the same columns, but for names and the like, and the same keys: what hot rows are made of.
pub(crate) fn has_same_values(one: &Table, other: &Table) -> bool {
    let ids = |table: &Table| table.columns.iter().map(|column| column.id).collect::<Vec<_>>();
    ids(one) == ids(other) && types(one).eq(types(other)) && unique_keys(one).eq(unique_keys(other))
}

/// Its keys that no two rows have.
fn unique_keys(table: &Table) -> impl Iterator<Item = &Constraint> {
    table.constraints.iter().filter(|key| matches!(key, Constraint::PrimaryKey(_) | Constraint::Unique(_)))
}

/// The key of a row with these values; `None` where one of them is NULL, which is no key.
pub(crate) fn key_in<'c>(index: &UniqueIndex, cell: impl Fn(usize) -> Cell<'c>) -> Option<Vec<u8>> {
    let has_null = index.columns().positions().iter().any(|column| cell(*column) == Cell::Null);
    (!has_null).then(|| index.columns().key_of(cell))
}

/// All values of a row; `None` if the view does not see it.
pub(crate) fn read_row(rows: &HotTable, view: View<'_>, id: RowId) -> Result<Option<Row>> {
    let columns: Vec<usize> = (0..rows.types().len()).collect();
    let mut row = Row::default();
    Ok(rows.get(view, id, &columns, &mut row)?.then_some(row))
}

/// A change of a value of a row: the position of its column in the table, the new value.
pub type HotChange<'c> = (usize, Cell<'c>);
