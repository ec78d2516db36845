//! What operators between moments, times of day, intervals and numbers mean.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Float64Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType,
    Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result};
use forebay_context::moments::{DAY, INFINITE, in_range};

use super::shift::{later, negated};
use crate::function::{
    Call, Definition, INTERVAL, Shape, TIME, TIMESTAMP, is_integer, is_moment, moment_type, refused,
};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["interval_times"], shape: product_shape, compute: products },
    Definition { names: &["interval_over"], shape: quotient_shape, compute: quotients },
    Definition { names: &["moment_later"], shape: later_shape, compute: |call| moments(call, Some) },
    Definition { names: &["moment_earlier"], shape: later_shape, compute: |call| moments(call, negated) },
    Definition { names: &["time_later"], shape: time_shape, compute: |call| times(call, 1) },
    Definition { names: &["time_earlier"], shape: time_shape, compute: |call| times(call, -1) },
    Definition { names: &["moment_difference"], shape: difference_shape, compute: differences },
    Definition { names: &["days_between"], shape: days_shape, compute: days },
    Definition { names: &["date_and_time"], shape: both_shape, compute: dates_with_times },
];

fn days_shape(types: &[DataType]) -> Option<Shape> {
    let arguments = vec![DataType::Date32; 2];
    (types == arguments.as_slice()).then_some(Shape { arguments, result: DataType::Int64 })
}

/// Days from the second date to the first one.
fn days(call: &Call<'_>) -> Result<ArrayRef> {
    let (later, earlier) = (call.values::<Date32Type>(0), call.values::<Date32Type>(1));
    call.values_of::<Int64Type>(|row| {
        let both = later.is_valid(row) && earlier.is_valid(row);
        Ok(both.then(|| i64::from(later.value(row)) - i64::from(earlier.value(row))))
    })
}

fn out_of_range(what: &str) -> DataFusionError {
    refused(format!("{what} is out of range"), "Use less")
}

fn product_shape(types: &[DataType]) -> Option<Shape> {
    let [interval, factor] = types else { return None };
    let is_interval = matches!(interval, DataType::Interval(_)) || interval.is_null();
    let factor = match factor {
        other if is_integer(other) && !matches!(other, DataType::Decimal128(..)) => DataType::Int64,
        other if other.is_numeric() => DataType::Float64,
        _ => return None,
    };
    is_interval.then(|| Shape { arguments: vec![INTERVAL, factor], result: INTERVAL })
}

fn quotient_shape(types: &[DataType]) -> Option<Shape> {
    let Shape { result, .. } = product_shape(types)?;
    Some(Shape { arguments: vec![INTERVAL, DataType::Float64], result })
}

fn products(call: &Call<'_>) -> Result<ArrayRef> {
    let intervals = call.values::<IntervalMonthDayNanoType>(0);
    if *call.arguments[1].data_type() == DataType::Float64 {
        return scaled(call, |factor| factor);
    }
    let factors = call.values::<Int64Type>(1);
    call.values_of::<IntervalMonthDayNanoType>(|row| {
        if !intervals.is_valid(row) || !factors.is_valid(row) {
            return Ok(None);
        }
        let (interval, factor) = (intervals.value(row), factors.value(row));
        let part = |part: i32| i64::from(part).checked_mul(factor).and_then(|part| i32::try_from(part).ok());
        let whole = part(interval.months).zip(part(interval.days)).zip(interval.nanoseconds.checked_mul(factor));
        let product = whole.map(|((months, days), nanoseconds)| IntervalMonthDayNano::new(months, days, nanoseconds));
        product.map(Some).ok_or_else(|| out_of_range(&format!("an interval times {factor}")))
    })
}

fn quotients(call: &Call<'_>) -> Result<ArrayRef> {
    let factors = call.floats(1);
    if (0..call.rows).any(|row| factors.is_valid(row) && factors.value(row) == 0.0 && call.arguments[0].is_valid(row)) {
        return Err(refused("an interval is divided by zero", "Use nullif(x, 0)"));
    }
    scaled(call, |divisor| 1.0 / divisor)
}

/// Intervals whose parts are scaled: what is left of a month counts in days, and of a day in its time, as in PostgreSQL.
fn scaled(call: &Call<'_>, factor_of: fn(f64) -> f64) -> Result<ArrayRef> {
    let (intervals, numbers) = (call.values::<IntervalMonthDayNanoType>(0), call.values::<Float64Type>(1));
    call.values_of::<IntervalMonthDayNanoType>(|row| {
        if !intervals.is_valid(row) || !numbers.is_valid(row) {
            return Ok(None);
        }
        let (interval, factor) = (intervals.value(row), factor_of(numbers.value(row)));
        let product = scaled_interval(interval, factor);
        product.map(Some).ok_or_else(|| out_of_range(&format!("an interval scaled by {factor}")))
    })
}

/// What is left of a product is rounded once, as in DuckDB: a product that is rounded first would leave other microseconds.
fn scaled_interval(interval: IntervalMonthDayNano, factor: f64) -> Option<IntervalMonthDayNano> {
    const DAY_SECONDS: f64 = 86_400.0;
    let rounded = |seconds: f64| (seconds * 1e6).round_ties_even() / 1e6;
    let whole = |value: f64| (value.abs() < 2_147_483_648.0).then_some(value.trunc());
    let (months, days) = (f64::from(interval.months), f64::from(interval.days));
    let (whole_months, whole_days) = (whole(months * factor)?, whole(days * factor)?);
    let month_days = rounded(months.mul_add(factor, -whole_months) * 30.0);
    let left_days = days.mul_add(factor, -whole_days);
    let mut seconds = rounded((left_days + month_days - month_days.trunc()) * DAY_SECONDS);
    let mut more_days = month_days.trunc();
    if seconds.abs() >= DAY_SECONDS {
        more_days += (seconds / DAY_SECONDS).trunc();
        seconds -= (seconds / DAY_SECONDS).trunc() * DAY_SECONDS;
    }
    let microseconds = ((interval.nanoseconds / 1_000) as f64).mul_add(factor, seconds * 1e6).round_ties_even();
    let nanoseconds = (microseconds.abs() < 9.2e15).then_some(microseconds as i64 * 1_000)?;
    Some(IntervalMonthDayNano::new(whole_months as i32, whole(whole_days + more_days)? as i32, nanoseconds))
}

