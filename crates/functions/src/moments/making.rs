//! Dates, times, timestamps and intervals from numbers, and numbers from them.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType, TimestampNanosecondType,
};
use datafusion::common::{DataFusionError, Result};
use forebay_base::calendar;
use forebay_context::intervals;
use forebay_context::moments::{DAY, INFINITE, in_range};

use super::part::{HOUR, MINUTE, SECOND};
use super::shift::later;
use crate::function::{
    Call, Definition, INTERVAL, Shape, TIME, TIMESTAMP, is_integer, is_moment, moment_type, refused,
};

/// A function that makes intervals of so many months, days or microseconds.
macro_rules! interval_of {
    ($name:literal, months $unit:literal) => {
        Definition { names: &[$name], shape: count_shape, compute: |call| intervals_of(call, $name, $unit, 0, 0) }
    };
    ($name:literal, days $unit:literal) => {
        Definition { names: &[$name], shape: count_shape, compute: |call| intervals_of(call, $name, 0, $unit, 0) }
    };
    ($name:literal, time $unit:expr) => {
        Definition { names: &[$name], shape: count_shape, compute: |call| intervals_of(call, $name, 0, 0, $unit) }
    };
    ($name:literal, seconds $unit:expr) => {
        Definition { names: &[$name], shape: seconds_shape, compute: |call| intervals_of(call, $name, 0, 0, $unit) }
    };
}

pub(crate) const DEFINITIONS: &[Definition] = &[
    interval_of!("to_millennia", months 12_000),
    interval_of!("to_centuries", months 1_200),
    interval_of!("to_decades", months 120),
    interval_of!("to_years", months 12),
    interval_of!("to_quarters", months 3),
    interval_of!("to_months", months 1),
    interval_of!("to_weeks", days 7),
    interval_of!("to_days", days 1),
    interval_of!("to_hours", time HOUR),
    interval_of!("to_minutes", time MINUTE),
    interval_of!("to_seconds", seconds SECOND),
    interval_of!("to_milliseconds", seconds 1_000),
    interval_of!("to_microseconds", time 1),
    Definition { names: &["make_date"], shape: date_shape, compute: dates },
    Definition { names: &["make_time"], shape: time_shape, compute: times },
    Definition { names: &["make_timestamp"], shape: timestamp_shape, compute: timestamps },
    Definition { names: &["make_timestamptz"], shape: zoned_shape, compute: timestamps },
    Definition {
        names: &["make_timestamp_ms"],
        shape: |types| counted(types, TIMESTAMP),
        compute: |call| counted_moments(call, 1_000),
    },
    Definition {
        names: &["make_timestamp_ns"],
        shape: |types| counted(types, DataType::Timestamp(TimeUnit::Nanosecond, None)),
        compute: nanosecond_moments,
    },
    Definition { names: &["to_timestamp"], shape: epoch_shape, compute: moments_of_epochs },
    Definition { names: &["epoch_ms"], shape: epoch_ms_shape, compute: |call| counts(call, 1, 1_000) },
    Definition { names: &["epoch_us"], shape: count_of_shape, compute: |call| counts(call, 1, 1) },
    Definition { names: &["epoch_ns"], shape: count_of_shape, compute: |call| counts(call, 1_000, 1) },
    Definition { names: &["isfinite"], shape: flag_shape, compute: |call| flags(call, |kind| kind == Kind::Finite) },
    Definition { names: &["isinf"], shape: flag_shape, compute: |call| flags(call, |kind| kind == Kind::Infinite) },
    Definition { names: &["date_add"], shape: add_shape, compute: |call| sums(call, 1) },
    Definition { names: &["days_earlier"], shape: days_shape, compute: |call| sums(call, -1) },
    Definition { names: &["normalized_interval"], shape: normal_shape, compute: normalized },
];

fn out_of_range(what: &str) -> DataFusionError {
    refused(format!("{what} is out of range"), "Use less, or another unit")
}

fn count_shape(types: &[DataType]) -> Option<Shape> {
    let [count] = types else { return None };
    (is_integer(count) || count.is_string()).then(|| Shape { arguments: vec![DataType::Int64], result: INTERVAL })
}

fn seconds_shape(types: &[DataType]) -> Option<Shape> {
    match types {
        [count] if count.is_floating() || count.is_decimal() && !is_integer(count) => {
            Some(Shape { arguments: vec![DataType::Float64], result: INTERVAL })
        }
        _ => count_shape(types),
    }
}

