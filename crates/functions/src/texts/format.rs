//! `format`: values put into a text where it has `{}`, as the library fmt does it; and values by a specification, which `printf`
//! uses, too.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float64Type, Int64Type};
use datafusion::common::{DataFusionError, Result};

use crate::function::{Call, Definition, Shape, TEXT, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["format"], shape, compute }];

/// Digits behind the point, and width, at most.
const MOST: usize = 10_000;

/// A format, and values.
pub(super) fn shape(types: &[DataType]) -> Option<Shape> {
    let [format, values @ ..] = types else { return None };
    let argument = |data_type: &DataType| match data_type {
        DataType::Boolean => DataType::Boolean,
        DataType::UInt64 | DataType::Decimal128(38, 0) => DataType::Decimal128(38, 0),
        other if other.is_integer() => DataType::Int64,
        other if other.is_numeric() => DataType::Float64,
        // Of all else the text is shown.
        _ => TEXT,
    };
    let arguments = std::iter::once(TEXT).chain(values.iter().map(argument)).collect();
    is_text(format).then_some(Shape { arguments, result: TEXT })
}

/// A value that is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Text(&'a str),
    Integer(i128),
    Float(f64),
    Flag(bool),
}

/// The values of a row; `None` where one is NULL.
pub(super) fn values<'a>(call: &'a Call<'_>, row: usize) -> Option<Vec<Value<'a>>> {
    let value = |array: &'a ArrayRef| {
        array.is_valid(row).then(|| match array.data_type() {
            DataType::Boolean => Value::Flag(array.as_boolean().value(row)),
            DataType::Int64 => Value::Integer(array.as_primitive::<Int64Type>().value(row).into()),
            DataType::Decimal128(..) => Value::Integer(array.as_primitive::<Decimal128Type>().value(row)),
            DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row)),
            _ => Value::Text(array.as_string_view().value(row)),
        })
    };
    call.arguments[1..].iter().map(value).collect()
}

/// How a value is shown.
#[derive(Debug, Default, Clone)]
pub(super) struct Specification {
    pub(super) fill: Option<char>,
    pub(super) alignment: Option<char>,
    pub(super) sign: Option<char>,
    pub(super) has_prefix: bool,
    pub(super) has_zeros: bool,
    pub(super) width: usize,
    pub(super) separator: Option<char>,
    pub(super) precision: Option<usize>,
    pub(super) kind: Option<char>,
}

pub(super) fn bad(message: impl Into<String>) -> DataFusionError {
    refused(format!("format: {}", message.into()), "Write as in format('{} is {:.2f}', 'pi', 3.14159)")
}

impl Specification {
    /// The text of a value.
    pub(super) fn shown(&self, value: Value<'_>) -> Result<String> {
        let wrong = |what: &str| bad(format!("{:?} does not show {what}", self.kind.unwrap_or(' ')));
        let (negative, digits) = match value {
            Value::Text(text) => {
                let text: String = match self.kind {
                    None | Some('s') => text.chars().take(self.precision.unwrap_or(usize::MAX)).collect(),
                    _ => return Err(wrong("a text")),
                };
                return Ok(self.padded("", &text, '<'));
            }
            Value::Flag(flag) if matches!(self.kind, None | Some('s')) => {
                return Ok(self.padded("", if flag { "true" } else { "false" }, '<'));
            }
            Value::Flag(flag) => return self.shown(Value::Integer(flag.into())),
            Value::Integer(value) => {
                if self.precision.is_some() {
                    return Err(bad("an integer has no precision"));
                }
                (value < 0, self.integer(value.unsigned_abs()).ok_or_else(|| wrong("an integer"))?)
            }
            Value::Float(value) => {
                let digits = self.float(value.abs()).ok_or_else(|| wrong("a float"))?;
                (value.is_sign_negative() && !value.is_nan(), digits)
            }
        };
        let sign = match (negative, self.sign) {
            (true, _) => "-",
            (_, Some('+')) => "+",
            (_, Some(' ')) => " ",
            _ => "",
        };
        let prefix = match self.kind {
            Some('x') if self.has_prefix => "0x",
            Some('X') if self.has_prefix => "0X",
            Some('b') if self.has_prefix => "0b",
            Some('o') if self.has_prefix => "0",
            _ => "",
        };
        Ok(self.padded(&format!("{sign}{prefix}"), &digits, '>'))
    }

