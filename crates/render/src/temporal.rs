//! Dates, times and intervals as ISO 8601 writes them, over the whole range of their integers; years before the first one are
//! followed by `(BC)`.
//!
//! Invariants: no value panics. Must not know: arrays, formats.

use std::fmt::Write;

use forebay_base::calendar::{Day, civil};

const DAY_NANOS: i128 = 86_400_000_000_000;

/// Appends `days` since 1970-01-01 as `2024-01-31`.
pub fn push_date(days: i64, out: &mut String) {
    let Day { year, month, day } = civil(days);
    // Year 0 is 1 BC.
    let (year, era) = if year <= 0 { (1 - year, " (BC)") } else { (year, "") };
    let _ = write!(out, "{year:04}-{month:02}-{day:02}{era}");
}

/// Appends a moment before or after all others.
pub(crate) fn push_infinite(is_negative: bool, out: &mut String) {
    out.push_str(if is_negative { "-infinity" } else { "infinity" });
}

/// Appends nanoseconds since midnight as `12:34:56.123`, without trailing zeros.
pub fn push_time(nanos: i128, out: &mut String) {
    let seconds = nanos / 1_000_000_000;
    let _ = write!(out, "{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = nanos % 1_000_000_000;
    if fraction != 0 {
        let digits = format!("{fraction:09}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

/// Appends nanoseconds since 1970-01-01 00:00:00 as `2024-01-31 12:34:56.123`.
pub fn push_timestamp(nanos: i128, out: &mut String) {
    // An i64 of seconds is 2^63 * 10^9 ns at most: its days fit an i64.
    push_date(nanos.div_euclid(DAY_NANOS) as i64, out);
    out.push(' ');
    push_time(nanos.rem_euclid(DAY_NANOS), out);
}

/// Appends a distance from UTC as `+01`, `-03:30`.
pub fn push_offset(seconds: i64, out: &mut String) {
    let minutes = seconds.abs() / 60;
    let _ = write!(out, "{}{:02}", if seconds < 0 { '-' } else { '+' }, minutes / 60);
    if minutes % 60 != 0 {
        let _ = write!(out, ":{:02}", minutes % 60);
    }
}

/// Appends an interval as `1 year 2 months 3 days 04:05:06`.
pub fn push_interval(months: i64, days: i64, nanos: i128, out: &mut String) {
    let start = out.len();
    for (count, unit) in [(months / 12, "year"), (months % 12, "month"), (days, "day")] {
        if count != 0 {
            let plural = if count.abs() == 1 { "" } else { "s" };
            let _ = write!(out, "{count} {unit}{plural} ");
        }
    }
    if nanos != 0 || out.len() == start {
        if nanos < 0 {
            out.push('-');
        }
        push_time(nanos.abs(), out);
    } else {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(push: impl FnOnce(&mut String)) -> String {
        let mut out = String::new();
        push(&mut out);
        out
    }

    #[test]
    fn dates() {
        for (days, expected) in [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (-719_528, "0001-01-01 (BC)"),
            (-719_529, "0002-12-31 (BC)"),
            (2_932_897, "10000-01-01"),
        ] {
            assert_eq!(text(|out| push_date(days, out)), expected);
        }
        text(|out| push_date(i64::MAX, out));
        text(|out| push_date(i64::MIN, out));
    }

    #[test]
    fn timestamps_before_the_epoch_count_forward() {
        assert_eq!(text(|out| push_timestamp(-1, out)), "1969-12-31 23:59:59.999999999");
        assert_eq!(text(|out| push_timestamp(1_706_704_496_123_000_000, out)), "2024-01-31 12:34:56.123");
        text(|out| push_timestamp(i128::from(i64::MIN) * 1_000_000_000, out));
    }

    #[test]
    fn intervals() {
        let day = DAY_NANOS;
        assert_eq!(text(|out| push_interval(14, 3, 14_706_500_000_000, out)), "1 year 2 months 3 days 04:05:06.5");
        assert_eq!(text(|out| push_interval(0, 0, 0, out)), "00:00:00");
        assert_eq!(text(|out| push_interval(0, -1, 0, out)), "-1 day");
        assert_eq!(text(|out| push_interval(0, 0, -day / 24, out)), "-01:00:00");
    }

    #[test]
    fn offsets() {
        assert_eq!(text(|out| push_offset(3600, out)), "+01");
        assert_eq!(text(|out| push_offset(-12_600, out)), "-03:30");
    }
}
