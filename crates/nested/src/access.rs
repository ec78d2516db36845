//! `map[key]`: the value that belongs to a key, of any type.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF};

/// Plans what stands in brackets behind a map.
#[derive(Debug)]
pub struct MapAccess {
    value: Arc<ScalarUDF>,
}

impl MapAccess {
    /// By the function `map_extract_value`, if it is among these.
    pub fn new(functions: &[Arc<ScalarUDF>]) -> Option<Self> {
        let value = functions.iter().find(|function| function.name() == "map_extract_value")?;
        Some(Self { value: Arc::clone(value) })
    }
}

impl ExprPlanner for MapAccess {
    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let key = match &access.field_access {
            // DataFusion would make another aggregate of it, which asks for an order of all rows.
            GetFieldAccess::ListIndex { key } if matches!(&access.expr, Expr::AggregateFunction(call) if call.func.name() == "array_agg") =>
            {
                return Ok(PlannerResult::Planned(array_element(access.expr, key.as_ref().clone())));
            }
            GetFieldAccess::NamedStructField { name } => Expr::Literal(name.clone(), None),
            GetFieldAccess::ListIndex { key } => key.as_ref().clone(),
            GetFieldAccess::ListRange { .. } => return Ok(PlannerResult::Original(access)),
        };
        Ok(match access.expr.get_type(schema) {
            Ok(DataType::Map(..)) => PlannerResult::Planned(self.value.call(vec![access.expr, key])),
            _ => PlannerResult::Original(access),
        })
    }
}
