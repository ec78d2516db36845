//! DataFusion's rule that gives operators the partitions and orders that they ask for goes through a plan eight times. Most carved
//! plans are one operator with one partition, perhaps with a sort and a limit above it, and have what they ask for.
//!
//! Invariant: what the rule is left out for is what it would leave as it is.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::ensure_requirements::EnsureRequirements;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};

use crate::around::around_physical;

/// The rule for plans that may lack something.
pub fn unsettled(rule: EnsureRequirements) -> impl PhysicalOptimizerRule + Send + Sync + 'static {
    around_physical(rule, |rule, plan, config| match is_settled(&plan)? {
        true => Ok(plan),
        false => rule.optimize(plan, config),
    })
}

/// Whether a plan is an operator without inputs and with one partition, below limits, and below a sort if an order is asked for.
fn is_settled(plan: &Arc<dyn ExecutionPlan>) -> Result<bool> {
    let (mut node, mut is_ordered, mut is_sorted) = (plan, false, false);
    loop {
        let inputs = node.children();
        let [input] = inputs.as_slice() else {
            let is_whole = inputs.is_empty() && node.output_partitioning().partition_count() == 1;
            return Ok(is_whole && is_ordered == is_sorted);
        };
        if let Some(sort) = node.downcast_ref::<SortExec>() {
            let is_needed = !input.equivalence_properties().ordering_satisfy(sort.expr().iter().cloned())?;
            if is_sorted || sort.preserve_partitioning() || !is_needed {
                return Ok(false);
            }
            is_sorted = true;
        } else if node.is::<OutputRequirementExec>() {
            is_ordered |= node.required_input_ordering().iter().any(Option::is_some);
        } else if !node.is::<GlobalLimitExec>() {
            return Ok(false);
        }
        node = input;
    }
}
