//! A column as it comes to be encoded: values in memory, in any alignment, with an optional validity bitmap.

use forebay_base::{Error, PhysicalType, Result, limits};

use crate::native::Native;
use crate::validity;

/// One column of the rows of one future block.
#[derive(Debug, Clone, Copy)]
pub struct PlainColumn<'a> {
    /// Physical type of the values.
    pub physical: PhysicalType,
    /// Rows, at most `limits::BLOCK_ROWS`.
    pub rows: usize,
    /// Bitmap with least significant bit first, 1 = valid, bit 0 = row 0; `None` = no NULLs.
    pub validity: Option<&'a [u8]>,
    /// The values.
    pub values: PlainValues<'a>,
}

/// The values of a [`PlainColumn`].
#[derive(Debug, Clone, Copy)]
pub enum PlainValues<'a> {
    /// `rows * width` little-endian bytes in any alignment; NULL rows hold anything.
    Fixed(&'a [u8]),
    /// One slice per row; NULL rows hold anything.
    Bytes(&'a [&'a [u8]]),
}

/// Bytes of one entry of an offsets section.
pub(crate) const OFFSET_BYTES: usize = size_of::<u32>();

/// Rows that are handed out at a time: small enough to stay in the first-level cache, whole validity words.
const PIECE_ROWS: usize = 1024;

impl<'a> PlainColumn<'a> {
    /// Checks that lengths and types agree. A failure is a bug of the caller.
    pub(crate) fn check(&self) -> Result<()> {
        let wrong = |what: String| Err(Error::internal(format!("cannot encode a block: {what}")));
        if self.rows > limits::BLOCK_ROWS {
            return wrong(format!("{} rows, a block holds {}", self.rows, limits::BLOCK_ROWS));
        }
        if self.validity.is_some_and(|bitmap| bitmap.len() < self.rows.div_ceil(8)) {
            return wrong(format!("the validity bitmap is too short for {} rows", self.rows));
        }
        let (found, expected) = match (self.values, self.physical.width()) {
            (PlainValues::Fixed(bytes), Some(width)) => (bytes.len(), self.rows * width),
            (PlainValues::Bytes(values), None) => (values.len(), self.rows),
            _ => return wrong(format!("values do not match the type {:?}", self.physical)),
        };
        if found != expected {
            return wrong(format!("values have length {found}, expected {expected}"));
        }
        Ok(())
    }
}

/// Fixed-width values in memory, with NULL rows replaced by one `fill` value so that no later pass has to look at
/// validity.
#[derive(Clone, Copy)]
pub(crate) struct FixedRows<'a, T> {
    bytes: &'a [u8],
    validity: Option<&'a [u8]>,
    fill: T,
}

impl<'a, T: Native> FixedRows<'a, T> {
    /// `validity` is given only where there are NULLs and valid rows; NULL rows then read as the first valid value.
    pub(crate) fn new(bytes: &'a [u8], validity: Option<&'a [u8]>) -> Self {
        let mut rows = Self { bytes, validity: None, fill: T::zeroed() };
        if let Some(first) = validity.and_then(validity::first_valid) {
            rows.fill = rows.get(first);
            rows.validity = validity;
        }
        rows
    }

    pub(crate) fn len(&self) -> usize {
        self.bytes.len() / T::WIDTH
    }

    /// The value of one row.
    pub(crate) fn get(&self, row: usize) -> T {
        if self.validity.is_some_and(|bitmap| !validity::is_valid(bitmap, row)) {
            return self.fill;
        }
        bytemuck::pod_read_unaligned(&self.bytes[row * T::WIDTH..][..T::WIDTH])
    }

