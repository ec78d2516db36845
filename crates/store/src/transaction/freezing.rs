//! Hot rows that become segments, and where segments come that are added to a table with hot rows.
//!
//! Must not know: when, and whether anybody needs it.

use std::sync::Arc;

use forebay_base::{Result, TableId};
use forebay_hot::HotTable;

use super::Transaction;
use crate::hot::frozen;
use crate::segment_list::{before_chunk, place_of_chunk};
use crate::store::Store;

impl Transaction {
    /// Puts the hot rows of a table that it sees into segments, where they are.
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed one of them; those of writing.
    pub fn freeze_hot(&mut self, id: TableId) -> Result<()> {
        self.mark_deletions(id)?;
        let chunks = self.working.hot.rows(id).map(HotTable::chunks);
        self.freeze_chunks(id, &chunks.into_iter().flatten().collect::<Vec<_>>())
    }

    /// The same of the rows of some chunks.
    pub(crate) fn freeze_chunks(&mut self, id: TableId, chunks: &[u32]) -> Result<()> {
        let table = Arc::clone(self.stored_table(id)?);
        // Those of other columns it has frozen before it has altered the table.
        let Some(hot) = self.working.hot.hot_rows(id).filter(|hot| hot.fits(&table)).cloned() else { return Ok(()) };
        let rows = &hot.rows;
        let store = Store::internal(&self.inner);
        let mut sealed = Vec::new();
        let writes = self.hot_writes();
        // Rows between which others lie come into segments of their own.
        let are_neighbours = |one: &u32, next: &u32| {
            let (one, next) = (place_of_chunk(*one), place_of_chunk(*next));
            !table.segments.places().any(|(place, _)| one < place && place < next)
        };
        for chunks in chunks.chunk_by(are_neighbours) {
            let writer = |columns| store.segment_writer(columns);
            let Some((segment, ids)) = frozen(rows, writes.view(), &table, chunks, writer)? else { continue };
            for row in ids {
                rows.delete(writes, row)?;
            }
            sealed.push((chunks[0], segment));
        }
        if sealed.is_empty() {
            return Ok(());
        }
        self.see_hot(&hot);
        let snapshot = self.snapshot_mut(id)?;
        for (chunk, sealed) in &sealed {
            snapshot.insert_of_chunk(*chunk, vec![Arc::clone(sealed.segment())]);
        }
        Ok(())
    }

    /// Where segments come that are added to a table now: behind its hot rows, and before those that come later.
    pub(super) fn place_behind_hot(&self, id: TableId) -> u64 {
        let known = self.inner.hot.known(id);
        known.map_or(0, |hot| before_chunk(hot.rows.close_last()))
    }
}
