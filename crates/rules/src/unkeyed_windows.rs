//! Windows without keys, as `row_number() OVER ()`, see rows in the order of their input. Beside windows with keys DataFusion computes them
//! last, of rows that were sorted for these; here they are computed first.
//!
//! ```text
//! window row_number() OVER ()              project id, "rank() …", "row_number() …"
//!   window rank() OVER (ORDER BY x)    →     window rank() OVER (ORDER BY x)
//!     scan t                                   window row_number() OVER ()
//!                                                scan t
//! ```

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window};
use forebay_subqueries::plans::any_node;

/// `plan` with windows that have no keys below those that have.
///
/// # Errors
/// Those of making plans.
pub(crate) fn unkeyed_first(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !any_node(&plan, |node| Ok(is_above_keyed(node)))? {
        return Ok(plan);
    }
    plan.transform_down_with_subqueries(|node| {
        let mut windows = Vec::new();
        let mut below = &node;
        while let LogicalPlan::Window(window) = below {
            windows.push(window);
            below = &window.input;
        }
        if !windows.iter().any(|window| !has_keys(window)) || !windows.iter().all(|window| reads_only(window, below)) {
            return Ok(Transformed::no(node));
        }
        let (keyed, unkeyed): (Vec<_>, Vec<_>) = windows.iter().rev().partition(|window| has_keys(window));
        let in_order: Vec<&Window> = unkeyed.into_iter().chain(keyed).copied().collect();
        if in_order.iter().zip(windows.iter().rev()).all(|(new, old)| std::ptr::eq(*new, *old)) {
            return Ok(Transformed::no(node));
        }
        let mut plan = below.clone();
        for window in in_order {
            plan = LogicalPlan::Window(Window::try_new(window.window_expr.clone(), Arc::new(plan))?);
        }
        let shown = node.schema().columns().into_iter().map(Expr::Column).collect();
        Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(plan))?)))
    })
    .data()
}

/// Whether a window reads no values of others.
fn reads_only(window: &Window, input: &LogicalPlan) -> bool {
    window.window_expr.iter().flat_map(Expr::column_refs).all(|column| input.schema().has_column(column))
}

/// Whether this is a window without keys over one with some.
fn is_above_keyed(node: &LogicalPlan) -> bool {
    let LogicalPlan::Window(window) = node else { return false };
    !has_keys(window) && matches!(window.input.as_ref(), LogicalPlan::Window(below) if has_keys(below))
}

fn has_keys(window: &Window) -> bool {
    let is_keyed = |expr: &Expr| {
        call(expr).is_some_and(|call| !call.params.partition_by.is_empty() || !call.params.order_by.is_empty())
    };
    window.window_expr.iter().any(is_keyed)
}

/// The call of a window function that an expression is.
pub(crate) fn call(expr: &Expr) -> Option<&WindowFunction> {
    match expr {
        Expr::Alias(alias) => call(&alias.expr),
        Expr::WindowFunction(call) => Some(call),
        _ => None,
    }
}
