//! `SELECT DISTINCT ON (a) … ORDER BY b`: the planner wants what rows are chosen by in front of the order. Where it is not there, the
//! choice becomes a subquery, whose rows are put in order then. Of rows that are equal by `a` the first one in the order is chosen.

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderBy, OrderByExpr, OrderByKind, OrderByOptions, Query, Select, SelectItem, SetExpr,
    Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};

use crate::collations;

/// Rewrites a query, where that is needed.
///
/// # Errors
/// Positions that are none, and collations that are not known.
pub fn order(query: &mut Query, dialect: &dyn Dialect) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if !matches!(select.distinct, Some(Distinct::On(_))) {
        return Ok(());
    }
    let items = select.projection.clone();
    let Some(Distinct::On(chosen)) = &mut select.distinct else { return Ok(()) };
    for expr in &mut *chosen {
        resolve(expr, &items)?;
    }
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
    let text =
        format!("SELECT * EXCLUDE ({}) FROM ({inner}) AS chosen_rows ORDER BY {}", names.join(", "), order.join(", "));
    let parsed = Parser::new(dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query());
    let outer = parsed.map_err(|error| Error::internal(format!("{text} could not be written out: {error}")))?;
    *query = Query { with, limit_clause, fetch, ..*outer };
    Ok(())
}

/// Adds what rows are ordered by to a SELECT, and tells its names.
fn keep(select: &mut Select, orders: &[OrderByExpr]) -> Vec<String> {
    let mut names = Vec::new();
    for (place, order) in orders.iter().enumerate() {
        let name = format!("__order_{place}");
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
    }
}
