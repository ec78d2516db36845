//! Casts that lose digits, as [`CastCall`], which the optimizer does not see through; casts between types that have none are errors.
//!
//! DataFusion moves a cast of a column over to a literal that it is compared with, which is right only where every value
//! has a result of its own: `CAST(price AS INTEGER) = 1` is not `price = 1.00`, and `TRY_CAST(n AS TINYINT) <> 1` is NULL
//! for 300.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::{Expr, ScalarUDF};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;
use forebay_functions::casts::call::CastCall;
use forebay_functions::casts::possible;

/// Replaces the casts. Must run after the rules that insert casts.
#[derive(Debug)]
pub struct RoundingCasts;

impl ExpressionRule for RoundingCasts {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::CAST | Kinds::CALL)
    }

    fn rewrite(&self, expr: Expr, types: &ChildTypes, _schema: &DFSchema) -> Result<Transformed<Expr>> {
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
