//! Join tables: the finished build side of a join, in the layout that suits its keys.
//!
//! Invariants: rows with NULL in their key are found by no probe; a table that says it is unique has at most one row that
//! a probe can find for each key. Compiled code reads tables by address (`layout.rs`) and writes nothing but `matched`.

mod dense;
mod hash;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_pipeline::KeySet;
use forebay_pipeline::ir::{JoinState, Pipeline, ProbeKind, Program, StateId, Step, ValueType};
use forebay_pipeline::key_set::SPAN_LIMIT;

use crate::bloom::BloomFilter;
use crate::layout::{RowLayout, WORD, build_row};
use crate::parallel;
use crate::rows::{Field, RowBuffer};
use crate::vector::Vector;
pub use dense::entry_bytes;
use dense::{DenseTable, key_bits};
use hash::HashTable;

/// Rows below which one thread does all the work.
pub(crate) const FEW_ROWS: usize = 1 << 14;
/// Rows whose columns are looked at one after the other.
const RANGE_ROWS: usize = 512;
/// Bits that a bitmap of keys may take for each row, where it has more than [`SMALL_SPAN`].
const SET_BITS_PER_ROW: u64 = 64;
/// Entries that arrays by key may have for each row, where there are more than [`SMALL_SPAN`].
const DENSE_ENTRIES_PER_ROW: u64 = 8;
/// Entries of arrays by key at most.
const DENSE_ENTRIES: u64 = 1 << 26;
/// A span of keys that is never too large.
const SMALL_SPAN: u64 = 1 << 16;

/// What compiled code depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JoinLayout {
    /// A bitmap of keys; one I64 key, no payload.
    Set,
    /// A bitmap of keys, and arrays by key; one I64 key without duplicates.
    Dense {
        /// One for each column of the payload.
        payload: Vec<DenseColumn>,
    },
    /// Rows in chains.
    Hash {
        /// No two rows that probes can find have the same key.
        unique: bool,
    },
}

/// How a payload column lies in arrays by key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DenseColumn {
    /// Bytes of an entry. I64: 1, 2, 4 or 8, the value is the column's base + the entry without sign. Bool: 1. F64: 8.
    /// I128: 16. Bytes: 16, address and length.
    pub bytes: u8,
    /// There is an array of validity, one byte an entry, 1 = valid.
    pub validity: bool,
}

/// A payload column as it lies in memory, an entry for each key from the least to the greatest.
#[derive(Debug, Clone, Copy)]
pub struct DensePayload<'a> {
    /// Entries, one after the other, as [`DenseColumn::bytes`] says.
    pub entries: &'a [u8],
    /// Bytes of an entry.
    pub entry_bytes: u8,
    /// Added to the entries of I64.
    pub base: i64,
    /// One byte an entry, 1 = valid; empty where all are.
    pub validity: &'a [u8],
}

/// Where the parts of a table lie. What its layout does not have is 0 or empty.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct JoinAddresses {
    /// The least key.
    pub low: i64,
    /// Keys lie in `low..low + span`.
    pub span: u64,
    /// Bit `key - low` says whether there is such a key; the bits are in whole words.
    pub bits: u64,
    /// For each payload column the address of its entries, that of its validity (0 = all valid), and its base.
    pub columns: Vec<(u64, u64, i64)>,
    /// Row 0.
    pub rows: u64,
    /// The directory: slot `hash >> shift`.
    pub directory: u64,
    /// At most 63.
    pub shift: u32,
    /// One byte a row, 1 = met.
    pub matched: u64,
}

/// The kinds of [`JoinLayout`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JoinKind {
    /// [`JoinLayout::Set`].
    Set,
    /// [`JoinLayout::Dense`].
    Dense,
    /// [`JoinLayout::Hash`].
    Hash,
}

/// How a table is finished.
#[derive(Debug, Clone, Copy)]
pub struct JoinOptions {
    /// It matters how many rows have the same key: see [`counts_matches`].
    pub counts_matches: bool,
    /// This layout where it is possible at all, else hash; for tests.
    pub force: Option<JoinKind>,
    /// Threads to use.
    pub threads: usize,
}

