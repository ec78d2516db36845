//! Times of day and timestamps as text, and read from it.

use std::borrow::Cow;

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

/// Microseconds since midnight of `[date ]h:m[:s[.fraction]]`; digits behind the microseconds are cut off.
pub fn parse(text: &str) -> Option<i64> {
    let text = text.trim();
    let clock = match text.split_once([' ', 'T']) {
        Some((date, clock)) if date.len() >= 8 && date.contains('-') => clock,
        Some(_) => return None,
        None => text,
    };
    let mut fields = clock.split(':');
    let whole = |field: &str, below: i64| -> Option<i64> {
        let is_short = (1..=2).contains(&field.len()) && field.bytes().all(|byte| byte.is_ascii_digit());
        field.parse().ok().filter(|value| is_short && *value < below)
    };
    let (hours, minutes) = (whole(fields.next()?, 24)?, whole(fields.next()?, 60)?);
    let (seconds, fraction) = match fields.next() {
        None => ("0", ""),
        Some(seconds) => seconds.split_once('.').unwrap_or((seconds, "")),
    };
    if fields.next().is_some() || !fraction.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let fraction: i64 = format!("{fraction:0<6}")[..6].parse().ok()?;
    Some(((hours * 60 + minutes) * 60 + whole(seconds, 60)?) * SECOND as i64 + fraction)
}

/// The text of a timestamp with seconds: `2024-01-31 12:34` is `2024-01-31 12:34:00`.
pub fn with_seconds(text: &str) -> Cow<'_, str> {
    let Some((date, clock)) = text.trim().split_once([' ', 'T']) else { return Cow::Borrowed(text) };
    let end = clock.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(clock.len());
    let (clock, zone) = clock.split_at(end);
    match clock.split_once(':') {
        Some((hours, minutes)) if minutes.len() == 2 && !minutes.contains(':') && !zone.starts_with('.') => {
            Cow::Owned(format!("{date} {hours}:{minutes}:00{zone}"))
        }
        _ => Cow::Borrowed(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_day_are_read() {
        for (text, expect) in [
            ("11:05", Some(39_900_000_000)),
            ("11:5", Some(39_900_000_000)),
            ("1:05:06", Some(3_906_000_000)),
            ("11:05:06.1234567", Some(39_906_123_456)),
            ("2020-01-01 10:00:00", Some(36_000_000_000)),
            ("00:00:00", Some(0)),
            ("11", None),
            ("25:00:00", None),
            ("11:60", None),
            ("11:05:06:07", None),
            ("11:05:0x", None),
            ("", None),
        ] {
            assert_eq!(parse(text), expect, "{text}");
        }
    }

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

    #[test]
    fn seconds_may_be_left_out() {
        assert_eq!(with_seconds("2024-01-31 12:34"), "2024-01-31 12:34:00");
        assert_eq!(with_seconds("2024-01-31T12:34Z"), "2024-01-31 12:34:00Z");
        assert_eq!(with_seconds("2024-01-31 12:34:56"), "2024-01-31 12:34:56");
        assert_eq!(with_seconds("2024-01-31"), "2024-01-31");
    }
}
