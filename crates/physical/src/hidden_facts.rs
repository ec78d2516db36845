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

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::around::{PhysicalRule, around_physical};
use crate::streamed::Streamed;

/// The rule behind which sides of joins are chosen, with facts hidden from outer joins and unions.
pub fn hiding_facts<R>(rule: R) -> impl PhysicalOptimizerRule + Send + Sync + 'static
where
    R: PhysicalOptimizerRule + Send + Sync + 'static,
{
    around_physical(rule, hide)
}

fn hide(rule: &PhysicalRule, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let hidden = rule.optimize(plan, config)?.transform_up(|node| {
        let inputs = node.children();
        let is_hidden: Vec<bool> = match node.is::<UnionExec>() {
            true => inputs.iter().map(|branch| has_equal_columns(branch)).collect(),
            // Which sides have NULL in the place of their rows.
            false => match join_type(&*node) {
                Some(JoinType::Left) => vec![false, has_constants(inputs[1])],
                Some(JoinType::Right) => vec![has_constants(inputs[0]), false],
                Some(JoinType::Full) => inputs.iter().map(|side| has_constants(side)).collect(),
                _ => return Ok(Transformed::no(node)),
            },
        };
        if !is_hidden.contains(&true) {
            return Ok(Transformed::no(node));
        }
        let inputs = inputs.into_iter().zip(is_hidden).map(|(input, is_hidden)| match is_hidden {
            true => Streamed::apart(Arc::clone(input), "FactsHidden", as_it_is),
            false => Arc::clone(input),
        });
        let inputs = inputs.collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(node.replace_children(inputs, options)?))
    });
    hidden.data()
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

fn has_equal_columns(input: &Arc<dyn ExecutionPlan>) -> bool {
    input.equivalence_properties().eq_group().iter().any(|equal| equal.iter().count() > 1)
}

fn as_it_is(input: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
    input
}
