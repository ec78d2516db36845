//! The proleptic Gregorian calendar, without limits: days since 1970-01-01 as years, months and days, weeks of ISO 8601, and
//! the texts of dates. Year 0 is 1 BC. Two days stand for the infinite past and future.

/// The day after all others.
pub const INFINITE_DAY: i32 = i32::MAX;

/// The first day that a date may be, `5877642-06-25 (BC)`; the day before all others is `-INFINITE_DAY`.
pub const FIRST_DAY: i32 = i32::MIN + 2;

const NAMES_OF_MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const NAMES_OF_DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A day by its year, month and day of the month.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Day {
    /// 0 is 1 BC.
    pub year: i64,
    /// From 1 on.
    pub month: i64,
    /// From 1 on.
    pub day: i64,
}

/// The day so many days after 1970-01-01 (Hinnant, "chrono-compatible low-level date algorithms": eras of 400 years that
/// begin in March).
pub fn civil(days: i64) -> Day {
    let shifted = days.saturating_add(719_468);
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    Day { year: year_of_era + era * 400 + i64::from(month <= 2), month, day }
}

/// Days from 1970-01-01 to this one, whose month is one of 1 to 12; other days of the month count on.
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Days since 1970-01-01 of a day that exists and that a date may be.
pub fn checked_days(year: i64, month: i64, day: i64) -> Option<i32> {
    let exists = year.abs() < 10_000_000 && (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    let days = exists.then(|| i32::try_from(days(year, month, day)).ok()).flatten()?;
    (FIRST_DAY..INFINITE_DAY).contains(&days).then_some(days)
}

/// How many days a month has.
pub fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// So many months later; the last day of the month where it has no such day.
pub fn months_later(day: i64, months: i64) -> i64 {
    let Day { year, month, day } = civil(day);
    let all = year * 12 + month - 1 + months;
    let (year, month) = (all.div_euclid(12), all.rem_euclid(12) + 1);
    days(year, month, day.min(month_days(year, month)))
}

/// The day of the week: 0 is Sunday.
pub fn weekday(days: i64) -> i64 {
    (days + 4).rem_euclid(7)
}

/// The day of the week by ISO 8601: 1 is Monday, 7 Sunday.
pub fn iso_weekday(days: i64) -> i64 {
    (days + 3).rem_euclid(7) + 1
}

/// The day of the year, from 1 on.
pub fn year_day(day: i64) -> i64 {
    day - days(civil(day).year, 1, 1) + 1
}

/// The year and the week of ISO 8601 that a day is in.
pub fn iso_week(day: i64) -> (i64, i64) {
    let thursday = day - iso_weekday(day) + 4;
    let year = civil(thursday).year;
    (year, (thursday - days(year, 1, 1)) / 7 + 1)
}

/// The name of a month, 1 to 12.
pub fn month_name(month: i64) -> &'static str {
    NAMES_OF_MONTHS[(month - 1).rem_euclid(12) as usize]
}

/// The name of a day of the week, 0 (Sunday) to 6.
pub fn day_name(weekday: i64) -> &'static str {
    NAMES_OF_DAYS[weekday.rem_euclid(7) as usize]
}

/// `2024-01-31`, `0044-03-15 (BC)`, `infinity`.
pub fn text(days: i64) -> String {
    match days {
        _ if days == i64::from(INFINITE_DAY) => "infinity".to_owned(),
        _ if days == -i64::from(INFINITE_DAY) => "-infinity".to_owned(),
        _ => {
            let (shown, era) = text_and_era(days);
            shown + era
        }
    }
}

