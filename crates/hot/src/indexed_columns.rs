//! The columns of an index, and the keys that their values make.
//!
//! Must not know: how an index finds keys.

use crate::cell::{Cell, Row};
use crate::chunk::Newest;
use crate::commits::View;
use crate::key::{is_key, push_key};
use crate::row_id::RowId;
use crate::table::HotTable;

/// Bytes of a value of a key, about.
const VALUE_BYTES: usize = 9;

/// Some columns of a table.
#[derive(Debug)]
pub struct IndexedColumns {
    table: HotTable,
    positions: Vec<usize>,
}

impl IndexedColumns {
    pub(crate) fn new(table: &HotTable, positions: Vec<usize>) -> Self {
        Self { table: table.clone(), positions }
    }

    /// Their positions in the table.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }

    /// The key of a row with these values.
    pub fn key_of<'c>(&self, cell: impl Fn(usize) -> Cell<'c>) -> Vec<u8> {
        self.key(self.positions.iter().map(|column| cell(*column)))
    }

    /// The beginning of all keys whose first values are these.
    pub fn prefix_of(&self, cells: &[Cell<'_>]) -> Vec<u8> {
        self.key(cells.iter().copied())
    }

    /// The key of these values, in the order of the columns.
    pub(crate) fn key<'c>(&self, cells: impl Iterator<Item = Cell<'c>>) -> Vec<u8> {
        let mut key = Vec::with_capacity(self.positions.len() * VALUE_BYTES);
        for (cell, column) in cells.zip(&self.positions) {
            push_key(&mut key, cell, self.table.types()[*column]);
        }
        key
    }

    pub(crate) fn table(&self) -> &HotTable {
        &self.table
    }

    /// What the newest version of a row is to a key: gone where it has another one.
    pub(crate) fn newest(&self, view: View<'_>, key: &[u8], id: RowId, row: &mut Row) -> Newest {
        let newest = self.table.newest(view, id, &self.positions, row);
        let is_pending = newest == Newest::Unseen && self.table.writer_of(id).is_some();
        match is_pending || self.is_key(key, row) {
            true => newest,
            false => Newest::Gone,
        }
    }

    /// Whether a view sees a row with this key.
    pub(crate) fn has_key(&self, view: View<'_>, key: &[u8], id: RowId) -> bool {
        self.table.has_key(view, id, &self.positions, key)
    }

    /// Whether some version of a row may have a key of which this holds: it has older versions, or the key of its only one is such.
    pub(crate) fn may_have(&self, id: RowId, is_one: impl FnOnce(&Row) -> bool) -> bool {
        let mut row = Row::default();
        match self.table.only_version(id, &self.positions, &mut row) {
            None => true,
            Some(is_there) => is_there && is_one(&row),
        }
    }

    /// Whether the columns with these values are a key.
    pub(crate) fn is_key(&self, key: &[u8], row: &Row) -> bool {
        is_key(key, row.cells().zip(self.positions.iter().map(|column| self.table.types()[*column])))
    }
}
