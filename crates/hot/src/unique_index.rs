//! A hash index of hot rows by keys that no two rows share: for who knows a whole key.
//!
//! Rows have versions, and the index has none: an entry says that some version of a row has a key, and who finds one reads the row as it sees
//! it and compares. So a change of other columns does not touch the index, and taking a change back neither. Entries that no version bears out any
//! more are dropped when somebody adds one to them, and by [`UniqueIndex::sweep`].
//!
//! An entry is the hash of a key and the rows that have it. It takes a third of the memory of an ordered one, and finding it costs a cache miss or
//! two instead of one for each of the lower levels of a tree. Rows of other keys with the same hash are found, too, and are told apart by their values.
//!
//! Keys are checked against the newest versions of rows, those of transactions that have not ended among them, and not against a snapshot:
//! two transactions would otherwise each add the key that the other one does not see.
//!
//! Lock order: a part of the index, then a chunk's latch. Must not know: what keys are called, rows that are not hot.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::PoisonError;

use forebay_base::{Error, ErrorKind, Result};
use smallvec::SmallVec;

use crate::cell::Row;
use crate::chunk::Newest;
use crate::commits::View;
use crate::indexed_columns::IndexedColumns;
use crate::row_id::RowId;
use crate::sync::{AtomicUsize, Ordering, RwLock, RwLockReadGuard, RwLockWriteGuard};
use crate::table::HotTable;
use crate::waiting::Blocker;

/// Parts with a lock of their own: who adds to one that has to grow makes others wait for a small part only. A power of two.
const PARTS: usize = 64;

/// Keys that a sweep looks at below a lock at a time.
const STEP_KEYS: usize = 256;

/// Finds rows of a table by a key of which there is one at most.
#[derive(Debug)]
pub struct UniqueIndex<S = RandomState> {
    columns: IndexedColumns,
    hashing: S,
    parts: Vec<Part>,
    /// 0 until the first key is entered.
    has_been_used: AtomicUsize,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Part {
    entries: RwLock<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    by_hash: HashMap<u64, Rows, BuildHasherDefault<HashItself>>,
    /// Rows of all keys.
    rows: usize,
}

/// Rows of keys with one hash: nearly always one.
#[derive(Debug)]
enum Rows {
    One(RowId),
    Several(Box<[RowId]>),
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
            _ => Self::Several(rows.into()),
        }
    }
}

/// The hash of a number that is a hash.
#[derive(Debug, Default)]
struct HashItself(u64);

impl Hasher for HashItself {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        debug_assert!(bytes.is_empty(), "only numbers are hashed");
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl Entries {
    /// Rows of keys with a hash.
    fn get(&self, hash: u64) -> &[RowId] {
        self.by_hash.get(&hash).map_or(&[], Rows::as_slice)
    }

    /// Gives a hash other rows than those that it has.
    fn set(&mut self, hash: u64, rows: &[RowId]) {
        let before = match rows {
            [] => self.by_hash.remove(&hash),
            _ => self.by_hash.insert(hash, Rows::of(rows)),
        };
        self.rows = self.rows + rows.len() - before.map_or(0, |before| before.as_slice().len());
    }

    /// Gives a row to a hash that has none; the rows that it has otherwise.
    fn begin(&mut self, hash: u64, row: RowId) -> &[RowId] {
        match self.by_hash.entry(hash) {
            Entry::Vacant(place) => {
                place.insert(Rows::One(row));
                self.rows += 1;
                &[]
            }
            Entry::Occupied(known) => known.into_mut().as_slice(),
        }
    }
}

impl UniqueIndex {
    /// One of these columns of a table without rows: no two rows have the same values in all of them, none of which is NULL.
    pub fn new(table: &HotTable, columns: Vec<usize>) -> Self {
        Self::with_hashing(table, columns, RandomState::new())
    }
}

impl<S: BuildHasher> UniqueIndex<S> {
    fn with_hashing(table: &HotTable, columns: Vec<usize>, hashing: S) -> Self {
        Self {
            columns: IndexedColumns::new(table, columns),
            hashing,
            parts: (0..PARTS).map(|_| Part::default()).collect(),
            has_been_used: AtomicUsize::new(0),
        }
    }

    /// Its columns.
    pub fn columns(&self) -> &IndexedColumns {
        &self.columns
    }