/// Whether some probe of `state` goes on once for each match, so that duplicates matter.
pub fn counts_matches(program: &Program, state: StateId) -> bool {
    let counts = |step: &Step| match step {
        Step::Probe(probe) => probe.state == state && matches!(probe.kind, ProbeKind::Inner | ProbeKind::Left),
        Step::Compute(_) | Step::Filter(_) => false,
    };
    program.pipelines.iter().any(|pipeline: &Pipeline| pipeline.steps.iter().any(counts))
}

/// A finished build side.
#[derive(Debug)]
pub struct JoinTable {
    table: Table,
    /// Per part of the key.
    key_ranges: Vec<Option<(i64, i64)>>,
    payload_ranges: Vec<Option<(i64, i64)>>,
    /// Per part of the key, once somebody has asked.
    key_sets: Vec<OnceLock<Option<Arc<KeySet>>>>,
    /// Once somebody has asked.
    bloom: OnceLock<Arc<BloomFilter>>,
}

#[derive(Debug)]
enum Table {
    Set(Arc<KeySet>),
    Dense(DenseTable),
    Hash(HashTable),
}

impl JoinTable {
    /// Makes the table of the rows that workers have appended.
    pub fn finish(state: &JoinState, parts: Vec<RowBuffer>, options: &JoinOptions) -> Self {
        let made = Self::finish_within(state, parts, options, usize::MAX);
        made.unwrap_or_else(|_| unreachable!("no table takes more than all memory"))
    }

