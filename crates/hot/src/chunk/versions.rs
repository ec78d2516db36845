//! Versions of rows, whoever has written them: for keys, which are unique among all of them.

use super::{Chunk, Newest};
use crate::cell::Row;
use crate::commits::View;
use crate::stamp::FIRST_ID;

impl Chunk {
    /// Reads columns of a row's newest version; what it is to a view.
    pub(crate) fn newest(&self, view: View<'_>, position: usize, columns: &[usize], row: &mut Row) -> Newest {
        row.clear();
        let stamp = if position < self.rows() { self.newest_stamp(position) } else { None };
        let is_seen = stamp.is_none_or(|stamp| view.sees(stamp));
        let is_pending = !is_seen && stamp.is_some_and(|stamp| stamp > FIRST_ID);
        if position >= self.rows() || !(is_pending || self.present.get(position)) {
            return Newest::Gone;
        }
        columns.iter().for_each(|column| self.columns[*column].with(position, |cell| row.push(cell)));
        if is_seen { Newest::There } else { Newest::Unseen }
    }

    /// Reads columns of a row's newest version, whoever has written it; false where it is deleted.
    pub(crate) fn newest_there(&self, position: usize, columns: &[usize], row: &mut Row) -> bool {
        row.clear();
        columns.iter().for_each(|column| self.columns[*column].with(position, |cell| row.push(cell)));
        self.present.get(position)
    }

    /// Reads columns of all versions of a row, the newest first, into `row`.
    pub(crate) fn versions(&self, position: usize, columns: &[usize], row: &mut Row, mut each: impl FnMut(&Row)) {
        row.clear();
        columns.iter().for_each(|column| self.columns[*column].with(position, |cell| row.push(cell)));
        let mut number = self.marks.head(position);
        if number != 0 || self.present.get(position) {
            each(row);
        }
        while number != 0 {
            let record = self.undo.record(number);
            for image in self.undo.images(record) {
                for (at, _) in columns.iter().enumerate().filter(|(_, column)| **column == image.column) {
                    image.with(|cell| row.set(at, cell));
                }
            }
            each(row);
            number = record.next;
        }
    }

    /// Reads columns of a row that has one version: whether it is there; `None` where it has others.
    pub(crate) fn only_version(&self, position: usize, columns: &[usize], row: &mut Row) -> Option<bool> {
        row.clear();
        if position >= self.rows() {
            return Some(false);
        }
        if self.marks.head(position) != 0 {
            return None;
        }
        columns.iter().for_each(|column| self.columns[*column].with(position, |cell| row.push(cell)));
        Some(self.present.get(position))
    }

    /// Whether a view sees the newest version of every row.
    pub(crate) fn is_newest(&self, view: View<'_>) -> bool {
        let mut is_newest = true;
        self.marks.versioned(&(0..self.rows()), view.number, |_, head| {
            is_newest &= head == 0 || view.sees(self.undo.stamp(self.undo.record(head)));
        });
        is_newest
    }
}
