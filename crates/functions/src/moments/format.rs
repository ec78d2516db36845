//! `strftime`: moments as text by a format.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, TimestampNanosecondType};
use datafusion::common::Result;
use forebay_base::calendar::{self, INFINITE_DAY, civil};
use forebay_context::moments::{DAY, INFINITE};

use super::part::{HOUR, MINUTE, SECOND};
use crate::function::{Call, Definition, Shape, TEXT, is_moment, is_text, moment_type, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["strftime"], shape, compute }];

/// The moment and the format stand in any order.
fn shape(types: &[DataType]) -> Option<Shape> {
    let [first, second] = types else { return None };
    let arguments = match (is_moment(second), is_text(first)) {
        (true, true) => vec![TEXT, moment_type(second)?],
        _ if is_text(second) => vec![moment_type(first)?, TEXT],
        _ => return None,
    };
    Some(Shape { arguments, result: TEXT })
}

/// A piece of a format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Piece {
    /// As it is.
    Text(String),
    /// A letter behind `%`, and whether there was a `-` between them.
    Field(char, bool),
}

const FIELDS: &str = "aAbBcdfgGhHIjmMnpSTuUVwWxXyYzZ";
const UNPADDED: &str = "dHIjmMSy";

/// The pieces of a format.
pub(crate) fn pieces(format: &str) -> Result<Vec<Piece>> {
    let refuse =
        |message: String| refused(format!("format {format:?}: {message}"), "Use fields such as %Y, %m, %d, %H, %M, %S");
    if format.is_empty() {
        return Err(refuse("it is empty".to_owned()));
    }
    let mut pieces = Vec::new();
    let mut text = String::new();
    let mut characters = format.chars();
    while let Some(character) = characters.next() {
        if character != '%' {
            text.push(character);
            continue;
        }
        let (field, is_unpadded) = match characters.next() {
            Some('-') => (characters.next(), true),
            other => (other, false),
        };
        match field {
            Some('%') if !is_unpadded => text.push('%'),
            Some(field) if FIELDS.contains(field) && (!is_unpadded || UNPADDED.contains(field)) => {
                if !text.is_empty() {
                    pieces.push(Piece::Text(std::mem::take(&mut text)));
                }
                pieces.push(Piece::Field(field, is_unpadded));
            }
            Some(field) => {
                return Err(refuse(format!("there is no field %{}{field}", if is_unpadded { "-" } else { "" })));
            }
            None => return Err(refuse("it ends with a lone %".to_owned())),
        }
    }
    if !text.is_empty() {
        pieces.push(Piece::Text(text));
    }
    Ok(pieces)
}

fn compute(call: &Call<'_>) -> Result<ArrayRef> {
    let (moment, format) = if *call.arguments[0].data_type() == TEXT { (1, 0) } else { (0, 1) };
    let (moments, formats) = (with_nanoseconds(call, moment)?, call.texts(format));
    let is_zoned = matches!(call.arguments[moment].data_type(), DataType::Timestamp(_, Some(_)));
    let mut known: Option<(&str, Vec<Piece>)> = None;
    let mut out = datafusion::arrow::array::StringViewBuilder::with_capacity(call.rows);
    for (row, moment) in moments.iter().enumerate() {
        let Some(moment) = moment.filter(|_| formats.is_valid(row)) else {
            out.append_null();
            continue;
        };
        let format = formats.value(row);
        if known.as_ref().is_none_or(|(last, _)| *last != format) {
            known = Some((format, pieces(format)?));
        }
        if let Some((_, pieces)) = &known {
            out.append_value(text(moment, pieces, is_zoned));
        }
    }
    Ok(std::sync::Arc::new(out.finish()))
}

/// Days since 1970-01-01, and nanoseconds of the day; infinite ones are the infinite days.
fn with_nanoseconds(call: &Call<'_>, index: usize) -> Result<Vec<Option<(i64, i64)>>> {
    let day = DAY * 1_000;
    let split = |moment: i64| match moment.unsigned_abs() == INFINITE as u64 {
        true => (i64::from(INFINITE_DAY) * moment.signum(), 0),
        false => (moment.div_euclid(day), moment.rem_euclid(day)),
    };
    Ok(match call.arguments[index].as_primitive_opt::<TimestampNanosecondType>() {
        Some(moments) => moments.iter().map(|moment| moment.map(split)).collect(),
        None => call.days(index)?.into_iter().map(|one| one.map(|(day, time)| (day, time * 1_000))).collect(),
    })
}

