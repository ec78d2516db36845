//! Names that a SELECT list gives, outside of it. In WHERE and QUALIFY, and behind where they are given, they stand for what they
//! name; columns of tables go before them. In an expression of ORDER BY columns of tables go before them, too; the planner would
//! take the names:
//!
//! ```text
//! SELECT a + 1 AS z, z * 2 FROM t WHERE z > 1   →   SELECT a + 1 AS z, (a + 1) * 2 FROM t WHERE (a + 1) > 1
//! SELECT -a AS a FROM t ORDER BY a + 1          →   SELECT "a named" AS a
//!                                                   FROM (SELECT -a AS "a named", a + 1 AS "order 1" FROM t) ORDER BY "order 1"
//! ```

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    VisitorMut, With,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_forms::volatile::is_volatile;
use forebay_grammar::walk::{Tree, visit_expressions};

use crate::dialect::ForebayDialect;
use crate::stored_names::StoredNames;

/// The columns of tables, where they are known.
type Sources = Option<StoredNames>;

/// Puts what the names stand for in their places. `sources` tells the columns of a FROM clause.
pub(crate) fn write_out(select: &mut Select, sources: impl Fn(&[TableWithJoins]) -> Sources) {
    let mut known: Option<Sources> = None;
    let plain = plain_columns(select);
    let (mut names, mut hiding): (HashMap<String, Expr>, HashMap<String, Expr>) = Default::default();
    for item in &mut select.projection {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias)),
            _ => continue,
        };
        // What a column is called by is what is written.
        let is_shown = alias.is_none();
        let written = expr.clone();
        if replace(expr, &names) && is_shown {
            *item =
                SelectItem::ExprWithAlias { alias: Ident::with_quote('"', written.to_string()), expr: expr.clone() };
            continue;
        }
        let Some(alias) = alias else { continue };
        let lower = alias.value.to_lowercase();
        let is_itself = matches!(&written, Expr::Identifier(name) if name.value.to_lowercase() == lower);
        if is_itself || is_volatile(expr) {
            continue;
        }
        let Some(columns) = known.get_or_insert_with(|| sources(&select.from)) else { return };
        if !columns.has(&lower) {
            names.entry(lower).or_insert_with(|| Expr::Nested(Box::new(expr.clone())));
        } else if !is_key(&select.group_by, &plain, &lower) {
            hiding.entry(lower).or_insert_with(|| Expr::Nested(Box::new(expr.clone())));
        }
    }
    // There is no row whose column it could be.
    if let Some(having) = &mut select.having
        && !hiding.is_empty()
    {
        let _ = having.walk_mut(&mut OfGroups { names: &hiding, depth: 0 });
    }
    for condition in select.selection.iter_mut().chain(&mut select.qualify) {
        replace(condition, &names);
    }
}

/// The columns, in lower case, that a SELECT list shows as they are; `None` where it cannot be told.
fn plain_columns(select: &Select) -> Option<HashSet<String>> {
    let column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(last_name(expr)),
        _ => None,
    };
    let columns: Option<Vec<Option<String>>> = select.projection.iter().map(column).collect();
    columns.map(|columns| columns.into_iter().flatten().collect())
}

/// Whether groups are made by a column of this name; by ALL they are made by those that are shown as they are.
fn is_key(groups: &GroupByExpr, plain: &Option<HashSet<String>>, lower: &str) -> bool {
    match groups {
        GroupByExpr::All(_) => plain.as_ref().is_none_or(|plain| plain.contains(lower)),
        GroupByExpr::Expressions(keys, _) => keys.iter().any(|key| match key {
            Expr::Identifier(name) => name.value.to_lowercase() == lower,
            Expr::CompoundIdentifier(parts) => parts.last().is_some_and(|name| name.value.to_lowercase() == lower),
            Expr::Value(_) => false,
            _ => true,
        }),
    }
}

/// Puts what names stand for in their places in HAVING, outside of calls and subqueries.
struct OfGroups<'a> {
    names: &'a HashMap<String, Expr>,
    depth: usize,
}

