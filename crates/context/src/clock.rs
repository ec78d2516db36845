//! Times of day and timestamps as text, and read from it.

use forebay_base::calendar::number;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// `hh:mm:ss`, with the digits behind the point that there are. `microseconds` may be more than a day's.
pub fn text(microseconds: u64) -> String {
    let (seconds, fraction) = (microseconds / SECOND, microseconds % SECOND);
    let clock = format!("{:02}:{:02}:{:02}.{fraction:06}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    without_zeros(&clock).to_owned()
}

/// A timestamp or time of day as ISO 8601 writes it, `2024-01-31T12:34:56.500Z`, as SQL does: `2024-01-31 12:34:56.5+00`.
pub fn sql_text(iso: &str) -> String {
    let (moment, zone) = match iso.strip_suffix('Z') {
        Some(moment) => (moment, "+00"),
        None => match iso.rfind(['+', '-']).filter(|at| iso[..*at].contains(':')) {
            Some(at) => (&iso[..at], iso[at..].strip_suffix(":00").unwrap_or(&iso[at..])),
            None => (iso, ""),
        },
    };
    format!("{}{zone}", without_zeros(moment).replacen('T', " ", 1))
}

/// `clock` without zeros at the end of its fraction, and without the fraction where nothing is left.
fn without_zeros(clock: &str) -> &str {
    match clock.contains('.') {
        true => clock.trim_end_matches('0').trim_end_matches('.'),
        false => clock,
    }
}

/// As [`text`], of nanoseconds.
pub fn text_of_nanoseconds(nanoseconds: u64) -> String {
    let (seconds, fraction) = (nanoseconds / 1_000_000_000, nanoseconds % 1_000_000_000);
    let clock = format!("{:02}:{:02}:{:02}.{fraction:09}", seconds / 3_600, seconds / 60 % 60, seconds % 60);
    without_zeros(&clock).to_owned()
}

/// Reads the time of day that a text begins with: nanoseconds since midnight, up to a whole day, and what stands behind it.
pub fn read(text: &str) -> Option<(i64, &str)> {
    let (hours, rest) = number(text.trim_ascii_start(), 9)?;
    let rest = rest.strip_prefix(':')?;
    let (minutes, rest) = number(rest, 2).unwrap_or((0, rest));
    let (seconds, rest) = match rest.strip_prefix(':') {
        Some(behind) => number(behind, 2).unwrap_or((0, behind)),
        None => (0, rest),
    };
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(behind) => {
            let end = behind.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(behind.len());
            (&behind[..end], &behind[end..])
        }
        None => ("", rest),
    };
    let digits = &fraction[..fraction.len().min(9)];
    let fraction: i64 = format!("{digits:0<9}").parse().ok()?;
    let is_time = hours < 24 || (hours == 24 && (minutes, seconds, fraction) == (0, 0, 0));
    let whole = (hours * 60 + minutes) * 60 + seconds;
    (is_time && minutes < 60 && seconds < 60).then_some((whole * 1_000_000_000 + fraction, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_shown_as_sql_does() {
        for (iso, expect) in [
            ("2024-01-31T12:34:56.500Z", "2024-01-31 12:34:56.5+00"),
            ("2024-01-31T12:34:56", "2024-01-31 12:34:56"),
            ("2024-01-31T12:34:50", "2024-01-31 12:34:50"),
            ("2024-01-31T12:34:56.000+02:00", "2024-01-31 12:34:56+02"),
            ("2024-01-31T12:34:56-03:30", "2024-01-31 12:34:56-03:30"),
            ("14:42:04.350", "14:42:04.35"),
        ] {
            assert_eq!(sql_text(iso), expect);
        }
        assert_eq!(text(3_723_000_001), "01:02:03.000001");
    }
}
