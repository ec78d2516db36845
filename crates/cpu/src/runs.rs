//! Runs: rows of states brought together by partitions of their hash in a form that can leave memory and come back, for
//! states that are larger than it (Kuiper et al. 2024: partitions are made while rows arrive, and finished one by one).
//!
//! Invariants: a run refers to nothing outside of it; rows with equal keys are in equal partitions, whichever worker or
//! side of a join they are of. Must not know: files.

mod pack;

use forebay_base::Result;
use forebay_pipeline::ir::{AggregateState, JoinState, ValueType};

use crate::arena::Arena;
use crate::layout::{GroupRow, RowLayout, WORD, build_row};
use crate::rows::RowBuffer;

/// Bits of the hash by which a partition is divided at a time at most: as many streams as are written well side by side.
const SPLIT_BITS: u32 = 6;
/// Bits of the hash that choose a partition at most.
const MOST_BITS: u32 = 18;
/// Rows that are brought together at a time.
const ROWS_AT_A_TIME: usize = 1 << 20;
/// Partitions are chosen by the top bits of the hash times this: within one, the bits of the hash itself stay as they are
/// everywhere else, so that directories of one partition are filled evenly.
const SPREAD: u64 = 0x9fb2_1c65_1e98_df25;

/// What the rows of a state are made of, as far as runs need to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLayout {
    words: usize,
    /// The word that has the hash; without one all rows are of the first partition.
    hash: Option<usize>,
    /// The first words of values that are address and length of bytes.
    views: Vec<usize>,
}

impl RunLayout {
    /// Rows of a group table.
    pub fn of_groups(state: &AggregateState) -> Self {
        let row = GroupRow::new(state);
        let accumulators = row.accumulators.iter().filter(|accumulator| accumulator.value == ValueType::Bytes);
        let views = views(&row.key).chain(accumulators.map(|accumulator| accumulator.word)).collect();
        Self { words: row.words, hash: Some(0), views }
    }

    /// Rows of a build side.
    pub fn of_build(state: &JoinState) -> Self {
        let row = build_row(state);
        Self { words: row.words, hash: Some(1), views: views(&row).collect() }
    }

    /// Rows that no one looks up.
    pub fn of_rows(row: &RowLayout) -> Self {
        Self { words: row.words.max(1), hash: None, views: views(row).collect() }
    }

    /// Number of rows of a run.
    pub fn rows_of(&self, run: &Run) -> usize {
        run.words.len() / self.words
    }

    /// Bytes of a row, without those that it refers to.
    pub fn row_bytes(&self) -> usize {
        self.words * WORD
    }
}

fn views(row: &RowLayout) -> impl Iterator<Item = usize> + '_ {
    row.places.iter().filter(|place| place.typed.value == ValueType::Bytes).map(|place| place.word)
}

/// Which hashes are of which partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partitions {
    /// The partition of each value of the deciding bits.
    of_bits: Vec<u32>,
    /// By partition: how many of the bits are the same in all of it.
    bits: Vec<u32>,
}

impl Partitions {
    /// A single one.
    pub fn one() -> Self {
        Self { of_bits: vec![0], bits: vec![0] }
    }

    /// As many as one division makes.
    pub fn first() -> Self {
        let mut all = Self::one();
        all.split(0, 1 << SPLIT_BITS);
        all
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.bits.len()
    }

    /// Where rows with this hash belong.
    #[inline]
    pub fn of(&self, hash: u64) -> usize {
        // Two shifts, because one by all bits is none.
        let bits = self.of_bits.len().ilog2();
        self.of_bits[(hash.wrapping_mul(SPREAD) >> 1 >> (u64::BITS - 1 - bits)) as usize] as usize
    }

    /// Divides a partition into at least as many as are wanted, if that is not too many at a time. It keeps a share of its
    /// rows; gives the new ones that have the others, none where there are no more bits.
    pub fn split(&mut self, partition: usize, wanted: u64) -> std::ops::Range<usize> {
        let first = self.bits.len();
        let before = self.bits[partition];
        let more = wanted.clamp(2, 1 << SPLIT_BITS).next_power_of_two().ilog2();
        let after = (before + more).min(MOST_BITS);
        if after == before {
            return first..first;
        }
        let missing = after.saturating_sub(self.of_bits.len().ilog2());
        let repeated = |of: &u32| std::iter::repeat_n(*of, 1 << missing);
        self.of_bits = self.of_bits.iter().flat_map(repeated).collect();
        let unused = self.of_bits.len().ilog2() - after;
        for (value, of) in self.of_bits.iter_mut().enumerate().filter(|(_, of)| **of == partition as u32) {
            let part = (value >> unused) & ((1 << (after - before)) - 1);
            *of = if part == 0 { partition as u32 } else { (first + part - 1) as u32 };
        }
        self.bits[partition] = after;
        self.bits.resize(first + (1 << (after - before)) - 1, after);
        first..self.bits.len()
    }
}

