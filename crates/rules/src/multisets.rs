//! INTERSECT ALL and EXCEPT ALL: of equal rows, as many as both sides have, and as many as the left side has more. DataFusion
//! plans them as semi and anti joins, which keep all equal rows or none. Numbering the equal rows of each side makes them
//! right: the second row of the left side then meets only the second one of the right side.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, JoinType, NullEquality, Result};
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::{Expr, ExprFunctionExt, Join, JoinConstraint, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;
use forebay_subqueries::plans::rewrite_nodes;

/// Numbers the equal rows of both sides.
#[derive(Debug)]
pub struct NumberedRows;

impl AnalyzerRule for NumberedRows {
    fn name(&self) -> &str {
        "numbered_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_one = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if keeps_copies(join));
        rewrite_nodes(plan, is_one, |node| match node {
            LogicalPlan::Join(join) => numbered(&join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

/// Whether a join stands for INTERSECT or EXCEPT. Before any optimisation only set operations join so.
pub fn is_set_operation(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
}

/// Whether a join stands for INTERSECT ALL or EXCEPT ALL: without ALL, or where it does not matter, the left side's rows are
/// distinct.
fn keeps_copies(join: &Join) -> bool {
    is_set_operation(join) && !matches!(join.left.as_ref(), LogicalPlan::Distinct(_))
}

fn numbered(join: &Join) -> Result<LogicalPlan> {
    let (left, left_number) = with_number(&join.left, "left copy")?;
    let (right, right_number) = with_number(&join.right, "right copy")?;
    let on = join.on.iter().cloned().chain([(left_number, right_number)]).collect();
    let constraint = JoinConstraint::On;
    let joined = Join::try_new(left, right, on, None, join.join_type, constraint, join.null_equality, false)?;
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(columns(&join.left))?.build()
}

/// `plan` with the number of each row among those that equal it.
fn with_number(plan: &Arc<LogicalPlan>, name: &str) -> Result<(Arc<LogicalPlan>, Expr)> {
    let number = row_number().partition_by(columns(plan)).build()?.alias(name);
    let numbered = LogicalPlanBuilder::from(Arc::clone(plan)).window([number])?.build()?;
    Ok((Arc::new(numbered), Expr::Column(Column::from_name(name))))
}

fn columns(plan: &LogicalPlan) -> Vec<Expr> {
    plan.schema().columns().into_iter().map(Expr::Column).collect()
}
