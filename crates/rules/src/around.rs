//! A rule of DataFusion's that runs inside of a function of ours, which sees the plan before and after it.

use std::fmt;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// A rule for logical plans.
pub type LogicalRule = dyn OptimizerRule + Send + Sync;

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
