//! One value as text: how every type is written, for people and in JSON.
//!
//! Invariants: floats are the shortest text that reads back to the same bits; decimals keep their scale; no value of any
//! Arrow type panics. Must not know: layouts, quoting of a format other than JSON.

use std::fmt::{Display, Write};

use arrow::array::timezone::Tz;
use arrow::array::types::{
    ArrowPrimitiveType, ArrowTimestampType, Date32Type, Date64Type, Decimal32Type, Decimal64Type, Decimal128Type,
    Decimal256Type, DurationMicrosecondType, DurationMillisecondType, DurationNanosecondType, DurationSecondType,
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, IntervalDayTimeType,
    IntervalMonthDayNanoType, IntervalYearMonthType, Time32MillisecondType, Time32SecondType, Time64MicrosecondType,
    Time64NanosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow::array::{Array, ArrayAccessor, AsArray};
use arrow::datatypes::{DataType, IntervalUnit, TimeUnit};
use arrow::temporal_conversions::as_datetime_with_timezone;
use arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::temporal::{push_date, push_infinite, push_interval, push_offset, push_time, push_timestamp};

/// Who reads the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Notation {
    /// People, and formats that quote for themselves.
    Text,
    /// JSON parsers: every value is a complete JSON value.
    Json,
}

/// Appends the value of a row; says `false`, and appends nothing, where it is NULL.
pub type Cells<'a> = Box<dyn Fn(usize, &mut String) -> bool + 'a>;

/// The writer of the values of `array`.
pub fn cells<'a>(array: &'a dyn Array, notation: Notation) -> Cells<'a> {
    match array.data_type() {
        DataType::Null => Box::new(|_, _| false),
        DataType::Boolean => {
            let values = array.as_boolean();
            present(values, move |row, out| out.push_str(if values.value(row) { "true" } else { "false" }))
        }
        DataType::Int8 => plain::<Int8Type>(array),
        DataType::Int16 => plain::<Int16Type>(array),
        DataType::Int32 => plain::<Int32Type>(array),
        DataType::Int64 => plain::<Int64Type>(array),
        DataType::UInt8 => plain::<UInt8Type>(array),
        DataType::UInt16 => plain::<UInt16Type>(array),
        DataType::UInt32 => plain::<UInt32Type>(array),
        DataType::UInt64 => plain::<UInt64Type>(array),
        DataType::Float16 => primitive::<Float16Type>(array, move |v, out| push_float(v.to_f32(), notation, out)),
        DataType::Float32 => primitive::<Float32Type>(array, move |v, out| push_float(v, notation, out)),
        DataType::Float64 => primitive::<Float64Type>(array, move |v, out| push_float(v, notation, out)),
        DataType::Decimal32(_, scale) => scaled::<Decimal32Type>(array, *scale),
        DataType::Decimal64(_, scale) => scaled::<Decimal64Type>(array, *scale),
        DataType::Decimal128(_, scale) => scaled::<Decimal128Type>(array, *scale),
        DataType::Decimal256(_, scale) => scaled::<Decimal256Type>(array, *scale),
        DataType::Utf8 => text(array.as_string::<i32>(), notation),
        DataType::LargeUtf8 => text(array.as_string::<i64>(), notation),
        DataType::Utf8View => text(array.as_string_view(), notation),
        DataType::Dictionary(..) => dictionary(array, notation),
        DataType::List(_)
        | DataType::LargeList(_)
        | DataType::FixedSizeList(..)
        | DataType::Struct(_)
        | DataType::Map(..) => nested(array, notation),
        _ => quoted(unquoted(array), notation),
    }
}

