//! Single values on their way in and out, and rows of them.
//!
//! Invariant: a fixed value's bits beyond its type's width are 0. Must not know: chunks, versions.

use forebay_base::{PhysicalType, Value, canonical_f32, canonical_f64};

/// One value: NULL, the bits of a value of fixed width, or bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cell<'a> {
    /// NULL.
    Null,
    /// The little-endian bits of an integer or a float, in the low bytes; the bytes above are 0.
    Fixed(u128),
    /// Text or blob.
    Bytes(&'a [u8]),
}

impl<'a> Cell<'a> {
    /// The value as a column of a physical type holds it; `None` for NULL.
    ///
    /// # Panics
    /// Where the value is not of the type's family, or does not fit.
    pub fn of(value: Option<&'a Value>, physical: PhysicalType) -> Self {
        match (value, physical) {
            (None, _) => Self::Null,
            (Some(Value::Bytes(bytes)), PhysicalType::Bytes) => Self::Bytes(bytes),
            (Some(Value::Float(float)), PhysicalType::F64) => Self::Fixed(canonical_f64(*float).to_bits().into()),
            (Some(Value::Float(float)), PhysicalType::F32) => {
                Self::Fixed(canonical_f32(*float as f32).to_bits().into())
            }
            (Some(Value::Int(int)), PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes) => {
                panic!("{int} is no value of {physical:?}")
            }
            (Some(Value::Int(int)), _) => {
                let bits = *int as u128 & mask(physical);
                assert_eq!(integer(bits, physical), *int, "an integer fits its column");
                Self::Fixed(bits)
            }
            (Some(other), _) => panic!("{other:?} is no value of {physical:?}"),
        }
    }

    /// The value of a column of a physical type; `None` for NULL.
    ///
    /// # Panics
    /// Where the type is not that of the cell.
    pub fn value(self, physical: PhysicalType) -> Option<Value> {
        match self {
            Self::Null => None,
            Self::Bytes(bytes) => Some(Value::Bytes(bytes.to_vec())),
            Self::Fixed(bits) => Some(match physical {
                PhysicalType::F32 => Value::Float(f32::from_bits(bits as u32).into()),
                PhysicalType::F64 => Value::Float(f64::from_bits(bits as u64)),
                PhysicalType::Bytes => panic!("a string is no fixed value"),
                _ => Value::Int(integer(bits, physical)),
            }),
        }
    }

    /// The integer that it is in a column of this type; `None` for NULL, strings and floats.
    pub fn integer(self, physical: PhysicalType) -> Option<i128> {
        match (self, physical) {
            (Self::Null | Self::Bytes(_), _) | (_, PhysicalType::F32 | PhysicalType::F64) => None,
            (Self::Fixed(bits), _) => Some(integer(bits, physical)),
        }
    }

    /// A value of an 8-byte integer column.
    pub fn i64(value: i64) -> Self {
        Self::Fixed(u128::from(value as u64))
    }

    /// The value as an 8-byte integer; `None` for NULL and strings.
    pub fn as_i64(self) -> Option<i64> {
        match self {
            Self::Fixed(bits) => Some(bits as u64 as i64),
            Self::Null | Self::Bytes(_) => None,
        }
    }

    /// Whether a column of this type can hold it.
    pub fn fits(self, physical: PhysicalType) -> bool {
        match self {
            Self::Null => true,
            Self::Fixed(bits) => physical != PhysicalType::Bytes && bits & !mask(physical) == 0,
            Self::Bytes(_) => physical == PhysicalType::Bytes,
        }
    }
}

/// Ones where a value of the type has bits.
fn mask(physical: PhysicalType) -> u128 {
    match physical.width() {
        Some(width) if width < 16 => (1 << (8 * width)) - 1,
        _ => u128::MAX,
    }
}

/// The integer that these bits are in a column of the type.
pub(crate) fn integer(bits: u128, physical: PhysicalType) -> i128 {
    match physical {
        PhysicalType::I8 => (bits as i8).into(),
        PhysicalType::I16 => (bits as i16).into(),
        PhysicalType::I32 => (bits as i32).into(),
        PhysicalType::I64 => (bits as i64).into(),
        _ => bits as i128,
    }
}

/// Memory for the texts of a row at first.
const TEXT_BYTES: usize = 128;

/// The values of one row, in memory of its own that is used again from row to row.
#[derive(Debug, Clone, Default)]
pub struct Row {
    slots: Vec<Slot>,
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
enum Slot {
    Null,
    Fixed(u128),
    /// Where in `bytes`.
    Bytes(usize, usize),
}

impl Row {
    /// One without values that has room for so many.
    pub fn with_capacity(values: usize) -> Self {
        Self { slots: Vec::with_capacity(values), bytes: Vec::new() }
    }

    /// Number of values.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether it has no values.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The value at an index.
    pub fn cell(&self, at: usize) -> Cell<'_> {
        match self.slots[at] {
            Slot::Null => Cell::Null,
            Slot::Fixed(bits) => Cell::Fixed(bits),
            Slot::Bytes(start, length) => Cell::Bytes(&self.bytes[start..start + length]),
        }
    }

    /// All values.
    pub fn cells(&self) -> impl Iterator<Item = Cell<'_>> {
        (0..self.len()).map(|at| self.cell(at))
    }

    /// Takes all values out.
    pub fn clear(&mut self) {
        self.slots.clear();
        self.bytes.clear();
    }

    /// Adds a value behind the others.
    pub fn push(&mut self, cell: Cell<'_>) {
        let slot = self.slot(cell);
        self.slots.push(slot);
    }

    pub(crate) fn set(&mut self, at: usize, cell: Cell<'_>) {
        self.slots[at] = self.slot(cell);
    }

    fn slot(&mut self, cell: Cell<'_>) -> Slot {
        match cell {
            Cell::Null => Slot::Null,
            Cell::Fixed(bits) => Slot::Fixed(bits),
            Cell::Bytes(bytes) => {
                let start = self.bytes.len();
                if self.bytes.capacity() == 0 {
                    // One piece of memory for all texts of most rows.
                    self.bytes.reserve(bytes.len().max(TEXT_BYTES));
                }
                self.bytes.extend_from_slice(bytes);
                Slot::Bytes(start, bytes.len())
            }
        }
    }
}

impl PartialEq for Row {
    fn eq(&self, other: &Self) -> bool {
        self.cells().eq(other.cells())
    }
}

impl Eq for Row {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let ints = [(-1, PhysicalType::I8), (255, PhysicalType::U8), (i128::MIN, PhysicalType::I128)];
        for (int, physical) in ints.into_iter().chain([(-70_000, PhysicalType::I32), (1 << 63, PhysicalType::U64)]) {
            let value = Value::Int(int);
            let cell = Cell::of(Some(&value), physical);
            assert!(cell.fits(physical));
            assert_eq!(cell.value(physical), Some(value));
        }
        let float = Value::Float(-0.0);
        assert_eq!(Cell::of(Some(&float), PhysicalType::F64), Cell::Fixed(0));
        assert_eq!(
            Cell::of(Some(&Value::Float(1.5)), PhysicalType::F32).value(PhysicalType::F32),
            Some(Value::Float(1.5))
        );
        assert_eq!(Cell::i64(-3).as_i64(), Some(-3));
        assert!(!Cell::Fixed(256).fits(PhysicalType::U8));
    }
}
