//! What commits after a snapshot have changed, row by row: for the validation of serializable transactions (precision locking, Neumann et al.
//! 2015, §3).
//!
//! A row is given as the snapshot sees it and as the last commit has left it. What it was in between is not given and need not be kept: a
//! transaction whose predicates neither of the two images meets reads the same at its end as at its snapshot, so that it could have run
//! whole at its end.
//!
//! Must not know: predicates.

use std::collections::VecDeque;

use crate::cell::Row;
use crate::chunk::Chunk;
use crate::commits::{CommitNumber, View};
use crate::row_id::RowId;
use crate::table::HotTable;

/// One changed row, with all columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedRow {
    /// Which row.
    pub row: RowId,
    /// The last commit that changed it.
    pub commit: CommitNumber,
    /// As the snapshot sees it; `None` if that does not.
    pub before: Option<Row>,
    /// As it is now; `None` if it is deleted.
    pub after: Option<Row>,
}

/// Iterates over changed rows, a chunk at a time, so that no latch is held between two of them.
#[derive(Debug)]
pub struct Changes<'t> {
    table: &'t HotTable,
    since: View<'t>,
    now: View<'t>,
    chunks: std::ops::Range<u32>,
    found: VecDeque<ChangedRow>,
}

impl HotTable {
    /// Rows that were changed by commits which `since` does not see, up to the last one of now. Rows that were inserted and deleted since are
    /// left out, and so is what the view's own transaction has changed. Chunks that were released since are the caller's affair.
    pub fn changes_since<'t>(&'t self, since: View<'t>) -> Changes<'t> {
        assert!(since.is_of(self.commits()), "a view is of the table's clock");
        let now = View::of_last_commit(self.commits());
        Changes { table: self, since: since.of_others(), now, chunks: self.chunks(), found: VecDeque::new() }
    }
}

impl Iterator for Changes<'_> {
    type Item = ChangedRow;

    fn next(&mut self) -> Option<ChangedRow> {
        while self.found.is_empty() {
            let number = self.chunks.next()?;
            let found = &mut self.found;
            let (since, now) = (self.since, self.now);
            self.table.with_chunk(number, |chunk| {
                chunk.changed(since.number, now, |position, commit| {
                    let (before, after) = (image(chunk, since, position), image(chunk, now, position));
                    if before.is_some() || after.is_some() {
                        let row = RowId::new(number, position as u16);
                        found.push_back(ChangedRow { row, commit, before, after });
                    }
                });
            });
        }
        self.found.pop_front()
    }
}

fn image(chunk: &Chunk, view: View<'_>, position: usize) -> Option<Row> {
    let mut row = Row::default();
    chunk.read(view, position, 0..chunk.column_count(), &mut row).then_some(row)
}
