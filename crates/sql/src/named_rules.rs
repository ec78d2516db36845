//! DataFusion's rules that run inside of ours: found by their names, in the places that they have in the order of all rules.
//!
//! Invariant: the rules keep their names and their order. A name that DataFusion does not know replaces nothing, so that
//! whoever wraps a rule has a test with `check`.

use std::sync::Arc;

use datafusion::optimizer::OptimizerRule;
use datafusion::physical_optimizer::PhysicalOptimizerRule;

/// A rule for logical plans.
pub(crate) type LogicalRule = dyn OptimizerRule + Send + Sync;
/// A rule for physical plans.
pub(crate) type PhysicalRule = dyn PhysicalOptimizerRule + Send + Sync;

/// What has a name that rules are found by.
pub(crate) trait Named {
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
pub(crate) fn wrapped<R: Named + ?Sized>(rules: &[Arc<R>], name: &str, wrap: impl Fn(Arc<R>) -> Arc<R>) -> Vec<Arc<R>> {
    let one = |rule: &Arc<R>| match rule.rule_name() == name {
        true => wrap(Arc::clone(rule)),
        false => Arc::clone(rule),
    };
    rules.iter().map(one).collect()
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
