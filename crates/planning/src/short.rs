//! Which statements are planned by the thread that asks for them.
//!
//! To hand a statement to another thread and to be woken when it is done takes as long as planning a short one. But who computes does not
//! see that it is cancelled, and needs a stack. So only short queries over stored tables are planned by their own thread, whose planning
//! takes milliseconds and waits for nobody's files.

use std::ops::ControlFlow;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Query, Statement as Ast, TableFactor, Visitor};
use forebay_grammar::walk::Tree;
use tokio::runtime::Handle;

/// How many expressions and tables a short query has at most. TPC-H's have up to 150.
const MOST_PARTS: usize = 400;

/// How deep its queries lie within one another at most: to unnest correlated ones takes twice as long with each further one (18: 0.7 s).
const MOST_QUERIES: usize = 8;

/// The text of a query that was planned before is no longer than this.
const MOST_BYTES: usize = 4096;

/// The stack that planning may need: half of what workers have.
const STACK_BYTES: usize = 4 << 20;

/// Whether this thread may plan: it has the stack for it, and no tasks of its own that would have to wait.
fn can_plan_here() -> bool {
    Handle::try_current().is_err() && stacker::remaining_stack().is_some_and(|left| left >= STACK_BYTES)
}

/// Whether a query that was planned before is run by the thread that asks for it.
pub fn is_short_text(text: &str) -> bool {
    text.len() <= MOST_BYTES && can_plan_here()
}

/// Whether a query is planned by the thread that asks for it; `is_stored` says whether a name is that of a table.
pub fn is_short(query: &PlanStatement, is_stored: &dyn Fn(&ObjectName) -> bool) -> bool {
    can_plan_here() && has_few_parts(query, is_stored)
}

fn has_few_parts(query: &PlanStatement, is_stored: &dyn Fn(&ObjectName) -> bool) -> bool {
    let ast = match query {
        PlanStatement::Statement(ast) => ast.as_ref(),
        PlanStatement::Explain(explain) => match explain.statement.as_ref() {
            PlanStatement::Statement(ast) => ast.as_ref(),
            _ => return false,
        },
        _ => return false,
    };
    let mut parts = Parts { is_stored, left: MOST_PARTS, depth: 0, with: Vec::new() };
    matches!(ast, Ast::Query(_)) && ast.walk(&mut parts).is_continue()
}

/// Counts the parts of a query, until there are too many, or one that is no stored table.
struct Parts<'a> {
    is_stored: &'a dyn Fn(&ObjectName) -> bool,
    left: usize,
    /// How many queries the part at hand is within.
    depth: usize,
    /// The names of WITH so far.
    with: Vec<String>,
}

impl Parts<'_> {
    fn is_with(&self, name: &str) -> bool {
        self.with.iter().any(|with| with.eq_ignore_ascii_case(name))
    }

    fn part(&mut self) -> ControlFlow<()> {
        match self.left.checked_sub(1) {
            Some(left) => {
                self.left = left;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        }
    }
}

impl Visitor for Parts<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        if self.depth > MOST_QUERIES {
            return ControlFlow::Break(());
        }
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        // A recursive one may have no end.
        if with.recursive {
            return ControlFlow::Break(());
        }
        self.with.extend(with.cte_tables.iter().map(|table| table.alias.name.value.clone()));
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        self.part()?;
        let is_stored = match factor {
            TableFactor::Table { name, args: None, .. } => {
                let is_with = match name.0.as_slice() {
                    [part] => part.as_ident().is_some_and(|name| self.is_with(&name.value)),
                    _ => false,
                };
                is_with || (self.is_stored)(name)
            }
            TableFactor::Derived { .. } | TableFactor::NestedJoin { .. } => true,
            _ => false,
        };
        if is_stored { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            // A few words stand for thousands of sets.
            Expr::Cube(_) | Expr::Rollup(_) | Expr::GroupingSets(_) => ControlFlow::Break(()),
            _ => self.part(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::sql::parser::DFParser;

    fn check(sql: &str, expect: bool) {
        let query = DFParser::parse_sql(sql).expect("it is SQL").pop_front().expect("a statement");
        assert_eq!(has_few_parts(&query, &|name| name.to_string() == "t"), expect, "{sql}");
    }

    #[test]
    fn short_queries_over_stored_tables_are_planned_here() {
        check("SELECT a, sum(b) FROM t WHERE c IN (SELECT c FROM t) GROUP BY a", true);
        check("EXPLAIN SELECT 1", true);
        check("WITH q AS (SELECT a FROM t) SELECT * FROM Q JOIN (SELECT * FROM t) x USING (a)", true);
    }

    #[test]
    fn views_files_functions_recursion_and_long_queries_are_not() {
        check("SELECT * FROM v", false);
        check("SELECT * FROM 'a.parquet'", false);
        check("SELECT * FROM t JOIN range(10) r ON true", false);
        check("SELECT (SELECT max(a) FROM v) FROM t", false);
        check("WITH RECURSIVE q AS (SELECT 1) SELECT * FROM q", false);
        check("INSERT INTO t VALUES (1)", false);
        check("SELECT count(*) FROM t GROUP BY CUBE (a, b)", false);
        let within = |queries| (1..queries).fold("SELECT 1".to_owned(), |query, _| format!("SELECT ({query}) FROM t"));
        check(&within(MOST_QUERIES), true);
        check(&within(MOST_QUERIES + 1), false);
        // One behind the other they are as many as there may be parts.
        check(&vec!["SELECT a FROM t"; 100].join(" UNION ALL "), true);
        let long = (0..500).map(|number| number.to_string()).collect::<Vec<_>>().join(", ");
        check(&format!("SELECT a IN ({long}) FROM t"), false);
    }
}
