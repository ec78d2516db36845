//! The rules once more, for the few plans that show that a pass left something to do: a rule made what another one before it
//! would have looked for.

use std::fmt;

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::{BinaryExpr, Expr, Filter, Join, JoinType, LogicalPlan, Operator, Volatility};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::driver::{Step, run};
use forebay_subqueries::plans::any_node;
use forebay_subqueries::shared_rows::SharedRows;

/// Passes behind the first one, at most.
const PASSES: usize = 2;

/// Literals of IN that are written as equalities.
const FEW: usize = 3;

/// Runs rules as long as a plan is unfinished and they change it.
pub struct Again(Vec<Step>);

impl Again {
    /// These rules.
    pub fn new(rules: Vec<Step>) -> Self {
        Self(rules)
    }
}

impl fmt::Debug for Again {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Again").field(&self.0.len()).finish()
    }
}

impl OptimizerRule for Again {
    fn name(&self) -> &str {
        "again"
    }

    fn rewrite(&self, plan: LogicalPlan, config: &dyn OptimizerConfig) -> Result<Transformed<LogicalPlan>> {
        let mut done = Transformed::no(plan);
        for _ in 0..PASSES {
            if !is_unfinished(&done.data)? {
                break;
            }
            let before = done.data.clone();
            let after = run(&self.0, done.data, config)?;
            let changed = after != before;
            done = Transformed::new_transformed(after, done.transformed || changed);
            if !changed {
                break;
            }
        }
        Ok(done)
    }
}

/// Whether a node shows that there is more to do.
fn is_unfinished(plan: &LogicalPlan) -> Result<bool> {
    any_node(plan, |node| Ok(is_unfinished_node(node) || has_constant(node)?))
}

fn is_unfinished_node(node: &LogicalPlan) -> bool {
    match node {
        LogicalPlan::Filter(Filter { predicate: Expr::Literal(..), .. }) => true,
        LogicalPlan::TableScan(scan) => scan.filters.iter().any(|filter| matches!(filter, Expr::Literal(..))),
        // Columns and readers of shared rows go one after the other.
        LogicalPlan::Extension(_) => SharedRows::of(node).is_some(),
        // It may ask for what the join makes NULL.
        LogicalPlan::Filter(filter) => matches!(
            &*filter.input,
            LogicalPlan::Join(Join { join_type: JoinType::Left | JoinType::Right | JoinType::Full, .. })
        ),
        LogicalPlan::Join(join) if matches!(join.join_type, JoinType::Inner | JoinType::LeftSemi) => {
            let inputs = [&join.left, &join.right];
            // Its keys may join one side of a product first.
            let has_keys = join.join_type == JoinType::Inner && !is_product(join);
            let is_of_product = |input: &LogicalPlan| matches!(input, LogicalPlan::Join(below) if is_product(below));
            inputs.into_iter().any(|input| is_empty(input) || (has_keys && is_of_product(input)))
        }
        LogicalPlan::Aggregate(aggregate) => !aggregate.group_expr.is_empty() && is_empty(&aggregate.input),
        LogicalPlan::Projection(projection) => is_empty(&projection.input) || takes_fields(&projection.expr),
        LogicalPlan::Sort(_)
        | LogicalPlan::Limit(_)
        | LogicalPlan::Window(_)
        | LogicalPlan::SubqueryAlias(_)
        | LogicalPlan::Distinct(_)
        | LogicalPlan::Union(_) => node.inputs().into_iter().any(is_empty),
        _ => false,
    }
}

/// Whether a field is taken of what is an output, too, and is computed for both.
fn takes_fields(outputs: &[Expr]) -> bool {
    fn computed(expr: &Expr) -> &Expr {
        match expr {
            Expr::Alias(alias) => &alias.expr,
            other => other,
        }
    }
    let whole = |expr| match computed(expr) {
        Expr::ScalarFunction(call) if call.name() == "get_field" => call.args.first(),
        _ => None,
    };
    let is_call = |expr: &&Expr| matches!(expr, Expr::ScalarFunction(_));
    outputs.iter().filter_map(whole).filter(is_call).any(|whole| outputs.iter().any(|output| computed(output) == whole))
}

fn is_product(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.on.is_empty() && join.filter.is_none()
}

fn is_empty(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::EmptyRelation(relation) if !relation.produce_one_row)
}

/// Whether some part of a node's expressions could be a literal.
fn has_constant(node: &LogicalPlan) -> Result<bool> {
    let mut found = false;
    node.apply_expressions(|expr| {
        expr.apply(|part| {
            found |= is_constant(part);
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

fn is_constant(expr: &Expr) -> bool {
    let is_literal = |expr: &Expr| matches!(expr, Expr::Literal(..));
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And | Operator::Or, right }) => {
            is_literal(left) || is_literal(right)
        }
        Expr::BinaryExpr(BinaryExpr { left, right, .. }) => {
            // A cast of what is compared may move to the literal.
            let is_cast = |expr: &Expr| matches!(expr, Expr::Cast(cast) if matches!(*cast.expr, Expr::Column(_)));
            let may_be = |expr: &Expr| is_literal(expr) || is_cast(expr);
            (is_literal(left) && may_be(right)) || (is_literal(right) && may_be(left))
        }
        Expr::Not(inner) | Expr::Negative(inner) | Expr::IsNull(inner) | Expr::IsNotNull(inner) => is_literal(inner),
        Expr::Cast(cast) => is_literal(&cast.expr),
        Expr::Like(like) => is_literal(&like.expr) && is_literal(&like.pattern),
        Expr::Between(between) => [&between.expr, &between.low, &between.high].into_iter().all(|part| is_literal(part)),
        // Few literals beside what has become a column are as many equalities.
        Expr::InList(list) => {
            let is_few = matches!(*list.expr, Expr::Column(_)) && list.list.len() <= FEW;
            (is_few || is_literal(&list.expr)) && list.list.iter().all(is_literal)
        }
        Expr::ScalarFunction(call) => {
            let is_immutable = call.func.signature().volatility == Volatility::Immutable;
            is_immutable && !call.args.is_empty() && call.args.iter().all(is_literal)
        }
        _ => false,
    }
}
