//! Parts of points in time and their truncation, as arithmetic on integers.
//!
//! Invariant: only for columns whose zones prove that no time lies before 1970, where cutting towards zero is rounding
//! down; all else is a [`Reason`].

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use forebay_pipeline::ir::{Arithmetic, DatePart, ValueType};

use crate::facts::Range;
use crate::reason::Reason;
use crate::scalar::Scalar;

/// Seconds of units that all have the same length.
const UNITS: [(&str, i128); 4] = [("second", 1), ("minute", 60), ("hour", 3_600), ("day", 86_400)];

/// Ticks of a second, of a timestamp without a time zone.
fn ticks(data_type: &DataType) -> Option<i128> {
    match data_type {
        DataType::Timestamp(TimeUnit::Second, None) => Some(1),
        DataType::Timestamp(TimeUnit::Millisecond, None) => Some(1_000),
        DataType::Timestamp(TimeUnit::Microsecond, None) => Some(1_000_000),
        DataType::Timestamp(TimeUnit::Nanosecond, None) => Some(1_000_000_000),
        _ => None,
    }
}

/// Ticks of `unit`, for times that are known not to be before 1970.
fn ticks_of_unit(unit: &str, time: &Scalar, data_type: &DataType) -> Result<i128, Reason> {
    let seconds = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, seconds)| *seconds);
    let is_late = time.facts().value == ValueType::I64 && time.facts().interval.low >= 0;
    let found = seconds.zip(ticks(data_type)).filter(|_| is_late);
    found.map(|(seconds, ticks)| seconds * ticks).ok_or_else(|| Reason::new(format!("{unit} of {data_type}")))
}

/// `extract(part FROM time)`.
pub fn part(part: &str, time: Scalar, data_type: &DataType) -> Result<Scalar, Reason> {
    let whole = |unit: &str, time: Scalar| {
        let ticks = ticks_of_unit(unit, &time, data_type)?;
        Scalar::arithmetic(Arithmetic::Divide, Range::I64, time, Scalar::integer(ticks))
    };
    let date = match part {
        "minute" | "hour" => {
            let cycle = if part == "hour" { 24 } else { 60 };
            return Scalar::arithmetic(Arithmetic::Remainder, Range::I64, whole(part, time)?, Scalar::integer(cycle));
        }
        "year" => DatePart::Year,
        "month" => DatePart::Month,
        "day" => DatePart::Day,
        _ => return Err(Reason::new(format!("{part} of {data_type}"))),
    };
    Scalar::date_part(date, whole("day", time)?)
}

/// `date_trunc(unit, time)`.
pub fn truncated(unit: &str, time: Scalar, data_type: &DataType) -> Result<Scalar, Reason> {
    let ticks = ticks_of_unit(unit, &time, data_type)?;
    let past = Scalar::arithmetic(Arithmetic::Remainder, Range::I64, time.clone(), Scalar::integer(ticks))?;
    Scalar::arithmetic(Arithmetic::Subtract, Range::I64, time, past)
}