/// Rows in one piece, with the bytes that they refer to behind them: by offset instead of address.
#[derive(Debug, Default)]
pub struct Run {
    /// Whole rows.
    pub words: Vec<u64>,
    /// What they refer to.
    pub bytes: Vec<u8>,
}

/// Takes a run and the number of its partition.
pub type WriteRun<'a> = dyn FnMut(usize, &Run) -> Result<()> + 'a;

/// Gives all rows that lie in `chunks`, and whose bytes are in `arena`, as runs.
pub(crate) fn scatter<'a>(
    layout: &RunLayout,
    partitions: &Partitions,
    chunks: impl Iterator<Item = &'a [u64]>,
    arena: &Arena,
    write: &mut WriteRun<'_>,
) -> Result<()> {
    let most = ROWS_AT_A_TIME * layout.words;
    let (mut some, mut words) = (Vec::new(), 0);
    for chunk in chunks.flat_map(|chunk| chunk.chunks(most)) {
        if words + chunk.len() > most {
            scatter_some(layout, partitions, &some, arena, write)?;
            some.clear();
            words = 0;
        }
        words += chunk.len();
        some.push(chunk);
    }
    scatter_some(layout, partitions, &some, arena, write)
}

fn scatter_some(
    layout: &RunLayout,
    partitions: &Partitions,
    chunks: &[&[u64]],
    arena: &Arena,
    write: &mut WriteRun<'_>,
) -> Result<()> {
    let rows = || {
        chunks.iter().enumerate().flat_map(|(number, chunk)| {
            chunk.chunks_exact(layout.words).enumerate().map(move |(row, words)| (number as u32, row as u32, words))
        })
    };
    let of = |row: &[u64]| layout.hash.map_or(0, |hash| partitions.of(row[hash]));
    let mut ends = vec![0usize; partitions.count() + 1];
    rows().for_each(|(_, _, row)| ends[of(row) + 1] += 1);
    for partition in 0..partitions.count() {
        ends[partition + 1] += ends[partition];
    }
    let mut order = vec![(0u32, 0u32); ends[partitions.count()]];
    // Each one's begin moves on to its end.
    for (chunk, number, row) in rows() {
        let next = &mut ends[of(row)];
        order[*next] = (chunk, number);
        *next += 1;
    }
    let mut run = Run::default();
    let mut start = 0;
    for (partition, end) in ends[..partitions.count()].iter().enumerate() {
        run.words.clear();
        run.bytes.clear();
        for (chunk, row) in &order[start..*end] {
            let row = &chunks[*chunk as usize][*row as usize * layout.words..][..layout.words];
            let copy = run.words.len();
            run.words.extend_from_slice(row);
            for view in &layout.views {
                let bytes = arena.get(row[*view], row[view + 1] as usize);
                if !bytes.is_empty() {
                    run.words[copy + view] = run.bytes.len() as u64;
                    run.bytes.extend_from_slice(bytes);
                }
            }
        }
        start = *end;
        if !run.words.is_empty() {
            write(partition, &run)?;
        }
    }
    Ok(())
}

impl RowBuffer {
    /// The rows of a run.
    pub fn of_run(layout: &RunLayout, mut run: Run) -> Self {
        let mut arena = Arena::default();
        let base = arena.keep(&run.bytes);
        for row in run.words.chunks_exact_mut(layout.words) {
            for view in layout.views.iter().filter(|view| row[**view + 1] != 0).copied().collect::<Vec<_>>() {
                row[view] += base;
            }
        }
        Self::of_parts(layout.words, run.words, arena)
    }

