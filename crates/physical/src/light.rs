//! Which operators the thread that asks for their rows may run itself: it does not see that its query was cancelled as long as it computes.

use datafusion::physical_plan::ExecutionPlan;

/// Operators of which each poll takes milliseconds, or looks for itself whether its query was cancelled.
const LIGHT: [&str; 6] =
    ["ForebayPipelines", "CooperativeExec", "ProjectionExec", "PlaceholderRowExec", "EmptyExec", "ExplainExec"];

/// Whether all operators of a plan are such.
pub fn is_light(plan: &dyn ExecutionPlan) -> bool {
    LIGHT.contains(&plan.name()) && plan.children().into_iter().all(|child| is_light(child.as_ref()))
}