impl VisitorMut for OfGroups<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(matches!(expr, Expr::Function(_) | Expr::Lambda(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(matches!(expr, Expr::Function(_) | Expr::Lambda(_)));
        if let Expr::Identifier(name) = expr
            && self.depth == 0
            && let Some(meant) = self.names.get(&name.value.to_lowercase())
        {
            *expr = meant.clone();
        }
        ControlFlow::Continue(())
    }
}

/// Replaces names outside of subqueries. Returns whether there were some.
fn replace(expr: &mut Expr, names: &HashMap<String, Expr>) -> bool {
    if names.is_empty() {
        return false;
    }
    let mut found = false;
    each_outside(expr, |part| {
        if let Expr::Identifier(name) = part
            && let Some(meant) = names.get(&name.value.to_lowercase())
        {
            *part = meant.clone();
            found = true;
        }
    });
    found
}

/// Calls `work` for the expressions of a tree, behind their own parts, but for those of subqueries and lambdas, whose names are
/// their own.
pub(crate) fn each_outside(tree: &mut dyn Tree, work: impl FnMut(&mut Expr)) {
    let _ = tree.walk_mut(&mut Outside { work, depth: 0 });
}

struct Outside<F> {
    work: F,
    depth: usize,
}

impl<F: FnMut(&mut Expr)> VisitorMut for Outside<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(matches!(expr, Expr::Lambda(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(matches!(expr, Expr::Lambda(_)));
        if self.depth == 0 {
            (self.work)(expr);
        }
        ControlFlow::Continue(())
    }
}

/// Puts what the names stand for in their places in the keys by which different rows are ordered, where they are within an expression:
/// the planner knows there what is shown, not what it is called.
pub(crate) fn order_different(query: &mut Query, sources: impl Fn(Option<&With>, &[TableWithJoins]) -> Sources) {
    let SetExpr::Select(select) = query.body.as_ref() else { return };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) else { return };
    let is_name = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::Value(_));
    if !matches!(select.distinct, Some(Distinct::Distinct)) || orders.iter().all(|order| is_name(&order.expr)) {
        return;
    }
    let mut names: HashMap<String, Expr> = HashMap::new();
    for item in &select.projection {
        if let SelectItem::ExprWithAlias { expr, alias } = item
            && !is_volatile(expr)
        {
            let mut meant = expr.clone();
            replace(&mut meant, &names);
            names.entry(alias.value.to_lowercase()).or_insert_with(|| Expr::Nested(Box::new(meant)));
        }
    }
    if names.is_empty() {
        return;
    }
    let Some(columns) = sources(query.with.as_ref(), &select.from) else { return };
    names.retain(|name, _| !columns.has(name));
    for order in orders.iter_mut().filter(|order| !is_name(&order.expr)) {
        replace(&mut order.expr, &names);
    }
}

