//! Texts in parts: between separators, by position, and whether one begins or ends with another.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ListBuilder, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;

use crate::function::{Call, Definition, Shape, TEXT, is_integer, is_text};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["string_split", "str_split", "split", "string_to_array"],
        shape: split_shape,
        compute: split,
    },
    Definition { names: &["suffix"], shape: flag_shape, compute: |call| flags(call, |text, end| text.ends_with(end)) },
    Definition {
        names: &["prefix"],
        shape: flag_shape,
        compute: |call| flags(call, |text, start| text.starts_with(start)),
    },
    Definition { names: &["text_at"], shape: at_shape, compute: characters },
    Definition { names: &["text_slice"], shape: slice_shape, compute: slices },
];

/// The type of lists of texts.
pub fn text_list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(TEXT, true)))
}

/// Lists of texts, one for each row.
pub fn lists_of(rows: usize, list: impl Fn(usize) -> Result<Option<Vec<Option<String>>>>) -> Result<ArrayRef> {
    let mut out = ListBuilder::new(StringViewBuilder::new()).with_field(Field::new_list_field(TEXT, true));
    for row in 0..rows {
        match list(row)? {
            Some(parts) => {
                for part in parts {
                    out.values().append_option(part);
                }
                out.append(true);
            }
            None => out.append(false),
        }
    }
    Ok(Arc::new(out.finish()))
}

fn split_shape(types: &[DataType]) -> Option<Shape> {
    let fits = types.len() == 2 && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT, TEXT], result: text_list() })
}

fn split(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, separators) = (call.texts(0), call.texts(1));
    lists_of(call.rows, |row| {
        if !texts.is_valid(row) {
            return Ok(None);
        }
        let text = texts.value(row);
        let owned = |part: &str| Some(part.to_owned());
        Ok(Some(match separators.is_valid(row).then(|| separators.value(row)) {
            None => vec![owned(text)],
            Some("") if text.is_empty() => vec![owned("")],
            Some("") => text.chars().map(|character| Some(character.to_string())).collect(),
            Some(separator) => text.split(separator).map(owned).collect(),
        }))
    })
}

fn flag_shape(types: &[DataType]) -> Option<Shape> {
    let fits = types.len() == 2 && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT, TEXT], result: DataType::Boolean })
}

fn flags(call: &Call<'_>, test: fn(&str, &str) -> bool) -> Result<ArrayRef> {
    let (texts, parts) = (call.texts(0), call.texts(1));
    call.flags_of(|row| {
        let both = texts.is_valid(row) && parts.is_valid(row);
        Ok(both.then(|| test(texts.value(row), parts.value(row))))
    })
}

fn at_shape(types: &[DataType]) -> Option<Shape> {
    let [text, position] = types else { return None };
    (is_text(text) && is_integer(position)).then(|| Shape { arguments: vec![TEXT, DataType::Int64], result: TEXT })
}

/// The place of a position counted from 1, or from the end, among so many.
fn place(position: i64, count: i64) -> i64 {
    if position < 0 { count.saturating_add(position) } else { position - 1 }
}

/// `text[2]`.
pub fn characters(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, positions) = (call.texts(0), call.integers(1));
    call.texts_of(|row| {
        let both = texts.is_valid(row) && positions.is_valid(row);
        Ok(both.then(|| {
            let text = texts.value(row);
            let place = place(positions.value(row), text.chars().count() as i64);
            let found = usize::try_from(place).ok().and_then(|place| text.chars().nth(place));
            found.map_or(String::new(), String::from)
        }))
    })
}

fn slice_shape(types: &[DataType]) -> Option<Shape> {
    let [text, start, end] = types else { return None };
    let fits = is_text(text) && is_integer(start) && is_integer(end);
    fits.then(|| Shape { arguments: vec![TEXT, DataType::Int64, DataType::Int64], result: TEXT })
}

/// `text[start:end]`; an end that is NULL is that of the text.
/// `text[2:4]`.
pub fn slices(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, starts, ends) = (call.texts(0), call.integers(1), call.integers(2));
    call.texts_of(|row| {
        if !texts.is_valid(row) || !starts.is_valid(row) || !ends.is_valid(row) {
            return Ok(None);
        }
        let text = texts.value(row);
        let count = text.chars().count() as i64;
        let from = place(starts.value(row), count).max(0);
        let to = place(ends.value(row), count).saturating_add(1).min(count);
        Ok(Some(text.chars().skip(from as usize).take((to - from).max(0) as usize).collect()))
    })
}
