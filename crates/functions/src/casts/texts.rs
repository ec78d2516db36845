//! What is read from text, and written as text, by DuckDB's forms instead of Arrow's.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryViewBuilder, IntervalMonthDayNanoArray, ListArray, StringViewArray,
    StringViewBuilder, Time64MicrosecondArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::cast as plain_cast;
use datafusion::arrow::datatypes::{
    DataType, FieldRef, Float32Type, Float64Type, IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType,
    TimeUnit,
};
use datafusion::arrow::error::ArrowError;

use forebay_context::intervals;
use forebay_context::{clock, moments};
use forebay_syntax::types::shown_type;

use super::{cast, fields, lists, temporal};
use crate::blob_text;

/// Whether values of this type are read from text here.
pub fn is_read(target: &DataType) -> bool {
    use DataType as T;
    matches!(
        target,
        T::Time64(TimeUnit::Microsecond)
            | T::Date32
            | T::Timestamp(..)
            | T::Interval(IntervalUnit::MonthDayNano)
            | T::Binary
            | T::LargeBinary
            | T::BinaryView
            | T::List(_)
            | T::FixedSizeList(..)
            | T::Struct(_)
            | T::Map(..)
    )
}

/// Whether values of this type are written as text here.
pub fn is_written(source: &DataType) -> bool {
    use DataType as T;
    source.is_floating()
        || matches!(
            source,
            T::Date32
                | T::Time64(_)
                | T::Timestamp(..)
                | T::Interval(IntervalUnit::MonthDayNano)
                | T::Binary
                | T::LargeBinary
                | T::BinaryView
                | T::List(_)
                | T::FixedSizeList(..)
                | T::Struct(_)
                | T::Map(..)
        )
}

/// The values that texts stand for. What stands for none is NULL or an error.
pub(crate) fn read(texts: &ArrayRef, target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let views = texts.as_string_view();
    match target {
        DataType::Time64(_) => {
            Ok(Arc::new(Time64MicrosecondArray::from(each(views, target, or_null, moments::parse_time)?)) as ArrayRef)
        }
        DataType::Interval(_) => {
            Ok(Arc::new(IntervalMonthDayNanoArray::from(each(views, target, or_null, intervals::parse)?)))
        }
        DataType::Date32 | DataType::Timestamp(..) => temporal::read(views, target, or_null),
        DataType::List(element) => read_lists(views, target, element, or_null),
        DataType::Struct(fields) => fields::read_structs(views, target, fields, or_null),
        DataType::Map(entries, _) => fields::read_maps(views, target, entries, or_null),
        _ => {
            let mut blobs = BinaryViewBuilder::with_capacity(views.len());
            for blob in
                each(views, target, or_null, |text| blob_text::unescaped(text).ok().filter(|_| text.is_ascii()))?
            {
                blobs.append_option(blob);
            }
            plain_cast(&(Arc::new(blobs.finish()) as ArrayRef), target)
        }
    }
}

pub(crate) fn each<T>(
    texts: &StringViewArray,
    target: &DataType,
    or_null: bool,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Vec<Option<T>>, ArrowError> {
    let one = |text: Option<&str>| {
        let Some(text) = text else { return Ok(None) };
        match parse(text) {
            None if !or_null => {
                let shown: String = text.chars().take(40).collect();
                Err(ArrowError::CastError(format!("cannot read {shown:?} as {}", shown_type(target))))
            }
            value => Ok(value),
        }
    };
    texts.iter().map(one).collect()
}

fn read_lists(
    texts: &StringViewArray,
    target: &DataType,
    element: &FieldRef,
    or_null: bool,
) -> Result<ArrayRef, ArrowError> {
    let parsed = each(texts, target, or_null, lists::parse)?;
    let offsets = OffsetBuffer::from_lengths(parsed.iter().map(|list| list.as_ref().map_or(0, Vec::len)));
    let nulls: NullBuffer = parsed.iter().map(Option::is_some).collect();
    let elements: StringViewArray = parsed.into_iter().flatten().flatten().collect();
    let values = cast(&(Arc::new(elements) as ArrayRef), element.data_type(), or_null)?;
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, Some(nulls))?))
}

/// The values as texts.
pub(crate) fn written(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let mut out = StringViewBuilder::with_capacity(array.len());
    match array.data_type() {
        DataType::Interval(_) => {
            for interval in array.as_primitive::<IntervalMonthDayNanoType>() {
                out.append_option(interval.map(intervals::text));
            }
        }
        DataType::Date32 | DataType::Timestamp(..) => return temporal::written(array),
        DataType::Struct(_) => return fields::structs(array),
        DataType::Map(..) => return fields::maps(array),
        // A day may end with its last moment, which is none to Arrow.
        DataType::Time64(TimeUnit::Microsecond) => {
            for time in array.as_primitive::<Time64MicrosecondType>() {
                out.append_option(time.map(|time| clock::text(time.unsigned_abs())));
            }
        }
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => {
            let blobs = plain_cast(array, &DataType::BinaryView)?;
            for blob in blobs.as_binary_view() {
                out.append_option(blob.map(blob_text::shown));
            }
        }
        DataType::List(element) => {
            let may_quote = !element.data_type().is_numeric() && !element.data_type().is_nested();
            for row in array.as_list::<i32>().iter() {
                let Some(row) = row else {
                    out.append_null();
                    continue;
                };
                let texts = cast(&row, &DataType::Utf8View, false)?;
                out.append_value(lists::text(texts.as_string_view().iter(), may_quote));
            }
        }
        DataType::Float32 => {
            array.as_primitive::<Float32Type>().iter().for_each(|float| out.append_option(float.map(float_text)));
        }
        DataType::Float16 | DataType::Float64 => {
            let floats = plain_cast(array, &DataType::Float64)?;
            floats.as_primitive::<Float64Type>().iter().for_each(|float| out.append_option(float.map(float_text)));
        }
        _ => {
            let texts = plain_cast(array, &DataType::Utf8View)?;
            for text in texts.as_string_view() {
                out.append_option(text.map(clock::sql_text));
            }
        }
    }
    Ok(Arc::new(out.finish()))
}

/// The shortest text that reads back as the same float, with the exponent and the words that C has: `1e+30`, `1e-07`, `nan`.
fn float_text<F: Copy + Into<f64> + fmt::Debug>(float: F) -> String {
    if float.into().is_nan() {
        return "nan".to_owned();
    }
    // Rust's has an exponent below 0.0001 and from 1e16 on, as C's has.
    let text = format!("{float:?}");
    let Some((mantissa, exponent)) = text.split_once('e') else { return text };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{mantissa}e-{exponent:0>2}"),
        None => format!("{mantissa}e+{exponent:0>2}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exponents_have_a_sign_and_two_digits() {
        for (float, expect) in [
            (1e30, "1e+30"),
            (1e-7, "1e-07"),
            (0.00001, "1e-05"),
            (0.0001, "0.0001"),
            (1e15, "1000000000000000.0"),
            (1.5e300, "1.5e+300"),
            (f64::NAN, "nan"),
            (f64::NEG_INFINITY, "-inf"),
            (0.1, "0.1"),
        ] {
            assert_eq!(float_text(float), expect);
        }
        assert_eq!(float_text(0.00002_f32), "2e-05");
    }
}
