//! All rules that operators go through, in DataFusion's order, with ours behind them. A rule of ours says why it is there, what
//! DataFusion's issue is called that it makes good (apache/datafusion), and where it is tested.
//!
//! Invariant: a rule of a new version of DataFusion's is listed here or left out.

use std::sync::Arc;

use datafusion::physical_optimizer::aggregate_statistics::AggregateStatistics;
use datafusion::physical_optimizer::combine_partial_final_agg::CombinePartialFinalAggregate;
use datafusion::physical_optimizer::ensure_coop::EnsureCooperative;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::join_selection::JoinSelection;
use datafusion::physical_optimizer::limit_pushdown::LimitPushdown;
use datafusion::physical_optimizer::limit_pushdown_past_window::LimitPushPastWindows;
use datafusion::physical_optimizer::limited_distinct_aggregation::LimitedDistinctAggregation;
use datafusion::physical_optimizer::output_requirements::OutputRequirements;
use datafusion::physical_optimizer::projection_pushdown::ProjectionPushdown;
use datafusion::physical_optimizer::pushdown_sort::PushdownSort;
use datafusion::physical_optimizer::sanity_checker::SanityCheckPlan;
use datafusion::physical_optimizer::topk_repartition::TopKRepartition;
use datafusion::physical_optimizer::update_aggr_exprs::OptimizeAggregateOrder;

use crate::around::PhysicalRule;
use crate::build_sides::choosing;
use crate::cancel::CancellableJoins;
use crate::compact_strings::CompactStrings;
use crate::guarded_scans::GuardedScans;
use crate::hidden_facts::hiding_facts;
use crate::large_limits::LargeLimits;
use crate::lone_partitions::LonePartitions;
use crate::pushdown::{filters_barred, made_filters_barred};
use crate::settled::unsettled;
use crate::whole_partitions::WholePartitions;
use forebay_subqueries::branches::Branches;

/// Rules for physical plans, run once. A carved plan is one operator, or few, to them: what they change is what DataFusion
/// runs, above it or in its place. Left out: `TopKAggregation`, which failed and lost rows more than once (#7608, #12748,
/// #19219, #25350), and what does nothing unless it is switched on, `WindowTopN` and `HashJoinBuffering`.
pub fn physical() -> Vec<Arc<PhysicalRule>> {
    vec![
        Arc::new(OutputRequirements::new_add_mode()),
        Arc::new(AggregateStatistics::new()),
        // Choosing: with one thread, sides are fixed before their sizes are compared. No issue known; program.py.
        // Hiding: constants, equal columns and missing limits would be taken for more than they are, and sorts left out or refused. No
        // issue known; outer_constants.test, same_names.test, constant_keys.test, offset_orders.test.
        Arc::new(hiding_facts(choosing(JoinSelection::new()))),
        Arc::new(LimitedDistinctAggregation::new()),
        // Barred, here and below: filters find columns by name, and go through limits. #25244, #25262, #25263, #25264, #25296,
        // #21063; pushdown.test.
        Arc::new(filters_barred()),
        // Unsettled: would go eight times through plans of one operator. settled.rs.
        Arc::new(unsettled(EnsureRequirements::new())),
        Arc::new(CombinePartialFinalAggregate::new()),
        Arc::new(OptimizeAggregateOrder::new()),
        Arc::new(ProjectionPushdown::new()),
        Arc::new(OutputRequirements::new_remove_mode()),
        Arc::new(LimitPushPastWindows::new()),
        Arc::new(LimitPushdown::new()),
        Arc::new(TopKRepartition::new()),
        Arc::new(ProjectionPushdown::new()),
        Arc::new(PushdownSort::new()),
        Arc::new(EnsureCooperative::new()),
        Arc::new(made_filters_barred()),
        Arc::new(SanityCheckPlan::new()),
        // No join waits for a partition that nobody reads. #21666 has it for joins of partitions only; subqueries.test. Behind the
        // rule that makes dynamic filters.
        Arc::new(LonePartitions),
        // Frames that end before their row wait for the rows beside NULL. No issue known; frames.test.
        Arc::new(WholePartitions),
        // UNION ALL has its rows in the order of its branches. No issue: DataFusion has no such order; branches.test.
        Arc::new(Branches),
        // Who keeps rows keeps no chunks. No issue: our scans hand out views; robustness/memory.py. In front of LargeLimits, which
        // hides sorts.
        Arc::new(CompactStrings),
        // Limits whose rows do not fit in memory sort on disk. No issue known; robustness/memory.py. Behind the rules that know sorts.
        Arc::new(LargeLimits),
        // Panics of readers are errors, and errors name their file. No issue: files may hold anything;
        // robustness/spoiled_files.py. Behind the rules that know scans.
        Arc::new(GuardedScans),
        // Joins look at the statement's cancel flag. #19358; robustness/cancel.py. Last: no rule knows it.
        Arc::new(CancellableJoins),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::physical_optimizer::PhysicalOptimizerRule;
    use datafusion::physical_optimizer::hash_join_buffering::HashJoinBuffering;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
    use datafusion::physical_optimizer::topk_aggregation::TopKAggregation;
    use datafusion::physical_optimizer::window_topn::WindowTopN;

    #[test]
    fn datafusions_rules_are_listed_or_left_out() {
        let (rules, theirs) = (physical(), PhysicalOptimizer::new().rules);
        let listed: Vec<&str> = rules.iter().map(|rule| rule.name()).collect();
        let (groups, windows, joins) = (TopKAggregation::new(), WindowTopN::new(), HashJoinBuffering::new());
        let left_out = [groups.name(), windows.name(), joins.name()];
        let ours = [
            LonePartitions.name(),
            WholePartitions.name(),
            Branches.name(),
            CompactStrings.name(),
            LargeLimits.name(),
            GuardedScans.name(),
            CancellableJoins.name(),
        ];
        let theirs: Vec<&str> = theirs.iter().map(|rule| rule.name()).collect();
        assert!(left_out.iter().all(|name| theirs.contains(name)), "{left_out:?} not all among {theirs:?}");
        let theirs: Vec<&str> = theirs.into_iter().filter(|name| !left_out.contains(name)).collect();
        let (theirs_listed, ours_listed) = listed.split_at(listed.len() - ours.len());
        assert_eq!((theirs_listed, ours_listed), (theirs.as_slice(), ours.as_slice()));
    }
}
