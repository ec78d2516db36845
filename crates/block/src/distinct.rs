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

/// Remembers the ids of strings by where they lie in memory: rows whose strings come from a dictionary point to few places, and
/// those need not be hashed and compared again. Where it meets new places all the time it stops looking.
pub(crate) struct KnownPlaces {
    /// Address, length and id.
    slots: [(usize, usize, u32); 1 << PLACE_BITS],
    misses: usize,
}

/// Places that are remembered, as a power of two.
const PLACE_BITS: u32 = 8;

/// Spreads addresses, which are multiples of something, over the slots.
const PLACE_FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// After so many strings that were elsewhere nobody looks any more.
const MOST_MISSES: usize = 4096;

impl KnownPlaces {
    pub(crate) fn new() -> Self {
        Self { slots: [(0, 0, 0); 1 << PLACE_BITS], misses: 0 }
    }

    /// The id of the string at this place, which `find` gives where it is not known. Strings that are alive at the same time and have the
    /// same place are equal.
    #[inline]
    pub(crate) fn id(&mut self, value: &[u8], find: impl FnOnce() -> Option<u32>) -> Option<u32> {
        if self.misses >= MOST_MISSES {
            return find();
        }
        let (address, length) = (value.as_ptr().addr(), value.len());
        let slot = (address as u64).wrapping_mul(PLACE_FACTOR) >> (u64::BITS - PLACE_BITS);
        let slot = &mut self.slots[slot as usize];
        if (slot.0, slot.1) == (address, length) {
            return Some(slot.2);
        }
        self.misses += 1;
        let id = find()?;
        *slot = (address, length, id);
        Some(id)
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
    fn known_places_give_the_ids_that_they_were_told() {
        let bytes: Vec<u8> = (0..=255).collect();
        let mut known = KnownPlaces::new();
        for round in 0..100_000 {
            let (start, length) = (round * 7 % 150, round % 100);
            let value = &bytes[start..start + length];
            let id = (start * 1000 + length) as u32;
            assert_eq!(known.id(value, || Some(id)), Some(id));
        }
        assert_eq!(known.misses, MOST_MISSES);
        let (mut known, mut asked) = (KnownPlaces::new(), 0);
        for _ in 0..10_000 {
            for value in [&bytes[..4], &bytes[..5], &bytes[100..108]] {
                let mut find = || {
                    asked += 1;
                    Some(value.len() as u32)
                };
                assert_eq!(known.id(value, &mut find), Some(value.len() as u32));
            }
        }
        // Two of them begin at the same byte and take the place of each other, until that is seen.
        assert!(asked > 3 && known.misses <= MOST_MISSES, "{asked}");
        assert_eq!(KnownPlaces::new().id(&bytes[..4], || None), None);
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
