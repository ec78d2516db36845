//! `strptime` and `try_strptime`: texts as timestamps by a format.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, TimestampMicrosecondType};
use datafusion::common::Result;
use forebay_base::calendar::{self, number};
use forebay_context::moments::{self, DAY};

use super::format::{Piece, pieces};
use super::part::{HOUR, MINUTE, SECOND};
use crate::function::{Call, Definition, Shape, TEXT, TIMESTAMP, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["strptime"], shape, compute: |call| compute(call, false) },
    Definition { names: &["try_strptime"], shape, compute: |call| compute(call, true) },
];

/// Fields that a timestamp without a time zone, and without weeks, has no place for.
const REFUSED: &str = "zZnGVUW";

/// The format may be a list of formats, of which the first one that fits is used.
fn shape(types: &[DataType]) -> Option<Shape> {
    let [text, format] = types else { return None };
    let format = match format {
        DataType::List(_) | DataType::FixedSizeList(..) | DataType::LargeList(_) => {
            DataType::List(Field::new_list_field(TEXT, true).into())
        }
        other if is_text(other) => TEXT,
        _ => return None,
    };
    is_text(text).then(|| Shape { arguments: vec![TEXT, format], result: TIMESTAMP })
}

fn compute(call: &Call<'_>, or_null: bool) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let formats = |row: usize| -> Option<Vec<String>> {
        match call.arguments[1].as_list_opt::<i32>() {
            Some(lists) if lists.is_valid(row) => {
                Some(lists.value(row).as_string_view().iter().flatten().map(str::to_owned).collect())
            }
            Some(_) => None,
            None => {
                let formats = call.texts(1);
                formats.is_valid(row).then(|| vec![formats.value(row).to_owned()])
            }
        }
    };
    call.values_of::<TimestampMicrosecondType>(|row| {
        let Some(formats) = formats(row).filter(|_| texts.is_valid(row)) else { return Ok(None) };
        let text = texts.value(row);
        for format in &formats {
            let pieces = pieces(format)?;
            if let Some(field) = pieces.iter().find_map(|piece| match piece {
                Piece::Field(field, _) if REFUSED.contains(*field) => Some(field),
                _ => None,
            }) {
                return Err(refused(
                    format!("strptime: field %{field} is not supported"),
                    "Use %Y, %m, %d, %j, %H, %M, %S, %f",
                ));
            }
            if let Some(moment) = read(text, &pieces) {
                return Ok(Some(moment));
            }
        }
        match or_null {
            true => Ok(None),
            false => Err(refused(
                format!("cannot read {text:?} as {}", formats.join(" or ")),
                "Use try_strptime, which gives NULL",
            )),
        }
    })
}

/// What the fields of a format say.
#[derive(Debug)]
struct Fields {
    year: i64,
    month: i64,
    day: i64,
    year_day: Option<i64>,
    hour: i64,
    minute: i64,
    second: i64,
    microsecond: i64,
    is_afternoon: Option<bool>,
}

fn read(text: &str, pieces: &[Piece]) -> Option<i64> {
    let text = text.trim_ascii();
    let is_word = text.ends_with(|c: char| c.is_ascii_alphabetic());
    if let Some((_, "")) = calendar::parse(text).filter(|_| is_word) {
        return moments::parse(text)?.microseconds(false);
    }
    let mut fields = Fields {
        year: 1900,
        month: 1,
        day: 1,
        year_day: None,
        hour: 0,
        minute: 0,
        second: 0,
        microsecond: 0,
        is_afternoon: None,
    };
    let rest = read_pieces(text, pieces, &mut fields)?;
    if !rest.trim_ascii().is_empty() {
        return None;
    }
    let hour = match fields.is_afternoon {
        None => fields.hour,
        Some(_) if !(1..=12).contains(&fields.hour) => return None,
        Some(is_afternoon) => fields.hour % 12 + if is_afternoon { 12 } else { 0 },
    };
    let day = match fields.year_day {
        Some(day) => calendar::days(fields.year, 1, 1) + day - 1,
        None => calendar::checked_days(fields.year, fields.month, fields.day)?.into(),
    };
    Some(day * DAY + hour * HOUR + fields.minute * MINUTE + fields.second * SECOND + fields.microsecond)
}

fn read_pieces<'a>(mut rest: &'a str, pieces: &[Piece], fields: &mut Fields) -> Option<&'a str> {
    for piece in pieces {
        rest = match piece {
            Piece::Text(text) => rest.strip_prefix(text.as_str())?,
            Piece::Field(letter, _) => read_field(rest, *letter, fields)?,
        };
    }
    Some(rest)
}

