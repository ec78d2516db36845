//! The names that a statement gives its tables and columns itself.

use std::collections::HashSet;

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{Query, Statement as Ast};
use forebay_base::{Error, Result};

use crate::letter_cases::Given;

/// The names that a statement gives, where some are in quotes; those of tables are written as they are given.
pub fn of(statement: &mut PlanStatement) -> Option<Given> {
    let ast = explained(statement)?;
    let given = Some(Given::of(ast)).filter(|given| !given.is_plain())?;
    given.name_tables(ast);
    Some(given)
}

/// The statement itself, or the one that EXPLAIN shows.
pub fn explained(statement: &mut PlanStatement) -> Option<&mut Ast> {
    match statement {
        PlanStatement::Statement(ast) => Some(ast),
        PlanStatement::Explain(explain) => explained(&mut explain.statement),
        PlanStatement::CreateExternalTable(_) | PlanStatement::CopyTo(_) | PlanStatement::Reset(_) => None,
    }
}

/// An error if WITH of a query gives a name twice.
///
/// # Errors
/// `Input`.
pub fn are_different(query: &Query) -> Result<()> {
    let mut named = HashSet::new();
    let tables = query.with.iter().flat_map(|with| &with.cte_tables);
    let mut tables = tables.map(|table| table.alias.name.value.to_lowercase());
    match tables.find(|name| !named.insert(name.clone())) {
        Some(twice) => Err(Error::input(format!("WITH has two tables called {twice}"))),
        None => Ok(()),
    }
}
