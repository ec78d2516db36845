//! Subqueries in the place of a value that give their first row, where the session asks for that: several rows are then no error.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, LimitClause, Query, SetExpr, Statement, Value, VisitorMut};

use crate::bare_subqueries::place;
use forebay_grammar::walk::Tree;

/// Has such subqueries of a statement give one row.
pub fn write_out(statement: &mut Statement) {
    let _ = statement.walk_mut(&mut FirstRows { compared: HashSet::new() });
}

struct FirstRows {
    /// Where the subqueries lie that ANY and ALL compare with: they are no values.
    compared: HashSet<usize>,
}

impl VisitorMut for FirstRows {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::AnyOp { right, .. } | Expr::AllOp { right, .. } => {
                if let Expr::Subquery(query) = right.as_ref() {
                    self.compared.insert(place(query));
                }
            }
            Expr::Subquery(query) if !self.compared.contains(&place(query)) => limit(query),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Adds LIMIT 1 to a query, around it where it has a limit.
fn limit(query: &mut Query) {
    let one = || Some(Expr::Value(Value::Number("1".to_owned(), false).into()));
    let first = LimitClause::LimitOffset { limit: one(), offset: None, limit_by: Vec::new() };
    if query.limit_clause.is_none() && query.fetch.is_none() {
        query.limit_clause = Some(first);
        return;
    }
    let whole = query.clone();
    query.with = None;
    query.order_by = None;
    query.fetch = None;
    query.limit_clause = Some(first);
    *query.body = SetExpr::Query(Box::new(whole));
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::sqlparser::dialect::DuckDbDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    fn check(text: &str, expect: &str) {
        let mut parsed = Parser::parse_sql(&DuckDbDialect {}, text).expect("parses");
        write_out(&mut parsed[0]);
        assert_eq!(parsed[0].to_string(), expect);
    }

    #[test]
    fn values_are_those_of_first_rows() {
        check("SELECT (SELECT a FROM t)", "SELECT (SELECT a FROM t LIMIT 1)");
        check("SELECT (SELECT a FROM t LIMIT 5)", "SELECT ((SELECT a FROM t LIMIT 5) LIMIT 1)");
        check("SELECT x = ANY(SELECT a FROM t)", "SELECT x = ANY(SELECT a FROM t)");
        check("SELECT x IN (SELECT a FROM t)", "SELECT x IN (SELECT a FROM t)");
    }
}
