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

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, FunctionalDependencies, Result};
use datafusion::logical_expr::{Distinct, LogicalPlan};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use forebay_subqueries::plans::any_node;

/// Takes all dependencies from a plan that has some that may not hold. Stands in front of the rules that make use of them.
#[derive(Debug)]
pub struct Mistrust;

impl OptimizerRule for Mistrust {
    fn name(&self) -> &str {
        "mistrust"
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match is_doubtful(&plan)? {
            true => without_dependencies(plan).map(Transformed::yes),
            false => Ok(Transformed::no(plan)),
        }
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
///
/// # Errors
/// If two columns of a node have one name.
pub fn without_dependencies(plan: LogicalPlan) -> Result<LogicalPlan> {
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
