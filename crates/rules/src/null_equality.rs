//! Joins that take NULLs for equal (`IS NOT DISTINCT FROM`): DataFusion's rule that makes keys of a join's other conditions
//! gives these the treatment of its keys.
//!
//! Invariant: a join leaves the rule with the treatment of NULLs that it came with.

use datafusion::common::NullEquality;
use datafusion::logical_expr::{Join, LogicalPlan};
use datafusion::optimizer::OptimizerRule;
use datafusion::optimizer::extract_equijoin_predicate::ExtractEquijoinPredicate;

use crate::around::around;
use forebay_subqueries::plans::rewrite_nodes;

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
