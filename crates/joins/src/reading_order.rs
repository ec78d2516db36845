//! Queries whose answer depends on the order in which tables are read: places of rows, in POSITIONAL JOIN or by `row_number() OVER ()`;
//! lists and the like, first and last values of a UNION ALL. They run on one thread, which reads a table
//! from its first row to its last one, and none of its projections. What is computed of an ordered query
//! in FROM is shown in its order: rows of one partition are not dealt out to several.
//!
//! Must not know: statements, how tables are read.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, WindowFunctionDefinition};
use forebay_context::settings::ReadsInOrder;
use forebay_grammar::joins::POSITIONAL_CONDITION;

/// Aggregates whose value depends on the order of rows.
const ORDERED: [&str; 8] =
    ["array_agg", "string_agg", "first_value", "last_value", "any_value", "arg_max", "arg_min", "mode"];

/// The state in which `plan`, which is not analysed yet, runs.
///
/// # Errors
/// If DataFusion cannot walk over the plan.
pub fn state_for(mut state: SessionState, plan: &LogicalPlan) -> Result<SessionState> {
    if is_any(plan)? {
        state.config_mut().options_mut().execution.target_partitions = 1;
        state.config_mut().set_extension(Arc::new(ReadsInOrder));
    } else if is_recursive(plan)? || has_inner_order(plan)? {
        // What is computed of the rows of each step is shown in the order of the steps, and a step is too short to be divided. What
        // is computed of an ordered query is shown in its order.
        state.config_mut().options_mut().optimizer.enable_round_robin_repartition = false;
    }
    Ok(state)
}

fn is_recursive(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::RecursiveQuery(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a query in FROM, or of a subquery, is ordered.
fn has_inner_order(plan: &LogicalPlan) -> Result<bool> {
    let mut outer = plan;
    loop {
        let is_chosen = |expr: &Expr| match expr {
            Expr::Alias(alias) => matches!(*alias.expr, Expr::Column(_)),
            expr => matches!(expr, Expr::Column(_)),
        };
        outer = match outer {
            LogicalPlan::Sort(sort) => &sort.input,
            LogicalPlan::Limit(limit) => &limit.input,
            LogicalPlan::Projection(projection) if projection.expr.iter().all(is_chosen) => &projection.input,
            _ => break,
        };
    }
    let mut found = false;
    outer.apply_with_subqueries(|node| {
        found |= matches!(node, LogicalPlan::Sort(_));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether some node of the plan, or of a subquery of it, takes rows by their places.
fn is_any(plan: &LogicalPlan) -> Result<bool> {
    let (mut found, mut has_union, mut has_ordered) = (false, false, false);
    plan.apply_with_subqueries(|node| {
        has_union |= matches!(node, LogicalPlan::Union(_));
        has_ordered |= takes_in_order(node)?;
        found = has_places(node)? || (has_union && has_ordered);
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether the node has an aggregate whose value depends on the order of rows that nobody said.
fn takes_in_order(node: &LogicalPlan) -> Result<bool> {
    let LogicalPlan::Aggregate(aggregate) = node else { return Ok(false) };
    let mut found = false;
    for expr in &aggregate.aggr_expr {
        expr.apply(|part| {
            if let Expr::AggregateFunction(call) = part {
                found |= call.params.order_by.is_empty() && ORDERED.contains(&call.func.name());
            }
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}

/// Whether an expression of the node takes rows by their places.
fn has_places(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            found |= match part {
                Expr::ScalarFunction(call) => call.func.name() == POSITIONAL_CONDITION,
                Expr::WindowFunction(window) => {
                    let is_of_rows = matches!(window.fun, WindowFunctionDefinition::WindowUDF(_));
                    is_of_rows && window.params.order_by.is_empty() && window.params.partition_by.is_empty()
                }
                _ => false,
            };
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}
