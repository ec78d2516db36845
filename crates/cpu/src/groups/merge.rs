//! Merging the groups of several workers: dense ones slot by slot, others by partitions of their hash; and the rows of one
//! worker that were only partitioned.
//!
//! Invariants: what comes out are whole rows ([`GroupRow`]), one for each key; sums that must fit their type do.

use std::ops::Range;
use std::sync::Arc;

use forebay_base::compare_floats;
use forebay_pipeline::Fault;
use forebay_pipeline::ir::{AggregateFunction, ValueType};

use super::generations::PARTITION_BITS;
use super::{GroupLayout, GroupPart, GroupPlan};
use crate::arena::Arena;
use crate::join::FEW_ROWS;
use crate::layout::{Accumulator, GroupRow, WORD, words};
use crate::parallel;
use crate::partition::{Chunks, count_rows, gather};
use crate::rows::{Field, RowBuffer, wide};

/// Bytes of a partition's rows that are merged from where they lie: merged, they stay in a second-level cache, or nearly.
const CACHED_BYTES: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };
/// Slots of a partition's first directory.
const FIRST_SLOTS: usize = 1 << 10;
/// Slots that a thread merges at a time.
const SLOTS_AT_A_TIME: usize = 1 << 14;
/// Slots that are passed over together where no row has touched any.
const SLOTS_IN_A_STEP: usize = 16;

/// The rows of all groups, and what they refer to.
pub(super) fn merge(
    row: &GroupRow,
    plan: &GroupPlan,
    mut parts: Vec<GroupPart>,
    threads: usize,
) -> Result<(Chunks, Arc<Arena>), Fault> {
    assert!(parts.iter().all(|part| part.plan == *plan), "parts are merged as they were made");
    let mut arena = Arena::default();
    arena.append(parts.iter_mut().map(|part| std::mem::take(&mut part.arena)));
    let merge = Merge::new(row, &arena);
    let chunks = match plan.layout {
        GroupLayout::Dense { .. } => merge.dense(plan, &parts, threads)?,
        GroupLayout::Partitioned => {
            merge.partitions(by_partition(parts.iter_mut().map(|part| part.partitioned.take())), threads)?
        }
        GroupLayout::Hash => {
            if parts.iter().any(|part| !part.earlier.is_empty()) {
                let words = row.words;
                let of_parts = parts.into_iter().map(|mut part| {
                    part.earlier.put_aside(&part.rows, words);
                    part.earlier.into_partitions()
                });
                merge.partitions(by_partition(of_parts), threads)?
            } else {
                let rows = parts.into_iter().map(|part| part.rows).filter(|rows| !rows.is_empty());
                merge.hash(rows.map(|rows| vec![rows]).collect(), threads)?
            }
        }
    };
    Ok((chunks, Arc::new(arena)))
}

/// The rows of all groups of runs, and what they refer to.
pub(super) fn merge_runs(row: &GroupRow, runs: Vec<RowBuffer>) -> Result<(Chunks, Arc<Arena>), Fault> {
    let (rows, arenas): (Vec<Chunks>, Vec<Arena>) = runs.into_iter().map(RowBuffer::into_parts).unzip();
    let mut arena = Arena::default();
    arena.append(arenas.into_iter());
    let merge = Merge::new(row, &arena);
    let chunks = merge.hash(rows, 1)?;
    Ok((chunks, Arc::new(arena)))
}

/// One row for each key of the rows in each partition, which refer to no bytes.
pub(super) fn combine_each(row: &GroupRow, partitions: Vec<Chunks>) -> Result<Chunks, Fault> {
    let arena = Arena::default();
    Merge::new(row, &arena).partitions(partitions, 1)
}

/// One row for each key of the rows in these pieces of a partition, which refer to no bytes.
pub(super) fn combine_one(row: &GroupRow, pieces: &[Vec<u64>]) -> Result<Vec<u64>, Fault> {
    let arena = Arena::default();
    let mut combined = Vec::new();
    let rows = pieces.iter().flat_map(|piece| piece.chunks_exact(row.words));
    Merge::new(row, &arena).partition(rows, PARTITION_BITS, &mut combined)?;
    Ok(combined)
}

