//! `floor`, `ceil`, `trunc`, `round` and `sign` of integers and decimals: of a decimal they have its digits without those behind
//! the point, of an integer `trunc` is the integer, and
//! with digits it cuts both. DataFusion's keep the digits behind the point, so that 99.9 has no `ceil`, and
//! make floats of integers. Floats, and calls with digits, are DataFusion's, but that a FLOAT is rounded to digits as a DOUBLE.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Float64Array, Int8Array, PrimitiveArray};
use datafusion::arrow::compute::kernels::arity;
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, Float64Type, i256,
};
use datafusion::common::{Result, internal_err};
use datafusion::functions::math;
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use forebay_functions::casts::cast;
use forebay_functions::function::HUGEINT;

use crate::decimal_digits::{self, Rest};

/// The functions, in the place of DataFusion's where these are called so.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    let signature = || Signature::user_defined(Volatility::Immutable);
    let around =
        |kind: Kind, inner: Arc<ScalarUDF>| Arc::new(ScalarUDF::from(Whole { kind, inner, signature: signature() }));
    vec![
        around(Kind::Floor, math::floor()),
        around(Kind::Ceil, math::ceil()),
        around(Kind::Trunc, math::trunc()),
        around(Kind::Round, math::round()),
        Arc::new(ScalarUDF::from(Sign { signature: Signature::numeric(1, Volatility::Immutable) })),
    ]
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Floor,
    Ceil,
    Trunc,
    Round,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Whole {
    kind: Kind,
    inner: Arc<ScalarUDF>,
    signature: Signature,
}

impl Whole {
    /// The type of the result, where it is calculated here.
    fn own_result(&self, types: &[DataType]) -> Option<DataType> {
        match (self.kind, types) {
            (Kind::Floor | Kind::Ceil, [only]) if *only == HUGEINT => None,
            (_, [DataType::Decimal128(precision, scale)]) if *scale > 0 => Some(DataType::Decimal128(*precision, 0)),
            (_, [DataType::Decimal256(precision, scale)]) if *scale > 0 => Some(DataType::Decimal256(*precision, 0)),
            (_, [only @ (DataType::Decimal128(_, 0) | DataType::Decimal256(_, 0))]) => Some(only.clone()),
            (Kind::Trunc, [only]) if only.is_integer() => Some(only.clone()),
            _ => None,
        }
    }

    /// Whether it cuts exact numbers to so many digits.
    fn cuts(&self, types: &[DataType]) -> bool {
        matches!((self.kind, types), (Kind::Trunc, [value, digits]) if decimal_digits::takes(value, digits))
    }
}