fn intervals_of(call: &Call<'_>, name: &str, months: i64, days: i64, time: i64) -> Result<ArrayRef> {
    if *call.arguments[0].data_type() == DataType::Float64 {
        let counts = call.floats(0);
        return call.values_of::<IntervalMonthDayNanoType>(|row| {
            if !counts.is_valid(row) {
                return Ok(None);
            }
            let microseconds = (counts.value(row) * time as f64).round_ties_even();
            match microseconds.abs() < 9.2e15 {
                true => Ok(Some(IntervalMonthDayNano::new(0, 0, microseconds as i64 * 1_000))),
                false => Err(out_of_range(&format!("{name}({:e})", counts.value(row)))),
            }
        });
    }
    let counts = call.integers(0);
    call.values_of::<IntervalMonthDayNanoType>(|row| {
        if !counts.is_valid(row) {
            return Ok(None);
        }
        let count = counts.value(row);
        let part = |unit: i64| count.checked_mul(unit).and_then(|part| i32::try_from(part).ok());
        let interval = part(months).zip(part(days)).and_then(|(months, days)| {
            let nanoseconds = count.checked_mul(time)?.checked_mul(1_000)?;
            Some(IntervalMonthDayNano::new(months, days, nanoseconds))
        });
        interval.map(Some).ok_or_else(|| out_of_range(&format!("{name}({count})")))
    })
}

fn date_shape(types: &[DataType]) -> Option<Shape> {
    let is_made = matches!(types.len(), 1 | 3) && types.iter().all(is_integer);
    is_made.then(|| Shape { arguments: vec![DataType::Int64; types.len()], result: DataType::Date32 })
}

fn dates(call: &Call<'_>) -> Result<ArrayRef> {
    if call.arguments.len() == 1 {
        let days = call.integers(0);
        return call.values_of::<Date32Type>(|row| match days.is_valid(row) {
            true => {
                i32::try_from(days.value(row)).map(Some).map_err(|_| out_of_range(&format!("day {}", days.value(row))))
            }
            false => Ok(None),
        });
    }
    call.values_of::<Date32Type>(|row| {
        Ok(fields(call, row).map(|[year, month, day]| day_of(year, month, day)).transpose()?.map(|day| day as i32))
    })
}

fn day_of(year: i64, month: i64, day: i64) -> Result<i64> {
    let days = calendar::checked_days(year, month, day);
    days.map(i64::from)
        .ok_or_else(|| refused(format!("there is no date {year}-{month}-{day}"), "Months have 28 to 31 days"))
}

/// The first so many arguments, if none is NULL.
fn fields<const N: usize>(call: &Call<'_>, row: usize) -> Option<[i64; N]> {
    let mut fields = [0; N];
    for (index, field) in fields.iter_mut().enumerate() {
        let values = call.integers(index);
        *field = values.is_valid(row).then(|| values.value(row))?;
    }
    Some(fields)
}

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null()
}

fn time_shape(types: &[DataType]) -> Option<Shape> {
    let [hour, minute, second] = types else { return None };
    let is_made = is_integer(hour) && is_integer(minute) && is_number(second);
    is_made.then(|| Shape { arguments: vec![DataType::Int64, DataType::Int64, DataType::Float64], result: TIME })
}

fn times(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = call.floats(2);
    call.values_of::<Time64MicrosecondType>(|row| match fields(call, row) {
        Some([hour, minute]) if seconds.is_valid(row) => time_of(hour, minute, seconds.value(row)).map(Some),
        _ => Ok(None),
    })
}

fn time_of(hour: i64, minute: i64, seconds: f64) -> Result<i64> {
    let whole = seconds.trunc();
    let micros = ((seconds - whole) * 1e6).round();
    let is_time = (0.0..=60.0).contains(&whole) && micros >= 0.0 && (0..60).contains(&minute);
    let time = is_time.then(|| hour * HOUR + minute * MINUTE + (whole * 1e6 + micros) as i64);
    time.filter(|time| (0..=DAY).contains(time) && (0..=24).contains(&hour)).ok_or_else(|| {
        refused(format!("there is no time {hour}:{minute}:{seconds}"), "Hours are 0 to 24, minutes and seconds 0 to 59")
    })
}

fn timestamp_shape(types: &[DataType]) -> Option<Shape> {
    match types {
        [count] => counted(std::slice::from_ref(count), TIMESTAMP),
        [rest @ .., second] if rest.len() == 5 && rest.iter().all(is_integer) && is_number(second) => {
            let mut arguments = vec![DataType::Int64; 5];
            arguments.push(DataType::Float64);
            Some(Shape { arguments, result: TIMESTAMP })
        }
        _ => None,
    }
}

fn zoned() -> DataType {
    DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
}

fn zoned_shape(types: &[DataType]) -> Option<Shape> {
    Some(Shape { result: zoned(), ..timestamp_shape(types)? })
}

