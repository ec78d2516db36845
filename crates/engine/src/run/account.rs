//! What a morsel touched, counted once its rows are known.

use super::{MorselRows, RankedTest, RowFilter};

impl MorselRows {
    /// Bytes of the codes of these columns, which are loaded, in the surviving rows of one block.
    pub(super) fn row_bytes(&self, block: usize, columns: &[usize]) -> u64 {
        let row_bytes = columns.iter().filter_map(|column| self.chunk_of(*column, block));
        let row_bytes: usize = row_bytes.map(|(chunk, index)| chunk.block(index).row_bytes()).sum();
        (self.selections[block].len() * row_bytes) as u64
    }

    /// Counts what this morsel touched and what it could leave alone.
    pub(super) fn account(&self, tests: &[RankedTest], filters: &[Box<dyn RowFilter>]) {
        let mut touched: Vec<usize> = self.scan.columns.clone();
        touched.extend(tests.iter().map(|ranked| ranked.test.column));
        touched.extend(filters.iter().flat_map(|filter| filter.columns().iter().copied()));
        touched.sort_unstable();
        touched.dedup();
        let metrics = &self.scan.metrics;
        for column in touched {
            let Some(layout) = self.group_column(column) else { continue };
            let loaded = self.chunks[column].iter().flatten().count();
            metrics.chunks.add(layout.chunks.len() as u64);
            metrics.chunks_pruned.add((layout.chunks.len() - loaded) as u64);
            metrics.plain_bytes.add(layout.plain_bytes);
        }
        let loaded = (0..self.selections.len()).filter(|block| !self.selections[*block].is_empty());
        metrics.code_bytes.add(loaded.map(|block| self.row_bytes(block, &self.scan.columns)).sum());
        metrics.rows_out.add(self.selections.iter().map(|selection| selection.len() as u64).sum());
        metrics.morsels_done.add(1);
    }
}
