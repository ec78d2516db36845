//! `SELECT DISTINCT ON (a) … ORDER BY b`: the planner wants what rows are chosen by in front of the order. Where it is not there, the
//! choice becomes a subquery, whose rows are put in order then. Of rows that are equal by `a` the first one in the order is chosen.
//! `SELECT DISTINCT a … ORDER BY b` is by the `b` of the first of the rows that are equal, which the planner does not know at all.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem,
    SetExpr, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};

use crate::collations;
use crate::walk::visit_expressions;

/// Rewrites a query, where that is needed.
///
/// # Errors
/// Positions that are none, and collations that are not known.
pub fn order(query: &mut Query, dialect: &dyn Dialect) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    match select.distinct {
        Some(Distinct::On(_)) => {}
        Some(Distinct::Distinct) => return order_by_first(query, dialect),
        _ => return Ok(()),
    }
    let items = select.projection.clone();
    let Some(Distinct::On(chosen)) = &mut select.distinct else { return Ok(()) };
    for expr in &mut *chosen {
        resolve(expr, &items)?;
    }
    let mut known = HashSet::new();
    chosen.retain(|expr| known.insert(expr.to_string()));
    let chosen = chosen.clone();
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else {
        return Ok(());
    };
    for order in &mut *orders {
        resolve(&mut order.expr, &items)?;
    }
    // The second of equal orders says nothing.
    let mut known = HashSet::new();
    orders.retain(|order| known.insert(order.expr.to_string()));
    let in_front = orders.iter().map(|order| order.expr.to_string()).take(chosen.len());
    if in_front.eq(chosen.iter().map(ToString::to_string)) {
        return Ok(());
    }
    let orders = orders.clone();
    let (with, limit_clause, fetch) = (query.with.take(), query.limit_clause.take(), query.fetch.take());
    let mut inner = query.clone();
    let SetExpr::Select(select) = inner.body.as_mut() else { return Ok(()) };
    let names = keep(select, &orders);
    let texts: Vec<String> = chosen.iter().map(ToString::to_string).collect();
    let behind = orders.iter().filter(|order| !texts.contains(&order.expr.to_string())).cloned();
    let first = chosen.into_iter().map(|expr| {
        let options = OrderByOptions { asc: None, nulls_first: None };
        OrderByExpr { expr, options, with_fill: None }
    });
    let kind = OrderByKind::Expressions(first.chain(behind).collect());
    inner.order_by = Some(OrderBy { kind, interpolate: None });
    let order: Vec<String> = names
        .iter()
        .zip(orders)
        .map(|(name, order)| OrderByExpr { expr: Expr::Identifier(Ident::new(name)), ..order }.to_string())
        .collect();
    let kept: Vec<&str> = names.iter().map(String::as_str).filter(|name| name.starts_with(KEPT)).collect();
    let excluded = if kept.is_empty() { String::new() } else { format!(" EXCLUDE ({})", kept.join(", ")) };
    let text = format!("SELECT *{excluded} FROM ({inner}) AS chosen_rows ORDER BY {}", order.join(", "));
    *query = Query { with, limit_clause, fetch, ..*parsed(&text, dialect)? };
    Ok(())
}

/// Puts different rows in the order of what is not shown of them, as the first row of those that are equal has it.
fn order_by_first(query: &mut Query, dialect: &dyn Dialect) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) else {
        return Ok(());
    };
    let Some(items) = select.projection.iter().map(named).collect::<Option<Vec<(String, Expr)>>>() else {
        return Ok(());
    };
    let mut orders = orders.clone();
    for order in &mut orders {
        resolve(&mut order.expr, &select.projection)?;
    }
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if !orders.iter().any(|order| is_hidden(&order.expr, &items, is_grouped)) {
        return Ok(());
    }
    let (with, limit_clause, fetch) = (query.with.take(), query.limit_clause.take(), query.fetch.take());
    let mut inner = query.clone();
    inner.order_by = None;
    let SetExpr::Select(select) = inner.body.as_mut() else { return Ok(()) };
    select.distinct = None;
    let columns: Vec<String> = (0..items.len()).map(|place| format!("__column_{place}")).collect();
    select.projection = items
        .iter()
        .zip(&columns)
        .map(|((_, expr), column)| SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new(column) })
        .collect();
    let keys = keep(select, &orders);
    let shown: Vec<String> =
        columns.iter().zip(&items).map(|(column, (name, _))| format!("{column} AS {name}")).collect();
    let order: Vec<String> = keys
        .iter()
        .zip(orders)
        .map(|(name, order)| OrderByExpr { expr: Expr::Identifier(Ident::new(name)), ..order }.to_string())
        .collect();
    let (all, shown, order) = (columns.join(", "), shown.join(", "), order.join(", "));
    let keys = keys.join(", ");
    let text = format!(
        "SELECT {shown} FROM (SELECT DISTINCT ON ({all}) {all}, {keys} FROM ({inner}) AS all_rows) AS first_rows \
         ORDER BY {order}"
    );
    *query = Query { with, limit_clause, fetch, ..*parsed(&text, dialect)? };
    Ok(())
}

