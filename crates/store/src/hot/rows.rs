//! The hot rows of one table: rows, indexes, rows of segments that are deleted, and what was last found out about them.
//!
//! Must not know: other tables, who changes them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use forebay_base::{ColumnId, Result, SegmentId, TableId};
use forebay_hot::{CommitNumber, Commits, HotTable, KeyIndex, RowId, UniqueIndex, View};

use super::deletions::{Deletions, is_deletion};
use super::image::{ChunkImages, Images, Seen};
use super::row_bytes::decode_row;
use super::{key_in, types, unique_keys};
use crate::catalog::{Constraint, Table};
use crate::deleted::DeletedRows;
use crate::table_snapshot::TableSnapshot;
use crate::volume::{Volume, locked};

/// Deleted rows by the segment that they are of.
pub(super) type DeletedBySegment = BTreeMap<SegmentId, DeletedRows>;

/// The hot rows of a table.
#[derive(Debug)]
pub(crate) struct HotRows {
    pub(crate) rows: HotTable,
    pub(crate) indexes: Indexes,
    /// Rows of its segments that are deleted.
    pub(crate) deletions: Deletions,
    /// The columns of their values.
    columns: Vec<ColumnId>,
    /// Its PRIMARY KEY and UNIQUE ones.
    constraints: Vec<Constraint>,
    /// The table that they were last found to be of, for who asks again.
    of: Mutex<Weak<TableSnapshot>>,
    /// How often chunks had been changed when it was last asked which are cold.
    looked_at: Mutex<BTreeMap<u32, u64>>,
    /// The last commit that has changed any of them.
    last_change: AtomicU64,
    /// What was made of their segments at the latest snapshot.
    images: Mutex<Option<(CommitNumber, Arc<ChunkImages>)>>,
    /// Which rows of segments the latest snapshot that was asked saw deleted.
    deleted: Mutex<Option<(CommitNumber, Arc<DeletedBySegment>)>>,
    volume: Arc<Volume>,
}

/// The indexes of a table's hot rows.
#[derive(Debug)]
pub(crate) struct Indexes {
    /// Of its keys, as they are declared.
    pub(crate) keys: Vec<UniqueIndex>,
    /// Those that somebody has asked for by their columns. They have entries for NULL, too.
    others: RwLock<Vec<Arc<KeyIndex>>>,
}

impl Indexes {
    /// The index of these columns, which is filled where nobody has asked for it before.
    pub(crate) fn of_columns(&self, rows: &HotTable, columns: &[usize]) -> Arc<KeyIndex> {
        let is_it = |index: &&Arc<KeyIndex>| index.columns().positions() == columns;
        if let Some(known) = self.others().iter().find(is_it) {
            return Arc::clone(known);
        }
        let mut others = self.others.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = others.iter().find(is_it) {
            return Arc::clone(known);
        }
        // Writers that come after this wait, and enter their keys; those before have written what it is filled with.
        let new = Arc::new(KeyIndex::new(rows, columns.to_vec()));
        new.fill();
        others.push(Arc::clone(&new));
        new
    }

    /// Those that are not of keys. Who writes a row holds them from before the write until it has entered the row.
    pub(crate) fn others(&self) -> RwLockReadGuard<'_, Vec<Arc<KeyIndex>>> {
        self.others.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sweep(&self) {
        self.keys.iter().for_each(UniqueIndex::sweep_if_worthwhile);
        let others = self.others().clone();
        others.iter().for_each(|index| index.sweep_if_worthwhile());
    }
}

impl HotRows {
    /// None, where the numbers of the first chunks of rows and of deletions are these.
    pub(super) fn new(
        table: &Table,
        (first_chunk, first_deletions): (u32, u32),
        commits: &Arc<Commits>,
        volume: &Arc<Volume>,
    ) -> Self {
        let rows = HotTable::new(table.id.0, table.full_name(), types(table).collect(), first_chunk, commits);
        let constraints: Vec<Constraint> = unique_keys(table).cloned().collect();
        let position = |id: &ColumnId| table.column_by_id(*id).map(|(position, _)| position);
        let key = |key: &Constraint| UniqueIndex::new(&rows, key.columns().iter().filter_map(position).collect());
        let indexes = Indexes { keys: constraints.iter().map(key).collect(), others: RwLock::default() };
        Self {
            indexes,
            deletions: Deletions::new(table, first_deletions, commits),
            columns: table.columns.iter().map(|column| column.id).collect(),
            constraints,
            of: Mutex::default(),
            looked_at: Mutex::default(),
            last_change: AtomicU64::new(commits.last()),
            images: Mutex::default(),
            deleted: Mutex::default(),
            volume: Arc::clone(volume),
            rows,
        }
    }

    /// The number of the table.
    pub(crate) fn id(&self) -> TableId {
        TableId(self.rows.number())
    }

    /// Whether they are of a table with these columns and keys.
    pub(crate) fn fits(&self, table: &Arc<TableSnapshot>) -> bool {
        let mut of = locked(&self.of);
        if std::ptr::eq(of.as_ptr(), Arc::as_ptr(table)) {
            return true;
        }
        let fits = self.columns.iter().copied().eq(table.columns.iter().map(|column| column.id))
            && self.rows.types().iter().copied().eq(types(table))
            && self.constraints.iter().eq(unique_keys(table));
        if fits {
            *of = Arc::downgrade(table);
        }
        fits
    }

