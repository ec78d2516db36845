//! `round_even`, which rounds halves to the even digit, and `signbit`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, Int64Type};
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["round_even", "roundbankers"], shape: rounded_shape, compute: rounded },
    Definition { names: &["signbit"], shape: sign_shape, compute: signs },
];

fn rounded_shape(types: &[DataType]) -> Option<Shape> {
    let [value, digits] = types else { return None };
    let is_count = digits.is_integer() || digits.is_null();
    let own = match value {
        DataType::Float32 => DataType::Float32,
        // A number of 64 bits may be rounded to one of more.
        whole if whole.is_integer() && *whole != DataType::UInt64 => whole.clone(),
        number if number.is_numeric() || number.is_null() => DataType::Float64,
        _ => return None,
    };
    is_count.then(|| Shape { arguments: vec![own.clone(), DataType::Int64], result: own })
}

fn rounded(call: &Call<'_>) -> Result<ArrayRef> {
    let (values, digits) = (&call.arguments[0], call.integers(1));
    let all: ArrayRef = match values.data_type().is_integer() {
        true => {
            let values = cast(values, &DataType::Int64)?;
            let values = values.as_primitive::<Int64Type>();
            Arc::new(
                values.iter().zip(digits).map(|(value, digits)| Some(whole(value?, digits?))).collect::<Int64Array>(),
            )
        }
        false => {
            let values = cast(values, &DataType::Float64)?;
            let values = values.as_primitive::<Float64Type>();
            Arc::new(
                values.iter().zip(digits).map(|(value, digits)| Some(float(value?, digits?))).collect::<Float64Array>(),
            )
        }
    };
    Ok(cast(&all, call.result)?)
}

/// A float to so many digits behind the point.
fn float(value: f64, digits: i64) -> f64 {
    let scale = 10_f64.powi(i32::try_from(digits).unwrap_or(if digits < 0 { i32::MIN } else { i32::MAX }));
    let rounded = (value * scale).round_ties_even() / scale;
    if rounded.is_finite() { rounded } else { value }
}

/// A whole number to so many digits behind the point, which are none unless they are fewer than 0.
fn whole(value: i64, digits: i64) -> i64 {
    let Some(step) = u32::try_from(-digits).ok().filter(|_| digits < 0).map(|digits| 10_i128.checked_pow(digits))
    else {
        return value;
    };
    let Some(step) = step else { return 0 };
    let (value, below) = (i128::from(value), i128::from(value).div_euclid(step));
    let rest = value - below * step;
    let up = 2 * rest > step || (2 * rest == step && below % 2 != 0);
    i64::try_from((below + i128::from(up)) * step).unwrap_or(0)
}

fn sign_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    let is_number = value.is_numeric() || value.is_null();
    is_number.then(|| Shape { arguments: vec![DataType::Float64], result: DataType::Boolean })
}

fn signs(call: &Call<'_>) -> Result<ArrayRef> {
    let values = call.floats(0);
    call.flags_of(|row| Ok(values.is_valid(row).then(|| values.value(row).is_sign_negative())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_the_even_digit() {
        let floats = [(2.5, 0), (3.5, 0), (-2.5, 0), (2.345, 2), (25.0, -1), (1e300, 20), (f64::NAN, 0)];
        let rounded: Vec<String> = floats.iter().map(|(value, digits)| float(*value, *digits).to_string()).collect();
        assert_eq!(rounded[..5], ["2", "4", "-2", "2.35", "20"]);
        assert_eq!((float(1e300, 20), rounded[6].as_str()), (1e300, "NaN"));
        assert_eq!([whole(25, -1), whole(35, -1), whole(-25, -1), whole(26, -1), whole(7, 3)], [20, 40, -20, 30, 7]);
        assert_eq!([whole(i64::MAX, -30), whole(4, -1)], [0, 0]);
    }
}
