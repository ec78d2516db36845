//! The newest values of one column of a chunk, in place.
//!
//! Invariant: a NULL's bits are 0, so that it holds no string. Must not know: versions, which rows are there.

use forebay_base::PhysicalType;

use crate::bits::Bits;
use crate::bounds::Bounds;
use crate::cell::Cell;
use crate::fixed::Fixed;
use crate::heap::Heap;

/// Values, validity and bounds.
#[derive(Debug)]
pub(crate) struct Column {
    physical: PhysicalType,
    /// Of strings their slots.
    values: Fixed,
    /// 1 = not NULL.
    valid: Bits,
    heap: Heap,
    bounds: Bounds,
}

/// Bytes of the slot of a string.
pub(crate) const SLOT_BYTES: usize = 16;

impl Column {
    pub(crate) fn new(physical: PhysicalType) -> Self {
        let values = Fixed::of_width(physical.width().unwrap_or(SLOT_BYTES));
        Self { physical, values, valid: Bits::default(), heap: Heap::default(), bounds: Bounds::new(physical) }
    }

    pub(crate) fn physical(&self) -> PhysicalType {
        self.physical
    }

    /// Bytes of each value, those of a long string apart.
    pub(crate) fn width(&self) -> usize {
        self.physical.width().unwrap_or(SLOT_BYTES)
    }

    pub(crate) fn values(&self) -> &Fixed {
        &self.values
    }

    pub(crate) fn valid(&self) -> &Bits {
        &self.valid
    }

    pub(crate) fn heap(&self) -> &Heap {
        &self.heap
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    pub(crate) fn push(&mut self, cell: Cell<'_>) {
        self.bounds.take_in(cell);
        let bits = self.bits(cell);
        self.values.push(bits);
        self.valid.push(cell != Cell::Null);
    }

    /// Adds a position that has no row.
    pub(crate) fn push_nothing(&mut self) {
        self.values.push(0);
        self.valid.push(true);
    }

    /// Gives the value at a position to `read`.
    #[inline]
    pub(crate) fn with<R>(&self, at: usize, read: impl FnOnce(Cell<'_>) -> R) -> R {
        if self.bounds.has_nulls() && !self.valid.get(at) {
            return read(Cell::Null);
        }
        let bits = self.values.get(at);
        match self.physical {
            PhysicalType::Bytes => self.heap.with(bits, |string| read(Cell::Bytes(string))),
            _ => read(Cell::Fixed(bits)),
        }
    }

    /// Overwrites the value at a position.
    #[inline]
    pub(crate) fn set(&mut self, at: usize, cell: Cell<'_>) {
        self.bounds.take_in(cell);
        self.put(at, cell);
    }

    /// As [`Column::set`], with a value that was there before.
    pub(crate) fn put(&mut self, at: usize, cell: Cell<'_>) {
        if self.physical == PhysicalType::Bytes {
            self.heap.forget(self.values.get(at));
        }
        let bits = self.bits(cell);
        self.values.set(at, bits);
        if self.bounds.has_nulls() {
            self.valid.set(at, cell != Cell::Null);
        }
        if self.heap.is_wasteful()
            && let Fixed::W16(slots) = &mut self.values
        {
            self.heap.rewrite(slots);
        }
    }

    fn bits(&mut self, cell: Cell<'_>) -> u128 {
        match cell {
            Cell::Null => 0,
            Cell::Fixed(bits) => bits,
            Cell::Bytes(string) => self.heap.keep(string),
        }
    }

    /// Bytes of values and validity, the heap apart.
    pub(crate) fn row_bytes(&self) -> usize {
        self.values.bytes() + self.valid.bytes()
    }
}
