//! Moments that are an interval later.

use datafusion::arrow::datatypes::IntervalMonthDayNano;
use forebay_base::calendar;
use forebay_context::moments::{DAY, INFINITE, in_range};

/// The moment an interval later: months first, then days, then the rest. `None` out of range.
pub fn later(moment: i64, interval: IntervalMonthDayNano) -> Option<i64> {
    if moment.unsigned_abs() == INFINITE as u64 {
        return Some(moment);
    }
    let (day, time) = (moment.div_euclid(DAY), moment.rem_euclid(DAY));
    let day = match interval.months {
        0 => day,
        months => calendar::months_later(day, i64::from(months)),
    };
    let days = i128::from(day) + i128::from(interval.days);
    in_range(days * i128::from(DAY) + i128::from(time) + i128::from(interval.nanoseconds / 1_000))
}

/// The interval with all its signs turned; `None` where one has no opposite.
pub fn negated(interval: IntervalMonthDayNano) -> Option<IntervalMonthDayNano> {
    let nanoseconds = interval.nanoseconds.checked_neg()?;
    Some(IntervalMonthDayNano::new(interval.months.checked_neg()?, interval.days.checked_neg()?, nanoseconds))
}
