//! `//`, and what a session says of divisions: what one by zero is, and whether `/` of integers is an integer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::{arity, numeric};
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Float32Type, Float64Type};
use datafusion::arrow::error::ArrowError;
use datafusion::common::{Result, internal_err};
use datafusion::functions::utils::make_scalar_function;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

use super::huge::HUGEINT;
use forebay_context::told_settings::{Setting, setting};
use forebay_functions::floats::canonical;
use forebay_functions::strict;

/// What divisions of a session mean.
#[derive(Debug)]
pub struct Division {
    of_integers: AtomicBool,
    fails_at_zero: AtomicBool,
    gives_infinity: AtomicBool,
}

impl Default for Division {
    fn default() -> Self {
        Self {
            of_integers: AtomicBool::new(false),
            fails_at_zero: AtomicBool::new(true),
            gives_infinity: AtomicBool::new(true),
        }
    }
}

impl Division {
    /// `1 / 2` is 0, as in PostgreSQL, and not 0.5.
    pub fn is_of_integers(&self) -> bool {
        self.of_integers.load(Ordering::Relaxed)
    }

    /// A division by zero that has no result is an error, and not NULL.
    pub fn fails_at_zero(&self) -> bool {
        self.fails_at_zero.load(Ordering::Relaxed)
    }

    /// A float divided by zero is infinite, or NaN.
    pub fn gives_infinity(&self) -> bool {
        self.gives_infinity.load(Ordering::Relaxed)
    }

    /// What it is, as settings.
    pub fn told(&self) -> Vec<Setting> {
        let of = |name: &str| {
            let value = self.switch(name)?.load(Ordering::Relaxed);
            Some(setting(name, value.to_string(), "BOOLEAN", "What a quotient is"))
        };
        ["integer_division", "error_on_division_by_zero", "ieee_floating_point_ops"]
            .into_iter()
            .filter_map(of)
            .collect()
    }

    /// The switch of a setting of this name.
    pub fn switch(&self, setting: &str) -> Option<&AtomicBool> {
        match setting {
            "integer_division" => Some(&self.of_integers),
            "error_on_division_by_zero" => Some(&self.fails_at_zero),
            "ieee_floating_point_ops" => Some(&self.gives_infinity),
            _ => None,
        }
    }
}

/// A division that fails at zero. The quotient of integers is cut to an integer, that of floats is what it is.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct IntegerDivide {
    signature: Signature,
}

impl Default for IntegerDivide {
    fn default() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for IntegerDivide {
    fn name(&self) -> &str {
        "integer_divide"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} // {}", left.schema_name(), right.schema_name())),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{left} // {right}")),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return internal_err!("{} takes two arguments", self.name()) };
        operand_types(left, right).map(Vec::from)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match self.coerce_types(types)?.into_iter().next() {
            Some(left) => Ok(left),
            None => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        strict::simplified(self, args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [left, right] => quotient(left, right),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }
}

/// The types that operands of these types are cast to; the quotient has that of the first.
pub(super) fn operand_types(left: &DataType, right: &DataType) -> Result<[DataType; 2]> {
    let both = |data_type: DataType| Ok([data_type.clone(), data_type]);
    if left.is_floating() || right.is_floating() {
        let is_single = |data_type: &DataType| *data_type == DataType::Float32;
        return both(if is_single(left) && is_single(right) { DataType::Float32 } else { DataType::Float64 });
    }
    if left.is_decimal() || right.is_decimal() {
        return both(HUGEINT);
    }
    let (left, right) = BinaryTypeCoercer::new(left, &Operator::Divide, right).get_input_types()?;
    // UBIGINT beside signed integers.
    if left.is_decimal() { both(HUGEINT) } else { Ok([left, right]) }
}

/// `left // right` of one type.
pub(super) fn quotient(left: &ColumnarValue, right: &ColumnarValue) -> Result<ColumnarValue> {
    let divide = |both: &[ArrayRef]| Ok(divided(&both[0], &both[1])?);
    make_scalar_function(divide, Vec::new())(&[left.clone(), right.clone()])
}

/// The quotients of two arrays of one type and length.
fn divided(left: &ArrayRef, right: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    match left.data_type() {
        DataType::Float64 => {
            let divide = |a: f64, b: f64| if b == 0.0 { Err(ArrowError::DivideByZero) } else { Ok(a / b) };
            let (left, right) = (left.as_primitive::<Float64Type>(), right.as_primitive::<Float64Type>());
            let quotients: ArrayRef = Arc::new(arity::try_binary::<_, _, _, Float64Type>(left, right, divide)?);
            Ok(canonical(&quotients))
        }
        DataType::Float32 => {
            let divide = |a: f32, b: f32| if b == 0.0 { Err(ArrowError::DivideByZero) } else { Ok(a / b) };
            let (left, right) = (left.as_primitive::<Float32Type>(), right.as_primitive::<Float32Type>());
            let quotients: ArrayRef = Arc::new(arity::try_binary::<_, _, _, Float32Type>(left, right, divide)?);
            Ok(canonical(&quotients))
        }
        DataType::Decimal128(precision, scale) => {
            let divide = |a: i128, b: i128| a.checked_div(b).ok_or(ArrowError::DivideByZero);
            let (left, right) = (left.as_primitive::<Decimal128Type>(), right.as_primitive::<Decimal128Type>());
            let quotients = arity::try_binary::<_, _, _, Decimal128Type>(left, right, divide)?;
            Ok(Arc::new(quotients.with_precision_and_scale(*precision, *scale)?))
        }
        _ => numeric::div(left, right),
    }
}
