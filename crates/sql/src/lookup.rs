//! What the names in a statement mean in the catalog: tables and columns, or an error that suggests another.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::{ColumnId, Error, ErrorKind, Result};
use forebay_context::error::suggestion;
use forebay_store::{Table, names_equal};
use forebay_syntax::dialect::ForebayDialect;

use crate::catalog::{CATALOG, Planner};

/// A schema and a name in it.
#[derive(Debug, Clone)]
pub struct QualifiedName {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
}

impl QualifiedName {
    /// Resolves `name`, `schema.name` or `forebay.schema.name`.
    pub fn of(name: &ObjectName, default_schema: &str) -> Result<Self> {
        let parts: Vec<String> = name.0.iter().filter_map(ObjectNamePart::as_ident).map(ident).collect();
        let (schema, name) = match parts.as_slice() {
            [name] => (default_schema.to_owned(), name.clone()),
            [schema, name] => (schema.clone(), name.clone()),
            [catalog, schema, name] if names_equal(catalog, CATALOG) => (schema.clone(), name.clone()),
            _ => return Err(Error::input(format!("{name} is not a table name")).hint("Write table or schema.table")),
        };
        Ok(Self { schema, name })
    }
}

/// An identifier as it is stored: as it is written, quoted or not. It is found in any case.
pub fn ident(ident: &Ident) -> String {
    ident.value.clone()
}

/// The name that a text is.
pub(crate) fn parse_name(text: &str) -> Result<ObjectName> {
    let wrong = |_| Error::input("not a name");
    let mut parser = Parser::new(&ForebayDialect).try_with_sql(text).map_err(wrong)?;
    let name = parser.parse_object_name(false).map_err(wrong)?;
    match parser.peek_token().token {
        Token::EOF => Ok(name),
        _ => Err(Error::input("not a name")),
    }
}

/// The table of this name, or an error that suggests another.
pub fn find_table(planner: &Planner, name: &QualifiedName) -> Result<Arc<Table>> {
    let catalog = planner.snapshot();
    if let Some(table) = catalog.table(&name.schema, &name.name) {
        return Ok(Arc::clone(table));
    }
    if catalog.view(&name.schema, &name.name).is_some() {
        return Err(Error::input(format!("{} is a view, not a table", name.name)));
    }
    let error = Error::new(ErrorKind::NotFound, format!("table {} does not exist", name.name));
    Err(match suggestion(&name.name, catalog.tables().map(|table| table.name.as_str())) {
        Some(other) => error.hint(format!("Did you mean {other}?")),
        None => error,
    })
}

/// The column of this name, or an error that suggests another.
pub fn find_column(table: &Table, name: &Ident) -> Result<ColumnId> {
    let name = ident(name);
    match table.column(&name) {
        Some((_, column)) => Ok(column.id),
        None => Err(unknown_column(&name, table.columns.iter().map(|column| column.name.as_str()))),
    }
}

/// An error about a column that is not there.
pub fn unknown_column<'a>(wanted: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let error = Error::new(ErrorKind::NotFound, format!("column {wanted} does not exist"));
    match suggestion(wanted, names) {
        Some(other) => error.hint(format!("Did you mean {other}?")),
        None => error,
    }
}