    /// Puts a row where it was.
    pub(super) fn put(&self, id: RowId, bytes: &[u8]) -> Result<()> {
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

    /// Where a row of this number is: among rows, or among deletions.
    pub(super) fn table_of(&self, row: RowId) -> &HotTable {
        if is_deletion(row) { &self.deletions.rows } else { &self.rows }
    }

    /// Whether a view sees any of them, or rows of segments deleted.
    pub(super) fn has_seen(&self, view: View<'_>) -> bool {
        [&self.rows, &self.deletions.rows].iter().any(|rows| rows.count(view) > 0)
    }

    /// Whether there are none for whoever begins now, and nobody is changing any.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.deletions.rows.is_empty()
    }

    /// Says that the commit of this number changes some of them, before anybody sees that.
    pub(crate) fn change_at(&self, commit: CommitNumber) {
        self.last_change.store(commit, Ordering::Release);
    }

    /// Whether no commit has changed them between two snapshots.
    fn is_same_at(&self, one: CommitNumber, other: CommitNumber) -> bool {
        self.last_change.load(Ordering::Acquire) <= one.min(other)
    }

    /// What was kept of a snapshot if a snapshot sees the same.
    fn kept<T>(&self, kept: &Mutex<Option<(CommitNumber, Arc<T>)>>, at: CommitNumber) -> Option<Arc<T>> {
        let kept = locked(kept);
        kept.as_ref().filter(|(number, _)| self.is_same_at(*number, at)).map(|(_, known)| Arc::clone(known))
    }

    /// The segments of the rows that are seen; by a transaction that has changed some of them itself if there is one.
    pub(super) fn images(&self, seen: Seen<'_>, table: &TableSnapshot) -> Result<Images> {
        let ((snapshot, own), volume) = (seen, &self.volume);
        let (at, is_own) = (snapshot.number(), own.is_some());
        if let Some(known) = self.kept(&self.images, at).filter(|_| !is_own) {
            return Ok(Images::new(&known, seen, table, volume));
        }
        let earlier = locked(&self.images).as_ref().map(|(_, images)| Arc::clone(images));
        let chunks = Arc::new(ChunkImages::of(&self.rows, seen, volume, earlier.as_deref())?);
        if !is_own {
            keep(&self.images, at, &chunks);
        }
        Ok(Images::new(&chunks, seen, table, volume))
    }

    /// Which rows of segments are seen deleted, likewise.
    pub(super) fn deleted(&self, view: View<'_>, at: CommitNumber, is_own: bool) -> Result<Arc<DeletedBySegment>> {
        if let Some(known) = self.kept(&self.deleted, at).filter(|_| !is_own) {
            return Ok(known);
        }
        let deleted = Arc::new(self.deletions.seen(view)?.0);
        if !is_own {
            keep(&self.deleted, at, &deleted);
        }
        Ok(deleted)
    }

    /// The chunks that take no more rows and that nobody has changed since this was last asked.
    pub(super) fn cold_chunks(&self, view: View<'_>) -> Vec<u32> {
        let mut chunks = self.rows.chunks();
        chunks.end -= 1;
        let full = chunks.filter(|chunk| self.rows.chunk_rows(*chunk) > 0);
        let now: BTreeMap<u32, u64> =
            full.filter_map(|chunk| Some((chunk, self.rows.changes_seen(view, chunk)?))).collect();
        let mut looked_at = locked(&self.looked_at);
        let before = std::mem::replace(&mut *looked_at, now);
        let is_cold = |(chunk, changes): &(&u32, &u64)| before.get(chunk) == Some(*changes);
        looked_at.iter().filter(is_cold).map(|(chunk, _)| *chunk).collect()
    }

    /// Memory in bytes, about: of rows and their versions, and of indexes.
    pub(super) fn memory_bytes(&self) -> usize {
        /// Of an entry of an ordered index: a short key, a row, and what the map adds.
        const ENTRY_BYTES: usize = 96;
        /// Of one of a hash index: a hash, a row, and places of the table that are free.
        const UNIQUE_ENTRY_BYTES: usize = 40;
        let ordered: usize = self.indexes.others().iter().map(|index| index.len()).sum();
        let unique: usize = self.indexes.keys.iter().map(UniqueIndex::len).sum();
        let rows = [&self.rows, &self.deletions.rows].map(|rows| rows.memory_bytes().total());
        let unique_bytes = UNIQUE_ENTRY_BYTES * (unique + self.deletions.entries());
        rows.iter().sum::<usize>() + ENTRY_BYTES * ordered + unique_bytes
    }

    /// Lets go of what nobody needs any more: versions, chunks without rows, entries of indexes.
    pub(super) fn tidy(&self) {
        self.rows.prune();
        self.rows.release_empty();
        self.indexes.sweep();
        self.deletions.sweep();
    }
}

/// Keeps what was found of a snapshot, unless that of a later one is kept.
fn keep<T>(kept: &Mutex<Option<(CommitNumber, Arc<T>)>>, at: CommitNumber, found: &Arc<T>) {
    let mut kept = locked(kept);
    if kept.as_ref().is_none_or(|(number, _)| *number <= at) {
        *kept = Some((at, Arc::clone(found)));
    }
}