/// The text of a day, and what stands behind it: ` (BC)` or nothing.
pub fn text_and_era(days: i64) -> (String, &'static str) {
    let Day { year, month, day } = civil(days);
    let (year, era) = if year <= 0 { (1 - year, " (BC)") } else { (year, "") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

/// Reads the date that a text begins with: the day, and what stands behind it. `None` where it begins with none.
pub fn parse(text: &str) -> Option<(i32, &str)> {
    let text = text.trim_ascii_start();
    if let Some((day, rest)) = special(text) {
        return Some((day, rest));
    }
    let (is_negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (year, rest) = number(rest, 9)?;
    let separator = rest.chars().next().filter(|c| matches!(c, ' ' | '-' | '/' | '\\'))?;
    let (month, rest) = number(&rest[1..], 2)?;
    let (day, mut rest) = number(rest.strip_prefix(separator)?, 2)?;
    let mut year = if is_negative { -year } else { year };
    if let Some(behind) = strip_ignoring_case(rest, " (bc)") {
        if is_negative || year == 0 {
            return None;
        }
        (year, rest) = (1 - year, behind);
    }
    Some((checked_days(year, month, day)?, rest))
}

/// `infinity`, `-infinity` and `epoch`, which no letter follows.
fn special(text: &str) -> Option<(i32, &str)> {
    let days = [
        ("infinity", INFINITE_DAY),
        ("-infinity", -INFINITE_DAY),
        ("inf", INFINITE_DAY),
        ("-inf", -INFINITE_DAY),
        ("epoch", 0),
    ];
    let found = days.iter().find_map(|(word, day)| Some((*day, strip_ignoring_case(text, word)?)))?;
    found.1.chars().next().is_none_or(|c| !c.is_alphanumeric()).then_some(found)
}

/// `text` behind `prefix`, in any case; ASCII.
fn strip_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let begins = text.get(..prefix.len())?.eq_ignore_ascii_case(prefix);
    begins.then(|| &text[prefix.len()..])
}

/// One to `most` digits, and what is behind them.
pub fn number(text: &str, most: usize) -> Option<(i64, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    (1..=most).contains(&end).then(|| Some((text[..end].parse().ok()?, &text[end..]))).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_their_numbers_are_each_others() {
        for number in (-1_500_000..1_500_000).step_by(97).chain([i64::from(FIRST_DAY), i64::from(INFINITE_DAY) - 1]) {
            let Day { year, month, day } = civil(number);
            assert_eq!(days(year, month, day), number);
            assert_eq!(checked_days(year, month, day).map(i64::from), Some(number));
            assert_eq!(parse(&text(number)), Some((number as i32, "")));
        }
    }

    #[test]
    fn dates_are_read_and_shown() {
        for (read, expect) in [
            ("2020-1-3", Some("2020-01-03")),
            ("\t2020/01/03", Some("2020-01-03")),
            ("44-03-15", Some("0044-03-15")),
            ("-44-03-15", Some("0045-03-15 (BC)")),
            ("0044-03-15 (bc)", Some("0044-03-15 (BC)")),
            ("0-01-01", Some("0001-01-01 (BC)")),
            ("5877642-06-25 (BC)", Some("5877642-06-25 (BC)")),
            ("5877642-06-24 (BC)", None),
            ("5881580-07-10", Some("5881580-07-10")),
            ("5881580-07-11", None),
            ("-INFINITY", Some("-infinity")),
            ("epoch", Some("1970-01-01")),
            ("2021-02-29", None),
            ("2020-01/03", None),
            ("2020-001-03", None),
            ("20200103", None),
            ("infinitely", None),
            ("", None),
        ] {
            let shown = parse(read).filter(|(_, rest)| rest.is_empty()).map(|(day, _)| text(i64::from(day)));
            assert_eq!(shown.as_deref(), expect, "{read}");
        }
    }

    #[test]
    fn weeks_belong_to_the_year_of_their_thursday() {
        let week = |year, month, day| iso_week(days(year, month, day));
        assert_eq!((week(2021, 1, 3), week(2021, 1, 4), week(2020, 12, 31)), ((2020, 53), (2021, 1), (2020, 53)));
        assert_eq!((week(2018, 12, 31), week(2000, 1, 2)), ((2019, 1), (1999, 52)));
        assert_eq!((weekday(0), iso_weekday(-4), year_day(days(2020, 12, 31))), (4, 7, 366));
    }

    #[test]
    fn months_end_where_they_are_shorter() {
        let later = |year, month, day, months| text(months_later(days(year, month, day), months));
        assert_eq!(later(2020, 1, 31, 1), "2020-02-29");
        assert_eq!(later(2020, 2, 29, -12), "2019-02-28");
        assert_eq!(later(1, 1, 31, -2), "0001-11-30 (BC)");
    }
}
