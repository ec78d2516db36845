//! Aggregates in a subquery that are those of the query around it, since they aggregate its columns alone. That query aggregates
//! first, and the subquery then names what came of it:
//!
//! ```text
//! SELECT b, (SELECT max(s.x) FROM s WHERE s.x < sum(t.a)) FROM t GROUP BY b
//!     →   SELECT "group 1" AS b, (SELECT max(s.x) FROM s WHERE s.x < "aggregate 1")
//!         FROM (SELECT b AS "group 1", sum(t.a) AS "aggregate 1" FROM t GROUP BY b) AS aggregated
//! ```

use std::ops::ControlFlow;

use crate::walk::{Tree, visit_expressions};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value, Visitor,
    VisitorMut,
};
use datafusion::sql::sqlparser::dialect::Dialect;
use datafusion::sql::sqlparser::parser::Parser;
use forebay_forms::calls::is_aggregate;

/// The tables of a FROM clause with their columns, in lower case.
pub type Tables = Vec<(Option<String>, Vec<String>)>;

/// Has `query` aggregate what its subqueries aggregate of its columns. `tables` tells what a FROM clause has, where that is known.
pub fn hoist(query: &mut Query, tables: &dyn Fn(&Select) -> Option<Tables>, dialect: &dyn Dialect) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    if select.from.is_empty() || !has_subqueries(query, select) {
        return;
    }
    let Some(own) = tables(select) else { return };
    let Some(groups) = groups_of(select, &own) else { return };
    let mut found = Found { tables, own: &own, inner: Vec::new(), calls: Vec::new() };
    each_clause(query, &mut |expr| {
        let _ = expr.walk(&mut found);
    });
    let calls = found.calls;
    if calls.is_empty() {
        return;
    }
    let text = "SELECT 1 FROM (SELECT 1) AS aggregated";
    let Ok(mut outer) = Parser::new(dialect).try_with_sql(text).and_then(|mut parser| parser.parse_query()) else {
        return;
    };
    let mut written = Written { tables, own: &own, groups, calls, inner: Vec::new() };
    each_clause(query, &mut |expr| {
        let _ = expr.walk_mut(&mut written);
    });
    if let (SetExpr::Select(select), SetExpr::Select(around)) = (query.body.as_mut(), outer.body.as_mut()) {
        around.projection = std::mem::take(&mut select.projection);
        around.selection = select.having.take();
        around.qualify = select.qualify.take();
        around.distinct = select.distinct.take();
        around.named_window = std::mem::take(&mut select.named_window);
        if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
            groups.clone_from(&written.groups);
        }
        select.projection = written.items();
        if let Some(TableFactor::Derived { subquery, .. }) = around.from.first_mut().map(|table| &mut table.relation) {
            std::mem::swap(&mut query.body, &mut subquery.body);
        }
    }
    query.body = outer.body;
}

/// Calls `work` for the expressions of a SELECT that see its groups, and for its order.
fn each_clause(query: &mut Query, work: &mut dyn FnMut(&mut Expr)) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item {
            let alias = match &*expr {
                Expr::Identifier(name) => name.clone(),
                Expr::CompoundIdentifier(parts) => parts.last().cloned().unwrap_or_else(|| Ident::new("")),
                other => Ident::with_quote('"', other.to_string()),
            };
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            work(expr);
        }
    }
    select.having.iter_mut().chain(&mut select.qualify).for_each(&mut *work);
    if let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        orders.iter_mut().for_each(|order| work(&mut order.expr));
    }
}

/// Whether a clause that sees groups has subqueries with calls of aggregates, and stars do not hide what it shows.
fn has_subqueries(query: &Query, select: &Select) -> bool {
    let has = |expr: &Expr| {
        visit_expressions(expr, |part| match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .is_break()
    };
    let of_item = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(has(expr)),
        _ => None,
    };
    let Some(items) = select.projection.iter().map(of_item).collect::<Option<Vec<bool>>>() else { return false };
    let orders = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(orders)) => orders.iter().any(|order| has(&order.expr)),
        _ => false,
    };
    items.contains(&true) || orders || select.having.iter().any(has)
}

/// What a SELECT groups by; `None` where that cannot be told.
fn groups_of(select: &Select, own: &Tables) -> Option<Vec<Expr>> {
    let GroupByExpr::Expressions(groups, modifiers) = &select.group_by else { return None };
    let meant = |group: &Expr| match group {
        Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_) | Expr::Tuple(_) | Expr::Function(_) => None,
        Expr::Value(number) => match &number.value {
            Value::Number(digits, _) => match select.projection.get(digits.parse::<usize>().ok()?.checked_sub(1)?)? {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
                _ => None,
            },
            _ => None,
        },
        Expr::Identifier(name) if !has_column(own, None, &name.value) => {
            let named = |item: &SelectItem| match item {
                SelectItem::ExprWithAlias { expr, alias } if alias.value.eq_ignore_ascii_case(&name.value) => {
                    Some(expr.clone())
                }
                _ => None,
            };
            select.projection.iter().find_map(named)
        }
        other => Some(other.clone()),
    };
    match modifiers.is_empty() {
        true => groups.iter().map(meant).collect(),
        false => None,
    }
}

