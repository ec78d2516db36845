//! Correlated subqueries over tables with equal column names. DataFusion moves the predicates that name the outer query out
//! of the subquery, and calls what they read of it by the column's name alone: of `a.k = x.k AND b.k = x.l` it makes
//! comparisons with one column `k`. Columns that such predicates read and that have namesakes get names of their own here.
//!
//! ```text
//! filter a.k = outer x.k           projection a.k, b.k
//!   join a, b                 →      filter "a.k" = outer x.k
//!                                      projection a.k, b.k, a.k as "k of a"
//!                                        join a, b
//! ```

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::utils::{conjunction, split_conjunction};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::plans::rewrite_nodes;

/// Tells namesakes apart. Must run after the rules that make correlated predicates.
#[derive(Debug)]
pub struct Namesakes;

impl AnalyzerRule for Namesakes {
    fn name(&self) -> &str {
        "namesakes"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let is_one =
            |node: &LogicalPlan| matches!(node, LogicalPlan::Filter(filter) if filter.predicate.contains_outer());
        rewrite_nodes(plan, is_one, |node| match node {
            LogicalPlan::Filter(filter) => told_apart(filter),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn told_apart(filter: Filter) -> Result<Transformed<LogicalPlan>> {
    let schema = filter.input.schema();
    let mut renamed = BTreeMap::new();
    for part in split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer()) {
        for column in part.column_refs().into_iter().filter(|column| has_namesake(schema, column)) {
            let table = column.relation.as_ref().map_or_else(String::new, ToString::to_string);
            renamed.insert(column.clone(), format!("{} of {table}", column.name()));
        }
    }
    if renamed.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let columns: Vec<Expr> = schema.columns().into_iter().map(Expr::Column).collect();
    let more = renamed.iter().map(|(column, name)| Expr::Column(column.clone()).alias(name));
    let input = LogicalPlanBuilder::from(Arc::clone(&filter.input)).project(columns.iter().cloned().chain(more))?;
    let parts = split_conjunction(&filter.predicate).into_iter().map(|part| {
        let part = part.clone();
        if !part.contains_outer() {
            return Ok(part);
        }
        let rename = |expr| match &expr {
            Expr::Column(column) => Ok(match renamed.get(column) {
                Some(name) => Transformed::yes(Expr::Column(Column::from_name(name))),
                None => Transformed::no(expr),
            }),
            _ => Ok(Transformed::no(expr)),
        };
        part.transform(rename).data()
    });
    let Some(predicate) = conjunction(parts.collect::<Result<Vec<_>>>()?) else {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    };
    Ok(Transformed::yes(input.filter(predicate)?.project(columns)?.build()?))
}

/// Whether another column of `schema` has the name of this one.
fn has_namesake(schema: &DFSchema, column: &Column) -> bool {
    schema.fields().iter().filter(|field| field.name() == column.name()).nth(1).is_some()
}
