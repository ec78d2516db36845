//! Casts that lose digits, as [`CastCall`], which the optimizer does not see through; casts between types that have none are errors.
//!
//! DataFusion moves a cast of a column over to a literal that it is compared with, which is right only where every value
//! has a result of its own: `CAST(price AS INTEGER) = 1` is not `price = 1.00`, and `TRY_CAST(n AS TINYINT) <> 1` is NULL
//! for 300. It also cuts the literal off where the cast is exact: of a TIMESTAMP_S, `seconds = TIMESTAMP '… 00:00:00.5'` would be
//! true for the whole second before (no issue known; timestamp_units.test). Such a cast is one of ours, too.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{Between, BinaryExpr, Expr, ExprSchemable, ScalarUDF};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::{ChildTypes, is_comparison};
use forebay_functions::casts::call::CastCall;
use forebay_functions::casts::possible;

/// Replaces the casts. Must run after the rules that insert casts.
#[derive(Debug)]
pub struct RoundingCasts;

impl ExpressionRule for RoundingCasts {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::CAST | Kinds::CALL)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        if let Some(operands) = compared(&expr) {
            return match operands.iter().any(|operand| is_cut(operand, &operands, schema)) {
                true => expr.map_children(|operand| opaque(operand, schema)),
                false => Ok(Transformed::no(expr)),
            };
        }
        let Some((function, source)) = CastCall::of(&expr).zip(types.first().cloned().flatten()) else {
            return Ok(Transformed::no(expr));
        };
        possible::check(&source, function.target())?;
        if !function.is_needed(&source) {
            return Ok(Transformed::no(expr));
        }
        let inner = match expr {
            Expr::Cast(cast) => *cast.expr,
            Expr::TryCast(cast) => *cast.expr,
            Expr::ScalarFunction(mut call) => call.args.swap_remove(0),
            other => return Ok(Transformed::no(other)),
        };
        Ok(Transformed::yes(ScalarUDF::from(function).call(vec![inner])))
    }
}

/// What is compared with each other, if something is.
fn compared(expr: &Expr) -> Option<Vec<&Expr>> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if is_comparison(*op) => Some(vec![left, right]),
        Expr::Between(Between { expr, low, high, .. }) => Some(vec![expr, low, high]),
        Expr::InList(InList { expr, list, .. }) => Some(std::iter::once(&**expr).chain(list).collect()),
        _ => None,
    }
}

/// Whether an operand is a cast of timestamps to a finer unit, among literals that have no value in their own.
fn is_cut(operand: &Expr, all: &[&Expr], schema: &DFSchema) -> bool {
    let Some((coarse, fine)) = widened(operand, schema) else { return false };
    let factor = ticks(fine) / ticks(coarse);
    all.iter().any(|other| match other {
        Expr::Literal(value, _) => ticks_of(value).is_some_and(|value| value % factor != 0),
        _ => false,
    })
}

/// The units from and to which a timestamp is cast, where the second one is finer.
fn widened(operand: &Expr, schema: &DFSchema) -> Option<(TimeUnit, TimeUnit)> {
    let (inner, target) = match operand {
        Expr::Cast(cast) => (&cast.expr, cast.field.data_type()),
        Expr::TryCast(cast) => (&cast.expr, cast.field.data_type()),
        _ => return None,
    };
    match (inner.get_type(schema).ok()?, target) {
        (DataType::Timestamp(coarse, _), DataType::Timestamp(fine, _)) if ticks(*fine) > ticks(coarse) => {
            Some((coarse, *fine))
        }
        _ => None,
    }
}

/// A cast to a finer unit as a call of ours; anything else as it is.
fn opaque(operand: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match (CastCall::of(&operand), widened(&operand, schema), operand) {
        (Some(function), Some(_), Expr::Cast(cast)) => {
            Ok(Transformed::yes(ScalarUDF::from(function).call(vec![*cast.expr])))
        }
        (Some(function), Some(_), Expr::TryCast(cast)) => {
            Ok(Transformed::yes(ScalarUDF::from(function).call(vec![*cast.expr])))
        }
        (_, _, operand) => Ok(Transformed::no(operand)),
    }
}

fn ticks(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A timestamp in its own unit.
fn ticks_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::TimestampSecond(ticks, _)
        | ScalarValue::TimestampMillisecond(ticks, _)
        | ScalarValue::TimestampMicrosecond(ticks, _)
        | ScalarValue::TimestampNanosecond(ticks, _) => *ticks,
        _ => None,
    }
}
