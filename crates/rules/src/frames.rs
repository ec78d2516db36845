//! Windows whose order DataFusion has no ranges for, and distances that are not of the order's type: `ORDER BY a_time`, `RANGE 3
//! PRECEDING` over dates, `RANGE 0.5 PRECEDING` over integers. And the last argument of `lag` and `lead`, which is cast to the
//! type of the first as any other value.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::{WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::{Expr, ExprSchemable, WindowFrame, WindowFrameBound, WindowFrameUnits};
use datafusion::prelude::cast;
use forebay_context::intervals;
use forebay_functions::interval_lengths::INTERVAL;

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;

/// Most digits of a decimal.
const MOST_DIGITS: u8 = 38;

/// Makes frames such that DataFusion knows them. Must run before intervals are replaced by their lengths.
#[derive(Debug)]
pub struct Frames;

impl ExpressionRule for Frames {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::WINDOW)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let Expr::WindowFunction(mut function) = expr else { return Ok(Transformed::no(expr)) };
        let is_cast = cast_default(&mut function, types);
        let params = &mut function.params;
        let is_fitted = match params.window_frame.units {
            WindowFrameUnits::Range if !params.order_by.is_empty() => fit(params, schema)?,
            _ => false,
        };
        Ok(Transformed::new_transformed(Expr::WindowFunction(function), is_cast || is_fitted))
    }
}

/// Casts the value of `lag` and `lead` where there is no row; whether there was something to do.
fn cast_default(function: &mut WindowFunction, types: &ChildTypes) -> bool {
    if !["lag", "lead"].contains(&function.fun.name()) {
        return false;
    }
    let (Some(Some(value)), Some(Some(default)), [_, _, last]) =
        (types.first(), types.get(2), &mut function.params.args[..])
    else {
        return false;
    };
    if value.is_null() || default.is_null() || value == default {
        return false;
    }
    *last = cast(std::mem::take(last), value.clone());
    true
}

/// Makes the frame one that the order has; whether there was something to do. Errors: distances that the order does not have.
fn fit(params: &mut WindowFunctionParams, schema: &DFSchema) -> Result<bool> {
    let frame = &params.window_frame;
    let texts = [&frame.start_bound, &frame.end_bound].map(distance);
    let keys = params.order_by.iter().map(|sort| sort.expr.get_type(schema)).collect::<Result<Vec<_>>>()?;
    if texts.iter().all(Option::is_none) {
        if keys.iter().all(has_ranges) {
            return Ok(false);
        }
        // Peers are the same rows, however they are told.
        let groups = (WindowFrameUnits::Groups, frame.start_bound.clone(), frame.end_bound.clone());
        params.window_frame = WindowFrame::new_bounds(groups.0, groups.1, groups.2);
        return Ok(true);
    }
    let numbers = || texts.iter().flatten().filter(|text| is_number(text));
    let scale = numbers().map(|text| text.split_once('.').map_or(0, |(_, digits)| digits.len())).max().unwrap_or(0);
    let scale = u8::try_from(scale).unwrap_or(MOST_DIGITS);
    let Some(key) = keys.first() else { return Ok(false) };
    let target = match key {
        DataType::Date32 if scale > 0 => return plan_err!("RANGE over a DATE takes whole days, or an INTERVAL"),
        DataType::Date32 => {
            return change(&mut params.window_frame, &|text| Ok(is_number(text).then(|| format!("{text} days"))));
        }
        DataType::Timestamp(..) if numbers().next().is_some() => {
            return plan_err!("RANGE over a TIMESTAMP takes an INTERVAL, such as INTERVAL '1' DAY");
        }
        DataType::Time64(_) => DataType::Int64,
        DataType::Decimal128(digits, own) if i64::from(scale) > i64::from(*own) => {
            let more = i64::from(scale) - i64::from(*own);
            DataType::Decimal128(MOST_DIGITS.min(digits.saturating_add(more as u8)), scale as i8)
        }
        own if own.is_integer() && scale > 0 => DataType::Decimal128(MOST_DIGITS.min(20 + scale), scale as i8),
        own if *own == INTERVAL => return change(&mut params.window_frame, &|text| length(text).map(Some)),
        own if own.is_numeric() || matches!(own, DataType::Timestamp(..)) => return Ok(false),
        other => {
            return plan_err!("RANGE with a distance takes ORDER BY of a number or a point in time, not of {other}");
        }
    };
    if target == DataType::Int64 {
        change(&mut params.window_frame, &|text| length(text).map(Some))?;
    }
    if let Some(first) = params.order_by.first_mut() {
        let order = std::mem::take(&mut first.expr);
        // Times of day are no numbers, to which they are cast.
        first.expr = match (target == DataType::Int64).then(|| forebay_functions::function("epoch_us")).flatten() {
            Some(function) => function.call(vec![order]),
            None => cast(order, target),
        };
    }
    Ok(true)
}

/// Whether DataFusion finds ranges of values of this type.
fn has_ranges(key: &DataType) -> bool {
    use DataType as T;
    key.is_numeric()
        || key.is_string()
        || key.is_null()
        || *key == INTERVAL
        || matches!(key, T::Boolean | T::Date32 | T::Date64 | T::Timestamp(..))
}

/// The text of a bound that is neither the row itself nor an end of the partition.
fn distance(bound: &WindowFrameBound) -> Option<String> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::Utf8(text)) | WindowFrameBound::Following(ScalarValue::Utf8(text)) => {
            text.clone()
        }
        _ => None,
    }
}

/// Whether a bound was written as a number; intervals have units.
fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// The length of an interval in microseconds, as digits.
fn length(text: &str) -> Result<String> {
    match ScalarValue::try_from_string(text.to_owned(), &INTERVAL) {
        Ok(ScalarValue::IntervalMonthDayNano(Some(interval))) if !is_number(text) => {
            Ok(intervals::length(interval).to_string())
        }
        _ => plan_err!("RANGE over a TIME or an INTERVAL takes an INTERVAL, such as INTERVAL '1' HOUR, not {text}"),
    }
}

/// Writes distances anew where `other` has another text for them.
fn change(frame: &mut WindowFrame, other: &dyn Fn(&str) -> Result<Option<String>>) -> Result<bool> {
    let changed = |bound: &WindowFrameBound| -> Result<Option<WindowFrameBound>> {
        let Some(text) = distance(bound) else { return Ok(None) };
        let Some(text) = other(&text)? else { return Ok(None) };
        let text = ScalarValue::Utf8(Some(text));
        Ok(match bound {
            WindowFrameBound::Preceding(_) => Some(WindowFrameBound::Preceding(text)),
            WindowFrameBound::Following(_) => Some(WindowFrameBound::Following(text)),
            WindowFrameBound::CurrentRow => None,
        })
    };
    let (start, end) = (changed(&frame.start_bound)?, changed(&frame.end_bound)?);
    if start.is_none() && end.is_none() {
        return Ok(false);
    }
    let start = start.unwrap_or_else(|| frame.start_bound.clone());
    let end = end.unwrap_or_else(|| frame.end_bound.clone());
    *frame = WindowFrame::new_bounds(frame.units, start, end);
    Ok(true)
}
