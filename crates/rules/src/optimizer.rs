//! DataFusion's rules for logical plans, without the work of those that a plan has nothing for. Each rule goes through the
//! whole plan, and most queries are planned faster than they could be scanned only if few do.
//!
//! Invariant: what a rule is left out for is what it would leave as it is.

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Aggregate, Expr, ExpressionPlacement, LogicalPlan};
use datafusion::optimizer::eliminate_duplicated_expr::EliminateDuplicatedExpr;
use datafusion::optimizer::{ApplyOrder, OptimizerRule};

pub use forebay_subqueries::plans::any_node;
use forebay_subqueries::plans::rewrite_nodes;

use crate::around::around;

/// `rule`, which goes through plans by itself, for plans alone that have something for it.
pub fn spared<R>(rule: R, is_needed: fn(&LogicalPlan) -> Result<bool>) -> impl OptimizerRule + Send + Sync + 'static
where
    R: OptimizerRule + Send + Sync + 'static,
{
    around(rule, move |rule, plan, config| match is_needed(&plan)? {
        true => rule.rewrite(plan, config),
        false => Ok(Transformed::no(plan)),
    })
}

/// `rule`, and `next` where that changed something; both go through plans by themselves.
pub fn followed<R, N>(rule: R, next: N) -> impl OptimizerRule + Send + Sync + 'static
where
    R: OptimizerRule + Send + Sync + 'static,
    N: OptimizerRule + Send + Sync + 'static,
{
    around(rule, move |rule, plan, config| {
        let done = rule.rewrite(plan, config)?;
        match done.transformed {
            true => Ok(Transformed::yes(next.rewrite(done.data, config)?.data)),
            false => Ok(done),
        }
    })
}

/// `rule`, which leaves out keys that are there twice or follow from others, for sorts by several keys and groups by such keys.
pub fn of_duplicates(rule: EliminateDuplicatedExpr) -> impl OptimizerRule + Send + Sync + 'static {
    let has_several = |node: &LogicalPlan| match node {
        LogicalPlan::Sort(sort) => sort.expr.len() > 1,
        LogicalPlan::Aggregate(Aggregate { group_expr: keys, .. }) => {
            keys.iter().enumerate().any(|(place, key)| keys[..place].contains(key))
        }
        _ => false,
    };
    around(rule, move |rule, plan, config| rewrite_nodes(plan, has_several, |node| rule.rewrite(node, config)))
}

/// `x > ANY (SELECT …)` and the like, and MERGE, which the rule looks at by itself.
pub fn has_set_comparison(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        let mut found = matches!(node, LogicalPlan::Dml(_));
        node.apply_expressions(|expr| {
            found = found || expr.exists(|inner| Ok(matches!(inner, Expr::SetComparison(_))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// `rule`, which moves parts of expressions to where they are read, for plans that have such a part and join nothing.
pub fn without_joins<R>(rule: R) -> impl OptimizerRule + Send + Sync + 'static
where
    R: OptimizerRule + Send + Sync + 'static,
{
    around(rule, move |rule, plan, config| {
        if !any_node(&plan, has_part_to_move)? || any_node(&plan, |node| Ok(matches!(node, LogicalPlan::Join(_))))? {
            return Ok(Transformed::no(plan));
        }
        match rule.apply_order() {
            Some(ApplyOrder::TopDown) => plan.transform_down_with_subqueries(|node| rule.rewrite(node, config)),
            Some(ApplyOrder::BottomUp) => plan.transform_up_with_subqueries(|node| rule.rewrite(node, config)),
            None => rule.rewrite(plan, config),
        }
    })
}

/// Whether a node computes what is best computed where its columns are read, such as a field of a struct.
fn has_part_to_move(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        let is_one = |part: &Expr| {
            matches!(part, Expr::ScalarFunction(_)) && part.placement() == ExpressionPlacement::MoveTowardsLeafNodes
        };
        found = found || expr.exists(|part| Ok(is_one(part)))?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::optimizer::common_subexpr_eliminate::CommonSubexprEliminate;
    use datafusion::optimizer::eliminate_join::EliminateJoin;
    use datafusion::optimizer::optimize_projections::OptimizeProjections;
    use datafusion::optimizer::rewrite_set_comparison::RewriteSetComparison;

    #[test]
    fn these_rules_go_through_plans_by_themselves() {
        assert!(EliminateJoin::new().apply_order().is_none());
        assert!(OptimizeProjections::new().apply_order().is_none());
        assert!(CommonSubexprEliminate::new().apply_order().is_none());
        assert!(RewriteSetComparison::new().apply_order().is_none());
    }
}
