//! Types of what files say of themselves.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;

/// Rows of a table.
pub(crate) type Rows = Vec<Vec<ScalarValue>>;

/// A struct of nullable fields.
fn structure(fields: &[(&str, DataType)]) -> DataType {
    DataType::Struct(fields.iter().map(|(name, data_type)| Field::new(*name, data_type.clone(), true)).collect())
}

/// A list of nullable elements.
pub(crate) fn list(element: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(element, true)))
}

/// The least box around shapes.
pub(crate) fn box_type() -> DataType {
    let sides = ["xmin", "xmax", "ymin", "ymax", "zmin", "zmax", "mmin", "mmax"];
    structure(&sides.map(|side| (side, DataType::Float64)))
}

/// How pages are encoded.
pub(crate) fn page_type() -> DataType {
    structure(&[("page_type", DataType::Utf8), ("encoding", DataType::Utf8), ("count", DataType::Int32)])
}

/// Texts by texts, of bytes.
pub(crate) fn map_type() -> DataType {
    let entry = |name: &str, nullable: bool| Arc::new(Field::new(name, DataType::Binary, nullable)) as FieldRef;
    let entries = Fields::from(vec![entry("key", false), entry("value", true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(entries), false)), false)
}

/// Names and types of a column of a CSV file.
pub(crate) fn column_type() -> DataType {
    structure(&[("name", DataType::Utf8), ("type", DataType::Utf8)])
}
