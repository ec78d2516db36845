//! Filters that joins and top-k learn while they run stay above limits: below one, other rows would be the first ones.
//! DataFusion pushes them through whatever carries a limit, be it a scan of files or the merging of partitions.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;

use crate::named_rules::{PhysicalRule, wrapped};

/// The limit of a bar: none. A limit passes no filter down.
const NO_LIMIT: usize = usize::MAX;

/// DataFusion's rule, by its name.
const BARRED: &str = "FilterPushdown(Post)";

/// The rules with bars around the one that pushes filters of the run time.
pub(crate) fn with_bars(rules: &[Arc<PhysicalRule>]) -> Vec<Arc<PhysicalRule>> {
    wrapped(rules, BARRED, |rule| Arc::new(FiltersAboveLimits(rule)))
}

/// Runs the rule inside with a bar above everything that has a limit.
#[derive(Debug)]
struct FiltersAboveLimits(Arc<PhysicalRule>);

impl PhysicalOptimizerRule for FiltersAboveLimits {
    fn optimize(&self, plan: Arc<dyn ExecutionPlan>, config: &ConfigOptions) -> Result<Arc<dyn ExecutionPlan>> {
        let barred = plan.transform_up(|node| {
            Ok(match node.fetch() {
                Some(_) => Transformed::yes(Arc::new(LocalLimitExec::new(node, NO_LIMIT)) as Arc<dyn ExecutionPlan>),
                None => Transformed::no(node),
            })
        })?;
        let pushed = self.0.optimize(barred.data, config)?;
        if !barred.transformed {
            return Ok(pushed);
        }
        pushed
            .transform_up(|node| {
                let bar = node.downcast_ref::<LocalLimitExec>().filter(|limit| limit.fetch() == NO_LIMIT);
                Ok(match bar.map(|bar| Arc::clone(bar.input())) {
                    Some(input) => Transformed::yes(input),
                    None => Transformed::no(node),
                })
            })
            .data()
    }

    fn name(&self) -> &str {
        BARRED
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::named_rules::check;
    use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;

    #[test]
    fn the_rule_of_the_run_time_is_barred() {
        let rules = PhysicalOptimizer::new().rules;
        check(&rules, BARRED, &with_bars(&rules));
    }
}
