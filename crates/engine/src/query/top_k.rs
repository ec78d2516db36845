//! Which rows of a result can be among its first ones: all others need not become Arrow arrays, and, where they are groups, need
//! not be read at all.
//!
//! Invariant: every row that may be among the first is kept, ties included; who sorts afterwards gets the same first rows.
//! Must not know: how strings are ordered. Keys behind the first one that is a string are not looked at.

use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_base::PhysicalType;
use forebay_cpu::compile::Finished;
use forebay_cpu::pool;
use forebay_cpu::rows::RowSet;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};
use forebay_pipeline::ir::{Pipeline, Register, Sink, Source, Step};

use super::output::ResultSchema;
use super::runner::Runner;

/// Rows of which fewer than one in so many must be left for leaving rows out to pay.
const PAYING: usize = 4;
/// Rows of which a thread takes at least so many.
const ROWS_OF_A_THREAD: usize = 1 << 16;

/// The first rows of a result in an order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopK {
    /// The order.
    pub keys: Vec<SortKey>,
    /// Number of rows.
    pub rows: usize,
}

/// A column that rows are ordered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortKey {
    /// Position in the result.
    pub column: usize,
    /// The greatest come first.
    pub descending: bool,
    /// NULL comes first.
    pub nulls_first: bool,
}

/// The keys of a row; the least come first.
type Key = Vec<i128>;

/// What a thread found among the rows that it took.
#[derive(Debug, Default)]
struct Found {
    /// Of all rows that it has seen, those that come first; never more than are asked for.
    best: BinaryHeap<Key>,
    /// Rows that were among the first when they were seen.
    candidates: Vec<(Key, usize)>,
}

impl TopK {
    /// The numbers of the rows that can be among the first, ascending; `None` where there is no point in choosing.
    /// `position_of` says where in a row the values of a column of the result are, if they are there, and their numbers have
    /// the order of the values.
    pub(super) fn choose(
        &self,
        rows: &RowSet,
        threads: usize,
        position_of: impl Fn(usize) -> Option<usize>,
    ) -> Option<Vec<usize>> {
        if self.rows == 0 || rows.len() / PAYING <= self.rows {
            return None;
        }
        let of_column = |key: &SortKey| Some(SortKey { column: position_of(key.column)?, ..*key });
        let keys: Vec<SortKey> = self.keys.iter().map_while(of_column).collect();
        if keys.is_empty() {
            return None;
        }
        let cursor = AtomicUsize::new(0);
        let next = || Some(cursor.fetch_add(VECTOR_ROWS, Ordering::Relaxed)).filter(|start| *start < rows.len());
        let threads = threads.min(rows.len() / ROWS_OF_A_THREAD).max(1);
        let found = pool::run(threads, || self.find(rows, &keys, next));
        let found: Option<Vec<Found>> = found.into_iter().map(|found| found.unwrap_or_default()).collect();
        let (best, candidates): (Vec<_>, Vec<_>) = found?.into_iter().map(|one| (one.best, one.candidates)).unzip();
        let mut best: Vec<Key> = best.into_iter().flatten().collect();
        best.sort_unstable();
        let last = best.get(self.rows - 1)?;
        let candidates = candidates.into_iter().flatten().filter(|(key, _)| key <= last);
        let mut numbers: Vec<usize> = candidates.map(|(_, row)| row).collect();
        numbers.sort_unstable();
        Some(numbers)
    }

    /// One thread's share: the rows from each number on that `next` gives, [`VECTOR_ROWS`] of them. `None` where too many may
    /// be among the first.
    fn find(&self, rows: &RowSet, keys: &[SortKey], next: impl Fn() -> Option<usize>) -> Option<Found> {
        let positions: Vec<usize> = keys.iter().map(|key| key.column).collect();
        let (mut vectors, mut found) = (Vec::new(), Found::default());
        let Found { best, candidates } = &mut found;
        while let Some(start) = next() {
            let count = VECTOR_ROWS.min(rows.len() - start);
            rows.read_values(start..start + count, &positions, &mut vectors);
            for row in 0..count {
                let begins = part(&vectors[0], row, keys[0]);
                let is_full = best.len() == self.rows;
                if is_full && best.peek().is_some_and(|last| begins > last[0]) {
                    continue;
                }
                let others = keys.iter().zip(&vectors).skip(1).map(|(key, vector)| part(vector, row, *key));
                let key: Key = std::iter::once(begins).chain(others).collect();
                if is_full && best.peek().is_some_and(|last| key > *last) {
                    continue;
                }
                best.push(key.clone());
                if is_full {
                    best.pop();
                }
                candidates.push((key, start + row));
            }
            if candidates.len() > rows.len() / PAYING {
                let last = best.peek()?;
                candidates.retain(|(key, _)| key <= last);
                if candidates.len() > rows.len() / PAYING {
                    return None;
                }
            }
        }
        Some(found)
    }
}

impl Runner<'_> {
    /// In front of the pipeline that collects the result: takes out of the groups that it reads those that cannot be among the
    /// first rows, so that their other values, strings above all, are not even copied. Gives how many these were.
    ///
    /// Only where every group becomes a row, and none an error.
    pub(super) fn leave_out_behind_first(&mut self, index: usize) -> u64 {
        let Pipeline { source, steps, sink } = &self.program.pipelines[index];
        let (Some(first), Source::Groups { state, columns }, Sink::Collect { columns: collected }) =
            (&self.query.first, source, sink)
        else {
            return 0;
        };
        let Some(Finished::Groups(groups)) = self.finished[state.0 as usize].as_deref() else { return 0 };
        if !steps.iter().all(|step| matches!(step, Step::Compute(compute) if !compute.can_fail())) {
            return 0;
        }
        let shape = ResultSchema::of(self.query, &self.dictionaries);
        let position_of = |column: usize| {
            let is_it = |register: &Register| *register == collected[column];
            columns.iter().position(is_it).filter(|_| shape.is_ordered(column))
        };
        let Some(numbers) = first.choose(groups.rows(), self.options.threads, position_of) else { return 0 };
        let left_out = groups.len() - numbers.len();
        let kept = Finished::Groups(groups.of_numbers(&numbers));
        self.finished[state.0 as usize] = Some(Arc::new(kept));
        left_out as u64
    }
}

/// A value as a number that is the less the earlier it comes.
fn part(vector: &Vector, row: usize, key: SortKey) -> i128 {
    if !vector.is_valid(row) {
        return if key.nulls_first { i128::MIN } else { i128::MAX };
    }
    let value = match vector.physical() {
        PhysicalType::U8 => i128::from(vector.values::<u8>()[row]),
        PhysicalType::I64 => i128::from(vector.values::<i64>()[row]),
        PhysicalType::I128 => vector.values::<i128>()[row],
        PhysicalType::F64 => ordered_bits(vector.values::<f64>()[row]),
        // Nothing is known of it: all rows tie.
        _ => 0,
    };
    if key.descending { !value } else { value }
}

/// A canonical float as a number in the same order.
fn ordered_bits(value: f64) -> i128 {
    let bits = value.to_bits() as i64;
    i128::from(if bits < 0 { !bits ^ i64::MIN } else { bits })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_are_ordered_with_nan_last() {
        let values = [f64::NEG_INFINITY, -2.5, -1e-300, 0.0, 1e-300, 7.0, f64::INFINITY, f64::NAN];
        assert!(values.windows(2).all(|pair| ordered_bits(pair[0]) < ordered_bits(pair[1])));
    }
}
