//! How far two moments are from each other: by borders between them (`date_diff`), by whole units (`date_sub`), and as an
//! interval (`age`).

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{
    DataType, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType,
};
use datafusion::common::{DataFusionError, Result};
use forebay_base::calendar::{self, civil};
use forebay_context::moments::{DAY, INFINITE};

use super::part::{HOUR, MINUTE, Part, SECOND};
use crate::function::{Call, Definition, INTERVAL, Shape, TEXT, TIME, is_text, moment_type, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["date_diff", "datediff"], shape, compute: |call| distances(call, borders) },
    Definition { names: &["date_sub", "datesub"], shape, compute: |call| distances(call, whole_units) },
    Definition { names: &["age"], shape: age_shape, compute: ages },
];

fn shape(types: &[DataType]) -> Option<Shape> {
    let [part, from, to] = types else { return None };
    is_text(part).then_some(())?;
    let is_time = |data_type: &DataType| matches!(data_type, DataType::Time64(_));
    let arguments = match is_time(from) || is_time(to) {
        true => vec![TEXT, TIME, TIME],
        false => vec![TEXT, moment_type(from)?, moment_type(to)?],
    };
    Some(Shape { arguments, result: DataType::Int64 })
}

fn age_shape(types: &[DataType]) -> Option<Shape> {
    let [to, from] = types else { return None };
    Some(Shape { arguments: vec![moment_type(to)?, moment_type(from)?], result: INTERVAL })
}

fn impossible(part: Part) -> DataFusionError {
    refused(format!("there is no distance in {part:?}").to_lowercase(), "Use year, month, day, hour and the like")
}

fn distances(call: &Call<'_>, distance: fn(Part, i64, i64) -> Result<i64>) -> Result<ArrayRef> {
    let parts = call.texts(0);
    if *call.arguments[1].data_type() == TIME {
        let (from, to) = (call.values::<Time64MicrosecondType>(1), call.values::<Time64MicrosecondType>(2));
        return call.values_of::<Int64Type>(|row| {
            if !parts.is_valid(row) || !from.is_valid(row) || !to.is_valid(row) {
                return Ok(None);
            }
            let part = Part::of(parts.value(row))?;
            match part {
                Part::Hour | Part::Minute | Part::Second | Part::Millisecond | Part::Microsecond | Part::Epoch => {
                    distance(part, from.value(row), to.value(row)).map(Some)
                }
                _ => Err(impossible(part)),
            }
        });
    }
    let (from, to) = (call.moments(1)?, call.moments(2)?);
    let finite = |moment: Option<i64>| moment.filter(|one| one.unsigned_abs() != INFINITE as u64);
    call.values_of::<Int64Type>(|row| match (finite(from[row]), finite(to[row])) {
        (Some(from), Some(to)) if parts.is_valid(row) => distance(Part::of(parts.value(row))?, from, to).map(Some),
        _ => Ok(None),
    })
}

/// Microseconds of a unit of time that always is equally long.
fn length(part: Part) -> Option<i64> {
    Some(match part {
        Part::Week | Part::YearWeek => 7 * DAY,
        Part::Day | Part::DayOfWeek | Part::IsoDayOfWeek | Part::DayOfYear | Part::Julian => DAY,
        Part::Hour => HOUR,
        Part::Minute => MINUTE,
        Part::Second | Part::Epoch => SECOND,
        Part::Millisecond => 1_000,
        Part::Microsecond => 1,
        _ => return None,
    })
}

/// Months of a unit of time.
fn months(part: Part) -> Option<i64> {
    Some(match part {
        Part::Millennium => 12_000,
        Part::Century => 1_200,
        Part::Decade => 120,
        Part::Year | Part::IsoYear => 12,
        Part::Quarter => 3,
        Part::Month => 1,
        _ => return None,
    })
}

/// How many beginnings of such a part lie between two moments.
fn borders(part: Part, from: i64, to: i64) -> Result<i64> {
    let ordinal = |moment: i64| -> Result<i64> {
        let day = moment.div_euclid(DAY);
        let date = civil(day);
        Ok(match part {
            Part::IsoYear => calendar::iso_week(day).0,
            Part::Month | Part::Quarter => (date.year * 12 + date.month - 1) / months(part).unwrap_or(1),
            _ => match (months(part), length(part)) {
                (Some(months), _) => date.year / (months / 12),
                (_, Some(length)) => moment.div_euclid(length),
                _ => return Err(impossible(part)),
            },
        })
    };
    match part {
        // Weeks begin with the first of the two days.
        Part::Week | Part::YearWeek => Ok((to.div_euclid(DAY) - from.div_euclid(DAY)) / 7),
        _ => Ok(ordinal(to)? - ordinal(from)?),
    }
}

/// How many whole units of such a part lie between two moments.
fn whole_units(part: Part, from: i64, to: i64) -> Result<i64> {
    match (months(part), length(part)) {
        (Some(unit), _) => Ok(whole_months(from, to) / unit),
        (_, Some(length)) => {
            let distance = i128::from(to) - i128::from(from);
            Ok((distance / i128::from(length)) as i64)
        }
        _ => Err(impossible(part)),
    }
}

fn whole_months(from: i64, to: i64) -> i64 {
    if from > to {
        return -whole_months(to, from);
    }
    let (end, start) = (civil(to.div_euclid(DAY)), civil(from.div_euclid(DAY)));
    let last = calendar::month_days(end.year, end.month);
    // On the last day of a month all days are over that a longer month has.
    let mut from = from;
    let (start_time, end_time) = (from.rem_euclid(DAY), to.rem_euclid(DAY));
    if end.day == last && (start.day > last || (start.day == last && start_time < end_time)) {
        from = calendar::days(start.year, start.month, last) * DAY + start_time;
    }
    i64::from(age(to, from).months)
}

fn ages(call: &Call<'_>) -> Result<ArrayRef> {
    let (to, from) = (call.moments(0)?, call.moments(1)?);
    let finite = |moment: Option<i64>| moment.filter(|one| one.unsigned_abs() != INFINITE as u64);
    call.values_of::<IntervalMonthDayNanoType>(|row| {
        Ok(finite(to[row]).zip(finite(from[row])).map(|(to, from)| age(to, from)))
    })
}

/// Years, months, days and time from one moment to another, as PostgreSQL counts them: what is left of a month are days.
fn age(to: i64, from: i64) -> IntervalMonthDayNano {
    let is_negative = to < from;
    let sign = if is_negative { -1 } else { 1 };
    let (end, start) = (civil(to.div_euclid(DAY)), civil(from.div_euclid(DAY)));
    let mut months = sign * ((end.year - start.year) * 12 + end.month - start.month);
    let mut days = sign * (end.day - start.day);
    let mut time = sign * (to.rem_euclid(DAY) - from.rem_euclid(DAY));
    if time < 0 {
        (time, days) = (time + DAY, days - 1);
    }
    while days < 0 {
        let month = if is_negative { end } else { start };
        (days, months) = (days + calendar::month_days(month.year, month.month), months - 1);
    }
    IntervalMonthDayNano::new((sign * months) as i32, (sign * days) as i32, sign * time * 1_000)
}