    fn integer(&self, value: u128) -> Option<String> {
        Some(match self.kind {
            None | Some('d' | 'i' | 'u') => self.separated(&value.to_string()),
            Some('x') => format!("{value:x}"),
            Some('X') => format!("{value:X}"),
            Some('o') => format!("{value:o}"),
            Some('b') => format!("{value:b}"),
            Some('n') => value.to_string(),
            _ => return None,
        })
    }

    fn float(&self, value: f64) -> Option<String> {
        if !value.is_finite() {
            let is_upper = self.kind.is_some_and(|kind| kind.is_ascii_uppercase());
            let name = if value.is_nan() { "nan" } else { "inf" };
            return Some(if is_upper { name.to_uppercase() } else { name.to_owned() });
        }
        let precision = self.precision.unwrap_or(6);
        let shown = match self.kind {
            None if self.precision.is_none() => shortest(value),
            None => general(value, precision),
            Some('f' | 'F') => format!("{value:.precision$}"),
            Some('e') => exponent(&format!("{value:.precision$e}")),
            Some('E') => exponent(&format!("{value:.precision$e}")).to_uppercase(),
            Some('g') => general(value, precision),
            Some('G') => general(value, precision).to_uppercase(),
            _ => return None,
        };
        let (whole, rest) = shown.split_at(shown.find(['.', 'e', 'E']).unwrap_or(shown.len()));
        Some(self.separated(whole) + rest)
    }

    fn separated(&self, digits: &str) -> String {
        let Some(separator) = self.separator else { return digits.to_owned() };
        let mut out = String::new();
        for (index, digit) in digits.chars().enumerate() {
            if index > 0 && (digits.len() - index).is_multiple_of(3) {
                out.push(separator);
            }
            out.push(digit);
        }
        out
    }

    fn padded(&self, sign: &str, text: &str, alignment: char) -> String {
        let missing = self.width.saturating_sub(sign.chars().count() + text.chars().count());
        let has_zeros = self.has_zeros && self.alignment.is_none() && alignment == '>';
        let fill = self.fill.unwrap_or(if has_zeros { '0' } else { ' ' });
        let filling = |count: usize| fill.to_string().repeat(count);
        match if has_zeros { '=' } else { self.alignment.unwrap_or(alignment) } {
            '<' => format!("{sign}{text}{}", filling(missing)),
            '^' => format!("{}{sign}{text}{}", filling(missing / 2), filling(missing - missing / 2)),
            '=' => format!("{sign}{}{text}", filling(missing)),
            _ => format!("{}{sign}{text}", filling(missing)),
        }
    }
}

/// The shortest text that reads back, with a point or an exponent.
fn shortest(value: f64) -> String {
    if value == 0.0 || (1e-4..1e16).contains(&value) {
        let shown = format!("{value}");
        return if shown.contains('.') { shown } else { shown + ".0" };
    }
    exponent(&format!("{value:e}"))
}