    /// Gives all rows as runs, and is empty then.
    pub fn take_runs(&mut self, layout: &RunLayout, partitions: &Partitions, write: &mut WriteRun<'_>) -> Result<()> {
        let taken = std::mem::replace(self, Self::new(layout.words));
        let (chunks, arena) = taken.into_parts();
        scatter(layout, partitions, chunks.iter().map(Vec::as_slice), &arena, write)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use forebay_pipeline::Scalar;
    use proptest::prelude::*;

    use super::*;
    use crate::rows::RowSet;
    use crate::scalars::{any_typed, hash_of, random, row_of, rows_of, scalar};

    #[test]
    fn every_hash_has_one_partition_however_they_are_divided() {
        let mut partitions = Partitions::first();
        let hashes: Vec<u64> = (0..100_000u64).map(|number| hash_of(&[Scalar::I64(number as i64)])).collect();
        for (divided, wanted, made) in [(3, 64, 64), (3, 1000, 64), (70, 5, 8), (5, 1, 2), (66, 2, 2)] {
            let before = partitions.clone();
            let new = partitions.split(divided, wanted);
            assert_eq!(new.len() + 1, made, "{wanted} of {divided}");
            let mut rows = vec![0; partitions.count()];
            for hash in &hashes {
                let (old, now) = (before.of(*hash), partitions.of(*hash));
                assert!(now == old || (old == divided && new.contains(&now)), "{old} {now}");
                rows[now] += 1;
            }
            // Each has its fair share, but for chance.
            let fair = |partition: usize| (hashes.len() >> partitions.bits[partition]) as f64;
            let is_fair = |(partition, rows): (usize, &i32)| {
                (f64::from(*rows) - fair(partition)).abs() < 9.0 * fair(partition).sqrt() + 9.0
            };
            assert!(rows.iter().enumerate().all(is_fair), "{rows:?}");
        }
        assert_eq!(partitions.count(), 64 + 63 + 63 + 7 + 1 + 1);
        assert!(partitions.split(3, 2).is_empty(), "there are no more bits");
    }

    #[test]
    fn partitions_do_not_use_up_the_bits_of_the_hash() {
        let partitions = Partitions::first();
        let hashes = (0..1 << 16).map(|number| hash_of(&[Scalar::I64(number)]));
        let mut slots = [0; 64];
        hashes.filter(|hash| partitions.of(*hash) == 5).for_each(|hash| slots[(hash >> 58) as usize] += 1);
        assert!(slots.iter().all(|rows| *rows > 2), "{slots:?}");
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(
            types in prop::collection::vec(any_typed(), 1..6),
            sizes in prop::collection::vec(0usize..3000, 1..4),
            mut seed: u64,
        ) {
            let state = JoinState { keys: types[..1].to_vec(), payload: types[1..].to_vec(), keeps_all: true };
            let (row, layout) = (build_row(&state), RunLayout::of_build(&state));
            let mut partitions = Partitions::first();
            partitions.split(7, 20);
            let mut runs: BTreeMap<usize, Vec<RowBuffer>> = BTreeMap::new();
            let mut expected: BTreeMap<usize, Vec<Vec<Scalar>>> = BTreeMap::new();
            for rows in sizes {
                let mut buffer = RowBuffer::new(row.words);
                for _ in 0..rows {
                    let values: Vec<Scalar> = types.iter().map(|typed| scalar(*typed, random(&mut seed), 100)).collect();
                    let mut words = row_of(&row, &values, &mut |bytes| buffer.keep_bytes(bytes));
                    words[1] = hash_of(&values[..1]);
                    buffer.push(&words);
                    expected.entry(partitions.of(words[1])).or_default().push(values);
                }
                let mut write = |partition: usize, run: &Run| {
                    let run = Run { words: run.words.clone(), bytes: run.bytes.clone() };
                    runs.entry(partition).or_default().push(RowBuffer::of_run(&layout, run));
                    Ok(())
                };
                buffer.take_runs(&layout, &partitions, &mut write).expect("nothing fails");
                prop_assert!(buffer.is_empty());
            }
            let read = |buffers| {
                let set = RowSet::of_buffers(&row, buffers);
                let mut vectors: Vec<crate::vector::Vector> = Vec::new();
                set.read(0..set.len(), &mut vectors);
                rows_of(&vectors, set.len(), &types)
            };
            let runs: BTreeMap<usize, Vec<Vec<Scalar>>> = runs.into_iter().map(|(number, runs)| (number, read(runs))).collect();
            prop_assert_eq!(runs, expected);
        }
    }
}
