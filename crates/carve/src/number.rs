//! Arithmetic and casts of numbers, bit for bit as arrow's kernels compute them.

use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL128_MAX_SCALE, DECIMAL256_MAX_SCALE, DataType, TimeUnit,
};
use forebay_functions::casts::numbers;
use forebay_pipeline::ir::{Arithmetic, Comparison};

use crate::facts::Range;
use crate::reason::Reason;
use crate::scalar::Scalar;
use crate::types::{decimal, facts_of, greatest_of_digits, is_integer, power_of_ten, range_of, same_values};
use forebay_pipeline::interval::Interval;

/// Digits of any decimal that a float holds without loss.
const EXACT_DIGITS: u8 = 15;

/// Digits that a quotient of decimals has more than its dividend.
const QUOTIENT_DIGITS: i8 = 4;

/// A number with its type.
type Operand<'a> = (Scalar, &'a DataType);

/// `left op right` of the type `result`, which is DataFusion's.
pub fn arithmetic(
    op: Arithmetic,
    left: Operand<'_>,
    right: Operand<'_>,
    result: &DataType,
    wraps: bool,
) -> Result<Scalar, Reason> {
    if let (Some((_, left_scale, _)), Some((_, right_scale, _)), Some((_, scale, wide))) =
        (decimal(left.1), decimal(right.1), decimal(result))
    {
        let range = range_of(result, false)?;
        return decimals(op, (left.0, left_scale), (right.0, right_scale), (scale, wide), range);
    }
    if left.1 != right.1 || left.1 != result || op == Arithmetic::DivideRounded {
        return Err(Reason::new(format!("arithmetic of {} and {}", left.1, right.1)));
    }
    let range = range_of(result, wraps)?;
    if range == Range::Float && op == Arithmetic::Remainder {
        return Err(Reason::new("a remainder of floats"));
    }
    Scalar::arithmetic(op, range, left.0, right.0)
}

/// As arrow's `decimal_op`; the scales are those of the operands and of the result.
fn decimals(
    op: Arithmetic,
    (left, left_scale): (Scalar, i8),
    (right, right_scale): (Scalar, i8),
    (scale, wide): (i8, bool),
    range: Range,
) -> Result<Scalar, Reason> {
    let (left_digits, right_digits, expected) = match op {
        Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Remainder => {
            let most = left_scale.max(right_scale);
            (most - left_scale, most - right_scale, most)
        }
        Arithmetic::Multiply => (0, 0, left_scale.saturating_add(right_scale)),
        Arithmetic::Divide => {
            let most = if wide { DECIMAL256_MAX_SCALE } else { DECIMAL128_MAX_SCALE };
            let quotient = left_scale.saturating_add(QUOTIENT_DIGITS).min(most);
            let digits = i32::from(quotient) - i32::from(left_scale) + i32::from(right_scale);
            let digits = i8::try_from(digits).map_err(|_| Reason::new("a division of decimals"))?;
            (digits.max(0), (-digits).max(0), quotient)
        }
        Arithmetic::DivideRounded => return Err(Reason::new("a rounded division")),
    };
    if expected != scale || left_scale < 0 || right_scale < 0 {
        return Err(Reason::new("decimals of unusual scales"));
    }
    let left = scaled(left, left_digits, range)?;
    let right = scaled(right, right_digits, range)?;
    Scalar::arithmetic(op, range, left, right)
}

/// `value` times 10 to the power of `digits`.
fn scaled(value: Scalar, digits: i8, range: Range) -> Result<Scalar, Reason> {
    if digits == 0 {
        return Ok(value);
    }
    Scalar::arithmetic(Arithmetic::Multiply, range, value, Scalar::integer(power_of_ten(digits.into())?))
}

/// `CAST(value AS to)`.
pub fn cast(value: Scalar, from: &DataType, to: &DataType) -> Result<Scalar, Reason> {
    use DataType as T;
    let refused = || Reason::new(format!("a cast from {from} to {to}"));
    if let (Some(from), Some(to)) = (decimal(from), decimal(to)) {
        return cast_decimal(value, from, to);
    }
    if from == to || (same_values(from, to) && !matches!(from, T::Timestamp(..))) {
        return Ok(value);
    }
    if matches!(from, T::Null) {
        return Ok(Scalar::null(facts_of(to, true)?.value));
    }
    match (from, to) {
        (T::Boolean, _) if is_integer(to) => value.bool_to_integer(),
        (_, T::Float64) if is_integer(from) => value.to_float(),
        (T::Float32, T::Float64) => Ok(value),
        (_, T::Float64) if decimal(from).is_some() => {
            let (precision, scale, _) = decimal(from).ok_or_else(refused)?;
            // With more digits the cast is another function, as which it comes here.
            if precision > EXACT_DIGITS || scale < 0 {
                return Err(refused());
            }
            float_of_decimal(value, scale)
        }
        _ if is_integer(from) && is_integer(to) => proven(value, facts_of(to, false)?.interval),
        _ if is_integer(from) && decimal(to).is_some() => {
            let (precision, scale, wide) = decimal(to).ok_or_else(refused)?;
            let most = Interval::symmetric(greatest_of_digits(precision));
            // Constants and proven values only need no check of the digits.
            let range = if wide { Range::Bounds(Interval::I128) } else { Range::Bounds(most) };
            proven(scaled(value, scale, range)?, most)
        }
        (_, to) if decimal(from).is_some() && is_integer(to) => {
            let (_, scale, _) = decimal(from).ok_or_else(refused)?;
            let divisor = Scalar::integer(power_of_ten(scale.into())?);
            let cut = Scalar::arithmetic(Arithmetic::Divide, Range::I128, value, divisor)?;
            proven(cut, facts_of(to, false)?.interval)
        }
        (T::Date32, T::Timestamp(unit, _)) => {
            let per_day: i128 = match unit {
                TimeUnit::Second => 86_400,
                TimeUnit::Millisecond => 86_400_000,
                TimeUnit::Microsecond => 86_400_000_000,
                TimeUnit::Nanosecond => 86_400_000_000_000,
            };
            let range = Range::Bounds(Interval::I64);
            Scalar::arithmetic(Arithmetic::Multiply, range, value, Scalar::integer(per_day))
        }
        _ => Err(refused()),
    }
}

