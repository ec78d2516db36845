//! Aggregates of how often values are there, and of texts in an order.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, MapArray, StructArray, UInt64Array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::compute::{SortColumn, cast as plain_cast, concat, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use forebay_functions::function::refused;

use crate::definitions::{Definition, list_type, one_list};
use crate::frame_partition::sortable;
use crate::frame_rows::as_rows;

/// Forms of these aggregates.
const HINT: &str = "Write mode(x), histogram(x), histogram(x, [1, 2]) or approx_top_k(x, 3)";

/// All of them.
pub const DEFINITIONS: [Definition; 6] = [
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
        coerced: |types| if types.len() == 2 { binned(types) } else { one(types) },
        result: |types| Ok(map_type(&first(types)?)),
        value: |rows, result| if rows.len() == 2 { bins(rows, false) } else { histogram(rows, result) },
        of_nothing: None,
    },
    Definition {
        name: "histogram_exact",
        aliases: &[],
        needed: 1,
        coerced: binned,
        result: |types| Ok(map_type(&first(types)?)),
        value: |rows, _| bins(rows, true),
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

/// A value, and the list of the bins of values of its type.
fn binned(types: &[DataType]) -> Result<Vec<DataType>> {
    match types {
        [value, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..)] => {
            Ok(vec![value.clone(), list_type(value)])
        }
        [_, _] => Err(refused("the bins of a histogram are a list", HINT)),
        _ => Err(refused(format!("a histogram takes a value and a list of bins, not {} arguments", types.len()), HINT)),
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
    one_map(columns)
}

/// A map of keys and numbers.
fn one_map(columns: Vec<ArrayRef>) -> Result<ScalarValue> {
    let fields = map_fields(columns[0].data_type());
    let entries = StructArray::try_new(fields.clone(), columns, None)?;
    let field = Arc::new(Field::new("entries", DataType::Struct(fields), false));
    let offsets = OffsetBuffer::from_lengths([entries.len()]);
    Ok(ScalarValue::Map(Arc::new(MapArray::try_new(field, offsets, entries, None, false)?)))
}

/// How many values each bin has, which is a value: those that are not greater, and greater than the bin before, or those that are
/// equal to it, where `is_exact`. Values of no bin are counted by a key of their own, if there are some.
fn bins(rows: &[ArrayRef], is_exact: bool) -> Result<ScalarValue> {
    let lists = rows[1].as_list::<i32>();
    if lists.is_null(0) {
        return exec_err!("the list of bins of a histogram is NULL");
    }
    let listed = lists.value(0);
    if listed.null_count() > 0 {
        return exec_err!("a bin of a histogram is NULL");
    }
    let other = other_bin(rows[0].data_type())?.to_array()?;
    let keys = as_rows(&[concat(&[listed.as_ref(), other.as_ref(), rows[0].as_ref()])?])?;
    let mut places: Vec<usize> = (0..listed.len()).collect();
    places.sort_by(|one, another| keys.row(*one).cmp(&keys.row(*another)));
    places.dedup_by(|one, another| keys.row(*one) == keys.row(*another));
    let mut counts = vec![0_u64; places.len() + 1];
    for row in 0..rows[0].len() {
        let value = keys.row(listed.len() + 1 + row);
        let at = places.partition_point(|place| keys.row(*place) < value);
        let is_other = is_exact && places.get(at).is_none_or(|place| keys.row(*place) != value);
        counts[if is_other { places.len() } else { at }] += 1;
    }
    match counts.last() {
        Some(0) => counts.truncate(places.len()),
        _ => places.push(listed.len()),
    }
    let shown = UInt64Array::from_iter_values(places.iter().map(|place| *place as u64));
    let named = take(&concat(&[listed.as_ref(), other.as_ref()])?, &shown, None)?;
    one_map(vec![named, Arc::new(UInt64Array::from_iter_values(counts))])
}

/// The key of the values that no bin has: the greatest value of a type, as far as it has one.
fn other_bin(data_type: &DataType) -> Result<ScalarValue> {
    Ok(match data_type {
        DataType::Int8 => ScalarValue::Int8(Some(i8::MAX)),
        DataType::Int16 => ScalarValue::Int16(Some(i16::MAX)),
        DataType::Int32 => ScalarValue::Int32(Some(i32::MAX)),
        DataType::Int64 => ScalarValue::Int64(Some(i64::MAX)),
        DataType::UInt8 => ScalarValue::UInt8(Some(u8::MAX)),
        DataType::UInt16 => ScalarValue::UInt16(Some(u16::MAX)),
        DataType::UInt32 => ScalarValue::UInt32(Some(u32::MAX)),
        DataType::UInt64 => ScalarValue::UInt64(Some(u64::MAX)),
        DataType::Float32 => ScalarValue::Float32(Some(f32::INFINITY)),
        DataType::Float64 => ScalarValue::Float64(Some(f64::INFINITY)),
        DataType::Date32 => ScalarValue::Date32(Some(i32::MAX)),
        DataType::Timestamp(..) => ScalarValue::Int64(Some(i64::MAX)).cast_to(data_type)?,
        DataType::Utf8 => ScalarValue::Utf8(Some(String::new())),
        DataType::Utf8View => ScalarValue::Utf8View(Some(String::new())),
        DataType::LargeUtf8 => ScalarValue::LargeUtf8(Some(String::new())),
        DataType::Boolean => ScalarValue::Boolean(Some(false)),
        other => return Err(refused(format!("bins of {other} are not supported"), "Cast the values to DOUBLE")),
    })
}
