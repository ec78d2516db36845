//! COMMENT ON a table or a column: an option of it.

use datafusion::sql::sqlparser::ast::{CommentObject, ObjectName, ObjectNamePart};
use forebay_base::{Error, Result};
use forebay_names::named::find_column;
use forebay_tables::declared::COMMENT;

use crate::answer::Answer;
use crate::lookup::{find_name, find_table};
use crate::run::Run;

impl Run<'_> {
    /// Keeps a comment, or forgets it where there is no text.
    pub(crate) fn comment(&self, kind: &CommentObject, name: &ObjectName, text: Option<&str>) -> Result<Answer> {
        let (of_table, column) = match (kind, name.0.split_last()) {
            (CommentObject::Table, _) => (name.clone(), None),
            (CommentObject::Column, Some((ObjectNamePart::Identifier(column), rest))) if !rest.is_empty() => {
                (ObjectName(rest.to_vec()), Some(column))
            }
            _ => return Err(Error::unsupported("comments are kept of tables and columns")),
        };
        let found = find_name(&self.planner, &of_table)?;
        if self.planner.snapshot().view(&found.schema, &found.name).is_some() {
            return self.done("COMMENT");
        }
        let table = find_table(&self.planner, &found)?;
        let column = column.map(|column| find_column(&table, column)).transpose()?;
        self.planner.transaction().change(|changes| changes.set_option(table.id, column, COMMENT, text))?;
        self.done("COMMENT")
    }
}
