//! Generated columns: `total INTEGER GENERATED ALWAYS AS (price * pieces)`. They are stored, and computed anew whenever their row is
//! written, so that they are what a virtual column would be.

use datafusion::sql::sqlparser::ast::{Ident, Insert, ObjectName, ObjectNamePart, SetExpr};
use forebay_base::{Error, Result};
use forebay_store::{Column, Table};
use forebay_tables::declared::generated_from;

/// Whether a table has such columns.
pub fn has_any(table: &Table) -> bool {
    table.columns.iter().any(|column| generated_from(table, column).is_some())
}

/// An error about a value for such a column.
pub(crate) fn refused(column: &Column) -> Error {
    Error::input(format!("column {} is generated and takes no value", column.name)).hint("Leave it out")
}

/// Has an INSERT give values to the other columns only.
///
/// # Errors
/// Values for generated columns.
pub(crate) fn leave_out(insert: &mut Insert, table: &Table) -> Result<()> {
    if !has_any(table) {
        return Ok(());
    }
    let name = |part: &ObjectName| part.0.last().and_then(ObjectNamePart::as_ident).map(|name| name.value.clone());
    for given in insert.columns.iter().filter_map(name) {
        if let Some((_, column)) = table.column(&given).filter(|(_, column)| generated_from(table, column).is_some()) {
            return Err(refused(column));
        }
    }
    let is_empty = insert
        .source
        .as_deref()
        .is_some_and(|source| matches!(source.body.as_ref(), SetExpr::Values(values) if values.rows.is_empty()));
    if insert.columns.is_empty() && insert.source.is_some() && !is_empty {
        let given = table.columns.iter().filter(|column| generated_from(table, column).is_none());
        let quoted = |column: &Column| ObjectName::from(vec![Ident::with_quote('"', &column.name)]);
        insert.columns = given.map(quoted).collect();
    }
    Ok(())
}
