//! What the names in a statement mean in the catalog: tables and columns, or an error that suggests another.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;
use forebay_base::{Error, Result};
use forebay_store::Table;
use forebay_syntax::dialect::ForebayDialect;

use crate::catalog::Planner;
use crate::named::table_of;
use crate::qualified_name::QualifiedName;

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

/// The table or view that a name means, whether it is there or not.
pub fn find_name(planner: &Planner, name: &ObjectName) -> Result<QualifiedName> {
    planner.path().find(planner.snapshot(), name)
}

/// The table of this name, or an error that suggests another.
pub fn find_table(planner: &Planner, name: &QualifiedName) -> Result<Arc<Table>> {
    table_of(planner.snapshot(), name)
}
