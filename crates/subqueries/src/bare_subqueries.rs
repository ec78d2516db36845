//! Subqueries that are not needed: `(SELECT a + 1)` without FROM is `a + 1`, and what WITH names and nobody reads is not looked at.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, ObjectName, ObjectNamePart, Query, Select, SelectItem, SetExpr, Statement, VisitorMut,
};

use forebay_grammar::walk::{Tree, visit_expressions, visit_relations};
use forebay_grammar::windows;

/// Takes what is not needed out of a statement.
pub fn take_out(statement: &mut Statement) {
    let _ = statement.walk_mut(&mut Bare { compared: HashSet::new() });
}

struct Bare {
    /// Where the subqueries lie that ANY and ALL compare with: they are no values.
    compared: HashSet<usize>,
}

impl VisitorMut for Bare {
    type Break = ();

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        while let Some(unread) = unread(query) {
            if let Some(with) = &mut query.with {
                with.cte_tables.remove(unread);
            }
        }
        if query.with.as_ref().is_some_and(|with| with.cte_tables.is_empty()) {
            query.with = None;
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        for item in &mut select.projection {
            // A column is called as it is written.
            if let SelectItem::UnnamedExpr(expr) = item
                && has_subquery(expr)
            {
                let alias = Ident::with_quote('"', windows::as_written(expr.to_string()));
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
            }
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } = expr
            && let Expr::Subquery(query) = right.as_ref()
        {
            self.compared.insert(place(query));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Subquery(query) = expr
            && !self.compared.contains(&place(query))
            && let Some(value) = only_value(query)
        {
            *expr = Expr::Nested(Box::new(value));
        }
        ControlFlow::Continue(())
    }
}

/// Where a query lies.
pub(crate) fn place(query: &Query) -> usize {
    std::ptr::from_ref(query).addr()
}

/// Whether there is a query in the place of a value that is one.
fn has_subquery(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Subquery(query) if only_value(query).is_some() => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// The place of a table that WITH of the query names and nobody reads.
fn unread(query: &Query) -> Option<usize> {
    let with = query.with.as_ref()?;
    let mut body = query.clone();
    body.with = None;
    let of_body = names(&body)?;
    let of_tables: Vec<HashSet<String>> =
        with.cte_tables.iter().map(|table| names(&table.query)).collect::<Option<_>>()?;
    with.cte_tables.iter().enumerate().rev().map(|(place, _)| place).find(|place| {
        let name = with.cte_tables[*place].alias.name.value.to_lowercase();
        // A table does not read itself for others.
        let others = of_tables.iter().enumerate().filter(|(other, _)| other != place).map(|(_, names)| names);
        !of_body.contains(&name) && !others.into_iter().any(|names| names.contains(&name))
    })
}

/// The names of tables in a query, in lower case; `None` where some stand in texts.
fn names(query: &Query) -> Option<HashSet<String>> {
    let mut names = HashSet::new();
    let flow = visit_relations(query, |name: &ObjectName| {
        let last = name.0.last().and_then(ObjectNamePart::as_ident).map(|last| last.value.to_lowercase());
        match last {
            Some(last) if !last.starts_with('?') => {
                names.insert(last);
                ControlFlow::Continue(())
            }
            _ => ControlFlow::Break(()),
        }
    });
    flow.is_continue().then_some(names)
}

/// The value of a query that reads nothing and has one row, unless it calls something: an aggregate makes another row of it.
fn only_value(query: &Query) -> Option<Expr> {
    let is_plain = query.with.is_none()
        && query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty();
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let Select { projection, from, selection: None, having: None, qualify: None, distinct: None, .. } = select.as_ref()
    else {
        return None;
    };
    let has_groups = !matches!(&select.group_by, GroupByExpr::Expressions(groups, _) if groups.is_empty());
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] = projection.as_slice() else {
        return None;
    };
    let calls = visit_expressions(value, |part| match part {
        Expr::Function(_) | Expr::Exists { .. } | Expr::InSubquery { .. } | Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    (is_plain && from.is_empty() && !has_groups && calls.is_continue()).then(|| value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        take_out(&mut parsed[0]);
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn values_of_no_tables_are_values() {
        check("SELECT (SELECT a + 1), b", "SELECT (a + 1) AS \"(SELECT a + 1)\", b");
        check("SELECT 1 FROM t WHERE (SELECT (SELECT b))", "SELECT 1 FROM t WHERE ((b))");
        check("SELECT (SELECT a WHERE b), (SELECT sum(a))", "SELECT (SELECT a WHERE b), (SELECT sum(a))");
        check("SELECT 1 FROM t WHERE a > ALL(SELECT 1)", "SELECT 1 FROM t WHERE a > ALL(SELECT 1)");
        check("SELECT (SELECT a LIMIT 0), (SELECT a, b)", "SELECT (SELECT a LIMIT 0), (SELECT a, b)");
    }

    #[test]
    fn what_nobody_reads_is_gone() {
        check("WITH a AS (SELECT x FROM nothing) SELECT 1", "SELECT 1");
        check("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT 1", "SELECT 1");
        check("WITH a AS (SELECT 1), b AS (SELECT 2) SELECT * FROM A", "WITH a AS (SELECT 1) SELECT * FROM A");
        check("WITH RECURSIVE a AS (SELECT 1 UNION ALL SELECT * FROM a) SELECT 2", "SELECT 2");
    }
}
