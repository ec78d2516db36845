//! What functions tell of JSON texts.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, ListArray, ListBuilder, StringViewArray, StringViewBuilder, UInt32Builder,
    UInt64Array,
};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, internal_err};
use forebay_json::document::is_valid;
use forebay_json::{Document, Path, Value};

use super::{Kind, paths, read, texts};

/// The result of a function, of columns of texts and paths.
pub(super) fn told(kind: Kind, columns: &[ArrayRef], result: &DataType) -> Result<ArrayRef> {
    let Some((first, others)) = columns.split_first() else {
        return internal_err!("a function of JSON without a text");
    };
    let documents = texts(first)?;
    Ok(match kind {
        Kind::Valid => Arc::new(documents.iter().map(|text| text.map(is_valid)).collect::<BooleanArray>()),
        Kind::Contains => {
            let parts = texts(&others[0])?;
            let rows = documents.iter().zip(&parts).map(|(whole, part)| match (whole, part) {
                (Some(whole), Some(part)) => Ok(Some(Document::contains(&read(whole)?.0, &read(part)?.0))),
                _ => Ok(None),
            });
            Arc::new(rows.collect::<Result<BooleanArray>>()?)
        }
        Kind::Merged => merged(documents, others)?,
        Kind::Structure | Kind::Pretty | Kind::Short => {
            let one = |text: &str| -> Result<Option<String>> {
                let value = read(text)?.0;
                Ok(match kind {
                    Kind::Structure => Some(Document::structure(&value).to_string()),
                    Kind::Pretty => Some(Document::pretty(&value)),
                    _ => Some(value.to_string()),
                })
            };
            let rows = documents.iter().map(|text| text.map_or(Ok(None), one));
            Arc::new(rows.collect::<Result<StringViewArray>>()?)
        }
        kind => by_path(kind, &documents, others.first(), result)?,
    })
}

/// The results of a function for each path of the lists of the second column, as lists.
pub(super) fn told_of_lists(kind: Kind, columns: &[ArrayRef], result: &DataType) -> Result<ArrayRef> {
    let (DataType::List(element), [documents, paths]) = (result, columns) else {
        return internal_err!("parts by lists of paths are lists");
    };
    let paths = paths.as_list::<i32>();
    let mut rows = UInt32Builder::new();
    let mut places = UInt32Builder::new();
    let mut lengths = Vec::with_capacity(paths.len());
    let mut valid = Vec::with_capacity(paths.len());
    for (row, window) in (0_u32..).zip(paths.value_offsets().windows(2)) {
        let is_valid = paths.is_valid(row as usize) && documents.is_valid(row as usize);
        let range = if is_valid { window[0] as u32..window[1] as u32 } else { 0..0 };
        lengths.push(range.len());
        valid.push(is_valid);
        rows.append_value_n(row, range.len());
        range.for_each(|place| places.append_value(place));
    }
    let flat = [take(documents, &rows.finish(), None)?, take(paths.values(), &places.finish(), None)?];
    let values = told(kind, &flat, element.data_type())?;
    let offsets = OffsetBuffer::from_lengths(lengths);
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, Some(valid.into()))?))
}

fn merged(first: StringViewArray, others: &[ArrayRef]) -> Result<ArrayRef> {
    let mut values: Vec<Option<Value>> =
        first.iter().map(|text| text.map(|text| Ok(read(text)?.0)).transpose()).collect::<Result<_>>()?;
    for other in others {
        for (value, patch) in values.iter_mut().zip(&texts(other)?) {
            *value = match (value.take(), patch) {
                (Some(value), Some(patch)) => Some(Document::merged(value, read(patch)?.0)),
                _ => None,
            };
        }
    }
    Ok(Arc::new(values.into_iter().map(|value| value.map(|value| value.to_string())).collect::<StringViewArray>()))
}

/// What functions tell of the parts that a path means; of the whole where there is none.
fn by_path(kind: Kind, documents: &StringViewArray, path: Option<&ArrayRef>, result: &DataType) -> Result<ArrayRef> {
    let whole = || Path::of_text("$").map_err(forebay_context::error::into_datafusion);
    let paths = match path {
        Some(column) => paths(column)?,
        None => vec![Some(whole()?); documents.len()],
    };
    let rows = documents.iter().zip(&paths).map(|(text, path)| match (text, path) {
        (Some(text), Some(path)) => Ok(Some((read(text)?, path))),
        _ => Ok(None),
    });
    let rows: Vec<Option<(Document, &Path)>> = rows.collect::<Result<_>>()?;
    let first = |row: &Option<(Document, &Path)>| -> Option<Value> {
        row.as_ref().and_then(|(document, path)| path.find(&document.0).first().map(|value| (*value).clone()))
    };
    let several = |shown: fn(&Value) -> Option<String>| lists(&rows, result, shown);
    Ok(match kind {
        Kind::Part if matches!(result, DataType::List(_)) => several(|value| Some(value.to_string()))?,
        Kind::PartText if matches!(result, DataType::List(_)) => several(Document::text)?,
        Kind::Part => Arc::new(rows.iter().map(|row| first(row).map(|v| v.to_string())).collect::<StringViewArray>()),
        Kind::PartText => {
            Arc::new(rows.iter().map(|row| first(row).as_ref().and_then(Document::text)).collect::<StringViewArray>())
        }
        Kind::Value => {
            let scalar = |value: Value| (!value.is_array() && !value.is_object()).then_some(value);
            let text = |row| first(row).and_then(scalar).as_ref().and_then(Document::text);
            Arc::new(rows.iter().map(text).collect::<StringViewArray>())
        }
        Kind::Exists => Arc::new(
            rows.iter()
                .map(|row| row.as_ref().map(|(document, path)| !path.find(&document.0).is_empty()))
                .collect::<BooleanArray>(),
        ),
        Kind::Type => {
            Arc::new(rows.iter().map(|row| first(row).as_ref().map(Document::type_name)).collect::<StringViewArray>())
        }
        Kind::Length => Arc::new(
            rows.iter()
                .map(|row| first(row).map(|v| v.as_array().map_or(0, |all| all.len() as u64)))
                .collect::<UInt64Array>(),
        ),
        _ => {
            let mut keys = ListBuilder::new(StringViewBuilder::new());
            for row in &rows {
                let value = first(row);
                let members = value.as_ref().and_then(Value::as_object);
                members.into_iter().flatten().for_each(|(name, _)| keys.values().append_value(name));
                keys.append(value.is_some());
            }
            Arc::new(keys.finish())
        }
    })
}

/// A list of the parts of each row.
fn lists(
    rows: &[Option<(Document, &Path)>],
    result: &DataType,
    shown: fn(&Value) -> Option<String>,
) -> Result<ArrayRef> {
    let DataType::List(element) = result else { return internal_err!("several parts are a list") };
    let mut found = ListBuilder::new(StringViewBuilder::new());
    for row in rows {
        if let Some((document, path)) = row {
            path.find(&document.0).into_iter().for_each(|value| found.values().append_option(shown(value)));
        }
        found.append(row.is_some());
    }
    let (_, offsets, values, nulls) = found.finish().into_parts();
    Ok(Arc::new(ListArray::try_new(Arc::clone(element), offsets, values, nulls)?))
}
