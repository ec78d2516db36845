//! Operands of types that operators do not take together, as DuckDB takes them: what `||` puts together are texts, a truth value
//! beside a number is one, and a text that is written beside a number is a number.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{Expr, ExprSchemable};
use datafusion::prelude::cast;
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans operators whose operands have other types than they take.
#[derive(Debug)]
pub struct Operands;

impl ExprPlanner for Operands {
    fn plan_binary_op(&self, mut expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, Modulo, Multiply, NotEq, StringConcat};
        let (Ok(left), Ok(right)) = (expr.left.get_type(schema), expr.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(expr));
        };
        match expr.op {
            StringConcat if is_shown(&left) && is_shown(&right) => {
                // NULL is told by what is beside it.
                for side in [&mut expr.left, &mut expr.right].into_iter().filter(|side| !is_null(side)) {
                    *side = cast(std::mem::take(side), DataType::Utf8View);
                }
            }
            Eq | NotEq | Lt | LtEq | Gt | GtEq if left == DataType::Boolean && right.is_integer() => {
                expr.left = cast(expr.left, right);
            }
            Eq | NotEq | Lt | LtEq | Gt | GtEq if right == DataType::Boolean && left.is_integer() => {
                expr.right = cast(expr.right, left);
            }
            Multiply | Modulo if is_written(&expr.left) && right.is_numeric() => expr.left = cast(expr.left, right),
            Multiply | Modulo if is_written(&expr.right) && left.is_numeric() => expr.right = cast(expr.right, left),
            _ => {}
        }
        Ok(PlannerResult::Original(expr))
    }

    /// A text that is written among dates, times, intervals or truth values is one of them.
    fn plan_array_literal(&self, mut exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        if !exprs.iter().any(is_written) || exprs.iter().all(|expr| is_written(expr) || is_null(expr)) {
            return Ok(PlannerResult::Original(exprs));
        }
        let others = exprs.iter().filter(|expr| !is_written(expr) && !is_null(expr));
        let types: Vec<DataType> = others.filter_map(|expr| expr.get_type(schema).ok()).collect();
        let Some(only) = types.first().filter(|first| types.iter().all(|other| other == *first)) else {
            return Ok(PlannerResult::Original(exprs));
        };
        if only.is_temporal() || *only == DataType::Boolean {
            for text in exprs.iter_mut().filter(|expr| is_written(expr)) {
                *text = cast(std::mem::take(text), only.clone());
            }
        }
        Ok(PlannerResult::Original(exprs))
    }
}

/// Whether this is NULL, written out.
fn is_null(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.is_null())
}

/// Whether values of a type are put together as the texts that show them, where neither is a text.
fn is_shown(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_temporal() || matches!(data_type, DataType::Boolean | DataType::Null)
}

/// Whether this is a text that is written out.
fn is_written(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if value.data_type().is_string() && !value.is_null())
}
