//! Constants of a side of an outer join are none behind it: rows without a partner have NULL in their place. DataFusion takes them for
//! constants of the join's rows, too, and leaves out sorts by them:
//!
//! ```text
//! SELECT rank() OVER (ORDER BY z.c NULLS FIRST) FROM (SELECT a, 5 AS c FROM s) z RIGHT JOIN t USING (a)
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{JoinType, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{ChildrenPropertiesMode, ReplaceChildrenOptions};
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::around::{PhysicalRule, around_physical};
use crate::streamed::Streamed;

/// The rule behind which sides of joins are chosen, with constants hidden from outer joins.
pub fn hiding_constants<R>(rule: R) -> impl PhysicalOptimizerRule + Send + Sync + 'static
where
    R: PhysicalOptimizerRule + Send + Sync + 'static,
{
    around_physical(rule, hide)
}

fn hide(rule: &PhysicalRule, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
    let hidden = rule.optimize(plan, config)?.transform_up(|node| {
        let join_type = match node.downcast_ref::<HashJoinExec>() {
            Some(join) => Some(*join.join_type()),
            None => node.downcast_ref::<NestedLoopJoinExec>().map(|join| *join.join_type()),
        };
        // Which sides have NULL in the place of their rows.
        let optional = match join_type {
            Some(JoinType::Left) => [false, true],
            Some(JoinType::Right) => [true, false],
            Some(JoinType::Full) => [true, true],
            _ => return Ok(Transformed::no(node)),
        };
        let has_constants = |side: &Arc<dyn ExecutionPlan>| !side.equivalence_properties().constants().is_empty();
        let sides = node.children();
        if !sides.iter().zip(optional).any(|(side, is_optional)| is_optional && has_constants(side)) {
            return Ok(Transformed::no(node));
        }
        let hidden =
            sides.into_iter().zip(optional).map(|(side, is_optional)| match is_optional && has_constants(side) {
                true => Streamed::apart(Arc::clone(side), "Optional", as_it_is),
                false => Arc::clone(side),
            });
        let sides = hidden.collect();
        let options = ReplaceChildrenOptions::new(ChildrenPropertiesMode::Recompute);
        Ok(Transformed::yes(node.replace_children(sides, options)?))
    });
    hidden.data()
}

fn as_it_is(input: SendableRecordBatchStream, _context: &TaskContext) -> SendableRecordBatchStream {
    input
}
