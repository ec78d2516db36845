//! `fill`: a value in place of NULL, on the line through its neighbours.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, new_null_array};
use datafusion::arrow::compute::{cast as plain_cast, interleave};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, plan_err};
use forebay_functions::casts::cast;

use crate::frame_rows::comparable;
use crate::frame_text::{FrameSpec, Split};

/// Whether values of a type lie on a line.
pub fn is_on_line(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal() || data_type.is_null()
}

/// `fill`: NULLs become what the line through the next values before and behind them, by the order, has there; outside of them,
/// that through the two that are next.
pub fn filled(spec: &FrameSpec, arguments: &Split<'_, ArrayRef>, place: &[usize]) -> Result<ArrayRef> {
    let keys = if spec.orders.is_empty() { arguments.keys } else { arguments.orders };
    let ([values], [key]) = (arguments.own, keys) else { return plan_err!("fill takes one ORDER BY expression") };
    if !is_on_line(key.data_type()) {
        return plan_err!("fill takes ORDER BY of a number or a point in time, not of {}", key.data_type());
    }
    let (numbers, keys) = (on_line(values)?, on_line(key)?);
    let mut in_order: Vec<usize> = (0..values.len()).collect();
    in_order.sort_unstable_by_key(|row| place[*row]);
    let known: Vec<usize> =
        in_order.iter().copied().filter(|row| values.is_valid(*row) && keys.is_valid(*row)).collect();
    let step = match values.data_type() {
        DataType::Decimal128(_, scale) => 10_f64.powi(-i32::from(*scale)),
        _ => 1.0,
    };
    let is_stepped = !values.data_type().is_floating();
    let mut found: Vec<Option<f64>> = vec![None; values.len()];
    let mut behind = 0;
    for row in in_order {
        if values.is_valid(row) {
            behind += usize::from(keys.is_valid(row));
            continue;
        }
        if keys.is_null(row) || known.is_empty() {
            continue;
        }
        let first = behind.saturating_sub(1).min(known.len().saturating_sub(2));
        let (low, high) = (known[first], known[(first + 1).min(known.len() - 1)]);
        let is_between = behind > 0 && behind < known.len();
        let (low, high) = match is_between || numbers.value(low) <= numbers.value(high) {
            true => (low, high),
            false => (high, low),
        };
        let width = keys.value(high) - keys.value(low);
        let share = if width == 0.0 { 0.0 } else { (keys.value(row) - keys.value(low)) / width };
        let way = (numbers.value(high) - numbers.value(low)) * share;
        found[row] = Some(match (is_stepped, is_between) {
            (false, _) => numbers.value(low) * (1.0 - share) + numbers.value(high) * share,
            // Between its neighbours a value is cut, outside of them it is rounded.
            (true, true) => ((numbers.value(low) + way) / step).trunc() * step,
            (true, false) => numbers.value(low) + (way / step).round_ties_even() * step,
        });
    }
    let found: Float64Array = found.into_iter().collect();
    let found = from_line(found, values.data_type())?;
    let places: Vec<(usize, usize)> = (0..values.len()).map(|row| (usize::from(values.is_null(row)), row)).collect();
    Ok(interleave(&[values.as_ref(), found.as_ref()], &places)?)
}

fn on_line(values: &ArrayRef) -> Result<Float64Array> {
    let values = comparable(values)?;
    let whole: ArrayRef = match values.data_type() {
        DataType::Date32 => plain_cast(&values, &DataType::Int32)?,
        DataType::Timestamp(..) | DataType::Time64(_) | DataType::Date64 => plain_cast(&values, &DataType::Int64)?,
        _ => values,
    };
    let floats = plain_cast(&whole, &DataType::Float64)?;
    Ok(floats.as_primitive::<Float64Type>().clone())
}

/// Numbers of a line as values of a type.
fn from_line(numbers: Float64Array, data_type: &DataType) -> Result<ArrayRef> {
    let whole = || Arc::new(numbers.clone()) as ArrayRef;
    Ok(match data_type {
        DataType::Date32 => plain_cast(&plain_cast(&whole(), &DataType::Int32)?, data_type)?,
        DataType::Timestamp(..) | DataType::Time64(_) | DataType::Date64 => {
            plain_cast(&plain_cast(&whole(), &DataType::Int64)?, data_type)?
        }
        other if other.is_integer() => plain_cast(&whole(), other)?,
        other if other.is_temporal() => new_null_array(other, numbers.len()),
        other => {
            let numbers: ArrayRef = Arc::new(numbers);
            cast(&numbers, other, false)?
        }
    })
}
