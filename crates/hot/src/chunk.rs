//! One chunk: up to 65,536 rows with their newest versions in place, and their older ones.
//!
//! All of it lies below one reader/writer latch (in `table.rs`). A change of a row, a read of one and a scan of a few thousand are short sections below it, so
//! that nobody waits for a transaction and nobody sees half of a change. That costs two atomic operations on one cache line per row and
//! access; readers of one chunk on many cores share that line, and writers of one chunk take turns.
//!
//! Invariant: what a view sees does not depend on when it looks, as long as its snapshot is live. Must not know: other chunks, the latch.

mod versions;

mod read;

use std::ops::Range;
use std::sync::Arc;

use forebay_base::limits::{BLOCK_BYTES, BLOCK_ROWS};
use forebay_base::{PhysicalType, Value};

use crate::batch::Batch;
use crate::bits::Bits;
use crate::cell::Cell;
use crate::column::Column;
use crate::commits::{CommitNumber, View};
use crate::marks::Marks;
use crate::stamp::{FIRST_ID, Stamp};
use crate::undo::{Existence, Record, Undo};

/// Undo records, and words of old values, at which a chunk is pruned by who adds to it; twice as many as it had after the last time if that is more.
const PRUNE_RECORDS: usize = 1024;
const PRUNE_WORDS: usize = 64 << 10;

/// Bytes of undo records that a chunk that is written to holds on to when they are all gone.
const REUSED_BYTES: usize = 128 << 10;

/// A column's number in its table, and a new value for it.
pub type Change<'a> = (usize, Cell<'a>);

#[derive(Debug)]
pub(crate) struct Chunk {
    present: Bits,
    columns: Vec<Column>,
    marks: Marks,
    undo: Undo,
    /// Records and words at which it is pruned next.
    prune_at: (usize, usize),
    /// How often it was changed.
    pub(crate) changes: u64,
    /// Takes no more rows.
    pub(crate) is_closed: bool,
    /// Its rows lie elsewhere now.
    pub(crate) is_released: bool,
}

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Writer<'t> {
    pub(crate) view: View<'t>,
    pub(crate) stamp: &'t Arc<Stamp>,
    /// The number of this write in its transaction.
    pub(crate) write: u32,
    /// Writes from here on are behind the last savepoint: nobody goes back to between them.
    pub(crate) floor: u32,
}

/// What came of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Written {
    /// Done; there is a new undo record, to be undone.
    Recorded,
    /// Done; an earlier record of the same transaction takes it back, too.
    Covered,
    /// The writer does not see the row.
    Unseen,
    /// The newest version is of this stamp, which the writer does not see.
    Conflict(u64),
}

/// What the newest version of a row is to a view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Newest {
    /// The row is not there, and not because somebody may still take that back.
    Gone,
    /// There, and the view sees this version.
    There,
    /// Of a transaction that has not ended, or there and committed since.
    Unseen,
}

/// Bytes by kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MemoryBytes {
    /// Values of fixed width, slots of strings, validity, which rows are there.
    pub rows: usize,
    /// Strings of more than 12 bytes.
    pub strings: usize,
    /// Before-images.
    pub undo: usize,
    /// Ranges with versions, and what leads from a row to its before-images.
    pub marks: usize,
}

impl MemoryBytes {
    /// All of them.
    pub fn total(&self) -> usize {
        self.rows + self.strings + self.undo + self.marks
    }
}

impl std::ops::Add for MemoryBytes {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            strings: self.strings + other.strings,
            undo: self.undo + other.undo,
            marks: self.marks + other.marks,
        }
    }
}

impl Chunk {
    pub(crate) fn new(types: &[PhysicalType]) -> Self {
        Self {
            present: Bits::default(),
            columns: types.iter().map(|physical| Column::new(*physical)).collect(),
            marks: Marks::default(),
            undo: Undo::default(),
            prune_at: (PRUNE_RECORDS, PRUNE_WORDS),
            changes: 0,
            is_closed: false,
            is_released: false,
        }
    }

    /// Number of positions, with rows or without.
    pub(crate) fn rows(&self) -> usize {
        self.present.len()
    }

    pub(crate) fn column_count(&self) -> usize {
        self.columns.len()
    }

    pub(crate) fn is_full(&self) -> bool {
        let strings = || self.columns.iter().map(|column| column.heap().live_bytes()).sum::<usize>();
        self.is_closed || self.rows() == BLOCK_ROWS || strings() >= BLOCK_BYTES
    }

