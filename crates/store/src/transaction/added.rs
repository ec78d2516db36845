//! Segments that others have added to tables while a transaction gave keys to hot rows of them: whoever commits it looks there for these keys.
//!
//! Most of them hold rows that were there before: hot rows that were frozen, segments that were merged. Must not know: what keys are.

use std::sync::Arc;

use forebay_base::{Result, SegmentId, TableId};
use forebay_hot::{Row, RowId, View};

use super::Transaction;
use crate::hot::HotRows;
use crate::table_snapshot::TableSnapshot;

/// Segments of a table that others have added, and hot rows of it.
#[derive(Debug)]
pub struct AddedSegments<'t> {
    table: Arc<TableSnapshot>,
    hot: Arc<HotRows>,
    view: View<'t>,
    rows: Vec<RowId>,
}

impl AddedSegments<'_> {
    /// The table with these segments alone.
    pub fn table(&self) -> &Arc<TableSnapshot> {
        &self.table
    }

    /// Hot rows that the transaction has written; some may be deleted.
    pub fn rows(&self) -> &[RowId] {
        &self.rows
    }

    /// Reads columns of one of them; false where it is deleted.
    ///
    /// # Errors
    /// `Input` for columns that there are not.
    pub fn read(&self, row: RowId, columns: &[usize], out: &mut Row) -> Result<bool> {
        self.hot.rows.get(self.view, row, columns, out)
    }

    /// Whether a row of a segment was deleted one by one.
    pub fn is_deleted(&self, (segment, block, row): (SegmentId, u32, u16)) -> bool {
        self.hot.deletions.has(self.view, (segment, block, row))
    }
}

impl Transaction {
    /// The tables to whose segments others have added some since it looked for keys there, where nobody has looked again.
    pub fn added_segments(&self) -> impl Iterator<Item = AddedSegments<'_>> {
        let writes = self.hot.as_ref().zip(self.unchecked.as_ref());
        let written = writes.map(|(writes, _)| writes.written()).unwrap_or_default();
        let unchecked = writes.into_iter().flat_map(|(writes, unchecked)| {
            unchecked.segments.iter().map(move |id| (id, &unchecked.before, writes.view()))
        });
        unchecked.filter_map(move |(id, before, view)| {
            let now = self.base.objects.tables.get(id)?;
            let hot = Arc::clone(self.working.hot.hot_rows(*id)?);
            let known = before.objects.tables.get(id);
            let is_new = |segment: SegmentId| known.is_none_or(|known| known.segments.find(segment).is_none());
            let added = now.segments.iter().filter(|segment| is_new(segment.id())).cloned();
            let table = Arc::new(now.with_rows(added).into());
            let rows = written.iter().filter(|(table, _)| TableId(*table) == *id).map(|(_, row)| *row).collect();
            Some(AddedSegments { table, hot, view, rows })
        })
    }
}
