//! Numbers and booleans read from text as DuckDB reads them: integers may have a point, an exponent, or be written in base 16 or 2;
//! an underscore may stand between two digits.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, Decimal128Array, Decimal128Builder, StringViewArray,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::FormatOptions;

use super::texts;
use crate::floats::canonical;

/// Digits of the widest integers.
const HUGEINT_DIGITS: u8 = 38;

/// Whether values of this type are read from text here.
pub fn is_read(target: &DataType) -> bool {
    let is_decimal = matches!(target, DataType::Decimal128(_, scale) if *scale >= 0);
    is_decimal || target.is_integer() || target.is_floating() || *target == DataType::Boolean
}

/// The values that texts stand for. What stands for none is NULL or an error.
pub(crate) fn read(views: &ArrayRef, target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let options = CastOptions { safe: or_null, format_options: FormatOptions::default() };
    let texts = views.as_string_view();
    match target {
        DataType::Decimal128(HUGEINT_DIGITS, 0) => {
            let numbers = Decimal128Array::from(texts::each(texts, target, or_null, whole)?);
            Ok(Arc::new(numbers.with_precision_and_scale(HUGEINT_DIGITS, 0)?))
        }
        DataType::Decimal128(precision, scale) => decimals(views, *precision, *scale, or_null),
        DataType::Boolean => Ok(Arc::new(BooleanArray::from(texts::each(texts, target, or_null, boolean)?))),
        _ if target.is_floating() => {
            let plain: StringViewArray = texts
                .iter()
                .map(|text| text.map(|text| without_underscores(text).unwrap_or(Cow::Borrowed("_"))))
                .collect();
            Ok(canonical(&cast_with_options(&(Arc::new(plain) as ArrayRef), target, &options)?))
        }
        _ => {
            // Plain digits are what nearly all texts are.
            if let Ok(plain) = cast_with_options(views, target, &CastOptions { safe: false, ..options.clone() }) {
                return Ok(plain);
            }
            let (least, greatest) = limits(target);
            let is_unsigned = least == 0;
            let value = |text: &str| {
                let value = whole(text).filter(|value| (least..=greatest).contains(value))?;
                (!is_unsigned || !text.trim_ascii().starts_with('-')).then_some(value)
            };
            let numbers = Decimal128Array::from(texts::each(texts, target, or_null, value)?);
            let numbers: ArrayRef = Arc::new(numbers.with_precision_and_scale(HUGEINT_DIGITS, 0)?);
            cast_with_options(&numbers, target, &options)
        }
    }
}

/// The least and the greatest value of an integer type.
fn limits(target: &DataType) -> (i128, i128) {
    let bits = target.primitive_width().map_or(64, |bytes| 8 * bytes.min(8));
    match target.is_unsigned_integer() {
        true => (0, (1 << bits) - 1),
        false => (-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
    }
}

/// `t`, `true`, `y`, `yes`, `1` and their opposites, in any case.
fn boolean(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "t" | "true" | "y" | "yes" | "1" => Some(true),
        "f" | "false" | "n" | "no" | "0" => Some(false),
        _ => None,
    }
}

/// An integer, rounded half away from zero.
fn whole(text: &str) -> Option<i128> {
    let text = without_underscores(text)?;
    let digits = text.trim_ascii();
    let based = |prefixes: [&str; 2], base| {
        let digits = prefixes.iter().find_map(|prefix| digits.strip_prefix(prefix))?;
        i128::from_str_radix(digits, base).ok().filter(|_| !digits.starts_with(['+', '-']))
    };
    based(["0x", "0X"], 16).or_else(|| based(["0b", "0B"], 2)).or_else(|| parse_decimal(digits, HUGEINT_DIGITS, 0))
}

/// `text` without the underscores between its digits; `None` where one stands elsewhere.
fn without_underscores(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains('_') {
        return Some(Cow::Borrowed(text));
    }
    let bytes = text.as_bytes();
    let is_digit = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
    let is_between = |at: usize| at > 0 && is_digit(at - 1) && is_digit(at + 1);
    let all_between = bytes.iter().enumerate().all(|(at, byte)| *byte != b'_' || is_between(at));
    all_between.then(|| Cow::Owned(text.replace('_', "")))
}

fn decimals(texts: &ArrayRef, precision: u8, scale: i8, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let texts = texts.as_string_view();
    let mut decimals = Decimal128Builder::with_capacity(texts.len()).with_precision_and_scale(precision, scale)?;
    for text in texts {
        let value = text.and_then(|text| parse_decimal(&without_underscores(text)?, precision, scale.unsigned_abs()));
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
    fn texts_become_integers() {
        for (text, expect) in [
            ("0x1F", Some(31)),
            ("0b101", Some(5)),
            ("0X", None),
            ("0x-1", None),
            ("1_000", Some(1_000)),
            ("1__0", None),
            ("_1", None),
            ("1_", None),
            ("1._5", None),
            ("42.5", Some(43)),
            ("-.5", Some(-1)),
            (" 1e3 ", Some(1_000)),
            ("4e-1", Some(0)),
            ("1 000", None),
            ("", None),
        ] {
            assert_eq!(whole(text), expect, "{text}");
        }
    }
}
