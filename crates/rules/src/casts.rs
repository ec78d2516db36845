//! Casts of arrays as DuckDB does them.
//!
//! Decimals and timestamps are rounded half away from zero, floats become integers half to even; text becomes a decimal the
//! same way and may have an exponent; floats stay in their canonical form. Times, intervals, blobs and lists are read from text
//! and written to it as DuckDB does ([`texts`]). These are DuckDB's rules, where DataFusion cuts digits off.

mod lists;
pub mod numbers;
pub(crate) mod texts;

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Decimal128Builder, ListArray};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Float32Type, Float64Type,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{Result, ScalarValue};

use crate::floats::canonical;

/// `array` as `target`: by our rules where they differ from Arrow's. What has no such value is NULL or an error.
pub fn cast(array: &ArrayRef, target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    use DataType as T;
    let options = CastOptions { safe: or_null, format_options: FormatOptions::default() };
    let plain = |array: &ArrayRef, target: &DataType| cast_with_options(array, target, &options);
    match (array.data_type(), target) {
        (source, _) if source.is_string() && texts::is_read(target) => {
            texts::read(&plain(array, &T::Utf8View)?, target, or_null)
        }
        (source, _) if target.is_string() && texts::is_written(source) => plain(&texts::written(array)?, target),
        (T::List(_), T::List(element)) => {
            let list = array.as_list::<i32>();
            let values = cast(list.values(), element.data_type(), or_null)?;
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
        }
        (T::Timestamp(..), T::Timestamp(..)) => numbers::timestamps(array, target, &plain),
        (T::Float32 | T::Float64, T::Decimal128(38, 0)) => numbers::hugeints(array, or_null),
        (T::Float64, T::Float32) => Ok(canonical(&numbers::singles(array, or_null)?)),
        (T::Decimal128(..) | T::Decimal256(..), T::Float32 | T::Float64) => {
            Ok(canonical(&numbers::floats_of_decimals(array, target, &plain)?))
        }
        (T::Decimal256(..), _) if target.is_integer() => {
            plain(&plain(array, &T::Decimal256(DECIMAL256_MAX_PRECISION, 0))?, target)
        }
        (source, _) if source.is_decimal() && target.is_integer() => {
            plain(&plain(array, &T::Decimal128(DECIMAL128_MAX_PRECISION, 0))?, target)
        }
        (T::Float32, _) if target.is_integer() => {
            let rounded = array.as_primitive::<Float32Type>().unary::<_, Float32Type>(f32::round_ties_even);
            plain(&(Arc::new(rounded) as ArrayRef), target)
        }
        (T::Float64, _) if target.is_integer() => {
            let rounded = array.as_primitive::<Float64Type>().unary::<_, Float64Type>(f64::round_ties_even);
            plain(&(Arc::new(rounded) as ArrayRef), target)
        }
        (source, T::Decimal128(precision, scale)) if source.is_string() && *scale >= 0 => {
            decimals_of_texts(&plain(array, &T::Utf8View)?, *precision, *scale, or_null)
        }
        (_, T::Float32 | T::Float64) => Ok(canonical(&plain(array, target)?)),
        _ => plain(array, target),
    }
}

/// As [`cast`], for one value.
pub fn cast_scalar(value: &ScalarValue, target: &DataType) -> Result<ScalarValue> {
    let array = cast(&value.to_array()?, target, false)?;
    ScalarValue::try_from_array(&array, 0)
}

fn decimals_of_texts(texts: &ArrayRef, precision: u8, scale: i8, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let texts = texts.as_string_view();
    let mut decimals = Decimal128Builder::with_capacity(texts.len()).with_precision_and_scale(precision, scale)?;
    for text in texts {
        let value = text.and_then(|text| parse_decimal(text, precision, scale.unsigned_abs()));
        if let (Some(text), None, false) = (text, value, or_null) {
            let shown: String = text.chars().take(40).collect();
            let message = format!("cannot read {shown:?} as DECIMAL({precision},{scale})");
            return Err(ArrowError::CastError(message));
        }
        decimals.append_option(value);
    }
    Ok(Arc::new(decimals.finish()))
}

