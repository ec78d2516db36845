//! The blocks of a table, numbered in row order: those of its segments, and in each of them those of its row groups.
//!
//! Must not know: columns, chunks.

use std::ops::Range;
use std::sync::Arc;

use crate::segment::Segment;

/// Where the blocks of each row group are among all blocks of a table.
#[derive(Debug, PartialEq, Eq)]
pub struct BlockLayout {
    /// Per segment: the number of its first row group among all; and at the end that of all.
    segments: Vec<usize>,
    /// Per row group: the number of its first block among all; and at the end that of all.
    groups: Vec<usize>,
}

impl BlockLayout {
    /// Of these segments; `None` where a footer cannot be read.
    pub(crate) fn of<'s>(segments: impl IntoIterator<Item = &'s Arc<Segment>>) -> Option<Self> {
        let mut layout = Self { segments: vec![0], groups: vec![0] };
        let mut blocks = 0;
        for segment in segments {
            for group in segment.groups().ok()? {
                blocks += group.block_rows.len();
                layout.groups.push(blocks);
            }
            layout.segments.push(layout.groups.len() - 1);
        }
        Some(layout)
    }

    /// The number of blocks.
    pub fn blocks(&self) -> usize {
        self.groups.last().copied().unwrap_or_default()
    }

    /// The blocks of a segment.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn of_segment(&self, segment: usize) -> Range<usize> {
        self.groups[self.segments[segment]]..self.groups[self.segments[segment + 1]]
    }

    /// The blocks of a row group of a segment; none where it has no such row group.
    ///
    /// # Panics
    /// If there is no such segment.
    pub fn of_group(&self, (segment, group): (usize, usize)) -> Range<usize> {
        match self.segments[segment] + group {
            number if number < self.segments[segment + 1] => self.groups[number]..self.groups[number + 1],
            _ => 0..0,
        }
    }
}
