//! Which rows of a segment are deleted: a bit per row of every block that has such rows.
//!
//! Segments are immutable, so a DELETE of few of their rows says which ones are not there any more (Data Blocks §3, App. F: a frozen
//! record is never changed in place; it is invalidated, and its new version lies elsewhere). Invariants: blocks without deleted rows
//! have no bits; a set never changes, and the sets of one segment only grow from commit to commit. Must not know: tables,
//! transactions, how blocks are encoded.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use forebay_base::{Result, limits};

use crate::serial::{Reader, Writer};

/// Words of 64 bits of a block.
const BLOCK_WORDS: usize = limits::BLOCK_ROWS / u64::BITS as usize;

/// Blocks with fewer deleted rows are stored as positions, of 2 bytes each.
const FEWEST_AS_BITS: usize = BLOCK_WORDS * size_of::<u64>() / size_of::<u16>();

/// Deleted rows of a segment, by the number of the block, counted from the segment's first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeletedRows {
    blocks: BTreeMap<u32, Arc<RowBits>>,
    count: u64,
}

/// Some rows of a block, at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowBits {
    /// Bit `i % 64` of word `i / 64` is row `i`.
    words: Vec<u64>,
    count: u32,
}

impl RowBits {
    /// Whether this row is one of them.
    pub fn contains(&self, row: usize) -> bool {
        self.words[row / 64] & (1 << (row % 64)) != 0
    }

    /// Bit `i % 64` of word `i / 64` is row `i`.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// How many rows they are.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = u32> {
        (0_u32..).step_by(u64::BITS as usize).zip(&self.words).flat_map(|(first, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(first + bit)
            })
        })
    }

    fn of(words: Vec<u64>) -> Option<Self> {
        let count = words.iter().map(|word| word.count_ones()).sum();
        (count > 0).then_some(Self { words, count })
    }

    fn combined(&self, other: &Self, combine: impl Fn(u64, u64) -> u64) -> Option<Self> {
        Self::of(self.words.iter().zip(&other.words).map(|(own, other)| combine(*own, *other)).collect())
    }
}

impl FromIterator<(u32, u16)> for DeletedRows {
    /// Of rows as (block, row of it), in any order.
    fn from_iter<I: IntoIterator<Item = (u32, u16)>>(rows: I) -> Self {
        let mut blocks: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (block, row) in rows {
            let words = blocks.entry(block).or_insert_with(|| vec![0; BLOCK_WORDS]);
            words[usize::from(row) / 64] |= 1 << (row % 64);
        }
        Self::of_blocks(blocks.into_iter().filter_map(|(block, words)| Some((block, Arc::new(RowBits::of(words)?)))))
    }
}

impl DeletedRows {
    fn of_blocks(blocks: impl Iterator<Item = (u32, Arc<RowBits>)>) -> Self {
        let blocks: BTreeMap<_, _> = blocks.collect();
        let count = blocks.values().map(|rows| u64::from(rows.count)).sum();
        Self { blocks, count }
    }

    /// All rows of blocks with so many rows, but for these.
    pub(crate) fn all_but(rows: &Self, blocks: impl Iterator<Item = u32>) -> Self {
        let others = (0..).zip(blocks).filter_map(|(block, stored)| {
            let mut words = vec![u64::MAX; stored as usize / 64];
            words.push((1 << (stored % 64)) - 1);
            words.resize(BLOCK_WORDS, 0);
            if let Some(but) = rows.blocks.get(&block) {
                words.iter_mut().zip(&but.words).for_each(|(word, but)| *word &= !but);
            }
            Some((block, Arc::new(RowBits::of(words)?)))
        });
        Self::of_blocks(others)
    }

    /// How many rows there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether there is no row.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Those of one block; `None` where it has none.
    pub fn of_block(&self, block: u32) -> Option<&Arc<RowBits>> {
        self.blocks.get(&block)
    }

