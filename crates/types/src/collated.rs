//! `s VARCHAR COLLATE NOCASE` in CREATE TABLE: where such a column is compared, told apart or put in order, COLLATE is written out, as
//! if the statement said it. Columns are known by their names.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    GroupByExpr, Ident, ObjectName, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, Value,
    VisitorMut, WindowType,
};
use forebay_base::{Error, Result};
use forebay_grammar::expressions::call;
use forebay_grammar::walk::Tree;

/// The option of a column that holds its collation.
pub const OPTION: &str = "collation";

/// Collations that there are, which points may stand between.
const KNOWN: [&str; 5] = ["nocase", "noaccent", "binary", "c", "posix"];

/// The collation of this name, as the option has it; `None` of one that compares texts as they are.
///
/// # Errors
/// Collations that are not supported.
pub fn named(name: &ObjectName) -> Result<Option<String>> {
    let text = name.to_string().replace('"', "").to_lowercase();
    if let Some(other) = text.split('.').find(|part| !KNOWN.contains(part)) {
        return Err(Error::unsupported(format!("the collation {other} is not supported"))
            .hint("NOCASE, NOACCENT and BINARY are"));
    }
    Ok(text.split('.').any(|part| part.starts_with("no")).then_some(text))
}

/// Writes out the collations of these columns, which are in lower case, in a statement.
pub fn write_out(statement: &mut Statement, collated: &HashMap<String, String>) {
    let _ = statement.walk_mut(&mut Collated(collated));
}

struct Collated<'a>(&'a HashMap<String, String>);

impl Collated<'_> {
    /// The collation of an expression that is a column.
    fn of(&self, expr: &Expr) -> Option<&String> {
        match expr {
            Expr::Identifier(name) => self.0.get(&name.value.to_lowercase()),
            Expr::CompoundIdentifier(parts) => self.0.get(&parts.last()?.value.to_lowercase()),
            Expr::Nested(inner) => self.of(inner),
            _ => None,
        }
    }

    fn wrap(&self, expr: &mut Expr) {
        if let Expr::Tuple(parts) = expr {
            return parts.iter_mut().for_each(|part| self.wrap(part));
        }
        if let Some(collation) = self.of(expr) {
            let names: Vec<Ident> = collation.split('.').map(Ident::new).collect();
            *expr = Expr::Collate { expr: Box::new(expr.clone()), collation: ObjectName::from(names) };
        }
    }

    fn wrap_orders(&self, orders: &mut [OrderByExpr]) {
        orders.iter_mut().for_each(|order| self.wrap(&mut order.expr));
    }

    /// ORDER BY ALL as the places of the columns that are shown, where one of them has a collation.
    fn write_out_all(&self, select: &Select, kind: &mut OrderByKind) {
        let OrderByKind::All(options) = kind else { return };
        let is_collated = |item: &SelectItem| shown(item).map(|(expr, _)| self.of(expr).is_some()).ok_or(());
        let Ok(collated) = select.projection.iter().map(is_collated).collect::<std::result::Result<Vec<_>, _>>() else {
            return;
        };
        if collated.contains(&true) {
            let place = |place: usize| OrderByExpr {
                expr: Expr::value(Value::Number((place + 1).to_string(), false)),
                options: *options,
                with_fill: None,
            };
            *kind = OrderByKind::Expressions((0..collated.len()).map(place).collect());
        }
    }

    /// Groups by what a collation compares; of the texts of a group the first one is shown.
    fn group(&self, select: &mut Select) {
        let GroupByExpr::Expressions(groups, _) = &mut select.group_by else { return };
        for group in groups {
            if let Some(expr) = stands_for(&select.projection, group).filter(|expr| self.of(expr).is_some()) {
                *group = expr.clone();
            }
            if self.of(group).is_none() {
                continue;
            }
            for item in &mut select.projection {
                let (expr, alias) = match item {
                    SelectItem::UnnamedExpr(expr) => (expr.clone(), last(group)),
                    SelectItem::ExprWithAlias { expr, alias } => (expr.clone(), Some(alias.clone())),
                    _ => continue,
                };
                if let (Some(alias), true) = (alias, last(&expr).is_some() && last(&expr) == last(group)) {
                    *item = SelectItem::ExprWithAlias { expr: call("first", vec![expr]), alias };
                }
            }
            self.wrap(group);
        }
    }

    /// DISTINCT goes by what collations compare.
    fn tell_apart(&self, select: &mut Select) {
        if let Some(Distinct::On(keys)) = &mut select.distinct {
            keys.iter_mut().for_each(|key| self.wrap(key));
        }
        if !matches!(select.distinct, Some(Distinct::Distinct)) {
            return;
        }
        let key = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        };
        let keys: Option<Vec<Expr>> = select.projection.iter().map(key).collect();
        let Some(mut keys) = keys.filter(|keys| keys.iter().any(|key| self.of(key).is_some())) else { return };
        keys.iter_mut().for_each(|key| self.wrap(key));
        select.distinct = Some(Distinct::On(keys));
    }

    fn wrap_call(&self, call: &mut Function) {
        if let Some(WindowType::WindowSpec(window)) = &mut call.over {
            window.partition_by.iter_mut().for_each(|part| self.wrap(part));
            self.wrap_orders(&mut window.order_by);
        }
        let name = call.name.to_string().to_lowercase();
        call.within_group.iter_mut().for_each(|order| self.wrap(&mut order.expr));
        let FunctionArguments::List(list) = &mut call.args else { return };
        for clause in &mut list.clauses {
            if let FunctionArgumentClause::OrderBy(orders) = clause {
                self.wrap_orders(orders);
            }
        }
        let is_distinct = list.duplicate_treatment.is_some();
        if let [FunctionArg::Unnamed(FunctionArgExpr::Expr(only))] = list.args.as_mut_slice()
            && (matches!(name.as_str(), "min" | "max") || (name == "count" && is_distinct))
            && call.over.is_none()
        {
            self.wrap(only);
        }
    }
}

