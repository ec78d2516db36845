//! Whether a plan computes anything twice. DataFusion's rule that looks for what several expressions of an operator have in common
//! hashes and compares all of their parts, names and signatures of functions included; most plans have nothing for it.
//!
//! Invariant: a plan without two equal parts in one operator has none here; others may have, too.

use std::hash::{DefaultHasher, Hash, Hasher};

use datafusion::common::Result;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan};

use crate::plans::any_node;

/// Whether an operator may compute something twice. Windows above each other are one operator to the rule.
///
/// # Errors
/// None but those of DataFusion's walks over plans.
pub fn computes_twice(plan: &LogicalPlan) -> Result<bool> {
    let mut windows = 0;
    any_node(plan, |node| {
        windows += usize::from(matches!(node, LogicalPlan::Window(_)));
        let mut seen = Seen::default();
        node.apply_expressions(|expr| {
            seen.look(expr)?;
            Ok(if seen.repeats { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
        Ok(seen.repeats || windows > 1)
    })
}

/// What an operator computes, by numbers that are the same for equal expressions.
#[derive(Default)]
struct Seen {
    numbers: Vec<u64>,
    repeats: bool,
}

impl Seen {
    /// The number of an expression, whose parts are looked at first.
    fn look(&mut self, expr: &Expr) -> Result<u64> {
        let mut hasher = DefaultHasher::new();
        std::mem::discriminant(expr).hash(&mut hasher);
        match expr {
            // These are no work.
            Expr::Column(column) => {
                column.name.hash(&mut hasher);
                return Ok(hasher.finish());
            }
            Expr::Literal(value, _) => {
                value.hash(&mut hasher);
                return Ok(hasher.finish());
            }
            Expr::Alias(alias) => return self.look(&alias.expr),
            Expr::BinaryExpr(BinaryExpr { op, .. }) => op.hash(&mut hasher),
            Expr::ScalarFunction(call) => call.name().hash(&mut hasher),
            Expr::AggregateFunction(call) => call.func.name().hash(&mut hasher),
            _ => {}
        }
        expr.apply_children(|part| {
            self.look(part)?.hash(&mut hasher);
            Ok(TreeNodeRecursion::Continue)
        })?;
        let number = hasher.finish();
        self.repeats = self.repeats || self.numbers.contains(&number);
        self.numbers.push(number);
        Ok(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::{LogicalPlanBuilder, col, lit};

    fn projected(columns: Vec<Expr>) -> LogicalPlan {
        let values = LogicalPlanBuilder::values(vec![vec![lit(1), lit(2)]]).expect("values");
        values.project(columns).and_then(LogicalPlanBuilder::build).expect("a projection")
    }

    #[test]
    fn what_is_computed_twice_is_seen() {
        let sum = || col("column1") + col("column2");
        assert!(
            computes_twice(&projected(vec![(sum() * lit(2)).alias("a"), (sum() * lit(3)).alias("b")])).expect("a plan")
        );
        assert!(!computes_twice(&projected(vec![(sum() * lit(2)).alias("a"), col("column1")])).expect("a plan"));
        assert!(
            !computes_twice(&projected(vec![(col("column1") + lit(1)), (col("column1") + lit(2))])).expect("a plan")
        );
    }
}
