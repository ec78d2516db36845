//! The number of a row: that of its chunk, and its position there. It stays when the chunk is frozen.
//!
//! Must not know: tables.

use std::fmt;

/// A row of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId(pub u64);

impl RowId {
    /// No row has a lower number.
    pub(crate) const FIRST: Self = Self(0);

    /// No row has a higher number.
    pub(crate) const LAST: Self = Self(u64::MAX);

    /// A position in a chunk.
    pub fn new(chunk: u32, position: u16) -> Self {
        Self(u64::from(chunk) << 16 | u64::from(position))
    }

    /// The number of the chunk.
    pub fn chunk(self) -> u32 {
        (self.0 >> 16) as u32
    }

    /// The position there.
    pub fn position(self) -> usize {
        usize::from(self.0 as u16)
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} of chunk {}", self.position(), self.chunk())
    }
}
