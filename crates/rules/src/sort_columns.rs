//! Columns that ORDER BY needs and nobody sees. DataFusion's planner adds them to what is shown in the order of a hash table, which
//! differs from run to run; plans do not.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Projection, Sort};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Puts columns that are there for a sort alone in the order in which the input has them.
#[derive(Debug)]
pub struct SortColumns;

impl OptimizerRule for SortColumns {
    fn name(&self) -> &str {
        "sort_columns"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::TopDown)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Projection(shown) = &plan else { return Ok(Transformed::no(plan)) };
        let LogicalPlan::Sort(sort) = shown.input.as_ref() else { return Ok(Transformed::no(plan)) };
        match in_order(sort, shown.expr.len())? {
            Some(sort) => plan.with_new_exprs(plan.expressions(), vec![LogicalPlan::Sort(sort)]).map(Transformed::yes),
            None => Ok(Transformed::no(plan)),
        }
    }
}

/// A sort with the columns behind the first `shown` ones in the order of the input; `None` where they are in it.
fn in_order(sort: &Sort, shown: usize) -> Result<Option<Sort>> {
    let columns = match sort.input.as_ref() {
        LogicalPlan::Distinct(Distinct::All(rows)) => rows.as_ref(),
        other => other,
    };
    let LogicalPlan::Projection(below) = columns else { return Ok(None) };
    let Some(added) = below.expr.get(shown..).filter(|added| added.len() > 1) else { return Ok(None) };
    let mut placed = Vec::with_capacity(added.len());
    for expr in added {
        let Expr::Column(column) = expr else { return Ok(None) };
        placed.push((below.input.schema().index_of_column(column)?, expr));
    }
    if placed.is_sorted_by_key(|(place, _)| *place) {
        return Ok(None);
    }
    placed.sort_by_key(|(place, _)| *place);
    let columns = below.expr[..shown].iter().chain(placed.into_iter().map(|(_, expr)| expr)).cloned().collect();
    let below = Arc::new(LogicalPlan::Projection(Projection::try_new(columns, Arc::clone(&below.input))?));
    let input = match sort.input.as_ref() {
        LogicalPlan::Distinct(_) => Arc::new(LogicalPlan::Distinct(Distinct::All(below))),
        _ => below,
    };
    Ok(Some(Sort { input, ..sort.clone() }))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::{LogicalPlanBuilder, col, table_scan};
    use datafusion::optimizer::OptimizerContext;

    use super::*;

    fn check(columns: &[&str], shown: &[&str], expect: &str) {
        let fields: Vec<Field> = ["a", "b", "c"].map(|name| Field::new(name, DataType::Int32, true)).into();
        let named = |names: &[&str]| names.iter().map(|name| col(*name)).collect::<Vec<_>>();
        let plan = table_scan(Some("t"), &Schema::new(fields), None)
            .and_then(|scan| scan.project(named(columns)))
            .and_then(|plan| plan.sort([(col("b") + col("c")).sort(true, false)]))
            .and_then(|plan| plan.project(named(shown)))
            .and_then(LogicalPlanBuilder::build)
            .expect("a plan");
        let plan = SortColumns.rewrite(plan, &OptimizerContext::new()).expect("is rewritten").data;
        assert_eq!(plan.to_string(), expect);
    }

    #[test]
    fn what_a_sort_needs_is_in_the_order_of_the_table() {
        let of = |below| {
            format!("Projection: t.a\n  Sort: t.b + t.c ASC NULLS LAST\n    Projection: {below}\n      TableScan: t")
        };
        check(&["a", "c", "b"], &["a"], &of("t.a, t.b, t.c"));
        check(&["a", "b", "c"], &["a"], &of("t.a, t.b, t.c"));
        let all = "Projection: t.c, t.b, t.a\n  Sort: t.b + t.c ASC NULLS LAST\n    Projection: t.c, t.b, t.a\n      TableScan: t";
        check(&["c", "b", "a"], &["c", "b", "a"], all);
    }
}
