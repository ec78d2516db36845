//! Aggregates of how often values are there, and of texts in an order.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortColumn, cast as plain_cast, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use forebay_functions::function::refused;

use crate::definitions::{Definition, list_type, one_list};
use crate::frame_partition::sortable;
use crate::frame_rows::as_rows;

/// Forms of these aggregates.
const HINT: &str = "Write mode(x), histogram(x) or approx_top_k(x, 3)";

/// All of them.
pub const DEFINITIONS: [Definition; 5] = [
    Definition {
        name: "mode",
        aliases: &[],
        needed: 1,
        coerced: one,
        result: first,
        value: |rows, _| {
            let Some((row, _)) = most_frequent(&counts(&rows[0])?).first().copied() else {
                return exec_err!("no rows");
            };
            ScalarValue::try_from_array(&rows[0], row)
        },
        of_nothing: None,
    },
    Definition {
        name: "entropy",
        aliases: &[],
        needed: 1,
        coerced: one,
        result: |_| Ok(DataType::Float64),
        value: |rows, _| {
            let total = rows[0].len() as f64;
            let bits = |(_, count): &(usize, u64)| (*count as f64 / total) * (total / *count as f64).log2();
            Ok(ScalarValue::Float64(Some(counts(&rows[0])?.iter().map(bits).sum())))
        },
        of_nothing: Some(0.0),
    },
    Definition {
        name: "histogram",
        aliases: &[],
        needed: 1,
        coerced: one,
        result: |types| Ok(map_type(&first(types)?)),
        value: histogram,
        of_nothing: None,
    },
    Definition {
        name: "approx_top_k",
        aliases: &[],
        needed: 1,
        coerced: |types| match types {
            [value, _] => Ok(vec![value.clone(), DataType::Int64]),
            _ => Err(refused("approx_top_k takes two arguments: approx_top_k(x, 3)", HINT)),
        },
        result: |types| Ok(list_type(&first(types)?)),
        value: |rows, _| {
            let wanted = rows[1].as_primitive::<Int64Type>();
            let Some(wanted) = usize::try_from(wanted.value(0)).ok().filter(|count| *count > 0 && wanted.is_valid(0))
            else {
                return exec_err!("approx_top_k takes a number of values greater than 0");
            };
            let most = most_frequent(&counts(&rows[0])?);
            let rows_of_most = most.iter().take(wanted).map(|(row, _)| *row as u64);
            one_list(&take(&rows[0], &UInt64Array::from_iter_values(rows_of_most), None)?)
        },
        of_nothing: None,
    },
    Definition {
        name: ORDERED_TEXTS,
        aliases: &[],
        needed: 1,
        coerced: |types| match types {
            [_, _] => Ok(vec![DataType::Utf8, DataType::Utf8]),
            _ => Err(refused("string_agg takes two arguments: string_agg(s, ',')", HINT)),
        },
        result: |_| Ok(DataType::Utf8),
        value: joined,
        of_nothing: None,
    },
];

/// `string_agg` with an order among its arguments, which may be another one for each call.
pub const ORDERED_TEXTS: &str = "ordered_string_agg";

/// The texts one behind the other, each but the first behind its separator.
fn joined(rows: &[ArrayRef], _result: &DataType) -> Result<ScalarValue> {
    let texts = plain_cast(&rows[0], &DataType::Utf8)?;
    let separators = plain_cast(&rows[1], &DataType::Utf8)?;
    let mut out = String::new();
    let pairs = texts.as_string::<i32>().iter().zip(separators.as_string::<i32>().iter());
    for (index, (text, separator)) in pairs.enumerate() {
        if index > 0 {
            out.push_str(separator.unwrap_or_default());
        }
        out.push_str(text.unwrap_or_default());
    }
    Ok(ScalarValue::Utf8(Some(out)))
}

fn one(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [only] => Ok(vec![only.clone()]),
        _ => Err(refused(format!("the aggregate takes one argument, not {}", types.len()), HINT)),
    }
}

fn first(types: &[DataType]) -> Result<DataType> {
    match types.first() {
        Some(first) => Ok(first.clone()),
        None => Err(refused("the aggregate takes an argument", HINT)),
    }
}

/// For each value, in the order in which they come, its first row and how often it is there.
fn counts(values: &ArrayRef) -> Result<Vec<(usize, u64)>> {
    let rows = as_rows(std::slice::from_ref(values))?;
    let mut places = HashMap::new();
    let mut counts: Vec<(usize, u64)> = Vec::new();
    for row in 0..values.len() {
        let place = *places.entry(rows.row(row)).or_insert(counts.len());
        match counts.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => counts.push((row, 1)),
        }
    }
    Ok(counts)
}

/// The most frequent ones first; of equally frequent ones that which comes first.
fn most_frequent(counts: &[(usize, u64)]) -> Vec<(usize, u64)> {
    let mut sorted = counts.to_vec();
    sorted.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    sorted
}

fn map_fields(key: &DataType) -> Fields {
    Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", DataType::UInt64, true)])
}

fn map_type(key: &DataType) -> DataType {
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(map_fields(key)), false)), false)
}

fn histogram(rows: &[ArrayRef], _result: &DataType) -> Result<ScalarValue> {
    let counts = counts(&rows[0])?;
    let values = take(&rows[0], &UInt64Array::from_iter_values(counts.iter().map(|(row, _)| *row as u64)), None)?;
    let order = lexsort_to_indices(&[SortColumn { values: sortable(&values)?, options: None }], None)?;
    let numbers: ArrayRef = Arc::new(UInt64Array::from_iter_values(counts.iter().map(|(_, count)| *count)));
    let columns = vec![take(&values, &order, None)?, take(&numbers, &order, None)?];
    let fields = map_fields(values.data_type());
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let offsets = OffsetBuffer::from_lengths([entries.len()]);
    Ok(ScalarValue::Map(Arc::new(MapArray::try_new(field, offsets, entries, None, false)?)))
}
