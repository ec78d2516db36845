//! Joins that DataFusion lacks, as joins over windows that it has: by the places of rows ([`positional`]) and with the nearest row
//! ([`nearest`]), and the keys of inner joins that are written elsewhere ([`inner`]). Their conditions are calls of the functions in [`conditions`] until [`MarkedJoins`] finds them. What reads rows by their
//! places reads them in order ([`reading_order`]).
//!
//! Must not know: SQL text, tables, other rules.
#![forbid(unsafe_code)]

pub mod conditions;
pub mod inner;
mod nearest;
mod positional;
pub mod reading_order;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

/// Writes out POSITIONAL and ASOF joins. Must run before the rules that give a plan its types.
#[derive(Debug)]
pub struct MarkedJoins;

impl AnalyzerRule for MarkedJoins {
    fn name(&self) -> &str {
        "marked_joins"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.apply_with_subqueries(|node| {
            found = matches!(node, LogicalPlan::Join(join) if positional::is_marked(join) || nearest::is_marked(join));
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        if !found {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Join(join) if positional::is_marked(&join) => positional::written(&join).map(Transformed::yes),
            LogicalPlan::Join(join) if nearest::is_marked(&join) => nearest::written(&join).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}
