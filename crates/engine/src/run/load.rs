//! Loading the chunks of a morsel, or the blocks of them that have rows (late materialisation).
//!
//! Invariant: after a load every block with rows is there, whatever others have loaded of its chunk.

use std::ops::Range;
use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_block::{BlockSet, InflatedChunk};

use super::{MorselRows, Scan};
use crate::chunks::{Place, WantedChunk};

impl Scan {
    /// The same scan, whose chunks are loaded as a whole, however few of their blocks are needed.
    #[must_use]
    pub(crate) fn of_whole_chunks(self) -> Self {
        Self { whole_chunks: true, ..self }
    }
}

impl MorselRows {
    /// Makes sure that the chunks of these columns are there for every block that still has rows.
    pub(super) fn load(&mut self, columns: impl Iterator<Item = usize>) -> Result<()> {
        let scan = Arc::clone(&self.scan);
        let table = &scan.table;
        let mut wanted: Vec<WantedChunk<'_>> = Vec::new();
        let mut places = Vec::new();
        for column in columns {
            let Some(index) = self.segment.column_index(table.columns[column].id) else { continue };
            let layout = &self.morsel.group_of(&self.segment).columns[index];
            self.chunks[column].resize(layout.chunks.len(), None);
            for chunk in 0..layout.chunks.len() {
                let Some(blocks) = self.missing(self.chunks[column][chunk].as_deref(), layout.blocks_of(chunk)) else {
                    continue;
                };
                if !places.iter().any(|(place, _)| *place == (column, chunk)) {
                    let (source, kept_at_once_bytes) = (&table.columns[column], scan.kept_at_once_bytes(column));
                    let physical = source.logical.physical();
                    let group = (self.morsel.segment, self.morsel.group);
                    let place = Place::new(table, column, group, (index, chunk), blocks);
                    let ordinal = scan.layout.of_group(group).start + layout.blocks_of(chunk).start;
                    wanted.push(WantedChunk { place, physical, name: &source.name, kept_at_once_bytes, ordinal });
                    places.push(((column, chunk), blocks));
                }
            }
        }
        if wanted.is_empty() {
            return Ok(());
        }
        self.scan.cancel.check()?;
        let (mut loaded, _claim) = scan.noting_waits(|| scan.shared.claim(self.morsel, &places));
        let mut is_known = loaded.iter().map(Option::is_some);
        wanted.retain(|_| is_known.next() == Some(false));
        let name = table.full_name();
        let how = (name.as_str(), &scan.settings);
        let read = scan.engine.chunks(&self.segment, &wanted, &scan.reads.ahead, how, scan.costs())?;
        scan.metrics.scanned_bytes.add(read.iter().map(|chunk| chunk.as_bytes().len() as u64).sum());
        loaded.iter_mut().filter(|chunk| chunk.is_none()).zip(read).for_each(|(chunk, read)| *chunk = Some(read));
        let places = places.into_iter().map(|(place, _)| place);
        let loaded: Vec<_> = places.zip(loaded.into_iter().flatten()).collect();
        for ((column, chunk), loaded) in &loaded {
            self.check_shape(*column, *chunk, loaded)?;
            self.chunks[*column][*chunk] = Some(Arc::clone(loaded));
        }
        scan.shared.keep(self.morsel, loaded.into_iter());
        Ok(())
    }

    /// The blocks that are to be loaded of the chunk that has the blocks `range` of the row group, of which this morsel has
    /// loaded `loaded`: those with rows, and those that zones leave to other morsels, which would else load the chunk again.
    /// `None` where nothing with rows is missing.
    fn missing(&self, loaded: Option<&InflatedChunk>, range: Range<usize>) -> Option<BlockSet> {
        let has_rows = |block: usize| !self.selections[block].is_empty();
        let needed = BlockSet::of_range(range.clone(), has_rows);
        if needed.is_empty() || loaded.is_some_and(|chunk| chunk.has_all(&needed)) {
            return None;
        }
        Some(match self.scan.whole_chunks {
            true => BlockSet::first(range.len()),
            false => BlockSet::of_range(range, |block| has_rows(block) || self.others.contains(block)),
        })
    }

    /// A chunk must hold the blocks that the footer promises.
    fn check_shape(&self, column: usize, chunk: usize, loaded: &InflatedChunk) -> Result<()> {
        let Some(layout) = self.group_column(column) else { return Ok(()) };
        let promised = &self.morsel.group_of(&self.segment).block_rows[layout.blocks_of(chunk)];
        if !loaded.block_rows().eq(promised.iter().copied()) {
            let wrong = Error::corrupt("the chunk holds other blocks than the footer says");
            return Err(wrong.context(self.place(column, chunk)));
        }
        Ok(())
    }
}
