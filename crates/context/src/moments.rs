//! Timestamps as text, and read from it, over their whole range: `2024-01-31 12:34:56.5`, `0044-03-15 (BC) 00:00:00`,
//! `infinity`. Two moments, the largest integer and its negative, stand for the infinite future and past.

use forebay_base::calendar;

use crate::clock;

/// The moment after all others; the one before all is its negative. In any unit.
pub const INFINITE: i64 = i64::MAX;

/// Microseconds of a day.
pub const DAY: i64 = 86_400_000_000;

/// The first timestamp of microseconds, `290309-12-22 (BC) 00:00:00`.
pub const FIRST: i64 = -9_223_372_022_400_000_000;

/// What a text says about a moment.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading<'a> {
    /// Days since 1970-01-01; infinite ones are those of [`calendar`].
    pub day: i32,
    /// Nanoseconds of the day, up to all of them.
    pub nanoseconds: i64,
    /// Seconds east of UTC, where it says so.
    pub offset: Option<i64>,
    /// The name of a time zone, where there is one.
    pub zone: Option<&'a str>,
}

/// Reads a date, or a date and a time of day with an optional zone.
pub fn parse(text: &str) -> Option<Reading<'_>> {
    let (day, rest) = calendar::parse(text)?;
    let date = Reading { day, nanoseconds: 0, offset: None, zone: None };
    if rest.trim_ascii().is_empty() {
        return Some(date);
    }
    if day.abs() == calendar::INFINITE_DAY {
        return None;
    }
    let (nanoseconds, rest) = clock::read(rest.strip_prefix([' ', 'T'])?)?;
    let time = Reading { nanoseconds, ..date };
    if let Some(behind) = rest.strip_prefix('Z') {
        return behind.trim_ascii().is_empty().then_some(Reading { offset: Some(0), ..time });
    }
    if rest.starts_with(['+', '-']) {
        let (offset, behind) = parse_offset(rest)?;
        return behind.trim_ascii().is_empty().then_some(Reading { offset: Some(offset), ..time });
    }
    let zone = rest.trim_ascii();
    if zone.is_empty() {
        return Some(time);
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/' | '+' | '-' | ':');
    (rest.starts_with(' ') && zone.chars().all(is_name)).then_some(Reading { zone: Some(zone), ..time })
}

/// Microseconds since midnight of `[date ]h:m[:s[.fraction]]`; digits behind the microseconds are cut off, and a zone behind
/// the seconds says nothing. A date alone is its midnight.
pub fn parse_time(text: &str) -> Option<i64> {
    if let Some((nanoseconds, rest)) = clock::read(text) {
        let has_seconds = text.matches(':').count() > 1;
        if rest.is_empty() || (has_seconds && !rest.starts_with(':')) {
            return Some(nanoseconds / 1_000);
        }
    }
    let moment = parse(text)?;
    moment.microseconds(false).filter(|value| value.abs() != INFINITE)?;
    Some(moment.nanoseconds / 1_000)
}

/// `+hh`, `+hhmm`, `+hh:mm` or `+hh:mm:ss` in seconds, and what is behind it.
pub fn parse_offset(text: &str) -> Option<(i64, &str)> {
    let (is_negative, rest) = (text.starts_with('-'), text.get(1..)?);
    let two = |text: &str| -> Option<i64> {
        let digits = text.get(..2)?;
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten()
    };
    let hours = two(rest)?;
    let mut rest = &rest[2..];
    let mut part = || {
        let behind = rest.strip_prefix(':').unwrap_or(rest);
        let Some(value) = two(behind) else { return 0 };
        rest = &behind[2..];
        value
    };
    let (minutes, seconds) = (part(), part());
    let offset = hours * 3_600 + minutes * 60 + seconds;
    Some((if is_negative { -offset } else { offset }, rest))
}

impl Reading<'_> {
    /// Nanoseconds since 1970-01-01 in UTC if it is told from where they count, else in local time; `None` of an infinite one.
    pub fn nanoseconds(&self, is_instant: bool) -> Option<i128> {
        let offset = if is_instant { self.offset.unwrap_or(0) } else { 0 };
        let seconds = i128::from(self.day) * 86_400 - i128::from(offset);
        (self.day.abs() != calendar::INFINITE_DAY).then(|| seconds * 1_000_000_000 + i128::from(self.nanoseconds))
    }

    /// Microseconds since 1970-01-01, as [`Reading::nanoseconds`]; digits behind them are cut off. `None` out of range.
    pub fn microseconds(&self, is_instant: bool) -> Option<i64> {
        match self.nanoseconds(is_instant) {
            None => Some(if self.day > 0 { INFINITE } else { -INFINITE }),
            Some(nanoseconds) => in_range(nanoseconds.div_euclid(1_000)),
        }
    }
}

