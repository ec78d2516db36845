//! Deep arithmetic as one function. A long `a + b + c` is a tree as deep as it is long, and a planner that finds names and
//! types of every node anew takes the cube of its length. [`Flat`] is the same arithmetic as a list of steps over a list
//! of operands: a tree of one level.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::division::{self, IntegerDivide};
use super::{CheckedBinary, CheckedNegate, calculate, negated_value};

/// Calls within calls that stay as they are: the optimizer and compiled pipelines know them.
const MOST_NESTED: usize = 16;

/// `call`, a function of checked arithmetic, or the same as one flat call where it nests deeply.
pub(super) fn flatten(call: Expr) -> Expr {
    if nesting(&call) <= MOST_NESTED {
        return call;
    }
    let (mut steps, mut operands) = (Vec::new(), Vec::new());
    collect(call, &mut steps, &mut operands);
    ScalarUDF::from(Flat { steps, signature: Signature::user_defined(Volatility::Immutable) }).call(operands)
}

/// Calls of checked arithmetic above one another.
fn nesting(expr: &Expr) -> usize {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_nested(func) => {
            1 + args.iter().map(nesting).max().unwrap_or(0)
        }
        _ => 0,
    }
}

fn is_nested(function: &ScalarUDF) -> bool {
    operator(function).is_some() || function.inner().is::<CheckedNegate>()
}

/// The operator that a function of two arguments stands for.
fn operator(function: &ScalarUDF) -> Option<Operator> {
    match function.inner().downcast_ref::<CheckedBinary>() {
        Some(binary) => Some(binary.op),
        None => function.inner().is::<IntegerDivide>().then_some(Operator::IntegerDivide),
    }
}

fn collect(expr: Expr, steps: &mut Vec<Step>, operands: &mut Vec<Expr>) {
    match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if is_nested(&func) => {
            args.into_iter().for_each(|operand| collect(operand, steps, operands));
            steps.push(operator(&func).map_or(Step::Negate, Step::Binary));
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.inner().is::<Flat>() => {
            steps.extend(func.inner().downcast_ref::<Flat>().into_iter().flat_map(|flat| flat.steps.iter().copied()));
            operands.extend(args);
        }
        other => {
            steps.push(Step::Operand);
            operands.push(other);
        }
    }
}

/// One step of a calculation on a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Step {
    /// Puts the next operand on the stack.
    Operand,
    /// Replaces the two on top.
    Binary(Operator),
    /// Replaces the one on top.
    Negate,
}

/// Arithmetic over any number of operands; fails where a result leaves its type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Flat {
    /// A Polish notation: operators behind their operands.
    steps: Vec<Step>,
    signature: Signature,
}

impl Flat {
    /// Takes the steps with what `binary` and `negate` make of the operands; what is left is the result.
    fn follow<T>(
        &self,
        operands: impl IntoIterator<Item = T>,
        mut binary: impl FnMut(T, Operator, T) -> Result<T>,
        mut negate: impl FnMut(T) -> Result<T>,
    ) -> Result<T> {
        let mut operands = operands.into_iter();
        let mut stack = Vec::new();
        for step in &self.steps {
            let right = match step {
                Step::Operand => operands.next(),
                Step::Binary(_) | Step::Negate => stack.pop(),
            };
            let Some(right) = right else { return internal_err!("{} lacks an operand", self.name()) };
            let result = match step {
                Step::Operand => right,
                Step::Negate => negate(right)?,
                Step::Binary(op) => match stack.pop() {
                    Some(left) => binary(left, *op, right)?,
                    None => return internal_err!("{} lacks an operand", self.name()),
                },
            };
            stack.push(result);
        }
        match (stack.pop(), stack.pop()) {
            (Some(result), None) => Ok(result),
            _ => internal_err!("{} has operands without a step", self.name()),
        }
    }

    fn text(&self, operands: impl Iterator<Item = String>) -> Result<String> {
        let binary = |mut left: String, op: Operator, right: String| {
            match op {
                Operator::IntegerDivide => left.push_str(&format!(" // {right}")),
                op => left.push_str(&format!(" {op} {right}")),
            }
            Ok(left)
        };
        self.follow(operands, binary, |inner| Ok(format!("(- {inner})")))
    }
}

impl ScalarUDFImpl for Flat {
    fn name(&self) -> &str {
        "checked_arithmetic"
    }

