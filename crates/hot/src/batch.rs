//! Rows as a scan gives them: columns in memory of the scan's own, and which rows are seen.
//!
//! A batch copies what lies in the chunk, so that no latch is held while it is worked on; it is used again from call to call, and a
//! few thousand rows of it stay in the processor's caches. Must not know: versions.

use std::ops::Range;

use forebay_base::PhysicalType;

use crate::bits::Bits;
use crate::cell::Cell;
use crate::column::{Column, SLOT_BYTES};
use crate::fixed::Fixed;

/// Consecutive rows of a chunk.
#[derive(Debug, Default)]
pub struct Batch {
    rows: usize,
    pub(crate) visible: Bits,
    pub(crate) columns: Vec<BatchColumn>,
}

/// The values of one column of a batch. Rows that are not seen have any value.
#[derive(Debug)]
pub struct BatchColumn {
    physical: PhysicalType,
    /// Of strings where they begin in `bytes` (low 8 bytes) and how long they are (high 8 bytes).
    values: Fixed,
    bytes: Vec<u8>,
    has_nulls: bool,
    /// 1 = not NULL; meaningful where there are NULLs.
    valid: Bits,
}

impl Batch {
    /// Number of rows, seen or not.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// A bit for every row: 1 where the snapshot sees it.
    pub fn visible(&self) -> &Bits {
        &self.visible
    }

    /// The columns, in the order in which they were asked for.
    pub fn columns(&self) -> &[BatchColumn] {
        &self.columns
    }

    /// Becomes a copy of newest values and of the rows that are there.
    pub(crate) fn load<'c>(
        &mut self,
        present: &Bits,
        all: &[Column],
        columns: impl ExactSizeIterator<Item = &'c usize>,
        rows: Range<usize>,
    ) {
        self.rows = rows.len();
        self.visible.copy_from(present, rows.start, rows.len());
        self.columns.truncate(columns.len());
        for (at, column) in columns.enumerate() {
            let column = &all[*column];
            match self.columns.get_mut(at) {
                None => self.columns.push(BatchColumn::new(column.physical())),
                Some(reused) if reused.physical != column.physical() => *reused = BatchColumn::new(column.physical()),
                Some(_) => (),
            }
            self.columns[at].load(column, rows.clone());
        }
    }
}

impl BatchColumn {
    fn new(physical: PhysicalType) -> Self {
        let values = Fixed::of_width(physical.width().unwrap_or(SLOT_BYTES));
        Self { physical, values, bytes: Vec::new(), has_nulls: false, valid: Bits::default() }
    }

    /// The type that the values' bits are of.
    pub fn physical(&self) -> PhysicalType {
        self.physical
    }

    /// The bits of all values, by width; `None` for strings.
    pub fn fixed(&self) -> Option<&Fixed> {
        (self.physical != PhysicalType::Bytes).then_some(&self.values)
    }

    /// A bit for every row, 1 where it is not NULL; `None` where no row is.
    pub fn valid(&self) -> Option<&Bits> {
        self.has_nulls.then_some(&self.valid)
    }

    /// The value of a row.
    pub fn cell(&self, row: usize) -> Cell<'_> {
        if self.has_nulls && !self.valid.get(row) {
            return Cell::Null;
        }
        let bits = self.values.get(row);
        match self.physical {
            PhysicalType::Bytes => {
                let (start, length) = (bits as u64 as usize, (bits >> 64) as usize);
                Cell::Bytes(&self.bytes[start..start + length])
            }
            _ => Cell::Fixed(bits),
        }
    }

    fn load(&mut self, column: &Column, rows: Range<usize>) {
        self.bytes.clear();
        self.has_nulls = column.bounds().has_nulls();
        if self.has_nulls {
            self.valid.copy_from(column.valid(), rows.start, rows.len());
        }
        if self.physical != PhysicalType::Bytes {
            self.values.copy_from(column.values(), rows);
            return;
        }
        self.values.clear();
        for row in rows {
            let start = self.bytes.len();
            column.heap().with(column.values().get(row), |string| self.bytes.extend_from_slice(string));
            self.values.push(start as u128 | ((self.bytes.len() - start) as u128) << 64);
        }
    }

    pub(crate) fn set(&mut self, row: usize, cell: Cell<'_>) {
        if self.has_nulls {
            self.valid.set(row, cell != Cell::Null);
        }
        let bits = match cell {
            Cell::Null => {
                debug_assert!(self.has_nulls, "bounds know of every NULL that there ever was");
                0
            }
            Cell::Fixed(bits) => bits,
            Cell::Bytes(string) => {
                let start = self.bytes.len();
                self.bytes.extend_from_slice(string);
                start as u128 | (string.len() as u128) << 64
            }
        };
        self.values.set(row, bits);
    }
}