    /// Says that a row, which `view`'s transaction has just written, has this key.
    ///
    /// # Errors
    /// `Constraint` where another row has it; `Conflict` where one has it or may have it whose writer the view does not see. Then there
    /// is no entry.
    pub fn insert(&self, view: View<'_>, key: &[u8], row: RowId) -> Result<()> {
        let hash = self.hash(key);
        let mut entries = self.write(hash);
        let known = entries.begin(hash, row);
        if known.is_empty() {
            return Ok(());
        }
        let mut kept: SmallVec<[RowId; 2]> = SmallVec::new();
        for other in known.iter().copied().filter(|other| *other != row) {
            if self.is_borne_out(hash, other) {
                self.check_one(view, key, other)?;
                kept.push(other);
            }
        }
        kept.push(row);
        entries.set(hash, &kept);
        Ok(())
    }

    /// Whom to wait for where a transaction, whose view this is, must not enter a key: another one that has not ended has written a row which has it or may have it.
    pub fn blocker(&self, view: View<'_>, key: &[u8]) -> Option<Blocker> {
        let is_unseen = |id: &RowId| self.columns.newest(view, key, *id, &mut Row::default()) == Newest::Unseen;
        self.rows_of(key).into_iter().filter(is_unseen).find_map(|id| self.columns.table().blocker(id))
    }

    /// The same as [`UniqueIndex::insert`] without a look at other rows: of a table that is being filled, or where [`UniqueIndex::check`] follows.
    pub fn add(&self, key: &[u8], row: RowId) {
        let hash = self.hash(key);
        let mut entries = self.write(hash);
        let known = entries.begin(hash, row);
        if !known.is_empty() && !known.contains(&row) {
            let rows = [known, &[row]].concat();
            entries.set(hash, &rows);
        }
    }

    /// An error where more than one row has a key, once a transaction's statement has ended.
    ///
    /// # Errors
    /// As [`UniqueIndex::insert`].
    pub fn check(&self, view: View<'_>, key: &[u8]) -> Result<()> {
        let rows = self.rows_of(key);
        let mut row = Row::default();
        let mut has_key = |id: &RowId| self.columns.newest(view, key, *id, &mut row) == Newest::There;
        let Some(own) = rows.iter().copied().find(|id| has_key(id)) else { return Ok(()) };
        rows.iter().filter(|other| **other != own).try_for_each(|other| self.check_one(view, key, *other))
    }

    /// The row that has a key, as a view sees it.
    pub fn find(&self, view: View<'_>, key: &[u8]) -> Option<RowId> {
        if !self.has_been_used() {
            return None;
        }
        let hash = self.hash(key);
        let entries = self.read(hash);
        entries.get(hash).iter().copied().find(|id| self.columns.has_key(view, key, *id))
    }

    /// Whether it has ever had an entry.
    pub fn has_been_used(&self) -> bool {
        self.has_been_used.load(Ordering::Relaxed) != 0
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        (0..PARTS).map(|part| self.read_part(part).rows).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of memory, about.
    pub fn memory_bytes(&self) -> usize {
        let several = |rows: &Rows| match rows {
            Rows::One(_) => 0,
            Rows::Several(rows) => size_of_val(&**rows),
        };
        let of_part = |part: usize| {
            let entries = self.read_part(part);
            // The table has a byte for each place beside its entry.
            let places = entries.by_hash.capacity() * 8 / 7 * (size_of::<(u64, Rows)>() + 1);
            places + entries.by_hash.values().map(several).sum::<usize>()
        };
        (0..PARTS).map(of_part).sum()
    }

    /// Drops entries that no version of their row bears out, where they are many: there are a quarter more entries than rows.
    pub fn sweep_if_worthwhile(&self) {
        let rows = self.columns.table().newest_count();
        if self.len() > rows + rows / 4 + STEP_KEYS {
            self.sweep();
        }
    }

    /// Drops entries that no version of their row bears out.
    pub fn sweep(&self) {
        for part in 0..PARTS {
            let hashes: Vec<u64> = self.read_part(part).by_hash.keys().copied().collect();
            for hashes in hashes.chunks(STEP_KEYS) {
                let mut entries = self.write(hashes[0]);
                for hash in hashes {
                    let rows = entries.get(*hash);
                    let kept: SmallVec<[RowId; 2]> =
                        rows.iter().copied().filter(|id| self.is_borne_out(*hash, *id)).collect();
                    if kept.len() < rows.len() {
                        entries.set(*hash, &kept);
                    }
                }
            }
            let mut entries = self.part(part).write().unwrap_or_else(PoisonError::into_inner);
            if entries.by_hash.capacity() > 4 * entries.by_hash.len() {
                entries.by_hash.shrink_to_fit();
            }
        }
    }

    /// Rows that have a key or have had it, and perhaps some of other keys.
    fn rows_of(&self, key: &[u8]) -> SmallVec<[RowId; 2]> {
        let hash = self.hash(key);
        SmallVec::from_slice(self.read(hash).get(hash))
    }

    /// An error where a row has a key, or may come to have it.
    fn check_one(&self, view: View<'_>, key: &[u8], other: RowId) -> Result<()> {
        match self.columns.newest(view, key, other, &mut Row::default()) {
            Newest::Gone => Ok(()),
            Newest::There => Err(Error::new(ErrorKind::Constraint, "another row has this key")),
            Newest::Unseen => {
                let message = "another transaction has written a row with this key";
                Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"))
            }
        }
    }

    /// Whether some version of a row may have a key with this hash.
    fn is_borne_out(&self, hash: u64, id: RowId) -> bool {
        self.columns.may_have(id, |row| self.hash(&self.columns.key(row.cells())) == hash)
    }

    fn hash(&self, key: &[u8]) -> u64 {
        self.hashing.hash_one(key)
    }

    fn part(&self, part: usize) -> &RwLock<Entries> {
        &self.parts[part].entries
    }

    fn read_part(&self, part: usize) -> RwLockReadGuard<'_, Entries> {
        self.part(part).read().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, hash: u64) -> RwLockReadGuard<'_, Entries> {
        self.read_part(part_of(hash))
    }