/// Whether one of the tables, or the one of this name, has a column.
fn has_column(tables: &Tables, table: Option<&str>, column: &str) -> bool {
    let is_meant = |name: &Option<String>| table.is_none_or(|table| name.as_deref() == Some(&table.to_lowercase()));
    let mut meant = tables.iter().filter(|(name, _)| is_meant(name));
    meant.any(|(_, columns)| columns.iter().any(|other| other.eq_ignore_ascii_case(column)))
}

/// The table and the name of a column.
fn parts(expr: &Expr) -> Option<(Option<&str>, &str)> {
    match expr {
        Expr::Identifier(name) => Some((None, &name.value)),
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [table, column] => Some((Some(&table.value), &column.value)),
            _ => None,
        },
        _ => None,
    }
}

/// Whether a column is one of the outer query's, seen from queries with these tables in it.
fn is_outer(expr: &Expr, own: &Tables, inner: &[Option<Tables>]) -> bool {
    let Some((table, column)) = parts(expr) else { return false };
    let is_hidden = |tables: &Option<Tables>| match tables {
        Some(tables) => has_column(tables, table, column),
        None => true,
    };
    has_column(own, table, column) && !inner.iter().any(is_hidden)
}

/// Whether an expression is an aggregate of the outer query's columns.
fn is_outer_aggregate(call: &Function, own: &Tables, inner: &[Option<Tables>]) -> bool {
    if !is_aggregate(call) {
        return false;
    }
    let (mut columns, mut others) = (0, 0);
    let _ = visit_expressions(&Expr::Function(call.clone()), |part| {
        match part {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) if is_outer(part, own, inner) => columns += 1,
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Subquery(_) => others += 1,
            _ => {}
        }
        ControlFlow::<()>::Continue(())
    });
    columns > 0 && others == 0
}

/// The tables of a query's SELECT; those of set operations and of WITH are not told.
fn tables_of(query: &Query, tables: &dyn Fn(&Select) -> Option<Tables>) -> Option<Tables> {
    match query.body.as_ref() {
        SetExpr::Select(select) if query.with.is_none() => tables(select),
        _ => None,
    }
}

/// Looks for aggregates of the outer query in its subqueries.
struct Found<'a> {
    tables: &'a dyn Fn(&Select) -> Option<Tables>,
    own: &'a Tables,
    /// Of the subqueries around the place.
    inner: Vec<Option<Tables>>,
    calls: Vec<Expr>,
}

impl Visitor for Found<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.inner.push(tables_of(query, self.tables));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.inner.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        if let Expr::Function(call) = expr
            && !self.inner.is_empty()
            && is_outer_aggregate(call, self.own, &self.inner)
            && !self.calls.contains(expr)
        {
            self.calls.push(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

/// Puts names in the places of groups and aggregates.
struct Written<'a> {
    tables: &'a dyn Fn(&Select) -> Option<Tables>,
    own: &'a Tables,
    groups: Vec<Expr>,
    calls: Vec<Expr>,
    inner: Vec<Option<Tables>>,
}

impl Written<'_> {
    /// What the inner query shows.
    fn items(self) -> Vec<SelectItem> {
        let named = |(kind, exprs): (&str, Vec<Expr>)| -> Vec<SelectItem> {
            let item = |(place, expr)| SelectItem::ExprWithAlias { expr, alias: named(kind, place) };
            exprs.into_iter().enumerate().map(item).collect()
        };
        [("group", self.groups), ("aggregate", self.calls)].into_iter().flat_map(named).collect()
    }

    /// The name that an expression gets, of its place in the list.
    fn group(&self, expr: &Expr) -> Option<usize> {
        let is_same = |group: &Expr| match (parts(group), parts(expr)) {
            (Some((table, column)), Some((other_table, other))) => {
                let is_one = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
                is_one(column, other) && table.zip(other_table).is_none_or(|(a, b)| is_one(a, b))
            }
            _ => group == expr,
        };
        let is_seen = match parts(expr) {
            Some(_) => is_outer(expr, self.own, &self.inner),
            None => self.inner.is_empty(),
        };
        self.groups.iter().position(is_same).filter(|_| is_seen)
    }
}

impl VisitorMut for Written<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        self.inner.push(tables_of(query, self.tables));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inner.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(place) = self.group(expr) {
            *expr = Expr::Identifier(named("group", place));
            return ControlFlow::Continue(());
        }
        let Expr::Function(call) = &*expr else { return ControlFlow::Continue(()) };
        let is_own = match self.inner.is_empty() {
            true => is_aggregate(call),
            false => is_outer_aggregate(call, self.own, &self.inner),
        };
        if is_own {
            let known = self.calls.iter().position(|other| other == expr);
            let place = known.unwrap_or(self.calls.len());
            if known.is_none() {
                self.calls.push(expr.clone());
            }
            *expr = Expr::Identifier(named("aggregate", place));
        }
        ControlFlow::Continue(())
    }
}

/// The name of the group or aggregate of this place.
fn named(kind: &str, place: usize) -> Ident {
    Ident::with_quote('"', format!("{kind} {}", place + 1))
}
