//! `json -> path` and `json ->> path`, and members and elements of columns and values by points and in brackets.

use datafusion::arrow::datatypes::Field;
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, lit};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use forebay_context::own_types;

use super::{ALL, Kind, function};

/// Plans the operators and points as calls.
#[derive(Debug)]
pub struct JsonOperators;

impl ExprPlanner for JsonOperators {
    fn plan_binary_op(&self, expr: RawBinaryExpr, _schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        Ok(match expr.op {
            BinaryOperator::Arrow => PlannerResult::Planned(taken(Kind::Part, expr.left, expr.right)),
            BinaryOperator::LongArrow => PlannerResult::Planned(taken(Kind::PartText, expr.left, expr.right)),
            _ => PlannerResult::Original(expr),
        })
    }

    fn plan_field_access(
        &self,
        access: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        if !access.expr.to_field(schema).is_ok_and(|(_, field)| is_json(&field)) {
            return Ok(PlannerResult::Original(access));
        }
        Ok(match access.field_access {
            GetFieldAccess::NamedStructField { name: ScalarValue::Utf8(Some(name)) } => {
                PlannerResult::Planned(member(access.expr, &name))
            }
            GetFieldAccess::ListIndex { key } => PlannerResult::Planned(taken(Kind::Part, access.expr, *key)),
            _ => PlannerResult::Original(access),
        })
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        if !is_json(field) {
            return Ok(PlannerResult::Original(Vec::new()));
        }
        let column = Expr::Column(Column::from((qualifier, field)));
        Ok(PlannerResult::Planned(nested_names.iter().fold(column, |whole, name| member(whole, name))))
    }
}

fn is_json(field: &Field) -> bool {
    own_types::of(field) == Some(own_types::JSON)
}

/// The member of an object, whatever its name is.
fn member(whole: Expr, name: &str) -> Expr {
    taken(Kind::Part, whole, lit(format!("$.\"{}\"", name.replace('"', "\\\""))))
}

fn taken(wanted: Kind, whole: Expr, path: Expr) -> Expr {
    let names = ALL.iter().find(|(_, kind)| *kind == wanted).map_or(&ALL[0].0, |(names, _)| names);
    function(names, wanted).call(vec![whole, path])
}
