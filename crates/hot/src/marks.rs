//! Which positions of a chunk have versions, and where these begin: per 1,024 rows a bit for every row, the newest commit that changed
//! one of them, and the number of each versioned row's newest undo record.
//!
//! The bits are beside the numbers so that who looks for versions, and mostly finds none, stays in a few kilobytes.
//!
//! Invariant: a row's bit is 1 exactly where its number is not 0. Must not know: what a version is.

use std::ops::Range;

use crate::bits::ones;
use crate::commits::CommitNumber;
use crate::stamp::FIRST_ID;

/// Rows of a range (Neumann et al. 2015): a vector or less, so that one change costs scans little.
pub const RANGE_ROWS: usize = 1024;

/// Above all commits.
const UNKNOWN: CommitNumber = CommitNumber::MAX;

/// Marks of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    ranges: Vec<Versioned>,
}

/// The versioned rows among [`RANGE_ROWS`].
#[derive(Debug, Default)]
struct Versioned {
    bits: [u64; RANGE_ROWS / 64],
    /// No change is newer than this commit; [`UNKNOWN`] where one may not be committed.
    newest: CommitNumber,
    /// Newest record of each row, counted from 1; 0 = none.
    heads: Option<Box<[u32; RANGE_ROWS]>>,
}

impl Versioned {
    fn has_versions(&self) -> bool {
        self.bits.iter().fold(0, |all, word| all | word) != 0
    }
}

impl Marks {
    /// The number of the newest record of a position, from 1; 0 if it has no versions.
    #[inline]
    pub(crate) fn head(&self, position: usize) -> u32 {
        let at = position % RANGE_ROWS;
        match self.ranges.get(position / RANGE_ROWS) {
            Some(range) if range.bits[at / 64] >> (at % 64) & 1 == 1 => {
                range.heads.as_deref().map_or(0, |heads| heads[at])
            }
            _ => 0,
        }
    }

    /// Says which record is a position's newest; 0 for none.
    #[inline]
    pub(crate) fn set_head(&mut self, position: usize, record: u32) {
        let (range, at) = (position / RANGE_ROWS, position % RANGE_ROWS);
        if range >= self.ranges.len() {
            self.ranges.resize_with(range + 1, Versioned::default);
        }
        let range = &mut self.ranges[range];
        let bit = 1 << (at % 64);
        if record == 0 {
            range.bits[at / 64] &= !bit;
            range.heads.iter_mut().for_each(|heads| heads[at] = 0);
            return;
        }
        range.bits[at / 64] |= bit;
        range.newest = UNKNOWN;
        range.heads.get_or_insert_with(|| Box::new([0; RANGE_ROWS]))[at] = record;
    }

    /// Asks `newest` for the newest record of every position that has versions, ascending, and its stamp; it is told the one that it had. Ranges
    /// without versions give back their memory unless `is_used` says that they will need it again.
    pub(crate) fn rewrite(&mut self, is_used: bool, mut newest: impl FnMut(usize, u32) -> (u32, u64)) {
        for (index, range) in self.ranges.iter_mut().enumerate() {
            let Some(heads) = range.heads.as_deref_mut() else { continue };
            range.newest = 0;
            for (word_index, word) in range.bits.iter_mut().enumerate() {
                for bit in ones(*word) {
                    let at = word_index * 64 + bit;
                    let stamp;
                    (heads[at], stamp) = newest(index * RANGE_ROWS + at, heads[at]);
                    match heads[at] {
                        0 => *word &= !(1 << bit),
                        _ => range.newest = range.newest.max(if stamp < FIRST_ID { stamp } else { UNKNOWN }),
                    }
                }
            }
            if !is_used && !range.has_versions() {
                range.heads = None;
            }
        }
        if !is_used && self.ranges.iter().all(|range| range.heads.is_none()) {
            *self = Self::default();
        }
    }

    /// Calls `each` with every position within `rows` that may have a change after commit `since`, and with its newest record. Of ranges that were
    /// not changed since they were pruned it is known when they were changed last.
    pub(crate) fn versioned(&self, rows: &Range<usize>, since: CommitNumber, mut each: impl FnMut(usize, u32)) {
        let ranges = rows.start / RANGE_ROWS..rows.end.div_ceil(RANGE_ROWS).min(self.ranges.len());
        for index in ranges {
            let range = &self.ranges[index];
            let Some(heads) = range.heads.as_deref().filter(|_| range.newest > since) else { continue };
            let first_row = index * RANGE_ROWS;
            for (word_index, word) in range.bits.iter().enumerate().filter(|(_, word)| **word != 0) {
                for bit in ones(*word) {
                    let at = word_index * 64 + bit;
                    if rows.contains(&(first_row + at)) {
                        each(first_row + at, heads[at]);
                    }
                }
            }
        }
    }

    /// First and last position with versions of each range that has one.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges.iter().enumerate().filter_map(|(index, range)| {
            let of_word = |word: usize, bit: u32| index * RANGE_ROWS + word * 64 + bit as usize;
            let first = range.bits.iter().position(|word| *word != 0)?;
            let last = range.bits.iter().rposition(|word| *word != 0)?;
            let (low, high) = (range.bits[first].trailing_zeros(), range.bits[last].ilog2());
            Some(of_word(first, low)..of_word(last, high) + 1)
        })
    }

    pub(crate) fn bytes(&self) -> usize {
        let heads = self.ranges.iter().filter(|range| range.heads.is_some()).count();
        self.ranges.capacity() * size_of::<Versioned>() + heads * size_of::<[u32; RANGE_ROWS]>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_widen_and_shrink() {
        let mut marks = Marks::default();
        assert_eq!((marks.head(5), marks.ranges().count()), (0, 0));
        for (position, record) in [(70, 1), (5, 2), (1023, 3), (4096, 4)] {
            marks.set_head(position, record);
        }
        assert_eq!(marks.ranges().collect::<Vec<_>>(), [5..1024, 4096..4097]);
        let mut seen = Vec::new();
        marks.versioned(&(6..4097), 3, |position, head| seen.push((position, head)));
        assert_eq!(seen, [(70, 1), (1023, 3), (4096, 4)]);
        [5, 1023, 4096, 9000].into_iter().for_each(|position| marks.set_head(position, 0));
        let before = marks.bytes();
        marks.rewrite(false, |_, record| (record, 9));
        assert!(marks.ranges().eq(std::iter::once(70..71)));
        assert!(marks.bytes() < before);
        let seen_since = |marks: &Marks, since| {
            let mut seen = 0;
            marks.versioned(&(0..5000), since, |_, _| seen += 1);
            seen
        };
        assert_eq!((seen_since(&marks, 8), seen_since(&marks, 9)), (1, 0));
        marks.rewrite(true, |_, record| (record, FIRST_ID + 7));
        assert_eq!(seen_since(&marks, 9), 1);
        marks.rewrite(true, |_, _| (0, 0));
        assert_eq!((marks.ranges().count(), marks.bytes() > 0), (0, true));
        marks.set_head(900, 8);
        assert!(marks.ranges().eq(std::iter::once(900..901)));
        marks.rewrite(true, |_, _| (0, 0));
        marks.rewrite(false, |_, _| (0, 0));
        assert_eq!((marks.ranges().count(), marks.bytes()), (0, 0));
    }
}
