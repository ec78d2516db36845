//! Bits by position, in words of 64.
//!
//! Invariant: bits beyond the length are 0. Must not know: what a bit says.

use std::ops::Range;

/// A growing row of bits.
#[derive(Debug, Clone, Default)]
pub struct Bits {
    words: Vec<u64>,
    length: usize,
}

impl Bits {
    /// Number of bits.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there is no bit.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The bit at a position below [`Bits::len`].
    #[inline]
    pub fn get(&self, at: usize) -> bool {
        debug_assert!(at < self.length);
        self.words[at / 64] >> (at % 64) & 1 == 1
    }

    /// Number of bits that are 1.
    pub fn count_ones(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// The positions of bits that are 1, ascending.
    pub fn ones(&self) -> impl Iterator<Item = usize> + '_ {
        self.words.iter().enumerate().flat_map(|(index, word)| ones(*word).map(move |at| index * 64 + at))
    }

    /// The ranges of positions whose bits are 1, ascending, each as long as it can be.
    pub fn runs(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut next = 0;
        std::iter::from_fn(move || {
            let start = self.first_from(next, 0)?;
            next = self.first_from(start, u64::MAX).unwrap_or(self.length);
            Some(start..next)
        })
    }

    /// The first position from `start` on whose bit is 1; 0 where `flip` is all ones.
    fn first_from(&self, start: usize, flip: u64) -> Option<usize> {
        let mut word = start / 64;
        let mut bits = (self.words.get(word)? ^ flip) & u64::MAX << (start % 64);
        while bits == 0 {
            word += 1;
            bits = self.words.get(word)? ^ flip;
        }
        Some(word * 64 + bits.trailing_zeros() as usize).filter(|at| *at < self.length)
    }

    /// The words; bit 0 of word 0 is the first.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    #[inline]
    pub(crate) fn set(&mut self, at: usize, bit: bool) {
        debug_assert!(at < self.length);
        let (word, mask) = (&mut self.words[at / 64], 1 << (at % 64));
        if bit {
            *word |= mask;
        } else {
            *word &= !mask;
        }
    }

    pub(crate) fn push(&mut self, bit: bool) {
        if self.length.is_multiple_of(64) {
            self.words.push(0);
        }
        self.length += 1;
        self.set(self.length - 1, bit);
    }

    /// Becomes a copy of `count` bits of `other` from `start` on.
    pub(crate) fn copy_from(&mut self, other: &Self, start: usize, count: usize) {
        debug_assert!(start + count <= other.length);
        self.words.clear();
        self.length = count;
        let (first, shift, needed) = (start / 64, start % 64, count.div_ceil(64));
        if shift == 0 {
            self.words.extend_from_slice(&other.words[first..first + needed]);
        } else {
            self.words.extend((first..first + needed).map(|at| {
                let above = other.words.get(at + 1).map_or(0, |word| word << (64 - shift));
                other.words[at] >> shift | above
            }));
        }
        self.cut_last_word();
    }

    pub(crate) fn bytes(&self) -> usize {
        self.words.capacity() * 8
    }

    fn cut_last_word(&mut self) {
        if !self.length.is_multiple_of(64)
            && let Some(last) = self.words.last_mut()
        {
            *last &= u64::MAX >> (64 - self.length % 64);
        }
    }
}

/// The places of ones in a word, ascending.
#[inline]
pub(crate) fn ones(mut word: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let at = word.trailing_zeros() as usize;
        (word != 0).then(|| {
            word &= word - 1;
            at
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_those_of_single_bits() {
        let mut bits = Bits::default();
        (0..333).for_each(|at| bits.push(at * at % 7 < 3));
        let mut copy = Bits::default();
        for (start, count) in [(0, 333), (0, 64), (1, 64), (63, 130), (64, 1), (200, 133), (333, 0), (5, 0)] {
            copy.copy_from(&bits, start, count);
            assert_eq!(copy.len(), count);
            assert!((0..count).all(|at| copy.get(at) == bits.get(start + at)), "{start} {count}");
            assert_eq!(copy.count_ones(), (0..count).filter(|at| bits.get(start + at)).count());
            let ones: Vec<usize> = (0..count).filter(|at| bits.get(start + at)).collect();
            assert_eq!(copy.ones().collect::<Vec<_>>(), ones);
            assert_eq!(copy.runs().flatten().collect::<Vec<_>>(), ones);
            assert!(copy.runs().zip(copy.runs().skip(1)).all(|(one, next)| one.end < next.start));
        }
    }
}
