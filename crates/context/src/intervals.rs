//! Intervals as text, their parts, and their order: a month has 30 days there, and a day 24 hours.

use datafusion::arrow::datatypes::IntervalMonthDayNano;

const MICROSECONDS: i64 = 1;
const MILLISECOND: i64 = 1_000 * MICROSECONDS;
const SECOND: i64 = 1_000 * MILLISECOND;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// Days of a month where intervals are compared.
const MONTH_DAYS: i64 = 30;

/// What a number in an interval counts.
#[derive(Debug, Clone, Copy)]
enum Unit {
    /// So many months.
    Months(i64),
    /// So many days.
    Days(i64),
    /// So many microseconds.
    Time(i64),
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word {
        "millennium" | "millennia" | "millenniums" | "millenium" | "mil" | "mils" => Unit::Months(12_000),
        "century" | "centuries" | "cent" | "c" => Unit::Months(1_200),
        "decade" | "decades" | "dec" | "decs" => Unit::Months(120),
        "year" | "years" | "yr" | "yrs" | "y" => Unit::Months(12),
        "quarter" | "quarters" => Unit::Months(3),
        "month" | "months" | "mon" | "mons" => Unit::Months(1),
        "week" | "weeks" | "w" => Unit::Days(7),
        "day" | "days" | "d" | "dayofmonth" => Unit::Days(1),
        "hour" | "hours" | "hr" | "hrs" | "h" => Unit::Time(HOUR),
        "minute" | "minutes" | "min" | "mins" | "m" => Unit::Time(MINUTE),
        "second" | "seconds" | "sec" | "secs" | "s" => Unit::Time(SECOND),
        "millisecond" | "milliseconds" | "ms" | "msec" | "msecs" => Unit::Time(MILLISECOND),
        "microsecond" | "microseconds" | "us" | "usec" | "usecs" => Unit::Time(MICROSECONDS),
        _ => return None,
    })
}

/// The parts of an interval while it is read. Wide enough for what does not fit afterwards.
#[derive(Debug, Default)]
struct Parts {
    months: i128,
    days: i128,
    microseconds: i128,
}

impl Parts {
    /// Adds `number`, with digits behind its point as millionths of the unit.
    fn add(&mut self, whole: i128, millionths: i128, unit: Unit) {
        const MILLION: i128 = 1_000_000;
        match unit {
            Unit::Months(months) => {
                let (months, rest) = (whole * i128::from(months), millionths * i128::from(months));
                self.months += months + rest / MILLION;
                // What is left of a month counts in days, as far as it is whole ones.
                let days = rest % MILLION * i128::from(MONTH_DAYS);
                self.days += days / MILLION;
                self.microseconds += days % MILLION * i128::from(DAY) / MILLION;
            }
            Unit::Days(days) => {
                let rest = millionths * i128::from(days);
                self.days += whole * i128::from(days) + rest / MILLION;
                self.microseconds += rest % MILLION * i128::from(DAY) / MILLION;
            }
            // A part of a microsecond is none.
            Unit::Time(MICROSECONDS) => self.microseconds += whole,
            Unit::Time(time) => {
                self.microseconds += whole * i128::from(time) + millionths * i128::from(time) / MILLION;
            }
        }
    }

    fn interval(&self) -> Option<IntervalMonthDayNano> {
        let (months, days) = (i32::try_from(self.months).ok()?, i32::try_from(self.days).ok()?);
        let nanoseconds = i64::try_from(self.microseconds.checked_mul(1_000)?).ok()?;
        Some(IntervalMonthDayNano::new(months, days, nanoseconds))
    }
}

/// Reads `1 year 2 months -3 days 04:05:06.789`, `100` (seconds) or `1 day ago`; `None` where it is no interval, or too long.
pub fn parse(text: &str) -> Option<IntervalMonthDayNano> {
    let text = text.trim().to_ascii_lowercase();
    let text = text.strip_prefix('@').unwrap_or(&text).trim_start();
    let (text, is_ago) = match text.strip_suffix("ago") {
        Some(before) => (before.trim_end(), true),
        None => (text, false),
    };
    let mut parts = Parts::default();
    let mut rest = text;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | ':' | '-');
        let end = rest.find(|c| !is_number(c)).unwrap_or(rest.len());
        let (number, behind) = rest.split_at(end);
        // A time of day is the last part.
        if number.contains(':') {
            parts.microseconds += i128::from(clock(number)?);
            if !behind.trim().is_empty() {
                return None;
            }
            break;
        }
        let (whole, millionths) = decimal(number)?;
        let behind = behind.trim_start();
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (word, behind) = behind.split_at(end);
        let unit = match word {
            // A number alone.
            "" if behind.is_empty() && number == text => Unit::Time(SECOND),
            _ => unit(word)?,
        };
        parts.add(whole, millionths, unit);
        rest = behind.trim_start();
    }
    if is_ago {
        parts = Parts { months: -parts.months, days: -parts.days, microseconds: -parts.microseconds };
    }
    parts.interval()
}

