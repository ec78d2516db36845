//! What a commit does to hot rows, and how the redo log tells of it (`docs/format.md`, "Hot rows").
//!
//! Must not know: what else is in a commit, when it is written.

use std::sync::Arc;

use forebay_base::{Error, Result, TableId};
use forebay_hot::{OwnChange, Row, Transaction};

use super::row_bytes::{push_columns, push_row};
use super::{HotRowId, HotRows, HotView};
use crate::rows::{ROW_HOT, key};
use crate::serial::Writer;

/// Kinds of changes in the redo log: the row is gone, all of its values follow, or some of them do.
pub(crate) const HOT_GONE: u8 = 0;
pub(crate) const HOT_WHOLE: u8 = 1;
pub(crate) const HOT_COLUMNS: u8 = 2;

/// Changes of hot rows, as a record of the redo log has them.
#[derive(Debug, Default)]
pub(crate) struct HotRecord {
    pub(crate) count: usize,
    pub(crate) bytes: Vec<u8>,
}

/// What a commit does to hot rows.
#[derive(Debug, Default)]
pub(crate) struct HotCommit {
    writes: Option<Transaction>,
    /// Those of which it changes some.
    pub(crate) tables: Vec<Arc<HotRows>>,
    pub(crate) rows: Vec<HotRowId>,
    pub(crate) record: HotRecord,
}

impl HotCommit {
    /// That of a transaction, whose view is this one.
    ///
    /// # Errors
    /// Those of reading the rows that it has written.
    pub(crate) fn of(writes: Transaction, view: &HotView) -> Result<Self> {
        let (mut tables, mut rows): (Vec<Arc<HotRows>>, Vec<HotRowId>) = (Vec::new(), Vec::new());
        /// What most changes take at most.
        const CHANGE_BYTES: usize = 128;
        /// Memory that is taken before it is needed, at most.
        const RESERVED_BYTES: usize = 64 << 10;
        let written = writes.written();
        let mut record = Writer::with_capacity((written.len() * CHANGE_BYTES).min(RESERVED_BYTES));
        let (mut columns, mut values) = (Vec::new(), Row::default());
        rows.reserve(written.len());
        for (number, row) in written {
            let id = TableId(number);
            if tables.last().is_none_or(|last| last.id() != id) {
                let found = view.hot_rows(id).ok_or_else(|| Error::internal("hot rows of a table that has none"))?;
                tables.push(Arc::clone(found));
            }
            let table = tables.last().ok_or_else(|| Error::internal("a table was just found"))?.table_of(row);
            let change = table.own_change(writes.view(), row, &mut columns, &mut values)?;
            record.bytes.extend_from_slice(&key(ROW_HOT, rows.len() as u64));
            record.u8(1);
            record.measured(|record| {
                record.u64(id.0);
                record.u64(row.0);
                match change {
                    OwnChange::Gone => record.u8(HOT_GONE),
                    OwnChange::Row => {
                        record.u8(HOT_WHOLE);
                        push_row(record, values.cells());
                    }
                    OwnChange::Columns => {
                        record.u8(HOT_COLUMNS);
                        push_columns(record, columns.iter().copied().zip(values.cells()));
                    }
                }
            });
            rows.push((id, row));
        }
        let record = HotRecord { count: rows.len(), bytes: record.bytes };
        Ok(Self { writes: Some(writes), tables, rows, record })
    }

    /// Makes the changes visible to everybody.
    pub(crate) fn make_visible(&mut self) {
        let Some(writes) = self.writes.take() else { return };
        let noted = writes.commit_with(|number| {
            self.tables.iter().for_each(|table| table.change_at(number));
            Ok(())
        });
        noted.expect("nothing is done that can fail");
    }
}

/// Hot rows that have changed, each some times.
#[derive(Debug, Default)]
pub(crate) struct ChangedRows {
    rows: Vec<HotRowId>,
    /// How many there were when each was in it once.
    distinct: usize,
}

/// So many may be in it more than once.
const REPEATED_ROWS: usize = 1 << 16;

impl ChangedRows {
    /// Adds some.
    pub(crate) fn add(&mut self, rows: &[HotRowId]) {
        self.rows.extend_from_slice(rows);
        if self.rows.len() > 2 * self.distinct + REPEATED_ROWS {
            self.make_distinct();
        }
    }

    /// Takes all, each once, in their order.
    pub(crate) fn take(&mut self) -> Vec<HotRowId> {
        self.make_distinct();
        self.distinct = 0;
        std::mem::take(&mut self.rows)
    }

    fn make_distinct(&mut self) {
        self.rows.sort_unstable();
        self.rows.dedup();
        self.distinct = self.rows.len();
    }
}
