//! Bringing rows together by the top bits of their hash, so that what is done next stays within a cache and threads do
//! not meet.

use std::ops::Range;

use crate::layout::WORD;
use crate::parallel;

/// Bytes of rows that a partition aims for: with its directory it stays in a second-level cache.
const PARTITION_BYTES: usize = 512 << 10;
/// Bits of the number of partitions at most: more streams than this are slow to write.
const PARTITION_BITS: u32 = 9;

/// The rows of one worker: whole rows in chunks.
pub(crate) type Chunks = Vec<Vec<u64>>;

/// Rows in one piece, by partition.
#[derive(Debug)]
pub(crate) struct Partitioned {
    pub(crate) memory: Vec<u64>,
    /// Number of rows of each of the 2^`bits` partitions.
    pub(crate) counts: Vec<usize>,
    /// A row's partition is in so many bits of its hash.
    pub(crate) bits: u32,
}

/// Number of rows.
pub(crate) fn count_rows(parts: &[Chunks], words: usize) -> usize {
    parts.iter().flatten().map(Vec::len).sum::<usize>() / words
}

impl Partitioned {
    /// The rows of `words` words, by partition.
    pub(crate) fn slices(&self, words: usize) -> impl Iterator<Item = &[u64]> {
        let mut rest = self.memory.as_slice();
        self.counts.iter().map(move |count| rest.split_off(..count * words).expect("all rows were counted"))
    }
}

/// All rows, of `words` words with a hash in word `hash`, in partitions by the first of some bits of the hash, counted from
/// the top.
pub(crate) fn gather(
    mut parts: Vec<Chunks>,
    (words, hash): (usize, usize),
    of_hash: Range<u32>,
    threads: usize,
) -> Partitioned {
    let rows = count_rows(&parts, words);
    let partitions = (rows * words * WORD).div_ceil(PARTITION_BYTES).max(1).next_power_of_two();
    let bits = partitions.ilog2().min(PARTITION_BITS).min(of_hash.end - of_hash.start);
    // Two shifts, because one by all bits is none.
    let partition_of = |row: &[u64]| (row[hash] << of_hash.start >> 1 >> (u64::BITS - 1 - bits)) as usize;
    if bits == 0 && parts.iter().flatten().count() <= 1 {
        let memory = parts.iter_mut().flat_map(std::mem::take).next().unwrap_or_default();
        return Partitioned { memory, counts: vec![rows], bits };
    }
    let counts: Vec<Vec<usize>> = parallel::map(threads, parts.iter().collect(), |part: &Chunks| {
        let mut counts = vec![0; 1 << bits];
        let rows = part.iter().flat_map(|chunk| chunk.chunks_exact(words));
        rows.for_each(|row| counts[partition_of(row)] += 1);
        counts
    });
    let mut memory = vec![0; rows * words];
    let mut rest = memory.as_mut_slice();
    let mut slices: Vec<Vec<&mut [u64]>> = parts.iter().map(|_| Vec::with_capacity(1 << bits)).collect();
    for partition in 0..1 << bits {
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
    Partitioned { memory, counts: (0..1 << bits).map(total).collect(), bits }
}