/// Types whose text never is a JSON value by itself.
fn unquoted(array: &dyn Array) -> Cells<'_> {
    match array.data_type() {
        DataType::Binary => blob(array.as_binary::<i32>()),
        DataType::LargeBinary => blob(array.as_binary::<i64>()),
        DataType::BinaryView => blob(array.as_binary_view()),
        DataType::FixedSizeBinary(_) => blob(array.as_fixed_size_binary()),
        DataType::Date32 => primitive::<Date32Type>(array, |days, out| match days.unsigned_abs() {
            infinite if infinite == i32::MAX.unsigned_abs() => push_infinite(days < 0, out),
            _ => push_date(i64::from(days), out),
        }),
        DataType::Date64 => primitive::<Date64Type>(array, |millis, out| push_date(millis.div_euclid(86_400_000), out)),
        DataType::Time32(TimeUnit::Second) => time::<Time32SecondType>(array, 1_000_000_000),
        DataType::Time32(_) => time::<Time32MillisecondType>(array, 1_000_000),
        DataType::Time64(TimeUnit::Microsecond) => time::<Time64MicrosecondType>(array, 1000),
        DataType::Time64(_) => time::<Time64NanosecondType>(array, 1),
        DataType::Timestamp(TimeUnit::Second, zone) => timestamp::<TimestampSecondType>(array, zone.as_deref()),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => {
            timestamp::<TimestampMillisecondType>(array, zone.as_deref())
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            timestamp::<TimestampMicrosecondType>(array, zone.as_deref())
        }
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => timestamp::<TimestampNanosecondType>(array, zone.as_deref()),
        DataType::Duration(TimeUnit::Second) => duration::<DurationSecondType>(array, 1_000_000_000),
        DataType::Duration(TimeUnit::Millisecond) => duration::<DurationMillisecondType>(array, 1_000_000),
        DataType::Duration(TimeUnit::Microsecond) => duration::<DurationMicrosecondType>(array, 1000),
        DataType::Duration(TimeUnit::Nanosecond) => duration::<DurationNanosecondType>(array, 1),
        DataType::Interval(IntervalUnit::YearMonth) => {
            primitive::<IntervalYearMonthType>(array, |months, out| push_interval(i64::from(months), 0, 0, out))
        }
        DataType::Interval(IntervalUnit::DayTime) => primitive::<IntervalDayTimeType>(array, |v, out| {
            push_interval(0, i64::from(v.days), i128::from(v.milliseconds) * 1_000_000, out);
        }),
        DataType::Interval(IntervalUnit::MonthDayNano) => primitive::<IntervalMonthDayNanoType>(array, |v, out| {
            push_interval(i64::from(v.months), i64::from(v.days), i128::from(v.nanoseconds), out);
        }),
        _ => fallback(array),
    }
}

/// Appends `text` as a JSON string.
pub fn push_json_string(text: &str, out: &mut String) {
    out.push('"');
    push_json_escaped(text, out);
    out.push('"');
}

fn push_json_escaped(text: &str, out: &mut String) {
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if u32::from(control) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
}

fn present<'a>(array: &'a dyn Array, push: impl Fn(usize, &mut String) + 'a) -> Cells<'a> {
    Box::new(move |row, out| {
        let valid = array.is_valid(row);
        if valid {
            push(row, out);
        }
        valid
    })
}

fn primitive<'a, T: ArrowPrimitiveType>(array: &'a dyn Array, push: impl Fn(T::Native, &mut String) + 'a) -> Cells<'a> {
    let values = array.as_primitive::<T>();
    present(array, move |row, out| push(values.value(row), out))
}

fn plain<T: ArrowPrimitiveType<Native: Display>>(array: &dyn Array) -> Cells<'_> {
    primitive::<T>(array, |value, out| {
        let _ = write!(out, "{value}");
    })
}

/// Shortest text that reads back; JSON has no NaN and no infinities, so these are strings there.
fn push_float<F: Copy + Into<f64> + std::fmt::Debug>(value: F, notation: Notation, out: &mut String) {
    let wide: f64 = value.into();
    if wide.is_finite() {
        let _ = write!(out, "{value:?}");
        return;
    }
    let name = match wide {
        _ if wide.is_nan() => "NaN",
        _ if wide > 0.0 => "Infinity",
        _ => "-Infinity",
    };
    match notation {
        Notation::Text => out.push_str(name),
        Notation::Json => push_json_string(name, out),
    }
}

