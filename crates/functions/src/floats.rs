//! Floats in the form in which tables store them: one NaN and one zero.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::ColumnarValue;
use forebay_base::{canonical_f32, canonical_f64};

/// The values in canonical form, if they are floats.
pub fn canonical(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Float32 => Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(canonical_f32)),
        DataType::Float64 => Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(canonical_f64)),
        _ => Arc::clone(array),
    }
}

/// As [`canonical`], for a value of an expression.
pub fn canonical_value(value: ColumnarValue) -> Result<ColumnarValue> {
    Ok(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(canonical(&array)),
        ColumnarValue::Scalar(scalar) if scalar.data_type().is_floating() => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&canonical(&scalar.to_array()?), 0)?)
        }
        other => other,
    })
}
