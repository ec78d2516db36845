//! `SELECT DISTINCT ON (…)` as the groups that it means, each with the first of its rows. DataFusion makes them of it when rules for types
//! and orders have run, which then see neither its keys nor the order in which a row is the first one.
//!
//! ```text
//! distinct on a: b, c, order a, d DESC     project "first 0" AS b, "first 1" AS c
//!   scan t                             →     sort a
//!                                              aggregate by a: first_value(b ORDER BY a, d DESC) AS "first 0", …
//!                                                scan t
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result, internal_datafusion_err};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::expr::Sort as Key;
use datafusion::logical_expr::expr_rewriter::{normalize_cols, normalize_sorts};
use datafusion::logical_expr::{Aggregate, Distinct, DistinctOn, Expr, LogicalPlan, Projection, Sort};
use datafusion::optimizer::analyzer::AnalyzerRule;

use forebay_subqueries::plans::any_node;

/// Makes groups of DISTINCT ON.
#[derive(Debug)]
pub struct DistinctRows;

impl AnalyzerRule for DistinctRows {
    fn name(&self) -> &str {
        "distinct_rows"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        if !any_node(&plan, |node| Ok(matches!(node, LogicalPlan::Distinct(Distinct::On(_)))))? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Distinct(Distinct::On(distinct)) => grouped(distinct).map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn grouped(distinct: DistinctOn) -> Result<LogicalPlan> {
    let DistinctOn { on_expr, select_expr, sort_expr, input, schema } = distinct;
    // The same columns may be named with their tables and without.
    let on_expr = normalize_cols(on_expr, &input)?;
    let select_expr = normalize_cols(select_expr, &input)?;
    let sort_expr = normalize_sorts(sort_expr.unwrap_or_default(), &input)?;
    let mut groups: Vec<Expr> = Vec::new();
    for key in on_expr {
        if !groups.contains(&key) {
            groups.push(key);
        }
    }
    // The second of equal keys orders nothing.
    let mut order: Vec<Key> = Vec::new();
    for key in sort_expr {
        if order.iter().all(|known| known.expr != key.expr) {
            order.push(key);
        }
    }
    let name = |number: usize| format!("first {number}");
    let first = |(number, expr): (usize, Expr)| first_value(expr.unalias(), order.clone()).alias(name(number));
    let firsts = select_expr.into_iter().enumerate().map(first).collect();
    let aggregate = Aggregate::try_new(input, groups.clone(), firsts)?;
    let key_columns = aggregate.schema.columns();
    let sorted = |key: Key| {
        let place = groups.iter().position(|group| *group == key.expr);
        let column = place.and_then(|place| key_columns.get(place).cloned());
        let column =
            column.ok_or_else(|| internal_datafusion_err!("DISTINCT ON is ordered by something else first"))?;
        Ok(Key { expr: Expr::Column(column), ..key })
    };
    let in_front = order.iter().take(groups.len()).cloned().map(sorted).collect::<Result<Vec<_>>>()?;
    let mut plan = LogicalPlan::Aggregate(aggregate);
    if !in_front.is_empty() {
        plan = LogicalPlan::Sort(Sort { expr: in_front, input: Arc::new(plan), fetch: None });
    }
    let shown = schema.iter().enumerate().map(|(number, (qualifier, field))| {
        Expr::Column(Column::from_name(name(number))).alias_qualified(qualifier.cloned(), field.name())
    });
    Ok(LogicalPlan::Projection(Projection::try_new(shown.collect(), Arc::new(plan))?))
}
