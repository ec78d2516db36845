//! Fields of texts that have a type of their own, as ENUM. A field says so by the mark of Arrow's extension types, whose
//! name ends in the type in SQL's words. What computes with texts needs not know; what orders, casts or shows them does.

use datafusion::arrow::datatypes::Field;

/// Arrow's key for the name of an extension type. It is the only one, so that a field is always written in the same way.
pub const KEY: &str = "ARROW:extension:name";

/// What the names of our types begin with, before their words.
const PREFIX: &str = "forebay.";

/// What stands under [`KEY`] for a type.
pub fn name(of: &str) -> String {
    format!("{PREFIX}{of}")
}

/// The type of a field, in SQL's words, if it is one of these.
pub fn of(field: &Field) -> Option<&str> {
    field.metadata().get(KEY).and_then(|name| name.strip_prefix(PREFIX))
}

/// The field, of this type.
pub fn marked(field: Field, of: &str) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.insert(KEY.to_owned(), name(of));
    field.with_metadata(metadata)
}

/// The field without such a type.
pub fn plain(field: Field) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.remove(KEY);
    field.with_metadata(metadata)
}

/// The type of texts that are JSON.
pub const JSON: &str = "JSON";

/// The type of UUIDs.
pub const UUID: &str = "UUID";

/// The type of bits.
pub const BIT: &str = "BIT";

/// The type of times of day with their distance from UTC.
pub const ZONED_TIME: &str = "TIME WITH TIME ZONE";

/// Whether a type in SQL's words is one of these.
pub fn is_own(of: &str) -> bool {
    [UUID, BIT, ZONED_TIME, JSON].contains(&of) || (of.starts_with("ENUM(") && of.ends_with(')'))
}
