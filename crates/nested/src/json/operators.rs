//! `json -> path` and `json ->> path`.

use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::{ALL, Kind, function};

/// Plans the operators as calls.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let wanted = match expr.op {
            BinaryOperator::Arrow => Kind::Part,
            BinaryOperator::LongArrow => Kind::PartText,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        Ok(match ALL.iter().find(|(_, kind)| *kind == wanted) {
            Some((names, kind)) => PlannerResult::Planned(function(names, *kind).call(vec![expr.left, expr.right])),
            None => PlannerResult::Original(expr),
        })
    }
}
