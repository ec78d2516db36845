//! What DataFusion knows of the rows of an input and takes for known of the rows of the operator above, though it is not true of these or
//! not used alike there: it is hidden from that operator.
//!
//! Constants of a side of an outer join are none behind it: rows without a partner have NULL in their place. Sorts by them were left
//! out:
//!
//! ```text
//! SELECT rank() OVER (ORDER BY z.c NULLS FIRST) FROM (SELECT a, 5 AS c FROM s) z RIGHT JOIN t USING (a)
//! ```
//!
//! Columns of one branch of UNION ALL that are equal need not be in the others. That branch alone was said to be sorted by the first of
//! them, which is less than the other branches, and the union failed as not sorted:
//!
//! ```text
//! SELECT s.a, t.a FROM s JOIN t USING (a) UNION ALL SELECT 5, 6 ORDER BY 1, 2
//! ```
//!
//! Constants among the keys of a sort, or of a window, are taken for constants of all partitions: such a sort failed.
//!
//! ```text
//! SELECT id, row_number() OVER (PARTITION BY g ORDER BY id) AS n FROM t QUALIFY n = 1 AND k > 0 ORDER BY n, id
//! ```
//!
//! Keys of ROLLUP that are constants, or equal, are neither in its rows, some of which have NULL in their place: sorts by them were left
//! out.
//!
//! ```text
//! SELECT 'all' AS c, count(*) FROM t GROUP BY ROLLUP ('all') ORDER BY c
//! ```
//!
//! The order below an OFFSET without a LIMIT says which rows are left out. Sorts from above took its place, since no LIMIT stood between:
//!
//! ```text
//! SELECT id FROM (SELECT id FROM t ORDER BY x OFFSET 2) ORDER BY id
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::windows::{BoundedWindowAggExec, WindowAggExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::around::{PhysicalRule, around_physical};
use crate::streamed::Streamed;

/// The rule behind which sides of joins are chosen, with facts hidden from what stands above joins, unions, grouping sets and limits, and
/// from sorts and windows.
pub fn hiding_facts<R>(rule: R) -> impl PhysicalOptimizerRule + Send + Sync + 'static
where
    R: PhysicalOptimizerRule + Send + Sync + 'static,
{
    around_physical(rule, hide)
}

fn hide(rule: &PhysicalRule, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let hidden = rule.optimize(plan, config)?.transform_up(|node| {
        if let Some(limit) = node.downcast_ref::<GlobalLimitExec>()
            && limit.skip() > 0
            && limit.fetch().is_none()
        {
            let limit = GlobalLimitExec::new(kept_in_order(limit.input())?, limit.skip(), None);
            return Ok(Transformed::yes(Streamed::apart(Arc::new(limit), NAME, as_it_is)));
        }
        if is_of_grouping_sets(&*node) {
            return Ok(Transformed::yes(apart(&node)));
        }
        let inputs = node.children();
        let is_hidden = match inputs_to_hide(&*node, &inputs) {
            is_hidden if is_hidden.contains(&true) => is_hidden,
            _ => return Ok(Transformed::no(node)),
        };
        let inputs = inputs.into_iter().zip(is_hidden).map(|(input, is_hidden)| match is_hidden {
            true => apart(input),
            false => Arc::clone(input),
        });
        let inputs = inputs.collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(node.replace_children(inputs, options)?))
    });
    hidden.data()
}

/// Of each input whether its facts are hidden; nothing where none has any.
fn inputs_to_hide(node: &dyn ExecutionPlan, inputs: &[&Arc<dyn ExecutionPlan>]) -> Vec<bool> {
    if node.is::<UnionExec>() {
        return inputs.iter().map(|branch| has_equal_columns(branch)).collect();
    }
    if let Some(sort) = node.downcast_ref::<SortExec>() {
        let known = sort.input().equivalence_properties();
        return vec![sort.expr().iter().any(|key| known.is_expr_constant(&key.expr).is_some())];
    }
    if node.is::<WindowAggExec>() || node.is::<BoundedWindowAggExec>() {
        let orders = node.required_input_ordering();
        return inputs.iter().zip(orders).map(|(input, order)| has_constant_key(input, order)).collect();
    }
    // Which sides have NULL in the place of their rows.
    match (join_type(node), inputs) {
        (Some(JoinType::Left), [_, right]) => vec![false, has_constants(right)],
        (Some(JoinType::Right), [left, _]) => vec![has_constants(left), false],
        (Some(JoinType::Full), _) => inputs.iter().map(|side| has_constants(side)).collect(),
        _ => Vec::new(),
    }
}

/// Whether these are groups of grouping sets, none that are yet to be put together: in some of them keys are NULL.
fn is_of_grouping_sets(node: &dyn ExecutionPlan) -> bool {
    let Some(groups) = node.downcast_ref::<AggregateExec>().filter(|groups| *groups.mode() != AggregateMode::Partial)
    else {
        return false;
    };
    let mut input = groups.input();
    while input.is::<RepartitionExec>() || input.is::<CoalescePartitionsExec>() {
        let [below] = input.children()[..] else { return false };
        input = below;
    }
    let is_partial = |groups: &&AggregateExec| *groups.mode() == AggregateMode::Partial;
    let partial = input.downcast_ref::<AggregateExec>().filter(is_partial);
    !partial.unwrap_or(groups).group_expr().is_single()
}

/// What EXPLAIN shows where facts are hidden.
const NAME: &str = "FactsHidden";

fn apart(input: &Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Streamed::apart(Arc::clone(input), NAME, as_it_is)
}

/// The rows in the order of the sort below projections, which nothing from above can take away.
fn kept_in_order(plan: &Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if plan.is::<SortExec>() {
        return Ok(Streamed::ordered(Arc::clone(plan), NAME, as_it_is));
    }
    match (plan.is::<ProjectionExec>(), plan.children().as_slice()) {
        (true, [input]) => {
            let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
            Arc::clone(plan).replace_children(vec![kept_in_order(input)?], options)
        }
        _ => Ok(Arc::clone(plan)),
    }
}

fn join_type(node: &dyn ExecutionPlan) -> Option<JoinType> {
    match node.downcast_ref::<HashJoinExec>() {
        Some(join) => Some(*join.join_type()),
        None => node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()),
    }
}

fn has_constants(input: &Arc<dyn ExecutionPlan>) -> bool {
    !input.equivalence_properties().constants().is_empty()
}

/// Whether a key of the order that an operator needs of an input is one constant there.
fn has_constant_key(input: &Arc<dyn ExecutionPlan>, order: Option<OrderingRequirements>) -> bool {
    let known = input.equivalence_properties();
    order.is_some_and(|order| order.first().iter().any(|key| known.is_expr_constant(&key.expr).is_some()))
}

fn has_equal_columns(input: &Arc<dyn ExecutionPlan>) -> bool {
    input.equivalence_properties().eq_group().iter().any(|equal| equal.iter().count() > 1)
}

fn as_it_is(input: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
    input
}
