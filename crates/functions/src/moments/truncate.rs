//! The beginning of the year, month, hour and the like that a moment is in; the last day of its month; names of days.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result};
use forebay_base::calendar::{self, civil};
use forebay_context::moments::{DAY, INFINITE};

use super::part::{HOUR, MINUTE, Part, SECOND};
use crate::function::{Call, Definition, INTERVAL, Shape, TEXT, days, is_text, moment_type, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["date_trunc", "datetrunc"], shape, compute: truncated },
    Definition { names: &["last_day"], shape: |types| of_moment(types, DataType::Date32), compute: last_days },
    Definition { names: &["dayname"], shape: |types| of_moment(types, TEXT), compute: day_names },
    Definition { names: &["monthname"], shape: |types| of_moment(types, TEXT), compute: month_names },
    Definition { names: &["days_in_month"], shape: |types| of_moment(types, DataType::Int64), compute: month_days },
];

fn shape(types: &[DataType]) -> Option<Shape> {
    let [part, value] = types else { return None };
    is_text(part).then_some(())?;
    if matches!(value, DataType::Interval(_)) {
        return Some(Shape { arguments: vec![TEXT, INTERVAL], result: INTERVAL });
    }
    let value = moment_type(value)?;
    let zone = match &value {
        DataType::Timestamp(_, zone) => zone.clone(),
        _ => None,
    };
    let result = DataType::Timestamp(TimeUnit::Microsecond, zone);
    Some(Shape { arguments: vec![TEXT, value], result })
}

fn of_moment(types: &[DataType], result: DataType) -> Option<Shape> {
    let [value] = types else { return None };
    Some(Shape { arguments: vec![moment_type(value)?], result })
}

fn impossible(part: Part) -> DataFusionError {
    refused(
        format!("date_trunc has no {part:?}").to_lowercase(),
        "Use year, quarter, month, week, day, hour and the like",
    )
}

fn truncated(call: &Call<'_>) -> Result<ArrayRef> {
    let parts = call.texts(0);
    let part = |row: usize| parts.is_valid(row).then(|| Part::of(parts.value(row))).transpose();
    if *call.result == INTERVAL {
        let intervals = call.values::<IntervalMonthDayNanoType>(1);
        return call.values_of::<IntervalMonthDayNanoType>(|row| match part(row)? {
            Some(part) if intervals.is_valid(row) => of_interval(part, intervals.value(row)).map(Some),
            _ => Ok(None),
        });
    }
    let moments = call.moments(1)?;
    call.values_of::<TimestampMicrosecondType>(|row| match (part(row)?, moments[row]) {
        (Some(part), Some(moment)) => beginning(part, moment).map(Some),
        _ => Ok(None),
    })
}

/// The first moment of the part of time that a moment is in.
pub(crate) fn beginning(part: Part, moment: i64) -> Result<i64> {
    use Part as P;
    if moment.unsigned_abs() == INFINITE as u64 {
        return Ok(moment);
    }
    let day = moment.div_euclid(DAY);
    let date = civil(day);
    let unit = |unit: i64| Ok(moment - moment.rem_euclid(unit));
    let first = match part {
        P::Millennium => calendar::days(date.year / 1_000 * 1_000, 1, 1),
        P::Century => calendar::days(date.year / 100 * 100, 1, 1),
        P::Decade => calendar::days(date.year / 10 * 10, 1, 1),
        P::Year => calendar::days(date.year, 1, 1),
        P::IsoYear => {
            let fourth = calendar::days(calendar::iso_week(day).0, 1, 4);
            fourth - calendar::iso_weekday(fourth) + 1
        }
        P::Quarter => calendar::days(date.year, (date.month - 1) / 3 * 3 + 1, 1),
        P::Month => calendar::days(date.year, date.month, 1),
        P::Week | P::YearWeek => day - calendar::iso_weekday(day) + 1,
        P::Day | P::DayOfWeek | P::IsoDayOfWeek | P::DayOfYear | P::Julian => day,
        P::Hour => return unit(HOUR),
        P::Minute => return unit(MINUTE),
        P::Second | P::Epoch => return unit(SECOND),
        P::Millisecond => return unit(1_000),
        P::Microsecond => return Ok(moment),
        P::Era | P::Nanosecond | P::Zone => return Err(impossible(part)),
    };
    Ok(first.saturating_mul(DAY))
}

fn of_interval(part: Part, interval: IntervalMonthDayNano) -> Result<IntervalMonthDayNano> {
    use Part as P;
    let IntervalMonthDayNano { months, days, nanoseconds } = interval;
    let whole_months = |unit: i32| Ok(IntervalMonthDayNano::new(months / unit * unit, 0, 0));
    let whole_days = |unit: i32| Ok(IntervalMonthDayNano::new(months, days / unit * unit, 0));
    let time = |unit: i64| Ok(IntervalMonthDayNano::new(months, days, nanoseconds / 1_000 / unit * unit * 1_000));
    match part {
        P::Millennium => whole_months(12_000),
        P::Century => whole_months(1_200),
        P::Decade => whole_months(120),
        P::Year | P::IsoYear => whole_months(12),
        P::Quarter => whole_months(3),
        P::Month => whole_months(1),
        P::Week | P::YearWeek => whole_days(7),
        P::Day | P::DayOfWeek | P::IsoDayOfWeek | P::DayOfYear | P::Julian => whole_days(1),
        P::Hour => time(HOUR),
        P::Minute => time(MINUTE),
        P::Second | P::Epoch => time(SECOND),
        P::Millisecond => time(1_000),
        P::Microsecond => time(1),
        P::Era | P::Nanosecond | P::Zone => Err(impossible(part)),
    }
}

fn last_days(call: &Call<'_>) -> Result<ArrayRef> {
    let days = days(&call.arguments[0])?;
    call.values_of::<Date32Type>(|row| {
        Ok(days[row].map(|day| {
            let date = civil(day);
            calendar::days(date.year, date.month, calendar::month_days(date.year, date.month)) as i32
        }))
    })
}

fn month_days(call: &Call<'_>) -> Result<ArrayRef> {
    let days = days(&call.arguments[0])?;
    call.values_of::<datafusion::arrow::datatypes::Int64Type>(|row| {
        Ok(days[row].map(|day| {
            let date = civil(day);
            calendar::month_days(date.year, date.month)
        }))
    })
}

fn day_names(call: &Call<'_>) -> Result<ArrayRef> {
    let days = days(&call.arguments[0])?;
    call.texts_of(|row| Ok(days[row].map(|day| calendar::day_name(calendar::weekday(day)).to_owned())))
}

fn month_names(call: &Call<'_>) -> Result<ArrayRef> {
    let days = days(&call.arguments[0])?;
    call.texts_of(|row| Ok(days[row].map(|day| calendar::month_name(civil(day).month).to_owned())))
}