/// The pieces of all parts, each of which has them by partition, by partition. Parts without any have no partitions.
fn by_partition(parts: impl Iterator<Item = Vec<Chunks>>) -> Vec<Chunks> {
    let mut partitions: Vec<Chunks> = Vec::new();
    for of_part in parts {
        partitions.resize_with(of_part.len().max(partitions.len()), Vec::new);
        partitions.iter_mut().zip(of_part).for_each(|(all, pieces)| all.extend(pieces));
    }
    partitions
}

/// The accumulators with their words counted from the end of the key.
fn counted_from_key(row: &GroupRow) -> Vec<Accumulator> {
    let behind = |accumulator: &Accumulator| Accumulator {
        word: accumulator.word - row.key.words,
        seen: accumulator.seen.map(|seen| seen - row.key.words),
        ..*accumulator
    };
    row.accumulators.iter().map(behind).collect()
}

struct Merge<'a> {
    row: &'a GroupRow,
    accumulators: Vec<Accumulator>,
    keys: Vec<Field>,
    arena: &'a Arena,
    /// Keys are equal if their words are: none of them refers to bytes.
    words_decide: bool,
}

impl<'a> Merge<'a> {
    fn new(row: &'a GroupRow, arena: &'a Arena) -> Self {
        let words_decide = row.key.places.iter().all(|place| place.typed.value != ValueType::Bytes);
        Self { row, accumulators: counted_from_key(row), keys: Field::of_row(&row.key), arena, words_decide }
    }

    /// Rows of the slots that some part has touched. Without keys there is one slot, which nobody needs to touch.
    fn dense(&self, plan: &GroupPlan, parts: &[GroupPart], threads: usize) -> Result<Chunks, Fault> {
        let ranges = (0..plan.slots).step_by(SLOTS_AT_A_TIME);
        let ranges = ranges.map(|from| from..plan.slots.min(from + SLOTS_AT_A_TIME)).collect();
        let words = self.row.words - self.row.key.words;
        let is_only = plan.keys.is_empty();
        let merged = parallel::map(threads, ranges, |slots: Range<usize>| {
            let mut rows = Vec::new();
            let steps = slots.clone().step_by(SLOTS_IN_A_STEP).map(|from| from..slots.end.min(from + SLOTS_IN_A_STEP));
            let is_touched = |part: &GroupPart, step: &Range<usize>| {
                part.touched[step.clone()].iter().fold(0, |any, touched| any | touched) != 0
            };
            let touched = steps.filter(|step| is_only || parts.iter().any(|part| is_touched(part, step)));
            for slot in touched.flatten() {
                let start = rows.len();
                if is_only {
                    self.push_key(plan, slot, &mut rows);
                }
                for part in parts.iter().filter(|part| is_only || part.touched[slot] != 0) {
                    if rows.len() == start {
                        self.push_key(plan, slot, &mut rows);
                    }
                    self.combine(&mut rows[start + self.row.key.words..], &part.rows[slot * words..][..words])?;
                }
            }
            self.check(&rows)?;
            Ok(rows)
        });
        merged.into_iter().collect()
    }

    /// Appends a row with the key of a slot and empty accumulators.
    fn push_key(&self, plan: &GroupPlan, slot: usize, rows: &mut Vec<u64>) {
        let start = rows.len();
        rows.resize(start + self.row.words, 0);
        let row = &mut rows[start..];
        for ((place, key), next) in self.row.key.places.iter().zip(&plan.keys).zip(1..) {
            let end = plan.keys.get(next).map_or(plan.slots as u64, |next| next.stride);
            let number = slot as u64 % end / key.stride;
            if number == key.span {
                continue;
            }
            row[place.word] = key.low.wrapping_add(number as i64) as u64;
            if let (Some(word), Some(bit)) = (self.row.key.validity, place.bit) {
                row[word] |= 1 << bit;
            }
        }
    }

