//! Join tables by hash: rows in chains that hang on a directory.
//!
//! Rows are brought together by the top bits of their hash first (`partition.rs`): each partition has its own part of the
//! directory, which stays in a cache while it is linked, and threads link partitions without seeing each other.
//!
//! Invariants: a chain holds rows of one slot; rows with NULL in their key are on no chain.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use super::{JoinAddresses, is_matched, unmatched};
use crate::arena::Arena;
use crate::layout::{RowLayout, SLOT_ROW_BITS, WORD, tag_bit};
use crate::parallel;
use crate::partition::{Chunks, Partitioned, count_rows, gather};
use crate::rows::{Field, RowBuffer, RowSet};
use crate::vector::Vector;

/// The bits of a slot that hold the row.
const ROW_MASK: u64 = (1 << SLOT_ROW_BITS) - 1;
/// The word of a row that holds the next row.
const NEXT: usize = 0;
/// The word of a row that holds its hash.
const HASH: usize = 1;

/// Rows in chains.
#[derive(Debug)]
pub(super) struct HashTable {
    rows: RowSet,
    keys: Vec<Field>,
    directory: Vec<u64>,
    shift: u32,
    is_unique: bool,
    matched: Vec<AtomicU8>,
}

impl HashTable {
    /// The table of all rows, the first `keys` values of which are the key.
    pub(super) fn build(
        row: &RowLayout,
        keys: usize,
        parts: Vec<RowBuffer>,
        drops_duplicates: bool,
        keeps_matched: bool,
        threads: usize,
    ) -> Self {
        let (parts, arenas): (Vec<Chunks>, Vec<Arena>) = parts.into_iter().map(RowBuffer::into_parts).unzip();
        let mut arena = Arena::default();
        arena.append(arenas.into_iter());
        let words = row.words;
        let rows = count_rows(&parts, words);
        let slot_bits = slots(rows).ilog2();
        let Partitioned { mut memory, counts, .. } = gather(parts, (words, HASH), 0..slot_bits, threads);
        let mut directory = vec![0; 1 << slot_bits];
        let fields = Field::of_row(row);
        let key_fields = fields[..keys].to_vec();
        let link = Link { words, keys: &key_fields, arena: &arena, shift: u64::BITS - slot_bits, drops_duplicates };
        let is_unique = link.all(&mut memory, &mut directory, &counts, threads);
        let matched = if keeps_matched { unmatched(rows) } else { Vec::new() };
        let rows = RowSet::new(words, vec![memory], fields, Arc::new(arena));
        Self { rows, keys: key_fields, directory, shift: u64::BITS - slot_bits, is_unique, matched }
    }

    /// Bytes of the directory of a table of so many rows.
    pub(super) fn directory_bytes(rows: usize) -> usize {
        slots(rows) * WORD
    }

    /// One byte a row.
    pub(super) fn marks(&self) -> &[AtomicU8] {
        &self.matched
    }

    pub(super) fn rows(&self) -> &RowSet {
        &self.rows
    }

    pub(super) fn key_fields(&self) -> &[Field] {
        &self.keys
    }

    /// The hashes of the rows without NULL in their key.
    pub(super) fn hashes(&self) -> impl Iterator<Item = u64> {
        let rows = self.rows.chunks().iter().flat_map(|chunk| chunk.chunks_exact(self.rows.words()));
        rows.filter(|row| self.keys.iter().all(|key| key.is_valid(row))).map(|row| row[HASH])
    }

    pub(super) fn is_unique(&self) -> bool {
        self.is_unique
    }

    pub(super) fn addresses(&self) -> JoinAddresses {
        let rows = self.rows.chunks().first().map_or(0, |chunk| chunk.as_ptr().expose_provenance() as u64);
        JoinAddresses {
            rows,
            directory: self.directory.as_ptr().expose_provenance() as u64,
            shift: self.shift,
            matched: if self.matched.is_empty() { 0 } else { self.matched.as_ptr().expose_provenance() as u64 },
            ..JoinAddresses::default()
        }
    }

