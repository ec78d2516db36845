//! Some of the blocks of a table, a bit for each.

use std::ops::Range;

/// Bits of a word.
const WORD_BITS: usize = u64::BITS as usize;

/// Some of a number of blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BlockBits {
    /// Block 0 in the lowest bit of the first; bits behind the last block are 0.
    words: Vec<u64>,
    blocks: usize,
}

impl BlockBits {
    /// None of so many blocks.
    pub fn none(blocks: usize) -> Self {
        Self { words: vec![0; blocks.div_ceil(WORD_BITS)], blocks }
    }

    /// Those of so many blocks for which `is_in` is true.
    pub fn from_fn(blocks: usize, is_in: impl Fn(usize) -> bool) -> Self {
        let word = |first: usize| {
            let bits = WORD_BITS.min(blocks - first);
            (0..bits).fold(0, |word, bit| word | u64::from(is_in(first + bit)) << bit)
        };
        Self { words: (0..blocks).step_by(WORD_BITS).map(word).collect(), blocks }
    }

    /// The number of blocks that there are, in it or not.
    pub fn blocks(&self) -> usize {
        self.blocks
    }

    /// Whether it has a block; false of one that is not there.
    pub fn contains(&self, block: usize) -> bool {
        self.words.get(block / WORD_BITS).is_some_and(|word| word >> (block % WORD_BITS) & 1 == 1)
    }

    /// Puts consecutive blocks in, or takes them out.
    ///
    /// # Panics
    /// If one of them is not there.
    pub fn fill(&mut self, blocks: Range<usize>, is_in: bool) {
        assert!(blocks.end <= self.blocks, "blocks to {} of {}", blocks.end, self.blocks);
        for block in blocks {
            let bit = 1 << (block % WORD_BITS);
            match is_in {
                true => self.words[block / WORD_BITS] |= bit,
                false => self.words[block / WORD_BITS] &= !bit,
            }
        }
    }

    /// Puts the blocks of another set in, whose block 0 is block `first` here.
    ///
    /// # Panics
    /// If one of them is not there.
    pub fn add_at(&mut self, first: usize, other: &Self) {
        assert!(first + other.blocks <= self.blocks, "blocks to {} of {}", first + other.blocks, self.blocks);
        let (word, bit) = (first / WORD_BITS, first % WORD_BITS);
        for (number, bits) in other.words.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            self.words[word + number] |= bits << bit;
            if bit > 0 && bits >> (WORD_BITS - bit) != 0 {
                self.words[word + number + 1] |= bits >> (WORD_BITS - bit);
            }
        }
    }

    /// The blocks that are there and not in it.
    #[must_use]
    pub fn complement(mut self) -> Self {
        self.words.iter_mut().for_each(|word| *word = !*word);
        if let (Some(last), rest @ 1..) = (self.words.last_mut(), self.blocks % WORD_BITS) {
            *last &= (1 << rest) - 1;
        }
        self
    }

    /// The number of blocks in it.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The number of blocks in it that are not in the other set.
    pub fn len_without(&self, other: &Self) -> usize {
        let others = other.words.iter().copied().chain(std::iter::repeat(0));
        self.words.iter().zip(others).map(|(word, other)| (word & !other).count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(bits: &BlockBits) -> Vec<usize> {
        (0..bits.blocks() + 70).filter(|block| bits.contains(*block)).collect()
    }

    #[test]
    fn sets_of_any_size_are_joined_anywhere() {
        for blocks in [0, 1, 63, 64, 65, 130] {
            let every_third = BlockBits::from_fn(blocks, |block| block % 3 == 0);
            assert_eq!(of(&every_third), (0..blocks).step_by(3).collect::<Vec<_>>());
            assert_eq!(every_third.len(), blocks.div_ceil(3));
            let others = every_third.clone().complement();
            assert_eq!(of(&others), (0..blocks).filter(|block| block % 3 != 0).collect::<Vec<_>>());
            assert_eq!((others.len_without(&every_third), every_third.len_without(&every_third)), (others.len(), 0));
            for first in [0, 1, 60, 64, 100] {
                let mut whole = BlockBits::none(first + blocks + 2);
                whole.fill(first + blocks + 1..first + blocks + 2, true);
                whole.add_at(first, &every_third);
                let mut wanted: Vec<usize> = (0..blocks).step_by(3).map(|block| first + block).collect();
                wanted.push(first + blocks + 1);
                assert_eq!(of(&whole), wanted, "{blocks} at {first}");
            }
        }
    }

    #[test]
    fn ranges_are_filled_and_taken_out() {
        let mut bits = BlockBits::none(200);
        assert!(bits.is_empty());
        bits.fill(60..140, true);
        bits.fill(64..128, false);
        assert_eq!(of(&bits), (60..64).chain(128..140).collect::<Vec<_>>());
    }
}
