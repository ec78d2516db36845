//! A row of a segment, by its place.
//!
//! Must not know: who looks for it.

use forebay_base::SegmentId;
use forebay_store::{Segment, TableSnapshot};

/// A row of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentRow {
    /// Number of the segment in the table.
    pub(crate) segment: usize,
    /// Row group, and block in that.
    pub(crate) group: usize,
    pub(crate) block: usize,
    /// Number of the block in the segment.
    pub(crate) number: u32,
    pub(crate) row: u16,
}

impl SegmentRow {
    /// The segment that it is of.
    pub fn segment<'t>(&self, table: &'t TableSnapshot) -> &'t Segment {
        &table.segments[self.segment]
    }

    /// The place of its segment in the table.
    pub fn segment_place(&self, table: &TableSnapshot) -> u64 {
        table.segments.place(self.segment)
    }

    /// Where it is: the segment, the number of the block in that, the row of the block.
    pub fn place(&self, table: &TableSnapshot) -> (SegmentId, u32, u16) {
        (table.segments[self.segment].id(), self.number, self.row)
    }
}