    /// Calls `visit` with consecutive pieces of the values.
    pub(crate) fn for_each_piece(&self, mut visit: impl FnMut(&[T])) {
        let mut copy = [T::zeroed(); PIECE_ROWS];
        for (piece, bytes) in self.bytes.chunks(PIECE_ROWS * T::WIDTH).enumerate() {
            let rows = bytes.len() / T::WIDTH;
            let validity = self.validity.map(|bitmap| &bitmap[piece * PIECE_ROWS / 8..]);
            let all_valid = validity.is_none_or(|bitmap| validity::all_valid(bitmap, rows));
            match bytemuck::try_cast_slice(bytes) {
                Ok(values) if all_valid => visit(values),
                _ => {
                    bytemuck::cast_slice_mut(&mut copy[..rows]).copy_from_slice(bytes);
                    if let (false, Some(bitmap)) = (all_valid, validity) {
                        for (row, value) in copy[..rows].iter_mut().enumerate() {
                            *value = if validity::is_valid(bitmap, row) { *value } else { self.fill };
                        }
                    }
                    visit(&copy[..rows]);
                }
            }
        }
    }
}

/// A fixed-width column of which at least one row is valid, with what every encoding asks of it.
pub(crate) struct FixedColumn<'a, T> {
    pub(crate) rows: FixedRows<'a, T>,
    /// Smallest key.
    pub(crate) low: i128,
    /// Largest key.
    pub(crate) high: i128,
    /// Whether all values have the same bits (equal keys may differ: -0 and 0, NaNs).
    pub(crate) is_constant: bool,
}

impl<'a, T: Native> FixedColumn<'a, T> {
    /// `validity` is given only where there are NULLs and valid rows.
    pub(crate) fn new(bytes: &'a [u8], validity: Option<&'a [u8]>) -> Self {
        let rows = FixedRows::<T>::new(bytes, validity);
        let first = rows.get(0);
        // NULL rows read as a valid value and so change nothing.
        let (mut min, mut max) = (first.key(), first.key());
        rows.for_each_piece(|piece| {
            for value in piece {
                let key = value.key();
                min = min.min(key);
                max = max.max(key);
            }
        });
        let mut is_constant = min == max;
        if is_constant {
            rows.for_each_piece(|piece| is_constant &= piece.iter().all(|value| value.bits() == first.bits()));
        }
        Self { rows, low: min.into(), high: max.into(), is_constant }
    }
}

/// Strings of which at least one is valid, with what every encoding asks of them.
pub(crate) struct StringColumn<'a> {
    values: &'a [&'a [u8]],
    validity: Option<&'a [u8]>,
    /// The first valid row.
    first: usize,
    /// Whether all valid rows have the same bytes.
    pub(crate) is_constant: bool,
    /// Bytes of all strings and their offsets, uncompressed.
    pub(crate) plain_bytes: usize,
}

impl<'a> StringColumn<'a> {
    /// `validity` is given only where there are NULLs and valid rows.
    pub(crate) fn new(values: &'a [&'a [u8]], validity: Option<&'a [u8]>) -> Self {
        let first = validity.and_then(validity::first_valid).unwrap_or(0);
        let mut column = Self { values, validity, first, is_constant: false, plain_bytes: 0 };
        column.is_constant = (0..values.len()).all(|row| column.filled(row) == values[first]);
        column.plain_bytes = (values.len() + 1) * OFFSET_BYTES + column.string_bytes();
        column
    }

    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    pub(crate) fn is_valid(&self, row: usize) -> bool {
        self.validity.is_none_or(|bitmap| validity::is_valid(bitmap, row))
    }

    /// The string of one row, empty where it is NULL.
    pub(crate) fn get(&self, row: usize) -> &'a [u8] {
        if self.is_valid(row) { self.values[row] } else { &[] }
    }

    /// The string of one row, that of the first valid row where it is NULL.
    pub(crate) fn filled(&self, row: usize) -> &'a [u8] {
        self.values[if self.is_valid(row) { row } else { self.first }]
    }

    /// The first valid string.
    pub(crate) fn first(&self) -> &'a [u8] {
        self.values[self.first]
    }

    /// Bytes of all valid strings.
    pub(crate) fn string_bytes(&self) -> usize {
        (0..self.len()).map(|row| self.get(row).len()).sum()
    }
}