/// `1e5` as `1e+05`.
fn exponent(shown: &str) -> String {
    let (mantissa, exponent) = shown.split_once('e').unwrap_or((shown, "0"));
    match exponent.strip_prefix('-') {
        Some(digits) => format!("{mantissa}e-{digits:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

/// So many digits, without zeros at the end; with an exponent where that is shorter.
fn general(value: f64, digits: usize) -> String {
    let digits = digits.max(1);
    let shown = format!("{value:.*e}", digits - 1);
    let power: i64 = shown.split_once('e').and_then(|(_, power)| power.parse().ok()).unwrap_or(0);
    let trimmed = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text.to_owned(),
    };
    if power < -4 || power >= digits as i64 {
        let mantissa = shown.split_once('e').map_or("", |(mantissa, _)| mantissa);
        return exponent(&format!("{}e{power}", trimmed(mantissa)));
    }
    trimmed(&format!("{value:.*}", (digits as i64 - 1 - power).max(0) as usize))
}

fn compute(call: &Call<'_>) -> Result<ArrayRef> {
    let formats = call.texts(0);
    call.texts_of(|row| match values(call, row) {
        Some(values) if formats.is_valid(row) => filled(formats.value(row), &values).map(Some),
        _ => Ok(None),
    })
}

fn filled(format: &str, values: &[Value<'_>]) -> Result<String> {
    let mut out = String::new();
    let mut rest = format;
    let (mut next, mut is_numbered) = (0, false);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let (brace, behind) = (&rest[at..=at], &rest[at + 1..]);
        if let Some(behind) = behind.strip_prefix(brace) {
            out.push_str(brace);
            rest = behind;
            continue;
        }
        if brace == "}" {
            return Err(bad("there is a } without a {"));
        }
        let (inner, behind) = behind.split_once('}').ok_or_else(|| bad("there is a { without a }"))?;
        let (number, specification) = inner.split_once(':').unwrap_or((inner, ""));
        let index = match number {
            "" if is_numbered => return Err(bad("some values are numbered, and some are not")),
            "" => {
                next += 1;
                next - 1
            }
            _ if next > 0 => return Err(bad("some values are numbered, and some are not")),
            _ => {
                is_numbered = true;
                number.parse().map_err(|_| bad(format!("{number:?} is no number of a value")))?
            }
        };
        let value = values.get(index).ok_or_else(|| bad(format!("there is no value {index}")))?;
        out.push_str(&parse(specification)?.shown(*value)?);
        rest = behind;
    }
    out.push_str(rest);
    Ok(out)
}

/// `[[fill]align][sign][#][0][width][,][.precision][type]`.
fn parse(text: &str) -> Result<Specification> {
    let mut specification = Specification::default();
    let mut characters: Vec<char> = text.chars().rev().collect();
    let is_alignment = |character: &char| matches!(character, '<' | '>' | '^' | '=');
    if characters.len() > 1 && is_alignment(&characters[characters.len() - 2]) {
        specification.fill = characters.pop();
    }
    let take = |characters: &mut Vec<char>, is_one: &dyn Fn(&char) -> bool| {
        if characters.last().is_some_and(is_one) { characters.pop() } else { None }
    };
    let number = |characters: &mut Vec<char>| {
        let mut digits = String::new();
        while let Some(digit) = take(characters, &char::is_ascii_digit) {
            digits.push(digit);
        }
        match digits.as_str() {
            "" => Ok(None),
            _ => digits
                .parse()
                .ok()
                .filter(|number| *number <= MOST)
                .map(Some)
                .ok_or_else(|| bad("a number is too large")),
        }
    };
    specification.alignment = take(&mut characters, &is_alignment);
    specification.sign = take(&mut characters, &|character| matches!(character, '+' | '-' | ' '));
    specification.has_prefix = take(&mut characters, &|character| *character == '#').is_some();
    specification.has_zeros = take(&mut characters, &|character| *character == '0').is_some();
    specification.width = number(&mut characters)?.unwrap_or(0);
    if take(&mut characters, &|character| *character == 't').is_some() {
        specification.separator = characters.pop();
    } else {
        specification.separator = take(&mut characters, &|character| matches!(character, ',' | '_' | '\''));
    }
    if take(&mut characters, &|character| *character == '.').is_some() {
        specification.precision = Some(number(&mut characters)?.ok_or_else(|| bad("digits are missing behind the ."))?);
    }
    specification.kind = characters.pop();
    match characters.is_empty() {
        true => Ok(specification),
        false => Err(bad(format!("{text:?} is no specification"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_by_their_specification() {
        let shown = |format: &str, value| filled(format, &[value]).ok();
        for (format, value, expect) in [
            ("{}|{{}}", Value::Text("a"), Some("a|{}")),
            ("{:5}|", Value::Integer(42), Some("   42|")),
            ("{:05d}", Value::Integer(-42), Some("-0042")),
            ("{:*^7}", Value::Text("ab"), Some("**ab***")),
            ("{:,}", Value::Float(1_234_567.891), Some("1,234,567.891")),
            ("{:t.}", Value::Integer(1_234_567), Some("1.234.567")),
            ("{:#x}", Value::Integer(255), Some("0xff")),
            ("{:.2s}", Value::Text("äöü"), Some("äö")),
            ("{:g}", Value::Float(12_345_678.9), Some("1.23457e+07")),
            ("{:G}", Value::Float(0.000_012_34), Some("1.234E-05")),
            ("{:e}", Value::Float(12_345.678), Some("1.234568e+04")),
            ("{:08.3f}", Value::Float(3.24159), Some("0003.242")),
            ("{}", Value::Float(1e16), Some("1e+16")),
            ("{}", Value::Float(-0.0), Some("-0.0")),
            ("{:d}", Value::Flag(true), Some("1")),
            ("{:d}", Value::Text("a"), None),
            ("{} {}", Value::Text("a"), None),
            ("{} {0}", Value::Text("a"), None),
            ("{", Value::Text("a"), None),
            ("}", Value::Text("a"), None),
            ("{:.2f}", Value::Integer(5), None),
        ] {
            assert_eq!(shown(format, value).as_deref(), expect, "{format}");
        }
    }
}
