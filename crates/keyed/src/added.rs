//! Keys of hot rows in segments that others have added: who gives a key to a row looks for it in the segments of its snapshot, and here in those
//! that have come since.
//!
//! Must not know: who commits.

use forebay_base::{Error, ErrorKind, Result};
use forebay_engine::Engine;
use forebay_engine::keyed::{SegmentRow, WantedRows, rows_between};
use forebay_store::{AddedSegments, Cell, HotRow, Transaction};

use crate::rows::KeyedRows;
use crate::table::KeyedTable;

/// An error where a segment that others have added meanwhile has a key that a transaction gives to a hot row.
///
/// # Errors
/// `Conflict`; those of reading.
pub fn check_added_segments(engine: &Engine, transaction: &Transaction) -> Result<()> {
    transaction.added_segments().try_for_each(|added| check(engine, transaction, &added))
}

fn check(engine: &Engine, transaction: &Transaction, added: &AddedSegments<'_>) -> Result<()> {
    let table = KeyedTable::of(added.table(), transaction.catalog());
    let is_there = |row: &SegmentRow| !added.is_deleted(row.place(added.table()));
    let wanted = WantedRows { most: 1, next: (None, None), most_blocks: usize::MAX, is_there: &is_there };
    let mut values = HotRow::default();
    for key in table.keys() {
        for row in added.rows() {
            if !added.read(*row, key.positions(), &mut values)? {
                continue;
            }
            let cells: Vec<Cell<'_>> = values.cells().collect();
            if cells.contains(&Cell::Null) {
                continue;
            }
            let (low, high) = KeyedRows::keys_with(&table, key, &cells)?;
            let range = (low.as_slice(), high.as_deref());
            if !rows_between(engine, added.table(), key, &cells, range, wanted)?.is_empty() {
                let message = format!("another transaction wrote a row of table {} with the same key", table.name());
                return Err(Error::new(ErrorKind::Conflict, message).hint("Run the transaction again"));
            }
        }
    }
    Ok(())
}
