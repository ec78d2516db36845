//! Names as statements have them.

use forebay_store::DEFAULT_SCHEMA;

/// A name as SQL has it: in quotes where it needs them.
pub fn name_text(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if is_plain { name.to_owned() } else { format!("\"{}\"", name.replace('"', "\"\"")) }
}

/// The name of a table or the like, with its schema where that must be said.
pub(crate) fn table_text(schema: &str, name: &str) -> String {
    match schema {
        DEFAULT_SCHEMA => name_text(name),
        _ => format!("{}.{}", name_text(schema), name_text(name)),
    }
}
