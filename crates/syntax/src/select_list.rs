//! Names of the columns of a SELECT list, given before planning: an expression is called by its text in SQL, and no two
//! columns have one name. DataFusion would call `a + 1` by its plan, refuses `SELECT a, a`, and leaves casts out of names,
//! so that it takes `sum(a)` and `sum(CAST(a AS DOUBLE))` for one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_engine::types::arrow_type;
use forebay_grammar::expressions::position;
use forebay_grammar::walk::{any_expression, visit_expressions_mut};
use forebay_grammar::{macros, windows};

use crate::aliases::each_outside;
use crate::dialect::ForebayDialect;
use crate::types::sql_type;

/// ORDER BY `#1` as the position that it names.
pub(crate) fn order_by_places(query: &mut Query) {
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    for order in orders {
        if let Some(place) = position(&order.expr) {
            order.expr = Expr::Value(Value::Number(place.to_string(), false).into());
        }
    }
}

/// ORDER BY ALL as the positions of all columns, where `count` tells how many there are.
pub fn order_by_all(query: &mut Query, count: impl Fn(&Query) -> Option<usize>) {
    let options = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::All(options)) => *options,
        _ => return,
    };
    let Some(count) = count(query) else { return };
    let position = |number: usize| OrderByExpr {
        expr: Expr::Value(Value::Number(number.to_string(), false).into()),
        options,
        with_fill: None,
    };
    if let Some(order) = &mut query.order_by {
        order.kind = OrderByKind::Expressions((1..=count).map(position).collect());
    }
}

/// ORDER BY a name that an alias and other columns have becomes the position of the last alias.
pub(crate) fn order_by_last_alias(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let mut named: HashMap<String, (usize, Option<usize>)> = HashMap::new();
    for (index, item) in select.projection.iter().enumerate() {
        let (name, alias) = match item {
            SelectItem::ExprWithAlias { alias, .. } => (alias, Some(index + 1)),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => (name, None),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.last() {
                Some(name) => (name, None),
                None => continue,
            },
            SelectItem::UnnamedExpr(_) => continue,
            _ => return,
        };
        let (count, last) = named.entry(name.value.to_lowercase()).or_default();
        *count += 1;
        *last = alias.or(*last);
    }
    for order in orders {
        if let Expr::Identifier(name) = &order.expr
            && let Some((2.., Some(place))) = named.get(&name.value.to_lowercase())
        {
            order.expr = Expr::Value(Value::Number(place.to_string(), false).into());
        }
    }
}

/// ORDER BY an expression of the SELECT list becomes its position. Must run before [`name_columns`].
pub fn order_by_positions(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let mut positions = HashMap::new();
    for (index, item) in select.projection.iter().enumerate() {
        match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } if !is_plain(expr) => {
                positions.entry(expr.to_string()).or_insert(index + 1);
            }
            SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => return,
            _ => {}
        }
    }
    for order in orders {
        // A literal is a position already.
        if let (Some(position), false) = (positions.get(&order.expr.to_string()), is_plain(&order.expr)) {
            order.expr = Expr::Value(Value::Number(position.to_string(), false).into());
        }
    }
}

/// Gives each column its name.
pub fn name_columns(select: &mut Select) {
    let mut taken = Taken { tables: tables(&select.from), ..Taken::default() };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                if let Some(name) = taken.name(expr) {
                    let alias = Ident::with_quote('"', name);
                    *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
                }
            }
            SelectItem::ExprWithAlias { alias, .. } => {
                let name = taken.alias(&alias.value);
                if name != alias.value {
                    *alias = Ident::with_quote('"', name);
                }
            }
            _ => {}
        }
    }
}

/// Whether this is a column or a literal.
fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

/// The names of the tables, in lower case.
fn tables(from: &[TableWithJoins]) -> HashSet<String> {
    let all = from
        .iter()
        .flat_map(|table| std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation)));
    all.flat_map(|relation| match relation {
        TableFactor::NestedJoin { table_with_joins, alias: None, .. } => {
            tables(std::slice::from_ref(table_with_joins.as_ref()))
        }
        TableFactor::Table { name, alias: None, .. } => {
            let last = name.0.last().and_then(|part| part.as_ident());
            last.map(|last| last.value.to_lowercase()).into_iter().collect()
        }
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. }
        | TableFactor::Function { alias: Some(alias), .. }
        | TableFactor::UNNEST { alias: Some(alias), .. }
        | TableFactor::TableFunction { alias: Some(alias), .. }
        | TableFactor::NestedJoin { alias: Some(alias), .. } => HashSet::from([alias.name.value.to_lowercase()]),
        _ => HashSet::new(),
    })
    .collect()
}

/// Names of the columns so far, in lower case.
#[derive(Default)]
struct Taken {
    /// Names of the tables in FROM, in lower case.
    tables: HashSet<String>,
    aliases: HashSet<String>,
    /// By their names, the columns as written: `a` and `t.a` may be one, `t.a` and `u.a` are two.
    columns: HashMap<String, Vec<String>>,
}

impl Taken {
    /// The alias that an expression without one needs.
    fn name(&mut self, expr: &Expr) -> Option<String> {
        let text = match expr {
            Expr::CompoundIdentifier(parts) => {
                parts.iter().map(|part| part.value.as_str()).collect::<Vec<_>>().join(".")
            }
            _ => windows::as_written(expr.to_string()),
        };
        let last = match expr {
            Expr::Identifier(name) if macros::session_value(name).is_some() => return Some(self.alias(&name.value)),
            Expr::Identifier(name) => name,
            Expr::CompoundIdentifier(parts) => parts.last()?,
            _ => return Some(self.alias(&text)),
        };
        if self.is_field(expr) {
            return Some(self.alias(&last.value));
        }
        let (name, text) = (last.value.to_lowercase(), text.to_lowercase());
        let same = |other: &String| *other == text || *other == name || text == name;
        if self.aliases.contains(&name) || self.columns.get(&name).is_some_and(|columns| columns.iter().any(same)) {
            return Some(self.alias(&last.value));
        }
        self.columns.entry(name).or_default().push(text);
        None
    }

