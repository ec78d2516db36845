//! Tables and columns of a catalog by their names, or errors that suggest others.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Ident;
use forebay_base::{ColumnId, Error, ErrorKind, Result};
use forebay_changes::columns::unknown_column;
use forebay_context::error::suggestion;
use forebay_store::{Catalog, Table, TableSnapshot};
use forebay_system::schema::check_free;

use crate::qualified_name::{QualifiedName, ident};

/// The table of this name, or an error that suggests another.
pub fn table_of(catalog: &Catalog, name: &QualifiedName) -> Result<Arc<TableSnapshot>> {
    if let Some(table) = catalog.table(&name.schema, &name.name) {
        return Ok(Arc::clone(table));
    }
    if catalog.view(&name.schema, &name.name).is_some() {
        return Err(Error::input(format!("{} is a view, not a table", name.name)));
    }
    check_free(&name.schema, &format!("{}.{}", name.schema, name.name))?;
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
