//! Looking through logical plans.

use std::borrow::Cow;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};

/// Whether some node of the plan or of its subqueries is such a one.
pub fn any_node(plan: &LogicalPlan, mut is_one: impl FnMut(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = is_one(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a plan gives the same rows whenever it runs: nothing in it is volatile, and no node is one that `may_differ`.
pub fn is_repeatable(plan: &LogicalPlan, may_differ: impl Fn(&LogicalPlan) -> bool) -> Result<bool> {
    let differs = any_node(plan, |node| {
        let mut differs = may_differ(node);
        node.apply_expressions(|expr| {
            differs = differs || expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(differs)
    })?;
    Ok(!differs)
}

/// Rewrites the nodes of a plan and of its subqueries that `is_one` holds of, from the leaves up. Most plans have none: looking for
/// them costs less than a rewrite, which takes every expression apart on its way to subqueries.
pub fn rewrite_nodes(
    plan: LogicalPlan,
    is_one: impl Fn(&LogicalPlan) -> bool,
    mut rewrite: impl FnMut(LogicalPlan) -> Result<Transformed<LogicalPlan>>,
) -> Result<Transformed<LogicalPlan>> {
    if !any_node(&plan, |node| Ok(is_one(node)))? {
        return Ok(Transformed::no(plan));
    }
    plan.transform_up_with_subqueries(|node| match is_one(&node) {
        true => rewrite(node),
        false => Ok(Transformed::no(node)),
    })
}

/// The plan with names of their own for keys of joins that are called as a column, as casts are: operators compute keys beside the
/// columns of their side.
pub fn with_named_keys(plan: &LogicalPlan) -> Result<Cow<'_, LogicalPlan>> {
    let has_cast = |node: &LogicalPlan| {
        let LogicalPlan::Join(join) = node else { return Ok(false) };
        Ok(join.on.iter().any(|(left, right)| is_called_as_its_part(left) || is_called_as_its_part(right)))
    };
    if !any_node(plan, has_cast)? {
        return Ok(Cow::Borrowed(plan));
    }
    let named = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::Join(mut join) = node else { return Ok(Transformed::no(node)) };
        for key in join.on.iter_mut().flat_map(|(left, right)| [left, right]) {
            if is_called_as_its_part(key) {
                let name = key.to_string();
                *key = std::mem::take(key).alias(name);
            }
        }
        Ok(Transformed::yes(LogicalPlan::Join(join)))
    });
    named.data().map(Cow::Owned)
}

fn is_called_as_its_part(key: &Expr) -> bool {
    match key {
        Expr::ScalarFunction(call) => match call.args.as_slice() {
            [part] => key.schema_name().to_string() == part.schema_name().to_string(),
            _ => false,
        },
        _ => false,
    }
}
