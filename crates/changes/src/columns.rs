//! Columns of a table in statements that change it: their names, what they are set to, and `DEFAULT`.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, Ident, ObjectName, ObjectNamePart, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::parser::Parser;
use forebay_base::{Error, ErrorKind, LogicalType, Result, TimeUnit};
use forebay_context::error::suggestion;
use forebay_engine::types::arrow_type;
use forebay_store::{Column, Table};
use forebay_syntax::dialect::ForebayDialect;
use forebay_tables::declared::generated_from;
use forebay_tables::nested_columns;

use crate::generated;

/// What each column is set to, by its place.
///
/// # Errors
/// Columns that are not there, or set twice, and lists of other lengths than their values.
pub fn assigned(table: &Table, assignments: &[Assignment]) -> Result<BTreeMap<usize, Expr>> {
    let mut values = BTreeMap::new();
    let mut assign = |target: &ObjectName, value: &Expr| {
        let (index, column) = find(table, target)?;
        if generated_from(table, column).is_some() {
            return Err(generated::refused(column));
        }
        let value = if is_default(value) { default_expr(column)? } else { value.clone() };
        match values.insert(index, value) {
            None => Ok(()),
            Some(_) => Err(Error::input(format!("column {} is set twice", column.name))),
        }
    };
    for Assignment { target, value } in assignments {
        match (target, value) {
            (AssignmentTarget::ColumnName(column), value) => assign(column, value)?,
            (AssignmentTarget::Tuple(columns), Expr::Tuple(values)) if columns.len() == values.len() => {
                columns.iter().zip(values).try_for_each(|(column, value)| assign(column, value))?;
            }
            (AssignmentTarget::Tuple(columns), _) => {
                return Err(Error::input(format!("{} columns are not set to as many values", columns.len()))
                    .hint("Write (a, b) = (1, 2)"));
            }
        }
    }
    Ok(values)
}

/// The column that the last part of a name means, and its place.
///
/// # Errors
/// A column that is not there.
pub fn find<'a>(table: &'a Table, name: &ObjectName) -> Result<(usize, &'a Column)> {
    let name = name.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.clone()).unwrap_or_default();
    let known = table.columns.iter().map(|column| column.name.as_str());
    table.column(&name).ok_or_else(|| unknown_column(&name, known))
}

/// An error about a column that is not there.
pub fn unknown_column<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("column {wanted} does not exist"));
    match suggestion(wanted, names) {
        Some(other) => error.hint(format!("Did you mean {other}?")),
        None => error,
    }
}

/// Whether an expression is the word DEFAULT.
pub fn is_default(expr: &Expr) -> bool {
    matches!(expr, Expr::Identifier(Ident { value, quote_style: None, .. }) if value.eq_ignore_ascii_case("default"))
}

/// What DEFAULT means for a column.
///
/// # Errors
/// A text in the catalog that is no expression.
pub fn default_expr(column: &Column) -> Result<Expr> {
    let Some(text) = &column.default else {
        return Ok(Expr::Value(ValueWithSpan::from(Value::Null)));
    };
    let dialect = ForebayDialect;
    let parsed = Parser::new(&dialect).try_with_sql(text).and_then(|mut parser| parser.parse_expr());
    let expr = parsed.map_err(|error| Error::corrupt(format!("DEFAULT {text} of column {}: {error}", column.name)))?;
    Ok(Expr::Nested(Box::new(expr)))
}

/// A value in the type of a column.
pub(crate) fn cast(table: &Table, column: &Column, value: &str) -> String {
    match &column.logical {
        // SQL has one type for all zones and units.
        LogicalType::Timestamp { zone: Some(zone), unit } if zone != "UTC" || *unit != TimeUnit::Micro => {
            format!("arrow_cast({value}, '{}')", arrow_type(&column.logical))
        }
        _ => format!("CAST(({value}) AS {})", nested_columns::shown(table, column)),
    }
}

/// The table in a query.
pub fn whole_table(table: &Table) -> String {
    format!("{}.{}", quoted(&table.schema), quoted(&table.name))
}

/// A name in quotes.
pub fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
