//! Reading a chunk's rows as a view sees them: the newest values with what the view has not seen taken back.
//!
//! Must not know: how rows are changed.

use std::ops::Range;

use crate::batch::Batch;
use crate::bits::Bits;
use crate::cell::Row;
use crate::chunk::{Chunk, OwnChange};
use crate::commits::{CommitNumber, View};
use crate::key::{behind_cell, is_key};
use crate::undo::{Existence, Record};

impl Chunk {
    /// Records that a view has to apply to a row, newest first.
    pub(super) fn unseen(&self, view: View<'_>, head: u32) -> impl Iterator<Item = &Record> {
        let mut number = head;
        std::iter::from_fn(move || {
            let record = (number != 0).then(|| self.undo.record(number))?;
            number = record.next;
            (!view.sees(self.undo.stamp(record))).then_some(record)
        })
    }

    pub(super) fn is_seen(&self, view: View<'_>, position: usize) -> bool {
        let mut is_present = self.present.get(position);
        for record in self.unseen(view, self.marks.head(position)) {
            match record.existence {
                Existence::Same => (),
                existence => is_present = existence == Existence::Present,
            }
        }
        is_present
    }

    /// Reads columns of a row; false if the view does not see it.
    pub(crate) fn read(
        &self,
        view: View<'_>,
        position: usize,
        columns: impl Iterator<Item = usize> + Clone,
        row: &mut Row,
    ) -> bool {
        row.clear();
        if position >= self.rows() {
            return false;
        }
        let head = self.marks.head(position);
        if head == 0 {
            if self.present.get(position) {
                columns.for_each(|column| self.columns[column].with(position, |cell| row.push(cell)));
                return true;
            }
            return false;
        }
        if !self.is_seen(view, position) {
            return false;
        }
        columns.clone().for_each(|column| self.columns[column].with(position, |cell| row.push(cell)));
        for record in self.unseen(view, head) {
            for image in self.undo.images(record) {
                for (at, _) in columns.clone().enumerate().filter(|(_, column)| *column == image.column) {
                    image.with(|cell| row.set(at, cell));
                }
            }
        }
        true
    }

    /// Whether the view sees a row, with values in these columns that make a key.
    pub(crate) fn has_key(&self, view: View<'_>, position: usize, columns: &[usize], key: &[u8]) -> bool {
        if position >= self.rows() {
            return false;
        }
        let head = self.marks.head(position);
        if head != 0 {
            if !self.is_seen(view, position) {
                return false;
            }
            let mut images = self.unseen(view, head).flat_map(|record| self.undo.images(record));
            if images.any(|image| columns.contains(&image.column)) {
                let mut row = Row::default();
                self.read(view, position, columns.iter().copied(), &mut row);
                let cells = row.cells().zip(columns).map(|(cell, column)| (cell, self.columns[*column].physical()));
                return is_key(key, cells);
            }
        } else if !self.present.get(position) {
            return false;
        }
        let mut rest = Some(key);
        for column in columns.iter().map(|column| &self.columns[*column]) {
            let Some(key) = rest else { return false };
            rest = column.with(position, |cell| behind_cell(key, cell, column.physical()));
        }
        rest.is_some_and(<[u8]>::is_empty)
    }

    /// What the view's transaction has made of a row that it has written.
    pub(crate) fn own_change(
        &self,
        view: View<'_>,
        position: usize,
        columns: &mut Vec<usize>,
        row: &mut Row,
    ) -> OwnChange {
        columns.clear();
        row.clear();
        if position >= self.rows() || !self.present.get(position) {
            return OwnChange::Gone;
        }
        let (mut number, mut is_new) = (self.marks.head(position), false);
        while number != 0 {
            let record = self.undo.record(number);
            if self.undo.stamp(record) != view.own {
                break;
            }
            is_new |= record.existence != Existence::Same;
            columns.extend(self.undo.images(record).map(|image| image.column));
            number = record.next;
        }
        if is_new {
            columns.clear();
            columns.extend(0..self.columns.len());
        }
        columns.sort_unstable();
        columns.dedup();
        columns.iter().for_each(|column| self.columns[*column].with(position, |cell| row.push(cell)));
        if is_new { OwnChange::Row } else { OwnChange::Columns }
    }

    /// Copies rows as the view sees them.
    pub(crate) fn scan(&self, view: View<'_>, rows: Range<usize>, columns: &[usize], batch: &mut Batch) {
        let rows = rows.start.min(self.rows())..rows.end.min(self.rows());
        batch.load(&self.present, &self.columns, columns.iter(), rows.clone());
        self.marks.versioned(&rows, view.number, |position, head| {
            let row = position - rows.start;
            for record in self.unseen(view, head) {
                match record.existence {
                    Existence::Same => (),
                    existence => batch.visible.set(row, existence == Existence::Present),
                }
                for image in self.undo.images(record) {
                    for (at, _) in columns.iter().enumerate().filter(|(_, column)| **column == image.column) {
                        image.with(|cell| batch.columns[at].set(row, cell));
                    }
                }
            }
        });
    }

    /// The rows that the view sees.
    pub(crate) fn visible(&self, view: View<'_>) -> Bits {
        let mut visible = self.present.clone();
        if self.undo.changes_existence() {
            self.marks.versioned(&(0..self.rows()), view.number, |position, _| {
                visible.set(position, self.is_seen(view, position));
            });
        }
        visible
    }

    /// How many rows are there, whoever has written them.
    pub(crate) fn newest_count(&self) -> usize {
        self.present.count_ones()
    }

    /// How many rows the view sees.
    pub(crate) fn count(&self, view: View<'_>) -> usize {
        let mut count = self.present.count_ones();
        if self.undo.changes_existence() {
            self.marks.versioned(&(0..self.rows()), view.number, |position, _| {
                count += usize::from(self.is_seen(view, position));
                count -= usize::from(self.present.get(position));
            });
        }
        count
    }

    /// Calls `each` with the position of every row that a commit after `since` and up to `now` has changed, and with its number.
    pub(crate) fn changed(&self, since: CommitNumber, now: View<'_>, mut each: impl FnMut(usize, CommitNumber)) {
        self.marks.versioned(&(0..self.rows()), since, |position, head| {
            let mut number = head;
            while number != 0 {
                let record = self.undo.record(number);
                let stamp = self.undo.stamp(record);
                if now.sees(stamp) {
                    if stamp > since {
                        each(position, stamp);
                    }
                    return;
                }
                number = record.next;
            }
        });
    }
}
