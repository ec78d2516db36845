//! From DataFusion's plan of a query to its operators: optimised by all rules, with pipelines carved out, and kept for the next time
//! that it is asked ([`kept`]); and run until they have rows ([`send`]).
//!
//! Must not know: what a statement says, sessions, what rules do, what is carved.
#![forbid(unsafe_code)]

pub mod kept;
pub mod send;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::ExecutionPlan;
use forebay_rules::optimize::optimized;

/// The operators of a plan that is not optimised.
pub async fn operators(plan: &LogicalPlan, state: &SessionState) -> Result<Arc<dyn ExecutionPlan>> {
    forebay_carve::operators(&carved(plan, state)?, state).await
}

fn carved(plan: &LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    forebay_carve::carved(optimized(plan, state)?, state)
}
