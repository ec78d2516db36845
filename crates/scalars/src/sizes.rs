//! Sizes in bytes and shares of a bar, for people.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, UInt64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use forebay_functions::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["format_bytes", "formatreadablesize", "pg_size_pretty"],
        shape,
        compute: |call| sizes(call, 1_024, &BINARY),
    },
    Definition { names: &["formatreadabledecimalsize"], shape, compute: |call| sizes(call, 1_000, &DECIMAL) },
    Definition { names: &["parse_formatted_bytes"], shape: text_shape, compute: parsed },
    Definition { names: &["bar"], shape: bar_shape, compute: bars },
];

const BINARY: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL: [&str; 6] = ["bytes", "kB", "MB", "GB", "TB", "PB"];

fn shape(types: &[DataType]) -> Option<Shape> {
    (types.len() == 1 && is_integer(&types[0])).then(|| Shape { arguments: vec![DataType::Int64], result: TEXT })
}

fn sizes(call: &Call<'_>, step: u64, units: &[&str]) -> Result<ArrayRef> {
    let sizes = call.integers(0);
    call.texts_of(|row| Ok(sizes.is_valid(row).then(|| size(sizes.value(row), step, units))))
}

/// `1.4 KiB`: digits behind the first one of the fraction are cut off.
fn size(bytes: i64, step: u64, units: &[&str]) -> String {
    let sign = if bytes < 0 { "-" } else { "" };
    let bytes = bytes.unsigned_abs();
    if bytes < step {
        return format!("{sign}{bytes} {}", if bytes == 1 { "byte" } else { "bytes" });
    }
    let (mut value, mut tenths, mut unit) = (bytes, 0, 0);
    while value >= step && unit + 1 < units.len() {
        (tenths, value, unit) = (value % step * 10 / step, value / step, unit + 1);
    }
    format!("{sign}{value}.{tenths} {}", units[unit])
}

fn text_shape(types: &[DataType]) -> Option<Shape> {
    let fits = types.len() == 1 && (is_text(&types[0]) || types[0].is_null());
    fits.then(|| Shape { arguments: vec![TEXT], result: DataType::UInt64 })
}

fn parsed(call: &Call<'_>) -> Result<ArrayRef> {
    let texts = call.texts(0);
    let sizes = (0..call.rows).map(|row| texts.is_valid(row).then(|| size_of(texts.value(row))).transpose());
    Ok(Arc::new(sizes.collect::<Result<UInt64Array>>()?))
}

/// The bytes that a text like `1.5 KiB` says, without parts of a byte.
fn size_of(text: &str) -> Result<u64> {
    let wrong =
        |what: &str| refused(format!("{what} in the size '{text}'"), "Write a number and a unit: '1.5 KiB', '10 MB'");
    let written = text.trim();
    // An exponent is part of the number, the E of a unit would be another letter.
    let is_number = |(at, letter): (usize, char)| {
        letter.is_ascii_digit()
            || ".+-".contains(letter)
            || (matches!(letter, 'e' | 'E')
                && written[at + 1..].starts_with(|next: char| next.is_ascii_digit() || "+-".contains(next)))
    };
    let end = written.char_indices().find(|place| !is_number(*place)).map_or(written.len(), |(at, _)| at);
    let (number, unit) = written.split_at(end);
    let number: f64 = number.parse().map_err(|_| wrong("there is no number"))?;
    let unit = unit.trim().to_ascii_lowercase();
    let unit: f64 = match unit.as_str() {
        "b" | "byte" | "bytes" => 1.0,
        "k" | "kb" | "kilobyte" | "kilobytes" => 1e3,
        "m" | "mb" | "megabyte" | "megabytes" => 1e6,
        "g" | "gb" | "gigabyte" | "gigabytes" => 1e9,
        "t" | "tb" | "terabyte" | "terabytes" => 1e12,
        "kib" => f64::from(1_u32 << 10),
        "mib" => f64::from(1_u32 << 20),
        "gib" => f64::from(1_u32 << 30),
        "tib" => (1_u64 << 40) as f64,
        _ => return Err(wrong("there is no unit of KB, MB, GB, TB, KiB, MiB, GiB, TiB")),
    };
    match number * unit {
        bytes if bytes < 0.0 => Err(wrong("there is a negative number")),
        bytes if bytes >= u64::MAX as f64 => Err(wrong("there are more than 18 exabytes")),
        bytes => Ok(bytes as u64),
    }
}

fn bar_shape(types: &[DataType]) -> Option<Shape> {
    let fits = matches!(types.len(), 3 | 4) && types.iter().all(|one| one.is_numeric() || one.is_null());
    fits.then(|| Shape { arguments: vec![DataType::Float64; types.len()], result: TEXT })
}

fn bars(call: &Call<'_>) -> Result<ArrayRef> {
    let numbers: Vec<_> = (0..call.arguments.len()).map(|index| call.floats(index)).collect();
    call.texts_of(|row| {
        if numbers.iter().any(|values| values.is_null(row)) {
            return Ok(None);
        }
        let width = numbers.get(3).map_or(80.0, |widths| widths.value(row));
        if !(1.0..=1_000.0).contains(&width) {
            return Err(refused(format!("a bar of width {width} is not possible"), "The width is 1 to 1000"));
        }
        bar(numbers[0].value(row), numbers[1].value(row), numbers[2].value(row), width).map(Some)
    })
}

fn bar(value: f64, least: f64, greatest: f64, width: f64) -> Result<String> {
    if !least.is_finite() || !greatest.is_finite() || greatest < least {
        return Err(refused(
            format!("a bar from {least} to {greatest} is not possible"),
            "The second number is the lesser one",
        ));
    }
    let share = match value {
        _ if value.is_nan() || value <= least => 0.0,
        _ if value >= greatest => width,
        _ => width * (value - least) / (greatest - least),
    };
    let eighths = (share * 8.0) as usize;
    let parts = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let filled = "█".repeat(eighths / 8) + parts[eighths % 8];
    let missing = (width as usize).saturating_sub(filled.chars().count());
    Ok(filled + &" ".repeat(missing))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_their_units() {
        for (text, bytes) in
            [("1.5 KiB", 1_536), (" 10MB ", 10_000_000), ("1.7 B", 1), ("1e3 kb", 1_000_000), (".5 k", 500)]
        {
            assert_eq!(size_of(text).unwrap(), bytes, "{text}");
        }
        for text in ["", "7", "x", "MB", "-1 MB", "1 PB", "99999999 TB", "nan MB", "1e MB"] {
            assert!(size_of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_have_one_digit_behind_the_point() {
        let shown = |bytes| size(bytes, 1_024, &BINARY);
        assert_eq!(
            (shown(0), shown(1), shown(1_023), shown(1_024)),
            ("0 bytes".into(), "1 byte".into(), "1023 bytes".into(), "1.0 KiB".into())
        );
        assert_eq!((shown(-1_500), shown(i64::MAX)), ("-1.4 KiB".into(), "8191.9 PiB".into()));
        assert_eq!(size(1_500_000_000_000, 1_000, &DECIMAL), "1.5 TB");
    }

    #[test]
    fn bars_end_within_a_character() {
        let shown = |value| bar(value, 0.0, 10.0, 10.0).expect("a bar");
        assert_eq!((shown(5.5), shown(-1.0), shown(11.0)), ("█████▌    ".into(), " ".repeat(10), "█".repeat(10)));
        assert_eq!(shown(f64::NAN), " ".repeat(10));
    }
}
