//! Chunks whose rows are taken to somewhere else, and memory that nobody needs any more.
//!
//! Must not know: where rows are taken.

use forebay_base::Result;

use super::{HotTable, read, write};
use crate::batch::Batch;
use crate::chunk::Chunk;
use crate::sync::Ordering;

/// The rows of a chunk without versions, at the positions that they have there.
#[derive(Debug)]
pub struct CleanRows {
    chunk: u32,
    /// How often the chunk had been changed.
    changes: u64,
    /// All columns; positions that are not visible have no row.
    pub rows: Batch,
}

impl CleanRows {
    /// The number of the chunk.
    pub fn chunk(&self) -> u32 {
        self.chunk
    }
}

impl HotTable {
    /// Lets go of the memory of chunks that take no more rows, have none, and of which no snapshot needs any.
    pub fn release_empty(&self) {
        let last = self.shared.last.load(Ordering::Acquire) as usize;
        for latch in self.shared.chunks.iter().take(last) {
            let is_unused = |chunk: &Chunk| !chunk.is_released && !chunk.has_versions() && chunk.is_empty();
            if is_unused(&read(latch)) {
                let mut chunk = write(latch);
                if is_unused(&chunk) {
                    *chunk = Chunk::new(&self.shared.types);
                    (chunk.is_closed, chunk.is_released) = (true, true);
                }
            }
        }
    }

    /// The rows of a chunk, if no transaction and no snapshot needs older versions or is about to change one: then every snapshot that is
    /// live sees exactly these rows. The chunk takes no new rows from then on. `None` where there are versions.
    ///
    /// # Errors
    /// `NotFound` where there is no such chunk, `Internal` where it was released.
    pub fn freeze(&self, chunk: u32) -> Result<Option<CleanRows>> {
        let latch = self.shared.chunk(chunk).ok_or_else(|| self.shared.no_chunk(chunk))?;
        let mut found = write(latch);
        self.shared.check_held(chunk, &found)?;
        found.prune(&self.shared.commits.live(), false);
        if found.has_versions() {
            return Ok(None);
        }
        found.is_closed = true;
        let changes = found.changes;
        drop(found);
        // Copied beside readers; who changes something meanwhile is seen below.
        let found = read(latch);
        if found.changes != changes || found.is_released {
            return Ok(None);
        }
        let mut rows = Batch::default();
        found.copy_clean(&mut rows);
        Ok(Some(CleanRows { chunk, changes, rows }))
    }

    /// Lets go of the rows of a chunk that was frozen, once every reader finds them elsewhere; false, and nothing is done, if the chunk
    /// was changed since.
    pub fn release(&self, frozen: &CleanRows) -> bool {
        let Some(latch) = self.shared.chunk(frozen.chunk) else { return false };
        let mut found = write(latch);
        if found.is_released || found.changes != frozen.changes || found.has_versions() {
            return false;
        }
        *found = Chunk::new(&self.shared.types);
        (found.is_closed, found.is_released) = (true, true);
        true
    }
}
