//! Subqueries that name columns of the queries around them, wherever they stand and whatever they compute. Each becomes a join
//! of the rows around it with the rows of the subquery for all of them (Neumann, Kemper: Unnesting Arbitrary Queries, BTW 2015;
//! Neumann: Improving Unnesting of Complex Queries, BTW 2025):
//!
//! ```text
//! project a, (SELECT count(*) FROM s WHERE s.x < outer t.a)      project a, "count"
//!   scan t                                                   →     shared rows #1
//!                                                                    scan t
//!                                                                    left join on a = "outer a"
//!                                                                      scan shared_1
//!                                                                      aggregate by "outer a": count(*)
//!                                                                        join on s.x < "outer a"
//!                                                                          distinct a as "outer a" of shared_1
//!                                                                          scan s
//! ```
//!
//! An equality with a column from outside makes the other side a key, and then the subquery reads nothing outside. The few forms
//! that DataFusion turns into joins by itself are left to it: filters at the top of EXISTS and IN, and aggregates of rows that
//! equal the row outside. Must run behind the rules that give a plan its types: what it makes has them.

mod binding;
mod join_places;
mod outer;
mod places;
mod push;
mod push_join;
mod push_named;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::AnalyzerRule;

use crate::plans::any_node;
use crate::references;
use crate::shared_rows::hoisted;
use crate::single_row::SingleValues;
use places::Unnester;

/// Turns subqueries into joins.
#[derive(Debug, Default)]
pub struct Unnesting {
    single: SingleValues,
}

impl AnalyzerRule for Unnesting {
    fn name(&self) -> &str {
        "unnesting"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !any_node(&plan, has_subquery)? {
            return Ok(plan);
        }
        hoisted(Unnester::new(&self.single).plan(plan, false)?)
    }
}

fn has_subquery(node: &LogicalPlan) -> Result<bool> {
    let mut found = matches!(node, LogicalPlan::Subquery(_));
    node.apply_expressions(|expr| {
        found = found || references::has_subquery(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}