/// What an item of a SELECT list shows, and its alias; `None` of a star.
fn shown(item: &SelectItem) -> Option<(&Expr, Option<&Ident>)> {
    match item {
        SelectItem::UnnamedExpr(expr) => Some((expr, None)),
        SelectItem::ExprWithAlias { expr, alias } => Some((expr, Some(alias))),
        _ => None,
    }
}

/// What is shown at a place of the SELECT list, or under an alias.
fn stands_for<'a>(items: &'a [SelectItem], key: &Expr) -> Option<&'a Expr> {
    let mut items = items.iter().map(shown);
    let found = match key {
        Expr::Value(number) => items.nth(number.value.to_string().parse::<usize>().ok()?.checked_sub(1)?)?,
        Expr::Identifier(name) => {
            items.flatten().find(|(_, alias)| alias.is_some_and(|alias| alias.value.eq_ignore_ascii_case(&name.value)))
        }
        _ => None,
    };
    found.map(|(expr, _)| expr)
}

/// The name of a column.
fn last(expr: &Expr) -> Option<Ident> {
    match expr {
        Expr::Identifier(name) => Some(Ident::new(name.value.to_lowercase())),
        Expr::CompoundIdentifier(parts) => parts.last().map(|name| Ident::new(name.value.to_lowercase())),
        Expr::Nested(inner) => last(inner),
        _ => None,
    }
}

impl VisitorMut for Collated<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Query { body, order_by, .. } = query;
        let Some(kind) = order_by.as_mut().map(|order| &mut order.kind) else { return ControlFlow::Continue(()) };
        if let SetExpr::Select(select) = body.as_ref() {
            self.write_out_all(select, kind);
            if let OrderByKind::Expressions(orders) = kind {
                for order in orders {
                    let meant = stands_for(&select.projection, &order.expr).filter(|expr| self.of(expr).is_some());
                    if let Some(expr) = meant {
                        order.expr = expr.clone();
                    }
                }
            }
        }
        if let OrderByKind::Expressions(orders) = kind {
            self.wrap_orders(orders);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        self.group(select);
        self.tell_apart(select);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        use BinaryOperator as B;
        match expr {
            Expr::BinaryOp { left, op: B::Eq | B::NotEq | B::Lt | B::LtEq | B::Gt | B::GtEq, right }
            | Expr::IsDistinctFrom(left, right)
            | Expr::IsNotDistinctFrom(left, right) => [left, right].into_iter().for_each(|side| self.wrap(side)),
            Expr::Between { expr, .. }
            | Expr::InList { expr, .. }
            | Expr::InSubquery { expr, .. }
            | Expr::AnyOp { left: expr, .. }
            | Expr::AllOp { left: expr, .. }
            | Expr::Like { expr, .. } => self.wrap(expr),
            Expr::Case { operand: Some(operand), .. } => self.wrap(operand),
            Expr::Function(call) => self.wrap_call(call),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        write_out(&mut parsed[0], &HashMap::from([("s".to_owned(), "nocase".to_owned())]));
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn columns_bring_their_collation() {
        check("SELECT a FROM t WHERE s = 'A' AND a = 1", "SELECT a FROM t WHERE s COLLATE nocase = 'A' AND a = 1");
        check("SELECT upper(s) FROM t ORDER BY t.s", "SELECT upper(s) FROM t ORDER BY t.s COLLATE nocase");
        check(
            "SELECT s, count(*) FROM t GROUP BY 1",
            "SELECT first(s) AS s, count(*) FROM t GROUP BY s COLLATE nocase",
        );
        check("SELECT DISTINCT s, a FROM t", "SELECT DISTINCT ON (s COLLATE nocase, a) s, a FROM t");
        check(
            "SELECT a, s AS k FROM t ORDER BY k, 2, 1",
            "SELECT a, s AS k FROM t ORDER BY s COLLATE nocase, s COLLATE nocase, 1",
        );
        check("SELECT a, s FROM t ORDER BY ALL DESC", "SELECT a, s FROM t ORDER BY 1 DESC, s COLLATE nocase DESC");
        check(
            "SELECT DISTINCT ON (s) a FROM t ORDER BY s",
            "SELECT DISTINCT ON (s COLLATE nocase) a FROM t ORDER BY s COLLATE nocase",
        );
        check("SELECT list(a ORDER BY s) FROM t", "SELECT list(a ORDER BY s COLLATE nocase) FROM t");
        check("SELECT a FROM t WHERE (s, a) = ('A', 1)", "SELECT a FROM t WHERE (s COLLATE nocase, a) = ('A', 1)");
        check(
            "SELECT a FROM t WHERE s IN (SELECT x FROM u)",
            "SELECT a FROM t WHERE s COLLATE nocase IN (SELECT x FROM u)",
        );
        check("SELECT min(s), count(s) FROM t", "SELECT min(s COLLATE nocase), count(s) FROM t");
    }
}