/// The number in units and millionths, both with its sign.
fn decimal(text: &str) -> Option<(i128, i128)> {
    let (is_negative, digits) = signed(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.is_empty() || whole.len() > 19 {
        return None;
    }
    let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !all_digits(whole) || !all_digits(fraction) {
        return None;
    }
    let whole: i128 = whole.parse().ok()?;
    let digits = format!("{fraction:0<7}");
    let rounds_up = digits.as_bytes()[6] >= b'5';
    let millionths = digits[..6].parse::<i128>().ok()? + i128::from(rounds_up);
    Some(if is_negative { (-whole, -millionths) } else { (whole, millionths) })
}

fn signed(text: &str) -> (bool, &str) {
    match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    }
}

/// `[-]hours:minutes[:seconds[.fraction]]` in microseconds.
fn clock(text: &str) -> Option<i64> {
    let (is_negative, text) = signed(text);
    let mut fields = text.split(':');
    let whole = |field: &str| -> Option<i64> {
        let is_whole = !field.is_empty() && field.len() < 12 && field.bytes().all(|byte| byte.is_ascii_digit());
        is_whole.then(|| field.parse().ok()).flatten()
    };
    let (hours, minutes) = (whole(fields.next()?)?, whole(fields.next()?)?);
    let seconds = match fields.next() {
        None => 0,
        Some(seconds) if !seconds.starts_with(['-', '+']) => {
            let (whole, fraction) = seconds.split_once('.').unwrap_or((seconds, ""));
            let digits = &fraction[..fraction.len().min(6)];
            let (whole, millionths) = decimal(&format!("{whole}.{digits}"))?;
            (whole < 60).then(|| i64::try_from(whole * 1_000_000 + millionths).ok()).flatten()?
        }
        Some(_) => return None,
    };
    if fields.next().is_some() || minutes > 59 {
        return None;
    }
    let all = hours.checked_mul(HOUR)?.checked_add(minutes * MINUTE + seconds)?;
    Some(if is_negative { -all } else { all })
}

/// `1 year 2 months 3 days 04:05:06.5`.
pub fn text(interval: IntervalMonthDayNano) -> String {
    let mut parts = Vec::new();
    for (count, unit) in [(interval.months / 12, "year"), (interval.months % 12, "month"), (interval.days, "day")] {
        if count != 0 {
            parts.push(format!("{count} {unit}{}", if count.abs() == 1 { "" } else { "s" }));
        }
    }
    let microseconds = interval.nanoseconds / 1_000;
    if microseconds != 0 || parts.is_empty() {
        let sign = if microseconds < 0 { "-" } else { "" };
        parts.push(format!("{sign}{}", crate::clock::text(microseconds.unsigned_abs())));
    }
    parts.join(" ")
}

/// Seconds of an interval whose years have 365.25 days, and whose other months have 30.
pub fn epoch(interval: IntervalMonthDayNano) -> f64 {
    let (years, months) = (i64::from(interval.months / 12), i64::from(interval.months % 12));
    let days = years * 365 + months * MONTH_DAYS + i64::from(interval.days);
    let seconds = days * (DAY / SECOND) + years * (DAY / SECOND) / 4;
    seconds as f64 + (interval.nanoseconds / 1_000) as f64 / SECOND as f64
}

/// Microseconds by which intervals are compared.
pub fn length(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * i128::from(MONTH_DAYS) + i128::from(interval.days);
    days * i128::from(DAY) + i128::from(interval.nanoseconds / 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_read_and_shown() {
        for (read, expect) in [
            ("1 year 2 mons -3 days 04:05:06.789", Some("1 year 2 months -3 days 04:05:06.789")),
            ("-00:00:01", Some("-00:00:01")),
            ("100", Some("00:01:40")),
            ("47.210", Some("00:00:47.21")),
            ("1 day ago", Some("-1 day")),
            ("04:05", Some("04:05:00")),
            ("3 decades", Some("30 years")),
            ("1.5 years", Some("1 year 6 months")),
            ("1.5 months", Some("1 month 15 days")),
            ("0.5 weeks", Some("3 days 12:00:00")),
            ("-1.5 days", Some("-1 day -12:00:00")),
            ("90 minutes", Some("01:30:00")),
            ("1d2h", Some("1 day 02:00:00")),
            ("0 days", Some("00:00:00")),
            ("100 hours", Some("100:00:00")),
            ("-14 months", Some("-1 year -2 months")),
            ("", None),
            ("x", None),
            ("5 foo", None),
            ("10:00 1 day", None),
            ("+1 day", None),
            (".5 days", None),
            ("1.9 us", Some("00:00:00.000001")),
            ("1.1234567 seconds", Some("00:00:01.123457")),
            ("00:00:01.1234567", Some("00:00:01.123456")),
            ("1 second 5", None),
            ("days", None),
            ("1:60", None),
            ("999999999999 years", None),
        ] {
            assert_eq!(parse(read).map(text).as_deref(), expect, "{read}");
        }
    }

    #[test]
    fn months_have_thirty_days_where_intervals_are_compared() {
        let of = |text| length(parse(text).expect("an interval"));
        assert_eq!(of("1 month"), of("30 days"));
        assert_eq!(of("1 day"), of("24 hours"));
        assert!(of("40 days") > of("1 month") && of("30 hours") > of("1 day") && of("-1 day") < of("0 days"));
    }

    #[test]
    fn years_have_a_quarter_of_a_day_more() {
        let of = |text| epoch(parse(text).expect("an interval"));
        assert_eq!(
            (of("2 years"), of("13 months"), of("-13 months 2 days")),
            (63_115_200.0, 34_149_600.0, -33_976_800.0)
        );
    }
}
