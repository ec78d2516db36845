//! Integers and decimals with fewer digits, exactly: `trunc(x, digits)` and `round_even(x, digits)`. Digits behind the point that a
//! literal says are part of the type of the result.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int64Type};
use datafusion::common::{Result, ScalarValue};
use forebay_functions::function::HUGEINT;

/// What becomes of a digit that is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Rest {
    /// It is cut.
    Cut,
    /// It rounds: halves to the even digit.
    ToEven,
}

/// Whether values of such a type are exact, and take a number of digits of such a type.
pub(crate) fn takes(value: &DataType, digits: &DataType) -> bool {
    let is_exact = value.is_integer() || matches!(value, DataType::Decimal128(_, 0..));
    is_exact && (digits.is_integer() || digits.is_null())
}

/// The type of a value with so many digits: of a decimal those behind the point that the literal says, or all that it has.
pub(crate) fn result(value: &DataType, digits: Option<&ScalarValue>) -> DataType {
    let literal = digits.and_then(|digits| digits.cast_to(&DataType::Int64).ok());
    match (value, literal) {
        (DataType::Decimal128(precision, scale), Some(ScalarValue::Int64(Some(digits)))) => {
            DataType::Decimal128(*precision, digits.clamp(0, i64::from(*scale)) as i8)
        }
        (other, _) => other.clone(),
    }
}

/// The values with so many digits behind the point, or, where they are fewer than 0, with so many zeros before it.
pub(crate) fn shortened(values: &ArrayRef, digits: &ArrayRef, rest: Rest, result: &DataType) -> Result<ArrayRef> {
    let (own, shown) = match (values.data_type(), result) {
        (DataType::Decimal128(_, own), DataType::Decimal128(_, shown)) => (*own, *shown),
        _ => (0, 0),
    };
    let wide = if values.data_type().is_integer() { cast(values, &HUGEINT)? } else { Arc::clone(values) };
    let digits = cast(digits, &DataType::Int64)?;
    let pairs = wide.as_primitive::<Decimal128Type>().iter().zip(digits.as_primitive::<Int64Type>());
    let (behind, gone) = (i64::from(own), 10_i128.pow(u32::from((own - shown).unsigned_abs())));
    let one = |(value, digits): (Option<i128>, Option<i64>)| {
        let left_out = u32::try_from(behind.saturating_sub(digits?)).unwrap_or(if digits? < 0 { u32::MAX } else { 0 });
        Some(shortened_by(value?, left_out, rest) / gone)
    };
    let all: Decimal128Array = pairs.map(one).collect();
    match result {
        DataType::Decimal128(..) => Ok(Arc::new(all.with_data_type(result.clone()))),
        integer => Ok(cast(&(Arc::new(all.with_data_type(HUGEINT)) as ArrayRef), integer)?),
    }
}

/// A number with zeros for so many of its last digits.
fn shortened_by(value: i128, left_out: u32, rest: Rest) -> i128 {
    let Some(step) = 10_i128.checked_pow(left_out) else { return 0 };
    let (quotient, over) = (value / step, (value % step).abs());
    let is_up = rest == Rest::ToEven && (over > step - over || (over == step - over && quotient % 2 != 0));
    (quotient + if is_up { value.signum() } else { 0 }).saturating_mul(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_cut_or_rounded() {
        let cut = |value, left_out| shortened_by(value, left_out, Rest::Cut);
        assert_eq!([cut(1_789, 1), cut(-1_789, 1), cut(255, 40), cut(7, 0)], [1_780, -1_780, 0, 7]);
        let even = |value, left_out| shortened_by(value, left_out, Rest::ToEven);
        assert_eq!([even(125, 1), even(135, 1), even(-125, 1), even(126, 1), even(7, 0)], [120, 140, -120, 130, 7]);
    }
}