fn later_shape(types: &[DataType]) -> Option<Shape> {
    let [moment, interval] = types else { return None };
    let result = match moment {
        DataType::Timestamp(_, Some(zone)) => DataType::Timestamp(TimeUnit::Microsecond, Some(zone.clone())),
        other if is_moment(other) || other.is_null() => TIMESTAMP,
        _ => return None,
    };
    let is_interval = matches!(interval, DataType::Interval(_)) || interval.is_null() || interval.is_string();
    is_interval.then_some(Shape { arguments: vec![moment_type(moment)?, INTERVAL], result })
}

fn moments(call: &Call<'_>, turned: fn(IntervalMonthDayNano) -> Option<IntervalMonthDayNano>) -> Result<ArrayRef> {
    let (moments, intervals) = (call.moments(0)?, call.values::<IntervalMonthDayNanoType>(1));
    call.values_of::<TimestampMicrosecondType>(|row| match moments[row] {
        Some(moment) if intervals.is_valid(row) => {
            let moment = turned(intervals.value(row)).and_then(|interval| later(moment, interval));
            moment.map(Some).ok_or_else(|| out_of_range("a timestamp"))
        }
        _ => Ok(None),
    })
}

fn time_shape(types: &[DataType]) -> Option<Shape> {
    let [time, interval] = types else { return None };
    let fits = matches!(time, DataType::Time64(_)) && matches!(interval, DataType::Interval(_));
    fits.then(|| Shape { arguments: vec![TIME, INTERVAL], result: TIME })
}

/// Times of day go round; days and months do not matter.
fn times(call: &Call<'_>, sign: i64) -> Result<ArrayRef> {
    let (times, intervals) = (call.values::<Time64MicrosecondType>(0), call.values::<IntervalMonthDayNanoType>(1));
    call.values_of::<Time64MicrosecondType>(|row| {
        let both = times.is_valid(row) && intervals.is_valid(row);
        Ok(both.then(|| {
            let passed = intervals.value(row).nanoseconds / 1_000 % DAY;
            (times.value(row) + sign * passed).rem_euclid(DAY)
        }))
    })
}

fn difference_shape(types: &[DataType]) -> Option<Shape> {
    let [left, right] = types else { return None };
    Some(Shape { arguments: vec![moment_type(left)?, moment_type(right)?], result: INTERVAL })
}

fn differences(call: &Call<'_>) -> Result<ArrayRef> {
    let (left, right) = (call.moments(0)?, call.moments(1)?);
    let is_infinite = |moment: i64| moment.unsigned_abs() == INFINITE as u64;
    call.values_of::<IntervalMonthDayNanoType>(|row| match (left[row], right[row]) {
        (Some(left), Some(right)) if is_infinite(left) || is_infinite(right) => {
            Err(refused("infinite timestamps have no difference", "Use isfinite(x) in a condition"))
        }
        (Some(left), Some(right)) => {
            let difference = left.checked_sub(right).ok_or_else(|| out_of_range("the difference of two timestamps"))?;
            Ok(Some(IntervalMonthDayNano::new(0, (difference / DAY) as i32, difference % DAY * 1_000)))
        }
        _ => Ok(None),
    })
}

fn both_shape(types: &[DataType]) -> Option<Shape> {
    let fits = matches!(types, [DataType::Date32, DataType::Time64(_)]);
    fits.then(|| Shape { arguments: vec![DataType::Date32, TIME], result: TIMESTAMP })
}

fn dates_with_times(call: &Call<'_>) -> Result<ArrayRef> {
    let (dates, times) = (call.moments(0)?, call.values::<Time64MicrosecondType>(1));
    call.values_of::<TimestampMicrosecondType>(|row| match dates[row] {
        Some(date) if times.is_valid(row) && date.unsigned_abs() == INFINITE as u64 => Ok(Some(date)),
        Some(date) if times.is_valid(row) => {
            let moment = in_range(i128::from(date) + i128::from(times.value(row)));
            moment.map(Some).ok_or_else(|| out_of_range("a timestamp"))
        }
        _ => Ok(None),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_context::intervals;

    #[test]
    fn what_is_left_of_months_are_days() {
        let over = |text: &str, divisor: f64| {
            let interval = intervals::parse(text).expect("an interval");
            scaled_interval(interval, 1.0 / divisor).map(intervals::text)
        };
        for (text, divisor, expect) in [
            ("1 month", 2.0, Some("15 days")),
            ("7 days", 2.0, Some("3 days 12:00:00")),
            ("1 month 1 day 1 hour", 7.0, Some("4 days 10:25:42.832457")),
            ("-1 month 1 day", 7.0, Some("-4 days -03:25:42.832457")),
            ("1 month", 0.4, Some("2 months 15 days")),
            ("3 us", 2.0, Some("00:00:00.000002")),
            ("999999 days", 3.0, Some("333333 days -00:00:00.000002")),
            ("1 day", 1e-10, None),
            ("1 day", f64::NAN, None),
        ] {
            assert_eq!(over(text, divisor).as_deref(), expect, "{text} / {divisor}");
        }
    }
}