/// Of a day, and nanoseconds of it.
fn text(moment: (i64, i64), pieces: &[Piece], is_zoned: bool) -> String {
    if moment.0.abs() == i64::from(INFINITE_DAY) {
        return if moment.0 > 0 { "infinity" } else { "-infinity" }.to_owned();
    }
    let mut out = String::new();
    for piece in pieces {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Field(letter, is_unpadded) => out.push_str(&field(moment, *letter, *is_unpadded, is_zoned)),
        }
    }
    out
}

fn field(moment: (i64, i64), letter: char, is_unpadded: bool, is_zoned: bool) -> String {
    let (day, time) = (moment.0, moment.1 / 1_000);
    let (date, weekday, year_day) = (civil(day), calendar::weekday(day), calendar::year_day(day));
    let (hour, minute, second, fraction) = (time / HOUR, time % HOUR / MINUTE, time % MINUTE / SECOND, time % SECOND);
    let two = |value: i64| if is_unpadded { value.to_string() } else { format!("{value:02}") };
    let half_day = (hour + 11) % 12 + 1;
    let year = |year: i64| if year < 0 { year.to_string() } else { format!("{year:04}") };
    match letter {
        'a' => calendar::day_name(weekday)[..3].to_owned(),
        'A' => calendar::day_name(weekday).to_owned(),
        'b' | 'h' => calendar::month_name(date.month)[..3].to_owned(),
        'B' => calendar::month_name(date.month).to_owned(),
        'c' => format!("{} {}", field(moment, 'x', false, false), field(moment, 'X', false, false)),
        'd' => two(date.day),
        'f' => format!("{fraction:06}"),
        'g' => format!("{:03}", fraction / 1_000),
        'G' => year(calendar::iso_week(day).0),
        'H' => two(hour),
        'I' => two(half_day),
        'j' if is_unpadded => year_day.to_string(),
        'j' => format!("{year_day:03}"),
        'm' => two(date.month),
        'M' => two(minute),
        'n' => format!("{:09}", moment.1 % (SECOND * 1_000)),
        'p' => if hour < 12 { "AM" } else { "PM" }.to_owned(),
        'S' => two(second),
        'u' => calendar::iso_weekday(day).to_string(),
        'U' => format!("{:02}", (year_day + 6 - weekday) / 7),
        'V' => format!("{:02}", calendar::iso_week(day).1),
        'w' => weekday.to_string(),
        'W' => format!("{:02}", (year_day + 6 - (weekday + 6) % 7) / 7),
        'x' => format!("{}-{:02}-{:02}", year(date.year), date.month, date.day),
        'X' | 'T' => format!("{hour:02}:{minute:02}:{second:02}"),
        'y' => two(date.year.abs() % 100),
        'Y' => year(date.year),
        'z' => "+00".to_owned(),
        'Z' if is_zoned => "UTC".to_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_shown() {
        let moment = (-735_160, 18_243_678_901_234);
        let shown = |format: &str| text(moment, &pieces(format).expect("a format"), false);
        assert_eq!(shown("%a|%A|%b|%d|%-d|%f|%g|%H|%-H"), "Fri|Friday|Mar|15|15|678901|678|05|5");
        assert_eq!(shown("%n"), "678901234");
        assert_eq!(shown("%I|%j|%m|%-m|%p|%U|%W|%V|%u|%w"), "05|074|03|3|AM|10|10|11|5|5");
        assert_eq!(shown("%x %X %c %y %Y%%"), "-43-03-15 05:04:03 -43-03-15 05:04:03 43 -43%");
        for format in ["", "%", "%Q", "%-Y", "x%-"] {
            assert!(pieces(format).is_err(), "{format}");
        }
    }
}