    /// Makes the table if it takes no more than so many bytes of memory, else gives the rows back.
    pub fn finish_within(
        state: &JoinState,
        mut parts: Vec<RowBuffer>,
        options: &JoinOptions,
        memory_bytes: usize,
    ) -> Result<Self, Vec<RowBuffer>> {
        let row = build_row(state);
        let rows: usize = parts.iter().map(RowBuffer::len).sum();
        let threads = if rows < FEW_ROWS { 1 } else { options.threads };
        let columns = column_ranges(&row, &parts, threads);
        let (keys, payload) = columns.split_at(state.keys.len());
        let key_ranges: Vec<_> = keys.iter().map(ColumnRange::range).collect();
        let columns = (&keys[0], payload);
        let table = match by_key(state, &row, &mut parts, options, columns, memory_bytes, threads) {
            Some(table) => table,
            None => {
                let row_bytes = parts.iter().map(RowBuffer::memory_bytes).sum::<usize>();
                if row_bytes + HashTable::directory_bytes(rows) > memory_bytes {
                    return Err(parts);
                }
                let drops_duplicates = !options.counts_matches && state.payload.is_empty() && !state.keeps_all;
                let keys = state.keys.len();
                Table::Hash(HashTable::build(&row, keys, parts, drops_duplicates, state.keeps_all, threads))
            }
        };
        let payload_ranges = payload.iter().map(ColumnRange::range).collect();
        let key_sets = key_ranges.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { table, key_ranges, payload_ranges, key_sets, bloom: OnceLock::new() })
    }

    /// Which rows were met, one byte each, in an order that the same rows have again whenever one thread makes a table of
    /// them. Only for states that keep all rows.
    pub fn matched(&self) -> Vec<u8> {
        self.marks().iter().map(|mark| mark.load(Ordering::Relaxed)).collect()
    }

    /// Takes note that rows were met by earlier tables of the same rows.
    pub fn set_matched(&self, matched: &[u8]) {
        for (mark, matched) in self.marks().iter().zip(matched) {
            mark.store(*matched, Ordering::Relaxed);
        }
    }

    fn marks(&self) -> &[AtomicU8] {
        let Table::Hash(table) = &self.table else { panic!("states that are marked keep all rows, in a hash table") };
        table.marks()
    }

    /// What compiled code depends on.
    pub fn layout(&self) -> JoinLayout {
        match &self.table {
            Table::Set(_) => JoinLayout::Set,
            Table::Dense(table) => JoinLayout::Dense { payload: table.layout() },
            Table::Hash(table) => JoinLayout::Hash { unique: table.is_unique() },
        }
    }

    /// Where its parts lie, as long as it lives.
    pub fn addresses(&self) -> JoinAddresses {
        let of_keys = |keys: &KeySet| JoinAddresses {
            low: i64::try_from(keys.low()).expect("keys are I64"),
            span: (keys.high() - keys.low()) as u64 + 1,
            bits: keys.words().as_ptr().expose_provenance() as u64,
            ..JoinAddresses::default()
        };
        match &self.table {
            Table::Set(keys) => of_keys(keys),
            Table::Dense(table) => JoinAddresses { columns: table.addresses(), ..of_keys(table.keys()) },
            Table::Hash(table) => table.addresses(),
        }
    }

    /// Number of rows; without duplicates where those were dropped.
    pub fn len(&self) -> usize {
        match &self.table {
            Table::Set(keys) => keys.count(),
            Table::Dense(table) => table.keys().count(),
            Table::Hash(table) => table.rows().len(),
        }
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a probe finds at most one row.
    pub fn is_unique(&self) -> bool {
        match &self.table {
            Table::Set(_) | Table::Dense(_) => true,
            Table::Hash(table) => table.is_unique(),
        }
    }

    /// The keys, where they are one I64 and lie close enough. Made at the first call.
    pub fn key_set(&self) -> Option<Arc<KeySet>> {
        if self.key_sets.len() == 1 { self.part_set(0) } else { None }
    }

    /// The values of a part of the key, where it is I64 and they lie close enough. Made at the first call.
    pub fn part_set(&self, part: usize) -> Option<Arc<KeySet>> {
        match &self.table {
            Table::Set(keys) => Some(Arc::clone(keys)),
            Table::Dense(table) => Some(Arc::clone(table.keys())),
            Table::Hash(table) => {
                let make = || {
                    let range = self.key_ranges[part].filter(|range| u128::from(span_of(*range)) <= SPAN_LIMIT)?;
                    let rows = table.rows().chunks().iter().map(|chunk| chunk.chunks_exact(table.rows().words()));
                    key_bits(range, rows.collect(), &table.key_fields()[part], 1)
                };
                self.key_sets[part].get_or_init(make).clone()
            }
        }
    }

    /// A filter of the hashes of all keys, where they lie in a hash table. Made at the first call.
    pub fn bloom(&self) -> Option<Arc<BloomFilter>> {
        let Table::Hash(table) = &self.table else { return None };
        Some(Arc::clone(self.bloom.get_or_init(|| Arc::new(BloomFilter::new(table.hashes(), table.rows().len())))))
    }

    /// Least and greatest value of a part of the key, where it is I64 and not always NULL.
    pub fn part_range(&self, part: usize) -> Option<(i64, i64)> {
        self.key_ranges[part]
    }

    /// Least and greatest value of a payload column, where it is I64 and not always NULL.
    pub fn payload_range(&self, column: usize) -> Option<(i64, i64)> {
        self.payload_ranges[column]
    }

    /// A payload column by key, from the least key of [`JoinTable::key_set`] to the greatest; `None` where the payload does
    /// not lie in arrays. Where there is no key, anything.
    pub fn payload_by_key(&self, column: usize) -> Option<DensePayload<'_>> {
        match &self.table {
            Table::Dense(table) => Some(table.payload(column)),
            Table::Set(_) | Table::Hash(_) => None,
        }
    }

    /// Reads those rows of a range, at most `VECTOR_ROWS`, that were met or not: one vector for each key part and payload
    /// column. Gives their number. Only for states that keep all rows.
    pub fn read(&self, range: Range<usize>, matched: bool, vectors: &mut Vec<Vector>) -> usize {
        let Table::Hash(table) = &self.table else { panic!("states that are scanned keep all rows, in a hash table") };
        table.read(range, matched, vectors)
    }

    /// Bytes of memory that the table holds.
    pub fn memory_bytes(&self) -> usize {
        let set_bytes = |keys: &KeySet| size_of_val(keys.words());
        let made = self.key_sets.iter().filter_map(|keys| keys.get()?.as_ref());
        made.map(|keys| set_bytes(keys)).sum::<usize>()
            + self.bloom.get().map_or(0, |bloom| bloom.memory_bytes())
            + match &self.table {
                Table::Set(keys) => set_bytes(keys),
                Table::Dense(table) => set_bytes(table.keys()) + table.memory_bytes(),
                Table::Hash(table) => table.memory_bytes(),
            }
    }
}

/// What is known of an I64 column of the rows.
#[derive(Debug, Clone, Copy)]
struct ColumnRange {
    low: i64,
    high: i64,
    /// Rows that are not NULL.
    valid: usize,
}

impl Default for ColumnRange {
    fn default() -> Self {
        Self { low: i64::MAX, high: i64::MIN, valid: 0 }
    }
}

