//! Whether a serializable transaction would read the same now as it has read: then it may commit (`reads.rs`).
//!
//! Invariant: asked with the writer's turn, and once everything in line that has changed hot rows of what it has read is visible.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result, TableId};
use forebay_hot::{Row, View, push_key};

use super::Transaction;
use crate::catalog::Catalog;
use crate::hot::HotRows;
use crate::reads::{ReadRange, ReadState, Reads};

impl Transaction {
    /// Makes it serializable: where others have changed what it reads from now on, its commit is a conflict.
    pub fn make_serializable(&mut self) {
        if self.working.reads.is_none() {
            let is_unchanged = Arc::ptr_eq(&self.working, &self.base);
            Arc::make_mut(&mut self.working).reads = Some(Arc::default());
            if is_unchanged {
                self.base = Arc::clone(&self.working);
            }
        }
    }

    /// Notes for a serializable transaction that it has looked for keys of these columns of a table, from `low` on and below `high`.
    pub fn note_key_range(&self, table: TableId, columns: &[usize], (low, high): (&[u8], Option<&[u8]>)) {
        let range = || ReadRange { table, columns: columns.into(), low: low.to_vec(), high: high.map(<[u8]>::to_vec) };
        if let Some(reads) = &self.working.reads {
            reads.note_range(range, table);
        }
    }

    /// Whether it notes what it reads.
    pub fn is_serializable(&self) -> bool {
        self.working.reads.is_some()
    }

    /// Tables of which it has read hot rows.
    pub(super) fn reads_any(&self, tables: &BTreeSet<TableId>) -> bool {
        let Some(reads) = self.working.reads.as_ref().filter(|_| !tables.is_empty()) else { return false };
        let ReadState { tables: wholes, ranges } = reads.so_far();
        !wholes.is_disjoint(tables) || ranges.iter().any(|range| tables.contains(&range.table))
    }

    /// An error where others have committed changes of what it has read, `hot_beside` being the tables of whose hot rows they have changed some.
    pub(super) fn check_reads(&self, now: &Catalog, hot_beside: &BTreeSet<TableId>) -> Result<()> {
        let Some(reads) = &self.working.reads else { return Ok(()) };
        let ReadState { tables, ranges } = reads.so_far();
        let has_same_segments = |id: TableId| match (self.base.stored_table(id), now.stored_table(id)) {
            (Some(before), Some(now)) => Arc::ptr_eq(before, now),
            (before, now) => before.is_none() && now.is_none(),
        };
        let is_other = |id: &TableId| !has_same_segments(*id) || hot_beside.contains(id);
        if let Some(id) = tables.iter().find(|id| is_other(id)) {
            return Err(self.read_beside(*id));
        }
        if let Some(range) = ranges.iter().find(|range| !has_same_segments(range.table)) {
            return Err(self.read_beside(range.table));
        }
        let looked_at: BTreeSet<TableId> = ranges.iter().map(|range| range.table).collect();
        let Some(snapshot) = self.base.hot.snapshot() else { return Ok(()) };
        for id in looked_at.intersection(hot_beside) {
            let Some(table) = self.base.stored_table(*id) else { continue };
            let hot = self.seen_hot_rows(table)?;
            let ranges: Vec<&ReadRange> = ranges.iter().filter(|range| range.table == *id).collect();
            if has_changed(&hot, &ranges, snapshot.view()) {
                return Err(self.read_beside(*id));
            }
        }
        Ok(())
    }

    fn read_beside(&self, id: TableId) -> Error {
        let name = self.base.stored_table(id).map_or_else(|| format!("number {id}"), |table| table.full_name());
        let message = format!("what this transaction has read of table {name} was changed by another transaction");
        Error::new(ErrorKind::Conflict, message).hint("Run the transaction again")
    }
}

/// Whether a row that commits have changed since then has, or had, a key in one of these ranges; so are deletions of rows in segments, of which
/// only the place is known.
fn has_changed(hot: &HotRows, ranges: &[&ReadRange], since: View<'_>) -> bool {
    let key = |range: &ReadRange, row: &Row| {
        let mut key = Vec::new();
        for column in &range.columns {
            push_key(&mut key, row.cell(*column), hot.rows.types()[*column]);
        }
        key
    };
    hot.deletions.rows().changes_since(since).next().is_some()
        || hot.rows.changes_since(since).any(|changed| {
            let images = [changed.before, changed.after];
            images.iter().flatten().any(|row| ranges.iter().any(|range| range.has(&key(range, row))))
        })
}

impl Catalog {
    /// The same catalog for a serializable transaction, which notes what is read of it.
    #[must_use]
    pub fn noting_reads(&self) -> Self {
        Self { reads: Some(Arc::<Reads>::default()), ..self.clone() }
    }

    /// What was read of it so far, where that is noted.
    pub fn noted_reads(&self) -> Option<ReadState> {
        self.reads.as_ref().map(|reads| reads.so_far())
    }

    /// Forgets what was read since: by who knows that nothing depends on it.
    pub fn forget_reads_since(&self, before: &Option<ReadState>) {
        if let (Some(reads), Some(before)) = (&self.reads, before) {
            reads.return_to(before);
        }
    }
}
