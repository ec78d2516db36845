//! A rule of DataFusion's that runs inside of a function of ours, which sees the plan before and after it.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

/// A rule for logical plans.
pub type LogicalRule = dyn OptimizerRule + Send + Sync;
/// A rule for physical plans.
pub type PhysicalRule = dyn PhysicalOptimizerRule + Send + Sync;

/// `rule` in the hands of `rewrite`, which gets it with the whole plan.
pub(crate) fn around<R, F>(rule: R, rewrite: F) -> Around<R, F>
where
    R: OptimizerRule + Send + Sync + 'static,
    F: Fn(&LogicalRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> + Send + Sync,
{
    Around { rule, rewrite }
}

/// A rule for logical plans inside of a function.
pub struct Around<R, F> {
    rule: R,
    rewrite: F,
}

impl<R: fmt::Debug, F> fmt::Debug for Around<R, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Around").field(&self.rule).finish()
    }
}

impl<R, F> OptimizerRule for Around<R, F>
where
    R: OptimizerRule + Send + Sync + 'static,
    F: Fn(&LogicalRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> + Send + Sync,
{
    fn name(&self) -> &str {
        self.rule.name()
    }

    /// None: the function goes through the plan by itself.
    fn apply_order(&self) -> Option<ApplyOrder> {
        None
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        (self.rewrite)(&self.rule, plan, config)
    }
}

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