    /// That of the nested calls.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.text(args.iter().map(|operand| operand.schema_name().to_string()))
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        self.text(args.iter().map(ToString::to_string))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        let mut coerced = types.to_vec();
        // Of operands the index; results are cast when they are there.
        let operands = types.iter().cloned().enumerate().map(|(index, data_type)| (Some(index), data_type));
        let binary = |left: (Option<usize>, DataType), op: Operator, right: (Option<usize>, DataType)| {
            let (left_type, right_type, result) = binary_types(&left.1, op, &right.1)?;
            for (operand, data_type) in [(left.0, left_type), (right.0, right_type)] {
                if let Some(operand) = operand {
                    coerced[operand] = data_type;
                }
            }
            Ok((None, result))
        };
        self.follow(operands, binary, |(_, data_type)| Ok((None, data_type)))?;
        Ok(coerced)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        let binary = |left: DataType, op: Operator, right: DataType| Ok(binary_types(&left, op, &right)?.2);
        self.follow(types.iter().cloned(), binary, Ok)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let binary = |left: ColumnarValue, op: Operator, right: ColumnarValue| {
            let (left_type, right_type, _) = binary_types(&left.data_type(), op, &right.data_type())?;
            calculate(&cast(left, &left_type)?, op, &cast(right, &right_type)?)
        };
        self.follow(args.args, binary, |inner| negated_value(&inner))
    }
}

/// The types that the operands are cast to, and that of the result.
fn binary_types(left: &DataType, op: Operator, right: &DataType) -> Result<(DataType, DataType, DataType)> {
    // What nearly all steps are, and what takes DataFusion's coercion a calculation with empty arrays.
    if left == right && (left.is_integer() || left.is_floating()) {
        return Ok((left.clone(), right.clone(), left.clone()));
    }
    if op == Operator::IntegerDivide {
        let [left, right] = division::operand_types(left, right)?;
        return Ok((left.clone(), right, left));
    }
    let coercer = BinaryTypeCoercer::new(left, &op, right);
    let (left, right) = coercer.get_input_types()?;
    Ok((left, right, coercer.get_result_type()?))
}

fn cast(value: ColumnarValue, data_type: &DataType) -> Result<ColumnarValue> {
    if value.data_type() == *data_type { Ok(value) } else { value.cast_to(data_type, None) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{Int32Array, Int64Array, RecordBatch};
    use datafusion::arrow::datatypes::{Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::ExprSchemable;
    use datafusion::prelude::{SessionContext, col, lit};

    use super::super::CheckedArithmetic;
    use super::*;
    use crate::expressions::ExpressionRule as _;
    use crate::typed::transform_up;

    fn random_tree(random: &mut impl FnMut(u64) -> u64, has_products: bool) -> Expr {
        let mut expr = col("i");
        for _ in 0..40 {
            let operand = match random(4) {
                0 => col("b"),
                1 => -col("i"),
                2 => lit(i64::try_from(random(9)).expect("a small number")),
                _ => col("i") + lit(1),
            };
            expr = match random(6) {
                0 => operand - expr,
                1 if has_products => expr * operand,
                2 => -expr,
                3 => expr - operand,
                _ => expr + operand,
            };
        }
        expr
    }

    /// Random trees give what their nested calls give, under the same name and type.
    #[test]
    fn flat_calls_are_their_nested_twins() {
        let fields = vec![Field::new("i", DataType::Int32, true), Field::new("b", DataType::Int64, true)];
        let small = Int32Array::from(vec![Some(3), None, Some(-7), Some(1000)]);
        let large = Int64Array::from(vec![Some(-2), Some(5), Some(1 << 55), None]);
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(small), Arc::new(large)]);
        let batch = batch.expect("columns of one length");
        let schema = DFSchema::try_from(schema.as_ref().clone()).expect("columns of one table");
        let (rule, context) = (CheckedArithmetic::default(), SessionContext::new());
        let run = |expr: Expr| {
            let physical = context.create_physical_expr(expr, &schema)?;
            physical.evaluate(&batch)?.into_array(batch.num_rows())
        };
        let mut state = 1_u64;
        let mut random = move |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for round in 0..60 {
            let expr = random_tree(&mut random, round % 2 == 1);
            let nested = transform_up(expr.clone(), &schema, &|expr, types| Ok(rule.checked(expr, types)));
            let nested = nested.expect("nothing to fail").data;
            let flat = transform_up(expr, &schema, &|expr, types| rule.rewrite(expr, types, &schema));
            let flat = flat.expect("nothing to fail").data;
            assert!(nesting(&nested) > 2 * MOST_NESTED && nesting(&flat) <= MOST_NESTED);
            assert_eq!(flat.schema_name().to_string(), nested.schema_name().to_string());
            let type_of = |expr: &Expr| expr.get_type(&schema).expect("typed");
            assert_eq!(type_of(&flat), type_of(&nested));
            match (run(flat), run(nested)) {
                (Ok(flat), Ok(nested)) => assert_eq!(&flat, &nested),
                (Err(flat), Err(nested)) => assert_eq!(flat.to_string(), nested.to_string()),
                (flat, nested) => panic!("flat {flat:?}, nested {nested:?}"),
            }
        }
    }
}
