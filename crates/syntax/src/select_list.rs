//! Names of the columns of a SELECT list, given before planning: an expression is called by its text in SQL, and no two
//! columns have one name. DataFusion would call `a + 1` by its plan, refuses `SELECT a, a`, and leaves casts out of names,
//! so that it takes `sum(a)` and `sum(CAST(a AS DOUBLE))` for one.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CastKind, Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_engine::types::arrow_type;
use forebay_grammar::expressions::position;
use forebay_grammar::fields::{self, qualifiers};
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

/// ORDER BY a name that an alias and other columns have becomes the position of the last alias, and so does that of an alias in quotes,
/// which a column of a table may have in other letters.
pub(crate) fn order_by_last_alias(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let mut named: HashMap<String, (usize, Option<usize>)> = HashMap::new();
    let mut written = HashSet::new();
    for (index, item) in select.projection.iter().enumerate() {
        let (name, alias) = match item {
            SelectItem::ExprWithAlias { expr, alias } if is_of_star(expr, alias) => (alias, None),
            SelectItem::ExprWithAlias { alias, .. } => (alias, Some(index + 1)),
            SelectItem::UnnamedExpr(expr) => match last_name(expr) {
                Some(name) => (name, None),
                None => continue,
            },
            _ => return,
        };
        let lower = name.value.to_lowercase();
        if alias.is_some() && name.quote_style.is_some() {
            written.insert(lower.clone());
        }
        let (count, last) = named.entry(lower).or_default();
        *count += 1;
        *last = alias.or(*last);
    }
    for order in orders {
        let Expr::Identifier(name) = &order.expr else { continue };
        let lower = name.value.to_lowercase();
        if let Some((count, Some(place))) = named.get(&lower)
            && (*count > 1 || written.contains(&lower))
        {
            order.expr = Expr::Value(Value::Number(place.to_string(), false).into());
        }
    }
}

/// ORDER BY an expression of the SELECT list becomes its position, and one of DISTINCT ON what is written there. They may have names
/// in another case, and with their table or without it. Of different rows the planner wants that for columns and fields, too. Must run
/// before [`name_columns`].
pub fn order_by_positions(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let (tables, mut aliases, mut known) = (qualifiers(&select.from), HashSet::new(), HashMap::new());
    let is_only = matches!(select.from.as_slice(), [only] if only.joins.is_empty());
    let spelled = |expr: &Expr| spelling(expr, if is_only { &tables } else { &[] });
    for (index, item) in select.projection.iter().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            aliases.insert(alias.value.to_lowercase());
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            let place = Expr::Value(Value::Number((index + 1).to_string(), false).into());
            known.entry(spelled(expr)).or_insert(place);
        }
    }
    if select.projection.iter().any(|item| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..)))
    {
        known.clear();
    }
    let is_alias = |expr: &Expr| matches!(expr, Expr::Identifier(name) if aliases.contains(&name.value.to_lowercase()));
    if let Some(Distinct::On(keys)) = &select.distinct {
        let written = keys.iter().filter(|key| !is_alias(key) && !matches!(key, Expr::Value(_)));
        known.extend(written.map(|key| (spelled(key), key.clone())));
    }
    let is_kept = |expr: &Expr| match select.distinct {
        Some(_) => is_alias(expr) || matches!(expr, Expr::Value(_)),
        None => is_plain(expr),
    };
    for order in orders.iter_mut().filter(|order| !is_kept(&order.expr)) {
        if let Some(written) = known.get(&spelled(&order.expr)) {
            order.expr = written.clone();
            continue;
        }
        // The name of a field within an expression is not that of the column which shows it.
        each_outside(&mut order.expr, |part| {
            if let (Some(_), Expr::CompoundIdentifier(parts)) = (&select.distinct, &mut *part) {
                let column = 1 + usize::from(tables.contains(&parts[0].value.to_lowercase()));
                if parts.len() > column && known.contains_key(&spelled(&Expr::CompoundIdentifier(parts.clone()))) {
                    *part = fields::of_column(std::mem::take(parts), column);
                }
            }
        });
    }
}

/// An expression without what may be written in several ways: the case of names and the table in front of them.
fn spelling(expr: &Expr, tables: &[String]) -> Expr {
    let mut expr = expr.clone();
    let lower = |name: &Ident| Ident::new(name.value.to_lowercase());
    each_outside(&mut expr, |part| match part {
        Expr::Identifier(name) => *name = lower(name),
        Expr::CompoundIdentifier(parts) => {
            *parts = parts.iter().map(lower).collect();
            if parts.len() > 1 && tables.contains(&parts[0].value) {
                parts.remove(0);
            }
            if let [column] = parts.as_slice() {
                *part = Expr::Identifier(column.clone());
            }
        }
        Expr::Function(call) => call.name = vec![Ident::new(call.name.to_string().to_lowercase())].into(),
        Expr::Cast { kind, .. } if *kind == CastKind::DoubleColon => *kind = CastKind::Cast,
        Expr::Nested(inner) => *part = inner.as_ref().clone(),
        _ => {}
    });
    expr
}

/// Gives each column its name.
pub fn name_columns(select: &mut Select) {
    let mut taken = Taken { tables: qualifiers(&select.from), ..Taken::default() };
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

/// Whether this is how a column of `*` is written out.
pub(crate) fn is_of_star(expr: &Expr, alias: &Ident) -> bool {
    alias.quote_style.is_some() && last_name(expr).is_some_and(|name| name.value == alias.value)
}

/// The name of a column.
fn last_name(expr: &Expr) -> Option<&Ident> {
    match expr {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    }
}

/// Whether this is a column or a literal.
fn is_plain(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_) | Expr::Value(_))
}

/// Names of the columns so far, in lower case.
#[derive(Default)]
struct Taken {
    /// Names of the tables in FROM, in lower case.
    tables: Vec<String>,
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
    fn different_rows_are_ordered_by_what_is_shown() {
        let ordered = |text: &str, expect: &str| {
            let parser = Parser::new(&ForebayDialect).try_with_sql(text);
            let mut query = parser.and_then(|mut parser| parser.parse_query()).expect("parses");
            order_by_positions(&mut query);
            assert_eq!(query.order_by.expect("is ordered").to_string(), format!("ORDER BY {expect}"), "{text}");
        };
        ordered("SELECT DISTINCT s.a, b FROM t ORDER BY t.S.a, T.b", "1, 2");
        ordered("SELECT DISTINCT lower(b) AS b FROM t ORDER BY b, LOWER(t.B)", "b, 1");
        ordered("SELECT DISTINCT a + b * c FROM t ORDER BY (a + b) * c", "(a + b) * c");
        ordered("SELECT DISTINCT s.a FROM t ORDER BY s.a + 1, s.b", "s['a'] + 1, s.b");
        ordered("SELECT DISTINCT t.a FROM t, u ORDER BY a, t.A", "a, 1");
        ordered("SELECT DISTINCT ON (s.a) * FROM t ORDER BY t.s.a, b", "s.a, b");
        ordered("SELECT s.a FROM t ORDER BY t.s.a", "t.s.a");
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
