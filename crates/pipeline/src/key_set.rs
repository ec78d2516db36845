//! A dense set of integers as a bitmap: membership is one shift and one load, whatever the number of keys.

use std::fmt;

/// Numbers that a set may span: 16 MiB of bits.
pub const SPAN_LIMIT: u128 = 1 << 27;

/// Integers between a least and a greatest one. Never empty.
#[derive(Clone, PartialEq, Eq)]
pub struct KeySet {
    low: i128,
    high: i128,
    /// Bit `key - low`.
    words: Vec<u64>,
    count: usize,
}

impl KeySet {
    /// The set of `keys`; `None` where there is none, or where they lie too far apart.
    pub fn new(keys: impl Iterator<Item = i128> + Clone) -> Option<Self> {
        let (low, high) = (keys.clone().min()?, keys.clone().max()?);
        if high.wrapping_sub(low) as u128 >= SPAN_LIMIT {
            return None;
        }
        let mut words = vec![0u64; (high - low) as usize / 64 + 1];
        for key in keys {
            let number = (key - low) as usize;
            words[number / 64] |= 1 << (number % 64);
        }
        Self::of_words(low, words)
    }

    /// The set whose least key is `low` and that has bit `key - low` for each of its keys; `None` where it spans too much.
    /// Panics where bit 0 is not set.
    pub fn of_words(low: i128, mut words: Vec<u64>) -> Option<Self> {
        assert!(words.first().is_some_and(|word| word & 1 == 1), "the least key has bit 0");
        words.truncate(words.iter().rposition(|word| *word != 0)? + 1);
        let last = words.len() * 64 - 1 - words[words.len() - 1].leading_zeros() as usize;
        let count = words.iter().map(|word| word.count_ones() as usize).sum();
        ((last as u128) < SPAN_LIMIT).then(|| Self { low, high: low + last as i128, words, count })
    }

    /// Whether `key` is in the set.
    pub fn contains(&self, key: i128) -> bool {
        (self.low..=self.high).contains(&key) && {
            let number = (key - self.low) as usize;
            self.words[number / 64] >> (number % 64) & 1 == 1
        }
    }

    /// The least key, which bit 0 of [`KeySet::words`] stands for.
    pub fn low(&self) -> i128 {
        self.low
    }

    /// The greatest key.
    pub fn high(&self) -> i128 {
        self.high
    }

    /// Bit `key - low` says whether a key is in the set; bits above the greatest key are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Number of keys, at least one.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether every number of `from..=to` is known to be a key, because there are no gaps at all.
    pub fn covers(&self, from: i128, to: i128) -> bool {
        self.low <= from && to <= self.high && self.count as i128 == self.high - self.low + 1
    }

    /// Whether some key lies in `from..=to`.
    pub fn meets(&self, from: i128, to: i128) -> bool {
        let (from, to) = (from.max(self.low), to.min(self.high));
        if from > to {
            return false;
        }
        let (first, last) = ((from - self.low) as usize, (to - self.low) as usize);
        let (head, tail) = (u64::MAX << (first % 64), u64::MAX >> (63 - last % 64));
        if first / 64 == last / 64 {
            return self.words[first / 64] & head & tail != 0;
        }
        self.words[first / 64] & head != 0
            || self.words[last / 64] & tail != 0
            || self.words[first / 64 + 1..last / 64].iter().any(|word| *word != 0)
    }
}

impl fmt::Debug for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeySet({} keys in {}..={})", self.count, self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_as_a_list_does() {
        let keys = [-70i128, -64, 0, 1, 63, 64, 200];
        let set = KeySet::new(keys.iter().copied()).expect("keys lie close");
        assert_eq!((set.count(), set.low(), set.high()), (7, -70, 200));
        for key in -80..210 {
            assert_eq!(set.contains(key), keys.contains(&key), "{key}");
            for to in key..210 {
                assert_eq!(set.meets(key, to), keys.iter().any(|k| (key..=to).contains(k)), "{key}..={to}");
            }
        }
        assert!(!set.contains(i128::MIN) && !set.contains(i128::MAX));
        assert!(!set.covers(0, 1), "there are gaps");
        let full = KeySet::new(5..=80).expect("keys lie close");
        assert!(full.covers(5, 80) && full.covers(7, 7) && !full.covers(4, 7) && !full.covers(80, 81));
    }

    #[test]
    fn is_made_of_words() {
        let keys = [-3i128, 0, 61, 200];
        let set = KeySet::new(keys.iter().copied()).expect("keys lie close");
        let mut words = set.words().to_vec();
        words.extend([0, 0]);
        assert_eq!(KeySet::of_words(-3, words), Some(set));
        assert_eq!(KeySet::of_words(5, vec![1]).map(|set| (set.low(), set.high(), set.count())), Some((5, 5, 1)));
    }

    #[test]
    fn far_apart_or_empty_is_no_set() {
        assert!(KeySet::new(std::iter::empty()).is_none());
        assert!(KeySet::new([i128::MIN, i128::MAX].into_iter()).is_none());
    }
}
