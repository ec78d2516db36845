//! How long intervals are: a month has 30 days, a day 24 hours.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, FixedSizeListArray, LargeListArray, ListArray, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNanoType, IntervalUnit};
use datafusion::common::Result;
use forebay_context::intervals;

/// The type of all intervals.
pub const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The lengths of intervals, in microseconds; of lists and structs, the same with the lengths of the intervals inside.
pub fn lengths(values: &ArrayRef) -> Result<ArrayRef> {
    use DataType as T;
    let own = values.data_type();
    if !has_intervals(own) {
        return Ok(Arc::clone(values));
    }
    Ok(match own {
        T::List(element) => {
            let (_, offsets, inner, nulls) = values.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(part(element), offsets, lengths(&inner)?, nulls)?)
        }
        T::LargeList(element) => {
            let (_, offsets, inner, nulls) = values.as_list::<i64>().clone().into_parts();
            Arc::new(LargeListArray::try_new(part(element), offsets, lengths(&inner)?, nulls)?)
        }
        T::FixedSizeList(element, _) => {
            let (_, size, inner, nulls) = values.as_fixed_size_list().clone().into_parts();
            Arc::new(FixedSizeListArray::try_new(part(element), size, lengths(&inner)?, nulls)?)
        }
        T::Struct(fields) => {
            let (_, columns, nulls) = values.as_struct().clone().into_parts();
            let columns = columns.iter().map(lengths).collect::<Result<Vec<_>>>()?;
            let fields = fields.iter().map(part).collect();
            Arc::new(StructArray::try_new_with_length(fields, columns, nulls, values.len())?)
        }
        _ => {
            let intervals = cast(values, &INTERVAL)?;
            let each = intervals.as_primitive::<IntervalMonthDayNanoType>().iter();
            let lengths: Decimal128Array = each.map(|one| one.map(intervals::length)).collect();
            Arc::new(lengths.with_precision_and_scale(38, 0)?)
        }
    })
}

/// Whether values of a type are intervals, or lists or structs with some inside.
pub fn has_intervals(data_type: &DataType) -> bool {
    use DataType as T;
    match data_type {
        T::Interval(_) => true,
        T::List(element) | T::LargeList(element) | T::FixedSizeList(element, _) => has_intervals(element.data_type()),
        T::Struct(fields) => fields.iter().any(|field| has_intervals(field.data_type())),
        _ => false,
    }
}

/// The type of the [`lengths`] of values of a type.
pub fn length_type(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Interval(_) => T::Decimal128(38, 0),
        T::List(element) => T::List(part(element)),
        T::LargeList(element) => T::LargeList(part(element)),
        T::FixedSizeList(element, size) => T::FixedSizeList(part(element), *size),
        T::Struct(fields) => T::Struct(fields.iter().map(part).collect()),
        other => other.clone(),
    }
}

fn part(field: &FieldRef) -> FieldRef {
    Arc::new(field.as_ref().clone().with_data_type(length_type(field.data_type())))
}
