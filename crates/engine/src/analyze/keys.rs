//! The rows of a table by an integer key.

use std::collections::HashMap;

/// No row.
const NONE: u32 = u32::MAX;

/// A table of keys may have so many places for each row before keys are hashed.
const PLACES_PER_ROW: u64 = 16;

/// And so many in any case: the dates of some decades as integers of eight digits.
const FEW_PLACES: u64 = 1 << 20;

/// Rows by key. A key may have none or several.
#[derive(Debug)]
pub(super) struct RowsByKey {
    first: FirstRows,
    /// By row, the next one with the same key; empty where no key has two.
    next: Vec<u32>,
    row_count: usize,
}

#[derive(Debug)]
enum FirstRows {
    /// From the least key on.
    Dense {
        least: i64,
        rows: Vec<u32>,
    },
    Hashed(HashMap<i64, u32>),
}

impl RowsByKey {
    /// The rows of these keys; NULL is no key. There must be fewer than 2^32 - 1 rows.
    pub(super) fn new(keys: &[Option<i64>]) -> Self {
        let known = || keys.iter().flatten();
        let (least, greatest) = (known().min().copied().unwrap_or(0), known().max().copied().unwrap_or(0));
        let span = greatest.abs_diff(least);
        let mut first = match span < FEW_PLACES || span / PLACES_PER_ROW <= keys.len() as u64 {
            true => FirstRows::Dense { least, rows: vec![NONE; span as usize + 1] },
            false => FirstRows::Hashed(HashMap::with_capacity(keys.len())),
        };
        let mut next = Vec::new();
        for (row, key) in keys.iter().enumerate() {
            let Some(key) = *key else { continue };
            let row = row as u32;
            let place = match &mut first {
                FirstRows::Dense { least, rows } => &mut rows[key.abs_diff(*least) as usize],
                FirstRows::Hashed(rows) => rows.entry(key).or_insert(NONE),
            };
            let before = std::mem::replace(place, row);
            if before != NONE {
                if next.is_empty() {
                    next = vec![NONE; keys.len()];
                }
                next[row as usize] = before;
            }
        }
        Self { first, next, row_count: keys.len() }
    }

    /// The places that keys have, of which [`RowsByKey::place`] gives one.
    pub(super) fn places(&self) -> usize {
        match &self.first {
            FirstRows::Dense { rows, .. } => rows.len(),
            FirstRows::Hashed(_) => self.row_count,
        }
    }

    /// A number of its own for each key that has rows; some others have one, too.
    pub(super) fn place(&self, key: i64) -> Option<usize> {
        match &self.first {
            FirstRows::Dense { least, rows } => {
                let place = key.wrapping_sub(*least) as u64;
                (place < rows.len() as u64).then_some(place as usize)
            }
            FirstRows::Hashed(rows) => rows.get(&key).map(|row| *row as usize),
        }
    }

    /// The rows with the key that has this place.
    pub(super) fn rows_at(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let first = match &self.first {
            FirstRows::Dense { rows, .. } => rows[place],
            FirstRows::Hashed(_) => place as u32,
        };
        let known = |row: u32| (row != NONE).then_some(row);
        let next = move |row: &u32| self.next.get(*row as usize).copied().and_then(known);
        std::iter::successors(known(first), next).map(|row| row as usize)
    }

    /// The rows with a key.
    pub(super) fn rows(&self, key: i64) -> impl Iterator<Item = usize> + '_ {
        self.place(key).into_iter().flat_map(|place| self.rows_at(place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_find_their_rows() {
        for keys in [
            vec![Some(5), None, Some(7), Some(5), Some(-2)],
            vec![Some(i64::MIN), Some(i64::MAX), Some(0), Some(i64::MAX)],
            vec![None, None],
            vec![],
        ] {
            let rows = RowsByKey::new(&keys);
            for key in [i64::MIN, -3, -2, 0, 5, 6, 7, 8, i64::MAX] {
                let mut found: Vec<usize> = rows.rows(key).collect();
                found.sort_unstable();
                let wanted: Vec<usize> = (0..keys.len()).filter(|row| keys[*row] == Some(key)).collect();
                assert_eq!(found, wanted, "{key} of {keys:?}");
            }
        }
    }
}
