//! Undo records of a chunk: before-images, chained from the newest version of a row to the oldest.
//!
//! A record takes a row back to before one transaction's change: whether the row was there, and values of columns. Records are numbered from 1 in one
//! array, their values lie in one array of words. Both belong to the chunk, not to the transaction as in HyPer: a reader needs no latch
//! but the chunk's, and what is left of many transactions for an old snapshot moves together when the chunk is pruned, where a single record
//! would keep a transaction's whole buffer.
//!
//! Invariants: stamps of a chain fall from newer to older; of one row only the newest records are of a transaction that has not committed,
//! and all of them of the same one. Must not know: how newest values lie, which rows are versioned.

use std::sync::Arc;

use crate::cell::Cell;
use crate::commits::CommitNumber;
use crate::stamp::{FIRST_ID, Stamp};

/// Whether a row was there before a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existence {
    /// As after it.
    Same,
    /// It was inserted.
    Absent,
    /// It was deleted.
    Present,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// A commit number, or from [`FIRST_ID`] on the index of an owner, whose stamp counts.
    stamp: u64,
    /// Where its values begin.
    words_at: u64,
    words: u32,
    /// The next older record of the row, counted from 1; 0 = none.
    pub(crate) next: u32,
    /// Which write of its transaction it was.
    pub(crate) write: u32,
    pub(crate) existence: Existence,
    /// Rolled back: in no chain.
    is_dead: bool,
}

/// All records of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    records: Vec<Record>,
    words: Vec<u64>,
    /// Transactions that had not committed when they wrote.
    owners: Vec<Arc<Stamp>>,
    /// Records that say whether rows were there.
    existences: usize,
}

/// An old value: how long it is in bytes, and its words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Image<'u> {
    pub(crate) column: usize,
    is_valid: bool,
    is_string: bool,
    bytes: usize,
    words: &'u [u64],
}

impl Image<'_> {
    /// Gives the value to `read`.
    pub(crate) fn with<R>(&self, read: impl FnOnce(Cell<'_>) -> R) -> R {
        if !self.is_valid {
            return read(Cell::Null);
        }
        if self.is_string {
            let mut string: Vec<u8> = self.words.iter().flat_map(|word| word.to_le_bytes()).collect();
            string.truncate(self.bytes);
            return read(Cell::Bytes(&string));
        }
        let high = self.words.get(1).copied().unwrap_or(0);
        read(Cell::Fixed(u128::from(self.words[0]) | u128::from(high) << 64))
    }
}

/// A word before a value's words: the column, whether it is valid, whether it is a string, its length.
const VALID: u64 = 1 << 16;
const STRING: u64 = 1 << 17;

impl Undo {
    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Whether any record may say that a row was there or not.
    pub(crate) fn changes_existence(&self) -> bool {
        self.existences > 0
    }

    pub(crate) fn word_count(&self) -> usize {
        self.words.len()
    }

    #[inline]
    pub(crate) fn record(&self, number: u32) -> &Record {
        &self.records[number as usize - 1]
    }

    /// The id of the record's transaction, or its commit number.
    #[inline]
    pub(crate) fn stamp(&self, record: &Record) -> u64 {
        match record.stamp.checked_sub(FIRST_ID) {
            Some(owner) => self.owners[owner as usize].get(),
            None => record.stamp,
        }
    }

    /// The record's transaction, unless it has its commit number itself.
    pub(crate) fn owner(&self, record: &Record) -> Option<&Arc<Stamp>> {
        record.stamp.checked_sub(FIRST_ID).map(|owner| &self.owners[owner as usize])
    }

