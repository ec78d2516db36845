//! Which rows of a block are wanted.

use std::ops::Range;

/// Rows of one block, ascending.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// All rows of a range.
    Rows(Range<u32>),
    /// These rows, ascending and without duplicates.
    Positions(Vec<u16>),
}

/// Some of the rows of a [`Selection`], in its order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selected<'a> {
    /// All rows of a range.
    Rows(Range<u32>),
    /// These rows, ascending and without duplicates.
    Positions(&'a [u16]),
}

impl<'a> Selected<'a> {
    /// The rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> + Clone + use<'a> {
        let (range, positions) = match self {
            Self::Rows(rows) => (rows.clone(), &[][..]),
            Self::Positions(positions) => (0..0, *positions),
        };
        range.map(|row| row as usize).chain(positions.iter().map(|position| usize::from(*position)))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Positions(positions) => positions.len(),
        }
    }

    /// True where there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// How many of ascending positions without duplicates are below `end`. Mostly all rows from the first one on are there.
#[inline]
pub(crate) fn count_below(positions: &[u16], end: u32) -> usize {
    let Some(first) = positions.first() else { return 0 };
    let most = (end.saturating_sub(u32::from(*first)) as usize).min(positions.len());
    match most.checked_sub(1) {
        None => 0,
        Some(last) if u32::from(positions[last]) < end => most,
        Some(last) => positions[..last].partition_point(|position| u32::from(*position) < end),
    }
}

impl Selection {
    /// `count` selected rows from the one with number `from` on. Panics where there are not so many.
    pub fn part(&self, from: usize, count: usize) -> Selected<'_> {
        assert!(from + count <= self.len(), "rows {from}..{} of {} selected ones", from + count, self.len());
        match self {
            Self::Rows(rows) => {
                let start = rows.start + from as u32;
                Selected::Rows(start..start + count as u32)
            }
            Self::Positions(positions) => Selected::Positions(&positions[from..from + count]),
        }
    }

    /// All selected rows.
    pub fn all(&self) -> Selected<'_> {
        self.part(0, self.len())
    }

    /// Number of selected rows.
    pub fn len(&self) -> usize {
        match self {
            Self::Rows(rows) => rows.len(),
            Self::Positions(positions) => positions.len(),
        }
    }

    /// True where no row is selected.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Selects nothing.
    pub fn clear(&mut self) {
        *self = Self::Rows(0..0);
    }

    /// The selected rows, ascending.
    pub fn rows(&self) -> impl Iterator<Item = usize> + Clone + '_ {
        self.all().rows()
    }
}
