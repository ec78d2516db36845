//! Comparisons: two values of one ENUM are in the order of their places, all others are texts.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::{InList, InSubquery};
use datafusion::logical_expr::{Between, BinaryExpr, Case, Expr, ExprSchemable, LogicalPlanBuilder, Operator};

use super::typing::{Kind, all_become, common, prevailing};
use crate::enumeration::Enumeration;
use crate::functions::{key, to_own};
use crate::marks::{has_keys_inside, has_same_marks, keyed};
use crate::own::Own;

/// Values up to which those before or behind one are listed: tests of equality are made on codes.
const LISTED: usize = 256;

/// A comparison whose operands are of these kinds.
pub(super) fn rewritten(expr: Expr, kinds: &[Kind]) -> Expr {
    let own = kinds.iter().find_map(|kind| match kind {
        Kind::Own(own) if own.is_compared_as_such() => Some(own.clone()),
        _ => None,
    });
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => match (common(kinds), own) {
            (Some(Own::Enum(of)), _) if is_order(op) => ordered(*left, op, *right, &of),
            (_, Some(own)) if is_comparison(op) => {
                let is_by_key = own.has_keys() && is_order(op);
                let both = all_become(vec![*left, *right], kinds, &own).into_iter().map(bare);
                let mut both = both.map(|value| if is_by_key { key(value, &own) } else { value });
                let mut next = || Box::new(both.next().unwrap_or_default());
                Expr::BinaryExpr(BinaryExpr { left: next(), op, right: next() })
            }
            _ => Expr::BinaryExpr(BinaryExpr::new(Box::new(bare(*left)), op, Box::new(bare(*right)))),
        },
        Expr::Between(Between { expr, negated, low, high }) if own.is_some() => {
            let own = own.unwrap_or(Own::Uuid);
            let all = all_become(vec![*expr, *low, *high], kinds, &own).into_iter().map(bare);
            let mut all = all.map(|value| if own.has_keys() { key(value, &own) } else { value });
            let mut next = || Box::new(all.next().unwrap_or_default());
            Expr::Between(Between { expr: next(), negated, low: next(), high: next() })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let one = |value: Box<Expr>| match common(kinds) {
                Some(own) if own.has_keys() => Box::new(key(bare(*value), &own)),
                _ => Box::new(bare(*value)),
            };
            Expr::Between(Between { expr: one(expr), negated, low: one(low), high: one(high) })
        }
        Expr::InList(InList { expr, list, negated }) if own.is_some() => {
            let own = own.unwrap_or(Own::Uuid);
            let all = all_become(std::iter::once(*expr).chain(list).collect(), kinds, &own);
            let mut all = all.into_iter().map(bare);
            let expr = Box::new(all.next().unwrap_or_default());
            Expr::InList(InList { expr, list: all.collect(), negated })
        }
        Expr::InList(InList { expr, list, negated }) => {
            let list = list.into_iter().map(bare).collect();
            Expr::InList(InList { expr: Box::new(bare(*expr)), list, negated })
        }
        other => other,
    }
}

/// A comparison of lists or structs by the order of the keys inside, where all operands have the same types there.
pub(super) fn by_parts(expr: Expr, schema: &DFSchema) -> Expr {
    let with_keys = |mut operands: Vec<Expr>| {
        let types: Result<Vec<DataType>> = operands.iter().map(|operand| operand.get_type(schema)).collect();
        if let Ok(types) = types
            && types.iter().all(|own| has_keys_inside(own) && has_same_marks(own, &types[0]))
        {
            operands = operands.into_iter().zip(types).map(|(operand, own)| keyed(operand, own)).collect();
        }
        operands.into_iter().map(Box::new)
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_order(op) => {
            let mut both = with_keys(vec![*left, *right]);
            let mut next = || both.next().unwrap_or_default();
            Expr::BinaryExpr(BinaryExpr { left: next(), op, right: next() })
        }
        Expr::Between(Between { expr, negated, low, high }) => {
            let mut all = with_keys(vec![*expr, *low, *high]);
            let mut next = || all.next().unwrap_or_default();
            Expr::Between(Between { expr: next(), negated, low: next(), high: next() })
        }
        other => other,
    }
}

