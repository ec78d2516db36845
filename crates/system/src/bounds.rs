//! Bounds of stored values as texts, as SQL writes the values.

use datafusion::common::ScalarValue;
use forebay_base::{LogicalType, Value};
use forebay_functions::casts;

use datafusion::arrow::datatypes::DataType;
use forebay_tables::statistics::exact_bound;

/// The text of a bound of a column; none where the bound is no value of its own, as those of intervals.
pub(crate) fn text(value: &Value, logical: &LogicalType) -> Option<String> {
    let scalar = match (value, logical) {
        (Value::Bytes(bytes), LogicalType::Varchar) => return Some(String::from_utf8_lossy(bytes).into_owned()),
        (Value::Bytes(bytes), _) => ScalarValue::Binary(Some(bytes.clone())),
        (Value::Float(value), LogicalType::Float32) => ScalarValue::Float32(Some(*value as f32)),
        (Value::Float(value), _) => ScalarValue::Float64(Some(*value)),
        (Value::Int(_), _) => exact_bound(value, logical)?,
    };
    match casts::cast_scalar(&scalar, &DataType::Utf8).ok()? {
        ScalarValue::Utf8(text) => text,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_written_as_values_of_their_type() {
        let decimal = LogicalType::Decimal { precision: 9, scale: 2 };
        assert_eq!(text(&Value::Int(-150), &decimal).as_deref(), Some("-1.50"));
        assert_eq!(text(&Value::Int(0), &LogicalType::Date).as_deref(), Some("1970-01-01"));
        assert_eq!(text(&Value::Int(1), &LogicalType::Bool).as_deref(), Some("true"));
        assert_eq!(text(&Value::Float(0.5), &LogicalType::Float64).as_deref(), Some("0.5"));
        assert_eq!(text(&Value::Bytes(b"caf\xc3".to_vec()), &LogicalType::Varchar).as_deref(), Some("caf\u{fffd}"));
        assert_eq!(text(&Value::Int(7), &LogicalType::Interval), None);
    }
}
