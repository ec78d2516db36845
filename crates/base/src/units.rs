//! Sizes and times as people read and write them.

use crate::{Error, Result};

/// `1536` → `1.5 KiB`. Three significant digits.
pub fn format_bytes(bytes: u64) -> String {
    const NAMES: [&str; 6] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let mut value = bytes as f64;
    let mut name = 0;
    while value >= 1024.0 && name + 1 < NAMES.len() {
        value /= 1024.0;
        name += 1;
    }
    match name {
        0 => format!("{bytes} B"),
        _ if value >= 100.0 => format!("{value:.0} {}", NAMES[name]),
        _ if value >= 10.0 => format!("{value:.1} {}", NAMES[name]),
        _ => format!("{value:.2} {}", NAMES[name]),
    }
}

/// `1234567` → `1,234,567`.
pub fn format_count(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// Seconds as `812 µs`, `12.3 ms`, `4.56 s`.
pub fn format_seconds(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.0} µs", seconds * 1e6)
    } else if seconds < 1.0 {
        format!("{:.1} ms", seconds * 1e3)
    } else {
        format!("{seconds:.2} s")
    }
}

/// `512MB`, `2 GiB`, `1.5g`, `4096` → bytes. Decimal and binary prefixes both mean powers of 1024, as in DuckDB's
/// memory limits; a bare number is bytes.
pub fn parse_bytes(text: &str) -> Result<u64> {
    let wrong = || Error::input(format!("{text:?} is not a size; write for example 512MB, 2GiB or 1073741824"));
    let trimmed = text.trim();
    let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let number: f64 = trimmed[..split].parse().map_err(|_| wrong())?;
    let power = match trimmed[split..].trim().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 1,
        "m" | "mb" | "mib" => 2,
        "g" | "gb" | "gib" => 3,
        "t" | "tb" | "tib" => 4,
        _ => return Err(wrong()),
    };
    let bytes = number * 1024f64.powi(power);
    if !bytes.is_finite() || bytes > 2f64.powi(60) {
        return Err(wrong());
    }
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_round_trip() {
        assert_eq!(format_bytes(1536), "1.50 KiB");
        assert_eq!(format_bytes(12), "12 B");
        assert_eq!(parse_bytes("1.5k").expect("a size"), 1536);
        assert_eq!(parse_bytes("2 GiB").expect("a size"), 2 << 30);
        for wrong in ["", "GB", "-1", "1e400GB", "3 parsecs", "99999999999999999999TB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn counts_have_separators() {
        assert_eq!(format_count(999), "999");
        assert_eq!(format_count(1_234_567), "1,234,567");
    }
}
