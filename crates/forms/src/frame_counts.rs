//! Frames of windows.

use datafusion::sql::sqlparser::ast::{
    Expr, Interval, Value, ValueWithSpan, WindowFrameBound, WindowFrameUnits, WindowSpec, WindowType,
};

/// Texts as the numbers of rows or groups that a frame has on either side: the parser takes them for intervals.
pub fn count_by_texts(window: &mut WindowType) {
    let WindowType::WindowSpec(WindowSpec { window_frame: Some(frame), .. }) = window else { return };
    for bound in std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound) {
        if let WindowFrameBound::Preceding(Some(count)) | WindowFrameBound::Following(Some(count)) = bound
            && let Expr::Interval(Interval { value, leading_field: None, .. }) = count.as_mut()
            && frame.units != WindowFrameUnits::Range
        {
            let number = match value.as_ref() {
                Expr::Value(ValueWithSpan {
                    value: Value::SingleQuotedString(text) | Value::Number(text, _), ..
                }) => text.parse::<u32>().is_ok().then(|| Expr::value(Value::Number(text.clone(), false))),
                _ => None,
            };
            **count = number.unwrap_or_else(|| (**value).clone());
        }
    }
}