fn scaled<T: ArrowPrimitiveType<Native: Display>>(array: &dyn Array, scale: i8) -> Cells<'_> {
    primitive::<T>(array, move |value, out| push_scaled(&value.to_string(), scale, out))
}

/// Appends the integer `digits` with its point `scale` digits from the right.
fn push_scaled(digits: &str, scale: i8, out: &mut String) {
    let (sign, digits) = match digits.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", digits),
    };
    out.push_str(sign);
    if scale <= 0 {
        out.push_str(digits);
        if digits != "0" {
            out.extend(std::iter::repeat_n('0', usize::from(scale.unsigned_abs())));
        }
        return;
    }
    let scale = usize::from(scale.unsigned_abs());
    let padded = format!("{digits:0>width$}", width = scale + 1);
    let (whole, fraction) = padded.split_at(padded.len() - scale);
    out.push_str(whole);
    out.push('.');
    out.push_str(fraction);
}

fn text<'a, A: ArrayAccessor<Item = &'a str> + 'a>(array: A, notation: Notation) -> Cells<'a> {
    Box::new(move |row, out| {
        let valid = array.is_valid(row);
        match (valid, notation) {
            (false, _) => {}
            (true, Notation::Text) => out.push_str(array.value(row)),
            (true, Notation::Json) => push_json_string(array.value(row), out),
        }
        valid
    })
}

fn blob<'a, A: ArrayAccessor<Item = &'a [u8]> + 'a>(array: A) -> Cells<'a> {
    Box::new(move |row, out| {
        let valid = array.is_valid(row);
        if valid {
            out.push_str("\\x");
            for byte in array.value(row) {
                let _ = write!(out, "{byte:02x}");
            }
        }
        valid
    })
}

fn time<T: ArrowPrimitiveType<Native: Into<i64>>>(array: &dyn Array, unit_nanos: i128) -> Cells<'_> {
    primitive::<T>(array, move |value, out| push_time(i128::from(value.into()) * unit_nanos, out))
}

fn duration<T: ArrowPrimitiveType<Native = i64>>(array: &dyn Array, unit_nanos: i128) -> Cells<'_> {
    const DAY_NANOS: i128 = 86_400_000_000_000;
    primitive::<T>(array, move |value, out| {
        let nanos = i128::from(value) * unit_nanos;
        push_interval(0, (nanos / DAY_NANOS) as i64, nanos % DAY_NANOS, out);
    })
}

/// Local timestamps as they are; instants in their zone, with its distance from UTC.
fn timestamp<'a, T: ArrowTimestampType>(array: &'a dyn Array, zone: Option<&str>) -> Cells<'a> {
    let unit_nanos: i128 = match T::UNIT {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1000,
        TimeUnit::Nanosecond => 1,
    };
    let Some(zone) = zone else {
        return primitive::<T>(array, move |value, out| match value.unsigned_abs() {
            infinite if infinite == i64::MAX.unsigned_abs() => push_infinite(value < 0, out),
            _ => push_timestamp(i128::from(value) * unit_nanos, out),
        });
    };
    let zone: Option<Tz> = zone.parse().ok();
    primitive::<T>(array, move |value, out| {
        if value.unsigned_abs() == i64::MAX.unsigned_abs() {
            return push_infinite(value < 0, out);
        }
        let instant = zone.and_then(|zone| as_datetime_with_timezone::<T>(value, zone));
        let offset = instant.map_or(0, |instant| (instant.naive_local() - instant.naive_utc()).num_seconds());
        push_timestamp(i128::from(value) * unit_nanos + i128::from(offset) * 1_000_000_000, out);
        push_offset(offset, out);
    })
}

fn dictionary(array: &dyn Array, notation: Notation) -> Cells<'_> {
    let codes = array.as_any_dictionary();
    if codes.values().is_empty() {
        return Box::new(|_, _| false);
    }
    let keys = codes.normalized_keys();
    let values = cells(codes.values().as_ref(), notation);
    Box::new(move |row, out| codes.keys().is_valid(row) && values(keys[row], out))
}

