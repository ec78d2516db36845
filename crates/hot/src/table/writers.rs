//! Who has written rows and has not ended.
//!
//! Must not know: what is made of it.

use std::sync::Arc;

use super::{HotTable, read};
use crate::cell::Row;
use crate::commits::View;
use crate::row_id::RowId;
use crate::stamp::{FIRST_ID, Stamp, TransactionId};
use crate::waiting::Blocker;

impl HotTable {
    /// The transaction that has changed a row and has not ended; `None` if it has.
    pub fn writer_of(&self, row: RowId) -> Option<TransactionId> {
        let chunk = read(self.shared.chunk(row.chunk())?);
        (row.position() < chunk.rows()).then(|| chunk.newest_stamp(row.position()))?.filter(|stamp| *stamp > FIRST_ID)
    }

    /// The same, to wait for.
    pub(crate) fn blocker(&self, row: RowId) -> Option<Blocker> {
        let chunk = read(self.shared.chunk(row.chunk())?);
        let owner = (row.position() < chunk.rows()).then(|| chunk.newest_owner(row.position()))?;
        Blocker::new(owner?, &self.shared.commits.waits)
    }

    /// Whom to wait for where another transaction than the view's, which has not ended, has written a row of which these columns satisfy a condition.
    pub fn pending(&self, view: View<'_>, columns: &[usize], holds: impl Fn(&Row) -> bool) -> Option<Blocker> {
        let mut row = Row::default();
        let is_others = |stamp: &&Arc<Stamp>| stamp.get() > FIRST_ID && stamp.get() != view.own;
        for latch in self.shared.chunks.iter() {
            let chunk = read(latch);
            for position in chunk.version_ranges().into_iter().flatten() {
                let Some(owner) = chunk.newest_owner(position).filter(is_others) else { continue };
                if chunk.newest_there(position, columns, &mut row) && holds(&row) {
                    return Blocker::new(owner, &self.shared.commits.waits);
                }
            }
        }
        None
    }
}