    /// Whether this names the field of a struct, for which the planner has another name.
    fn is_field(&self, expr: &Expr) -> bool {
        let Expr::CompoundIdentifier(parts) = expr else { return false };
        let is_table = parts.first().is_some_and(|first| self.tables.contains(&first.value.to_lowercase()));
        parts.len() > 2 || !is_table
    }

    /// `wanted`, or the first of `wanted_1`, `wanted_2` … that is free.
    fn alias(&mut self, wanted: &str) -> String {
        let mut name = wanted.to_owned();
        let mut suffix = 1;
        while self.columns.contains_key(&name.to_lowercase()) || !self.aliases.insert(name.to_lowercase()) {
            name = format!("{wanted}_{suffix}");
            suffix += 1;
        }
        name
    }
}

/// Calls that differ in casts only get functions in place of the casts, which are part of their names. Those of subqueries are told
/// apart there, when their columns have names.
pub fn tell_casts_apart(select: &mut Select) {
    let mut has_casts = false;
    each_outside(select, |expr| {
        has_casts |=
            matches!(expr, Expr::Function(_)) && any_expression(expr, |part| matches!(part, Expr::Cast { .. }));
    });
    if !has_casts {
        return;
    }
    let mut calls: HashMap<String, HashSet<String>> = HashMap::new();
    each_outside(select, |expr| {
        if matches!(expr, Expr::Function(_)) {
            calls.entry(without_casts(expr)).or_default().insert(expr.to_string());
        }
    });
    calls.retain(|_, texts| texts.len() > 1);
    if calls.is_empty() {
        return;
    }
    each_outside(select, |expr| {
        if matches!(expr, Expr::Function(_)) && calls.contains_key(&without_casts(expr)) {
            let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
                if let Some(call) = cast_call(part) {
                    *part = call;
                }
                ControlFlow::Continue(())
            });
        }
    });
}

fn without_casts(expr: &Expr) -> String {
    let mut expr = expr.clone();
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
        while let Expr::Cast { expr: inner, .. } = part {
            *part = inner.as_ref().clone();
        }
        ControlFlow::Continue(())
    });
    expr.to_string()
}

/// `CAST(a AS DOUBLE)` as `arrow_cast(a, 'Float64')`.
fn cast_call(expr: &Expr) -> Option<Expr> {
    let Expr::Cast { kind, expr: inner, data_type, .. } = expr else { return None };
    let function = match kind {
        CastKind::Cast | CastKind::DoubleColon => "arrow_cast",
        CastKind::TryCast | CastKind::SafeCast => "arrow_try_cast",
    };
    let text = format!("{function}({inner}, '{}')", arrow_type(&sql_type(data_type).ok()?));
    Parser::new(&ForebayDialect).try_with_sql(&text).and_then(|mut parser| parser.parse_expr()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let dialect = ForebayDialect;
        let parser = Parser::new(&dialect).try_with_sql(text);
        let mut query = parser.and_then(|mut parser| parser.parse_query()).expect("parses");
        order_by_positions(&mut query);
        if let SetExpr::Select(select) = query.body.as_mut() {
            name_columns(select);
            tell_casts_apart(select);
        }
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn expressions_are_called_by_their_text() {
        check("SELECT a, count(*), 1", "SELECT a, count(*) AS \"count(*)\", 1 AS \"1\"");
    }

    #[test]
    fn columns_of_one_name_are_told_apart() {
        check("SELECT a, a, t.a FROM t", "SELECT a, a AS \"a_1\", t.a AS \"a_2\" FROM t");
        check("SELECT t.a, u.a FROM t, u", "SELECT t.a, u.a FROM t, u");
        check("SELECT 1 AS x, 2 AS X, x", "SELECT 1 AS x, 2 AS \"X_1\", x AS \"x_2\"");
    }

    #[test]
    fn order_by_finds_the_select_list() {
        check(
            "SELECT DISTINCT a % 2 FROM t ORDER BY a % 2 DESC",
            "SELECT DISTINCT a % 2 AS \"a % 2\" FROM t ORDER BY 1 DESC",
        );
        check("SELECT a FROM t ORDER BY a", "SELECT a FROM t ORDER BY a");
        check("SELECT a, 1 FROM t ORDER BY 1 DESC", "SELECT a, 1 AS \"1\" FROM t ORDER BY 1 DESC");
        check("SELECT -a AS a FROM t ORDER BY -a", "SELECT -a AS a FROM t ORDER BY 1");
        check("SELECT *, -a FROM t ORDER BY -a", "SELECT *, -a AS \"-a\" FROM t ORDER BY -a");
    }

    #[test]
    fn calls_that_differ_in_casts_are_told_apart() {
        check(
            "SELECT sum(a) AS x, sum(CAST(a AS DOUBLE)) AS y, CAST(a AS INT) AS z FROM t",
            "SELECT sum(a) AS x, sum(arrow_cast(a, 'Float64')) AS y, CAST(a AS INT) AS z FROM t",
        );
        check(
            "SELECT sum(a) AS x, sum(TRY_CAST(a AS INT)) AS y FROM t",
            "SELECT sum(a) AS x, sum(arrow_try_cast(a, 'Int32')) AS y FROM t",
        );
    }
}
