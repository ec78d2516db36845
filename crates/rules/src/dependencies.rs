//! Functional dependencies that do not hold. DataFusion takes a key of one side of a join for one of the groups that are made
//! of it, whatever else they are grouped by, and a key for one also where unnesting a list has made several rows of each; it
//! then leaves out keys of groups and of orders behind them.
//!
//! ```text
//! SELECT r, k, min(n) FROM (SELECT DISTINCT r FROM a) JOIN b ON … GROUP BY r, k     r is no key of this
//! SELECT k, unnest(list) AS n FROM a GROUP BY k ORDER BY k, n                      nor is k of this
//! ```
//!
//! So the rules that make use of dependencies get none of a plan in which a join or an unnesting has some; others hold. And
//! none is known of a derived table, whose dependents DataFusion would add to the keys of groups: as everywhere else, what is
//! selected has to be named in GROUP BY.

use std::cell::Cell;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::logical_expr::planner::{PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning};
use datafusion::logical_expr::sqlparser::ast::TableFactor;
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig};

use crate::named_rules::{LogicalRule, around};
use crate::optimizer::any_node;

/// The rules that make use of dependencies.
const RELYING: [&str; 4] =
    ["eliminate_duplicated_expr", "eliminate_join", "optimize_projections", "replace_distinct_aggregate"];

/// The rules, kept from dependencies that do not hold.
pub fn mistrusted(rules: &[Arc<LogicalRule>]) -> Vec<Arc<LogicalRule>> {
    RELYING.iter().fold(rules.to_vec(), |rules, name| around(&rules, name, mistrusting))
}

/// Runs a rule on a plan without dependencies that may not hold.
fn mistrusting(
    rule: &LogicalRule,
    plan: LogicalPlan,
    config: &dyn OptimizerConfig,
) -> Result<Transformed<LogicalPlan>> {
    let plan = if is_doubtful(&plan)? { without_dependencies(plan)? } else { plan };
    let rewrite = |node: LogicalPlan| rule.rewrite(node, config);
    match rule.apply_order() {
        Some(ApplyOrder::TopDown) => plan.transform_down_with_subqueries(rewrite),
        Some(ApplyOrder::BottomUp) => plan.transform_up_with_subqueries(rewrite),
        None => rule.rewrite(plan, config),
    }
}

/// Plans derived tables and names of WITH as DataFusion does, without dependencies.
#[derive(Debug)]
pub struct IndependentRelations;

thread_local! {
    /// The relation that is planned next is left to DataFusion: it was asked for here.
    static IS_LEFT: Cell<bool> = const { Cell::new(false) };
}

impl RelationPlanner for IndependentRelations {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let has_plan = matches!(relation, TableFactor::Derived { .. } | TableFactor::Table { args: None, .. });
        if IS_LEFT.take() || !has_plan {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        IS_LEFT.set(true);
        let plan = context.plan(relation);
        IS_LEFT.set(false);
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(without_dependencies(plan?)?, None))))
    }
}

/// Whether a join or an unnesting has dependencies of an input, and hands them on.
fn is_doubtful(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| {
        let hands_on = matches!(node, LogicalPlan::Join(_) | LogicalPlan::Unnest(_));
        Ok(hands_on && !node.schema().functional_dependencies().is_empty())
    })
}

/// The plan with nodes that know of no dependency.
fn without_dependencies(plan: LogicalPlan) -> Result<LogicalPlan> {
    let strip = |mut node: LogicalPlan| {
        let schema = match &mut node {
            LogicalPlan::Projection(projection) => &mut projection.schema,
            LogicalPlan::Aggregate(aggregate) => &mut aggregate.schema,
            LogicalPlan::Window(window) => &mut window.schema,
            LogicalPlan::Join(join) => &mut join.schema,
            LogicalPlan::SubqueryAlias(alias) => &mut alias.schema,
            LogicalPlan::Union(union) => &mut union.schema,
            LogicalPlan::Unnest(unnest) => &mut unnest.schema,
            LogicalPlan::Distinct(Distinct::On(distinct)) => &mut distinct.schema,
            _ => return Ok(Transformed::no(node)),
        };
        *schema = independent(schema)?;
        Ok(Transformed::yes(node))
    };
    plan.transform_up_with_subqueries(strip).map(|plan| plan.data)
}

fn independent(schema: &DFSchemaRef) -> Result<DFSchemaRef> {
    match schema.functional_dependencies().is_empty() {
        true => Ok(Arc::clone(schema)),
        false => schema.as_ref().clone().with_functional_dependencies(FunctionalDependencies::empty()).map(Arc::new),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_rules::check;
    use datafusion::optimizer::Optimizer;

    #[test]
    fn the_relying_rules_are_there_and_keep_their_order() {
        let rules = Optimizer::new().rules;
        let after = mistrusted(&rules);
        RELYING.iter().for_each(|name| check(&rules, name, &after));
    }
}
