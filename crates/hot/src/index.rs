//! An ordered index of hot rows: from the bytes of a key (`key.rs`) to the rows that have it, and perhaps to some that have had it.
//!
//! Rows have versions, and the index has none: an entry says that some version of a row has a key, and who finds one reads the row as it sees
//! it and compares. So a change of other columns does not touch the index, and taking a change back neither. Entries that no version bears out any
//! more are dropped by who meets several of them on the way to others ([`KeyIndex::range`]), and by [`KeyIndex::sweep`].
//!
//! Lock order: the index, then a chunk's latch. Must not know: what keys are called, rows that are not hot.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::PoisonError;

use forebay_base::Result;

use crate::commits::View;
use crate::index_key::IndexKey;
use crate::indexed_columns::IndexedColumns;
use crate::row_id::RowId;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::table::HotTable;

/// Entries that are looked at below the lock at a time, where there may be many.
const STEP_ENTRIES: usize = 256;

/// How many are looked at first: whoever asks for the first row of a range is mostly content with that.
const FIRST_STEP_ENTRIES: usize = 4;

/// Who meets so many entries that no version bears out drops them: a queue, of which the first row is taken again and again, would have
/// more and more of them in front.
const DROPPED_TOGETHER: usize = 8;

/// Finds rows of a table by some of its columns, in the order of their values.
#[derive(Debug)]
pub struct KeyIndex {
    columns: IndexedColumns,
    entries: RwLock<BTreeSet<KeyedRow>>,
}

/// A row that has a key, or has had it.
type KeyedRow = (IndexKey, RowId);

impl KeyIndex {
    /// One of these columns of a table without rows.
    pub fn new(table: &HotTable, columns: Vec<usize>) -> Self {
        Self { columns: IndexedColumns::new(table, columns), entries: RwLock::default() }
    }

    /// Its columns.
    pub fn columns(&self) -> &IndexedColumns {
        &self.columns
    }

    /// Says that a row has this key.
    pub fn add(&self, key: &[u8], row: RowId) {
        let entry = (IndexKey::of(key), row);
        self.write().insert(entry);
    }

    /// Adds an entry for every version of every row. Whoever writes rows has to enter their keys from before this call on.
    pub fn fill(&self) {
        let table = self.columns.table();
        for chunk in table.chunks() {
            let mut found = Vec::new();
            table.versions(chunk, self.columns.positions(), |id, row| {
                found.push((IndexKey::of(&self.columns.key(row.cells())), id));
            });
            self.write().extend(found);
        }
    }

    /// Calls `each` with the rows that a view sees whose keys lie within these bounds, in the order of the keys, until it says that it has
    /// enough. No lock is held then.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn range(
        &self,
        view: View<'_>,
        (low, high): (Bound<&[u8]>, Bound<&[u8]>),
        mut each: impl FnMut(RowId) -> Result<bool>,
    ) -> Result<()> {
        let mut low = match low.map(IndexKey::of) {
            Bound::Included(key) => Bound::Included((key, RowId::FIRST)),
            Bound::Excluded(key) => Bound::Excluded((key, RowId::LAST)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let high = match high.map(IndexKey::of) {
            Bound::Included(key) => Bound::Included((key, RowId::LAST)),
            Bound::Excluded(key) => Bound::Excluded((key, RowId::FIRST)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let (mut step, mut found, mut dead) = (FIRST_STEP_ENTRIES, Vec::new(), Vec::new());
        'steps: loop {
            found.clear();
            let last = {
                let entries = self.read();
                let (from, to) = (low.as_ref(), high.as_ref());
                if is_empty(from, to) {
                    break;
                }
                let (mut last, mut looked_at) = (None, 0);
                for entry in entries.range((from, to)).take(step) {
                    (last, looked_at) = (Some(entry), looked_at + 1);
                    let ((key, id), bytes) = (entry, entry.0.bytes());
                    match self.columns.has_key(view, &bytes, *id) {
                        true => found.push(*id),
                        false if !self.is_borne_out(&bytes, *id) => dead.push((key.clone(), *id)),
                        false => (),
                    }
                }
                last.filter(|_| looked_at == step).cloned()
            };
            for id in &found {
                if !each(*id)? {
                    break 'steps;
                }
            }
            let Some(last) = last else { break };
            low = Bound::Excluded(last);
            step = STEP_ENTRIES.min(step * 4);
        }
        if dead.len() >= DROPPED_TOGETHER {
            dead.chunks(STEP_ENTRIES).for_each(|entries| self.drop_dead(entries));
        }
        Ok(())
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.read().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.read().is_empty()
    }

    /// Bytes of memory, about: keys, and what the set adds to each.
    pub fn memory_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = size_of::<KeyedRow>() * 3 / 2;
        self.read().iter().map(|(key, _)| key.heap_bytes() + ENTRY_BYTES).sum()
    }

    /// Drops entries that no version of their row bears out, where they are many: there are a quarter more entries than rows.
    pub fn sweep_if_worthwhile(&self) {
        let rows = self.columns.table().newest_count();
        if self.len() > rows + rows / 4 + STEP_ENTRIES {
            self.sweep();
        }
    }

    /// Drops entries that no version of their row bears out.
    pub fn sweep(&self) {
        let mut low: Bound<KeyedRow> = Bound::Unbounded;
        loop {
            let entries: Vec<KeyedRow> =
                self.read().range((low.as_ref(), Bound::Unbounded)).take(STEP_ENTRIES).cloned().collect();
            let Some(last) = entries.last().cloned() else { return };
            self.drop_dead(&entries);
            low = Bound::Excluded(last);
        }
    }

    /// Drops those of these entries that no version of their row bears out.
    fn drop_dead(&self, some: &[KeyedRow]) {
        let mut entries = self.write();
        for entry in some.iter().filter(|(key, id)| !self.is_borne_out(&key.bytes(), *id)) {
            entries.remove(entry);
        }
    }

    /// Whether some version of a row may have a key.
    fn is_borne_out(&self, key: &[u8], id: RowId) -> bool {
        self.columns.may_have(id, |row| self.columns.is_key(key, row))
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeSet<KeyedRow>> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeSet<KeyedRow>> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nothing lies within the bounds, which a set takes for a mistake.
fn is_empty(low: Bound<&KeyedRow>, high: Bound<&KeyedRow>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Excluded(low) | Bound::Included(low), Bound::Excluded(high) | Bound::Included(high)) => low >= high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}