/// Lists as `[a, b]`, structs as `{'a': 1}`, those without names as `(1, a)`, maps as `{k=v}`; in JSON arrays and objects.
fn nested(array: &dyn Array, notation: Notation) -> Cells<'_> {
    match array.data_type() {
        DataType::List(_) => {
            let list = array.as_list::<i32>();
            let ends = list.value_offsets();
            sequence(array, list.values().as_ref(), notation, move |row| ends[row] as usize..ends[row + 1] as usize)
        }
        DataType::LargeList(_) => {
            let list = array.as_list::<i64>();
            let ends = list.value_offsets();
            sequence(array, list.values().as_ref(), notation, move |row| ends[row] as usize..ends[row + 1] as usize)
        }
        DataType::FixedSizeList(_, length) => {
            let (list, length) = (array.as_fixed_size_list(), *length as usize);
            sequence(array, list.values().as_ref(), notation, move |row| row * length..(row + 1) * length)
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            let members: Vec<(&str, Cells<'_>)> =
                fields.iter().zip(columns).map(|(f, c)| (f.name().as_str(), part(c.as_ref(), notation))).collect();
            let mut names = members.iter().enumerate();
            let is_row = notation == Notation::Text && names.all(|(index, (name, _))| *name == format!("c{index}"));
            present(array, move |row, out| {
                out.push(if is_row { '(' } else { '{' });
                for (index, (name, value)) in members.iter().enumerate() {
                    separate(index, out);
                    match notation {
                        Notation::Json => {
                            push_json_string(name, out);
                            out.push(':');
                        }
                        Notation::Text if is_row => {}
                        Notation::Text => {
                            push_quoted(name, out);
                            out.push_str(": ");
                        }
                    }
                    push_or_null(value, row, notation, out);
                }
                out.push_str(match (is_row, members.len()) {
                    (true, 1) => ",)",
                    (true, _) => ")",
                    _ => "}",
                });
            })
        }
        _ => map(array, notation),
    }
}

fn sequence<'a>(
    array: &'a dyn Array,
    items: &'a dyn Array,
    notation: Notation,
    range: impl Fn(usize) -> std::ops::Range<usize> + 'a,
) -> Cells<'a> {
    let item = part(items, notation);
    present(array, move |row, out| {
        out.push('[');
        for (index, at) in range(row).enumerate() {
            separate(index, out);
            push_or_null(&item, at, notation, out);
        }
        out.push(']');
    })
}

fn map(array: &dyn Array, notation: Notation) -> Cells<'_> {
    let entries = array.as_map();
    let keys = match notation {
        Notation::Json => cells(entries.keys().as_ref(), Notation::Text),
        Notation::Text => part(entries.keys().as_ref(), notation),
    };
    let values = part(entries.values().as_ref(), notation);
    let ends = entries.value_offsets();
    present(array, move |row, out| {
        out.push('{');
        for (index, at) in (ends[row] as usize..ends[row + 1] as usize).enumerate() {
            separate(index, out);
            let mut key = String::new();
            keys(at, &mut key);
            match notation {
                Notation::Json => {
                    push_json_string(&key, out);
                    out.push(':');
                }
                Notation::Text => out.extend([key.as_str(), "="]),
            }
            push_or_null(&values, at, notation, out);
        }
        out.push('}');
    })
}

/// Values within others: texts stand in quotes where they could be read in another way.
fn part(array: &dyn Array, notation: Notation) -> Cells<'_> {
    let value = cells(array, notation);
    if notation == Notation::Json || array.data_type().is_numeric() || array.data_type().is_nested() {
        return value;
    }
    Box::new(move |row, out| {
        let mut text = String::new();
        let valid = value(row, &mut text);
        match valid && needs_quotes(&text) {
            true => push_quoted(&text, out),
            false => out.push_str(&text),
        }
        valid
    })
}

