//! The order of rows and lists that have NULLs in them: such a NULL is greater than any value, as in DuckDB. DataFusion puts it
//! where `NULLS FIRST` or `NULLS LAST` puts a NULL in the place of the whole row, which differs for `ASC NULLS FIRST` and `DESC
//! NULLS LAST`: there a key of its own says where NULLs are.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};

use crate::expressions::{ExpressionRule, Kinds};
use crate::typed::ChildTypes;

/// Gives NULLs of nested sort keys keys of their own.
#[derive(Debug)]
pub struct NestedOrder;

impl ExpressionRule for NestedOrder {
    fn concerns(&self, kinds: Kinds) -> bool {
        kinds.has(Kinds::WINDOW | Kinds::ARITHMETIC)
    }

    fn rewrite(&self, expr: Expr, _types: &ChildTypes, schema: &DFSchema) -> Result<Transformed<Expr>> {
        Ok(match expr {
            Expr::WindowFunction(mut function) => {
                let changed = spell_out(&mut function.params.order_by, schema);
                Transformed::new_transformed(Expr::WindowFunction(function), changed)
            }
            Expr::AggregateFunction(mut function) => {
                let changed = spell_out(&mut function.params.order_by, schema);
                Transformed::new_transformed(Expr::AggregateFunction(function), changed)
            }
            other => Transformed::no(other),
        })
    }

    fn rewrite_node(&self, plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Sort(mut sort) = plan else { return Ok(Transformed::no(plan)) };
        let schema = sort.input.schema().clone();
        let changed = spell_out(&mut sort.expr, &schema);
        Ok(Transformed::new_transformed(LogicalPlan::Sort(sort), changed))
    }
}

/// Whether there was something to do.
fn spell_out(sorts: &mut Vec<Sort>, schema: &DFSchema) -> bool {
    let is_one = |sort: &Sort| sort.asc == sort.nulls_first && is_nested(&sort.expr, schema);
    if !sorts.iter().any(is_one) {
        return false;
    }
    for sort in std::mem::take(sorts) {
        if is_one(&sort) {
            sorts.push(sort.expr.clone().is_null().sort(!sort.nulls_first, false));
            sorts.push(Sort { nulls_first: !sort.asc, ..sort });
        } else {
            sorts.push(sort);
        }
    }
    true
}

fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    use DataType as T;
    let nested =
        |data_type: DataType| matches!(data_type, T::Struct(_) | T::List(_) | T::LargeList(_) | T::FixedSizeList(..));
    expr.get_type(schema).is_ok_and(nested)
}
