//! Which rows of a result can be among its first ones: all others need not become Arrow arrays.
//!
//! Invariant: every row that may be among the first is kept, ties included; who sorts afterwards gets the same first rows.
//! Must not know: how strings are ordered. Keys behind the first one that is a string are not looked at.

use std::collections::BinaryHeap;

use forebay_base::PhysicalType;
use forebay_cpu::rows::RowSet;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};

/// Rows of which fewer than one in so many must be left for leaving rows out to pay.
const PAYING: usize = 4;

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

impl TopK {
    /// The numbers of the rows that can be among the first, in order; `None` where there is no point in choosing.
    /// `is_ordered` says of a column whether its numbers have the order of its values.
    pub(super) fn choose(&self, rows: &RowSet, is_ordered: impl Fn(usize) -> bool) -> Option<Vec<usize>> {
        if self.rows == 0 || rows.len() / PAYING <= self.rows {
            return None;
        }
        let keys: Vec<SortKey> = self.keys.iter().copied().take_while(|key| is_ordered(key.column)).collect();
        let (first, rest) = keys.split_first()?;
        let mut vectors: Vec<Vector> = Vec::new();
        let mut best: BinaryHeap<Key> = BinaryHeap::with_capacity(self.rows + 1);
        let mut candidates: Vec<(Key, usize)> = Vec::new();
        for start in (0..rows.len()).step_by(VECTOR_ROWS) {
            let count = VECTOR_ROWS.min(rows.len() - start);
            rows.read(start..start + count, &mut vectors);
            for row in 0..count {
                let begins = part(&vectors[first.column], row, *first);
                let is_full = best.len() == self.rows;
                if is_full && best.peek().is_some_and(|last| begins > last[0]) {
                    continue;
                }
                let others = rest.iter().map(|key| part(&vectors[key.column], row, *key));
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
        let last = best.peek()?;
        candidates.retain(|(key, _)| key <= last);
        Some(candidates.into_iter().map(|(_, row)| row).collect())
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
