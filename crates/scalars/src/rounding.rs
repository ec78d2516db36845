//! `round_even`, which rounds halves to the even digit, `signbit` and `factorial`.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Field, FieldRef, Float64Type, Int64Type};
use datafusion::common::Result;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};
use forebay_functions::function::{Call, Definition, Function, HUGEINT, Shape, is_integer, refused};

use crate::decimal_digits;

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["signbit"], shape: sign_shape, compute: signs },
    Definition { names: &["factorial"], shape: factorial_shape, compute: factorials },
];

static ROUND_EVEN: Definition =
    Definition { names: &["round_even", "roundbankers"], shape: rounded_shape, compute: rounded };

/// `round_even`.
pub(crate) fn round_even() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::from(RoundEven { of_others: Function::new(&ROUND_EVEN, false) }))
}

/// Of decimals exactly, with the digits of the result in its type; of other numbers as the function below.
#[derive(Debug, PartialEq, Eq, Hash)]
struct RoundEven {
    of_others: Function,
}

fn is_decimal(types: &[DataType]) -> bool {
    matches!(types, [value @ DataType::Decimal128(..), digits] if decimal_digits::takes(value, digits))
}

impl ScalarUDFImpl for RoundEven {
    fn name(&self) -> &str {
        self.of_others.name()
    }

    fn aliases(&self) -> &[String] {
        self.of_others.aliases()
    }

    fn signature(&self) -> &Signature {
        self.of_others.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        // A literal number of digits stays one.
        if is_decimal(types) { Ok(types.to_vec()) } else { self.of_others.coerce_types(types) }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        if is_decimal(types) { Ok(types[0].clone()) } else { self.of_others.return_type(types) }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let result = match is_decimal(&types) {
            true => decimal_digits::result(&types[0], args.scalar_arguments.get(1).copied().flatten()),
            false => self.of_others.return_type(&types)?,
        };
        Ok(Arc::new(Field::new(self.name(), result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        if !is_decimal(&types) {
            return self.of_others.invoke_with_args(args);
        }
        let result = args.return_field.data_type().clone();
        let rounded = move |both: &[ArrayRef]| {
            decimal_digits::shortened(&both[0], &both[1], decimal_digits::Rest::ToEven, &result)
        };
        make_scalar_function(rounded, Vec::new())(&args.args)
    }
}

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

fn factorial_shape(types: &[DataType]) -> Option<Shape> {
    let [value] = types else { return None };
    is_integer(value).then(|| Shape { arguments: vec![DataType::Int64], result: HUGEINT })
}

fn factorials(call: &Call<'_>) -> Result<ArrayRef> {
    let values = call.integers(0);
    let hint = "A HUGEINT has room for the factorials of 0 to 33";
    let one = |value: i64| match value {
        ..0 => Err(refused("the factorial of a negative number is undefined", hint)),
        // No product of two to 33 is beyond 38 digits.
        0..=33 => Ok((2..=i128::from(value)).product()),
        _ => Err(refused(format!("the factorial of {value} is out of range"), hint)),
    };
    call.values_of::<Decimal128Type>(|row| values.is_valid(row).then(|| one(values.value(row))).transpose())
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
