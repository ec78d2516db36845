//! Rows that are grouped partition by partition: each row that comes goes to the partition of its hash, and only a partition
//! that has many is combined, whose groups fit a near cache (radix partitioning).
//!
//! Invariants: a row lies in the partition of the top bits of its hash; pieces are whole rows; rows do not move while their
//! piece is filled.

use forebay_pipeline::Fault;

use super::generations::PARTITION_BITS;
use crate::layout::WORD;
use crate::partition::Chunks;

/// Words of a partition's first piece; each following one is twice as large.
const FIRST_WORDS: usize = 1 << 9;
/// Bytes of the first pieces of all partitions.
pub(super) const FIRST_BYTES: usize = (FIRST_WORDS * WORD) << PARTITION_BITS;
/// Words of its largest pieces.
const LARGEST_WORDS: usize = 1 << 13;
/// A partition of more words is combined: its groups then fit a second-level cache, or nearly.
const FEW_WORDS: usize = if cfg!(test) { 1 << 10 } else { 1 << 15 };
/// It is combined again when it has so many times the rows that were left of it.
const GROWTH: usize = 3;

/// The rows of one worker by partition.
#[derive(Debug, Default)]
pub(super) struct PartitionedRows {
    /// Words of a row.
    words: usize,
    partitions: Vec<Partition>,
    /// What compiled code reads and writes: for each partition where its next row goes, and where its piece ends.
    cursors: Vec<u64>,
}

#[derive(Debug, Default)]
struct Partition {
    pieces: Chunks,
    /// Words of all pieces.
    words: usize,
    /// It is combined when it has so many words.
    limit: usize,
    /// The piece that is filled. Exposed: compiled code writes there.
    filling: Vec<u64>,
}

impl Partition {
    fn address(&mut self) -> u64 {
        self.filling.as_mut_ptr().expose_provenance() as u64
    }

    fn keep(&mut self, piece: Vec<u64>) {
        if !piece.is_empty() {
            self.words += piece.len();
            self.pieces.push(piece);
        }
    }
}

impl PartitionedRows {
    /// No rows of `words` words yet.
    pub(super) fn new(words: usize) -> Self {
        let limit = FEW_WORDS.max(words);
        let partitions = (0..1 << PARTITION_BITS).map(|_| Partition { limit, ..Partition::default() }).collect();
        Self { words, partitions, cursors: vec![0; 2 << PARTITION_BITS] }
    }

    /// Where compiled code finds cursors and ends.
    pub(super) fn cursors(&mut self) -> u64 {
        self.cursors.as_mut_ptr().expose_provenance() as u64
    }

    /// Makes room for at least one more row of a partition whose piece is full. `combine` gives one row for each key.
    pub(super) fn grow(
        &mut self,
        number: usize,
        combine: impl FnOnce(Chunks) -> Result<Vec<u64>, Fault>,
    ) -> Result<(), Fault> {
        let partition = &mut self.partitions[number];
        let full = std::mem::take(&mut partition.filling);
        let last = full.len();
        partition.keep(full);
        if partition.words >= partition.limit {
            partition.words = 0;
            let combined = combine(std::mem::take(&mut partition.pieces))?;
            partition.keep(combined);
            partition.limit = FEW_WORDS.max(partition.words * GROWTH);
        }
        let size = (last * 2).clamp(FIRST_WORDS, LARGEST_WORDS).next_multiple_of(self.words);
        partition.filling = vec![0; size];
        let first = partition.address();
        self.cursors[2 * number..][..2].copy_from_slice(&[first, first + (size * WORD) as u64]);
        Ok(())
    }

    /// What compiled code does with a row.
    #[cfg(test)]
    pub(super) fn push(&mut self, row: &[u64], combine: impl FnOnce(Chunks) -> Result<Vec<u64>, Fault>) {
        let number = (row[0] >> (u64::BITS - PARTITION_BITS)) as usize;
        if self.cursors[2 * number] == self.cursors[2 * number + 1] {
            self.grow(number, combine).expect("sums of these rows fit");
        }
        let partition = &mut self.partitions[number];
        let at = (self.cursors[2 * number] - partition.address()) as usize / WORD;
        partition.filling[at..at + row.len()].copy_from_slice(row);
        self.cursors[2 * number] += (row.len() * WORD) as u64;
    }

    /// Number of words of all rows.
    pub(super) fn word_count(&self) -> usize {
        let of = |(partition, cursor): (&Partition, &[u64])| {
            partition.words + partition.filling.len() - (cursor[1] - cursor[0]) as usize / WORD
        };
        self.partitions.iter().zip(self.cursors.chunks_exact(2)).map(of).sum()
    }

    /// Memory of all pieces, filled or not, and of the cursors.
    pub(super) fn memory_bytes(&self) -> usize {
        let pieces = self.partitions.iter().map(|partition| partition.words + partition.filling.len());
        (pieces.sum::<usize>() + self.cursors.len()) * WORD
    }

    /// The pieces by partition; no rows are left.
    pub(super) fn take(&mut self) -> Vec<Chunks> {
        for (partition, cursor) in self.partitions.iter_mut().zip(self.cursors.chunks_exact(2)) {
            let mut piece = std::mem::take(&mut partition.filling);
            piece.truncate(piece.len() - (cursor[1] - cursor[0]) as usize / WORD);
            partition.keep(piece);
        }
        let rows = std::mem::replace(self, Self::new(self.words));
        rows.partitions.into_iter().map(|partition| partition.pieces).collect()
    }
}