    /// The old values of a record.
    pub(crate) fn images(&self, record: &Record) -> impl Iterator<Item = Image<'_>> {
        let start = record.words_at as usize;
        let mut rest = &self.words[start..start + record.words as usize];
        std::iter::from_fn(move || {
            let (head, behind) = rest.split_first()?;
            let bytes = (head >> 32) as usize;
            let (words, behind) = behind.split_at(bytes.div_ceil(8));
            rest = behind;
            let (is_valid, is_string) = (head & VALID != 0, head & STRING != 0);
            Some(Image { column: (head & 0xffff) as usize, is_valid, is_string, bytes, words })
        })
    }

    /// Begins a record, whose values [`Undo::add`] adds; gives its number.
    pub(crate) fn begin(&mut self, owner: &Arc<Stamp>, existence: Existence, next: u32, write: u32) -> u32 {
        if self.owners.last().is_none_or(|last| !Arc::ptr_eq(last, owner)) {
            self.owners.push(Arc::clone(owner));
        }
        let stamp = FIRST_ID + self.owners.len() as u64 - 1;
        self.push(Record { stamp, words_at: self.words.len() as u64, words: 0, next, write, existence, is_dead: false })
    }

    /// Adds a value to the last record.
    #[inline]
    pub(crate) fn add(&mut self, column: usize, cell: Cell<'_>) {
        let column = column as u64;
        match cell {
            Cell::Null => self.words.push(column),
            Cell::Fixed(bits) => match (bits >> 64) as u64 {
                0 => self.words.extend([column | VALID | 8 << 32, bits as u64]),
                high => self.words.extend([column | VALID | 16 << 32, bits as u64, high]),
            },
            Cell::Bytes(string) => {
                self.words.push(column | VALID | STRING | (string.len() as u64) << 32);
                self.words.extend(string.chunks(8).map(|part| {
                    let mut word = [0; 8];
                    word[..part.len()].copy_from_slice(part);
                    u64::from_le_bytes(word)
                }));
            }
        }
        let end = self.words.len() as u64;
        let last = self.records.last_mut().expect("a record was begun");
        last.words =
            u32::try_from(end - last.words_at).expect("4,096 columns of 1 GiB at most are changed, one row at a time");
    }

    /// Takes a record out that is in no chain any more.
    pub(crate) fn kill(&mut self, number: u32) {
        self.existences -= usize::from(self.record(number).existence != Existence::Same);
        self.records[number as usize - 1].is_dead = true;
        while let Some(last) = self.records.pop_if(|last| last.is_dead) {
            self.words.truncate(last.words_at as usize);
        }
        if self.records.is_empty() {
            *self = Self::default();
        }
    }

    /// Takes over, from another arena, what has to be kept of a chain: at most one record per snapshot of `live`, which is ascending and ends with
    /// the last commit, besides those of a transaction that has not committed. Gives its newest record here (0 = none). Two records
    /// are made one where no snapshot lies between them (Böttcher et al. 2019: Steam's eager pruning of versions).
    pub(crate) fn take_over(&mut self, old: &Self, head: u32, live: &[CommitNumber]) -> u32 {
        let record = old.record(head);
        let stamp = old.stamp(record);
        if readers_before(live, stamp) == Some(0) {
            return 0;
        }
        if record.next == 0 {
            return self.take_over_group(old, &[(head, stamp)]);
        }
        let mut chain = vec![(head, stamp)];
        let mut number = record.next;
        while number != 0 {
            let record = old.record(number);
            chain.push((number, old.stamp(record)));
            number = record.next;
        }
        // Newest first, as the chain is.
        let groups = chain.chunk_by(|(_, newer), (_, older)| {
            let readers = readers_before(live, *newer);
            readers.is_some() && readers == readers_before(live, *older)
        });
        let needed = groups.filter(|group| readers_before(live, group[0].1) != Some(0));
        let (mut newest, mut newer) = (0, 0);
        for group in needed {
            let kept = self.take_over_group(old, group);
            match newer {
                0 => newest = kept,
                newer => self.records[newer as usize - 1].next = kept,
            }
            newer = kept;
        }
        newest
    }

    /// Takes back the memory of an arena from which everything was taken over, if nothing was.
    pub(crate) fn reuse(&mut self, mut old: Self) {
        if self.is_empty() {
            old.records.clear();
            old.words.clear();
            old.owners.clear();
            *self = Self { existences: 0, ..old };
        }
    }

    /// One record in place of a group of another arena's, newest first.
    fn take_over_group(&mut self, old: &Self, group: &[(u32, u64)]) -> u32 {
        let newest = *old.record(group[0].0);
        let words_at = self.words.len();
        let mut existence = Existence::Same;
        let mut columns: Vec<usize> = Vec::new();
        for (number, _) in group.iter().rev() {
            let record = old.record(*number);
            if existence == Existence::Same {
                existence = record.existence;
            }
            if group.len() == 1 {
                let start = record.words_at as usize;
                self.words.extend_from_slice(&old.words[start..start + record.words as usize]);
                continue;
            }
            for image in old.images(record) {
                if !columns.contains(&image.column) {
                    columns.push(image.column);
                    let flags = if image.is_valid { VALID } else { 0 } | if image.is_string { STRING } else { 0 };
                    self.words.push(image.column as u64 | flags | (image.bytes as u64) << 32);
                    self.words.extend_from_slice(image.words);
                }
            }
        }
        let stamp = match group[0].1 {
            // Not committed when it was looked at: the owner's stamp goes on to count.
            id if id >= FIRST_ID => {
                let owner = &old.owners[(newest.stamp - FIRST_ID) as usize];
                if self.owners.last().is_none_or(|last| !Arc::ptr_eq(last, owner)) {
                    self.owners.push(Arc::clone(owner));
                }
                FIRST_ID + self.owners.len() as u64 - 1
            }
            number => number,
        };
        let words = (self.words.len() - words_at) as u32;
        self.push(Record { stamp, words_at: words_at as u64, words, next: 0, existence, ..newest })
    }

    fn push(&mut self, record: Record) -> u32 {
        self.existences += usize::from(record.existence != Existence::Same);
        self.records.push(record);
        u32::try_from(self.records.len()).expect("a chunk has fewer than 2^32 undo records")
    }

    pub(crate) fn bytes(&self) -> usize {
        self.records.capacity() * size_of::<Record>()
            + self.words.capacity() * 8
            + self.owners.capacity() * size_of::<Arc<Stamp>>()
    }
}

/// How many snapshots lie before a change; `None` if it is not committed, or was after `live` was made.
fn readers_before(live: &[CommitNumber], stamp: u64) -> Option<usize> {
    let newest = live.last().copied().unwrap_or(0);
    (stamp <= newest).then(|| live.partition_point(|snapshot| *snapshot < stamp))
}