/// What a column of a SELECT list is called, as SQL writes it, and what it is; `None` for `*`.
fn named(item: &SelectItem) -> Option<(String, Expr)> {
    let quoted = |name: &str| Ident::with_quote('"', name).to_string();
    match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((alias.to_string(), expr.clone())),
        SelectItem::UnnamedExpr(expr) => {
            let name = match expr {
                Expr::Identifier(name) => name.to_string(),
                Expr::CompoundIdentifier(parts) => parts.last()?.to_string(),
                other => quoted(&other.to_string()),
            };
            Some((name, expr.clone()))
        }
        _ => None,
    }
}

/// Whether a key of the order has parts that are no columns of the SELECT list, or are called otherwise there. What groups have in common is one if it is shown.
fn is_hidden(key: &Expr, items: &[(String, Expr)], is_grouped: bool) -> bool {
    let text = key.to_string();
    if matches!(key, Expr::Value(_)) || items.iter().any(|(_, expr)| expr.to_string() == text) {
        return false;
    }
    let last = |expr: &Expr| match expr {
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.to_lowercase()),
        _ => None,
    };
    let shown: HashSet<String> = items.iter().filter_map(|(_, expr)| last(expr)).collect();
    // Names that are given to something else: within an expression the column is meant.
    let given = items.iter().map(|(name, expr)| (name.trim_matches('"').to_lowercase(), last(expr)));
    let given: HashSet<String> =
        given.filter(|(name, column)| column.as_ref() != Some(name)).map(|(name, _)| name).collect();
    visit_expressions(key, |part| {
        let is_hidden = match part {
            Expr::Function(call) => is_grouped || call.over.is_some(),
            other => last(other).is_some_and(|name| !shown.contains(&name) || given.contains(&name)),
        };
        match is_hidden {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })
    .is_break()
}

fn parsed(text: &str, dialect: &dyn Dialect) -> Result<Box<Query>> {
    let parsed = Parser::new(dialect).try_with_sql(text).and_then(|mut parser| parser.parse_query());
    parsed.map_err(|error| Error::internal(format!("{text} could not be written out: {error}")))
}

/// How the names begin of what rows are ordered by.
const KEPT: &str = "__order_";

/// Adds what rows are ordered by to a SELECT, and tells its names. Places behind a star are their own names.
fn keep(select: &mut Select, orders: &[OrderByExpr]) -> Vec<String> {
    let mut names = Vec::new();
    for (place, order) in orders.iter().enumerate() {
        if let Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) = &order.expr {
            names.push(text.clone());
            continue;
        }
        let name = format!("{KEPT}{place}");
        let alias = Ident::new(&name);
        select.projection.push(SelectItem::ExprWithAlias { expr: order.expr.clone(), alias });
        names.push(name);
    }
    names
}

/// A position and the name of a column of the SELECT list as the expression that is meant, a collation as what it compares.
fn resolve(expr: &mut Expr, items: &[SelectItem]) -> Result<()> {
    let of_item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
        _ => None,
    };
    match &*expr {
        Expr::Value(ValueWithSpan { value: Value::Number(text, _), .. }) => {
            let place = text.parse::<usize>().ok().filter(|place| (1..=items.len()).contains(place));
            let stars = items.iter().any(|item| of_item(item).is_none());
            match place.map(|place| &items[place - 1]).and_then(of_item) {
                Some(meant) if !stars => *expr = meant,
                None if place.is_none() && !stars => {
                    let message = format!("the position {text} is not in the list, which has {} columns", items.len());
                    return Err(Error::input(message));
                }
                _ => {}
            }
        }
        Expr::Identifier(name) => {
            let is_it = |item: &&SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value.eq_ignore_ascii_case(&name.value));
            if let Some(meant) = items.iter().find(is_it).and_then(of_item) {
                *expr = meant;
            }
        }
        _ => {}
    }
    collations::plain(expr)
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;

    use super::*;

    fn check(text: &str, expect: &str) {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_query());
        let mut query = *parsed.expect("parses");
        order(&mut query, &DuckDbDialect {}).expect("is rewritten");
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn what_rows_are_chosen_by_comes_first() {
        check("SELECT DISTINCT ON (a) b FROM t ORDER BY a, b", "SELECT DISTINCT ON (a) b FROM t ORDER BY a, b");
        check("SELECT DISTINCT ON (a) b FROM t", "SELECT DISTINCT ON (a) b FROM t");
        check(
            "SELECT DISTINCT ON (1) a, b FROM t ORDER BY b DESC LIMIT 2",
            "SELECT * EXCLUDE (__order_0) FROM (SELECT DISTINCT ON (a) a, b, b AS __order_0 FROM t ORDER BY a, b DESC) AS \
             chosen_rows ORDER BY __order_0 DESC LIMIT 2",
        );
        check("SELECT DISTINCT a FROM t ORDER BY a + 1", "SELECT DISTINCT a FROM t ORDER BY a + 1");
        check(
            "SELECT DISTINCT a FROM t ORDER BY b LIMIT 2",
            "SELECT __column_0 AS a FROM (SELECT DISTINCT ON (__column_0) __column_0, __order_0 FROM (SELECT a AS __column_0, \
             b AS __order_0 FROM t) AS all_rows) AS first_rows ORDER BY __order_0 LIMIT 2",
        );
    }
}