impl ScalarUDFImpl for Whole {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if matches!((self.kind, types), (Kind::Floor | Kind::Ceil, [only]) if *only == HUGEINT) {
            return Ok(vec![DataType::Float64]);
        }
        if self.own_result(types).is_some() {
            return Ok(types.to_vec());
        }
        if self.cuts(types) {
            return Ok(types.to_vec());
        }
        let mut types = types.to_vec();
        if let (Kind::Round, Some(first)) = (self.kind, types.first_mut()) {
            // What is rounded up may leave the type.
            match first {
                DataType::UInt8 | DataType::UInt16 | DataType::UInt32 => *first = DataType::Int64,
                DataType::UInt64 => *first = HUGEINT,
                _ => {}
            }
        }
        let fields: Vec<FieldRef> =
            types.iter().map(|data_type| Arc::new(Field::new("", data_type.clone(), true))).collect();
        let coerced = fields_with_udf(&fields, self.inner.as_ref())?;
        let mut coerced: Vec<DataType> = coerced.iter().map(|field| field.data_type().clone()).collect();
        // A literal number of digits, which is part of the result's type, stays one.
        if let (Kind::Round, [_, digits], [_, own]) = (self.kind, coerced.as_mut_slice(), types.as_slice())
            && own.is_integer()
        {
            *digits = own.clone();
        }
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let types = self.coerce_types(types)?;
        match self.own_result(&types) {
            Some(own) => Ok(own),
            None if self.cuts(&types) => Ok(types[0].clone()),
            None => self.inner.return_type(&types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> Result<FieldRef> {
        // Asked before its arguments are coerced, too.
        let types: Vec<DataType> = args.arg_fields.iter().map(|field| field.data_type().clone()).collect();
        let types = self.coerce_types(&types)?;
        let cut = || decimal_digits::result(&types[0], args.scalar_arguments.get(1).copied().flatten());
        if let Some(own) = self.own_result(&types).or_else(|| self.cuts(&types).then(cut)) {
            let is_nullable = args.arg_fields.iter().any(|field| field.is_nullable());
            return Ok(Arc::new(Field::new(self.name(), own, is_nullable)));
        }
        let coerced = |(field, data_type): (&FieldRef, DataType)| -> FieldRef {
            Arc::new(field.as_ref().clone().with_data_type(data_type))
        };
        let fields: Vec<FieldRef> = args.arg_fields.iter().zip(types).map(coerced).collect();
        self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, ..args })
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let (Kind::Round, [_, digits]) = (self.kind, args.args.as_mut_slice()) {
            *digits = digits.cast_to(&DataType::Int32, None)?;
        }
        let types: Vec<DataType> = args.args.iter().map(ColumnarValue::data_type).collect();
        match self.own_result(&types) {
            None if self.cuts(&types) => {
                let result = args.return_field.data_type().clone();
                let cut = move |both: &[ArrayRef]| decimal_digits::shortened(&both[0], &both[1], Rest::Cut, &result);
                make_scalar_function(cut, Vec::new())(&args.args)
            }
            None if types.len() == 2 && types[0].is_floating() => rounded_floats(&self.inner, args),
            None => self.inner.invoke_with_args(args),
            Some(own) if types[0] == own => Ok(args.args[0].clone()),
            Some(_) => {
                let kind = self.kind;
                make_scalar_function(move |values: &[ArrayRef]| whole(kind, &values[0]), Vec::new())(&args.args)
            }
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }
}

/// Floats, rounded to so many digits as DOUBLE. One that has no room for more digits, in which it would be infinite, is rounded.
fn rounded_floats(round: &ScalarUDF, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let own = args.args[0].data_type();
    let values = args.args[0].cast_to(&DataType::Float64, None)?;
    args.args[0] = values.clone();
    args.arg_fields[0] = Arc::new(args.arg_fields[0].as_ref().clone().with_data_type(DataType::Float64));
    args.return_field = Arc::new(args.return_field.as_ref().clone().with_data_type(DataType::Float64));
    let rounded = round.invoke_with_args(args)?;
    let known = |both: &[ArrayRef]| -> Result<ArrayRef> {
        let (values, rounded) = (both[0].as_primitive::<Float64Type>(), both[1].as_primitive::<Float64Type>());
        let known = |value: f64, rounded: f64| if rounded.is_finite() { rounded } else { value };
        let known: Float64Array = arity::binary(values, rounded, known)?;
        Ok(Arc::new(known))
    };
    make_scalar_function(known, Vec::new())(&[values, rounded])?.cast_to(&own, None)
}

/// Decimals without their digits behind the point.
fn whole(kind: Kind, values: &ArrayRef) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Decimal128(precision, scale) => {
            let unit = 10_i128.pow(u32::from(scale.unsigned_abs()));
            each::<Decimal128Type>(values, *precision, |value| {
                let (quotient, rest) = (value / unit, value % unit);
                quotient
                    + i128::from(step(kind, rest.signum() as i8, rest.unsigned_abs() >= (unit as u128).div_ceil(2)))
            })
        }
        DataType::Decimal256(precision, scale) => {
            let unit = i256::from_i128(10).wrapping_pow(u32::from(scale.unsigned_abs()));
            let half = unit.wrapping_div(i256::from_i128(2));
            each::<Decimal256Type>(values, *precision, |value| {
                let (quotient, rest) = (value.wrapping_div(unit), value.wrapping_rem(unit));
                let sign = (rest > i256::ZERO) as i8 - (rest < i256::ZERO) as i8;
                let is_half = rest.wrapping_abs() >= half;
                quotient.wrapping_add(i256::from_i128(i128::from(step(kind, sign, is_half))))
            })
        }
        other => internal_err!("decimals cannot be {other}"),
    }
}

/// What a quotient that was cut gets, by the sign of its rest and whether that is half of the unit at least.
fn step(kind: Kind, sign: i8, is_half: bool) -> i8 {
    match kind {
        Kind::Floor if sign < 0 => -1,
        Kind::Ceil if sign > 0 => 1,
        Kind::Round if is_half => sign,
        _ => 0,
    }
}

fn each<T: ArrowPrimitiveType>(
    values: &ArrayRef,
    precision: u8,
    one: impl Fn(T::Native) -> T::Native,
) -> Result<ArrayRef> {
    let result: PrimitiveArray<T> = values.as_primitive::<T>().unary(one);
    let data_type = match values.data_type() {
        DataType::Decimal256(..) => DataType::Decimal256(precision, 0),
        _ => DataType::Decimal128(precision, 0),
    };
    Ok(Arc::new(result.with_data_type(data_type)))
}

/// -1, 0 or 1, as the number is less than zero, zero (or none), or more.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sign {
    signature: Signature,
}

impl ScalarUDFImpl for Sign {
    fn name(&self) -> &str {
        "sign"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let signs = |values: &[ArrayRef]| -> Result<ArrayRef> {
            let doubles = cast(&values[0], &DataType::Float64, false)?;
            let sign = |value: f64| (value > 0.0) as i8 - (value < 0.0) as i8;
            let signs = doubles.as_primitive::<Float64Type>().iter().map(|value| value.map(sign));
            Ok(Arc::new(signs.collect::<Int8Array>()))
        };
        make_scalar_function(signs, Vec::new())(&args.args)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Decimal128Array;

    #[test]
    fn digits_behind_the_point_are_gone() {
        for (kind, expect) in [
            (Kind::Floor, [9, -10, -1, 0, 1]),
            (Kind::Ceil, [10, -9, 0, 1, 1]),
            (Kind::Trunc, [9, -9, 0, 0, 1]),
            (Kind::Round, [10, -10, 0, 1, 1]),
        ] {
            let values = Decimal128Array::from(vec![99, -99, -4, 5, 10]).with_precision_and_scale(2, 1);
            let values: ArrayRef = Arc::new(values.expect("small"));
            let expect = Decimal128Array::from(expect.to_vec()).with_precision_and_scale(2, 0).expect("small");
            let got = whole(kind, &values).expect("decimals");
            assert_eq!(got.as_primitive::<Decimal128Type>(), &expect, "{kind:?}");
        }
    }
}
