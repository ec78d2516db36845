//! Expressions that have a value for one row: what UPDATE sets and RETURNING answers.

use std::ops::ControlFlow;

use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Query, Visitor};
use forebay_context::functions::Functions;
use forebay_grammar::walk::Tree;

/// The first call in an expression that takes several rows: of an aggregate or a window, outside of subqueries.
pub fn other_than_of_one_row(state: &SessionState, expr: &Expr) -> Option<String> {
    let mut rows = OfOneRow { functions: &Functions::of(state.config()), depth: 0, other: None };
    let _ = expr.walk(&mut rows);
    rows.other
}

/// Looks for calls that take several rows, outside of subqueries.
struct OfOneRow<'a> {
    functions: &'a Functions,
    depth: usize,
    other: Option<String>,
}

impl Visitor for OfOneRow<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(call)
                if self.depth == 0
                    && (call.over.is_some()
                        || self.functions.aggregate(&call.name.to_string().to_lowercase()).is_some()) =>
            {
                self.other = Some(call.to_string());
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}
