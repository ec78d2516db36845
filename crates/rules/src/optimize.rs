//! From the plan that a statement means to the one that operators are made of.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Explain, InvariantLevel, LogicalPlan};

use crate::driver::run;
use crate::list::steps;

/// The analysed and optimised plan of a query.
pub fn optimized(plan: &LogicalPlan, state: &SessionState) -> Result<LogicalPlan> {
    match plan {
        // DataFusion's way tells the plan behind every rule, and goes through the rules as often as it is told to.
        LogicalPlan::Explain(explain) if explain.verbose || state.config_options().optimizer.max_passes != 1 => {
            state.optimize(plan)
        }
        LogicalPlan::Explain(explain) => {
            let inner = Arc::new(optimized(&explain.plan, state)?);
            Ok(LogicalPlan::Explain(Explain { plan: inner, logical_optimization_succeeded: true, ..explain.clone() }))
        }
        plan => {
            let mut plan = plan.clone();
            for rule in &state.analyzer().rules {
                let analyzed = rule.analyze(plan, state.config_options());
                plan = analyzed.map_err(|error| error.context(rule.name()))?;
            }
            plan.check_invariants(InvariantLevel::Executable)
                .map_err(|error| error.context("Invalid (non-executable) plan after Analyzer"))?;
            run(steps(), plan, state)
        }
    }
}
