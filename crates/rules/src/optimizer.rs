//! DataFusion's rules for logical plans, without the work of those that a plan has nothing for. Each rule goes through the
//! whole plan up to three times, and most queries are planned faster than they could be scanned only if few do.
//!
//! Invariant: what a rule is left out for is what it would leave as it is.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, Join, JoinType, LogicalPlan};

use crate::named_rules::{LogicalRule, around};

/// Whether a plan has something for a rule.
type IsNeeded = fn(&LogicalPlan) -> Result<bool>;

/// Rules by name, with what a plan must have for them.
const SPARED: [(&str, IsNeeded); 2] =
    [("rewrite_set_comparison", has_set_comparison), ("eliminate_cross_join", has_cross_join)];

/// The rules, spared where they can be.
pub fn spared(rules: &[Arc<LogicalRule>]) -> Vec<Arc<LogicalRule>> {
    SPARED.iter().fold(rules.to_vec(), |rules, &(name, is_needed)| {
        around(&rules, name, move |rule, plan, config| match is_needed(&plan)? {
            true => rule.rewrite(plan, config),
            false => Ok(Transformed::no(plan)),
        })
    })
}

/// Whether some node of the plan or of its subqueries is such a one.
pub fn any_node(plan: &LogicalPlan, mut is_one: impl FnMut(&LogicalPlan) -> Result<bool>) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found = is_one(node)?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// `x > ANY (SELECT …)` and the like, and MERGE, which the rule looks at by itself.
fn has_set_comparison(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        let mut found = matches!(node, LogicalPlan::Dml(_));
        node.apply_expressions(|expr| {
            found = found || expr.exists(|inner| Ok(matches!(inner, Expr::SetComparison(_))))?;
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(found)
    })
}

/// An inner join without keys, whose keys may stand in a filter or another join.
fn has_cross_join(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        Ok(matches!(node, LogicalPlan::Join(Join { join_type: JoinType::Inner, on, .. }) if on.is_empty()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_rules::check;
    use datafusion::optimizer::Optimizer;

    #[test]
    fn the_spared_rules_are_there_and_keep_their_order() {
        let rules = Optimizer::new().rules;
        let after = spared(&rules);
        for (name, _) in SPARED {
            check(&rules, name, &after);
        }
        // A rule that leaves the recursion to its caller would see the root alone.
        let wrapped = rules.iter().filter(|rule| SPARED.iter().any(|(name, _)| *name == rule.name()));
        assert!(wrapped.into_iter().all(|rule| rule.apply_order().is_none()));
    }
}
