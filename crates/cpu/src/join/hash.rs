//! Join tables by hash: rows in chains that hang on a directory.
//!
//! Rows are brought together by the top bits of their hash first, so that each partition with its part of the directory
//! fits a cache, and so that threads link partitions without seeing each other.
//!
//! Invariants: a chain holds rows of one slot; rows with NULL in their key are on no chain.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicU8;

use forebay_pipeline::ir::ValueType;

use super::{JoinAddresses, is_matched, unmatched};
use crate::arena::Arena;
use crate::layout::{RowLayout, SLOT_ROW_BITS, WORD, tag_bit};
use crate::parallel;
use crate::rows::{Field, RowBuffer, RowSet};
use crate::vector::Vector;

/// Bytes of rows that a partition aims for: with its directory it stays in a second-level cache while it is linked.
const PARTITION_BYTES: usize = 512 << 10;
/// Bits of the number of partitions at most: more streams than this are slow to write.
const PARTITION_BITS: u32 = 9;
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

/// The rows of one worker: in chunks.
type Chunks = Vec<Vec<u64>>;

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
        let rows = parts.iter().flatten().map(Vec::len).sum::<usize>() / words;
        let slot_bits = (rows * 2).next_power_of_two().max(2).ilog2();
        let partitions = (rows * words * WORD).div_ceil(PARTITION_BYTES).max(1).next_power_of_two();
        let partition_bits = partitions.ilog2().min(PARTITION_BITS).min(slot_bits);
        let (mut memory, counts) = gather(parts, words, partition_bits, threads);
        let mut directory = vec![0; 1 << slot_bits];
        let fields = Field::of_row(row);
        let key_fields = fields[..keys].to_vec();
        let link = Link { words, keys: &key_fields, arena: &arena, shift: u64::BITS - slot_bits, drops_duplicates };
        let is_unique = link.all(&mut memory, &mut directory, &counts, threads);
        let matched = if keeps_matched { unmatched(rows) } else { Vec::new() };
        let rows = RowSet::new(words, vec![memory], fields, Arc::new(arena));
        Self { rows, keys: key_fields, directory, shift: u64::BITS - slot_bits, is_unique, matched }
    }

    pub(super) fn rows(&self) -> &RowSet {
        &self.rows
    }

    pub(super) fn key_fields(&self) -> &[Field] {
        &self.keys
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

    pub(super) fn memory_bytes(&self) -> usize {
        self.rows.memory_bytes() + size_of_val(self.directory.as_slice()) + self.matched.capacity()
    }
}

/// All rows in one piece, by the top bits of their hash, and the number of rows of each partition.
fn gather(mut parts: Vec<Chunks>, words: usize, partition_bits: u32, threads: usize) -> (Vec<u64>, Vec<usize>) {
    // Two shifts, because one by all bits is none.
    let partition_of = |row: &[u64]| (row[HASH] >> 1 >> (u64::BITS - 1 - partition_bits)) as usize;
    let rows: usize = parts.iter().flatten().map(Vec::len).sum::<usize>() / words;
    let is_in_one_piece = parts.iter().flatten().count() <= 1;
    if partition_bits == 0 && is_in_one_piece {
        return (parts.iter_mut().flat_map(std::mem::take).next().unwrap_or_default(), vec![rows]);
    }
    let counts: Vec<Vec<usize>> = parallel::map(threads, parts.iter().collect(), |part: &Chunks| {
        let mut counts = vec![0; 1 << partition_bits];
        let rows = part.iter().flat_map(|chunk| chunk.chunks_exact(words));
        rows.for_each(|row| counts[partition_of(row)] += 1);
        counts
    });
    let mut memory = vec![0; rows * words];
    let mut rest = memory.as_mut_slice();
    let mut slices: Vec<Vec<&mut [u64]>> = parts.iter().map(|_| Vec::with_capacity(1 << partition_bits)).collect();
    for partition in 0..1 << partition_bits {
        for (slices, counts) in slices.iter_mut().zip(&counts) {
            slices.push(rest.split_off_mut(..counts[partition] * words).expect("memory was taken for all rows"));
        }
    }
    parallel::map(threads, parts.into_iter().zip(slices).collect(), |(part, mut slices)| {
        for chunk in part {
            for row in chunk.chunks_exact(words) {
                let slice = slices[partition_of(row)].split_off_mut(..words).expect("these rows were counted");
                slice.copy_from_slice(row);
            }
        }
    });
    let total = |partition: usize| counts.iter().map(|counts| counts[partition]).sum();
    (memory, (0..1 << partition_bits).map(total).collect())
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
            if other[HASH] == row[HASH] && self.keys.iter().all(|key| equal(key, other, row, self.arena)) {
                return true;
            }
            next = other[NEXT];
        }
        false
    }
}

/// Whether two rows have the same value, which is not NULL.
#[inline]
pub(crate) fn equal(field: &Field, a: &[u64], b: &[u64], arena: &Arena) -> bool {
    let word = field.word;
    match field.value {
        ValueType::Bool | ValueType::I64 | ValueType::F64 => a[word] == b[word],
        ValueType::I128 => a[word..word + 2] == b[word..word + 2],
        ValueType::Bytes => {
            let bytes = |row: &[u64]| arena.get(row[word], row[word + 1] as usize);
            a[word + 1] == b[word + 1] && bytes(a) == bytes(b)
        }
    }
}
