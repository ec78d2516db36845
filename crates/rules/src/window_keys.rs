//! Keys of windows that are computed become columns of their input. DataFusion asks each function of a key how it keeps orders, some of
//! which fail for arguments of other functions, such as `abs(a - b)`; then a key counts as out of order though the rows were just
//! sorted by it, and the plan is refused.
//!
//! ```text
//! window rank() OVER (ORDER BY abs(a - b))        project a, b, "rank() …"
//!   scan t                                    →     window rank() OVER (ORDER BY "key 0") AS "rank() …"
//!                                                     project a, b, abs(a - b) AS "key 0"
//!                                                       scan t
//! ```

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, Result};
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Window};
use datafusion::optimizer::analyzer::AnalyzerRule;

use forebay_subqueries::plans::any_node;

use crate::unkeyed_windows::{call, unkeyed_first};

/// Puts the keys of windows below these, and windows that have none, too.
#[derive(Debug)]
pub struct WindowKeys;

impl AnalyzerRule for WindowKeys {
    fn name(&self) -> &str {
        "window_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _config: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = unkeyed_first(plan)?;
        let has_key = |node: &LogicalPlan| match node {
            LogicalPlan::Window(window) => window.window_expr.iter().any(has_computed_key),
            _ => false,
        };
        if !any_node(&plan, |node| Ok(has_key(node)))? {
            return Ok(plan);
        }
        plan.transform_up_with_subqueries(|node| match node {
            LogicalPlan::Window(window) if window.window_expr.iter().any(has_computed_key) => {
                of_columns(window).map(Transformed::yes)
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }
}

fn call_mut(expr: &mut Expr) -> Option<&mut WindowFunction> {
    match expr {
        Expr::Alias(alias) => call_mut(&mut alias.expr),
        Expr::WindowFunction(call) => Some(call),
        _ => None,
    }
}

fn has_computed_key(expr: &Expr) -> bool {
    let Some(WindowFunction { params, .. }) = call(expr) else { return false };
    params.partition_by.iter().chain(params.order_by.iter().map(|key| &key.expr)).any(is_computed)
}

fn is_computed(key: &Expr) -> bool {
    !matches!(key, Expr::Column(_) | Expr::Literal(..)) && !key.is_volatile()
}

/// The window over its input with the keys as columns, under the names that its own columns have.
fn of_columns(window: Window) -> Result<LogicalPlan> {
    let Window { input, window_expr, schema } = window;
    let is_free = |name: &str| input.schema().fields().iter().all(|field| field.name() != name);
    let mut names = (0_usize..).map(|number| format!("key {number}")).filter(|name| is_free(name));
    let mut keys: Vec<(Expr, Column)> = Vec::new();
    let mut column_of = |key: &mut Expr| {
        if !is_computed(key) {
            return;
        }
        let known = keys.iter().find(|(other, _)| other == key).map(|(_, column)| column.clone());
        let column = known.unwrap_or_else(|| {
            let column = Column::from_name(names.next().unwrap_or_default());
            keys.push((key.clone(), column.clone()));
            column
        });
        *key = Expr::Column(column);
    };
    let named = window_expr.into_iter().map(|mut expr| {
        let (relation, name) = expr.qualified_name();
        if let Some(call) = call_mut(&mut expr) {
            call.params.partition_by.iter_mut().for_each(&mut column_of);
            call.params.order_by.iter_mut().for_each(|key| column_of(&mut key.expr));
        }
        match expr {
            Expr::Alias(_) => expr,
            other => other.alias_qualified(relation, name),
        }
    });
    let window_expr = named.collect::<Vec<_>>();
    let own = input.schema().columns().into_iter().map(Expr::Column);
    let with_keys = own.chain(keys.into_iter().map(|(key, column)| key.alias(column.name))).collect();
    let rows = LogicalPlan::Projection(Projection::try_new(with_keys, input)?);
    let window = LogicalPlan::Window(Window::try_new(window_expr, Arc::new(rows))?);
    let shown = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(LogicalPlan::Projection(Projection::try_new(shown, Arc::new(window))?))
}
