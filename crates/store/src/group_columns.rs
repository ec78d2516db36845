//! The columns of a row group: read with the footer of a file, or made in memory, each when somebody first asks for it.
//!
//! Must not know: how columns are made.

use std::fmt::{Debug, Formatter};
use std::ops::{Index, Range};
use std::sync::Arc;

#[cfg(doc)]
use forebay_base::limits;
use forebay_block::{ColumnStatistics, SealedChunk, Zone};

/// One column of a row group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupColumn {
    /// A chunk has 2^`blocks_log2` blocks; the last may have fewer.
    pub blocks_log2: u8,
    /// Bytes of the plain values: their width, or the strings and four bytes each.
    pub plain_bytes: u64,
    /// Chunks, in row order.
    pub chunks: Vec<ChunkLocation>,
    /// One zone per block.
    pub zones: Vec<Zone>,
}

impl GroupColumn {
    /// The blocks of a chunk, counted from the row group's first.
    pub fn blocks_of(&self, chunk: usize) -> Range<usize> {
        let blocks = self.zones.len();
        (chunk << self.blocks_log2).min(blocks)..((chunk + 1) << self.blocks_log2).min(blocks)
    }
}

/// Where a chunk lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLocation {
    /// First byte, a multiple of [`limits::IO_ALIGN`].
    pub offset: u64,
    /// Bytes in the file, padding included: a multiple of [`limits::IO_ALIGN`].
    pub stored_bytes: u64,
    /// Bytes of its encoded blocks, before the codec.
    pub encoded_bytes: u64,
}

/// The columns of one row group, in the order of the segment's.
#[derive(Clone)]
pub struct GroupColumns(Columns);

#[derive(Clone)]
enum Columns {
    Read(Vec<GroupColumn>),
    /// Those of the row group of this number.
    Made(Arc<dyn ColumnMaker>, usize),
}

/// Makes the columns of a segment in memory; each once.
pub(crate) trait ColumnMaker: Debug + Send + Sync {
    /// How many there are.
    fn columns(&self) -> usize;

    /// The column at this position.
    fn column(&self, index: usize) -> &MadeColumn;

    /// About what its values are.
    fn statistics(&self, index: usize) -> &ColumnStatistics;
}

/// A column of a segment in memory, by row group.
#[derive(Debug)]
pub(crate) struct MadeColumn {
    /// What a footer would say.
    pub(crate) groups: Vec<GroupColumn>,
    /// Its chunks.
    pub(crate) chunks: Vec<Vec<SealedChunk>>,
}

impl GroupColumns {
    pub(crate) fn made(maker: Arc<dyn ColumnMaker>, group: usize) -> Self {
        Self(Columns::Made(maker, group))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        match &self.0 {
            Columns::Read(columns) => columns.len(),
            Columns::Made(maker, _) => maker.columns(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// All of them; those that are made when they are asked for are made.
    pub fn iter(&self) -> impl Iterator<Item = &GroupColumn> {
        (0..self.len()).map(|index| &self[index])
    }
}

impl Index<usize> for GroupColumns {
    type Output = GroupColumn;

    fn index(&self, index: usize) -> &GroupColumn {
        match &self.0 {
            Columns::Read(columns) => &columns[index],
            Columns::Made(maker, group) => &maker.column(index).groups[*group],
        }
    }
}

impl From<Vec<GroupColumn>> for GroupColumns {
    fn from(columns: Vec<GroupColumn>) -> Self {
        Self(Columns::Read(columns))
    }
}

impl PartialEq for GroupColumns {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Debug for GroupColumns {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            Columns::Read(columns) => columns.fmt(f),
            Columns::Made(maker, group) => f.debug_tuple("Made").field(maker).field(group).finish(),
        }
    }
}
