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

impl Selection {
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
    pub fn rows(&self) -> impl Iterator<Item = usize> + '_ {
        let (range, positions) = match self {
            Self::Rows(rows) => (rows.clone(), &[][..]),
            Self::Positions(positions) => (0..0, positions.as_slice()),
        };
        range.map(|row| row as usize).chain(positions.iter().map(|position| usize::from(*position)))
    }
}
