//! Names of tables, views and schemas, as statements write them.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName, ObjectNamePart};
use forebay_base::{Error, Result};
use forebay_store::names_equal;
use forebay_system::CATALOG;

/// A schema and a name in it.
#[derive(Debug, Clone)]
pub struct QualifiedName {
    /// Schema.
    pub schema: String,
    /// Name.
    pub name: String,
}

impl QualifiedName {
    /// Resolves `name`, `schema.name` or `forebay.schema.name`; `memory` is another name of `forebay`.
    pub fn of(name: &ObjectName, default_schema: &str) -> Result<Self> {
        let parts: Vec<String> = name.0.iter().filter_map(ObjectNamePart::as_ident).map(ident).collect();
        let (schema, name) = match parts.as_slice() {
            [name] => (default_schema.to_owned(), name.clone()),
            [schema, name] => (schema.clone(), name.clone()),
            [catalog, schema, name] if is_catalog(catalog) => (schema.clone(), name.clone()),
            _ => return Err(Error::input(format!("{name} is not a table name")).hint("Write table or schema.table")),
        };
        Ok(Self { schema, name })
    }
}

/// Whether this is what the database is called: its name, or that of DuckDB's databases in memory.
pub fn is_catalog(name: &str) -> bool {
    names_equal(name, CATALOG) || names_equal(name, "memory")
}

/// An identifier as it is stored: as it is written, quoted or not. It is found in any case.
pub fn ident(ident: &Ident) -> String {
    ident.value.clone()
}
