//! Aliases of a SELECT list that are used beside it: `SELECT a + 1 AS x, x * 2 FROM t WHERE x > 3`. The planner knows them in
//! GROUP BY, HAVING and ORDER BY alone, so that elsewhere they are written out before planning. A column of the tables in FROM goes
//! before an alias of its name.
//!
//! Invariant: where the columns of FROM are not all known, nothing is written out.

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, VisitMut, VisitorMut, visit_expressions,
};

use crate::outputs;
use crate::scopes::Scopes;
use crate::volatile::is_volatile_call;

/// Writes out aliases that later columns of the list, WHERE and QUALIFY use.
pub(crate) fn write_out(scopes: &Scopes, select: &mut Select) {
    let is_named = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { .. });
    if !select.projection.iter().any(is_named) {
        return;
    }
    let Some(columns) = outputs::of_from(scopes, select) else { return };
    let mut aliases = Aliases { meanings: HashMap::new(), inside: 0 };
    for item in &mut select.projection {
        match item {
            SelectItem::UnnamedExpr(expr) => {
                if let Expr::Identifier(name) = expr
                    && aliases.meanings.contains_key(&name.value.to_lowercase())
                {
                    let alias = Ident::with_quote('"', name.value.clone());
                    let mut expr = expr.clone();
                    aliases.write(&mut expr);
                    *item = SelectItem::ExprWithAlias { expr, alias };
                } else {
                    aliases.write(expr);
                }
            }
            SelectItem::ExprWithAlias { expr, alias } => {
                aliases.write(expr);
                let name = alias.value.to_lowercase();
                if !columns.contains(&name) && !differs(expr) {
                    // The first of several of one name is meant.
                    aliases.meanings.entry(name).or_insert_with(|| Expr::Nested(Box::new(expr.clone())));
                }
            }
            _ => {}
        }
    }
    select.selection.iter_mut().chain(&mut select.qualify).for_each(|expr| aliases.write(expr));
}

/// Whether an expression may have another value each time that it is computed.
fn differs(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Function(call) if is_volatile_call(call) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

/// What aliases mean, by their names in lower case.
struct Aliases {
    meanings: HashMap<String, Expr>,
    /// Subqueries and lambdas around the place, whose names are their own.
    inside: usize,
}

impl Aliases {
    fn write(&mut self, expr: &mut Expr) {
        if !self.meanings.is_empty() {
            let _: ControlFlow<()> = expr.visit(self);
        }
    }
}

impl VisitorMut for Aliases {
    type Break = ();

    fn pre_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _query: &mut Query) -> ControlFlow<()> {
        self.inside -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.inside += usize::from(matches!(expr, Expr::Lambda(_)));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.inside -= usize::from(matches!(expr, Expr::Lambda(_)));
        if let Expr::Identifier(name) = expr
            && self.inside == 0
            && let Some(meaning) = self.meanings.get(&name.value.to_lowercase())
        {
            *expr = meaning.clone();
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_plan;
    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use datafusion::sql::parser::Statement as PlanStatement;
    use datafusion::sql::sqlparser::ast::{SetExpr, Statement};

    fn check(text: &str, expect: &str) {
        let mut scopes = Scopes::default();
        scopes.add_table(&"t".into(), &Schema::new(vec![Field::new("a", DataType::Int32, true)]));
        let PlanStatement::Statement(statement) = parse_plan(text).expect("parses") else { panic!("{text}") };
        let Statement::Query(mut query) = *statement else { panic!("{text}") };
        if let SetExpr::Select(select) = query.body.as_mut() {
            write_out(&scopes, select);
        }
        assert_eq!(query.to_string(), expect);
    }

    #[test]
    fn aliases_are_what_they_name() {
        check(
            "SELECT a + 1 AS x, X * 2 AS y, x FROM t WHERE y > 3",
            "SELECT a + 1 AS x, (a + 1) * 2 AS y, (a + 1) AS \"x\" FROM t WHERE ((a + 1) * 2) > 3",
        );
    }

    #[test]
    fn columns_subqueries_and_lambdas_have_their_own_names() {
        for same in [
            "SELECT a + 1 AS a, a FROM t WHERE a > 3",
            "SELECT 1 AS x, (SELECT x FROM t)",
            "SELECT 1 AS x, list_transform([1], (x) -> x)",
            "SELECT random() AS x, x FROM t",
            "SELECT 1 AS x, x FROM unknown",
            "SELECT x, 1 AS x FROM t",
        ] {
            check(same, same);
        }
    }
}
