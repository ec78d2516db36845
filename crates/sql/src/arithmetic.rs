//! Overflow is an error: integer `+`, `-`, `*` and unary minus become checked functions, and `sum` of 64-bit integers
//! becomes a sum of decimals, which cannot overflow (DESIGN 4.11, 4.14). DataFusion's own operators wrap around.
//! `//` is the division that truncates.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::compute::kernels::numeric;
use datafusion::arrow::datatypes::{DataType, Float32Type, Float64Type};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue, internal_err};
use datafusion::logical_expr::expr::Cast;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::sql::sqlparser::ast::BinaryOperator;
use forebay_base::{canonical_f32, canonical_f64};

use crate::coercion::rewrite_expressions;

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
            negate: Arc::new(ScalarUDF::from(CheckedNegate { signature: Signature::any(1, Volatility::Immutable) })),
        }
    }
}

impl AnalyzerRule for CheckedArithmetic {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        rewrite_expressions(plan, &|expr, schema| self.rewrite(expr, schema))
    }
}

impl CheckedArithmetic {
    fn rewrite(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        let is_integer = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_integer());
        let is_float = |expr: &Expr| expr.get_type(schema).is_ok_and(|data_type| data_type.is_floating());
        match expr {
            Expr::BinaryExpr(binary) => {
                let function = match binary.op {
                    Operator::Plus => &self.add,
                    Operator::Minus => &self.subtract,
                    Operator::Multiply => &self.multiply,
                    _ => return Ok(Transformed::no(Expr::BinaryExpr(binary))),
                };
                if !is_integer(&binary.left) || !is_integer(&binary.right) {
                    return Ok(Transformed::no(Expr::BinaryExpr(binary)));
                }
                Ok(Transformed::yes(function.call(vec![*binary.left, *binary.right])))
            }
            Expr::Negative(inner)
                if (is_integer(&inner) || is_float(&inner)) && !matches!(*inner, Expr::Literal(..)) =>
            {
                Ok(Transformed::yes(self.negate.call(vec![*inner])))
            }
            Expr::AggregateFunction(mut sum) if sum.func.name() == "sum" => {
                let widened = widen(&mut sum.params.args, schema);
                Ok(Transformed::new_transformed(Expr::AggregateFunction(sum), widened))
            }
            Expr::WindowFunction(mut sum) if sum.fun.name() == "sum" => {
                let widened = widen(&mut sum.params.args, schema);
                Ok(Transformed::new_transformed(Expr::WindowFunction(sum), widened))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

/// Plans `a // b`.
#[derive(Debug)]
pub struct IntegerDivision;

impl ExprPlanner for IntegerDivision {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        if expr.op != BinaryOperator::DuckIntegerDivide {
            return Ok(PlannerResult::Original(expr));
        }
        let (left, right) = (Box::new(expr.left), Box::new(expr.right));
        Ok(PlannerResult::Planned(Expr::BinaryExpr(BinaryExpr::new(left, Operator::Divide, right))))
    }
}

/// Casts the argument of a sum to a type in which no sum of it overflows; false where its own type will do.
fn widen(arguments: &mut [Expr], schema: &DFSchema) -> bool {
    let [argument] = arguments else { return false };
    let wide = match argument.get_type(schema) {
        Ok(DataType::Int64 | DataType::UInt64) => DataType::Decimal128(INT64_DIGITS, 0),
        // DataFusion's sum of a decimal has ten digits more, but at most as many as its storage has.
        Ok(DataType::Decimal128(precision, scale)) if precision > SUMMED_DIGITS => {
            DataType::Decimal256(precision, scale)
        }
        _ => return false,
    };
    *argument = Expr::Cast(Cast::new(Box::new(std::mem::take(argument)), wide));
    true
}

/// `+`, `-` or `*` that fails where the result leaves its type.
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

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return internal_err!("{} takes two arguments", self.name());
        };
        let kernel = match self.op {
            Operator::Plus => numeric::add,
            Operator::Minus => numeric::sub,
            _ => numeric::mul,
        };
        datafusion::physical_expr_common::datum::apply(left, right, kernel)
    }
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
            [ColumnarValue::Array(array)] => Ok(ColumnarValue::Array(negated(array)?)),
            [ColumnarValue::Scalar(scalar)] => {
                let negated = negated(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&negated, 0)?))
            }
            _ => internal_err!("{} takes one argument", self.name()),
        }
    }
}

fn negated(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(match array.data_type() {
        DataType::Float32 => {
            Arc::new(array.as_primitive::<Float32Type>().unary::<_, Float32Type>(|value| canonical_f32(-value)))
        }
        DataType::Float64 => {
            Arc::new(array.as_primitive::<Float64Type>().unary::<_, Float64Type>(|value| canonical_f64(-value)))
        }
        _ => numeric::neg(array)?,
    })
}
