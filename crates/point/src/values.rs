//! Values and their types, as far as programs compute with them: numbers exactly, texts byte by byte, and others as they are.
//!
//! Must not know: columns of which table, statements.

use std::borrow::Cow;

use arrow::datatypes::{DataType, TimeUnit as ArrowUnit};
use datafusion::scalar::ScalarValue;
use forebay_base::{LogicalType, PhysicalType, TimeUnit, Value, canonical_f64};
use forebay_store::Cell;

use crate::parameter_value::ParameterValue;

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
    /// `None` where there is a value that programs do not take.
    pub fn of(values: &[&'a ParameterValue]) -> Option<Self> {
        Some(Self { values: values.iter().map(|value| datum(&value.0)).collect::<Option<_>>()? })
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

fn datum(value: &ScalarValue) -> Option<Datum<'_>> {
    fn integer(value: Option<impl Into<i128>>) -> Datum<'static> {
        value.map_or(Datum::Null, |value| Datum::Integer(value.into()))
    }
    fn bytes(value: Option<&[u8]>) -> Datum<'_> {
        value.map_or(Datum::Null, |bytes| Datum::Bytes(Cow::Borrowed(bytes)))
    }
    Some(match value {
        ScalarValue::Int8(value) => integer(*value),
        ScalarValue::Int16(value) => integer(*value),
        ScalarValue::Int32(value) => integer(*value),
        ScalarValue::Int64(value) => integer(*value),
        ScalarValue::UInt8(value) => integer(*value),
        ScalarValue::UInt16(value) => integer(*value),
        ScalarValue::UInt32(value) => integer(*value),
        ScalarValue::UInt64(value) => integer(*value),
        ScalarValue::Decimal128(value, ..) => integer(*value),
        ScalarValue::Boolean(value) => integer(*value),
        // Of floats the bits, which are only passed on.
        ScalarValue::Float64(value) => integer(value.map(|value| canonical_f64(value).to_bits())),
        ScalarValue::Date32(value) => integer(*value),
        ScalarValue::TimestampMicrosecond(value, None) => integer(*value),
        ScalarValue::Utf8(value) => bytes(value.as_deref().map(str::as_bytes)),
        ScalarValue::Binary(value) => bytes(value.as_deref()),
        _ => return None,
    })
}
