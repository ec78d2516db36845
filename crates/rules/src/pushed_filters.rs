//! Groups that are there without rows: the only group of an aggregation without keys, and those of an empty grouping set. A filter
//! above them drops them, and the same filter below does not, which DataFusion forgets of filters that name no column:
//!
//! ```text
//! SELECT n FROM (SELECT 3 AS c, count(*) AS n FROM t) WHERE c < 1
//! ```
//!
//! Invariant: no filter comes below such groups.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// DataFusion's rule that moves filters towards scans, but not through groups that are there without rows.
#[derive(Debug, Default)]
pub struct PushedFilters(PushDownFilter);

impl OptimizerRule for PushedFilters {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match &plan {
            LogicalPlan::Filter(filter) if gives_groups_of_no_rows(&filter.input) => Ok(Transformed::no(plan)),
            _ => self.0.rewrite(plan, config),
        }
    }
}

/// Whether this makes such groups, under filters that would be made one with the filter above.
fn gives_groups_of_no_rows(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(filter) => gives_groups_of_no_rows(&filter.input),
        LogicalPlan::Aggregate(aggregate) => {
            let keys = &aggregate.group_expr;
            keys.is_empty() || keys.iter().any(|key| matches!(key, Expr::GroupingSet(_)))
        }
        _ => false,
    }
}
