//! Arrow's types as the values of pipelines: which there are, how far they go, how constants of them are written.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::ScalarValue;
use forebay_base::limits;
use forebay_pipeline::ir::ValueType;

use crate::facts::{Range, ValueFacts};
use crate::reason::Reason;
use crate::scalar::Scalar;
use forebay_pipeline::interval::Interval;

/// The greatest number of so many digits, where 16 bytes hold it.
pub fn greatest_of_digits(digits: u8) -> i128 {
    match 10i128.checked_pow(u32::from(digits)) {
        Some(power) => power - 1,
        None => i128::MAX,
    }
}

/// 10 to the power of a scale.
pub fn power_of_ten(exponent: i32) -> Result<i128, Reason> {
    let exponent = u32::try_from(exponent).map_err(|_| Reason::new("a decimal has a negative scale"))?;
    10i128.checked_pow(exponent).ok_or_else(|| Reason::new("a decimal is too wide"))
}

/// Whether it is a signed or unsigned integer.
pub fn is_integer(data_type: &DataType) -> bool {
    data_type.is_integer()
}

/// Precision and scale of a decimal, and whether it is kept in 32 bytes.
pub fn decimal(data_type: &DataType) -> Option<(u8, i8, bool)> {
    match data_type {
        DataType::Decimal128(precision, scale) => Some((*precision, *scale, false)),
        DataType::Decimal256(precision, scale) => Some((*precision, *scale, true)),
        _ => None,
    }
}

/// What values of a type may be; an error for types that pipelines do not know.
pub fn facts_of(data_type: &DataType, nullable: bool) -> Result<ValueFacts, Reason> {
    use DataType as T;
    let bounds = |low: i128, high: i128| Interval::new(low, high);
    let interval = match data_type {
        T::Boolean => return Ok(ValueFacts::of(ValueType::Bool, nullable)),
        T::Float32 | T::Float64 => return Ok(ValueFacts::of(ValueType::F64, nullable)),
        T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView => {
            return Ok(ValueFacts::of(ValueType::Bytes, nullable));
        }
        T::Int8 => bounds(i8::MIN.into(), i8::MAX.into()),
        T::Int16 => bounds(i16::MIN.into(), i16::MAX.into()),
        T::Int32 | T::Date32 => bounds(i32::MIN.into(), i32::MAX.into()),
        T::Int64 | T::Time64(TimeUnit::Microsecond) | T::Timestamp(..) => Interval::I64,
        T::UInt8 => bounds(0, u8::MAX.into()),
        T::UInt16 => bounds(0, u16::MAX.into()),
        T::UInt32 => bounds(0, u32::MAX.into()),
        T::UInt64 => bounds(0, u64::MAX.into()),
        // Arithmetic may leave a decimal's digits without an error; only columns keep to them.
        T::Decimal128(..) | T::Decimal256(..) => Interval::I128,
        other => return Err(Reason::new(format!("type {other}"))),
    };
    Ok(ValueFacts { value: crate::facts::width(interval), nullable, interval })
}

/// How far results of arithmetic in a type may go. `wraps`: the operation does not fail where DataFusion's would wrap.
pub fn range_of(data_type: &DataType, wraps: bool) -> Result<Range, Reason> {
    use DataType as T;
    Ok(match data_type {
        T::Float64 => Range::Float,
        T::Int64 if !wraps => Range::I64,
        T::Decimal128(..) => Range::I128,
        // 32 bytes are not ours: the result must be proven to fit 16.
        T::Decimal256(..) => Range::Bounds(Interval::I128),
        _ if is_integer(data_type) => Range::Bounds(facts_of(data_type, false)?.interval),
        other => return Err(Reason::new(format!("arithmetic with {other}"))),
    })
}

/// The bounds that a column of decimals keeps to.
pub fn column_bounds(data_type: &DataType) -> Interval {
    match decimal(data_type) {
        Some((precision, ..)) => Interval::symmetric(greatest_of_digits(precision.min(limits::DECIMAL_DIGITS))),
        None => Interval::I128,
    }
}

/// A constant; an error for types that pipelines do not know.
pub fn literal(value: &ScalarValue) -> Result<Scalar, Reason> {
    use ScalarValue as S;
    if value.is_null() {
        return Ok(Scalar::null(facts_of(&value.data_type(), true)?.value));
    }
    Ok(match value {
        S::Boolean(Some(v)) => Scalar::bool(*v),
        S::Int8(Some(v)) => Scalar::integer((*v).into()),
        S::Int16(Some(v)) => Scalar::integer((*v).into()),
        S::Int32(Some(v)) | S::Date32(Some(v)) => Scalar::integer((*v).into()),
        S::Int64(Some(v))
        | S::Time64Microsecond(Some(v))
        | S::TimestampSecond(Some(v), _)
        | S::TimestampMillisecond(Some(v), _)
        | S::TimestampMicrosecond(Some(v), _)
        | S::TimestampNanosecond(Some(v), _) => Scalar::integer((*v).into()),
        S::UInt8(Some(v)) => Scalar::integer((*v).into()),
        S::UInt16(Some(v)) => Scalar::integer((*v).into()),
        S::UInt32(Some(v)) => Scalar::integer((*v).into()),
        S::UInt64(Some(v)) => Scalar::integer((*v).into()),
        S::Decimal128(Some(v), _, _) => Scalar::integer(*v),
        S::Decimal256(Some(v), _, _) => match v.to_i128() {
            Some(v) => Scalar::integer(v),
            None => return Err(Reason::new("a constant of more than 38 digits")),
        },
        S::Float32(Some(v)) => Scalar::float((*v).into()),
        S::Float64(Some(v)) => Scalar::float(*v),
        S::Utf8(Some(v)) | S::LargeUtf8(Some(v)) | S::Utf8View(Some(v)) => Scalar::bytes(v.as_bytes()),
        S::Binary(Some(v)) | S::LargeBinary(Some(v)) | S::BinaryView(Some(v)) => Scalar::bytes(v),
        other => return Err(Reason::new(format!("a constant of type {}", other.data_type()))),
    })
}

/// Types that hold the same values in the same form, so that one may stand for the other.
pub fn same_values(a: &DataType, b: &DataType) -> bool {
    use DataType as T;
    let text = |t: &DataType| matches!(t, T::Utf8 | T::LargeUtf8 | T::Utf8View);
    let blob = |t: &DataType| matches!(t, T::Binary | T::LargeBinary | T::BinaryView);
    match (a, b) {
        (T::Timestamp(a, _), T::Timestamp(b, _)) => a == b,
        _ => match (decimal(a), decimal(b)) {
            (Some((_, a, _)), Some((_, b, _))) => a == b,
            _ => a == b || (text(a) && text(b)) || (blob(a) && blob(b)),
        },
    }
}

/// Whether a result of this type can be handed over as it is.
pub fn is_collected(data_type: &DataType) -> bool {
    use DataType as T;
    is_integer(data_type)
        || matches!(
            data_type,
            T::Boolean
                | T::Float32
                | T::Float64
                | T::Decimal128(..)
                | T::Decimal256(..)
                | T::Date32
                | T::Time64(TimeUnit::Microsecond)
                | T::Timestamp(..)
                | T::Utf8View
                | T::BinaryView
        )
}