fn timestamps(call: &Call<'_>) -> Result<ArrayRef> {
    if call.arguments.len() == 1 {
        return counted_moments(call, 1);
    }
    let seconds = call.floats(5);
    call.values_of::<TimestampMicrosecondType>(|row| match fields(call, row) {
        Some([year, month, day, hour, minute]) if seconds.is_valid(row) => {
            let day = day_of(year, month, day)?;
            let time = time_of(hour, minute, seconds.value(row))?;
            in_range(i128::from(day) * i128::from(DAY) + i128::from(time))
                .map(Some)
                .ok_or_else(|| out_of_range("a timestamp"))
        }
        _ => Ok(None),
    })
}

fn counted(types: &[DataType], result: DataType) -> Option<Shape> {
    let [count] = types else { return None };
    is_integer(count).then(|| Shape { arguments: vec![DataType::Int64], result })
}

/// Timestamps of so many units of so many microseconds.
fn counted_moments(call: &Call<'_>, unit: i64) -> Result<ArrayRef> {
    let counts = call.integers(0);
    call.values_of::<TimestampMicrosecondType>(|row| match counts.is_valid(row) {
        true => {
            let moment = in_range(i128::from(counts.value(row)) * i128::from(unit));
            moment.map(Some).ok_or_else(|| out_of_range(&format!("the timestamp {}", counts.value(row))))
        }
        false => Ok(None),
    })
}

fn nanosecond_moments(call: &Call<'_>) -> Result<ArrayRef> {
    let counts = call.integers(0);
    call.values_of::<TimestampNanosecondType>(|row| Ok(counts.is_valid(row).then(|| counts.value(row))))
}

fn epoch_shape(types: &[DataType]) -> Option<Shape> {
    let [seconds] = types else { return None };
    is_number(seconds).then(|| Shape { arguments: vec![DataType::Float64], result: zoned() })
}

fn moments_of_epochs(call: &Call<'_>) -> Result<ArrayRef> {
    let seconds = call.floats(0);
    call.values_of::<TimestampMicrosecondType>(|row| {
        if !seconds.is_valid(row) {
            return Ok(None);
        }
        let microseconds = (seconds.value(row) * 1e6).round_ties_even();
        let moment = (microseconds.abs() < 9.3e18).then_some(microseconds as i128).and_then(in_range);
        moment.map(Some).ok_or_else(|| out_of_range(&format!("the timestamp {:e}", seconds.value(row))))
    })
}

fn epoch_ms_shape(types: &[DataType]) -> Option<Shape> {
    match types {
        [count] if is_integer(count) && !count.is_null() => counted(types, TIMESTAMP),
        _ => count_of_shape(types),
    }
}

fn count_of_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    let argument = match value {
        DataType::Interval(_) => INTERVAL,
        DataType::Time64(_) => TIME,
        other => moment_type(other)?,
    };
    Some(Shape { arguments: vec![argument], result: DataType::Int64 })
}

