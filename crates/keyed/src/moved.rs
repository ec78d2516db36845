//! Rows that a plan has computed, which lie in segments that nobody else has: as hot rows of their table.
//!
//! Invariant: a hot row that gets other values stays where it is. Must not know: plans.

use forebay_base::{Result, TableId, limits};
use forebay_engine::Engine;
use forebay_engine::keyed::each_row;
use forebay_store::{Cell, Deleted, HotChange, HotRow, RowId, TableSnapshot, Transaction};

/// Rows that become hot rows at most, as many as a small segment has: segments take more of them faster.
pub const MOST_HOT_ROWS: u64 = limits::SMALL_SEGMENT_ROWS;

/// Adds rows to a table: those of `new`, which is the table with other segments.
///
/// # Errors
/// Those of reading, and of [`Transaction::insert_hot`].
pub fn insert_rows(engine: &Engine, transaction: &mut Transaction, new: &TableSnapshot) -> Result<()> {
    each_row(engine, new, &all_columns(new), |row| {
        let cells: Vec<Cell<'_>> = row.cells().collect();
        transaction.insert_hot(new.id, &cells).map(drop)
    })
}

/// New values of hot rows of a table.
#[derive(Debug)]
pub struct NewValues {
    table: TableId,
    /// By row the columns that change, and their values.
    rows: Vec<(RowId, Vec<usize>, HotRow)>,
}

impl NewValues {
    /// Those of the hot rows that a scan has found at these places of a segment of them: the rows of `new`, one after the other, which is the
    /// table with other segments. `None` where one of the columns `keys` would change.
    ///
    /// # Errors
    /// Those of reading; `Conflict` where the segment is not one of what the transaction sees.
    pub fn of(
        engine: &Engine,
        transaction: &mut Transaction,
        deleted: &Deleted,
        new: &TableSnapshot,
        keys: &[usize],
    ) -> Result<Option<Self>> {
        let ids = transaction.rows_of_version(new.id, deleted)?;
        if ids.len() as u64 != new.rows() {
            return Ok(None);
        }
        let columns = all_columns(new);
        let (mut left, mut old, mut keeps_keys) = (ids.into_iter(), HotRow::default(), true);
        let mut rows = Vec::new();
        each_row(engine, new, &columns, |row| {
            let Some(id) = left.next() else { return Ok(()) };
            keeps_keys &= transaction.read_hot(new.id, id, &columns, &mut old)?;
            let is_changed = |column: &usize| row.cell(*column) != old.cell(*column);
            let changed: Vec<usize> = columns.iter().copied().filter(is_changed).collect();
            keeps_keys &= !changed.iter().any(|column| keys.contains(column));
            let mut values = HotRow::default();
            changed.iter().for_each(|column| values.push(row.cell(*column)));
            rows.push((id, changed, values));
            Ok(())
        })?;
        Ok(keeps_keys.then_some(Self { table: new.id, rows }))
    }

    /// Gives them to the rows.
    ///
    /// # Errors
    /// Those of [`Transaction::update_hot`].
    pub fn set(&self, transaction: &mut Transaction) -> Result<()> {
        for (id, columns, values) in self.rows.iter().filter(|(_, columns, _)| !columns.is_empty()) {
            let changes: Vec<HotChange<'_>> = columns.iter().copied().zip(values.cells()).collect();
            transaction.update_hot(self.table, *id, &changes)?;
        }
        Ok(())
    }
}

fn all_columns(table: &TableSnapshot) -> Vec<usize> {
    (0..table.columns.len()).collect()
}