/// As the function `rounding_cast`: digits that are lost round.
pub fn rounding_cast(value: Scalar, from: &DataType, to: &DataType) -> Result<Scalar, Reason> {
    match (decimal(from), decimal(to)) {
        (Some(from), Some(to)) => cast_decimal(value, from, to),
        (Some((precision, scale, wide)), None) if is_integer(to) => {
            let whole = cast_decimal(value, (precision, scale, wide), (DECIMAL128_MAX_PRECISION, 0, wide))?;
            proven(whole, facts_of(to, false)?.interval)
        }
        (Some((_, scale, _)), None) if *to == DataType::Float64 && (0..=38).contains(&scale) => {
            float_of_decimal(value, scale)
        }
        (None, _) if is_integer(from) && (is_integer(to) || decimal(to).is_some()) => cast(value, from, to),
        // Infinite dates fail there, and are cast by DataFusion.
        _ if *from == DataType::Date32 && matches!(to, DataType::Timestamp(..)) => cast(value, from, to),
        _ => Err(Reason::new(format!("a cast from {from} to {to}"))),
    }
}

/// A decimal of this scale as a float: where a float cannot hold all digits, the digits before and those behind the point on
/// their own.
pub fn float_of_decimal(value: Scalar, scale: i8) -> Result<Scalar, Reason> {
    if scale == 0 {
        return value.to_float();
    }
    let exact = Interval::symmetric(1 << f64::MANTISSA_DIGITS);
    let divisor = Scalar::float(numbers::power_of_ten(scale.unsigned_abs()));
    let divided =
        |value: Scalar| Scalar::arithmetic(Arithmetic::Divide, Range::Float, value.to_float()?, divisor.clone());
    let at_once = divided(value.clone())?;
    if exact.contains(value.facts().interval) {
        return Ok(at_once);
    }
    let power = Scalar::integer(power_of_ten(scale.into())?);
    let part = |op| Scalar::arithmetic(op, Range::I128, value.clone(), power.clone());
    let (whole, rest) = (part(Arithmetic::Divide)?.to_float()?, divided(part(Arithmetic::Remainder)?)?);
    let in_parts = Scalar::arithmetic(Arithmetic::Add, Range::Float, whole, rest)?;
    let above = Scalar::compare(Comparison::GreaterOrEqual, value.clone(), Scalar::integer(exact.low))?;
    let below = Scalar::compare(Comparison::LessOrEqual, value, Scalar::integer(exact.high))?;
    Scalar::case(vec![(Scalar::and(above, below)?, at_once)], in_parts)
}

/// `value`, if all of its values lie within `bounds`.
fn proven(value: Scalar, bounds: Interval) -> Result<Scalar, Reason> {
    match bounds.contains(value.facts().interval) {
        true => Ok(value),
        false => Err(Reason::new("a cast that may fail")),
    }
}

fn cast_decimal(value: Scalar, from: (u8, i8, bool), to: (u8, i8, bool)) -> Result<Scalar, Reason> {
    let ((from_precision, from_scale, _), (precision, scale, wide)) = (from, to);
    let digits = i32::from(scale) - i32::from(from_scale);
    let range = if wide { Range::Bounds(Interval::I128) } else { Range::I128 };
    // Arrow does not look at the digits where the types promise that they fit.
    let (cast, promised) = if digits >= 0 {
        let digits = i8::try_from(digits).map_err(|_| Reason::new("a cast of decimals"))?;
        (scaled(value, digits, range)?, i32::from(from_precision) + i32::from(digits) <= i32::from(precision))
    } else {
        let divisor = Scalar::integer(power_of_ten(-digits)?);
        let promised = i32::from(from_precision) + digits < i32::from(precision);
        (Scalar::arithmetic(Arithmetic::DivideRounded, range, value, divisor)?, promised)
    };
    match promised {
        true => Ok(cast),
        false => proven(cast, Interval::symmetric(greatest_of_digits(precision))),
    }
}
