//! When trips begin: rows in the order of monthly files, months by how many trips they had, hours by how busy they are.
//!
//! A month's file has its trips roughly in the order of time, then the rows that came without the meter's record, again
//! from the first day to the last.

use crate::random::{RowRandom, Stream};

/// Trips of each month from January 2018 on, in ten thousands: five years as the city counted them, with the spring of 2020.
const MONTH_TRIPS: [u64; 60] = [
    876, 849, 943, 931, 922, 871, 785, 786, 805, 883, 815, 818, 770, 705, 787, 748, 760, 697, 631, 607, 657, 721, 688,
    690, 640, 630, 301, 24, 35, 55, 80, 101, 134, 168, 151, 146, 137, 137, 193, 217, 251, 283, 282, 279, 296, 346, 347,
    321, 246, 298, 363, 360, 359, 356, 317, 315, 318, 368, 325, 340,
];

/// Days from 1970-01-01 to the first day of the first month, a Monday.
const FIRST_DAY: i64 = 17_532;

const SECONDS_OF_DAY: i64 = 86_400;

/// The month from which on some rows lack what the meter records.
const FIRST_INCOMPLETE_MONTH: usize = 18;

/// How busy the hours are, Mondays to Fridays and at the weekend.
const WORKDAY_HOURS: [u64; 24] =
    [28, 18, 12, 9, 9, 15, 34, 56, 66, 64, 61, 63, 67, 67, 70, 68, 62, 75, 86, 84, 76, 74, 68, 50];
const WEEKEND_HOURS: [u64; 24] =
    [74, 66, 55, 42, 26, 13, 14, 19, 28, 42, 54, 61, 66, 66, 66, 66, 66, 68, 73, 71, 62, 62, 65, 63];

/// How busy the days are, from Monday on.
const WEEKDAYS: [u64; 7] = [88, 97, 101, 105, 107, 106, 92];

/// A day's traffic differs from that of its weekday by at most so many per cent.
const DAY_CHANGE: u64 = 14;

/// 25 December and 1 January have so many per cent of a day's trips.
const HOLIDAY: u64 = 60;

/// Where a row stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Turn {
    /// Months from January 2018.
    pub(super) month: usize,
    /// Seconds since 1970-01-01 at which it would begin if all rows came in order.
    pub(super) second: i64,
    /// The row lacks what the meter records.
    pub(super) is_incomplete: bool,
}

/// The rows of all months.
pub(super) struct Calendar {
    months: Vec<Month>,
}

struct Month {
    first_row: u64,
    /// Rows with all columns; the rest follows them.
    complete_rows: u64,
    incomplete_rows: u64,
    /// Seconds since 1970-01-01 of its first hour.
    first_second: i64,
    /// Of each hour: how busy all hours up to its end are.
    hours: Vec<u64>,
}

impl Calendar {
    /// Of a table of so many rows.
    pub(super) fn new(rows: u64, seed: u64) -> Self {
        let all_trips = u128::from(MONTH_TRIPS.iter().sum::<u64>());
        let share = |trips: u64| (u128::from(rows) * u128::from(trips) / all_trips) as u64;
        let mut months = Vec::with_capacity(MONTH_TRIPS.len());
        let (mut trips, mut day) = (0, FIRST_DAY);
        for (month, &own) in MONTH_TRIPS.iter().enumerate() {
            let first_row = share(trips);
            trips += own;
            let month_rows = share(trips) - first_row;
            let incomplete_rows = month_rows * incomplete_per_mille(month) / 1_000;
            let days = days_of(month);
            months.push(Month {
                first_row,
                complete_rows: month_rows - incomplete_rows,
                incomplete_rows,
                first_second: day * SECONDS_OF_DAY,
                hours: busy_hours(day, days, month % 12, seed),
            });
            day += days;
        }
        Self { months }
    }