/// `multiply / divide` of the microseconds of a moment, a time or an interval.
fn counts(call: &Call<'_>, multiply: i128, divide: i128) -> Result<ArrayRef> {
    let scale = |value: i128| {
        i64::try_from(value * multiply / divide).map(Some).map_err(|_| out_of_range("the number of nanoseconds"))
    };
    // Units of moments are rounded, those of times and intervals cut.
    let nearest = |moment: i128| scale(moment + moment.signum() * (divide / 2));
    match call.arguments[0].data_type() {
        DataType::Int64 => counted_moments(call, 1_000),
        DataType::Interval(_) => {
            let values = call.values::<IntervalMonthDayNanoType>(0);
            call.values_of::<Int64Type>(|row| match values.is_valid(row) {
                true => scale(intervals::length(values.value(row))),
                false => Ok(None),
            })
        }
        DataType::Time64(_) => {
            let values = call.values::<Time64MicrosecondType>(0);
            call.values_of::<Int64Type>(|row| match values.is_valid(row) {
                true => scale(values.value(row).into()),
                false => Ok(None),
            })
        }
        DataType::Timestamp(TimeUnit::Nanosecond, _) if multiply == 1_000 => {
            let values = call.values::<TimestampNanosecondType>(0);
            call.values_of::<Int64Type>(|row| {
                Ok(values.is_valid(row).then(|| values.value(row)).filter(|one| one.unsigned_abs() != INFINITE as u64))
            })
        }
        _ => {
            let moments = call.moments(0)?;
            call.values_of::<Int64Type>(|row| match moments[row] {
                Some(moment) if moment.unsigned_abs() != INFINITE as u64 => nearest(moment.into()),
                _ => Ok(None),
            })
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Finite,
    Infinite,
    NotANumber,
}

fn flag_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    let argument = if is_moment(value) { value.clone() } else { DataType::Float64 };
    (is_moment(value) || is_number(value)).then(|| Shape { arguments: vec![argument], result: DataType::Boolean })
}

fn flags(call: &Call<'_>, is_one: fn(Kind) -> bool) -> Result<ArrayRef> {
    if let Some(values) = call.arguments[0].as_primitive_opt::<Float64Type>() {
        let kind = |value: f64| match value {
            _ if value.is_nan() => Kind::NotANumber,
            _ if value.is_infinite() => Kind::Infinite,
            _ => Kind::Finite,
        };
        return call.flags_of(|row| Ok(values.is_valid(row).then(|| is_one(kind(values.value(row))))));
    }
    if let Some(days) = call.arguments[0].as_primitive_opt::<Date32Type>() {
        let is_infinite = |day: i32| day.unsigned_abs() == calendar::INFINITE_DAY as u32;
        let kind = |day: i32| if is_infinite(day) { Kind::Infinite } else { Kind::Finite };
        return call.flags_of(|row| Ok(days.is_valid(row).then(|| is_one(kind(days.value(row))))));
    }
    let moments = call.moments(0)?;
    let kind = |moment: i64| if moment.unsigned_abs() == INFINITE as u64 { Kind::Infinite } else { Kind::Finite };
    call.flags_of(|row| Ok(moments[row].map(|moment| is_one(kind(moment)))))
}

fn add_shape(types: &[DataType]) -> Option<Shape> {
    let [moment, interval] = types else { return None };
    match interval {
        DataType::Interval(_) => {
            let moment = moment_type(moment)?;
            let result = if matches!(moment, DataType::Timestamp(_, Some(_))) { zoned() } else { TIMESTAMP };
            Some(Shape { arguments: vec![moment, INTERVAL], result })
        }
        days if is_integer(days) && *moment == DataType::Date32 => {
            Some(Shape { arguments: vec![DataType::Date32, DataType::Int64], result: DataType::Date32 })
        }
        _ => None,
    }
}

fn days_shape(types: &[DataType]) -> Option<Shape> {
    add_shape(types).filter(|shape| shape.result == DataType::Date32)
}

fn sums(call: &Call<'_>, sign: i64) -> Result<ArrayRef> {
    if let Some(days) = call.arguments[1].as_primitive_opt::<Int64Type>() {
        let dates = call.days(0)?;
        return call.values_of::<Date32Type>(|row| match dates[row].filter(|_| days.is_valid(row)) {
            Some((date, _)) if date.abs() == i64::from(calendar::INFINITE_DAY) => Ok(Some(date as i32)),
            Some((date, _)) => {
                let day = days.value(row).checked_mul(sign).and_then(|days| days.checked_add(date));
                let is_date = |day: &i32| (calendar::FIRST_DAY..calendar::INFINITE_DAY).contains(day);
                let day = day.and_then(|day| i32::try_from(day).ok()).filter(is_date);
                day.map(Some).ok_or_else(|| out_of_range("a date"))
            }
            None => Ok(None),
        });
    }
    let (moments, intervals) = (call.moments(0)?, call.values::<IntervalMonthDayNanoType>(1));
    call.values_of::<TimestampMicrosecondType>(|row| match moments[row] {
        Some(moment) if intervals.is_valid(row) => {
            later(moment, intervals.value(row)).map(Some).ok_or_else(|| out_of_range("a timestamp"))
        }
        _ => Ok(None),
    })
}

fn normal_shape(types: &[DataType]) -> Option<Shape> {
    let [interval] = types else { return None };
    (matches!(interval, DataType::Interval(_)) || interval.is_null())
        .then(|| Shape { arguments: vec![INTERVAL], result: INTERVAL })
}

/// Days of 24 hours and months of 30 days, so that days and time are no less than none.
fn normalized(call: &Call<'_>) -> Result<ArrayRef> {
    let intervals = call.values::<IntervalMonthDayNanoType>(0);
    call.values_of::<IntervalMonthDayNanoType>(|row| {
        Ok(intervals.is_valid(row).then(|| {
            let interval = intervals.value(row);
            let time = interval.nanoseconds / 1_000;
            let days = i64::from(interval.days) + time.div_euclid(DAY);
            let months = i64::from(interval.months) + days.div_euclid(30);
            IntervalMonthDayNano::new(months as i32, days.rem_euclid(30) as i32, time.rem_euclid(DAY) * 1_000)
        }))
    })
}
