//! `time_bucket`: moments in steps of equal width.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, IntervalMonthDayNano, IntervalMonthDayNanoType, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::Result;
use forebay_base::calendar::{self, civil};
use forebay_context::moments::{DAY, INFINITE};

use super::shift::{later, negated};
use crate::function::{Call, Definition, INTERVAL, Shape, TIME, TIMESTAMP, refused};

/// 2000-01-03, a Monday: where steps of days and less begin.
const MONDAY: i64 = 10_959 * DAY;
/// Months from 1970 to 2000: where steps of months begin.
const MONTHS: i64 = 360;

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["time_bucket"], shape, compute }];

fn shape(types: &[DataType]) -> Option<Shape> {
    let [width, moment, rest @ ..] = types else { return None };
    let is_width = matches!(width, DataType::Interval(_)) || width.is_null() || width.is_string();
    let own = in_microseconds(moment)?;
    let (moment, third) = match rest {
        [] => (own, None),
        [DataType::Interval(_)] => (own, Some(INTERVAL)),
        [origin] if origin.is_null() => (own.clone(), Some(own)),
        [DataType::Time64(_)] if own == TIME => (own, Some(TIME)),
        [origin] if own != TIME => {
            let both = wider(own, in_microseconds(origin).filter(|origin| *origin != TIME)?);
            (both.clone(), Some(both))
        }
        _ => return None,
    };
    let arguments = [INTERVAL, moment.clone()].into_iter().chain(third).collect();
    is_width.then_some(Shape { arguments, result: moment })
}

/// A date, a time, or a timestamp of microseconds.
fn in_microseconds(moment: &DataType) -> Option<DataType> {
    Some(match moment {
        DataType::Date32 => DataType::Date32,
        DataType::Timestamp(_, zone) => DataType::Timestamp(TimeUnit::Microsecond, zone.clone()),
        DataType::Time64(_) => TIME,
        DataType::Null => TIMESTAMP,
        _ => return None,
    })
}

/// The type of two that has the values of both: dates are timestamps, and these are instants.
fn wider(one: DataType, other: DataType) -> DataType {
    let rank = |data_type: &DataType| match data_type {
        DataType::Date32 => 0,
        DataType::Timestamp(_, None) => 1,
        _ => 2,
    };
    if rank(&one) >= rank(&other) { one } else { other }
}

fn compute(call: &Call<'_>) -> Result<ArrayRef> {
    let (widths, moments) = (call.values::<IntervalMonthDayNanoType>(0), moments(call, 1)?);
    let is_offset = call.arguments.get(2).is_some_and(|third| *third.data_type() == INTERVAL);
    let origins = if call.arguments.len() == 3 && !is_offset { Some(self::moments(call, 2)?) } else { None };
    let one = |row: usize| -> Result<Option<i64>> {
        let Some(moment) = moments[row].filter(|_| widths.is_valid(row)) else { return Ok(None) };
        let width = widths.value(row);
        if is_offset {
            let offsets = call.values::<IntervalMonthDayNanoType>(2);
            if !offsets.is_valid(row) {
                return Ok(None);
            }
            let offset = offsets.value(row);
            let earlier = negated(offset).and_then(|offset| later(moment, offset)).ok_or_else(out_of_range)?;
            let bucket = bucket(width, earlier, None)?;
            return later(bucket, offset).map(Some).ok_or_else(out_of_range);
        }
        let origin = match &origins {
            Some(origins) => match origins[row] {
                None => return Ok(None),
                origin => origin.filter(|origin| origin.unsigned_abs() != INFINITE as u64),
            },
            None => None,
        };
        bucket(width, moment, origin).map(Some)
    };
    if *call.result == TIME {
        return call.values_of::<Time64MicrosecondType>(|row| Ok(one(row)?.map(|moment| moment.rem_euclid(DAY))));
    }
    if *call.result == DataType::Date32 {
        return call.values_of::<Date32Type>(|row| {
            Ok(one(row)?.map(|moment| match moment.unsigned_abs() == INFINITE as u64 {
                true => calendar::INFINITE_DAY * moment.signum() as i32,
                false => moment.div_euclid(DAY) as i32,
            }))
        });
    }
    call.values_of::<TimestampMicrosecondType>(one)
}

/// The moments of an argument; times are those of 1970-01-01.
fn moments(call: &Call<'_>, index: usize) -> Result<Vec<Option<i64>>> {
    match call.arguments[index].as_primitive_opt::<Time64MicrosecondType>() {
        Some(times) => Ok(times.iter().collect()),
        None => call.moments(index),
    }
}

fn out_of_range() -> datafusion::common::DataFusionError {
    refused("time_bucket: a timestamp is out of range", "Timestamps are those of 290309 BC to 294247")
}

/// The beginning of the step that a moment is in.
fn bucket(width: IntervalMonthDayNano, moment: i64, origin: Option<i64>) -> Result<i64> {
    let time = i128::from(width.days) * i128::from(DAY) + i128::from(width.nanoseconds / 1_000);
    let refuse =
        |message: &str| refused(format!("time_bucket: {message}"), "Use INTERVAL '1 month' or INTERVAL '10 minutes'");
    if width.months != 0 && time != 0 {
        return Err(refuse("a width of months cannot have days or a time"));
    }
    if i128::from(width.months) + time <= 0 {
        return Err(refuse("the width must be greater than 0"));
    }
    if moment.unsigned_abs() == INFINITE as u64 {
        return Ok(moment);
    }
    if width.months != 0 {
        let months = |moment: i64| {
            let date = civil(moment.div_euclid(DAY));
            (date.year - 1970) * 12 + date.month - 1
        };
        let (width, origin) = (i64::from(width.months), origin.map_or(MONTHS, months));
        let first = (months(moment) - origin).div_euclid(width) * width + origin;
        return Ok(calendar::days(1970 + first.div_euclid(12), first.rem_euclid(12) + 1, 1).saturating_mul(DAY));
    }
    let origin = i128::from(origin.unwrap_or(MONDAY));
    let first = (i128::from(moment) - origin).div_euclid(time) * time + origin;
    forebay_context::moments::in_range(first).ok_or_else(out_of_range)
}
