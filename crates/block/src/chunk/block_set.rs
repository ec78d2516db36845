//! Which blocks of a chunk are meant.
//!
//! Must not know: what is in the blocks.

use std::fmt;
use std::ops::Range;

use forebay_base::limits::GROUP_BLOCKS_MAX;

/// Bits of a word.
const WORD_BITS: usize = u64::BITS as usize;

/// Some of the blocks of a chunk, by their number in it, which is below [`GROUP_BLOCKS_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct BlockSet {
    words: [u64; GROUP_BLOCKS_MAX / WORD_BITS],
}

impl BlockSet {
    /// The first `count` blocks.
    pub fn first(count: usize) -> Self {
        (0..count).collect()
    }

    /// Adds a block.
    ///
    /// # Panics
    /// If its number is [`GROUP_BLOCKS_MAX`] or more.
    pub fn insert(&mut self, block: usize) {
        self.words[block / WORD_BITS] |= 1 << (block % WORD_BITS);
    }

    /// Takes out the blocks for which `stays` is false.
    pub fn retain(&mut self, stays: impl Fn(usize) -> bool) {
        *self = self.iter().filter(|block| stays(*block)).collect();
    }

    /// Whether it has this block.
    pub fn contains(&self, block: usize) -> bool {
        self.words.get(block / WORD_BITS).is_some_and(|word| word >> (block % WORD_BITS) & 1 == 1)
    }

    /// Whether it has all blocks of `other`.
    pub fn contains_all(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(mine, other)| mine & other == *other)
    }

    /// The number of its blocks.
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.words == Self::default().words
    }

    /// Its blocks, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        (0..GROUP_BLOCKS_MAX).filter(|block| self.contains(*block))
    }

    /// The blocks of a row group that `is_in` says to be in it, of those in `range`, whose first one is number 0 here.
    pub fn of_range(range: Range<usize>, is_in: impl Fn(usize) -> bool) -> Self {
        let first = range.start;
        range.filter(|block| is_in(*block)).map(|block| block - first).collect()
    }
}

impl FromIterator<usize> for BlockSet {
    fn from_iter<I: IntoIterator<Item = usize>>(blocks: I) -> Self {
        let mut set = Self::default();
        blocks.into_iter().for_each(|block| set.insert(block));
        set
    }
}

impl fmt::Debug for BlockSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_what_was_put_into_them() {
        let set: BlockSet = [0, 63, 64, 255, 63].into_iter().collect();
        assert_eq!(set.iter().collect::<Vec<_>>(), [0, 63, 64, 255]);
        assert_eq!((set.len(), set.is_empty(), BlockSet::default().is_empty()), (4, false, true));
        assert!(set.contains(255) && !set.contains(65) && !set.contains(256) && !set.contains(usize::MAX));
        let part: BlockSet = [64, 255].into_iter().collect();
        assert!(set.contains_all(&part) && !part.contains_all(&set) && part.contains_all(&BlockSet::default()));
        assert_eq!(BlockSet::first(256).len(), 256);
        assert_eq!(BlockSet::of_range(8..16, |block| block % 4 == 1).iter().collect::<Vec<_>>(), [1, 5]);
        assert_eq!(format!("{part:?}"), "{64, 255}");
        let mut left = set;
        left.retain(|block| block < 64);
        assert_eq!(left.iter().collect::<Vec<_>>(), [0, 63]);
    }
}
