//! `x COLLATE NOCASE` where texts are compared, told apart and put in order: as the texts that the collation compares instead.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, WindowType,
};
use forebay_base::{Error, Result};

use crate::expressions::call;

/// What a collation compares in the place of a text.
fn key(expr: &Expr, collation: &str) -> Result<Expr> {
    let mut key = expr.clone();
    for part in collation.split('.') {
        match part.trim_matches('"').to_uppercase().as_str() {
            "NOCASE" => key = lower(key),
            "NOACCENT" => key = call("strip_accents", vec![key]),
            "BINARY" | "C" | "POSIX" => {}
            other => {
                return Err(Error::unsupported(format!("the collation {other} is not supported"))
                    .hint("NOCASE, NOACCENT and BINARY are"));
            }
        }
    }
    Ok(key)
}

fn lower(expr: Expr) -> Expr {
    call("lower", vec![expr])
}

/// The collation of an expression, in parentheses or not.
fn collation_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Collate { collation, .. } => Some(collation.to_string()),
        Expr::Nested(inner) => collation_of(inner),
        _ => None,
    }
}

/// An expression without its collation.
fn value(expr: &Expr) -> &Expr {
    match expr {
        Expr::Collate { expr, .. } => expr,
        Expr::Nested(inner) if collation_of(inner).is_some() => value(inner),
        other => other,
    }
}

/// What is compared, where one side has a collation; of calls, what they compare their arguments by.
pub fn compared(expr: &mut Expr) -> Result<()> {
    use BinaryOperator as B;
    let sides: Vec<&mut Expr> = match expr {
        Expr::BinaryOp { left, op: B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq, right }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => vec![left, right],
        Expr::Between { expr, low, high, .. } => vec![expr, low, high],
        Expr::InList { expr, list, .. } => std::iter::once(expr.as_mut()).chain(list).collect(),
        Expr::Like { expr, pattern, .. } => vec![expr, pattern],
        Expr::Case { operand: Some(operand), conditions, .. } => {
            let values = conditions.iter_mut().map(|branch| &mut branch.condition);
            std::iter::once(operand.as_mut()).chain(values).collect()
        }
        Expr::InSubquery { expr, subquery, .. } => return with_column(expr, &mut subquery.body),
        Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. } => match right.as_mut() {
            Expr::Subquery(query) => return with_column(left, &mut query.body),
            _ => return Ok(()),
        },
        Expr::Function(call) => return of_call(call),
        _ => return Ok(()),
    };
    in_common(sides)
}

/// Operands by what the collation of one of them compares; rows place by place.
fn in_common(mut sides: Vec<&mut Expr>) -> Result<()> {
    if let Some(collation) = sides.iter().find_map(|side| collation_of(side)) {
        return sides.into_iter().try_for_each(|side| key(value(side), &collation).map(|key| *side = key));
    }
    let mut places: Vec<Vec<&mut Expr>> = Vec::new();
    for side in &mut sides {
        let Expr::Tuple(parts) = &mut **side else { return Ok(()) };
        for (place, part) in parts.iter_mut().enumerate() {
            match places.get_mut(place) {
                Some(others) => others.push(part),
                None => places.push(vec![part]),
            }
        }
    }
    places.into_iter().try_for_each(in_common)
}

/// A value that has a collation, and the column of a query that it is compared with.
fn with_column(expr: &mut Expr, body: &mut SetExpr) -> Result<()> {
    let Some(collation) = collation_of(expr) else { return Ok(()) };
    fn columns(body: &mut SetExpr, collation: &str) -> Result<()> {
        match body {
            SetExpr::Select(select) => select.projection.iter_mut().try_for_each(|item| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    *expr = key(value(expr), collation)?;
                    Ok(())
                }
                _ => Ok(()),
            }),
            SetExpr::SetOperation { left, right, .. } => {
                columns(left, collation)?;
                columns(right, collation)
            }
            SetExpr::Query(query) => columns(&mut query.body, collation),
            _ => Ok(()),
        }
    }
    *expr = key(value(expr), &collation)?;
    columns(body, &collation)
}

/// The order of a call's rows, and what `min`, `max` and `count(DISTINCT …)` tell apart.
fn of_call(call: &mut Function) -> Result<()> {
    keys(&mut call.within_group)?;
    let name = call.name.to_string().to_lowercase();
    let FunctionArguments::List(list) = &mut call.args else { return Ok(()) };
    for clause in &mut list.clauses {
        if let FunctionArgumentClause::OrderBy(orders) = clause {
            keys(orders)?;
        }
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))] = list.args.as_mut_slice() else { return Ok(()) };
    let Some(collation) = collation_of(only) else { return Ok(()) };
    let compared = key(value(only), &collation)?;
    match name.as_str() {
        "count" => *only = compared,
        "min" | "max" => {
            *only = value(only).clone();
            list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(compared)));
            call.name = vec![Ident::new(format!("arg_{name}"))].into();
        }
        _ => {}
    }
    Ok(())
}

