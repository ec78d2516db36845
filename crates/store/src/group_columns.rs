//! The columns of a row group: read with the footer of a file, or made in memory, each when somebody first asks for it.
//!
//! Must not know: how columns are made.

use std::fmt::{Debug, Formatter};
use std::ops::Index;
use std::sync::Arc;

use forebay_block::{ColumnStatistics, SealedChunk};

use crate::footer::GroupColumn;

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
