//! Lists that one value is looked for in are kept apart: DataFusion makes one list of several, of which nothing is left where NULL is
//! neither in them nor not (no issue known; membership.test). And casts to BOOLEAN, which conditions are put in
//! (`forebay_grammar::conditions`): those of what is BOOLEAN already are left out, so that scans and pipelines see the conditions
//! themselves, and those of DECIMAL, which Arrow does not know, compare with 0.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};
use forebay_functions::null_if;

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;

/// Leaves out casts of BOOLEAN to BOOLEAN, makes those of DECIMAL comparisons, and keeps lists apart.
#[derive(Debug)]
pub(crate) struct Conditions;

impl ExpressionRule for Conditions {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::CAST | Kinds::IN_LIST)
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
        })?
        .transform_data(apart)
    }
}

/// An expression in whose chains of AND, and in those of OR, no value is looked for in two lists, but for those that make one:
/// `x IN (…) OR x IN (…)`, and the same with NOT and AND.
fn apart(expr: Expr) -> Result<Transformed<Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
            part_of_chain(expr, op, &mut Vec::new())
        }
        other => other.map_children(apart),
    }
}

/// As [`apart`], of a part of a chain of `chain`; `seen` are the values that are looked for in a list in parts before it.
fn part_of_chain(expr: Expr, chain: Operator, seen: &mut Vec<Expr>) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(list) if seen.contains(&list.expr) => {
            let arguments = vec![Expr::InList(list), lit(ScalarValue::Boolean(None))];
            Ok(Transformed::yes(null_if::function().call(arguments)))
        }
        Expr::InList(list) => {
            seen.push(list.expr.as_ref().clone());
            Expr::InList(list).map_children(apart)
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if op == chain => {
            if let (Expr::InList(one), Expr::InList(other)) = (left.as_ref(), right.as_ref())
                && one.expr == other.expr
                && one.negated == other.negated
                && one.negated == (op == Operator::And)
                && !seen.contains(&one.expr)
            {
                seen.push(one.expr.as_ref().clone());
                return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr { left, op, right })));
            }
            let (left, right) = (part_of_chain(*left, chain, seen)?, part_of_chain(*right, chain, seen)?);
            let is_changed = left.transformed || right.transformed;
            let (left, right) = (Box::new(left.data), Box::new(right.data));
            let both = Expr::BinaryExpr(BinaryExpr { left, op, right });
            Ok(if is_changed { Transformed::yes(both) } else { Transformed::no(both) })
        }
        other => apart(other),
    }
}