fn needs_quotes(text: &str) -> bool {
    text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.starts_with(|c: char| c.is_ascii_whitespace())
        || text.ends_with(|c: char| c.is_ascii_whitespace())
        || text.contains(['"', '\'', '(', ')', ',', ':', '=', '[', ']', '{', '}', '\\'])
}

fn push_quoted(text: &str, out: &mut String) {
    out.extend(["'", &text.replace('\\', "\\\\").replace('\'', "\\'"), "'"]);
}

fn separate(index: usize, out: &mut String) {
    if index > 0 {
        out.push_str(", ");
    }
}

fn push_or_null(value: &Cells<'_>, row: usize, notation: Notation, out: &mut String) {
    if !value(row, out) {
        out.push_str(if notation == Notation::Json { "null" } else { "NULL" });
    }
}

/// As a JSON string where JSON is wanted.
fn quoted(value: Cells<'_>, notation: Notation) -> Cells<'_> {
    if notation == Notation::Text {
        return value;
    }
    Box::new(move |row, out| {
        let mut text = String::new();
        let valid = value(row, &mut text);
        if valid {
            push_json_string(&text, out);
        }
        valid
    })
}

/// Types that Forebay does not store but that a file may hold: as Arrow prints them.
fn fallback(array: &dyn Array) -> Cells<'_> {
    let nulls = array.logical_nulls();
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(array, &options.with_null("NULL")).ok();
    let type_name = array.data_type().to_string();
    Box::new(move |row, out| {
        let valid = nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row));
        if valid {
            let shown = formatter.as_ref().and_then(|formatter| formatter.value(row).try_to_string().ok());
            out.push_str(shown.as_deref().unwrap_or(&type_name));
        }
        valid
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::types::IntervalMonthDayNano;
    use arrow::array::{
        ArrayRef, BinaryViewArray, Date32Array, Decimal128Array, Decimal256Array, DictionaryArray, DurationSecondArray,
        FixedSizeListArray, Float32Array, Float64Array, Int8Array, Int32Builder, Int64Array, IntervalMonthDayNanoArray,
        MapBuilder, NullArray, StringBuilder, StringViewArray, Time64MicrosecondArray, TimestampMillisecondArray,
        TimestampSecondArray, UInt64Array,
    };
    use arrow::datatypes::Int32Type;
    use arrow::datatypes::i256;

    use super::*;

    /// The values of `array` in both notations.
    fn check(array: impl Array + 'static, text: &[&str], json: &[&str]) {
        let array: ArrayRef = Arc::new(array);
        for (notation, expected) in [(Notation::Text, text), (Notation::Json, json)] {
            let cells = cells(array.as_ref(), notation);
            let written: Vec<String> = (0..array.len())
                .map(|row| {
                    let mut out = String::new();
                    if cells(row, &mut out) { out } else { format!("<null{out}>") }
                })
                .collect();
            assert_eq!(written, expected, "{} {notation:?}", array.data_type());
        }
    }

    fn same(array: impl Array + 'static, text: &[&str]) {
        check(array, text, text);
    }

    #[test]
    fn integers_keep_all_digits() {
        same(Int8Array::from(vec![Some(-128), None]), &["-128", "<null>"]);
        same(Int64Array::from(vec![i64::MIN, i64::MAX]), &["-9223372036854775808", "9223372036854775807"]);
        same(UInt64Array::from(vec![u64::MAX]), &["18446744073709551615"]);
    }

    #[test]
    fn floats_are_the_shortest_that_read_back() {
        same(Float64Array::from(vec![1.0, -0.0, 0.1, 1e16, 5e-324]), &["1.0", "-0.0", "0.1", "1e16", "5e-324"]);
        same(Float32Array::from(vec![0.1, 16_777_216.0]), &["0.1", "16777216.0"]);
        check(
            Float64Array::from(vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY]),
            &["NaN", "Infinity", "-Infinity"],
            &["\"NaN\"", "\"Infinity\"", "\"-Infinity\""],
        );
    }

    #[test]
    fn decimals_keep_their_scale() {
        let decimals = |values: Vec<i128>, precision, scale| {
            Decimal128Array::from(values).with_precision_and_scale(precision, scale).expect("it fits")
        };
        same(decimals(vec![5, -5, 0, 12_345], 10, 2), &["0.05", "-0.05", "0.00", "123.45"]);
        same(decimals(vec![7, 0], 10, 0), &["7", "0"]);
        same(decimals(vec![7, 0], 10, -2), &["700", "0"]);
        same(decimals(vec![1 - 10i128.pow(38)], 38, 38), &[&format!("-0.{}", "9".repeat(38))]);
        let wide = Decimal256Array::from(vec![i256::from_i128(-1205)]).with_precision_and_scale(50, 3);
        same(wide.expect("it fits"), &["-1.205"]);
    }

    #[test]
    fn text_and_blobs() {
        check(StringViewArray::from(vec![Some("a\"\n"), None]), &["a\"\n", "<null>"], &["\"a\\\"\\n\"", "<null>"]);
        check(BinaryViewArray::from(vec![b"\x00\xab".as_slice()]), &["\\x00ab"], &["\"\\\\x00ab\""]);
        let codes: DictionaryArray<Int32Type> = vec![Some("x"), None, Some("y"), Some("x")].into_iter().collect();
        check(codes, &["x", "<null>", "y", "x"], &["\"x\"", "<null>", "\"y\"", "\"x\""]);
        same(NullArray::new(1), &["<null>"]);
    }

    #[test]
    fn dates_times_and_intervals() {
        check(Date32Array::from(vec![19_753]), &["2024-01-31"], &["\"2024-01-31\""]);
        check(Time64MicrosecondArray::from(vec![45_296_000_100]), &["12:34:56.0001"], &["\"12:34:56.0001\""]);
        let at = 1_706_704_496;
        check(TimestampSecondArray::from(vec![at]), &["2024-01-31 12:34:56"], &["\"2024-01-31 12:34:56\""]);
        let zoned = TimestampMillisecondArray::from(vec![at * 1000]).with_timezone("+05:30");
        check(zoned, &["2024-01-31 18:04:56+05:30"], &["\"2024-01-31 18:04:56+05:30\""]);
        let lost = TimestampMillisecondArray::from(vec![at * 1000]).with_timezone("Nowhere/Land");
        check(lost, &["2024-01-31 12:34:56+00"], &["\"2024-01-31 12:34:56+00\""]);
        let interval = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(13, -2, 1_500_000_000)]);
        let text = "1 year 1 month -2 days 00:00:01.5";
        check(interval, &[text], &[&format!("\"{text}\"")]);
        check(DurationSecondArray::from(vec![-90_000]), &["-1 day -01:00:00"], &["\"-1 day -01:00:00\""]);
    }

    #[test]
    fn extreme_values_do_not_panic() {
        for at in [i64::MIN, i64::MAX] {
            let array = TimestampSecondArray::from(vec![at]).with_timezone("+01:00");
            cells(&array, Notation::Json)(0, &mut String::new());
            cells(&DurationSecondArray::from(vec![at]), Notation::Text)(0, &mut String::new());
            let interval = IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(i32::MIN, i32::MIN, at)]);
            cells(&interval, Notation::Text)(0, &mut String::new());
        }
    }

    #[test]
    fn nested_values() {
        let pairs = vec![Some(vec![Some(1), None]), None];
        let list = FixedSizeListArray::from_iter_primitive::<Int32Type, _, _>(pairs, 2);
        check(list, &["[1, NULL]", "<null>"], &["[1, null]", "<null>"]);
        let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
        map.keys().append_value("a\"b");
        map.values().append_null();
        map.append(true).expect("one value per key");
        check(map.finish(), &["{'a\"b'=NULL}"], &["{\"a\\\"b\":null}"]);
    }
}
