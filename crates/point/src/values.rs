//! Values and their types, as far as programs compute with them: numbers exactly, texts byte by byte, and others as they are.
//!
//! Must not know: columns of which table, statements.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    TimeUnit as ArrowUnit, TimestampMicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_base::{LogicalType, PhysicalType, TimeUnit, Value, canonical_f64};
use forebay_store::Cell;

/// No decimal that a program computes has a greater value, without its point: whatever precision SQL gives its type, it fits.
pub(crate) const DECIMAL_BOUND: i128 = 10_i128.pow(17);

/// What a value is to a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An integer. What is computed of it is to lie within these bounds, if there are any: those of the narrowest column that takes part, so that
    /// no type that SQL could give the result overflows.
    Integer(Option<(i128, i128)>),
    /// A decimal with so many digits behind its point.
    Decimal(u8),
    /// Text.
    Text,
    /// A value that is only compared with others of its type, or stored.
    Other(LogicalType),
}

/// A value: numbers, dates and so on as integers, without their point; floats as their bits; texts and blobs as bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Datum<'a> {
    Integer(i128),
    Bytes(Cow<'a, [u8]>),
    // Behind all others, as ORDER BY has it.
    Null,
}

impl Kind {
    /// That of a column's values; `None` of intervals, which programs only pass on.
    pub(crate) fn of(logical: &LogicalType) -> Option<Self> {
        Some(match logical {
            LogicalType::Interval => return None,
            LogicalType::Decimal { scale, .. } => Self::Decimal(*scale),
            LogicalType::Varchar => Self::Text,
            other => match bounds(other) {
                Some(bounds) => Self::Integer(Some(bounds)),
                None => Self::Other(other.clone()),
            },
        })
    }

    /// Whether values of both are compared as SQL does.
    pub(crate) fn is_comparable(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Integer(_) | Self::Decimal(_), Self::Integer(_) | Self::Decimal(_)) => true,
            (one, other) => one == other && one.has_order(),
        }
    }

    /// Whether values are ordered as their integers or bytes are, which floats are not.
    pub(crate) fn has_order(&self) -> bool {
        !matches!(self, Self::Other(LogicalType::Float32 | LogicalType::Float64))
    }

    /// Digits behind the point.
    pub(crate) fn scale(&self) -> u8 {
        match self {
            Self::Decimal(scale) => *scale,
            _ => 0,
        }
    }

    /// Whether a column may get such values.
    pub(crate) fn is_stored_as(&self, logical: &LogicalType) -> bool {
        Self::of(logical).is_some_and(|kind| self.is_comparable(&kind) || *self == kind)
    }
}

/// Least and greatest value of an integer type.
fn bounds(logical: &LogicalType) -> Option<(i128, i128)> {
    Some(match logical {
        LogicalType::Int8 => (i8::MIN.into(), i8::MAX.into()),
        LogicalType::Int16 => (i16::MIN.into(), i16::MAX.into()),
        LogicalType::Int32 => (i32::MIN.into(), i32::MAX.into()),
        LogicalType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        LogicalType::UInt8 => (0, u8::MAX.into()),
        LogicalType::UInt16 => (0, u16::MAX.into()),
        LogicalType::UInt32 => (0, u32::MAX.into()),
        LogicalType::UInt64 => (0, u64::MAX.into()),
        _ => return None,
    })
}

impl<'a> Datum<'a> {
    /// A value of a column.
    pub(crate) fn of(cell: Cell<'a>, physical: PhysicalType) -> Self {
        match cell {
            Cell::Null => Self::Null,
            Cell::Bytes(bytes) => Self::Bytes(Cow::Borrowed(bytes)),
            Cell::Fixed(bits) => match cell.value(physical) {
                Some(Value::Int(int)) => Self::Integer(int),
                // Of floats the bits, which are only passed on.
                _ => Self::Integer(bits as i128),
            },
        }
    }

