//! A morsel's blocks as they are, for who tests rows elsewhere: only zones rule out blocks here.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_base::Result;
use forebay_cpu::Selection;
use forebay_store::TableSnapshot;

use super::{AdaptivePredicate, MorselRows, Scan};
use crate::{ChunkKey, Morsel};

impl Scan {
    /// The rows of a morsel but for the blocks that zones rule out. Nothing is loaded.
    pub(crate) fn prune_whole(self: &Arc<Self>, morsel: Morsel, tests: &[AdaptivePredicate]) -> Result<MorselRows> {
        let mut rows = self.rows_of(morsel)?;
        rows.prune(tests, &(0..tests.len()).collect::<Vec<_>>());
        Ok(rows)
    }

    /// The number of morsels that no worker has taken.
    pub(crate) fn morsels_left(&self) -> usize {
        self.morsels.len().saturating_sub(self.cursor.load(Ordering::Relaxed))
    }

    /// The table.
    pub(crate) fn table(&self) -> &TableSnapshot {
        &self.table
    }
}

impl MorselRows {
    /// Loads these columns for all rows of the blocks that are left; with those of the morsels behind it on their way, if they
    /// are all that the scan gives.
    pub(crate) fn load_whole(&mut self, columns: &[usize], tests: &[AdaptivePredicate]) -> Result<()> {
        let scan = Arc::clone(&self.scan);
        if columns.len() == scan.columns.len() {
            scan.read_ahead(tests, &[], &[]);
        }
        self.load(columns.iter().copied())?;
        self.note_loads(tests, &[], &[]);
        Ok(())
    }

    /// Counts what this morsel gave, of whose rows so many bytes of codes are read; and what was touched of its row group, when it
    /// is the last one of that.
    pub(crate) fn account_whole(&self, code_bytes: u64) {
        let metrics = &self.scan.metrics;
        metrics.code_bytes.add(code_bytes);
        metrics.rows_out.add(self.selections.iter().map(|selection| selection.len() as u64).sum());
        metrics.morsels_done.add(1);
        let (segment, group) = self.row_group();
        let visits = self.scan.visits.get(&(segment, group)).copied().unwrap_or(self.selections.len());
        if self.scan.shared.done(self.morsel, visits).is_none() {
            return;
        }
        self.scan.reads.ahead.forget(self.morsel, self.scan.timeline.as_ref());
        for column in &self.scan.columns {
            let Some(layout) = self.group_column(*column) else { continue };
            let has_rows = |block: usize| self.others.contains(block) || !self.selections[block].is_empty();
            let chunks = 0..layout.chunks.len();
            let pruned = chunks.filter(|chunk| !layout.blocks_of(*chunk).any(has_rows)).count();
            metrics.chunks.add(layout.chunks.len() as u64);
            metrics.chunks_pruned.add(pruned as u64);
            metrics.plain_bytes.add(layout.plain_bytes);
        }
    }

    /// Number of the segment, and of the row group in it.
    pub(crate) fn row_group(&self) -> (usize, usize) {
        (self.morsel.segment, self.morsel.group)
    }

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