    /// One row for each key among the rows of all parts, which lie by partition.
    fn partitions(&self, partitions: Vec<Chunks>, threads: usize) -> Result<Chunks, Fault> {
        let words = self.row.words;
        let merged = parallel::map(threads, partitions, |pieces: Chunks| {
            let all = pieces.iter().map(Vec::len).sum::<usize>();
            let mut merged = Vec::with_capacity(all);
            if all * WORD <= CACHED_BYTES {
                let rows = pieces.iter().flat_map(|piece| piece.chunks_exact(words));
                self.partition(rows, PARTITION_BITS, &mut merged)?;
            } else {
                let gathered = gather(vec![pieces], (words, 0), PARTITION_BITS..u64::BITS, 1);
                let bits = PARTITION_BITS + gathered.bits;
                for rows in gathered.slices(words) {
                    self.partition(rows.chunks_exact(words), bits, &mut merged)?;
                }
            }
            self.finish(merged)
        });
        merged.into_iter().collect()
    }

    /// One row for each key among the rows of all parts.
    fn hash(&self, mut parts: Vec<Chunks>, threads: usize) -> Result<Chunks, Fault> {
        if parts.iter().map(Vec::len).sum::<usize>() <= 1 {
            return parts.pop().unwrap_or_default().into_iter().map(|rows| self.finish(rows)).collect();
        }
        let words = self.row.words;
        let threads = if count_rows(&parts, words) < FEW_ROWS { 1 } else { threads };
        let gathered = gather(parts, (words, 0), 0..u64::BITS, threads);
        let merged = parallel::map(threads, gathered.slices(words).collect(), |rows: &[u64]| {
            let mut merged = Vec::with_capacity(rows.len());
            self.partition(rows.chunks_exact(words), gathered.bits, &mut merged)?;
            self.finish(merged)
        });
        merged.into_iter().collect()
    }

    /// Appends one row for each key among the rows of a partition, whose hashes have the same top `bits`.
    fn partition<'r>(
        &self,
        rows: impl Iterator<Item = &'r [u64]>,
        bits: u32,
        merged: &mut Vec<u64>,
    ) -> Result<(), Fault> {
        let words = self.row.words;
        let first = merged.len();
        let mut directory = Directory::new(bits);
        for row in rows {
            let mut slot = directory.first_slot(row[0]);
            loop {
                let Some(group) = directory.group(slot) else {
                    let group = (merged.len() - first) / words;
                    merged.extend_from_slice(row);
                    if directory.take(slot, group) {
                        directory.grow(merged[first..].chunks_exact(words).map(|row| row[0]));
                    }
                    break;
                };
                let into = &mut merged[first + group * words..][..words];
                if into[0] == row[0] && self.has_key(into, row) {
                    let (key, into) = into.split_at_mut(self.row.key.words);
                    self.combine(into, &row[key.len()..])?;
                    break;
                }
                slot = directory.next(slot);
            }
        }
        Ok(())
    }

    /// Merged rows as they are kept.
    fn finish(&self, mut rows: Vec<u64>) -> Result<Vec<u64>, Fault> {
        self.check(&rows)?;
        // Memory that was taken for rows which there are not.
        if rows.len() < rows.capacity() / 2 {
            rows.shrink_to_fit();
        }
        Ok(rows)
    }

    /// Whether two rows have the same key; NULL is equal to NULL.
    fn has_key(&self, a: &[u64], b: &[u64]) -> bool {
        if self.words_decide {
            return a[1..self.row.key.words].iter().zip(&b[1..]).all(|(a, b)| a == b);
        }
        self.row.key.validity.is_none_or(|word| a[word] == b[word])
            && self.keys.iter().all(|key| !key.is_valid(a) || key.is_equal(a, b, self.arena))
    }

    /// Adds what the accumulators `from` have seen to those of `into`; both begin behind the key.
    fn combine(&self, into: &mut [u64], from: &[u64]) -> Result<(), Fault> {
        self.accumulators.iter().try_for_each(|accumulator| combine(accumulator, into, from, self.arena))
    }

    /// Sums of I64 were added in I128 and must fit at last.
    fn check(&self, rows: &[u64]) -> Result<(), Fault> {
        let narrow = |accumulator: &&Accumulator| {
            let is_sum = accumulator.aggregate.function == AggregateFunction::Sum;
            is_sum && accumulator.aggregate.result().value == ValueType::I64
        };
        for accumulator in self.row.accumulators.iter().filter(narrow) {
            for row in rows.chunks_exact(self.row.words) {
                i64::try_from(wide(&row[accumulator.word..])).map_err(|_| Fault::Overflow)?;
            }
        }
        Ok(())
    }
}

