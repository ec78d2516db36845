//! Changes by plans that concern few rows, as changes of hot rows: what is added becomes hot, and hot rows change where they are.
//!
//! Must not know: how the rows were computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_base::Result;
use forebay_context::settings::PointAccess;
use forebay_keyed::{KeyedTable, MOST_HOT_ROWS, NewValues, insert_rows};
use forebay_layout::CLUSTER_OPTION;
use forebay_store::{RowChanges, SealedSegment, TableSnapshot, Transaction};

use crate::run::Run;

/// Bytes of segments whose rows become hot, at most.
const MOST_HOT_BYTES: u64 = 4 << 20;

impl Run<'_> {
    /// Takes new values of hot rows out of changes: those of rows that stay where they are.
    pub(crate) fn in_place(
        &self,
        transaction: &mut Transaction,
        table: &TableSnapshot,
        mut changes: RowChanges,
    ) -> Result<(Vec<NewValues>, RowChanges)> {
        let hot: BTreeSet<_> = table.segments.iter().filter(|own| own.is_hot()).map(|own| own.id()).collect();
        if hot.is_empty() || !transaction.has_room_for_hot_rows() {
            return Ok((Vec::new(), changes));
        }
        let keys = KeyedTable::of(table, transaction.catalog()).key_columns();
        let mut values = Vec::new();
        for (deleted, new) in std::mem::take(&mut changes.deleted) {
            let may_stay = hot.contains(&deleted.segment.id) && !new.is_empty();
            let found = may_stay.then(|| {
                let new = table.with_rows(new.iter().map(|sealed| Arc::clone(sealed.segment()))).into();
                NewValues::of(self.planner.engine(), transaction, &deleted, &new, &keys)
            });
            match found.transpose()?.flatten() {
                Some(found) => values.push(found),
                None => changes.deleted.push((deleted, new)),
            }
        }
        Ok((values, changes))
    }

    /// Adds rows that an INSERT has written: as hot rows where they are few.
    pub(crate) fn add(&self, table: &Arc<TableSnapshot>, segments: Vec<SealedSegment>) -> Result<()> {
        let new: TableSnapshot = table.with_rows(segments.iter().map(|sealed| Arc::clone(sealed.segment()))).into();
        let is_little = new.rows() <= MOST_HOT_ROWS && new.segments.file_bytes() <= MOST_HOT_BYTES;
        let access = PointAccess::of(self.state().config());
        let is_in_order = table.options.get(None, CLUSTER_OPTION).is_some();
        let catalog = self.planner.snapshot();
        if !is_little
            || access != PointAccess::On
            || is_in_order
            || !KeyedTable::of(table, catalog).takes_rows_of_plans()
        {
            return self.publish(table, segments);
        }
        let takes_hot_rows = self.planner.transaction().change(|transaction| {
            let takes_hot_rows = transaction.takes_hot_rows(table.id) && transaction.has_room_for_hot_rows();
            if takes_hot_rows {
                insert_rows(self.planner.engine(), transaction, &new)?;
            }
            Ok(takes_hot_rows)
        })?;
        if takes_hot_rows { Ok(()) } else { self.publish(table, segments) }
    }
}