    pub(super) fn read(&self, range: Range<usize>, matched: bool, vectors: &mut Vec<Vector>) -> usize {
        let numbers = range.clone();
        let wanted = move |number: usize| is_matched(&self.matched, number) == matched;
        let count = range.clone().filter(|number| wanted(*number)).count();
        let rows = self.rows.rows(range).zip(numbers).filter(move |(_, number)| wanted(*number)).map(|(row, _)| row);
        self.rows.read_rows(rows, count, vectors);
        count
    }

    /// The word of a slot of the directory.
    #[cfg(test)]
    pub(super) fn slot(&self, slot: usize) -> u64 {
        self.directory[slot]
    }

    /// Marks a row as met.
    #[cfg(test)]
    pub(super) fn mark(&self, row: usize) {
        self.matched[row].store(1, std::sync::atomic::Ordering::Relaxed);
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + size_of_val(self.directory.as_slice()) + self.matched.capacity()
    }
}

/// Slots of the directory of a table of so many rows.
fn slots(rows: usize) -> usize {
    (rows * 2).next_power_of_two().max(2)
}

/// What linking needs to know.
struct Link<'a> {
    words: usize,
    keys: &'a [Field],
    arena: &'a Arena,
    shift: u32,
    drops_duplicates: bool,
}

impl Link<'_> {
    /// Hangs all rows on the directory; true where no two of them have the same key.
    fn all(&self, mut rows: &mut [u64], mut directory: &mut [u64], counts: &[usize], threads: usize) -> bool {
        let slots = directory.len() / counts.len();
        let mut first = 0;
        let mut partitions = Vec::with_capacity(counts.len());
        for (number, count) in counts.iter().enumerate() {
            let rows = rows.split_off_mut(..count * self.words).expect("all rows were counted");
            let directory = directory.split_off_mut(..slots).expect("partitions have equal parts of the directory");
            partitions.push((first, rows, number * slots, directory));
            first += count;
        }
        let link = |(first, rows, first_slot, directory)| self.partition(first, rows, first_slot, directory);
        parallel::map(threads, partitions, link).into_iter().all(|is_unique| is_unique)
    }

    /// Hangs the rows of a partition, the first of which has number `first`, on its slots, the first of which has number
    /// `first_slot`.
    fn partition(&self, first: usize, rows: &mut [u64], first_slot: usize, directory: &mut [u64]) -> bool {
        let mut is_unique = true;
        for number in 0..rows.len() / self.words {
            let (before, rest) = rows.split_at_mut(number * self.words);
            let row = &mut rest[..self.words];
            if !self.keys.iter().all(|key| key.is_valid(row)) {
                row[NEXT] = 0;
                continue;
            }
            let slot = &mut directory[(row[HASH] >> self.shift) as usize - first_slot];
            // Chains are short as long as no key came twice; afterwards nobody needs to know.
            if is_unique && self.is_linked(before, first, *slot & ROW_MASK, row) {
                if self.drops_duplicates {
                    row[NEXT] = 0;
                    continue;
                }
                is_unique = false;
            }
            row[NEXT] = *slot & ROW_MASK;
            *slot = (first + number + 1) as u64 | *slot & !ROW_MASK | tag_bit(row[HASH]);
        }
        is_unique
    }

    /// Whether a row with the key of `row` hangs on the chain that begins with number `next`.
    fn is_linked(&self, rows: &[u64], first: usize, mut next: u64, row: &[u64]) -> bool {
        while next != 0 {
            let other = &rows[(next as usize - 1 - first) * self.words..][..self.words];
            if other[HASH] == row[HASH] && self.keys.iter().all(|key| key.is_equal(other, row, self.arena)) {
                return true;
            }
            next = other[NEXT];
        }
        false
    }
}
