//! Which positions of a chunk have versions, and where these begin: per 1,024 rows a range of positions, and for a range that is not
//! empty the number of each position's newest undo record.
//!
//! Invariant: a position outside of its range has no versions. Must not know: what a version is.

use std::ops::Range;

use crate::commits::{CommitNumber, FIRST_ID};

/// Rows of a range (Neumann et al. 2015): a vector or less, so that one change costs scans little.
pub const RANGE_ROWS: usize = 1024;

/// Above all commits.
const UNKNOWN: CommitNumber = CommitNumber::MAX;

/// Heads that are looked at together: most are 0.
const LOOKED_AT: usize = 16;

/// Marks of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    ranges: Vec<Versioned>,
}

/// The versioned positions among [`RANGE_ROWS`] rows.
#[derive(Debug, Default)]
struct Versioned {
    /// First and last position with versions, counted from the range's first row; meaningful where there is one.
    first: u16,
    last: u16,
    has_versions: bool,
    /// No change is newer than this commit; [`UNKNOWN`] where one may not be committed.
    newest: CommitNumber,
    /// Newest record of each row, counted from 1; 0 = none.
    heads: Option<Box<[u32; RANGE_ROWS]>>,
}

impl Versioned {
    fn take_in(&mut self, at: u16, stamp: u64) {
        (self.first, self.last) = match self.has_versions {
            true => (self.first.min(at), self.last.max(at)),
            false => (at, at),
        };
        self.has_versions = true;
        self.newest = self.newest.max(if stamp < FIRST_ID { stamp } else { UNKNOWN });
    }
}

/// Calls `each` with the index of every head that is not 0.
fn each_used(heads: &mut [u32], mut each: impl FnMut(usize, &mut u32)) {
    for (index, together) in heads.chunks_mut(LOOKED_AT).enumerate() {
        if together.iter().fold(0, |all, head| all | *head) != 0 {
            for (at, head) in together.iter_mut().enumerate().filter(|(_, head)| **head != 0) {
                each(index * LOOKED_AT + at, head);
            }
        }
    }
}

impl Marks {
    /// The number of the newest record of a position, from 1; 0 if it has no versions.
    #[inline]
    pub(crate) fn head(&self, position: usize) -> u32 {
        let heads = self.ranges.get(position / RANGE_ROWS).and_then(|range| range.heads.as_deref());
        heads.map_or(0, |heads| heads[position % RANGE_ROWS])
    }

    /// Says which record is a position's newest; 0 for none.
    #[inline]
    pub(crate) fn set_head(&mut self, position: usize, record: u32) {
        let (range, at) = (position / RANGE_ROWS, position % RANGE_ROWS);
        if range >= self.ranges.len() {
            self.ranges.resize_with(range + 1, Versioned::default);
        }
        let range = &mut self.ranges[range];
        if record == 0 {
            range.heads.iter_mut().for_each(|heads| heads[at] = 0);
            return;
        }
        range.heads.get_or_insert_with(|| Box::new([0; RANGE_ROWS]))[at] = record;
        range.take_in(at as u16, UNKNOWN);
    }

    /// Asks `newest` for the newest record of every position that has versions, and its stamp; it is told the one that it had. Ranges shrink
    /// to the positions that still have one. Ranges without give back their memory unless `is_used` says that they will need it again.
    pub(crate) fn rewrite(&mut self, is_used: bool, mut newest: impl FnMut(usize, u32) -> (u32, u64)) {
        for (index, range) in self.ranges.iter_mut().enumerate() {
            if !range.has_versions {
                range.heads = range.heads.take().filter(|_| is_used);
                continue;
            }
            let Some(heads) = range.heads.as_deref_mut() else { continue };
            let (first, last) = (usize::from(range.first), usize::from(range.last));
            let mut left = Versioned::default();
            each_used(&mut heads[first..=last], |at, head| {
                let stamp;
                (*head, stamp) = newest(index * RANGE_ROWS + first + at, *head);
                if *head != 0 {
                    left.take_in((first + at) as u16, stamp);
                }
            });
            let heads = range.heads.take().filter(|_| left.has_versions || is_used);
            *range = Versioned { heads, ..left };
        }
        if !is_used && self.ranges.iter().all(|range| range.heads.is_none()) {
            self.clear();
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Calls `each` with every position within `rows` that may have a change after commit `since`, and with its newest record. Of ranges that were
    /// not changed since they were pruned it is known when they were changed last.
    pub(crate) fn versioned(&self, rows: &Range<usize>, since: CommitNumber, mut each: impl FnMut(usize, u32)) {
        let ranges = rows.start / RANGE_ROWS..rows.end.div_ceil(RANGE_ROWS).min(self.ranges.len());
        for index in ranges {
            let range = &self.ranges[index];
            let may_matter = range.has_versions && range.newest > since;
            let Some(heads) = range.heads.as_deref().filter(|_| may_matter) else { continue };
            let first_row = index * RANGE_ROWS;
            let first = (first_row + usize::from(range.first)).max(rows.start);
            let end = (first_row + usize::from(range.last) + 1).min(rows.end);
            if first >= end {
                continue;
            }
            for (index, together) in heads[first - first_row..end - first_row].chunks(LOOKED_AT).enumerate() {
                if together.iter().fold(0, |all, head| all | *head) != 0 {
                    for (at, head) in together.iter().enumerate().filter(|(_, head)| **head != 0) {
                        each(first + index * LOOKED_AT + at, *head);
                    }
                }
            }
        }
    }

    /// First and last position with versions of each range that has one.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges.iter().enumerate().filter(|(_, range)| range.has_versions).map(|(index, range)| {
            let first_row = index * RANGE_ROWS;
            first_row + usize::from(range.first)..first_row + usize::from(range.last) + 1
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
