//! Which positions of a chunk have versions, and where these begin: per 1,024 rows a range of positions, and for a range that is not
//! empty the number of each position's newest undo record.
//!
//! Invariant: a position outside of its range has no versions. Must not know: what a version is.

use std::ops::Range;

/// Rows of a range (Neumann et al. 2015, §4.2): a vector or less, so that one change costs scans little.
pub const RANGE_ROWS: usize = 1024;

/// Marks of a chunk.
#[derive(Debug, Default)]
pub(crate) struct Marks {
    ranges: Vec<Versioned>,
}

/// The versioned positions among [`RANGE_ROWS`] rows.
#[derive(Debug, Default)]
struct Versioned {
    /// First and last position with versions, counted from the range's first row; meaningful where there are heads.
    first: u16,
    last: u16,
    /// Newest record of each row, counted from 1; 0 = none.
    heads: Option<Box<[u32; RANGE_ROWS]>>,
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
        let heads = match &mut range.heads {
            Some(heads) => heads,
            None if record == 0 => return,
            None => {
                (range.first, range.last) = (at as u16, at as u16);
                range.heads.insert(Box::new([0; RANGE_ROWS]))
            }
        };
        heads[at] = record;
        if record != 0 {
            range.first = range.first.min(at as u16);
            range.last = range.last.max(at as u16);
        }
    }

    /// Shrinks all ranges to the positions that have versions, and gives back the memory of those that have none.
    pub(crate) fn shrink(&mut self) {
        for range in &mut self.ranges {
            let Some(heads) = &range.heads else { continue };
            let (first, last) = (usize::from(range.first), usize::from(range.last));
            let within = &heads[first..=last];
            match within.iter().position(|head| *head != 0) {
                None => *range = Versioned::default(),
                Some(leading) => {
                    let trailing = within.iter().rev().take_while(|head| **head == 0).count();
                    (range.first, range.last) = ((first + leading) as u16, (last - trailing) as u16);
                }
            }
        }
    }

    /// Lets go of everything.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Calls `each` with every position within `rows` that has versions, and with its newest record.
    pub(crate) fn versioned(&self, rows: &Range<usize>, mut each: impl FnMut(usize, u32)) {
        let ranges = rows.start / RANGE_ROWS..rows.end.div_ceil(RANGE_ROWS).min(self.ranges.len());
        for index in ranges {
            let range = &self.ranges[index];
            let Some(heads) = &range.heads else { continue };
            let first_row = index * RANGE_ROWS;
            let first = (first_row + usize::from(range.first)).max(rows.start);
            let end = (first_row + usize::from(range.last) + 1).min(rows.end);
            for position in first..end {
                let head = heads[position - first_row];
                if head != 0 {
                    each(position, head);
                }
            }
        }
    }

    /// First and last position with versions of each range that has one.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.ranges.iter().enumerate().filter(|(_, range)| range.heads.is_some()).map(|(index, range)| {
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
        marks.versioned(&(6..4097), |position, head| seen.push((position, head)));
        assert_eq!(seen, [(70, 1), (1023, 3), (4096, 4)]);
        [5, 1023, 4096, 9000].into_iter().for_each(|position| marks.set_head(position, 0));
        let before = marks.bytes();
        marks.shrink();
        assert_eq!(marks.ranges().collect::<Vec<_>>(), [70..71]);
        assert!(marks.bytes() < before);
        marks.set_head(70, 0);
        marks.shrink();
        assert_eq!(marks.ranges().count(), 0);
    }
}
