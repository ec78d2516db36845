//! Arguments of macros that name columns, where a subquery or a lambda of the macro would take the names for its own: they are
//! computed outside of it, as columns of a table that it reads.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LambdaFunctionParameter, Query, Select, SelectItem, SetExpr, TableFactor, VisitorMut,
};
use forebay_base::{Error, Result};
use forebay_grammar::walk::{Tree, any_expression};

use crate::definition::{Parameter, query};

/// Arguments as a table: `SELECT … FROM (SELECT argument AS parameter, …)`.
pub(crate) struct Arguments(Box<Query>);

impl Arguments {
    /// What reads them, as a value.
    pub(crate) fn around(mut self, body: Expr) -> Expr {
        if let SetExpr::Select(select) = self.0.body.as_mut() {
            select.projection = vec![SelectItem::UnnamedExpr(body)];
        }
        Expr::Subquery(self.0)
    }
}

/// Puts the names of columns of a table `scope` in place of the arguments whose own names something in `body` would capture; gives
/// that table, if there are such arguments.
///
/// # Errors
/// None that a macro may cause.
pub(crate) fn bind(
    body: &Expr,
    scope: &str,
    parameters: &[Parameter],
    values: &mut [Expr],
) -> Result<Option<Arguments>> {
    let mut columns = Vec::new();
    for (parameter, value) in parameters.iter().zip(values) {
        if names_columns(value) && is_captured(body, &parameter.name, value) {
            let name = Ident::with_quote('"', &parameter.name);
            let read = Expr::CompoundIdentifier(vec![Ident::new(scope), name.clone()]);
            columns.push(SelectItem::ExprWithAlias { expr: std::mem::replace(value, read), alias: name });
        }
    }
    if columns.is_empty() {
        return Ok(None);
    }
    let mut whole = query(&format!("SELECT NULL FROM (SELECT NULL) AS {scope}"))?;
    let Some(inner) = derived(&mut whole) else { return Err(Error::internal("a subquery in FROM is none")) };
    inner.projection = columns;
    Ok(Some(Arguments(Box::new(whole))))
}

/// The SELECT of the subquery that a query reads.
fn derived(query: &mut Query) -> Option<&mut Select> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else { return None };
    let SetExpr::Select(inner) = subquery.body.as_mut() else { return None };
    Some(inner)
}

/// Whether an expression names a column.
pub(crate) fn names_columns(value: &Expr) -> bool {
    any_expression(value, |part| matches!(part, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
}

/// Whether a parameter stands in a subquery, or in a lambda with a parameter that its value names.
fn is_captured(body: &Expr, parameter: &str, value: &Expr) -> bool {
    let mut search = Search { parameter, value, depth: 0 };
    body.clone().walk_mut(&mut search).is_break()
}

struct Search<'a> {
    parameter: &'a str,
    value: &'a Expr,
    /// Subqueries around what is looked at.
    depth: usize,
}

impl VisitorMut for Search<'_> {
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
        let is_found = match expr {
            Expr::Identifier(name) => self.depth > 0 && name.value.eq_ignore_ascii_case(self.parameter),
            Expr::Lambda(lambda) => {
                let own = lambda.params.iter().map(|LambdaFunctionParameter { name, .. }| name.value.as_str());
                own.into_iter().any(|own| names(self.value, own)) && names(&lambda.body, self.parameter)
            }
            _ => false,
        };
        if is_found { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

/// Whether an expression has this name somewhere, at the head of a longer one too.
fn names(expr: &Expr, wanted: &str) -> bool {
    let is_wanted = |name: Option<&Ident>| name.is_some_and(|name| name.value.eq_ignore_ascii_case(wanted));
    any_expression(expr, |part| match part {
        Expr::Identifier(name) => is_wanted(Some(name)),
        Expr::CompoundIdentifier(parts) => is_wanted(parts.first()),
        _ => false,
    })
}
