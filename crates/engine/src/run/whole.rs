//! A morsel's blocks as they are, for who tests rows elsewhere: only zones rule out blocks here.

use std::sync::Arc;

use forebay_base::Result;
use forebay_cpu::Selection;

use super::{AdaptivePredicate, MorselRows, Scan};
use crate::{ChunkKey, Morsel};

impl Scan {
    /// Rules out blocks of a morsel by their zones and loads the scan's columns for all rows of the others.
    pub(crate) fn run_whole(self: &Arc<Self>, morsel: Morsel, tests: &[AdaptivePredicate]) -> Result<MorselRows> {
        let mut rows = self.rows_of(morsel)?;
        self.read_ahead(tests, &[], &[]);
        rows.prune(tests, &(0..tests.len()).collect::<Vec<_>>());
        rows.load(self.columns.iter().copied())?;
        rows.note_loads(tests, &[], &[]);
        rows.account(tests, &[]);
        Ok(rows)
    }
}

impl MorselRows {
    /// The blocks that were not ruled out, with their numbers of rows.
    pub(crate) fn whole_blocks(&self) -> impl Iterator<Item = (usize, u32)> {
        let blocks = self.selections.iter().map(Selection::len).enumerate();
        blocks.filter(|(_, rows)| *rows > 0).map(|(block, rows)| (block, rows as u32))
    }

    /// Names the chunk of a column that holds a block; `None` where the segment is older than the column.
    pub(crate) fn chunk_key(&self, column: usize, block: usize) -> Option<ChunkKey> {
        let index = self.segment.column_index(self.scan.table.columns[column].id)?;
        let log2 = self.morsel.group_of(&self.segment).columns[index].blocks_log2;
        let group = (self.morsel.segment, self.morsel.group);
        Some(ChunkKey::new(&self.scan.table, column, group, block >> log2))
    }
}
