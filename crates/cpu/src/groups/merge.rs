//! Merging the groups of several workers: dense ones slot by slot, others by partitions of their hash.
//!
//! Invariants: what comes out are whole rows ([`GroupRow`]), one for each key; sums that must fit their type do.

use std::ops::Range;
use std::sync::Arc;

use forebay_base::compare_floats;
use forebay_pipeline::Fault;
use forebay_pipeline::ir::{AggregateFunction, ValueType};

use super::generations::GENERATION_BITS;
use super::{GroupLayout, GroupPart, GroupPlan};
use crate::arena::Arena;
use crate::join::FEW_ROWS;
use crate::layout::{Accumulator, GroupRow, WORD, words};
use crate::parallel;
use crate::partition::{Chunks, count_rows, gather};
use crate::rows::{Field, RowBuffer, wide};

/// Bytes of a partition's rows that are merged from where they lie: merged, they stay in a second-level cache, or nearly.
const CACHED_BYTES: usize = if cfg!(test) { 64 << 10 } else { 4 << 20 };
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
    let merge = Merge { row, accumulators: counted_from_key(row), keys: Field::of_row(&row.key), arena: &arena };
    let chunks = match plan.layout {
        GroupLayout::Dense => merge.dense(plan, &parts, threads)?,
        GroupLayout::Hash => {
            if parts.iter().any(|part| !part.earlier.is_empty()) {
                merge.generations(parts, threads)?
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
    let merge = Merge { row, accumulators: counted_from_key(row), keys: Field::of_row(&row.key), arena: &arena };
    let chunks = merge.hash(rows, 1)?;
    Ok((chunks, Arc::new(arena)))
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
}

impl Merge<'_> {
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

    /// One row for each key among the rows of all parts, which have been brought together by generations.
    fn generations(&self, parts: Vec<GroupPart>, threads: usize) -> Result<Chunks, Fault> {
        let words = self.row.words;
        let mut partitions: Vec<Chunks> = Vec::new();
        for mut part in parts {
            part.earlier.put_aside(&part.rows, words);
            part.rows = Vec::new();
            let of_part = part.earlier.into_partitions();
            partitions.resize_with(of_part.len(), Vec::new);
            partitions.iter_mut().zip(of_part).for_each(|(all, pieces)| all.extend(pieces));
        }
        let merged = parallel::map(threads, partitions, |pieces: Chunks| {
            let all = pieces.iter().map(Vec::len).sum::<usize>();
            let mut merged = Vec::with_capacity(all);
            if all * WORD <= CACHED_BYTES {
                let rows = pieces.iter().flat_map(|piece| piece.chunks_exact(words));
                self.partition(rows, all / words, GENERATION_BITS, &mut merged)?;
            } else {
                let gathered = gather(vec![pieces], (words, 0), GENERATION_BITS..u64::BITS, 1);
                let bits = GENERATION_BITS + gathered.bits;
                for rows in gathered.slices(words) {
                    self.partition(rows.chunks_exact(words), rows.len() / words, bits, &mut merged)?;
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
            self.partition(rows.chunks_exact(words), rows.len() / words, gathered.bits, &mut merged)?;
            self.finish(merged)
        });
        merged.into_iter().collect()
    }

    /// Appends one row for each key among `count` rows of a partition, whose hashes have the same top `bits`.
    fn partition<'a>(
        &self,
        rows: impl Iterator<Item = &'a [u64]>,
        count: usize,
        bits: u32,
        merged: &mut Vec<u64>,
    ) -> Result<(), Fault> {
        let words = self.row.words;
        let slots = (count * 2).next_power_of_two().max(2);
        let shift = u64::BITS - slots.ilog2();
        let first = merged.len();
        // Numbers of merged rows plus one; 0 is free.
        let mut directory = vec![0usize; slots];
        for row in rows {
            let mut slot = (row[0] << bits >> shift) as usize;
            loop {
                let Some(group) = directory[slot].checked_sub(1) else {
                    directory[slot] = (merged.len() - first) / words + 1;
                    merged.extend_from_slice(row);
                    break;
                };
                let into = &mut merged[first + group * words..][..words];
                if into[0] == row[0] && self.has_key(into, row) {
                    let (key, into) = into.split_at_mut(self.row.key.words);
                    self.combine(into, &row[key.len()..])?;
                    break;
                }
                slot = (slot + 1) & (slots - 1);
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