/// `CASE a WHEN b THEN …`, whose operands become values of one type where they would beside `=`.
pub(super) fn compared(case: Case, children: &[Kind]) -> Case {
    let Case { expr: Some(operand), when_then_expr, else_expr } = case else { return case };
    let (whens, thens): (Vec<_>, Vec<_>) = when_then_expr.into_iter().unzip();
    let places = std::iter::once(0).chain((0..whens.len()).map(|index| 2 * index + 1));
    let kinds: Vec<Kind> = places.map(|place| children.get(place).cloned().unwrap_or(Kind::Other)).collect();
    let mut operands: Vec<Expr> = std::iter::once(operand).chain(whens).map(|operand| *operand).collect();
    if let Some(own) = prevailing(&kinds).filter(Own::is_compared_as_such) {
        operands = all_become(operands, &kinds, &own).into_iter().map(bare).collect();
    }
    let mut operands = operands.into_iter().map(Box::new);
    let expr = operands.next();
    Case { expr, when_then_expr: operands.zip(thens).collect(), else_expr }
}

/// `uuid IN (SELECT …)`, whose values become UUIDs, and the like.
pub(super) fn member(membership: InSubquery, own: &Own) -> Result<Expr> {
    let InSubquery { expr, subquery, negated } = membership;
    let (relation, field) = subquery.subquery.schema().qualified_field(0);
    if Kind::of_field(field) != Kind::Other {
        return Ok(Expr::InSubquery(InSubquery { expr, subquery, negated }));
    }
    let value = to_own(Expr::Column((relation, field).into()), own.clone(), false).alias(field.name());
    let plan = LogicalPlanBuilder::from(Arc::clone(&subquery.subquery)).project([value])?.build()?;
    Ok(Expr::InSubquery(InSubquery { expr, subquery: subquery.with_plan(Arc::new(plan)), negated }))
}

fn is_comparison(op: Operator) -> bool {
    use Operator as O;
    is_order(op) || matches!(op, O::Eq | O::NotEq | O::IsDistinctFrom | O::IsNotDistinctFrom)
}

fn is_order(op: Operator) -> bool {
    matches!(op, Operator::Lt | Operator::LtEq | Operator::Gt | Operator::GtEq)
}

/// A literal as a text like others.
fn bare(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(value @ ScalarValue::Utf8View(_), Some(_)) => Expr::Literal(value, None),
        other => other,
    }
}

/// `left op right` by their places; beside a literal, whether the other is one of those values.
fn ordered(left: Expr, op: Operator, right: Expr, of: &Arc<Enumeration>) -> Expr {
    let found = match (&left, &right) {
        (_, Expr::Literal(value, _)) => listed(value, op, of),
        (Expr::Literal(value, _), _) => op.swap().and_then(|op| listed(value, op, of)),
        _ => None,
    };
    match (found, matches!(right, Expr::Literal(..))) {
        (Some(list), true) => left.in_list(list, false),
        (Some(list), false) => right.in_list(list, false),
        (None, _) => {
            let own = Own::Enum(Arc::clone(of));
            let (left, right) = (key(bare(left), &own), key(bare(right), &own));
            Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
        }
    }
}

/// The values of which `value op literal` holds; `None` where they are none or too many.
fn listed(literal: &ScalarValue, op: Operator, of: &Enumeration) -> Option<Vec<Expr>> {
    let place = of.place(literal.try_as_str()??)? as usize;
    let values = of.values();
    let found = match op {
        Operator::Lt => &values[..place],
        Operator::LtEq => &values[..=place],
        Operator::Gt => &values[place + 1..],
        _ => &values[place..],
    };
    let is_listed = !found.is_empty() && found.len() <= LISTED;
    is_listed
        .then(|| found.iter().map(|value| Expr::Literal(ScalarValue::Utf8View(Some(value.clone())), None)).collect())
}
