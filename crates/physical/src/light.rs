//! Which plans are run by the thread that planned them until they have rows. Others are left to the workers: this thread may be the one
//! that asked, which does not see that its query was cancelled as long as it computes.

use datafusion::physical_plan::ExecutionPlan;
use forebay_context::PIPELINES;

/// Operators of which each poll takes milliseconds, or looks for itself whether its query was cancelled.
const LIGHT: [&str; 6] =
    [PIPELINES, "CooperativeExec", "ProjectionExec", "PlaceholderRowExec", "EmptyExec", "ExplainExec"];

/// Whether all operators of a plan are such.
pub fn is_light(plan: &dyn ExecutionPlan) -> bool {
    LIGHT.contains(&plan.name()) && plan.children().into_iter().all(|child| is_light(child.as_ref()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::Schema;
    use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
    use datafusion::physical_plan::coop::CooperativeExec;
    use datafusion::physical_plan::empty::EmptyExec;

    use super::*;

    #[test]
    fn one_operator_that_is_not_light_makes_a_plan_that_is_not() {
        let leaf: Arc<dyn ExecutionPlan> = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
        let light = Arc::new(CooperativeExec::new(Arc::clone(&leaf)));
        assert!(is_light(light.as_ref()));
        let heavy: Arc<dyn ExecutionPlan> = Arc::new(CoalescePartitionsExec::new(leaf));
        assert!(!is_light(heavy.as_ref()));
        assert!(!is_light(&CooperativeExec::new(heavy)));
    }
}
