//! Functions of floats. A FLOAT is a DOUBLE to them, and what has no result is NaN, in canonical form.

use std::cmp::Ordering;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::Result;
use forebay_base::{canonical_f32, canonical_f64};

use crate::function::{Call, Definition, Shape};

macro_rules! of_one_float {
    ($($name:literal: $compute:expr;)*) => {
        &[$(Definition { names: &[$name], shape: double, compute: |call| each(call, $compute) }),*]
    };
}

pub(crate) const UNARY: &[Definition] = of_one_float! {
    "sqrt": f64::sqrt;
    "cbrt": f64::cbrt;
    "exp": f64::exp;
    "ln": f64::ln;
    "log2": f64::log2;
    "log10": f64::log10;
    "sin": f64::sin;
    "cos": f64::cos;
    "tan": f64::tan;
    "cot": |x| 1.0 / x.tan();
    "asin": f64::asin;
    "acos": f64::acos;
    "atan": f64::atan;
    "sinh": f64::sinh;
    "cosh": f64::cosh;
    "tanh": f64::tanh;
    "asinh": f64::asinh;
    "acosh": f64::acosh;
    "atanh": f64::atanh;
    "degrees": f64::to_degrees;
    "radians": f64::to_radians;
    "gamma": libm::tgamma;
    "lgamma": libm::lgamma;
    "even": even;
};

pub(crate) const BINARY: &[Definition] = &[
    Definition { names: &["power", "pow"], shape: doubles, compute: |call| pairs(call, f64::powf) },
    Definition { names: &["log"], shape: logarithm, compute: logarithms },
    Definition { names: &["nextafter"], shape: neighbours, compute: next_after },
];

fn is_number(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null() || data_type.is_string()
}

fn double(types: &[DataType]) -> Option<Shape> {
    (types.len() == 1).then(|| of_doubles(types)).flatten()
}

fn doubles(types: &[DataType]) -> Option<Shape> {
    (types.len() == 2).then(|| of_doubles(types)).flatten()
}

fn of_doubles(types: &[DataType]) -> Option<Shape> {
    let arguments = vec![DataType::Float64; types.len()];
    types.iter().all(is_number).then_some(Shape { arguments, result: DataType::Float64 })
}

/// Of one number to base 10, or of two, the base first.
fn logarithm(types: &[DataType]) -> Option<Shape> {
    (1..=2).contains(&types.len()).then(|| of_doubles(types)).flatten()
}

fn logarithms(call: &Call<'_>) -> Result<ArrayRef> {
    match call.arguments.len() {
        1 => each(call, f64::log10),
        _ => pairs(call, |base, value| value.log10() / base.log10()),
    }
}

/// FLOATs have others for neighbours than DOUBLEs.
fn neighbours(types: &[DataType]) -> Option<Shape> {
    let is_single = types.contains(&DataType::Float32) && !types.contains(&DataType::Float64);
    let single = Shape { arguments: vec![DataType::Float32; 2], result: DataType::Float32 };
    doubles(types).map(|double| if is_single { single } else { double })
}

fn each(call: &Call<'_>, compute: impl Fn(f64) -> f64) -> Result<ArrayRef> {
    let values = call.floats(0);
    call.values_of::<Float64Type>(|row| Ok(values.is_valid(row).then(|| canonical_f64(compute(values.value(row))))))
}

fn pairs(call: &Call<'_>, compute: impl Fn(f64, f64) -> f64) -> Result<ArrayRef> {
    let (left, right) = (call.floats(0), call.floats(1));
    call.values_of::<Float64Type>(|row| {
        let both = left.is_valid(row) && right.is_valid(row);
        Ok(both.then(|| canonical_f64(compute(left.value(row), right.value(row)))))
    })
}

/// The next even number away from zero.
fn even(value: f64) -> f64 {
    ((value.abs() / 2.0).ceil() * 2.0).copysign(value)
}

/// The float next to one on the way to another, for either type of floats.
macro_rules! next_to {
    ($float:ident) => {
        |from: $float, to: $float| match from.partial_cmp(&to) {
            Some(Ordering::Less) => from.next_up(),
            Some(Ordering::Greater) => from.next_down(),
            Some(Ordering::Equal) => to,
            None => $float::NAN,
        }
    };
}

fn next_after(call: &Call<'_>) -> Result<ArrayRef> {
    if *call.result != DataType::Float32 {
        return pairs(call, next_to!(f64));
    }
    let (left, right) = (call.values::<Float32Type>(0), call.values::<Float32Type>(1));
    let next = next_to!(f32);
    call.values_of::<Float32Type>(|row| {
        let both = left.is_valid(row) && right.is_valid(row);
        Ok(both.then(|| canonical_f32(next(left.value(row), right.value(row)))))
    })
}
