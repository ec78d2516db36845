//! The types whose values are texts.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::metadata::FieldMetadata;
use forebay_context::own_types;

use crate::enumeration::Enumeration;

/// A type whose values are texts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Own {
    /// Of a list of texts, in their order.
    Enum(Arc<Enumeration>),
}

impl Own {
    /// The type of these words.
    pub fn of_text(text: &str) -> Option<Self> {
        Enumeration::of_text(text).map(|read| Self::Enum(Arc::new(read)))
    }

    /// The type of a field.
    pub fn of_field(field: &Field) -> Option<Self> {
        own_types::of(field).and_then(Self::of_text)
    }

    /// The type in SQL's words.
    pub fn text(&self) -> &str {
        match self {
            Self::Enum(values) => values.text(),
        }
    }

    /// What marks a field of it.
    pub fn metadata(&self) -> FieldMetadata {
        FieldMetadata::from(BTreeMap::from([(own_types::KEY.to_owned(), own_types::name(self.text()))]))
    }

    /// A field of it.
    pub fn field(&self, name: &str, data_type: DataType) -> FieldRef {
        Arc::new(own_types::marked(Field::new(name, data_type, true), self.text()))
    }

    /// The ENUM that it is.
    pub fn enumeration(&self) -> &Arc<Enumeration> {
        match self {
            Self::Enum(values) => values,
        }
    }
}

/// Whether values of a type have such a type inside.
pub fn is_inside(data_type: &DataType) -> bool {
    let is_one = |field: &FieldRef| own_types::of(field).is_some() || is_inside(field.data_type());
    match data_type {
        DataType::List(element) | DataType::LargeList(element) | DataType::FixedSizeList(element, _) => is_one(element),
        DataType::Map(entries, _) => is_one(entries),
        DataType::Struct(fields) => fields.iter().any(is_one),
        _ => false,
    }
}