    /// Where row `row` stands.
    pub(super) fn turn(&self, row: u64) -> Turn {
        let month = self.months.partition_point(|month| month.first_row <= row) - 1;
        let of = &self.months[month];
        let place = row - of.first_row;
        let is_incomplete = place >= of.complete_rows;
        let second = match is_incomplete {
            true => of.second(place - of.complete_rows, of.incomplete_rows),
            false => of.second(place, of.complete_rows),
        };
        Turn { month, second, is_incomplete }
    }
}

impl Month {
    /// The second of the `place`th of `count` rows that are spread over the month as busy as its hours are.
    fn second(&self, place: u64, count: u64) -> i64 {
        let busy = self.hours.last().copied().unwrap_or_default();
        let point = (u128::from(place) * u128::from(busy) * 3_600 / u128::from(count.max(1))) as u64;
        let hour = self.hours.partition_point(|&end| end * 3_600 <= point).min(self.hours.len() - 1);
        let start = if hour == 0 { 0 } else { self.hours[hour - 1] };
        let within = (point - start * 3_600) / (self.hours[hour] - start);
        self.first_second + hour as i64 * 3_600 + within as i64
    }
}

fn days_of(month: usize) -> i64 {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let is_leap_february = month == 25;
    DAYS[month % 12] + i64::from(is_leap_february)
}

fn incomplete_per_mille(month: usize) -> u64 {
    match month {
        0..FIRST_INCOMPLETE_MONTH => 0,
        FIRST_INCOMPLETE_MONTH..26 => 6,
        26..42 => 70,
        _ => 38,
    }
}

/// How busy the hours of `days` days from `first_day` on are, summed up.
fn busy_hours(first_day: i64, days: i64, month_of_year: usize, seed: u64) -> Vec<u64> {
    let mut hours = Vec::with_capacity(days as usize * 24);
    let mut sum = 0;
    for day in first_day..first_day + days {
        let weekday = ((day - FIRST_DAY) % 7) as usize;
        let mut share = WEEKDAYS[weekday];
        share *= 100 - DAY_CHANGE + RowRandom::new(seed, Stream::TripDay, day as u64).below(2 * DAY_CHANGE + 1);
        if matches!((month_of_year, day - first_day), (0, 0) | (11, 24)) {
            share = share * HOLIDAY / 100;
        }
        for busy in if weekday < 5 { WORKDAY_HOURS } else { WEEKEND_HOURS } {
            sum += busy * share;
            hours.push(sum);
        }
    }
    hours
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_months_and_of_time_within_each() {
        let calendar = Calendar::new(100_000, 1);
        let turns: Vec<_> = (0..100_000).map(|row| calendar.turn(row)).collect();
        assert_eq!((turns[0].month, turns[99_999].month), (0, 59));
        for pair in turns.windows(2) {
            let (before, after) = (pair[0], pair[1]);
            assert!(before.month <= after.month);
            let same_part = before.month == after.month && before.is_incomplete == after.is_incomplete;
            assert!(!same_part || before.second <= after.second, "{before:?} {after:?}");
        }
        for turn in turns {
            let month = &calendar.months[turn.month];
            let end = month.first_second + days_of(turn.month) * SECONDS_OF_DAY;
            assert!((month.first_second..end).contains(&turn.second), "{turn:?}");
        }
    }

    #[test]
    fn the_months_end_where_2023_begins() {
        let calendar = Calendar::new(1, 1);
        let last = &calendar.months[59];
        assert_eq!(last.first_second + 31 * SECONDS_OF_DAY, 1_672_531_200);
    }

    #[test]
    fn a_table_of_few_rows_has_them_all() {
        for rows in 1..200 {
            let calendar = Calendar::new(rows, 7);
            let counted: u64 = calendar.months.iter().map(|month| month.complete_rows + month.incomplete_rows).sum();
            assert_eq!(counted, rows);
            calendar.turn(rows - 1);
        }
    }
}
