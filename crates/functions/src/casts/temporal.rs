//! Dates and timestamps as text, and read from it, over their whole range; infinite ones in other types.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Date32Array, PrimitiveArray, StringViewArray, StringViewBuilder,
    TimestampMicrosecondArray, TimestampNanosecondArray,
};
use datafusion::arrow::compute::{CastOptions, cast_with_options};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, Date32Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::FormatOptions;
use forebay_base::calendar::{self, INFINITE_DAY};
use forebay_context::clock;
use forebay_context::moments::{self, INFINITE};

use super::{cast, texts};

/// Dates, or timestamps of any unit.
pub(crate) fn read(views: &StringViewArray, target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    match target {
        DataType::Date32 => {
            let day = |text: &str| {
                let (day, rest) = calendar::parse(text)?;
                match rest.trim_ascii().is_empty() {
                    true => Some(day),
                    false => moments::parse(text).filter(|_| !rest.ends_with([' ', 'T'])).map(|moment| moment.day),
                }
            };
            Ok(Arc::new(Date32Array::from(texts::each(views, target, or_null, day)?)))
        }
        DataType::Timestamp(unit, zone) => {
            let is_instant = zone.is_some();
            if is_instant && views.iter().flatten().any(has_zone) {
                return read_zoned(views, target, or_null);
            }
            if *unit == TimeUnit::Nanosecond {
                let value = |text: &str| {
                    let moment = moments::parse(text)?;
                    match moment.nanoseconds(is_instant) {
                        Some(value) => i64::try_from(value).ok().filter(|value| value.unsigned_abs() < INFINITE as u64),
                        None => moment.microseconds(is_instant),
                    }
                };
                let values = TimestampNanosecondArray::from(texts::each(views, target, or_null, value)?);
                return Ok(Arc::new(values.with_timezone_opt(zone.clone())));
            }
            let value = |text: &str| moments::parse(text)?.microseconds(is_instant);
            let values = TimestampMicrosecondArray::from(texts::each(views, target, or_null, value)?);
            cast(&(Arc::new(values.with_timezone_opt(zone.clone())) as ArrayRef), target, or_null)
        }
        other => Err(ArrowError::CastError(format!("{other} is no date or timestamp"))),
    }
}

/// Whether a text names a time zone other than UTC.
fn has_zone(text: &str) -> bool {
    moments::parse(text).is_some_and(|moment| moment.zone.is_some_and(|zone| !is_utc(zone)))
}

fn is_utc(zone: &str) -> bool {
    zone.eq_ignore_ascii_case("utc") || zone.eq_ignore_ascii_case("z")
}

/// Timestamps of which some name their time zone, as Arrow knows them.
fn read_zoned(views: &StringViewArray, target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let plain = |text: &str| -> Option<String> {
        let moment = moments::parse(text)?;
        let zone = moment.zone.filter(|zone| !is_utc(zone));
        let local = moments::text(moment.microseconds(zone.is_none())?, 1_000_000);
        Some(format!("{local} {}", zone.unwrap_or("+00:00")))
    };
    let texts: StringViewArray =
        views.iter().map(|text| text.map(|text| plain(text).unwrap_or(text.to_owned()))).collect();
    let options = CastOptions { safe: or_null, format_options: FormatOptions::default() };
    cast_with_options(&(Arc::new(texts) as ArrayRef), target, &options)
}

/// The values as texts.
pub(crate) fn written(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match array.data_type() {
        DataType::Date32 => {
            let mut out = StringViewBuilder::with_capacity(array.len());
            for day in array.as_primitive::<Date32Type>() {
                out.append_option(day.map(|day| calendar::text(i64::from(day))));
            }
            Ok(Arc::new(out.finish()))
        }
        DataType::Timestamp(unit, zone) if zone.as_deref().is_none_or(is_utc) => {
            let suffix = if zone.is_some() { "+00" } else { "" };
            Ok(match unit {
                TimeUnit::Second => shown::<TimestampSecondType>(array, 1, suffix),
                TimeUnit::Millisecond => shown::<TimestampMillisecondType>(array, 1_000, suffix),
                TimeUnit::Microsecond => shown::<TimestampMicrosecondType>(array, 1_000_000, suffix),
                TimeUnit::Nanosecond => shown::<TimestampNanosecondType>(array, 1_000_000_000, suffix),
            })
        }
        _ => {
            let mut out = StringViewBuilder::with_capacity(array.len());
            let texts = datafusion::arrow::compute::cast(array, &DataType::Utf8View)?;
            for text in texts.as_string_view() {
                out.append_option(text.map(clock::sql_text));
            }
            Ok(Arc::new(out.finish()))
        }
    }
}

