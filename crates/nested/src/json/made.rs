//! Values as JSON.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, internal_err};
use forebay_base::Error;
use forebay_context::error::into_datafusion;
use forebay_context::own_types;
use forebay_functions::casts::cast;
use forebay_json::{Members, Value};

use super::{Kind, read, texts};

/// Digits of a decimal that DuckDB still computes with as a machine word, and writes as a DOUBLE.
const WORD_DIGITS: u8 = 18;

const NULL: &str = "null";

/// The result of a function that makes JSON of values. Values are JSON texts from the start: there are numbers of more digits than a
/// [`Value`] has.
pub(super) fn made(kind: Kind, columns: &[ArrayRef], fields: &[FieldRef], rows: usize) -> Result<ArrayRef> {
    let all: Vec<Vec<String>> =
        columns.iter().zip(fields).map(|(column, field)| values(column, field)).collect::<Result<_>>()?;
    let rows = columns.first().map_or(rows, |column| column.len());
    let is_null = |column: usize, row: usize| {
        columns.get(column).is_some_and(|column| column.data_type().is_null() || column.is_null(row))
    };
    let row = |row: usize| -> Result<Option<String>> {
        let value = |column: usize| all.get(column).and_then(|values| values.get(row)).map_or(NULL, String::as_str);
        Ok(match kind {
            Kind::Array => Some(array((0..all.len()).map(value))),
            Kind::Object => {
                let member = |index: usize| Ok((name(&read(value(2 * index))?.0)?, value(2 * index + 1).to_owned()));
                Some(object((0..all.len() / 2).map(member).collect::<Result<Vec<_>>>()?))
            }
            Kind::OfEntries if !is_null(0, row) => {
                let Value::Array(entries) = read(value(0))?.0 else { return internal_err!("entries are a list") };
                let part = |entry: &Value, part: &str| entry.get(part).cloned().unwrap_or(Value::Null);
                let member = |entry: Value| Ok((name(&part(&entry, "k"))?, part(&entry, "v")));
                let members: Members = entries.into_iter().map(member).collect::<Result<_>>()?;
                Some(Value::Object(members).to_string())
            }
            _ => (!is_null(0, row)).then(|| value(0).to_owned()),
        })
    };
    Ok(Arc::new((0..rows).map(row).collect::<Result<StringViewArray>>()?))
}

fn name(value: &Value) -> Result<String> {
    match value {
        Value::String(name) => Ok(name.clone()),
        Value::Null => Err(into_datafusion(Error::input("a member of an object needs a name, which NULL is not"))),
        other => Ok(other.to_string()),
    }
}

fn array<'v>(values: impl Iterator<Item = &'v str>) -> String {
    format!("[{}]", values.collect::<Vec<_>>().join(","))
}

/// An object of members in their order, also where several have one name.
fn object(members: Vec<(String, String)>) -> String {
    let text = |(name, value): (String, String)| format!("{}:{value}", Value::from(name));
    format!("{{{}}}", members.into_iter().map(text).collect::<Vec<_>>().join(","))
}

/// The values of a column as JSON.
fn values(column: &ArrayRef, field: &Field) -> Result<Vec<String>> {
    let is_json = own_types::of(field) == Some(own_types::JSON);
    let null = || NULL.to_owned();
    Ok(match column.data_type() {
        DataType::Null => vec![null(); column.len()],
        DataType::List(element) => {
            let lists = column.as_list::<i32>();
            let inner = values(lists.values(), element)?;
            let list = |row: usize| match lists.is_null(row) {
                true => null(),
                false => {
                    let (start, end) = (lists.value_offsets()[row] as usize, lists.value_offsets()[row + 1] as usize);
                    array(inner[start..end].iter().map(String::as_str))
                }
            };
            (0..lists.len()).map(list).collect()
        }
        DataType::Struct(fields) => {
            let structs = column.as_struct();
            let parts = structs.columns().iter().zip(fields).map(|(part, field)| values(part, field));
            let parts: Vec<Vec<String>> = parts.collect::<Result<_>>()?;
            let member =
                |row: usize, (field, part): (&FieldRef, &Vec<String>)| (field.name().clone(), part[row].clone());
            let of_row = |row: usize| match structs.is_null(row) {
                true => null(),
                false => object(fields.iter().zip(&parts).map(|both| member(row, both)).collect()),
            };
            (0..structs.len()).map(of_row).collect()
        }
        DataType::Map(entries, _) => {
            let maps = column.as_map();
            let DataType::Struct(pair) = entries.data_type() else { return internal_err!("entries are structs") };
            let (keys, inner) = (texts(maps.keys())?, values(maps.values(), &pair[1])?);
            let of_row = |row: usize| match maps.is_null(row) {
                true => null(),
                false => {
                    let (start, end) = (maps.value_offsets()[row] as usize, maps.value_offsets()[row + 1] as usize);
                    let member = |index: usize| (keys.value(index).to_owned(), inner[index].clone());
                    object((start..end).map(member).collect())
                }
            };
            (0..maps.len()).map(of_row).collect()
        }
        DataType::Boolean => {
            column.as_boolean().iter().map(|value| value.map_or_else(null, |value| value.to_string())).collect()
        }
        data_type => {
            let is_number = data_type.is_numeric();
            let is_exact = match data_type {
                DataType::Decimal128(digits, _) => *digits > WORD_DIGITS,
                DataType::Decimal256(..) => true,
                _ => false,
            };
            let value = |text: Option<&str>| match text {
                None => Ok(null()),
                Some(text) if is_json => Ok(read(text)?.0.to_string()),
                Some(text) if is_exact => Ok(text.to_owned()),
                Some(text) if is_number => Ok(number(text).to_string()),
                Some(text) => Ok(Value::from(text).to_string()),
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
