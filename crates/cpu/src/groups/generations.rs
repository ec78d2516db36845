//! Earlier generations of a part's groups, brought together by their hash as soon as each is put aside: while its rows are
//! still in the caches, into pieces that are merged without being gathered once more.
//!
//! Invariant: no two rows of a generation have the same key.

use std::collections::HashSet;

use crate::partition::Chunks;

/// Bits of the hash that choose a partition, from the top: a generation writes as many streams side by side, and leaves
/// pieces of some hundred rows.
pub(crate) const PARTITION_BITS: u32 = 8;
/// One key in so many is in the sample.
const SAMPLE_SHARE: u64 = 1 << 10;
/// Mixes a hash: keys of the sample are told by other bits than those that find groups.
const SPREAD: u64 = 0xd6e8_feb8_6659_fd93;

/// Rows of generations.
#[derive(Debug, Default)]
pub(super) struct Generations {
    /// By partition, a piece of each generation; empty until there is one.
    partitions: Vec<Chunks>,
    /// Words of all rows.
    words: usize,
    /// The hashes of a sample of all keys.
    sample: HashSet<u64>,
    /// How often a key of the sample came.
    sampled: usize,
}

impl Generations {
    /// Puts the rows of a generation aside, `words` words each with the hash in the first.
    pub(super) fn put_aside(&mut self, rows: &[u64], words: usize) {
        self.partitions.resize_with(1 << PARTITION_BITS, Vec::new);
        let mut counts = [0; 1 << PARTITION_BITS];
        for row in rows.chunks_exact(words) {
            counts[partition_of(row)] += 1;
            if row[0].wrapping_mul(SPREAD) < u64::MAX / SAMPLE_SHARE {
                self.sampled += 1;
                self.sample.insert(row[0]);
            }
        }
        let mut pieces: Vec<Vec<u64>> = counts.iter().map(|count| Vec::with_capacity(count * words)).collect();
        rows.chunks_exact(words).for_each(|row| pieces[partition_of(row)].extend_from_slice(row));
        self.partitions.iter_mut().zip(pieces).for_each(|(partition, piece)| partition.push(piece));
        self.words += rows.len();
    }

    /// Whether most keys were in one generation only, so that together they are hardly more than the groups.
    pub(super) fn are_disjoint(&self) -> bool {
        self.sample.len() * 2 >= self.sampled
    }

    /// Number of words of all rows.
    pub(super) fn word_count(&self) -> usize {
        self.words
    }

    /// True where there is none.
    pub(super) fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    /// The pieces of each generation.
    pub(super) fn each(&self) -> impl Iterator<Item = impl Iterator<Item = &[u64]>> {
        let count = self.partitions.first().map_or(0, Vec::len);
        (0..count).map(|generation| self.partitions.iter().map(move |pieces| pieces[generation].as_slice()))
    }

    /// The pieces by partition; none where there is no generation.
    pub(super) fn into_partitions(self) -> Vec<Chunks> {
        self.partitions
    }
}

fn partition_of(row: &[u64]) -> usize {
    (row[0] >> (u64::BITS - PARTITION_BITS)) as usize
}
