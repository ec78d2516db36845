//! Names of columns as they are stored, which are found in any case.
//!
//! Invariant: the names of tables are read where the tables have them; what is copied is a pointer for each table.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, SchemaRef};
use datafusion::sql::sqlparser::ast::Ident;

use forebay_context::own_types;

/// Stored names of columns, of one table or of several.
#[derive(Debug, Default, Clone)]
pub struct StoredNames {
    parts: Vec<Part>,
}

/// Names of one table or query.
#[derive(Debug, Clone)]
enum Part {
    Table(SchemaRef),
    Query(Arc<[String]>),
}

impl StoredNames {
    /// Names that are stored as they are given.
    pub fn of(names: Vec<String>) -> Self {
        Self { parts: vec![Part::Query(names.into())] }
    }

    /// Adds the columns of a table.
    pub(crate) fn add_all(&mut self, schema: SchemaRef) {
        self.parts.push(Part::Table(schema));
    }

    /// All names, in their order.
    pub fn in_order(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().flat_map(|part| {
            let (fields, names) = match part {
                Part::Table(schema) => (Some(schema.fields()), None),
                Part::Query(names) => (None, Some(names)),
            };
            let of_fields = fields.into_iter().flat_map(|fields| fields.iter().map(|field| field.name().as_str()));
            of_fields.chain(names.into_iter().flat_map(|names| names.iter().map(String::as_str)))
        })
    }

    /// Whether there is a column of this name in lower case.
    pub fn has(&self, lower: &str) -> bool {
        self.in_order().any(|name| is_in_lower_case(name, lower))
    }

    /// Whether a name has letters that are not small.
    pub(crate) fn has_capitals(&self) -> bool {
        self.in_order().any(|name| name.chars().any(char::is_uppercase))
    }

    /// Whether there is a column that is written so.
    pub(crate) fn has_as_written(&self, name: &str) -> bool {
        self.in_order().any(|own| own == name)
    }

    /// How a column of this name in lower case is stored. Where one name is stored in several cases, the lower-case one is
    /// meant, and else the first.
    pub fn stored(&self, lower: &str) -> Option<&str> {
        let mut found = self.in_order().filter(|name| is_in_lower_case(name, lower)).peekable();
        let first = found.peek().copied();
        found.find(|name| *name == lower).or(first)
    }

    /// Whether a table has a column of this name in lower case that is known to have no fields.
    pub(crate) fn is_plain(&self, lower: &str) -> bool {
        self.parts.iter().any(|part| match part {
            Part::Table(schema) => {
                schema.fields().iter().any(|field| is_in_lower_case(field.name(), lower) && !has_fields(field))
            }
            Part::Query(_) => false,
        })
    }

    /// All names in lower case, each once.
    pub fn lower(&self) -> Vec<String> {
        let mut lower: Vec<String> = self.in_order().map(str::to_lowercase).collect();
        lower.sort_unstable();
        lower.dedup();
        lower
    }

    /// Replaces a name by the stored one, also a quoted one that no column has as it is written.
    pub fn replace_known(&self, name: &mut Ident) {
        if name.quote_style.is_some()
            && !self.has_as_written(&name.value)
            && let Some(stored) = self.stored(&name.value.to_lowercase())
        {
            name.value = stored.to_owned();
        }
        self.replace(name);
    }

    /// Replaces an unquoted name by the stored one.
    pub fn replace(&self, name: &mut Ident) {
        if name.quote_style.is_none()
            && let Some(stored) = self.stored(&name.value.to_lowercase())
        {
            quote(name, stored);
        }
    }
}

/// Quotes a name that is not found as it is written: in lower case.
pub(crate) fn quote(name: &mut Ident, stored: &str) {
    if stored != name.value.to_lowercase() {
        *name = Ident { value: stored.to_owned(), quote_style: Some('"'), span: name.span };
    }
}

/// Whether a name is `lower` in lower case.
fn is_in_lower_case(name: &str, lower: &str) -> bool {
    match name.is_ascii() {
        true => {
            name.len() == lower.len()
                && name.bytes().zip(lower.bytes()).all(|(own, other)| own.to_ascii_lowercase() == other)
        }
        false => name.to_lowercase() == lower,
    }
}

fn has_fields(field: &Field) -> bool {
    matches!(field.data_type(), DataType::Struct(_) | DataType::Map(..))
        || own_types::of(field) == Some(own_types::JSON)
}

#[cfg(test)]
mod tests {
    use super::*;

    use datafusion::arrow::datatypes::Schema;

    #[test]
    fn names_are_found_in_any_case() {
        let field = |name: &str, data_type| Field::new(name, data_type, true);
        let pair = DataType::Struct(vec![field("x", DataType::Int32)].into());
        let schema = Schema::new(vec![
            field("Total", DataType::Int32),
            field("TOTAL", DataType::Int32),
            field("Größe", DataType::Int32),
            field("Pair", pair),
        ]);
        let mut names = StoredNames::default();
        names.add_all(Arc::new(schema));
        assert_eq!(names.stored("total"), Some("Total"), "the first");
        assert_eq!(names.stored("größe"), Some("Größe"));
        assert_eq!(names.stored("tota"), None);
        assert!(names.has("pair") && !names.has("Pair"), "asked in lower case");
        assert!(names.is_plain("größe") && !names.is_plain("pair"), "a struct has fields");
        assert_eq!(names.lower(), ["größe", "pair", "total"]);
        names.parts.extend(StoredNames::of(vec!["total".to_owned()]).parts);
        assert_eq!(names.stored("total"), Some("total"), "the one in lower case");
        assert!(names.has_as_written("TOTAL") && !names.has_as_written("PAIR"));
    }

    #[test]
    fn names_that_are_stored_otherwise_are_quoted() {
        let names = StoredNames::of(vec!["Id".to_owned(), "key".to_owned()]);
        let replaced = |mut name: Ident| {
            names.replace(&mut name);
            name.to_string()
        };
        assert_eq!(replaced(Ident::new("ID")), "\"Id\"");
        assert_eq!(replaced(Ident::new("KEY")), "KEY");
        assert_eq!(replaced(Ident::with_quote('"', "ID")), "\"ID\"");
        let mut quoted = Ident::with_quote('"', "ID");
        names.replace_known(&mut quoted);
        assert_eq!(quoted.to_string(), "\"Id\"");
    }
}
