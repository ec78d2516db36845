//! `DEFAULT` in the rows of an INSERT, and `DEFAULT VALUES`: replaced by the columns' default expressions before planning.

use datafusion::sql::parser::Statement as PlanStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, ObjectName, ObjectNamePart, SetExpr, Statement as Ast, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, Result};
use forebay_store::{Column, Table};
use forebay_syntax::dialect::ForebayDialect;

use crate::lookup::{ident, unknown_column};

/// Fills in the defaults of `statement`, an INSERT into `table`.
pub fn fill_defaults(statement: &mut PlanStatement, table: &Table) -> Result<()> {
    let PlanStatement::Statement(ast) = statement else { return Ok(()) };
    let Ast::Insert(insert) = ast.as_mut() else { return Ok(()) };
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

fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(Ident { value, quote_style: None, .. }) if value.eq_ignore_ascii_case("default"))
}

/// `INSERT INTO t DEFAULT VALUES` as `INSERT INTO t (first column) VALUES (its default)`; the others follow by themselves.
fn default_values(insert: &mut Insert, table: &Table) -> Result<()> {
    let Some(first) = table.columns.first() else { return Ok(()) };
    let wrong = |error| Error::internal(format!("DEFAULT VALUES: {error}"));
    let dialect = ForebayDialect;
    let text = format!("VALUES ({})", default_expr(first)?);
    let query = Parser::new(&dialect).try_with_sql(&text).and_then(|mut parser| parser.parse_query()).map_err(wrong)?;
    insert.columns = vec![ObjectName(vec![ObjectNamePart::Identifier(Ident::with_quote('"', &first.name))])];
    insert.source = Some(query);
    Ok(())
}

fn target_columns(names: &[ObjectName], table: &Table) -> Result<Vec<Column>> {
    if names.is_empty() {
        return Ok(table.columns.clone());
    }
    let find = |name: &ObjectName| {
        let name = name.0.last().and_then(ObjectNamePart::as_ident).map(ident).unwrap_or_default();
        let known = table.columns.iter().map(|column| column.name.as_str());
        table.column(&name).map(|(_, column)| column.clone()).ok_or_else(|| unknown_column(&name, known))
    };
    names.iter().map(find).collect()
}

fn default_expr(column: &Column) -> Result<Expr> {
    let Some(text) = &column.default else {
        return Ok(Expr::Value(ValueWithSpan::from(Value::Null)));
    };
    let dialect = ForebayDialect;
    let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    let expr = parsed.map_err(|error| Error::corrupt(format!("DEFAULT {text} of column {}: {error}", column.name)))?;
    Ok(Expr::Nested(Box::new(expr)))
}
