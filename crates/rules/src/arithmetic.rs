//! Overflow is an error: integer `+`, `-`, `*` and unary minus become checked functions, and `sum` of 64-bit integers
//! becomes a sum of decimals, which cannot overflow. DataFusion's own operators wrap around. Floats are calculated by the
//! same functions, which give their results in canonical form (see [`floats`](crate::floats)). What an operator means is
//! decided before, in [`operators`](crate::operators).

pub mod bits;
pub mod division;
mod flat;
pub mod huge;
pub mod shifts;

use std::sync::Arc;

use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;
use forebay_functions::floats::canonical_value;
use forebay_functions::strict;

/// Digits of any 64-bit integer, signed or not.
const INT64_DIGITS: u8 = 20;

/// Digits of a decimal up to which a sum in 16 bytes cannot overflow.
const SUMMED_DIGITS: u8 = 28;

/// Replaces wrapping integer arithmetic. Must run before type coercion.
#[derive(Debug)]
pub struct CheckedArithmetic {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    divide: Arc<ScalarUDF>,
    modulo: Arc<ScalarUDF>,
    negate: Arc<ScalarUDF>,
}

impl Default for CheckedArithmetic {
    fn default() -> Self {
        let binary = |op| {
            Arc::new(ScalarUDF::from(CheckedBinary { op, signature: Signature::user_defined(Volatility::Immutable) }))
        };
        Self {
            add: binary(Operator::Plus),
            subtract: binary(Operator::Minus),
            multiply: binary(Operator::Multiply),
            divide: binary(Operator::Divide),
            modulo: binary(Operator::Modulo),
            negate: Arc::new(ScalarUDF::from(CheckedNegate { signature: Signature::any(1, Volatility::Immutable) })),
        }
    }
}

impl ExpressionRule for CheckedArithmetic {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::ARITHMETIC)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, _schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::AggregateFunction(mut sum) if sum.func.name() == "sum" => {
                let widened = widen(&mut sum.params.args, types);
                Transformed::new_transformed(Expr::AggregateFunction(sum), widened)
            }
            Expr::WindowFunction(mut sum) if sum.fun.name() == "sum" => {
                let widened = widen(&mut sum.params.args, types);
                Transformed::new_transformed(Expr::WindowFunction(sum), widened)
            }
            other => self.checked(other, types).update_data(flat::flatten),
        })
    }
}

impl CheckedArithmetic {
    /// `expr` as a call, if it is arithmetic.
    fn checked(&self, expr: Expr, types: &ChildTypes) -> Transformed<Expr> {
        let is_integer = |data_type: &Option<DataType>| data_type.as_ref().is_some_and(DataType::is_integer);
        let is_float = |data_type: &Option<DataType>| data_type.as_ref().is_some_and(DataType::is_floating);
        match expr {
            Expr::BinaryExpr(binary) if types.iter().all(is_integer) || gives_float(binary.op, types) => {
                let function = match binary.op {
                    Operator::Plus => &self.add,
                    Operator::Minus => &self.subtract,
                    Operator::Multiply => &self.multiply,
                    // Of integers they cannot overflow, but for one quotient, which DataFusion refuses itself.
                    Operator::Divide if types.iter().any(is_float) => &self.divide,
                    Operator::Modulo if types.iter().any(is_float) => &self.modulo,
                    _ => return Transformed::no(Expr::BinaryExpr(binary)),
                };
                Transformed::yes(function.call(vec![*binary.left, *binary.right]))
            }
            Expr::Negative(inner)
                if types.iter().all(|own| is_integer(own) || is_float(own)) && !matches!(*inner, Expr::Literal(..)) =>
            {
                Transformed::yes(self.negate.call(vec![*inner]))
            }
            other => Transformed::no(other),
        }
    }
}

/// Whether `op` of operands of these types, one of them a float, is a float.
fn gives_float(op: Operator, types: &ChildTypes) -> bool {
    let [Some(left), Some(right)] = types else { return false };
    (left.is_floating() || right.is_floating())
        && BinaryTypeCoercer::new(left, &op, right).get_result_type().is_ok_and(|result| result.is_floating())
}

/// Casts the argument of a sum to a type in which no sum of it overflows; false where its own type will do.
fn widen(arguments: &mut [Expr], types: &ChildTypes) -> bool {
    let ([argument], Some(Some(own))) = (arguments, types.first()) else { return false };
    let wide = match own {
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(INT64_DIGITS, 0),
        // DataFusion's sum of a decimal has ten digits more, but at most as many as its storage has.
        DataType::Decimal128(precision, scale) if *precision > SUMMED_DIGITS => {
            DataType::Decimal256(*precision, *scale)
        }
        _ => return false,
    };
    *argument = Expr::Cast(Cast::new(Box::new(std::mem::take(argument)), wide));
    true
}

/// An operator that fails where an integer leaves its type, and gives floats in canonical form.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedBinary {
    op: Operator,
    signature: Signature,
}

impl ScalarUDFImpl for CheckedBinary {
    fn name(&self) -> &str {
        match self.op {
            Operator::Plus => "checked_add",
            Operator::Minus => "checked_subtract",
            Operator::Divide => "checked_divide",
            Operator::Modulo => "checked_modulo",
            _ => "checked_multiply",
        }
    }

    /// As the operator would be called, so that `SELECT a + 1` keeps its column name.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{} {} {}", left.schema_name(), self.op, right.schema_name())),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [left, right] => Ok(format!("{left} {} {right}", self.op)),
            _ => internal_err!("{} takes two arguments", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let [left, right] = types else { return internal_err!("{} takes two arguments", self.name()) };
        let (left, right) = BinaryTypeCoercer::new(left, &self.op, right).get_input_types()?;
        Ok(vec![left, right])
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let [left, right] = types else { return internal_err!("{} takes two arguments", self.name()) };
        BinaryTypeCoercer::new(left, &self.op, right).get_result_type()
    }

    fn simplify(&self, args: Vec<Expr>, context: &SimplifyContext) -> Result<ExprSimplifyResult> {
        strict::simplified(self, args, context)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} takes two arguments", self.name());
        };
        calculate(left, self.op, right)
    }
}

/// `left op right` of one type, where `op` is an operator of [`CheckedArithmetic`].
fn calculate(left: &ColumnarValue, op: Operator, right: &ColumnarValue) -> Result<ColumnarValue> {
    let kernel = match op {
        Operator::Plus => numeric::add,
        Operator::Minus => numeric::sub,
        Operator::Divide => numeric::div,
        Operator::Modulo => numeric::rem,
        Operator::IntegerDivide => return division::quotient(left, right),
        _ => numeric::mul,
    };
    canonical_value(datafusion::physical_expr_common::datum::apply(left, right, kernel)?)
}

/// Unary minus that fails on the least value of an integer type, and makes neither -0 nor a negative NaN of a float.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CheckedNegate {
    signature: Signature,
}

impl ScalarUDFImpl for CheckedNegate {
    fn name(&self) -> &str {
        "checked_negate"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [inner] => Ok(format!("(- {})", inner.schema_name())),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [only] => Ok(only.clone()),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [only] => negated_value(only),
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }
}

fn negated_value(value: &ColumnarValue) -> Result<ColumnarValue> {
    canonical_value(match value {
        ColumnarValue::Array(array) => ColumnarValue::Array(numeric::neg(array)?),
        ColumnarValue::Scalar(scalar) => {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&numeric::neg(&scalar.to_array()?)?, 0)?)
        }
    })
}
