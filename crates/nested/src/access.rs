//! What stands in brackets: `map[key]`, the value that belongs to a key of any type, fields of structs, which are found in any case,
//! and slices of lists and texts; and whether a list has all elements of another one, as an operator.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Column, DFSchema, Result, ScalarValue, TableReference};
use datafusion::functions::core::expr_fn::get_field;
use datafusion::functions_nested::expr_fn::array_element;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr};
use datafusion::logical_expr::{Expr, ExprSchemable, GetFieldAccess, ScalarUDF};
use datafusion::sql::sqlparser::ast::BinaryOperator;

/// Plans what stands in brackets behind a map, slices, and `@>` and `<@` of lists.
#[derive(Debug)]
pub struct MapAccess {
    value: Arc<ScalarUDF>,
    slice: Arc<ScalarUDF>,
    has_all: Arc<ScalarUDF>,
}

impl MapAccess {
    /// By the functions `map_extract_value`, `list_slice` and `array_has_all`, if they are among these.
    pub fn new(functions: &[Arc<ScalarUDF>]) -> Option<Self> {
        let function = |name| functions.iter().find(|function| function.name() == name).map(Arc::clone);
        Some(Self {
            value: function("map_extract_value")?,
            slice: function("list_slice")?,
            has_all: function("array_has_all")?,
        })
    }
}

impl ExprPlanner for MapAccess {
    fn plan_binary_op(&self, raw: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_list = |expr: &Expr| {
            matches!(
                expr.get_type(schema),
                Ok(DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
            )
        };
        if !is_list(&raw.left) || !is_list(&raw.right) {
            return Ok(PlannerResult::Original(raw));
        }
        Ok(match raw.op {
            BinaryOperator::AtArrow => PlannerResult::Planned(self.has_all.call(vec![raw.left, raw.right])),
            BinaryOperator::ArrowAt => PlannerResult::Planned(self.has_all.call(vec![raw.right, raw.left])),
            _ => PlannerResult::Original(raw),
        })
    }

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
            GetFieldAccess::ListRange { start, stop, stride } => {
                if matches!(access.expr.get_type(schema), Ok(DataType::Null)) {
                    return Ok(PlannerResult::Planned(access.expr));
                }
                let mut arguments = vec![access.expr.clone(), start.as_ref().clone(), stop.as_ref().clone()];
                // A step that is not written is 1.
                if !matches!(stride.as_ref(), Expr::Literal(ScalarValue::Int64(Some(1)), _)) {
                    arguments.push(stride.as_ref().clone());
                }
                return Ok(PlannerResult::Planned(self.slice.call(arguments)));
            }
        };
        Ok(match access.expr.get_type(schema) {
            Ok(DataType::Map(..)) => PlannerResult::Planned(self.value.call(vec![access.expr, key])),
            Ok(DataType::Struct(fields)) => match asked_field(&fields, &key) {
                Some(field) => PlannerResult::Planned(get_field(access.expr, field.name().as_str())),
                None => PlannerResult::Original(access),
            },
            _ => PlannerResult::Original(access),
        })
    }

    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut value = Expr::Column(Column::from((qualifier, field)));
        let mut data_type = field.data_type();
        for name in nested_names {
            let DataType::Struct(fields) = data_type else { return Ok(PlannerResult::Original(Vec::new())) };
            let Some(found) = named_field(fields, name) else { return Ok(PlannerResult::Original(Vec::new())) };
            value = get_field(value, found.name().as_str());
            data_type = found.data_type();
        }
        Ok(PlannerResult::Planned(value))
    }
}

/// The field of a struct that a key in brackets means: by its name, or by its place if the struct is a row whose fields have no
/// names.
fn asked_field<'a>(fields: &'a Fields, key: &Expr) -> Option<&'a FieldRef> {
    match key {
        Expr::Literal(ScalarValue::Utf8(Some(name)) | ScalarValue::Utf8View(Some(name)), _) => {
            named_field(fields, name)
        }
        Expr::Literal(ScalarValue::Int64(Some(place)), _) => {
            let is_row = fields.iter().enumerate().all(|(index, field)| *field.name() == format!("c{index}"));
            let index = usize::try_from(*place).ok()?.checked_sub(1)?;
            fields.get(index).filter(|_| is_row)
        }
        _ => None,
    }
}

/// The field of this name, else the first one whose name differs in the case of letters alone.
fn named_field<'a>(fields: &'a Fields, name: &str) -> Option<&'a FieldRef> {
    let in_any_case = || fields.iter().find(|field| field.name().eq_ignore_ascii_case(name));
    fields.iter().find(|field| field.name() == name).or_else(in_any_case)
}