/// A SELECT whose list has collations: DISTINCT, GROUP BY and ORDER BY go by what they compare, and values are shown without them.
/// Around it nothing knows them: that is for the outermost query alone.
pub fn shown(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    if !select.projection.iter().any(has_collation) {
        return Ok(());
    }
    let items: Vec<Item> = select.projection.iter().map(Item::of).collect();
    if let Some(OrderByKind::Expressions(orders)) = query.order_by.as_mut().map(|order| &mut order.kind) {
        for order in orders {
            if let Some(item) = Item::meant(&items, &order.expr) {
                order.expr = item.key()?;
            }
        }
    }
    let mut grouped = Vec::new();
    if let GroupByExpr::Expressions(groups, _) = &mut select.group_by {
        for group in groups {
            if let Some(item) = Item::meant(&items, group) {
                *group = item.key()?;
                grouped.push(item.text.clone());
            }
        }
    }
    if matches!(select.distinct, Some(Distinct::Distinct)) && items.iter().all(|item| item.expr.is_some()) {
        select.distinct = Some(Distinct::On(items.iter().map(Item::key).collect::<Result<_>>()?));
    }
    for (place, item) in items.iter().enumerate() {
        let (Some(_), Some(expr)) = (&item.collation, &item.expr) else { continue };
        let shown = value(expr);
        // Of the values of a group, the first.
        let shown = if grouped.contains(&item.text) { call("first", vec![shown.clone()]) } else { shown.clone() };
        let alias = item.alias.clone().unwrap_or_else(|| Ident::with_quote('"', item.text.clone()));
        select.projection[place] = SelectItem::ExprWithAlias { expr: shown, alias };
    }
    Ok(())
}

/// The keys of GROUP BY, which no list shows.
pub fn grouped(select: &mut Select) -> Result<()> {
    match &mut select.group_by {
        GroupByExpr::Expressions(groups, _) => groups.iter_mut().try_for_each(plain),
        GroupByExpr::All(_) => Ok(()),
    }
}

/// A collation where nothing knows it.
pub fn unknown() -> Error {
    Error::unsupported("COLLATE is not supported here")
        .hint("It is in comparisons, IN, DISTINCT, GROUP BY and ORDER BY, and in the list of the outermost SELECT")
}

/// Whether a query has columns with a collation.
pub fn is_shown(query: &Query) -> bool {
    fn of(body: &SetExpr) -> bool {
        match body {
            SetExpr::Select(select) => select.projection.iter().any(has_collation),
            SetExpr::SetOperation { left, right, .. } => of(left) || of(right),
            SetExpr::Query(query) => is_shown(query),
            _ => false,
        }
    }
    of(&query.body)
}

fn has_collation(item: &SelectItem) -> bool {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => collation_of(expr).is_some(),
        _ => false,
    }
}

/// An item of a SELECT list.
struct Item {
    expr: Option<Expr>,
    text: String,
    alias: Option<Ident>,
    collation: Option<String>,
}

impl Item {
    fn of(item: &SelectItem) -> Self {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (Some(expr.clone()), None),
            SelectItem::ExprWithAlias { expr, alias } => (Some(expr.clone()), Some(alias.clone())),
            _ => (None, None),
        };
        let text = expr.as_ref().map(ToString::to_string).unwrap_or_default();
        Self { collation: expr.as_ref().and_then(collation_of), expr, text, alias }
    }

    /// What it is compared by.
    fn key(&self) -> Result<Expr> {
        match (&self.expr, &self.collation) {
            (Some(expr), Some(collation)) => key(value(expr), collation),
            (Some(expr), None) => Ok(expr.clone()),
            (None, _) => Err(Error::unsupported("COLLATE beside * is not supported").hint("Name the columns")),
        }
    }

    /// The item with a collation that a name, a position or an expression means.
    fn meant<'a>(items: &'a [Self], expr: &Expr) -> Option<&'a Self> {
        let text = expr.to_string();
        let is_it = |(place, item): &(usize, &Self)| {
            item.text == text
                || text == (place + 1).to_string()
                || item.alias.as_ref().is_some_and(|alias| alias.value.eq_ignore_ascii_case(text.trim_matches('"')))
        };
        items.iter().enumerate().find(is_it).map(|(_, item)| item).filter(|item| item.collation.is_some())
    }
}

/// The keys of ORDER BY.
pub fn ordered(query: &mut Query) -> Result<()> {
    match query.order_by.as_mut().map(|order| &mut order.kind) {
        Some(OrderByKind::Expressions(orders)) => keys(orders),
        _ => Ok(()),
    }
}

/// The keys of a window.
pub fn windowed(window: &mut WindowType) -> Result<()> {
    let WindowType::WindowSpec(window) = window else { return Ok(()) };
    for part in &mut window.partition_by {
        plain(part)?;
    }
    keys(&mut window.order_by)
}

fn keys(orders: &mut [OrderByExpr]) -> Result<()> {
    orders.iter_mut().try_for_each(|order| plain(&mut order.expr))
}

/// An expression without its collation: as the texts that this compares.
pub(crate) fn plain(expr: &mut Expr) -> Result<()> {
    if let Some(collation) = collation_of(expr) {
        *expr = key(value(expr), &collation)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    #[test]
    fn both_sides_of_a_comparison_are_folded() {
        let parsed = Parser::new(&DuckDbDialect {}).try_with_sql("a COLLATE NOCASE = 'X'");
        let mut expr = parsed.and_then(|mut parser| parser.parse_expr()).expect("parses");
        compared(&mut expr).expect("known");
        assert_eq!(expr.to_string(), "lower(a) = lower('X')");
    }

    #[test]
    fn a_select_list_is_shown_without_collations() {
        let check = |text: &str, expect: &str| {
            let parsed = Parser::new(&DuckDbDialect {}).try_with_sql(text).and_then(|mut parser| parser.parse_query());
            let mut query = parsed.expect("parses");
            shown(&mut query).expect("known");
            assert_eq!(query.to_string(), expect);
        };
        check(
            "SELECT DISTINCT a COLLATE NOCASE AS k, b FROM t ORDER BY k",
            "SELECT DISTINCT ON (lower(a), b) a AS k, b FROM t ORDER BY lower(a)",
        );
        check(
            "SELECT a COLLATE NOCASE AS k, count(*) FROM t GROUP BY k",
            "SELECT first(a) AS k, count(*) FROM t GROUP BY lower(a)",
        );
    }
}
