//! DataFusion's rules that run inside of ours: found by their names, in the places that they have in the order of all rules.
//!
//! Invariant: the rules keep their names and their order. A name that DataFusion does not know replaces nothing, so that
//! whoever wraps a rule has a test with `check`.

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

/// What has a name that rules are found by.
pub trait Named {
    /// The rule's name.
    fn rule_name(&self) -> &str;
}

impl Named for LogicalRule {
    fn rule_name(&self) -> &str {
        self.name()
    }
}

impl Named for PhysicalRule {
    fn rule_name(&self) -> &str {
        self.name()
    }
}

/// The rules, the one of this name inside of what `wrap` makes of it.
pub fn wrapped<R: Named + ?Sized>(rules: &[Arc<R>], name: &str, wrap: impl Fn(Arc<R>) -> Arc<R>) -> Vec<Arc<R>> {
    let one = |rule: &Arc<R>| match rule.rule_name() == name {
        true => wrap(Arc::clone(rule)),
        false => Arc::clone(rule),
    };
    rules.iter().map(one).collect()
}

/// The rules, with `rewrite` in the place of the one of this name, which it gets with the whole plan.
pub fn around<F>(rules: &[Arc<LogicalRule>], name: &str, rewrite: F) -> Vec<Arc<LogicalRule>>
where
    F: Fn(&LogicalRule, LogicalPlan, &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>>,
    F: Copy + Send + Sync + 'static,
{
    wrapped(rules, name, |rule| Arc::new(Around { rule, rewrite }))
}

/// A rule for logical plans inside of a function.
struct Around<F> {
    rule: Arc<LogicalRule>,
    rewrite: F,
}

impl<F> fmt::Debug for Around<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Around").field(&self.rule).finish()
    }
}

impl<F> OptimizerRule for Around<F>
where
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
        (self.rewrite)(&*self.rule, plan, config)
    }
}

/// What is run in the place of a rule for physical plans, with that rule.
type Optimize = fn(&PhysicalRule, Arc<dyn ExecutionPlan>, &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>>;

/// The rules, with `optimize` in the place of the one of this name, which it gets with the plan.
pub fn around_physical(rules: &[Arc<PhysicalRule>], name: &str, optimize: Optimize) -> Vec<Arc<PhysicalRule>> {
    wrapped(rules, name, |rule| Arc::new(AroundPhysical { rule, optimize }))
}

/// A rule for physical plans inside of a function.
#[derive(Debug)]
struct AroundPhysical {
    rule: Arc<PhysicalRule>,
    optimize: Optimize,
}

impl PhysicalOptimizerRule for AroundPhysical {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        (self.optimize)(&*self.rule, plan, config)
    }

    fn name(&self) -> &str {
        self.rule.name()
    }

    fn schema_check(&self) -> bool {
        self.rule.schema_check()
    }
}

/// Panics unless DataFusion has one rule of this name among `rules`, and `after` are the same rules with that one wrapped.
#[cfg(test)]
pub(crate) fn check<R: Named + ?Sized>(rules: &[Arc<R>], name: &str, after: &[Arc<R>]) {
    fn names<R: Named + ?Sized>(rules: &[Arc<R>]) -> Vec<&str> {
        rules.iter().map(|rule| rule.rule_name()).collect()
    }
    assert_eq!(names(rules).iter().filter(|known| **known == name).count(), 1, "{name}");
    assert_eq!(names(after), names(rules));
    for (before, after) in rules.iter().zip(after).filter(|(rule, _)| rule.rule_name() == name) {
        assert!(!Arc::ptr_eq(before, after), "{name} runs by itself");
    }
}
