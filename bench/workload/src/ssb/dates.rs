//! The date dimension: every day of the seven years 1992 to 1998, 2557 in all.
//!
//! Seasons, holidays and week numbers are those of SSB's dbgen: week 1 is the first seven days of the year.

use std::ops::Range;
use std::sync::{Arc, LazyLock};

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::{ints, texts};

/// Days of the calendar.
pub(super) const DAYS: usize = 2557;

const FIRST_YEAR: i32 = 1992;

/// 1992-01-01 was a Wednesday; Sunday is 0.
const FIRST_WEEKDAY: usize = 3;

const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const MONTHS: [(&str, i32); 12] = [
    ("January", 31),
    ("February", 28),
    ("March", 31),
    ("April", 30),
    ("May", 31),
    ("June", 30),
    ("July", 31),
    ("August", 31),
    ("September", 30),
    ("October", 31),
    ("November", 30),
    ("December", 31),
];

/// (month, day) of the ten holidays.
const HOLIDAYS: [(i32, i32); 10] =
    [(12, 24), (1, 1), (2, 20), (4, 20), (5, 20), (7, 20), (8, 20), (9, 20), (10, 20), (11, 20)];

/// One day of the calendar.
#[derive(Debug, Clone, Copy)]
struct Day {
    year: i32,
    /// From 1.
    month: i32,
    /// From 1.
    day: i32,
    /// From 1.
    day_of_year: i32,
    /// From 0, Sunday.
    weekday: usize,
    last_of_month: bool,
}

static CALENDAR: LazyLock<Vec<Day>> = LazyLock::new(|| {
    let mut days: Vec<Day> = Vec::with_capacity(DAYS);
    for year in FIRST_YEAR.. {
        let mut day_of_year = 0;
        for (month, (_, month_days)) in (1..).zip(MONTHS) {
            let month_days = if month == 2 && year % 4 == 0 { 29 } else { month_days };
            for day in 1..=month_days {
                if days.len() == DAYS {
                    return days;
                }
                day_of_year += 1;
                let weekday = (FIRST_WEEKDAY + days.len()) % 7;
                days.push(Day { year, month, day, day_of_year, weekday, last_of_month: day == month_days });
            }
        }
    }
    days
});

/// Date keys (yyyymmdd) by day number.
pub(super) static DATE_KEYS: LazyLock<Vec<i32>> = LazyLock::new(|| CALENDAR.iter().map(Day::key).collect());

impl Day {
    fn key(&self) -> i32 {
        self.year * 10_000 + self.month * 100 + self.day
    }

    fn month_name(&self) -> &'static str {
        MONTHS[self.month as usize - 1].0
    }

    fn season(&self) -> &'static str {
        match self.month {
            11 | 12 => "Christmas",
            1..=3 => "Winter",
            4 => "Spring",
            5..=8 => "Summer",
            _ => "Fall",
        }
    }

    fn is_holiday(&self) -> bool {
        HOLIDAYS.contains(&(self.month, self.day))
    }
}

pub(super) fn schema() -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, false);
    let int = |name| Field::new(name, DataType::Int32, false);
    Arc::new(Schema::new(vec![
        int("d_datekey"),
        text("d_date"),
        text("d_dayofweek"),
        text("d_month"),
        int("d_year"),
        int("d_yearmonthnum"),
        text("d_yearmonth"),
        int("d_daynuminweek"),
        int("d_daynuminmonth"),
        int("d_daynuminyear"),
        int("d_monthnuminyear"),
        int("d_weeknuminyear"),
        text("d_sellingseason"),
        int("d_lastdayinweekfl"),
        int("d_lastdayinmonthfl"),
        int("d_holidayfl"),
        int("d_weekdayfl"),
    ]))
}

/// The days of `range`, counted from 0.
pub(super) fn rows(range: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let days = &CALENDAR[range.start as usize..range.end as usize];
    let int = |value: fn(&Day) -> i32| ints(days.iter().map(value));
    let columns: Vec<ArrayRef> = vec![
        int(Day::key),
        texts(days.iter().map(|d| format!("{} {}, {}", d.month_name(), d.day, d.year))),
        texts(days.iter().map(|d| WEEKDAYS[d.weekday])),
        texts(days.iter().map(Day::month_name)),
        int(|d| d.year),
        int(|d| d.year * 100 + d.month),
        texts(days.iter().map(|d| format!("{}{}", &d.month_name()[..3], d.year))),
        int(|d| d.weekday as i32 + 1),
        int(|d| d.day),
        int(|d| d.day_of_year),
        int(|d| d.month),
        int(|d| (d.day_of_year - 1) / 7 + 1),
        texts(days.iter().map(Day::season)),
        int(|d| i32::from(d.weekday == 6)),
        int(|d| i32::from(d.last_of_month)),
        int(|d| i32::from(d.is_holiday())),
        int(|d| i32::from((1..=5).contains(&d.weekday))),
    ];
    RecordBatch::try_new(schema(), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_calendar_is_seven_whole_years() {
        assert_eq!(DATE_KEYS.first(), Some(&19_920_101));
        assert_eq!(DATE_KEYS.last(), Some(&19_981_231));
        assert_eq!(DATE_KEYS.len(), DAYS);
        assert!(DATE_KEYS.contains(&19_960_229) && !DATE_KEYS.contains(&19_940_229));
        let last = CALENDAR[DAYS - 1];
        assert_eq!((WEEKDAYS[last.weekday], last.day_of_year, last.last_of_month), ("Thursday", 365, true));
    }
}
