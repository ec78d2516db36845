//! Casts to BOOLEAN, which conditions are put in (`forebay_grammar::conditions`): those of what is BOOLEAN already are left out, so
//! that scans and pipelines see the conditions themselves, and those of DECIMAL, which Arrow does not know, compare with 0.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ExprSchemable, lit};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;

/// Leaves out casts of BOOLEAN to BOOLEAN, and makes those of DECIMAL comparisons.
#[derive(Debug)]
pub(crate) struct Conditions;

impl ExpressionRule for Conditions {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::CAST)
    }

    fn rewrite(&self, expr: Expr, _types: &ChildTypes, _schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(Transformed::no(expr))
    }

    fn rewrite_whole(&self, expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
        expr.transform_up(|expr| match expr {
            Expr::Cast(cast) if cast.field.data_type() == &DataType::Boolean => match cast.expr.get_type(schema) {
                Ok(DataType::Boolean) => Ok(Transformed::yes(*cast.expr)),
                Ok(data_type) if data_type.is_decimal() => Ok(Transformed::yes(cast.expr.not_eq(lit(0_i64)))),
                _ => Ok(Transformed::no(Expr::Cast(cast))),
            },
            other => Ok(Transformed::no(other)),
        })
    }
}
