//! Parts of an INSERT that are not planned with it: `DEFAULT` in its rows, and `DEFAULT VALUES`, which become the columns' default
//! expressions, RETURNING, BY NAME and ON CONFLICT.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Ident, Insert, ObjectName, ObjectNamePart, SelectItem, SetExpr, Statement as Ast,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};
use forebay_context::error::from_datafusion;
use forebay_grammar::filled_tables::BY_NAME;
use forebay_store::{Column, Table};
use forebay_syntax::dialect::ForebayDialect;
use forebay_tables::declared::generated_from;

use crate::columns::{default_expr, find, is_default};
use crate::conflict::Conflict;
use crate::generated;

/// Fills in the defaults of `statement`, an INSERT into `table`, and leaves generated columns out.
///
/// # Errors
/// Columns that are not there, and values for generated ones.
pub fn fill_defaults(statement: &mut PlanStatement, table: &Table) -> Result<()> {
    let PlanStatement::Statement(ast) = statement else { return Ok(()) };
    let Ast::Insert(insert) = ast.as_mut() else { return Ok(()) };
    generated::leave_out(insert, table)?;
    if insert.source.is_none() && insert.assignments.is_empty() {
        return default_values(insert, table);
    }
    let Some(source) = &mut insert.source else { return Ok(()) };
    let SetExpr::Values(values) = source.body.as_mut() else { return Ok(()) };
    if !values.rows.iter().any(|row| row.content.iter().any(is_default)) {
        return Ok(());
    }
    let columns = target_columns(&insert.columns, table)?;
    for row in &mut values.rows {
        for (value, column) in row.content.iter_mut().zip(&columns) {
            if is_default(value) {
                *value = default_expr(column)?;
            }
        }
    }
    Ok(())
}

/// Takes the list of RETURNING out of an INSERT.
pub fn taken_returning(statement: &mut PlanStatement) -> Option<Vec<SelectItem>> {
    let PlanStatement::Statement(ast) = statement else { return None };
    match ast.as_mut() {
        Ast::Insert(insert) => insert.returning.take(),
        _ => None,
    }
}

/// Takes what is done with rows that are there already out of an INSERT into `table`.
///
/// # Errors
/// As [`Conflict::taken`].
pub fn taken_conflict(statement: &mut PlanStatement, table: &Table) -> Result<Option<Conflict>> {
    let PlanStatement::Statement(ast) = statement else { return Ok(None) };
    match ast.as_mut() {
        Ast::Insert(insert) => Conflict::taken(insert, table),
        _ => Ok(None),
    }
}

/// What RETURNING calls the table `name` that an INSERT fills: as the statement does.
pub fn taken_alias(statement: &mut PlanStatement, name: &ObjectName) -> String {
    let own = || name.0.last().and_then(ObjectNamePart::as_ident).map(ToString::to_string).unwrap_or_default();
    let PlanStatement::Statement(ast) = statement else { return own() };
    match ast.as_mut() {
        Ast::Insert(insert) => insert.table_alias.take().map_or_else(own, |alias| alias.alias.to_string()),
        _ => own(),
    }
}

/// The query of an INSERT BY NAME.
pub fn source_by_name(statement: &PlanStatement) -> Option<String> {
    let PlanStatement::Statement(ast) = statement else { return None };
    let Ast::Insert(insert) = ast.as_ref() else { return None };
    let [only] = insert.columns.as_slice() else { return None };
    let is_by_name = only.0.last().and_then(ObjectNamePart::as_ident).is_some_and(|name| name.value == BY_NAME);
    insert.source.as_ref().filter(|_| is_by_name).map(ToString::to_string)
}

/// Gives the columns of an INSERT their names.
pub fn name_columns<'a>(statement: &mut PlanStatement, names: impl Iterator<Item = &'a String>) {
    let PlanStatement::Statement(ast) = statement else { return };
    let Ast::Insert(insert) = ast.as_mut() else { return };
    insert.columns = names.map(|name| quoted(name)).collect();
}

fn quoted(name: &str) -> ObjectName {
    ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', name))])
}

/// `INSERT INTO t DEFAULT VALUES` as `INSERT INTO t (first column) VALUES (its default)`; the others follow by themselves.
fn default_values(insert: &mut Insert, table: &Table) -> Result<()> {
    let is_given = |column: &&Column| generated_from(table, column).is_none();
    let Some(first) = table.columns.iter().find(is_given) else { return Ok(()) };
    let wrong = |error| Error::internal(format!("DEFAULT VALUES: {error}"));
    let dialect = ForebayDialect;
    let text = format!("VALUES ({})", default_expr(first)?);
    let query = Parser::new(&dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query()).map_err(wrong)?;
    insert.columns = vec![quoted(&first.name)];
    insert.source = Some(query);
    Ok(())
}

fn target_columns(names: &[ObjectName], table: &Table) -> Result<Vec<Column>> {
    if names.is_empty() {
        return Ok(table.columns.clone());
    }
    names.iter().map(|name| find(table, name).map(|(_, column)| column.clone())).collect()
}

/// Whether the rows of a plan come of tables.
///
/// # Errors
/// Those of walking the plan.
pub fn reads_tables(plan: &LogicalPlan) -> Result<bool> {
    let mut reads = false;
    let walked = plan.apply_with_subqueries(|node| {
        reads |= matches!(node, LogicalPlan::TableScan(_));
        Ok(if reads { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    walked.map_err(from_datafusion).map(|_| reads)
}
