//! Distinct values: an estimate from a sample of rows, and a table that gives every distinct value an id.
//!
//! Invariants: ids count up from 0 in order of first appearance. Must not know: what the values are (hashes and a
//! test for equality are enough).

/// Rows that the estimate looks at.
const SAMPLE_ROWS: usize = 1024;
/// Adjacent rows of the sample that are taken together, so that runs of equal values show.
const SAMPLE_RUN: usize = 16;

/// Estimates the number of distinct values among `rows` rows from about a thousand of them: Chao's lower bound
/// (Chao 1984), which errs towards fewer; exact for few rows. `hash` is called with rows.
pub(crate) fn estimate(rows: usize, hash: impl Fn(usize) -> u64) -> usize {
    let mut sample: Vec<u64> = if rows <= SAMPLE_ROWS {
        (0..rows).map(hash).collect()
    } else {
        let runs = SAMPLE_ROWS / SAMPLE_RUN;
        let start = |run: usize| run * (rows - SAMPLE_RUN) / (runs - 1);
        (0..runs).flat_map(|run| start(run)..start(run) + SAMPLE_RUN).map(hash).collect()
    };
    sample.sort_unstable();
    let (mut distinct, mut once, mut twice) = (0, 0, 0);
    for equal in sample.chunk_by(|a, b| a == b) {
        distinct += 1;
        once += usize::from(equal.len() == 1);
        twice += usize::from(equal.len() == 2);
    }
    if rows <= SAMPLE_ROWS {
        return distinct;
    }
    (distinct + once * once.saturating_sub(1) / (2 * (twice + 1))).min(rows)
}

/// Hash table from values to ids with open addressing. A slot holds the upper half of a hash and an id.
pub(crate) struct DistinctTable {
    slots: Vec<u64>,
    /// Slots are `1 << bits`.
    bits: u32,
    count: u32,
}

const EMPTY: u64 = u64::MAX;

impl DistinctTable {
    pub(crate) fn new() -> Self {
        let bits = 10;
        Self { slots: vec![EMPTY; 1 << bits], bits, count: 0 }
    }

    /// The id of the value with this hash for which `is_equal(id)` holds, or the next new id and `true`.
    #[inline]
    pub(crate) fn insert(&mut self, hash: u64, is_equal: impl Fn(u32) -> bool) -> (u32, bool) {
        let tag = hash >> 32;
        let mut at = (tag >> (32 - self.bits)) as usize;
        loop {
            let slot = self.slots[at];
            if slot == EMPTY {
                break;
            }
            if slot >> 32 == tag && is_equal(slot as u32) {
                return (slot as u32, false);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        let id = self.count;
        self.slots[at] = tag << 32 | u64::from(id);
        self.count += 1;
        if self.count as usize * 2 > self.slots.len() {
            self.grow();
        }
        (id, true)
    }

    #[cold]
    fn grow(&mut self) {
        self.bits += 2;
        let old = std::mem::replace(&mut self.slots, vec![EMPTY; 1 << self.bits]);
        for slot in old.into_iter().filter(|slot| *slot != EMPTY) {
            let mut at = (slot >> 32 >> (32 - self.bits)) as usize;
            while self.slots[at] != EMPTY {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = slot;
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::hash::hash_bits;

    use super::*;
    use std::collections::HashMap;

    #[test]
    fn ids_are_those_of_a_standard_map() {
        let values: Vec<u64> = (0..60_000u64).map(|i| i.wrapping_mul(0x1234_5679) % 9_973).collect();
        let (mut table, mut seen, mut twin) = (DistinctTable::new(), Vec::new(), HashMap::new());
        for value in &values {
            let (id, new) = table.insert(hash_bits(i128::from(*value)), |id| seen[id as usize] == *value);
            if new {
                seen.push(*value);
            }
            let next = twin.len() as u32;
            assert_eq!(id, *twin.entry(*value).or_insert(next));
        }
        assert_eq!(seen.len(), twin.len());
    }

    #[test]
    fn colliding_hashes_still_give_distinct_ids() {
        let (mut table, mut seen) = (DistinctTable::new(), Vec::new());
        for value in (0..3000).chain(0..3000) {
            let (id, new) = table.insert(7 << 60, |id| seen[id as usize] == value);
            if new {
                seen.push(value);
            }
            assert_eq!(seen[id as usize], value);
        }
        assert_eq!(seen.len(), 3000);
    }

    #[test]
    fn estimates_are_near_the_truth() {
        let estimate_of = |distinct: u64| {
            estimate(65_536, |row| {
                hash_bits(i128::from((row as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % i128::from(distinct))
            })
        };
        assert!((90..=110).contains(&estimate_of(100)));
        assert!((800..=1300).contains(&estimate_of(1000)));
        assert!(estimate_of(60_000) > 20_000);
        assert!(estimate(65_536, |row| hash_bits(row as i128 / 4)) < 20_000, "runs of four");
    }
}