fn read_field<'a>(text: &'a str, letter: char, fields: &mut Fields) -> Option<&'a str> {
    let within = |most: usize, least: i64, greatest: i64| {
        number_at_most(text, most).filter(|(value, _)| (least..=greatest).contains(value))
    };
    let name = |names: &dyn Fn(i64) -> &'static str, count: i64, is_short: bool| -> Option<(i64, &'a str)> {
        (0..count).find_map(|index| {
            let full = names(index);
            let name = if is_short { &full[..3] } else { full };
            let begins = text.get(..name.len())?.eq_ignore_ascii_case(name);
            begins.then(|| (index, &text[name.len()..]))
        })
    };
    let composed = |format: &str, fields: &mut Fields| read_pieces(text, &pieces(format).ok()?, fields);
    let (value, rest) = match letter {
        'a' | 'A' => name(&calendar::day_name, 7, letter == 'a')?,
        'b' | 'h' | 'B' => name(&|index| calendar::month_name(index + 1), 12, letter != 'B')?,
        'c' => return composed("%Y-%m-%d %H:%M:%S", fields),
        'x' => return composed("%Y-%m-%d", fields),
        'X' | 'T' => return composed("%H:%M:%S", fields),
        'd' => within(2, 1, 31)?,
        'f' => fraction(text, 6)?,
        'g' => fraction(text, 3)?,
        'H' => within(2, 0, 23)?,
        'I' => within(2, 1, 12)?,
        'j' => within(3, 1, 366)?,
        'm' => within(2, 1, 12)?,
        'M' => within(2, 0, 59)?,
        'S' => within(2, 0, 59)?,
        'p' => {
            let word = text.get(..2)?.to_ascii_lowercase();
            let is_one = word == "am" || word == "pm";
            is_one.then(|| (i64::from(word == "pm"), &text[2..]))?
        }
        'u' => within(1, 1, 7)?,
        'w' => within(1, 0, 6)?,
        'y' => within(2, 0, 99)?,
        'Y' => within(4, 0, 9_999)?,
        _ => return None,
    };
    match letter {
        'b' | 'h' | 'B' => fields.month = value + 1,
        'd' => fields.day = value,
        'f' => fields.microsecond = value,
        'g' => fields.microsecond = value * 1_000,
        'H' | 'I' => fields.hour = value,
        'j' => fields.year_day = Some(value),
        'm' => fields.month = value,
        'M' => fields.minute = value,
        'S' => fields.second = value,
        'p' => fields.is_afternoon = Some(value == 1),
        'y' => fields.year = if value >= 69 { 1900 + value } else { 2000 + value },
        'Y' => fields.year = value,
        _ => {}
    }
    Some(rest)
}

/// A number of so many digits at most; those behind belong to the next field.
fn number_at_most(text: &str, most: usize) -> Option<(i64, &str)> {
    let end = text.bytes().take(most).position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len().min(most));
    let (value, rest) = number(&text[..end], most)?;
    rest.is_empty().then(|| (value, &text[end..]))
}

/// Digits of a fraction of so many digits at most.
fn fraction(text: &str, digits: usize) -> Option<(i64, &str)> {
    let (_, rest) = number_at_most(text, digits)?;
    let given = &text[..text.len() - rest.len()];
    Some((format!("{given:0<digits$}").parse().ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_by_formats() {
        for (text, format, expect) in [
            ("2020-2-3", "%Y-%m-%d", Some("2020-02-03 00:00:00")),
            ("20200203", "%Y%m%d", Some("2020-02-03 00:00:00")),
            (" mon 03 FEB 20 ", "%a %d %b %y", Some("2020-02-03 00:00:00")),
            ("12:00 am", "%I:%M %p", Some("1900-01-01 00:00:00")),
            ("12:30 PM", "%I:%M %p", Some("1900-01-01 12:30:00")),
            ("034 2020", "%j %Y", Some("2020-02-03 00:00:00")),
            ("%69 1.5", "%%%y %S.%f", Some("1969-01-01 00:00:01.5")),
            ("24:00", "%H:%M", None),
            ("2020-02-30", "%Y-%m-%d", None),
            ("20201", "%Y", None),
            ("", "%Y", None),
        ] {
            let moment = read(text, &pieces(format).expect("a format"));
            assert_eq!(moment.map(|moment| moments::text(moment, 1_000_000)).as_deref(), expect, "{text} {format}");
        }
    }
}
