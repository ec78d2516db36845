//! An ordered index of hot rows: from the bytes of a key (`key.rs`) to the rows that have it, and perhaps to some that have had it.
//!
//! Rows have versions, and the index has none: an entry says that some version of a row has a key, and who finds one reads the row as it sees
//! it and compares. So a change of other columns does not touch the index, and taking a change back neither. Entries that no version bears out any
//! more are dropped when somebody adds one beside them, by who meets several of them on the way to others ([`KeyIndex::range`]), and by
//! [`KeyIndex::sweep`].
//!
//! Keys are checked against the newest versions of rows, those of transactions that have not ended among them, and not against a snapshot:
//! two transactions would otherwise each add the key that the other one does not see.
//!
//! Lock order: the index, then a chunk's latch. Must not know: what keys are called, rows that are not hot.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Bound;
use std::sync::PoisonError;

use forebay_base::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use crate::cell::{Cell, Row};
use crate::chunk::Newest;
use crate::commits::View;
use crate::index_key::IndexKey;
use crate::key::{is_key, push_key};
use crate::row_id::RowId;
use crate::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::table::HotTable;
use crate::waiting::Blocker;

/// Entries that are looked at below the lock at a time, where there may be many.
const STEP_ENTRIES: usize = 256;

/// How many are looked at first: whoever asks for the first row of a range is mostly content with that.
const FIRST_STEP_ENTRIES: usize = 4;

/// Who meets so many entries that no version bears out drops them: a queue, of which the first row is taken again and again, would have
/// more and more of them in front.
const DROPPED_TOGETHER: usize = 8;

/// Finds rows of a table by some of its columns.
#[derive(Debug)]
pub struct KeyIndex {
    table: HotTable,
    columns: Vec<usize>,
    is_unique: bool,
    entries: RwLock<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_key: BTreeMap<IndexKey, Rows>,
    /// Rows of all keys.
    rows: usize,
}

/// Rows of one key: nearly always one.
#[derive(Debug)]
enum Rows {
    One(RowId),
    Several(Vec<RowId>),
}

impl Rows {
    fn as_slice(&self) -> &[RowId] {
        match self {
            Self::One(row) => std::slice::from_ref(row),
            Self::Several(rows) => rows,
        }
    }

    fn of(rows: &[RowId]) -> Self {
        match rows {
            [row] => Self::One(*row),
            _ => Self::Several(rows.to_vec()),
        }
    }
}

impl Entries {
    /// Rows of a key.
    fn get(&self, key: &IndexKey) -> &[RowId] {
        self.by_key.get(key).map_or(&[], Rows::as_slice)
    }

    /// Gives a key other rows than those that it has.
    fn set(&mut self, key: IndexKey, rows: &[RowId]) {
        let before = match (self.by_key.entry(key), rows) {
            (Entry::Vacant(_), []) => return,
            (Entry::Vacant(place), _) => {
                place.insert(Rows::of(rows));
                None
            }
            (Entry::Occupied(known), []) => Some(known.remove()),
            (Entry::Occupied(mut known), _) => Some(known.insert(Rows::of(rows))),
        };
        self.rows = self.rows + rows.len() - before.map_or(0, |before| before.as_slice().len());
    }

    /// Gives a row to a key that has none; the rows that it has otherwise.
    fn begin(&mut self, key: IndexKey, row: RowId) -> &[RowId] {
        match self.by_key.entry(key) {
            Entry::Vacant(place) => {
                place.insert(Rows::One(row));
                self.rows += 1;
                &[]
            }
            Entry::Occupied(known) => known.into_mut().as_slice(),
        }
    }
}

impl KeyIndex {
    /// One of these columns of a table without rows. Where it is unique no two rows have the same values in all of them, none of which is
    /// NULL.
    pub fn new(table: &HotTable, columns: Vec<usize>, is_unique: bool) -> Self {
        Self { table: table.clone(), columns, is_unique, entries: RwLock::default() }
    }

    /// Its columns.
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether no two rows have the same key.
    pub fn is_unique(&self) -> bool {
        self.is_unique
    }

