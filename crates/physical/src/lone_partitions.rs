//! Joins whose partitions may end by themselves. A join that collects its build side once, and makes a dynamic filter of it, has
//! each of its partitions wait until all of them have begun; one that is dropped before is waited for for ever. The probe side of
//! a join of partitions is dropped where its build side has no row, so that no join below waits for the others there.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode, SortMergeJoinExec, SymmetricHashJoinExec};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

/// Takes the dynamic filters away from such joins. Must run behind the rule that makes them.
#[derive(Debug)]
pub struct LonePartitions;

impl PhysicalOptimizerRule for LonePartitions {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, _config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        freed(plan, false)
    }

    fn name(&self) -> &str {
        "lone_partitions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// `plan` without such filters; `may_end` tells whether one of its partitions may be dropped while others are read.
fn freed(plan: Arc<dyn ExecutionPlan>, may_end: bool) -> Result<Arc<dyn ExecutionPlan>> {
    let children = plan.children().into_iter().map(Arc::clone).enumerate();
    let children = children
        .map(|(at, child)| freed(child, input_may_end(plan.as_ref(), at, may_end)))
        .collect::<Result<Vec<_>>>()?;
    let plan = replace_children_if_necessary(plan, children)?;
    match plan.downcast_ref::<HashJoinExec>() {
        Some(join) if may_end && is_collected(join) && !join.dynamic_expressions_produced().is_empty() => {
            join.builder().reset_state().build_exec()
        }
        _ => Ok(plan),
    }
}

fn is_collected(join: &HashJoinExec) -> bool {
    *join.partition_mode() == PartitionMode::CollectLeft
}

fn input_may_end(plan: &dyn ExecutionPlan, input: usize, may_end: bool) -> bool {
    if let Some(join) = plan.downcast_ref::<HashJoinExec>() {
        return match (is_collected(join), input) {
            // Collected by one stream, for all.
            (true, 0) => false,
            (false, 1) => true,
            _ => may_end,
        };
    }
    // They read all partitions of their input until nobody wants any of theirs.
    let reads_all =
        plan.is::<RepartitionExec>() || plan.is::<CoalescePartitionsExec>() || plan.is::<SortPreservingMergeExec>();
    !reads_all && (may_end || plan.is::<SortMergeJoinExec>() || plan.is::<SymmetricHashJoinExec>())
}
