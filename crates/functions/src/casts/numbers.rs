//! Casts between numbers, and between timestamps of different units, that Arrow does with fewer digits.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Array, Float32Array, PrimitiveArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type,
    Float32Type, Float64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    i256,
};
use datafusion::arrow::error::ArrowError;

/// Arrow's cast.
type Plain<'a> = dyn Fn(&ArrayRef, &DataType) -> Result<ArrayRef, ArrowError> + 'a;

/// The first number of 39 digits.
const BEYOND_HUGEINT: f64 = 1e38;

/// Floats as HUGEINT: half to even, as other integers.
pub(crate) fn hugeints(array: &ArrayRef, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let doubles = cast(array, &DataType::Float64)?;
    let convert = |value: f64| {
        let rounded = value.round_ties_even();
        (rounded.abs() < BEYOND_HUGEINT).then_some(rounded as i128)
    };
    let doubles = doubles.as_primitive::<Float64Type>();
    let values: Decimal128Array = match or_null {
        true => doubles.unary_opt(convert),
        false => doubles.try_unary(|value| {
            convert(value).ok_or_else(|| ArrowError::CastError(format!("{value:e} is out of the range of HUGEINT")))
        })?,
    };
    Ok(Arc::new(values.with_precision_and_scale(38, 0)?))
}

/// DOUBLE as FLOAT, which has no finite value beyond its range.
pub(crate) fn singles(array: &ArrayRef, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let convert = |value: f64| {
        let single = value as f32;
        (single.is_finite() || !value.is_finite()).then_some(single)
    };
    let doubles = array.as_primitive::<Float64Type>();
    let singles: Float32Array = match or_null {
        true => doubles.unary_opt(convert),
        false => doubles.try_unary(|value| {
            convert(value).ok_or_else(|| ArrowError::CastError(format!("{value:e} is out of the range of FLOAT")))
        })?,
    };
    Ok(Arc::new(singles))
}

/// Decimals as floats: where a float cannot hold all digits, the digits before and those behind the point on their own, as
/// DuckDB does it.
pub(crate) fn floats_of_decimals(
    array: &ArrayRef,
    target: &DataType,
    plain: &Plain<'_>,
) -> Result<ArrayRef, ArrowError> {
    let (values, scale) = match array.data_type() {
        DataType::Decimal128(_, scale) if (0..=38).contains(scale) => {
            (array.as_primitive::<Decimal128Type>().clone(), scale.unsigned_abs())
        }
        DataType::Decimal256(_, scale) if (0..=38).contains(scale) => {
            let wide = array.as_primitive::<Decimal256Type>();
            if wide.iter().flatten().any(|value| value.to_i128().is_none()) {
                return plain(array, target);
            }
            let narrow = wide.unary::<_, Decimal128Type>(|value| value.to_i128().unwrap_or_default());
            (narrow, scale.unsigned_abs())
        }
        _ => return plain(array, target),
    };
    let divisor = power_of_ten(scale);
    Ok(match target {
        // The nearest FLOAT to the DOUBLE.
        DataType::Float32 => {
            Arc::new(values.unary::<_, Float32Type>(|value| double_of_decimal(value, scale, divisor) as f32))
        }
        _ => Arc::new(values.unary::<_, Float64Type>(|value| double_of_decimal(value, scale, divisor))),
    })
}

/// Integers up to here are floats without loss.
const EXACT_DOUBLE: i128 = 1 << f64::MANTISSA_DIGITS;

/// The float that is nearest to a power of ten, which products of tens are not beyond the 22nd.
pub fn power_of_ten(digits: u8) -> f64 {
    format!("1e{digits}").parse().expect("a number in the range of floats")
}

/// `divisor` is the power of ten of the scale.
fn double_of_decimal(value: i128, scale: u8, divisor: f64) -> f64 {
    if scale == 0 || value.abs() <= EXACT_DOUBLE {
        return value as f64 / divisor;
    }
    let power = 10_i128.pow(u32::from(scale));
    (value / power) as f64 + (value % power) as f64 / divisor
}

/// Timestamps in another unit: half away from zero where that is a coarser one.
pub(crate) fn timestamps(array: &ArrayRef, target: &DataType, plain: &Plain<'_>) -> Result<ArrayRef, ArrowError> {
    let (DataType::Timestamp(from, _), DataType::Timestamp(to, _)) = (array.data_type(), target) else {
        return plain(array, target);
    };
    let ratio = per_second(*from) / per_second(*to);
    match from {
        _ if ratio <= 1 => plain(array, target),
        TimeUnit::Second => plain(array, target),
        TimeUnit::Millisecond => plain(&rounded::<TimestampMillisecondType>(array, ratio), target),
        TimeUnit::Microsecond => plain(&rounded::<TimestampMicrosecondType>(array, ratio), target),
        TimeUnit::Nanosecond => plain(&rounded::<TimestampNanosecondType>(array, ratio), target),
    }
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// The timestamps at multiples of `ratio`, so that Arrow, which cuts digits off, loses none.
fn rounded<T: ArrowTimestampType>(array: &ArrayRef, ratio: i64) -> ArrayRef {
    let round = |value: i64| {
        let (quotient, rest) = (value / ratio, value % ratio);
        let nearest = if rest.abs() >= ratio - rest.abs() { quotient + rest.signum() } else { quotient };
        nearest.saturating_mul(ratio)
    };
    let values: PrimitiveArray<T> = array.as_primitive::<T>().unary(round);
    Arc::new(values.with_data_type(array.data_type().clone()))
}

/// Whether a value has more digits than DECIMAL(38, …).
pub(super) fn has_more_digits(array: &ArrayRef) -> bool {
    let most = 10_u128.pow(DECIMAL128_MAX_PRECISION.into());
    array.as_primitive::<Decimal128Type>().iter().flatten().any(|value| value.unsigned_abs() >= most)
}

/// The same values with room for more digits.
pub(super) fn widened(array: &ArrayRef, scale: i8) -> Result<ArrayRef, ArrowError> {
    let wide = array.as_primitive::<Decimal128Type>().unary::<_, Decimal256Type>(i256::from_i128);
    Ok(Arc::new(wide.with_precision_and_scale(DECIMAL256_MAX_PRECISION, scale)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_become_the_nearest_float_of_their_parts() {
        assert_eq!(double_of_decimal(9_999_999_999_999_999_999_999_999, 5, 1e5), 1e20);
        assert_eq!(double_of_decimal(10_i128.pow(36), 37, power_of_ten(37)), 0.1);
        assert_eq!(double_of_decimal(-150, 2, 100.0), -1.5);
        assert_eq!(double_of_decimal(11_000_000_000, 10, power_of_ten(10)) as f32, 1.1);
    }
}
