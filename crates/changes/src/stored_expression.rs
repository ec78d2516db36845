//! Expressions that the catalog has as texts, DEFAULT, CHECK and those of generated columns: they are read as those of statements.

use datafusion::common::DFSchema;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use datafusion::sql::sqlparser::ast::ExprWithAlias;
use forebay_base::Result;
use forebay_context::error::from_datafusion;
use forebay_planning::trees;
use forebay_syntax::names;
use std::sync::Arc;

/// The expression over the columns of `schema` that a text is.
///
/// # Errors
/// Texts that are no expression, and names that are not known.
pub fn planned(state: &SessionState, text: &str, schema: &DFSchema) -> Result<Expr> {
    let expr = names::resolve_expression(state.config(), Arc::clone(schema.inner()), text)?;
    trees::expression(state, ExprWithAlias { expr, alias: None }, schema).map_err(from_datafusion)
}
