//! `printf`: values put into a text where it has `%d`, `%s` and the like.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::common::Result;

use super::format::{Specification, Value, bad, shape, values};
use crate::function::{Call, Definition};

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["printf"], shape, compute }];

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
    let mut next = 0;
    while let Some((before, behind)) = rest.split_once('%') {
        out.push_str(before);
        if let Some(behind) = behind.strip_prefix('%') {
            out.push('%');
            rest = behind;
            continue;
        }
        rest = field(behind, values, &mut next, &mut out)?;
    }
    out.push_str(rest);
    Ok(out)
}

/// Shows the value of the field that `text` begins with; what is behind it.
fn field<'a>(text: &'a str, values: &[Value<'_>], next: &mut usize, out: &mut String) -> Result<&'a str> {
    let mut specification = Specification::default();
    let mut rest = text;
    let number = |rest: &mut &'a str| -> Option<usize> {
        let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
        let number = rest[..end].parse().ok().filter(|number| *number <= 10_000)?;
        *rest = &rest[end..];
        Some(number)
    };
    let mut place = None;
    let mut numbered = rest;
    if let Some(index) = number(&mut numbered).filter(|_| numbered.starts_with('$')) {
        place = Some(index.checked_sub(1).ok_or_else(|| bad("values are numbered from 1 on"))?);
        rest = &numbered[1..];
    }
    while let Some(flag) = rest.chars().next().filter(|flag| "-+ #0,'".contains(*flag)) {
        match flag {
            '-' => specification.alignment = Some('<'),
            '#' => specification.has_prefix = true,
            '0' => specification.has_zeros = true,
            ',' | '\'' => specification.separator = Some(flag),
            _ => specification.sign = Some(flag),
        }
        rest = &rest[1..];
    }
    let mut take = |place: Option<usize>| {
        let index = place.unwrap_or(*next);
        *next = index + 1;
        values.get(index).copied().ok_or_else(|| bad(format!("there is no value {index}")))
    };
    if let Some(behind) = rest.strip_prefix('*') {
        rest = behind;
        match take(None)? {
            Value::Integer(width @ 0..=10_000) => specification.width = width as usize,
            _ => return Err(bad("a width is no number")),
        }
    } else if let Some(width) = number(&mut rest) {
        specification.width = width;
    }
    if let Some(behind) = rest.strip_prefix('.') {
        rest = behind;
        specification.precision = Some(number(&mut rest).unwrap_or(0));
    }
    let value = take(place)?;
    rest = rest.trim_start_matches(['h', 'l', 'L', 'q', 'j', 'z', 't']);
    let kind = rest.chars().next().ok_or_else(|| bad("a field ends behind its %"))?;
    rest = &rest[kind.len_utf8()..];
    let value = match (kind, value) {
        ('x' | 'X' | 'o' | 'b' | 'u', Value::Integer(value)) => Value::Integer(unsigned(value)),
        _ => value,
    };
    match (kind, value) {
        ('c', Value::Integer(code)) => {
            let character = u32::try_from(code).ok().and_then(char::from_u32);
            out.push(character.ok_or_else(|| bad(format!("there is no character {code}")))?);
            return Ok(rest);
        }
        ('c', _) => return Err(bad("'c' shows the number of a character")),
        _ => {
            specification.kind = Some(kind);
            // Texts stand at the right, as numbers do.
            specification.alignment.get_or_insert('>');
            if specification.has_zeros && !matches!(value, Value::Text(_)) && specification.alignment == Some('>') {
                specification.alignment = None;
            }
            out.push_str(&specification.shown(value)?);
        }
    }
    Ok(rest)
}

/// The number whose bits are those of a negative one of 64 bits.
fn unsigned(value: i128) -> i128 {
    match i64::try_from(value) {
        Ok(negative @ i64::MIN..0) => i128::from(negative as u64),
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_filled() {
        let two = [Value::Integer(42), Value::Text("ab")];
        for (format, expect) in [
            ("%d %s 100%%", Some("42 ab 100%")),
            ("%5d|%-5s|", Some("   42|ab   |")),
            ("%05d %5s", Some("00042    ab")),
            ("%2$s %1$+d", Some("ab +42")),
            ("%x %.1s", Some("2a a")),
            ("%lld %s", Some("42 ab")),
            ("%c", Some("*")),
            ("%s", None),
            ("%d %s %d", None),
            ("%", None),
            ("%d %d", None),
        ] {
            assert_eq!(filled(format, &two).ok().as_deref(), expect, "{format}");
        }
        for (format, expect) in [
            ("%x", "fffffffffffffff9"),
            ("%24X|", "        FFFFFFFFFFFFFFF9|"),
            ("%o", "1777777777777777777771"),
            ("%u %d", "18446744073709551609 -7"),
        ] {
            let two = [Value::Integer(-7), Value::Integer(-7)];
            assert_eq!(filled(format, &two).ok().as_deref(), Some(expect), "{format}");
        }
        assert_eq!(
            filled("%08.2f|%e", &[Value::Float(3.24159), Value::Float(1.5)]).ok().as_deref(),
            Some("00003.24|1.500000e+00")
        );
    }
}
