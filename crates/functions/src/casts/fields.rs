//! Structs and maps as text: `{'a': 1, 'b': NULL}`, `{k=1, l=2}`; structs without names, as `row(1, x)` makes them: `(1, x)`.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, MapArray, StringViewArray, StringViewBuilder, StructArray, new_null_array,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, FieldRef, Fields};
use datafusion::arrow::error::ArrowError;

use super::{cast, lists};

/// Whether the fields are those that a struct without names has.
fn are_unnamed(fields: &Fields) -> bool {
    fields.iter().enumerate().all(|(place, field)| *field.name() == format!("c{place}"))
}

/// Structs with other fields: by their names, or by their places where one side has no names. What is not there is NULL.
pub(super) fn between(array: &ArrayRef, target: &Fields, or_null: bool) -> Result<ArrayRef, ArrowError> {
    let all = array.as_struct();
    let by_place = are_unnamed(all.fields()) || are_unnamed(target);
    if by_place && all.num_columns() != target.len() {
        let message = format!("a struct of {} fields is none of {}", all.num_columns(), target.len());
        return Err(ArrowError::CastError(message));
    }
    let column = |(place, field): (usize, &FieldRef)| {
        let named = all.fields().iter().position(|own| own.name().eq_ignore_ascii_case(field.name()));
        match if by_place { Some(place) } else { named } {
            Some(place) => cast(all.column(place), field.data_type(), or_null),
            None => Ok(new_null_array(field.data_type(), all.len())),
        }
    };
    let columns = target.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
    Ok(Arc::new(StructArray::try_new(target.clone(), columns, all.nulls().cloned())?))
}

/// The structs that texts stand for: `{'a': 1}`, or `(1, x)` by the places of the fields.
pub(super) fn read_structs(
    texts: &StringViewArray,
    target: &DataType,
    fields: &Fields,
    or_null: bool,
) -> Result<ArrayRef, ArrowError> {
    let parse = |text: &str| match text.trim().starts_with('(') {
        true => lists::parse_row(text).filter(|values| values.len() == fields.len()),
        false => {
            let pairs = lists::parse_pairs(text, ':')?;
            let is_field = |key: &str| fields.iter().any(|field| field.name().eq_ignore_ascii_case(key));
            let value = |field: &FieldRef| {
                pairs
                    .iter()
                    .find(|(key, _)| key.eq_ignore_ascii_case(field.name()))
                    .and_then(|(_, value)| value.clone())
            };
            pairs.iter().all(|(key, _)| is_field(key)).then(|| fields.iter().map(value).collect())
        }
    };
    let parsed = super::texts::each(texts, target, or_null, parse)?;
    let column = |(place, field): (usize, &FieldRef)| {
        let values = parsed.iter().map(|values| values.as_ref().and_then(|values| values[place].as_deref()));
        cast(&(Arc::new(values.collect::<StringViewArray>()) as ArrayRef), field.data_type(), or_null)
    };
    let columns = fields.iter().enumerate().map(column).collect::<Result<Vec<_>, _>>()?;
    let nulls: NullBuffer = parsed.iter().map(Option::is_some).collect();
    Ok(Arc::new(StructArray::try_new(fields.clone(), columns, Some(nulls))?))
}

/// The maps that texts stand for: `{k=1, l=2}`.
pub(super) fn read_maps(
    texts: &StringViewArray,
    target: &DataType,
    entries: &FieldRef,
    or_null: bool,
) -> Result<ArrayRef, ArrowError> {
    let DataType::Struct(fields) = entries.data_type() else {
        return Err(ArrowError::CastError("the entries of a map are structs".to_owned()));
    };
    let parsed = super::texts::each(texts, target, or_null, |text| lists::parse_pairs(text, '='))?;
    let offsets = OffsetBuffer::from_lengths(parsed.iter().map(|pairs| pairs.as_ref().map_or(0, Vec::len)));
    let nulls: NullBuffer = parsed.iter().map(Option::is_some).collect();
    let all = || parsed.iter().flatten().flatten();
    let keys: ArrayRef = Arc::new(all().map(|(key, _)| Some(key)).collect::<StringViewArray>());
    let values: ArrayRef = Arc::new(all().map(|(_, value)| value.as_deref()).collect::<StringViewArray>());
    let columns = vec![cast(&keys, fields[0].data_type(), or_null)?, cast(&values, fields[1].data_type(), or_null)?];
    let all = StructArray::try_new(fields.clone(), columns, None)?;
    Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, all, Some(nulls), false)?))
}

/// Values as texts, and whether these may need quotes.
fn texts(values: &ArrayRef) -> Result<(StringViewArray, bool), ArrowError> {
    let own = values.data_type();
    let may_quote = !own.is_numeric() && !own.is_nested();
    Ok((cast(values, &DataType::Utf8View, false)?.as_string_view().clone(), may_quote))
}

fn append(out: &mut String, texts: &(StringViewArray, bool), place: usize) {
    let text = texts.0.is_valid(place).then(|| texts.0.value(place));
    lists::append(out, text, texts.1);
}

/// Structs as texts.
pub(super) fn structs(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let all = array.as_struct();
    let columns = all.columns().iter().map(texts).collect::<Result<Vec<_>, _>>()?;
    let is_unnamed = are_unnamed(all.fields());
    let mut out = StringViewBuilder::with_capacity(all.len());
    for row in 0..all.len() {
        if all.is_null(row) {
            out.append_null();
            continue;
        }
        let mut text = String::from(if is_unnamed { "(" } else { "{" });
        for (place, (field, column)) in all.fields().iter().zip(&columns).enumerate() {
            if place > 0 {
                text.push_str(", ");
            }
            if !is_unnamed {
                text.push_str(&format!("{}: ", lists::quoted_text(field.name())));
            }
            append(&mut text, column, row);
        }
        text.push_str(match (is_unnamed, columns.len()) {
            (true, 1) => ",)",
            (true, _) => ")",
            _ => "}",
        });
        out.append_value(text);
    }
    Ok(Arc::new(out.finish()))
}

/// Maps as texts.
pub(super) fn maps(array: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let maps = array.as_map();
    let (keys, values) = (texts(maps.keys())?, texts(maps.values())?);
    let ends = maps.value_offsets();
    let mut out = StringViewBuilder::with_capacity(maps.len());
    for row in 0..maps.len() {
        if maps.is_null(row) {
            out.append_null();
            continue;
        }
        let mut text = String::from("{");
        for place in ends[row] as usize..ends[row + 1] as usize {
            if text.len() > 1 {
                text.push_str(", ");
            }
            append(&mut text, &keys, place);
            text.push('=');
            append(&mut text, &values, place);
        }
        text.push('}');
        out.append_value(text);
    }
    Ok(Arc::new(out.finish()))
}