    /// The key of a row with these values.
    pub fn key_of<'c>(&self, cell: impl Fn(usize) -> Cell<'c>) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.columns.len() * 9);
        for column in &self.columns {
            push_key(&mut key, cell(*column), self.table.types()[*column]);
        }
        key
    }

    /// The beginning of all keys whose first values are these.
    pub fn prefix_of(&self, cells: &[Cell<'_>]) -> Vec<u8> {
        let mut key = Vec::with_capacity(cells.len() * 9);
        for (cell, column) in cells.iter().zip(&self.columns) {
            push_key(&mut key, *cell, self.table.types()[*column]);
        }
        key
    }

    /// Says that a row, which `view`'s transaction has just written, has this key.
    ///
    /// # Errors
    /// `Constraint` where another row has it; `Conflict` where one has it or may have it whose writer the view does not see. Then there
    /// is no entry.
    pub fn insert(&self, view: View<'_>, key: &[u8], row: RowId) -> Result<()> {
        let entry = IndexKey::of(key);
        let mut entries = self.write();
        let known = entries.begin(entry.clone(), row);
        if known.is_empty() {
            return Ok(());
        }
        let mut kept: SmallVec<[RowId; 2]> = SmallVec::new();
        for other in known.iter().copied().filter(|other| *other != row) {
            if self.is_borne_out(key, other) {
                if self.is_unique {
                    self.check_one(view, key, other)?;
                }
                kept.push(other);
            }
        }
        kept.push(row);
        entries.set(entry, &kept);
        Ok(())
    }

    /// Whom to wait for where a transaction, whose view this is, must not enter a key: another one that has not ended has written a row which has it or may have it.
    pub fn blocker(&self, view: View<'_>, key: &[u8]) -> Option<Blocker> {
        let rows = self.rows_of(key);
        let is_unseen = |id: &RowId| self.newest(view, key, *id, &mut Row::default()) == Newest::Unseen;
        rows.into_iter().filter(is_unseen).find_map(|id| self.table.blocker(id))
    }

    /// The same as [`KeyIndex::insert`] without a look at other rows: of a table that is being filled, or where [`KeyIndex::check`] follows.
    pub fn add(&self, key: &[u8], row: RowId) {
        let entry = IndexKey::of(key);
        let mut entries = self.write();
        let known = entries.begin(entry.clone(), row);
        if !known.is_empty() && !known.contains(&row) {
            let rows = [known, &[row]].concat();
            entries.set(entry, &rows);
        }
    }

    /// Adds an entry for every version of every row. Whoever writes rows has to enter their keys from before this call on.
    pub fn fill(&self) {
        for chunk in self.table.chunks() {
            let mut found = Vec::new();
            self.table.versions(chunk, &self.columns, |id, row| {
                let mut key = Vec::with_capacity(self.columns.len() * 9);
                for (cell, column) in row.cells().zip(&self.columns) {
                    push_key(&mut key, cell, self.table.types()[*column]);
                }
                found.push((key, id));
            });
            found.iter().for_each(|(key, id)| self.add(key, *id));
        }
    }

    /// An error where more than one row has a key, once a transaction's statement has ended.
    ///
    /// # Errors
    /// As [`KeyIndex::insert`].
    pub fn check(&self, view: View<'_>, key: &[u8]) -> Result<()> {
        let rows = self.rows_of(key);
        let mut row = Row::default();
        let mut has_key = |id: &RowId| self.newest(view, key, *id, &mut row) == Newest::There;
        let Some(own) = rows.iter().copied().find(|id| has_key(id)) else { return Ok(()) };
        rows.iter().filter(|other| **other != own).try_for_each(|other| self.check_one(view, key, *other))
    }

    /// The row that has a key, as a view sees it; of several the first that was added.
    pub fn find(&self, view: View<'_>, key: &[u8]) -> Option<RowId> {
        let entry = IndexKey::of(key);
        let entries = self.read();
        entries.get(&entry).iter().copied().find(|id| self.has_key(view, key, *id))
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
        let (mut low, high) = (low.map(IndexKey::of), high.map(IndexKey::of));
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
                for (key, rows) in entries.by_key.range((from, to)).take(step) {
                    (last, looked_at) = (Some(key), looked_at + 1);
                    let (before, bytes) = (found.len(), key.bytes());
                    found.extend(rows.as_slice().iter().copied().filter(|id| self.has_key(view, &bytes, *id)));
                    if found.len() == before && !rows.as_slice().iter().any(|id| self.is_borne_out(&bytes, *id)) {
                        dead.push(key.clone());
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
            dead.chunks(STEP_ENTRIES).for_each(|keys| self.drop_dead(keys));
        }
        Ok(())
    }

    /// Number of keys with entries.
    pub fn len(&self) -> usize {
        self.read().by_key.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.read().by_key.is_empty()
    }

    /// Bytes of memory, about: keys, and what the map adds to each.
    pub fn memory_bytes(&self) -> usize {
        const ENTRY_BYTES: usize = size_of::<(IndexKey, Rows)>() * 3 / 2;
        let several = |rows: &Rows| match rows {
            Rows::One(_) => 0,
            Rows::Several(rows) => rows.capacity() * size_of::<RowId>(),
        };
        self.read().by_key.iter().map(|(key, rows)| key.heap_bytes() + several(rows) + ENTRY_BYTES).sum()
    }

    /// Drops entries that no version of their row bears out, where they are many: there are a quarter more entries than rows.
    pub fn sweep_if_worthwhile(&self) {
        let rows = self.table.newest_count();
        if self.read().rows > rows + rows / 4 + STEP_ENTRIES {
            self.sweep();
        }
    }

    /// Drops entries that no version of their row bears out.
    pub fn sweep(&self) {
        let mut low: Bound<IndexKey> = Bound::Unbounded;
        loop {
            let keys: Vec<IndexKey> = {
                let entries = self.read();
                let range = entries.by_key.range((low.as_ref(), Bound::Unbounded));
                range.take(STEP_ENTRIES).map(|(key, _)| key.clone()).collect()
            };
            let Some(last) = keys.last().cloned() else { return };
            self.drop_dead(&keys);
            low = Bound::Excluded(last);
        }
    }

    /// Drops entries of these keys that no version of their row bears out.
    fn drop_dead(&self, keys: &[IndexKey]) {
        let mut entries = self.write();
        for key in keys {
            let (rows, bytes) = (entries.get(key), key.bytes());
            let kept: SmallVec<[RowId; 2]> = rows.iter().copied().filter(|id| self.is_borne_out(&bytes, *id)).collect();
            if kept.len() < rows.len() {
                entries.set(key.clone(), &kept);
            }
        }
    }

    /// Rows that have a key or have had it.
    fn rows_of(&self, key: &[u8]) -> SmallVec<[RowId; 2]> {
        SmallVec::from_slice(self.read().get(&IndexKey::of(key)))
    }

    /// An error where a row has a key, or may come to have it.
    fn check_one(&self, view: View<'_>, key: &[u8], other: RowId) -> Result<()> {
        match self.newest(view, key, other, &mut Row::default()) {
            Newest::Gone => Ok(()),
            Newest::There => Err(Error::new(ErrorKind::Constraint, "another row has this key")),
            Newest::Unseen => {
                let message = "another transaction has written a row with this key";
                Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"))
            }
        }
    }

    /// What the newest version of a row is to a key: gone where it has another one.
    fn newest(&self, view: View<'_>, key: &[u8], id: RowId, row: &mut Row) -> Newest {
        let newest = self.table.newest(view, id, &self.columns, row);
        let is_pending = newest == Newest::Unseen && self.table.writer_of(id).is_some();
        match is_pending || self.is_key(key, row) {
            true => newest,
            false => Newest::Gone,
        }
    }

    fn has_key(&self, view: View<'_>, key: &[u8], id: RowId) -> bool {
        self.table.has_key(view, id, &self.columns, key)
    }

    /// Whether some version of a row may have a key: it has older ones, or the only one has it.
    fn is_borne_out(&self, key: &[u8], id: RowId) -> bool {
        let mut row = Row::default();
        match self.table.only_version(id, &self.columns, &mut row) {
            None => true,
            Some(is_there) => is_there && self.is_key(key, &row),
        }
    }

    /// Whether the columns of the index with these values are a key.
    fn is_key(&self, key: &[u8], row: &Row) -> bool {
        is_key(key, row.cells().zip(self.columns.iter().map(|column| self.table.types()[*column])))
    }

    fn read(&self) -> RwLockReadGuard<'_, Entries> {
        self.entries.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Entries> {
        self.entries.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether nothing lies within the bounds, which a map takes for a mistake.
fn is_empty(low: Bound<&IndexKey>, high: Bound<&IndexKey>) -> bool {
    match (low, high) {
        (Bound::Included(low), Bound::Included(high)) => low > high,
        (Bound::Excluded(low) | Bound::Included(low), Bound::Excluded(high) | Bound::Included(high)) => low >= high,
        (Bound::Unbounded, _) | (_, Bound::Unbounded) => false,
    }
}
