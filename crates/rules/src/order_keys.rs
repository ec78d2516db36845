//! Keys that stand twice in the order of an aggregate, as `first(a ORDER BY b, b + 0)` once it is simplified. DataFusion's first and last
//! values of groups panic at them: they count the keys that they were given, and get those that differ.

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

/// Leaves out keys that are there already, under the names that aggregates have with them.
#[derive(Debug)]
pub struct OrderKeys;

impl OptimizerRule for OrderKeys {
    fn name(&self) -> &str {
        "order_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(&self, plan: LogicalPlan, _config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        match plan {
            LogicalPlan::Aggregate(Aggregate { input, group_expr, aggr_expr, .. })
                if aggr_expr.iter().any(has_repeated) =>
            {
                let calls = aggr_expr.into_iter().map(without_repeated).collect();
                Ok(Transformed::yes(LogicalPlan::Aggregate(Aggregate::try_new(input, group_expr, calls)?)))
            }
            other => Ok(Transformed::no(other)),
        }
    }
}

fn order(call: &Expr) -> &[Sort] {
    match call {
        Expr::Alias(alias) => order(&alias.expr),
        Expr::AggregateFunction(AggregateFunction { params, .. }) => &params.order_by,
        _ => &[],
    }
}

fn order_mut(call: &mut Expr) -> Option<&mut Vec<Sort>> {
    match call {
        Expr::Alias(alias) => order_mut(&mut alias.expr),
        Expr::AggregateFunction(AggregateFunction { params, .. }) => Some(&mut params.order_by),
        _ => None,
    }
}

fn has_repeated(call: &Expr) -> bool {
    let keys = order(call);
    (1..keys.len()).any(|place| keys[..place].iter().any(|known| known.expr == keys[place].expr))
}

fn without_repeated(mut call: Expr) -> Expr {
    if !has_repeated(&call) {
        return call;
    }
    let (relation, name) = call.qualified_name();
    if let Some(keys) = order_mut(&mut call) {
        let mut known: Vec<Expr> = Vec::new();
        keys.retain(|key| {
            let is_new = !known.contains(&key.expr);
            known.push(key.expr.clone());
            is_new
        });
    }
    match call {
        Expr::Alias(_) => call,
        other => other.alias_qualified(relation, name),
    }
}