/// Where the groups of a partition are, by their hash: open addressing, at most half full.
struct Directory {
    /// Numbers of groups plus one; 0 is free.
    slots: Vec<u32>,
    /// Top bits that all hashes of the partition share.
    shared: u32,
    groups: usize,
}

impl Directory {
    fn new(shared: u32) -> Self {
        Self { slots: vec![0; FIRST_SLOTS], shared, groups: 0 }
    }

    fn first_slot(&self, hash: u64) -> usize {
        (hash << self.shared >> (u64::BITS - self.slots.len().ilog2())) as usize
    }

    fn next(&self, slot: usize) -> usize {
        (slot + 1) & (self.slots.len() - 1)
    }

    fn group(&self, slot: usize) -> Option<usize> {
        self.slots[slot].checked_sub(1).map(|group| group as usize)
    }

    /// Puts a group into a free slot. Gives whether there are too many groups now.
    fn take(&mut self, slot: usize, group: usize) -> bool {
        self.slots[slot] = u32::try_from(group + 1).expect("a partition has no billions of groups");
        self.groups += 1;
        self.groups * 2 > self.slots.len()
    }

    /// Makes room for more than the groups with these hashes, which are all there are.
    fn grow(&mut self, hashes: impl Iterator<Item = u64>) {
        self.slots = vec![0; self.slots.len() * 4];
        for (hash, number) in hashes.zip(1..) {
            let mut slot = self.first_slot(hash);
            while self.slots[slot] != 0 {
                slot = self.next(slot);
            }
            self.slots[slot] = number;
        }
    }
}

fn combine(accumulator: &Accumulator, into: &mut [u64], from: &[u64], arena: &Arena) -> Result<(), Fault> {
    let first = accumulator.word;
    let range = first..first + words(accumulator.value);
    if let Some(seen) = accumulator.seen {
        if from[seen] == 0 {
            return Ok(());
        }
        if std::mem::replace(&mut into[seen], 1) == 0 {
            into[range.clone()].copy_from_slice(&from[range]);
            return Ok(());
        }
    }
    match accumulator.aggregate.function {
        AggregateFunction::CountRows
        | AggregateFunction::Count
        | AggregateFunction::Sum
        | AggregateFunction::SumWide
        | AggregateFunction::SumFitting => add(accumulator.value, &mut into[range.clone()], &from[range])?,
        function @ (AggregateFunction::Min | AggregateFunction::Max) => {
            let order = compare(accumulator.value, &from[range.clone()], &into[range.clone()], arena);
            if if function == AggregateFunction::Min { order.is_lt() } else { order.is_gt() } {
                into[range.clone()].copy_from_slice(&from[range]);
            }
        }
        AggregateFunction::First => {}
    }
    Ok(())
}

fn add(value: ValueType, into: &mut [u64], from: &[u64]) -> Result<(), Fault> {
    match value {
        ValueType::I64 => into[0] = (into[0] as i64).checked_add(from[0] as i64).ok_or(Fault::Overflow)? as u64,
        ValueType::F64 => into[0] = (f64::from_bits(into[0]) + f64::from_bits(from[0])).to_bits(),
        ValueType::I128 => {
            let sum = wide(into).checked_add(wide(from)).ok_or(Fault::Overflow)?;
            into.copy_from_slice(&[sum as u64, (sum >> 64) as u64]);
        }
        ValueType::Bool | ValueType::Bytes => unreachable!("only numbers are summed"),
    }
    Ok(())
}

fn compare(value: ValueType, a: &[u64], b: &[u64], arena: &Arena) -> std::cmp::Ordering {
    match value {
        ValueType::Bool | ValueType::I64 => (a[0] as i64).cmp(&(b[0] as i64)),
        ValueType::F64 => compare_floats(f64::from_bits(a[0]), f64::from_bits(b[0])),
        ValueType::I128 => wide(a).cmp(&wide(b)),
        ValueType::Bytes => arena.get(a[0], a[1] as usize).cmp(arena.get(b[0], b[1] as usize)),
    }
}