/// Where names hide columns of tables that ORDER BY computes with, these keys are computed where the names are not known yet.
/// `sources` tells the columns of the query's FROM clause.
pub(crate) fn order_by_sources(query: &mut Query, sources: impl Fn(Option<&With>, &[TableWithJoins]) -> Sources) {
    let hiding = match hiding(query, sources) {
        Some(hiding) => hiding,
        None if is_behind_unnest(query) || is_by_subquery(query) => HashSet::new(),
        None => return,
    };
    let outer = Parser::new(&ForebayDialect).try_with_sql("SELECT 1 FROM (SELECT 1) AS named");
    let Ok(mut outer) = outer.and_then(|mut parser| parser.parse_query()) else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let mut shown = Vec::new();
    let mut outputs = HashSet::new();
    for item in &mut select.projection {
        let column = match item {
            SelectItem::ExprWithAlias { alias, .. } => {
                let inner = match hiding.contains(&alias.value.to_lowercase()) {
                    true => Ident::with_quote('"', format!("{} named", alias.value)),
                    false => alias.clone(),
                };
                let expr = Expr::Identifier(inner.clone());
                SelectItem::ExprWithAlias { expr, alias: std::mem::replace(alias, inner) }
            }
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => SelectItem::UnnamedExpr(Expr::Identifier(name.clone())),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => match parts.last() {
                Some(name) => SelectItem::UnnamedExpr(Expr::Identifier(name.clone())),
                None => return,
            },
            SelectItem::UnnamedExpr(expr) => {
                SelectItem::UnnamedExpr(Expr::Identifier(Ident::with_quote('"', expr.to_string())))
            }
            _ => return,
        };
        outputs.extend(match &column {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.value.to_lowercase()),
            SelectItem::UnnamedExpr(expr) => last_name(expr),
            _ => None,
        });
        shown.push(column);
    }
    if let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        for (place, order) in orders.iter_mut().enumerate() {
            let is_output =
                matches!(&order.expr, Expr::Identifier(name) if outputs.contains(&name.value.to_lowercase()));
            if !is_output && !matches!(order.expr, Expr::Value(_)) {
                let key = Ident::with_quote('"', format!("order {}", place + 1));
                let expr = std::mem::replace(&mut order.expr, Expr::Identifier(key.clone()));
                select.projection.push(SelectItem::ExprWithAlias { expr, alias: key });
            }
        }
    }
    if let SetExpr::Select(named) = outer.body.as_mut() {
        named.projection = shown;
        if let Some(TableFactor::Derived { subquery, .. }) = named.from.first_mut().map(|table| &mut table.relation) {
            std::mem::swap(&mut query.body, &mut subquery.body);
        }
    }
    query.body = outer.body;
}

/// The names, in lower case, that hide columns which ORDER BY computes with, of a query whose other clauses name no others.
fn hiding(query: &Query, sources: impl Fn(Option<&With>, &[TableWithJoins]) -> Sources) -> Option<HashSet<String>> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) else { return None };
    if select.distinct.is_some() || select.having.is_some() || select.qualify.is_some() {
        return None;
    }
    let mut given = HashSet::new();
    let mut all = HashSet::new();
    for item in &select.projection {
        let name = match item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => name.value.to_lowercase(),
            // Its name is that of the column, which may be there twice.
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(_)) => return None,
            SelectItem::UnnamedExpr(expr) => expr.to_string().to_lowercase(),
            SelectItem::ExprWithAlias { expr, alias } => {
                let lower = alias.value.to_lowercase();
                if last_name(expr).is_none_or(|name| name != lower) {
                    given.insert(lower.clone());
                }
                lower
            }
            _ => return None,
        };
        if !all.insert(name) {
            return None;
        }
    }
    let mut used = HashSet::new();
    for order in orders.iter().filter(|order| !matches!(order.expr, Expr::Identifier(_))) {
        each_outside(&mut order.expr.clone(), |part| {
            used.extend(last_name(part).filter(|name| given.contains(name)));
        });
    }
    if used.is_empty() {
        return None;
    }
    let columns = sources(query.with.as_ref(), &select.from)?;
    used.retain(|name| columns.has(name));
    (!used.is_empty()).then_some(used)
}

/// Whether rows are ordered by a subquery over columns that are perhaps not shown: the planner has it before what is shown only.
fn is_by_subquery(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) else { return false };
    let is_plain = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if select.distinct.is_some() || select.having.is_some() || select.qualify.is_some() || !is_plain {
        return false;
    }
    let mut shown = HashSet::new();
    let are_apart = select.projection.iter().all(|item| match item {
        SelectItem::UnnamedExpr(expr) => {
            shown.insert(last_name(expr).unwrap_or_else(|| expr.to_string().to_lowercase()))
        }
        SelectItem::ExprWithAlias { alias, .. } => shown.insert(alias.value.to_lowercase()),
        _ => false,
    });
    let has_subquery = |expr: &Expr| {
        let found = visit_expressions(expr, |part| match part {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found.is_break() && !shown.contains(&expr.to_string().to_lowercase())
    };
    are_apart && orders.iter().any(|order| has_subquery(&order.expr))
}

/// Whether a SELECT list takes lists apart, and rows are ordered by what it does not show: the planner has it before that only.
fn is_behind_unnest(query: &Query) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    let Some(OrderByKind::Expressions(orders)) = query.order_by.as_ref().map(|order| &order.kind) else { return false };
    let is_plain = matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    if select.distinct.is_some() || select.having.is_some() || select.qualify.is_some() || !is_plain {
        return false;
    }
    let (mut shown, mut has_unnest) = (HashSet::new(), false);
    for item in &select.projection {
        let (expr, name) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, last_name(expr)),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(alias.value.to_lowercase())),
            _ => return false,
        };
        let is_unnest = |part: &Expr| match part {
            Expr::Function(call) if call.name.to_string().eq_ignore_ascii_case("unnest") => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        has_unnest |= visit_expressions(expr, is_unnest).is_break();
        // Of two columns of one name neither is told by it.
        if name.is_some_and(|name| !shown.insert(name)) {
            return false;
        }
        shown.insert(expr.to_string().to_lowercase());
    }
    let is_shown = |expr: &Expr| {
        matches!(expr, Expr::Value(_))
            || last_name(expr).is_some_and(|name| shown.contains(&name))
            || shown.contains(&expr.to_string().to_lowercase())
    };
    has_unnest && !orders.iter().all(|order| is_shown(&order.expr))
}