fn shown<T: ArrowTimestampType>(array: &ArrayRef, per_second: i64, suffix: &str) -> ArrayRef {
    let mut out = StringViewBuilder::with_capacity(array.len());
    for value in array.as_primitive::<T>() {
        out.append_option(value.map(|value| {
            let suffix = if value.abs() == INFINITE { "" } else { suffix };
            moments::text(value, per_second) + suffix
        }));
    }
    Arc::new(out.finish())
}

/// Dates as timestamps, timestamps as dates and in other units, where some are infinite, which Arrow takes for any others;
/// `None` where none is, or the types are others.
pub(crate) fn infinite(array: &ArrayRef, target: &DataType, or_null: bool) -> Option<Result<ArrayRef, ArrowError>> {
    use DataType as T;
    if !matches!(target, T::Date32 | T::Timestamp(..)) || array.data_type() == target {
        return None;
    }
    let signs: Vec<i64> = match array.data_type() {
        T::Date32 => {
            array.as_primitive::<Date32Type>().iter().map(|day| sign(day.map(i64::from), INFINITE_DAY.into())).collect()
        }
        T::Timestamp(TimeUnit::Second, _) => signs::<TimestampSecondType>(array),
        T::Timestamp(TimeUnit::Millisecond, _) => signs::<TimestampMillisecondType>(array),
        T::Timestamp(TimeUnit::Microsecond, _) => signs::<TimestampMicrosecondType>(array),
        T::Timestamp(TimeUnit::Nanosecond, _) => signs::<TimestampNanosecondType>(array),
        _ => return None,
    };
    signs.iter().any(|sign| *sign != 0).then(|| spliced(array, &signs, target, or_null))
}

fn signs<T: ArrowTimestampType>(array: &ArrayRef) -> Vec<i64> {
    array.as_primitive::<T>().iter().map(|value| sign(value, INFINITE)).collect()
}

fn sign(value: Option<i64>, infinite: i64) -> i64 {
    value.filter(|value| value.unsigned_abs() == infinite.unsigned_abs()).map_or(0, i64::signum)
}

/// What is finite, cast, and what is infinite as such.
fn spliced(array: &ArrayRef, signs: &[i64], target: &DataType, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let finite: datafusion::arrow::array::BooleanArray = signs.iter().map(|sign| Some(*sign != 0)).collect();
    let cast = cast(&datafusion::arrow::compute::nullif(array, &finite)?, target, or_null)?;
    Ok(match target {
        DataType::Date32 => {
            let days = cast.as_primitive::<Date32Type>().iter().zip(signs);
            Arc::new(
                days.map(|(day, sign)| if *sign == 0 { day } else { Some(INFINITE_DAY * *sign as i32) })
                    .collect::<Date32Array>(),
            )
        }
        DataType::Timestamp(TimeUnit::Second, _) => with_infinite::<TimestampSecondType>(&cast, signs),
        DataType::Timestamp(TimeUnit::Millisecond, _) => with_infinite::<TimestampMillisecondType>(&cast, signs),
        DataType::Timestamp(TimeUnit::Microsecond, _) => with_infinite::<TimestampMicrosecondType>(&cast, signs),
        _ => with_infinite::<TimestampNanosecondType>(&cast, signs),
    })
}

fn with_infinite<T: ArrowTimestampType>(array: &ArrayRef, signs: &[i64]) -> ArrayRef {
    let values = array.as_primitive::<T>().iter().zip(signs);
    let values: PrimitiveArray<T> =
        values.map(|(value, sign)| if *sign == 0 { value } else { Some(INFINITE * sign) }).collect();
    Arc::new(values.with_data_type(array.data_type().clone()))
}