/// A timestamp of so many microseconds; `None` out of range.
pub fn in_range(microseconds: i128) -> Option<i64> {
    i64::try_from(microseconds).ok().filter(|value| (FIRST..INFINITE).contains(value))
}

/// The text of a moment `value` units after 1970-01-01, of which a second has `per_second`.
pub fn text(value: i64, per_second: i64) -> String {
    match value {
        INFINITE => "infinity".to_owned(),
        _ if value == -INFINITE => "-infinity".to_owned(),
        _ => {
            let per_day = per_second * 86_400;
            let (day, era) = calendar::text_and_era(value.div_euclid(per_day));
            let nanoseconds = value.rem_euclid(per_day) * (1_000_000_000 / per_second);
            format!("{day}{era} {}", clock::text_of_nanoseconds(nanoseconds.unsigned_abs()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_read_and_shown() {
        for (read, expect) in [
            ("2020-01-03", Some("2020-01-03 00:00:00")),
            ("2020-1-3 1:2", Some("2020-01-03 01:02:00")),
            (" 2020-01-03T10:00:00.1234567Z", Some("2020-01-03 10:00:00.123456")),
            ("2020-01-03 24:00:00", Some("2020-01-04 00:00:00")),
            ("2020-01-03 10:00:00+02", Some("2020-01-03 08:00:00")),
            ("2020-01-03 10:00:00-02:30", Some("2020-01-03 12:30:00")),
            ("2020-01-03 10:00:00-0230", Some("2020-01-03 12:30:00")),
            ("2020-01-03 10:00:00 UTC", Some("2020-01-03 10:00:00")),
            ("2020-01-03 (BC) 10:00:00", Some("2020-01-03 (BC) 10:00:00")),
            ("290309-12-22 (BC) 00:00:00", Some("290309-12-22 (BC) 00:00:00")),
            ("290309-12-21 (BC) 23:59:59.999999", None),
            ("294247-01-10 04:00:54.775806", Some("294247-01-10 04:00:54.775806")),
            ("294247-01-10 04:00:54.775807", None),
            ("-infinity", Some("-infinity")),
            ("2020-01-03 10", None),
            ("2020-01-03 24:00:01", None),
            ("2020-01-03 10:00:00+1", None),
            ("2020-01-03 10:00:00 (BC)", None),
            ("2020-01-03x", None),
        ] {
            let shown = parse(read).and_then(|reading| reading.microseconds(true)).map(|value| text(value, 1_000_000));
            assert_eq!(shown.as_deref(), expect, "{read}");
        }
    }

    #[test]
    fn times_of_day_are_read() {
        for (text, expect) in [
            ("11:05", Some(39_900_000_000)),
            ("11:5", Some(39_900_000_000)),
            ("1:05:06", Some(3_906_000_000)),
            ("11:05:06.1234567", Some(39_906_123_456)),
            ("2020-01-01 10:00:00", Some(36_000_000_000)),
            ("00:00:00", Some(0)),
            ("24:00:00", Some(86_400_000_000)),
            ("24:00:00.1", None),
            ("2020-01-01", Some(0)),
            ("10:00:00+02", Some(36_000_000_000)),
            ("10:00 x", None),
            ("11", None),
            ("25:00:00", None),
            ("11:60", None),
            ("11:05:06:07", None),
            ("11:5x", None),
            ("", None),
        ] {
            assert_eq!(parse_time(text), expect, "{text}");
        }
    }

    #[test]
    fn fractions_have_the_digits_that_there_are() {
        let of = |text: &str| parse(text).and_then(|reading| reading.nanoseconds(false));
        assert_eq!(of("1970-01-01 00:00:01.1234567891"), Some(1_123_456_789));
        assert_eq!(text(-1, 1_000_000_000), "1969-12-31 23:59:59.999999999");
        assert_eq!((text(-1, 1), text(1_500, 1_000)), ("1969-12-31 23:59:59".into(), "1970-01-01 00:00:01.5".into()));
    }
}