/// The name of a column in lower case.
fn last_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(name.value.to_lowercase()),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| name.value.to_lowercase()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &str) {
        let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_query());
        let mut query = parsed.expect("parses");
        let columns = || Some(StoredNames::of(vec!["a".to_owned(), "b".to_owned()]));
        order_by_sources(&mut query, |_, _| columns());
        if let SetExpr::Select(select) = query.body.as_mut() {
            write_out(select, |_| columns());
        }
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn names_stand_for_what_they_name() {
        check(
            "SELECT a + 1 AS z, z * 2 FROM t WHERE Z > 1",
            "SELECT a + 1 AS z, (a + 1) * 2 AS \"z * 2\" FROM t WHERE (a + 1) > 1",
        );
        check("SELECT b AS a, a AS z FROM t WHERE a > 1", "SELECT b AS a, a AS z FROM t WHERE a > 1");
        check("SELECT random() AS r, r FROM t", "SELECT random() AS r, r FROM t");
    }

    #[test]
    fn keys_of_different_rows_are_written_out() {
        let check = |text: &str, expect: &str| {
            let parsed = Parser::new(&ForebayDialect).try_with_sql(text).and_then(|mut parser| parser.parse_query());
            let mut query = parsed.expect("parses");
            order_different(&mut query, |_, _| Some(StoredNames::of(vec!["a".to_owned(), "b".to_owned()])));
            assert_eq!(query.to_string(), expect);
        };
        check(
            "SELECT DISTINCT -a AS z FROM t ORDER BY z + 1, z",
            "SELECT DISTINCT -a AS z FROM t ORDER BY (-a) + 1, z",
        );
        check(
            "SELECT DISTINCT a AS y, y * 2 AS z FROM t ORDER BY -z",
            "SELECT DISTINCT a AS y, y * 2 AS z FROM t ORDER BY -((a) * 2)",
        );
        check("SELECT DISTINCT -a AS b FROM t ORDER BY b + 1", "SELECT DISTINCT -a AS b FROM t ORDER BY b + 1");
        check("SELECT DISTINCT random() AS z FROM t ORDER BY -z", "SELECT DISTINCT random() AS z FROM t ORDER BY -z");
        check("SELECT -a AS z FROM t ORDER BY z + 1", "SELECT -a AS z FROM t ORDER BY z + 1");
    }

    #[test]
    fn expressions_of_order_by_see_columns_first() {
        check("SELECT -a AS a FROM t ORDER BY a", "SELECT -a AS a FROM t ORDER BY a");
        check("SELECT -a AS z FROM t ORDER BY z + 1", "SELECT -a AS z FROM t ORDER BY z + 1");
        check(
            "SELECT -a AS a, b FROM t ORDER BY a + 1, a LIMIT 1",
            "SELECT \"a named\" AS a, b FROM (SELECT -a AS \"a named\", b, a + 1 AS \"order 1\" FROM t) AS named \
             ORDER BY \"order 1\", a LIMIT 1",
        );
    }
}
