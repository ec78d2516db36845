//! CASE whose values are conditions computes each of them only for the rows that take it. DataFusion makes `AND` and `OR` of one with few branches,
//! which compute all of them for all rows, so that a branch may fail that no row takes (no issue known; cases.test). A CASE of a subject it
//! leaves as it is.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{BinaryExpr, Case, Expr, ExprSchemable, Operator, lit};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;

/// Gives such a CASE whose values may fail the subject TRUE.
#[derive(Debug)]
pub(crate) struct BooleanCases;

impl ExpressionRule for BooleanCases {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::COMMON_TYPE)
    }

    fn rewrite(&self, expr: Expr, _types: &ChildTypes, _schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(Transformed::no(expr))
    }

    fn rewrite_whole(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| match expr {
            Expr::Case(Case { expr: None, when_then_expr, else_expr })
                if when_then_expr.iter().map(|(_, then)| then).chain(&else_expr).any(|value| may_fail(value))
                    && when_then_expr[0].1.get_type(schema).is_ok_and(|of| of == DataType::Boolean) =>
            {
                Ok(Transformed::yes(Expr::Case(Case { expr: Some(Box::new(lit(true))), when_then_expr, else_expr })))
            }
            other => Ok(Transformed::no(other)),
        })
    }
}

/// Whether an expression may be an error for some row.
fn may_fail(expr: &Expr) -> bool {
    let fails = |part: &Expr| {
        Ok(match part {
            Expr::BinaryExpr(BinaryExpr { op, .. }) => {
                use Operator as O;
                matches!(op, O::Plus | O::Minus | O::Multiply | O::Divide | O::Modulo | O::IntegerDivide)
            }
            Expr::Cast(_) | Expr::Negative(_) | Expr::ScalarFunction(_) | Expr::ScalarSubquery(_) => true,
            _ => false,
        })
    };
    expr.exists(fails).unwrap_or(true)
}
