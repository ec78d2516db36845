//! Correlated subqueries over tables with equal column names. DataFusion moves the predicates that name the outer query out
//! of the subquery, and calls what they read of it by the column's name alone: of `a.k = x.k AND b.k = x.l` it makes
//! comparisons with one column `k`. Columns that such predicates read and that have namesakes get names of their own here, those of EXISTS
//! also where a column outside has the same name and table. No name is given twice in a statement: subqueries within each other may
//! call their tables alike.
//!
//! ```text
//! filter a.k = outer x.k           projection a.k, b.k
//!   join a, b                 →      filter "a.k" = outer x.k
//!                                      projection a.k, b.k, a.k as "k of a"
//!                                        join a, b
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, Result};
use datafusion::logical_expr::expr::Exists;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
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
        let mut names = GivenNames::default();
        let within = rewrite_nodes(plan, is_correlated_filter, |node| told_apart(node, None, &mut names)).data()?;
        rewrite_nodes(within, has_correlated_exists, |node| {
            let outside = merge_schema(&node.inputs());
            node.map_expressions(|expr| expr.transform_up(|expr| apart_from(expr, &outside, &mut names)))
        })
        .data()
    }
}

/// The names that columns got in a statement.
#[derive(Debug, Default)]
struct GivenNames(BTreeSet<String>);

impl GivenNames {
    /// A new name for `column`: "k of a", "k of a (2)" and so on.
    fn give(&mut self, column: &Column) -> String {
        let table = column.relation.as_ref().map_or_else(String::new, ToString::to_string);
        let name = format!("{} of {table}", column.name());
        let numbered = (2..).map(|number| format!("{name} ({number})"));
        let name = std::iter::once(name.clone()).chain(numbered).find(|name| !self.0.contains(name));
        let name = name.expect("numbers do not end");
        self.0.insert(name.clone());
        name
    }
}

fn is_correlated_filter(node: &LogicalPlan) -> bool {
    matches!(node, LogicalPlan::Filter(filter) if filter.predicate.contains_outer())
}

fn has_correlated_exists(node: &LogicalPlan) -> bool {
    let mut found = false;
    let looked = node.apply_expressions(|expr| {
        found = found || expr.exists(|expr| Ok(correlated_exists(expr).is_some()))?;
        Ok(TreeNodeRecursion::Continue)
    });
    looked.expect("the closure cannot fail");
    found
}

fn correlated_exists(expr: &Expr) -> Option<&Exists> {
    match expr {
        Expr::Exists(exists) if !exists.subquery.outer_ref_columns.is_empty() => Some(exists),
        _ => None,
    }
}

/// EXISTS whose correlated predicates read no column of its own that is called as one outside. What `IN` becomes compares such
/// columns: both `b.k` in `b.k NOT IN (SELECT k FROM b WHERE b.k > a.j)`.
fn apart_from(expr: Expr, outside: &DFSchema, names: &mut GivenNames) -> Result<Transformed<Expr>> {
    let Some(Exists { subquery, negated }) = correlated_exists(&expr) else { return Ok(Transformed::no(expr)) };
    let plan = subquery.subquery.as_ref().clone();
    let told = rewrite_nodes(plan, is_correlated_filter, |node| told_apart(node, Some(outside), names))?;
    Ok(match told.transformed {
        true => {
            let subquery = subquery.with_plan(Arc::new(told.data));
            Transformed::yes(Expr::Exists(Exists { subquery, negated: *negated }))
        }
        false => Transformed::no(expr),
    })
}

/// A filter whose correlated parts read columns by names that no other column has, be it of its rows or `outside`.
fn told_apart(
    node: LogicalPlan,
    outside: Option<&DFSchema>,
    names: &mut GivenNames,
) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
    let schema = filter.input.schema();
    let is_twice = |column: &Column| match outside {
        Some(outside) => outside.has_column(column),
        None => has_namesake(schema, column),
    };
    let mut renamed = BTreeMap::new();
    for part in split_conjunction(&filter.predicate).into_iter().filter(|part| part.contains_outer()) {
        for column in part.column_refs().into_iter().filter(|column| is_twice(column)) {
            renamed.entry(column.clone()).or_insert_with(|| names.give(column));
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
