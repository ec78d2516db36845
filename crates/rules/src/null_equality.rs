//! Inner joins that take NULLs for equal (`IS NOT DISTINCT FROM`) stay apart from others: DataFusion's rule that finds
//! join keys among several inner joins makes all of them anew with one treatment of NULLs, that of the topmost, and the one
//! that makes keys of a join's other conditions gives these the treatment of its keys.
//!
//! Invariant: a join leaves the rule with the treatment of NULLs that it came with.

use std::fmt;
use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchemaRef, NullEquality, Result};
use datafusion::error::DataFusionError;
use datafusion::logical_expr::{
    Expr, Extension, Join, JoinType, LogicalPlan, UserDefinedLogicalNode, UserDefinedLogicalNodeCore,
};
use datafusion::optimizer::eliminate_cross_join::EliminateCrossJoin;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::around::{LogicalRule, around};
use forebay_subqueries::plans::{any_node, rewrite_nodes};

/// DataFusion's rule that takes inner joins apart and puts them together again, which does not see into joins that take NULLs
/// for equal.
pub fn apart(rule: EliminateCrossJoin) -> impl OptimizerRule + Send + Sync + 'static {
    around(rule, run_apart)
}

/// DataFusion's rule that makes keys of equalities in conditions, but for joins whose keys take NULLs for equal: their other
/// conditions do not.
pub fn keyed(rule: ExtractEquijoinPredicate) -> impl OptimizerRule + Send + Sync + 'static {
    around(rule, |rule, plan, config| {
        let is_one = |node: &LogicalPlan| matches!(node, LogicalPlan::Join(join) if join.filter.is_some() && !is_keyed_null_safe(join));
        rewrite_nodes(plan, is_one, |node| rule.rewrite(node, config))
    })
}

fn is_keyed_null_safe(join: &Join) -> bool {
    join.null_equality == NullEquality::NullEqualsNull && !join.on.is_empty()
}

/// Runs the rule while such joins are behind fences.
fn run_apart(rule: &LogicalRule, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
    if !has_null_safe_join(&plan)? {
        return rule.rewrite(plan, config);
    }
    let fenced = plan.transform_up_with_subqueries(|node| {
        Ok(match node {
            LogicalPlan::Join(join) if is_null_safe(&join) => {
                let node: Arc<dyn UserDefinedLogicalNode> = Arc::new(Fence(join));
                Transformed::yes(LogicalPlan::Extension(Extension { node }))
            }
            other => Transformed::no(other),
        })
    })?;
    let rewritten = rule.rewrite(fenced.data, config)?;
    let free = rewritten.data.transform_up_with_subqueries(|node| {
        Ok(match &node {
            LogicalPlan::Extension(extension) => match extension.node.as_any().downcast_ref::<Fence>() {
                Some(Fence(join)) => Transformed::yes(LogicalPlan::Join(join.clone())),
                None => Transformed::no(node),
            },
            _ => Transformed::no(node),
        })
    })?;
    Ok(Transformed::new_transformed(free.data, rewritten.transformed))
}

fn is_null_safe(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull
}

fn has_null_safe_join(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| Ok(matches!(node, LogicalPlan::Join(join) if is_null_safe(join))))
}

/// A join that looks like something else.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Hash)]
struct Fence(Join);

impl UserDefinedLogicalNodeCore for Fence {
    fn name(&self) -> &str {
        "Fence"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.0.left, &self.0.right]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.0.schema
    }

    /// None that anybody may change.
    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fence")
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, inputs: Vec<LogicalPlan>) -> Result<Self> {
        let [left, right] = <[LogicalPlan; 2]>::try_from(inputs)
            .map_err(|inputs| DataFusionError::Internal(format!("a join of {} inputs", inputs.len())))?;
        Ok(Self(Join { left: Arc::new(left), right: Arc::new(right), ..self.0.clone() }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_goes_through_plans_by_itself() {
        assert!(EliminateCrossJoin::new().apply_order().is_none());
    }
}
