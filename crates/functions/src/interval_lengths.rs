//! How long intervals are: a month has 30 days, a day 24 hours.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Decimal128Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::Result;
use forebay_context::intervals;

/// The type of all intervals.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The lengths of intervals, in microseconds.
pub fn lengths(intervals: &ArrayRef) -> Result<ArrayRef> {
    let intervals = cast(intervals, &INTERVAL)?;
    let lengths = intervals.as_primitive::<IntervalMonthDayNanoType>().iter().map(|one| one.map(intervals::length));
    Ok(Arc::new(lengths.collect::<Decimal128Array>().with_precision_and_scale(38, 0)?))
}