    fn write(&self, hash: u64) -> RwLockWriteGuard<'_, Entries> {
        if !self.has_been_used() {
            self.has_been_used.store(1, Ordering::Relaxed);
        }
        self.part(part_of(hash)).write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The part that has a hash: not by those bits by which a map finds its place.
fn part_of(hash: u64) -> usize {
    (hash >> 40) as usize % PARTS
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::hash_map::DefaultHasher;

    use forebay_base::PhysicalType;
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::cell::Cell;
    use crate::commits::Commits;
    use crate::transaction::Transaction;

    /// So many different hashes, so that keys share them.
    struct FewHashes(u64);

    struct FewHasher(DefaultHasher, u64);

    impl BuildHasher for FewHashes {
        type Hasher = FewHasher;

        fn build_hasher(&self) -> FewHasher {
            FewHasher(DefaultHasher::new(), self.0)
        }
    }

    impl Hasher for FewHasher {
        fn finish(&self) -> u64 {
            self.0.finish() % self.1
        }

        fn write(&mut self, bytes: &[u8]) {
            self.0.write(bytes);
        }
    }

    proptest! {
        #[test]
        fn keys_with_one_hash_are_told_apart(steps in vec((0_i64..20, 0_u8..4), 1..120), different_hashes in 1_u64..4) {
            let commits = Commits::new(0);
            let table = HotTable::new(1, "t", vec![PhysicalType::I64], 0, &commits);
            let index = UniqueIndex::with_hashing(&table, vec![0], FewHashes(different_hashes));
            let key = |key: i64| index.columns().prefix_of(&[Cell::i64(key)]);
            let mut rows: BTreeMap<i64, RowId> = BTreeMap::new();
            for (number, what) in steps {
                let mut t = Transaction::begin(&commits);
                match (rows.get(&number).copied(), what) {
                    (_, 0) => {
                        table.prune();
                        index.sweep();
                    }
                    (Some(row), 1) => {
                        assert!(table.delete(&mut t, row).expect("nobody else"));
                        rows.remove(&number);
                    }
                    (known, _) => {
                        let savepoint = t.savepoint();
                        let row = table.insert(&mut t, &[Cell::i64(number)]).expect("a row");
                        let entered = index.insert(t.view(), &key(number), row);
                        prop_assert_eq!(entered.is_ok(), known.is_none());
                        match entered {
                            Ok(()) => _ = rows.insert(number, row),
                            Err(error) => {
                                prop_assert_eq!(error.kind(), ErrorKind::Constraint);
                                t.roll_back_to(savepoint);
                            }
                        }
                    }
                }
                t.commit();
                let now = commits.snapshot();
                for number in 0..20 {
                    prop_assert_eq!(index.find(now.view(), &key(number)), rows.get(&number).copied());
                    index.check(now.view(), &key(number)).expect("each key is there once");
                }
            }
            table.prune();
            index.sweep();
            prop_assert_eq!(index.len(), rows.len());
        }
    }
}