/// `text` in units of the last digit of a DECIMAL(precision, scale), rounded half away from zero; `None` where it is no
/// number, or too large.
fn parse_decimal(text: &str, precision: u8, scale: u8) -> Option<i128> {
    let text = text.trim_ascii().as_bytes();
    let (is_negative, text) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (mantissa, exponent) = match text.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let (whole, fraction) = (&mantissa[..point], mantissa.get(point + 1..).unwrap_or(&[]));
    let digits = whole.len() + fraction.len();
    if digits == 0 {
        return None;
    }
    // Digits that are kept; the one behind them rounds.
    let kept = whole.len() as i64 + exponent + i64::from(scale);
    let mut value: i128 = 0;
    let mut rounds_up = false;
    for (index, byte) in whole.iter().chain(fraction).enumerate() {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        match (index as i64).cmp(&kept) {
            std::cmp::Ordering::Less => value = value.checked_mul(10)?.checked_add(i128::from(digit))?,
            std::cmp::Ordering::Equal => rounds_up = digit >= 5,
            std::cmp::Ordering::Greater => {}
        }
    }
    if value != 0 && kept > digits as i64 {
        let missing = u32::try_from(kept - digits as i64).ok()?;
        value = value.checked_mul(10_i128.checked_pow(missing)?)?;
    }
    value += i128::from(rounds_up);
    let limit = 10_i128.checked_pow(u32::from(precision))?;
    (value < limit).then_some(if is_negative { -value } else { value })
}

/// The exponent behind an `e`. What lies beyond any decimal is as good as any other such number.
fn parse_exponent(text: &[u8]) -> Option<i64> {
    const FAR: i64 = 1 << 32;
    let (is_negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0, |value: i64, digit| (value * 10 + i64::from(digit - b'0')).min(FAR));
    Some(if is_negative { -value } else { value })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Decimal128Array, Float64Array, Int32Array, StringArray};
    use datafusion::arrow::datatypes::Int32Type;

    #[test]
    fn texts_become_decimals() {
        for (text, expect) in [
            ("1.999", Some(200)),
            ("-1.005", Some(-101)),
            ("-0.004", Some(0)),
            (" +1.5 ", Some(150)),
            (".5", Some(50)),
            ("5.", Some(500)),
            ("1e2", Some(10_000)),
            ("15E-3", Some(2)),
            ("149e-4", Some(1)),
            ("0e400", Some(0)),
            ("7e-99999999999999999999", Some(0)),
            ("9999999.994", Some(999_999_999)),
            ("9999999.995", None),
            ("1e40", None),
            ("", None),
            (".", None),
            ("e2", None),
            ("1e", None),
            ("1.2.3", None),
            ("- 5", None),
            ("nan", None),
            ("1_0", None),
            ("0.00499999999999999999999999999999999999999999999999", Some(0)),
        ] {
            assert_eq!(parse_decimal(text, 9, 2), expect, "{text}");
        }
        assert_eq!(parse_decimal(&"9".repeat(38), 38, 0), Some(10_i128.pow(38) - 1));
        assert_eq!(parse_decimal(&"9".repeat(39), 38, 0), None);
    }

    #[test]
    fn decimals_round_half_away_from_zero_and_floats_half_to_even() {
        let decimals = Decimal128Array::from(vec![15, 25, -15, -25, 24]).with_precision_and_scale(9, 1);
        let decimals: ArrayRef = Arc::new(decimals.expect("small"));
        let expect = Int32Array::from(vec![2, 3, -2, -3, 2]);
        assert_eq!(cast(&decimals, &DataType::Int32, false).expect("small").as_primitive::<Int32Type>(), &expect);
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![1.5, 2.5, -1.5, -2.5, 2.4]));
        let expect = Int32Array::from(vec![2, 2, -2, -2, 2]);
        assert_eq!(cast(&floats, &DataType::Int32, false).expect("small").as_primitive::<Int32Type>(), &expect);
    }

    #[test]
    fn what_does_not_fit_is_an_error_or_null() {
        let floats: ArrayRef = Arc::new(Float64Array::from(vec![f64::NAN, 127.5, 1e300]));
        let texts: ArrayRef = Arc::new(StringArray::from(vec!["x", "12.34", "99.95"]));
        for (array, target) in [(floats, DataType::Int8), (texts, DataType::Decimal128(3, 1))] {
            assert!(cast(&array, &target, false).is_err());
            let nulls = cast(&array, &target, true).expect("NULLs");
            assert!(nulls.is_null(0) && nulls.is_null(2));
        }
    }
}
