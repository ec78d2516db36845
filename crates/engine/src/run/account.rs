//! What a morsel touched, counted once its rows are known; by row group where several morsels share one.

use super::{AdaptivePredicate, MorselRows, RowFilter, Scan};
use crate::morsel::Chunks;

impl MorselRows {
    /// Bytes of the codes of these columns, which are loaded, in the surviving rows of one block.
    pub(super) fn row_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let row_bytes = columns.iter().filter_map(|column| self.chunk_of(*column, block));
        let row_bytes: usize = row_bytes.map(|(chunk, index)| chunk.block(index).row_bytes()).sum();
        (self.selections[block].len() * row_bytes) as u64
    }

    /// Counts what this morsel gave; and what all morsels of its row group touched and could leave alone, when it is the last
    /// one of them.
    pub(super) fn account(&self, tests: &[AdaptivePredicate], filters: &[Box<dyn RowFilter>]) {
        let metrics = &self.scan.metrics;
        let with_rows = (0..self.selections.len()).filter(|block| !self.selections[*block].is_empty());
        metrics.code_bytes.add(with_rows.map(|block| self.row_bytes(block, &self.scan.columns)).sum());
        metrics.rows_out.add(self.selections.iter().map(|selection| selection.len() as u64).sum());
        metrics.morsels_done.add(1);
        let group = (self.morsel.segment, self.morsel.group);
        let visits = self.scan.visits.get(&group).copied().unwrap_or(self.selections.len());
        let Some(loaded) = self.scan.shared.done(self.morsel, visits) else { return };
        self.scan.reads.ahead.forget(self.morsel, self.scan.timeline.as_ref());
        let mut touched: Vec<usize> = self.scan.columns.clone();
        touched.extend(tests.iter().map(|ranked| ranked.test.column));
        touched.extend(filters.iter().flat_map(|filter| filter.columns().iter().copied()));
        self.scan.account_group(group, touched, &loaded);
    }
}

impl Scan {
    /// Counts the chunks of these columns in a row group of which all morsels are done, and those that were loaded.
    pub(super) fn account_group(&self, (segment, group): (usize, usize), mut columns: Vec<usize>, loaded: &Chunks) {
        let segment = &self.table.segments[segment];
        let Some(group) = segment.groups().ok().and_then(|groups| groups.get(group)) else { return };
        columns.sort_unstable();
        columns.dedup();
        for column in columns {
            let Some(index) = segment.column_index(self.table.columns[column].id) else { continue };
            let layout = &group.columns[index];
            let loaded = loaded.range((column, 0)..(column + 1, 0)).count();
            self.metrics.chunks.add(layout.chunks.len() as u64);
            self.metrics.chunks_pruned.add((layout.chunks.len() - loaded) as u64);
            self.metrics.plain_bytes.add(layout.plain_bytes);
        }
    }
}
