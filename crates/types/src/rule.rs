//! What plans mean where values have types of texts: casts check them, values of one ENUM are ordered by their places, and results
//! of such a type are marked as such. Behind this rule they are texts like others, which is right for all that asks for equality.
//!
//! DataFusion hands marks of fields on where it sees them as they are; the rule goes by what SQL means.

mod calls;
mod comparisons;
mod elements;
mod nested;
mod nodes;
mod typing;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::analyzer::AnalyzerRule;

use crate::bit_functions::calls::is_operator;
use crate::functions::{is_marked, is_named};
use crate::own::is_inside;
use crate::sums;

/// The rule. Before all that looks at types.
#[derive(Debug)]
pub struct OwnTypes;

impl AnalyzerRule for OwnTypes {
    fn name(&self) -> &str {
        "own_types"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        applied(sums::told(plan)?)
    }
}

/// The plan with its types of texts as SQL means them, and a schema that tells them.
pub fn applied(plan: LogicalPlan) -> Result<LogicalPlan> {
    match concerns(&plan)? {
        true => plan.transform_up_with_subqueries(nodes::rewrite).map(|done| done.data),
        false => Ok(plan),
    }
}

/// Whether there is a value of such a type in a plan.
fn concerns(plan: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        let is_one = |data_type: &_| is_inside(data_type);
        let mut fields = node.schema().fields().iter();
        found = found || fields.any(|field| is_marked(field) || is_one(field.data_type()));
        if !found {
            node.apply_expressions(|expr| {
                expr.apply(|part| {
                    found = match part {
                        Expr::Cast(cast) => is_marked(&cast.field) || is_one(cast.field.data_type()),
                        Expr::TryCast(cast) => is_marked(&cast.field) || is_one(cast.field.data_type()),
                        Expr::ScalarFunction(call) => is_named(call.name()) || gives_own(call.name()),
                        _ => false,
                    };
                    Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
                })
            })?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Whether a function of this name may give a value of such a type, of whatever it takes, or refuses other texts.
fn gives_own(name: &str) -> bool {
    matches!(name, "uuid" | "to_json" | "set_bit" | "bitstring") || name.starts_with("json") || is_operator(name)
}
