//! A rule of DataFusion's that runs inside of a function of ours, which sees the operators before and behind it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// A rule for physical plans.
pub type PhysicalRule = dyn PhysicalOptimizerRule + Send + Sync;

/// What is run in the place of a rule for physical plans, with that rule.
type Optimize = fn(&PhysicalRule, Arc<dyn ExecutionPlan>, &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>>;

/// `rule` in the hands of `optimize`, which gets it with the plan.
pub(crate) fn around_physical<R: PhysicalOptimizerRule>(rule: R, optimize: Optimize) -> AroundPhysical<R> {
    AroundPhysical { rule, optimize }
}

/// A rule for physical plans inside of a function.
#[derive(Debug)]
pub struct AroundPhysical<R> {
    rule: R,
    optimize: Optimize,
}

impl<R: PhysicalOptimizerRule + Send + Sync + 'static> PhysicalOptimizerRule for AroundPhysical<R> {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        (self.optimize)(&self.rule, plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}
