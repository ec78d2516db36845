//! Which side of a join a hash table is made of, with one thread as with several: the side that is known to be small. With one
//! partition DataFusion's planner fixes the side before the sizes are compared, and they are only compared where both are known;
//! a side of unknown size may then fill the memory next to one of few rows.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};

use crate::around::{PhysicalRule, around_physical};

/// DataFusion's rule that chooses the sides of joins, with every join to choose for.
pub fn choosing(rule: JoinSelection) -> impl PhysicalOptimizerRule + Send + Sync + 'static {
    around_physical(rule, choose)
}

/// Runs the rule on the plan with every side open that is not given by the join's meaning.
fn choose(rule: &PhysicalRule, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let opened = plan.transform_up(|node| {
        let is_fixed = |join: &&HashJoinExec| *join.partition_mode() == PartitionMode::CollectLeft && !join.null_aware;
        match node.downcast_ref::<HashJoinExec>().filter(is_fixed) {
            Some(join) => Ok(Transformed::yes(join.builder().with_partition_mode(PartitionMode::Auto).build_exec()?)),
            None => Ok(Transformed::no(node)),
        }
    });
    rule.optimize(opened.data()?, config)
}
