//! Values as JSON.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_functions::casts::cast;
use forebay_json::Value;

use super::{Kind, read, texts};

/// The result of a function that makes JSON of values.
pub(super) fn made(kind: Kind, columns: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<ArrayRef> {
    let all: Vec<Vec<Value>> =
        columns.iter().zip(fields).map(|(column, field)| values(column, field)).collect::<Result<_>>()?;
    let rows = columns.first().map_or(rows, |column| column.len());
    let is_null = |column: usize, row: usize| {
        columns.get(column).is_some_and(|column| column.data_type().is_null() || column.is_null(row))
    };
    let row = |row: usize| -> Result<Option<Value>> {
        let value = |column: usize| all.get(column).and_then(|values| values.get(row)).cloned().unwrap_or(Value::Null);
        Ok(match kind {
            Kind::Array => Some(Value::Array((0..all.len()).map(value).collect())),
            Kind::Object => {
                let member = |index: usize| Ok((name(&value(2 * index))?, value(2 * index + 1)));
                Some(Value::Object((0..all.len() / 2).map(member).collect::<Result<_>>()?))
            }
            Kind::OfEntries if !is_null(0, row) => {
                let Value::Array(entries) = value(0) else { return internal_err!("entries are a list") };
                let part = |entry: &Value, part: &str| entry.get(part).cloned().unwrap_or(Value::Null);
                let member = |entry: Value| Ok((name(&part(&entry, "k"))?, part(&entry, "v")));
                Some(Value::Object(entries.into_iter().map(member).collect::<Result<_>>()?))
            }
            _ => (!is_null(0, row)).then(|| value(0)),
        })
    };
    let texts = (0..rows).map(|index| row(index).map(|value| value.map(|value| value.to_string())));
    Ok(Arc::new(texts.collect::<Result<StringViewArray>>()?))
}

fn name(value: &Value) -> Result<String> {
    match value {
        Value::String(name) => Ok(name.clone()),
        Value::Null => Err(into_datafusion(Error::input("a member of an object needs a name, which NULL is not"))),
        other => Ok(other.to_string()),
    }
}

/// The values of a column as JSON.
fn values(column: &ArrayRef, field: &Field) -> Result<Vec<Value>> {
    let is_json = own_types::of(field) == Some(own_types::JSON);
    Ok(match column.data_type() {
        DataType::Null => vec![Value::Null; column.len()],
        DataType::List(element) => {
            let lists = column.as_list::<i32>();
            let inner = values(lists.values(), element)?;
            let list = |row: usize| match lists.is_null(row) {
                true => Value::Null,
                false => {
                    let (start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
                    Value::Array(inner[start..end].to_vec())
                }
            };
            (0..lists.len()).map(list).collect()
        }
        DataType::Struct(fields) => {
            let structs = column.as_struct();
            let parts = structs.columns().iter().zip(fields).map(|(part, field)| values(part, field));
            let parts: Vec<Vec<Value>> = parts.collect::<Result<_>>()?;
            let member =
                |row: usize, (field, part): (&FieldRef, &Vec<Value>)| (field.name().clone(), part[row].clone());
            let object = |row: usize| match structs.is_null(row) {
                true => Value::Null,
                false => Value::Object(fields.iter().zip(&parts).map(|both| member(row, both)).collect()),
            };
            (0..structs.len()).map(object).collect()
        }
        DataType::Map(entries, _) => {
            let maps = column.as_map();
            let DataType::Struct(pair) = entries.data_type() else { return internal_err!("entries are structs") };
            let (keys, inner) = (texts(maps.keys())?, values(maps.values(), &pair[1])?);
            let object = |row: usize| match maps.is_null(row) {
                true => Value::Null,
                false => {
                    let (start, end) = (maps.value_offsets()[row] as usize, maps.value_offsets()[row + 1] as usize);
                    let member = |index: usize| (keys.value(index).to_owned(), inner[index].clone());
                    Value::Object((start..end).map(member).collect())
                }
            };
            (0..maps.len()).map(object).collect()
        }
        DataType::Boolean => column.as_boolean().iter().map(Value::from).collect(),
        data_type => {
            let is_number = data_type.is_numeric();
            let value = |text: Option<&str>| match text {
                None => Ok(Value::Null),
                Some(text) if is_json => Ok(read(text)?.0),
                Some(text) if is_number => Ok(number(text)),
                Some(text) => Ok(Value::from(text)),
            };
            cast(column, &DataType::Utf8View, false)?.as_string_view().iter().map(value).collect::<Result<_>>()?
        }
    })
}

/// A number by its digits; what JSON has no number for is a text.
fn number(text: &str) -> Value {
    let whole = text.parse::<i64>().map(Value::from).or_else(|_| text.parse::<u64>().map(Value::from));
    whole
        .ok()
        .or_else(|| text.parse::<f64>().ok().filter(|value| value.is_finite()).map(Value::from))
        .unwrap_or_else(|| Value::from(text))
}