    /// Adds a row; gives its position. The chunk is not full.
    pub(crate) fn insert(&mut self, writer: Writer<'_>, cells: &[Cell<'_>]) -> usize {
        let position = self.rows();
        self.present.push(true);
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.push(*cell);
        }
        let record = self.undo.begin(writer.stamp, Existence::Absent, 0, writer.write);
        self.marks.set_head(position, record);
        self.changes += 1;
        position
    }

    /// Puts a row without versions at a position; positions before it that have no row stay without.
    pub(crate) fn put(&mut self, position: usize, cells: &[Cell<'_>]) {
        while self.rows() <= position {
            self.present.push(false);
            self.columns.iter_mut().for_each(Column::push_nothing);
        }
        self.present.set(position, true);
        for (column, cell) in self.columns.iter_mut().zip(cells) {
            column.set(position, *cell);
        }
        self.changes += 1;
    }

    /// Overwrites values of a row.
    pub(crate) fn update(&mut self, writer: Writer<'_>, position: usize, changes: &[Change<'_>]) -> Written {
        let head = match self.check(writer, position) {
            Ok(head) => head,
            Err(refused) => return refused,
        };
        let undo = &mut self.undo;
        // Records of this transaction since its last savepoint.
        let is_covered = |undo: &Undo, column: usize| {
            let mut number = head;
            while number != 0 && covers(undo, undo.record(number), writer) {
                let record = undo.record(number);
                if record.existence == Existence::Absent || undo.images(record).any(|image| image.column == column) {
                    return true;
                }
                number = record.next;
            }
            false
        };
        let mut recorded = None;
        for (column, cell) in changes {
            if !is_covered(undo, *column) {
                recorded.get_or_insert_with(|| undo.begin(writer.stamp, Existence::Same, head, writer.write));
                self.columns[*column].with(position, |old| undo.add(*column, old));
            }
            self.columns[*column].set(position, *cell);
        }
        self.changes += 1;
        self.mark(position, recorded)
    }

    /// Deletes a row. Its values stay until no snapshot sees it.
    pub(crate) fn delete(&mut self, writer: Writer<'_>, position: usize) -> Written {
        let head = match self.check(writer, position) {
            Ok(head) => head,
            Err(refused) => return refused,
        };
        let is_covered = head != 0 && {
            let record = self.undo.record(head);
            record.existence != Existence::Same && covers(&self.undo, record, writer)
        };
        let recorded = (!is_covered).then(|| self.undo.begin(writer.stamp, Existence::Present, head, writer.write));
        self.present.set(position, false);
        self.changes += 1;
        self.mark(position, recorded)
    }

    /// The newest record of a row that this writer may change.
    fn check(&self, writer: Writer<'_>, position: usize) -> Result<u32, Written> {
        if position >= self.rows() {
            return Err(Written::Unseen);
        }
        let head = self.marks.head(position);
        if head != 0 {
            let stamp = self.undo.stamp(self.undo.record(head));
            if !writer.view.sees(stamp) {
                let is_seen = self.is_seen(writer.view, position);
                return Err(if is_seen { Written::Conflict(stamp) } else { Written::Unseen });
            }
        }
        if self.present.get(position) { Ok(head) } else { Err(Written::Unseen) }
    }

    fn mark(&mut self, position: usize, recorded: Option<u32>) -> Written {
        match recorded {
            Some(record) => {
                self.marks.set_head(position, record);
                Written::Recorded
            }
            None => Written::Covered,
        }
    }

    /// Takes back the newest change of a row, which its transaction has not committed.
    pub(crate) fn restore(&mut self, position: usize) {
        let head = self.marks.head(position);
        assert_ne!(head, 0, "a change of a transaction that has not committed has a record");
        let record = *self.undo.record(head);
        debug_assert!(self.undo.stamp(&record) > FIRST_ID);
        for image in self.undo.images(&record) {
            image.with(|cell| self.columns[image.column].put(position, cell));
        }
        match record.existence {
            Existence::Same => (),
            Existence::Present => self.present.set(position, true),
            Existence::Absent => {
                self.present.set(position, false);
                empty_strings(&mut self.columns, position);
            }
        }
        self.marks.set_head(position, record.next);
        self.undo.kill(head);
        self.changes += 1;
    }

    /// Whether no row is there, and none was changed by a transaction that has not ended.
    pub(crate) fn is_empty(&self) -> bool {
        let mut is_empty = self.present.count_ones() == 0;
        self.marks.versioned(&(0..self.rows()), 0, |_, head| {
            is_empty &= head == 0 || self.undo.stamp(self.undo.record(head)) <= FIRST_ID;
        });
        is_empty
    }

    /// The stamp of a row's newest version, if it has others.
    pub(crate) fn newest_stamp(&self, position: usize) -> Option<u64> {
        match self.marks.head(position) {
            0 => None,
            head => Some(self.undo.stamp(self.undo.record(head))),
        }
    }

    /// The transaction that has written a row's newest version, unless that is known to have committed.
    pub(crate) fn newest_owner(&self, position: usize) -> Option<&Arc<Stamp>> {
        match self.marks.head(position) {
            0 => None,
            head => self.undo.owner(self.undo.record(head)),
        }
    }

    /// Whether so many records have come since the last time that it should be pruned.
    #[inline]
    pub(crate) fn wants_pruning(&self) -> bool {
        self.undo.len() >= self.prune_at.0 || self.undo.word_count() >= self.prune_at.1
    }

    /// Lets go of versions that no snapshot needs. Memory is given back unless somebody is writing.
    pub(crate) fn prune(&mut self, live: &[CommitNumber], is_written: bool) {
        let old = std::mem::take(&mut self.undo);
        let (undo, present, columns) = (&mut self.undo, &self.present, &mut self.columns);
        self.marks.rewrite(is_written, |position, head| {
            let newest = undo.take_over(&old, head, live);
            if newest == 0 && !present.get(position) {
                empty_strings(columns, position);
            }
            match newest {
                0 => (0, 0),
                newest => (newest, undo.stamp(undo.record(newest))),
            }
        });
        if is_written && old.bytes() <= REUSED_BYTES {
            undo.reuse(old);
        }
        self.prune_at = (PRUNE_RECORDS.max(2 * self.undo.len()), PRUNE_WORDS.max(2 * self.undo.word_count()));
    }

    pub(crate) fn has_versions(&self) -> bool {
        !self.undo.is_empty()
    }

    pub(crate) fn version_ranges(&self) -> Vec<Range<usize>> {
        self.marks.ranges().collect()
    }

    /// All rows, of which none has versions.
    pub(crate) fn copy_clean(&self, batch: &mut Batch) {
        let columns: Vec<usize> = (0..self.columns.len()).collect();
        batch.load(&self.present, &self.columns, columns.iter(), 0..self.rows());
    }

    pub(crate) fn bounds(&self, column: usize) -> ColumnBounds {
        let bounds = self.columns[column].bounds();
        let (least, greatest) = bounds.get().unwrap_or((None, None));
        ColumnBounds { least, greatest, has_values: bounds.get().is_some(), has_nulls: bounds.has_nulls() }
    }

    pub(crate) fn value_bytes_at_most(&self) -> usize {
        let newest = |column: &Column| self.rows() * column.width() + column.heap().live_bytes();
        self.columns.iter().map(newest).sum::<usize>() + self.undo.bytes()
    }

    pub(crate) fn memory_bytes(&self) -> MemoryBytes {
        MemoryBytes {
            rows: self.present.bytes() + self.columns.iter().map(Column::row_bytes).sum::<usize>(),
            strings: self.columns.iter().map(|column| column.heap().bytes()).sum(),
            undo: self.undo.bytes(),
            marks: self.marks.bytes(),
        }
    }
}

/// What a transaction has made of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OwnChange {
    /// It is not there any more.
    Gone,
    /// It is new.
    Row,
    /// It has other values in some columns.
    Columns,
}

/// What all versions of a column of a chunk lie within, also those that are not committed or were rolled back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnBounds {
    /// No value is less; `None` if there has been none. Strings are cut.
    pub least: Option<Value>,
    /// No value is greater; `None` if there has been none, or no short string is above all.
    pub greatest: Option<Value>,
    /// Whether there has been any value that is not NULL.
    pub has_values: bool,
    /// Whether there has been any NULL.
    pub has_nulls: bool,
}

/// Whether going back to before a writer's record goes back as far as its next write has to.
fn covers(undo: &Undo, record: &Record, writer: Writer<'_>) -> bool {
    undo.stamp(record) == writer.view.own && record.write >= writer.floor
}

/// A row that nobody sees any more keeps no strings.
fn empty_strings(columns: &mut [Column], position: usize) {
    for column in columns.iter_mut().filter(|column| column.physical() == PhysicalType::Bytes) {
        column.put(position, Cell::Bytes(&[]));
    }
}