    /// The value as a column holds it whose type it was stored as.
    pub(crate) fn cell(&self, physical: PhysicalType) -> Cell<'_> {
        match self {
            Self::Null => Cell::Null,
            Self::Bytes(bytes) => Cell::Bytes(bytes),
            Self::Integer(int) => {
                let bits = 8 * physical.width().unwrap_or(size_of::<u128>()) as u32;
                let mask = if bits == u128::BITS { u128::MAX } else { (1 << bits) - 1 };
                Cell::Fixed(*int as u128 & mask)
            }
        }
    }

    /// The value as a column of a type gets it; `None` where it would be rounded or does not fit.
    pub(crate) fn stored(self, kind: &Kind, logical: &LogicalType) -> Option<Self> {
        let Self::Integer(int) = self else { return Some(self) };
        match logical {
            LogicalType::Decimal { precision, scale } => {
                let int = rescaled(int, kind.scale(), *scale)?;
                (int.unsigned_abs() < 10_u128.pow((*precision).into())).then_some(Self::Integer(int))
            }
            other => match bounds(other) {
                Some((least, most)) => {
                    let int = rescaled(int, kind.scale(), 0)?;
                    (least..=most).contains(&int).then_some(Self::Integer(int))
                }
                None => Some(Self::Integer(int)),
            },
        }
    }
}

/// A number with other digits behind its point; `None` where some would be lost, or it becomes too large.
pub(crate) fn rescaled(int: i128, from: u8, to: u8) -> Option<i128> {
    match from <= to {
        true => int.checked_mul(10_i128.checked_pow((to - from).into())?),
        false => {
            let divisor = 10_i128.checked_pow((from - to).into())?;
            (int % divisor == 0).then(|| int / divisor)
        }
    }
}

/// The values of a statement's parameters, in their order.
#[derive(Debug)]
pub struct Parameters<'a> {
    pub(crate) values: Vec<Datum<'a>>,
}

impl<'a> Parameters<'a> {
    /// From arrays of one value each; `None` where there is one that programs do not take.
    pub fn of(arrays: &'a [ArrayRef]) -> Option<Self> {
        Some(Self { values: arrays.iter().map(datum).collect::<Option<_>>()? })
    }
}

/// What a parameter of this type is; `None` of types that programs do not take.
pub(crate) fn parameter_kind(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        // As literals, they have no type of their own that could overflow.
        DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64 => Kind::Integer(None),
        DataType::Decimal128(_, scale) => Kind::Decimal(u8::try_from(*scale).ok()?),
        DataType::Utf8 => Kind::Text,
        DataType::Binary => Kind::Other(LogicalType::Blob),
        DataType::Boolean => Kind::Other(LogicalType::Bool),
        DataType::Float64 => Kind::Other(LogicalType::Float64),
        DataType::Date32 => Kind::Other(LogicalType::Date),
        DataType::Timestamp(ArrowUnit::Microsecond, None) => {
            Kind::Other(LogicalType::Timestamp { unit: TimeUnit::Micro, zone: None })
        }
        _ => return None,
    })
}

fn datum(array: &ArrayRef) -> Option<Datum<'_>> {
    if array.len() != 1 {
        return None;
    }
    if array.is_null(0) {
        return Some(Datum::Null);
    }
    macro_rules! integer {
        ($of:ty) => {
            Datum::Integer(array.as_primitive::<$of>().value(0).into())
        };
    }
    Some(match array.data_type() {
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Decimal128(..) => Datum::Integer(array.as_primitive::<Decimal128Type>().value(0)),
        DataType::Boolean => Datum::Integer(array.as_boolean().value(0).into()),
        DataType::Float64 => {
            Datum::Integer(canonical_f64(array.as_primitive::<Float64Type>().value(0)).to_bits().into())
        }
        DataType::Date32 => integer!(Date32Type),
        DataType::Timestamp(ArrowUnit::Microsecond, None) => integer!(TimestampMicrosecondType),
        DataType::Utf8 => Datum::Bytes(Cow::Borrowed(array.as_string::<i32>().value(0).as_bytes())),
        DataType::Binary => Datum::Bytes(Cow::Borrowed(array.as_binary::<i32>().value(0))),
        _ => return None,
    })
}
