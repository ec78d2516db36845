//! What options of a table declare: indexes, which have names and no rows, the expressions of generated columns, and comments.

use forebay_base::ColumnId;
use forebay_store::{Column, Table};

/// What the options of a table are called in which its indexes lie, before the name of each.
pub const INDEX: &str = "index ";

/// As [`INDEX`], of unique ones.
pub const UNIQUE_INDEX: &str = "unique index ";

/// What stands between the expressions of a unique index in its option.
pub const BETWEEN: &str = "\n";

/// The option of a column that holds its expression, over columns of the table.
pub const GENERATED: &str = "generated";

/// The option of a table or a column that holds what COMMENT ON says of it.
pub const COMMENT: &str = "comment";

/// An index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Index<'a> {
    /// What it is called, in lower case.
    pub name: &'a str,
    /// No two rows have the same values there.
    pub is_unique: bool,
    /// Expressions over columns of the table.
    pub parts: Vec<&'a str>,
}

/// The indexes of a table.
pub fn indexes(table: &Table) -> impl Iterator<Item = Index<'_>> {
    table.options.iter().filter(|(column, ..)| column.is_none()).filter_map(|(_, option, text)| {
        let plain = option.strip_prefix(INDEX).map(|name| (name, false, ", "));
        let unique = || option.strip_prefix(UNIQUE_INDEX).map(|name| (name, true, BETWEEN));
        let (name, is_unique, between) = plain.or_else(unique)?;
        Some(Index { name, is_unique, parts: text.split(between).collect() })
    })
}

/// The expression of a generated column; `None` of others.
pub fn generated_from<'a>(table: &'a Table, column: &Column) -> Option<&'a str> {
    table.options.get(Some(column.id), GENERATED)
}

/// What COMMENT ON said of a table, or of one of its columns.
pub fn comment(table: &Table, column: Option<ColumnId>) -> Option<&str> {
    table.options.get(column, COMMENT)
}
