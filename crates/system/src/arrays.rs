//! Columns of tables that tell what is in the catalog.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, Int64Builder, ListBuilder, MapBuilder, StringArray, StringBuilder,
    new_null_array,
};
use datafusion::arrow::datatypes::DataType;

/// Columns of an answer by their names.
pub(crate) type Columns = Vec<(&'static str, ArrayRef)>;

pub(crate) fn texts<'a>(values: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(crate) fn made_texts(values: impl Iterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.collect::<StringArray>())
}

pub(crate) fn flags(values: impl Iterator<Item = bool>) -> ArrayRef {
    Arc::new(values.map(Some).collect::<BooleanArray>())
}

pub(crate) fn counts(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(values.map(|count| i64::try_from(count).ok()).collect::<Int64Array>())
}

pub(crate) fn integers(values: impl Iterator<Item = Option<i32>>) -> ArrayRef {
    Arc::new(values.collect::<Int32Array>())
}

pub(crate) fn numbers(values: impl Iterator<Item = Option<i64>>) -> ArrayRef {
    Arc::new(values.collect::<Int64Array>())
}

/// NULL in all rows.
pub(crate) fn nothing(data_type: &DataType, rows: usize) -> ArrayRef {
    new_null_array(data_type, rows)
}

/// NULL in all rows of a column of texts.
pub(crate) fn no_texts(rows: usize) -> ArrayRef {
    nothing(&DataType::Utf8, rows)
}

/// Lists of texts, one for each row.
pub(crate) fn text_lists<'a>(lists: impl Iterator<Item = Vec<&'a str>>) -> ArrayRef {
    let mut out = ListBuilder::new(StringBuilder::new());
    for list in lists {
        out.append_value(list.into_iter().map(Some));
    }
    Arc::new(out.finish())
}

/// Lists of counts, one for each row.
pub(crate) fn count_lists(lists: impl Iterator<Item = Vec<i64>>) -> ArrayRef {
    let mut out = ListBuilder::new(Int64Builder::new());
    for list in lists {
        out.append_value(list.into_iter().map(Some));
    }
    Arc::new(out.finish())
}

/// No tags: maps without entries.
pub(crate) fn no_tags(rows: usize) -> ArrayRef {
    let mut out = MapBuilder::new(None, StringBuilder::new(), StringBuilder::new());
    for _ in 0..rows {
        // Two empty columns have one length.
        out.append(true).expect("keys and values of one length");
    }
    Arc::new(out.finish())
}