    /// Blocks that have such rows, with these, ascending.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, &Arc<RowBits>)> {
        self.blocks.iter().map(|(block, rows)| (*block, rows))
    }

    /// Rows of both.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut blocks = self.blocks.clone();
        for (block, rows) in &other.blocks {
            match blocks.entry(*block) {
                Entry::Vacant(place) => _ = place.insert(Arc::clone(rows)),
                Entry::Occupied(mut place) => {
                    if let Some(both) = place.get().combined(rows, |own, other| own | other) {
                        *place.get_mut() = Arc::new(both);
                    }
                }
            }
        }
        Self::of_blocks(blocks.into_iter())
    }

    /// Those that are not among `other`.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let left = self.blocks.iter().filter_map(|(block, rows)| match other.blocks.get(block) {
            None => Some((*block, Arc::clone(rows))),
            Some(gone) if Arc::ptr_eq(gone, rows) => None,
            Some(gone) => Some((*block, Arc::new(rows.combined(gone, |own, gone| own & !gone)?))),
        });
        Self::of_blocks(left)
    }

    /// Whether some row is in both.
    pub fn intersects(&self, other: &Self) -> bool {
        let has_common = |(block, rows): (&u32, &Arc<RowBits>)| {
            let other = other.blocks.get(block)?;
            rows.words.iter().zip(&other.words).any(|(own, other)| own & other != 0).then_some(())
        };
        self.blocks.iter().find_map(has_common).is_some()
    }
}

/// The bytes of the rows of a block: positions where they are few, else bits.
pub(crate) fn encode_block(rows: &RowBits) -> Writer {
    let mut writer = Writer::default();
    let is_bits = rows.count as usize >= FEWEST_AS_BITS;
    writer.u8(u8::from(is_bits));
    match is_bits {
        true => rows.words.iter().for_each(|word| writer.u64(*word)),
        false => {
            writer.count(rows.count as usize);
            rows.rows().for_each(|row| writer.u16(row as u16));
        }
    }
    writer
}

/// Reads what [`encode_block`] has written.
pub(crate) fn decode_block(reader: &mut Reader<'_>) -> Result<RowBits> {
    let mut words = vec![0; BLOCK_WORDS];
    if reader.flag()? {
        for word in &mut words {
            *word = reader.u64()?;
        }
    } else {
        for _ in 0..reader.count(size_of::<u16>())? {
            let row = reader.u16()?;
            words[usize::from(row) / 64] |= 1 << (row % 64);
        }
    }
    RowBits::of(words).ok_or_else(|| reader.wrong("it names no row"))
}

/// The deleted rows of a segment by block.
pub(crate) fn of_stored_blocks(blocks: BTreeMap<u32, RowBits>) -> DeletedRows {
    DeletedRows::of_blocks(blocks.into_iter().map(|(block, rows)| (block, Arc::new(rows))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(all: &[(u32, u16)]) -> DeletedRows {
        all.iter().copied().collect()
    }

    #[test]
    fn sets_are_joined_and_taken_apart() {
        let (a, b) = (rows(&[(0, 1), (0, 65_535), (7, 3)]), rows(&[(0, 1), (9, 0)]));
        assert_eq!((a.count(), b.count()), (3, 2));
        assert_eq!(a.union(&b), rows(&[(9, 0), (7, 3), (0, 65_535), (0, 1)]));
        assert_eq!(a.union(&b).without(&a), rows(&[(9, 0)]));
        assert_eq!(a.without(&a.clone()), DeletedRows::default());
        assert_eq!(b.without(&a), rows(&[(9, 0)]));
        assert!(a.intersects(&b) && !a.intersects(&rows(&[(0, 2), (8, 3)])) && !a.intersects(&DeletedRows::default()));
        assert_eq!(DeletedRows::all_but(&b, [3, 1].into_iter()), rows(&[(0, 0), (0, 2), (1, 0)]));
        let first = a.of_block(0).expect("some rows");
        assert!(first.contains(1) && first.contains(65_535) && !first.contains(2));
        assert_eq!(first.rows().collect::<Vec<_>>(), [1, 65_535]);
        assert!(a.of_block(1).is_none());
    }

    #[test]
    fn few_and_many_rows_are_read_as_they_were_written() {
        for count in [1, FEWEST_AS_BITS - 1, FEWEST_AS_BITS, limits::BLOCK_ROWS] {
            let all: DeletedRows = (0..count).map(|row| (3, (row * 7 % limits::BLOCK_ROWS) as u16)).collect();
            let block = all.of_block(3).expect("some rows");
            let written = encode_block(block);
            let mut reader = Reader::new(&written.bytes, "the rows");
            assert_eq!(&decode_block(&mut reader).expect("as written"), &**block, "{count} rows");
            reader.finish().expect("all of it");
            assert!(written.bytes.len() <= BLOCK_WORDS * 8 + 5, "{count} rows take {}", written.bytes.len());
        }
        let none = [0, 0, 0, 0, 0];
        decode_block(&mut Reader::new(&none, "no rows")).expect_err("a block without rows has no set");
    }
}