impl ColumnRange {
    /// Least and greatest value, where there is one.
    fn range(&self) -> Option<(i64, i64)> {
        (self.valid > 0).then_some((self.low, self.high))
    }

    #[inline]
    fn with(self, value: i64) -> Self {
        self.and(Self { low: value, high: value, valid: 1 })
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        let (low, high) = (self.low.min(other.low), self.high.max(other.high));
        Self { low, high, valid: self.valid + other.valid }
    }
}

/// Numbers from the first to the last of a range; the greatest number where there are 2^64.
fn span_of((low, high): (i64, i64)) -> u64 {
    high.wrapping_sub(low) as u64 + u64::from(high.wrapping_sub(low) != -1)
}

/// What the columns of all rows hold.
fn column_ranges(row: &RowLayout, parts: &[RowBuffer], threads: usize) -> Vec<ColumnRange> {
    let fields = Field::of_row(row);
    let of_part = |part: &RowBuffer| {
        let mut columns = vec![ColumnRange::default(); fields.len()];
        // Column by column, but not so many rows at a time that they leave the cache in between.
        for rows in part.chunks().flat_map(|chunk| chunk.chunks(RANGE_ROWS * row.words)) {
            for (column, field) in columns.iter_mut().zip(&fields).filter(|(_, field)| field.value == ValueType::I64) {
                let rows = rows.chunks_exact(row.words).filter(|row| field.is_valid(row));
                *column = rows.fold(*column, |column, row| column.with(row[field.word] as i64));
            }
        }
        columns
    };
    let of_parts = parallel::map(threads, parts.iter().collect(), of_part);
    of_parts.into_iter().fold(vec![ColumnRange::default(); fields.len()], |all, part| {
        all.into_iter().zip(part).map(|(a, b)| a.and(b)).collect()
    })
}

/// A table by key, where keys allow it and it is small enough. Only then the rows are taken.
fn by_key(
    state: &JoinState,
    row: &RowLayout,
    parts: &mut Vec<RowBuffer>,
    options: &JoinOptions,
    (key, payload): (&ColumnRange, &[ColumnRange]),
    memory_bytes: usize,
    threads: usize,
) -> Option<Table> {
    let range = key.range().filter(|_| state.keys.len() == 1 && !state.keeps_all)?;
    let span = span_of(range);
    let rows = key.valid as u64;
    let is_forced = |kind| options.force == Some(kind);
    let may_be = |kind| options.force.is_none_or(|forced| forced == kind);
    let is_set = state.payload.is_empty()
        && may_be(JoinKind::Set)
        && u128::from(span) <= SPAN_LIMIT
        && span / 8 <= memory_bytes as u64
        && (is_forced(JoinKind::Set) || span <= SMALL_SPAN.max(rows.saturating_mul(SET_BITS_PER_ROW)));
    let columns: Vec<DenseColumn> = DenseTable::columns(state, payload);
    let dense_bytes = || DenseTable::bytes(&columns, span);
    let row_bytes = || rows * (row.words * WORD) as u64;
    let is_dense = !is_set
        && may_be(JoinKind::Dense)
        && span <= DENSE_ENTRIES
        && dense_bytes() <= memory_bytes as u64
        && (is_forced(JoinKind::Dense)
            || span <= SMALL_SPAN
            || span <= rows.saturating_mul(DENSE_ENTRIES_PER_ROW) && dense_bytes() <= row_bytes() * 4);
    if !is_set && !is_dense {
        return None;
    }
    let fields = Field::of_row(row);
    let keys = key_bits(range, parts.iter().map(RowBuffer::rows).collect(), &fields[0], threads)?;
    let has_duplicates = keys.count() < key.valid;
    if is_set {
        return (!has_duplicates || !options.counts_matches).then_some(Table::Set(keys));
    }
    let build = || DenseTable::build(keys, columns, payload, &fields, std::mem::take(parts), threads);
    (!has_duplicates).then(|| Table::Dense(build()))
}

/// The bytes of `matched`, all 0.
pub(crate) fn unmatched(rows: usize) -> Vec<AtomicU8> {
    (0..rows).map(|_| AtomicU8::new(0)).collect()
}

/// Whether a row was met. The workers that mark rows have ended.
pub(crate) fn is_matched(matched: &[AtomicU8], row: usize) -> bool {
    matched[row].load(Ordering::Relaxed) != 0
}
