//! The rows with the greatest or the least keys: `arg_max(x, y)`, `arg_max(x, y, 3)`, `max(x, 3)`.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{SortColumn, SortOptions, lexsort_to_indices, take};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err};
use forebay_functions::function::refused;

use crate::definitions::{Definition, list_type, one_list};
use crate::frame_partition::sortable;

/// Forms of these aggregates.
const HINT: &str = "Write arg_max(x, y), arg_max(x, y, 3) or max(x, 3)";

/// The function that `max(x, n)` is written as, and that for `min`.
pub const SEVERAL: [(&str, &str); 2] = [("max", "max_several"), ("min", "min_several")];

/// All of them.
pub const DEFINITIONS: [Definition; 6] = [
    by_key("arg_max", &["argmax", "max_by"], 2, greatest),
    by_key("arg_min", &["argmin", "min_by"], 2, least),
    by_key("arg_max_null", &[], 0, greatest),
    by_key("arg_min_null", &[], 0, least),
    several(SEVERAL[0].1, |rows, _| several_best(rows, true)),
    several(SEVERAL[1].1, |rows, _| several_best(rows, false)),
];

type Value = fn(&[ArrayRef], &DataType) -> Result<ScalarValue>;

const fn by_key(name: &'static str, aliases: &'static [&'static str], needed: usize, value: Value) -> Definition {
    Definition {
        name,
        aliases,
        needed,
        coerced: |types| match types {
            [value, key] => Ok(vec![value.clone(), key.clone()]),
            [value, key, _] => Ok(vec![value.clone(), key.clone(), DataType::Int64]),
            _ => Err(refused("the aggregate takes two or three arguments: arg_max(x, y), arg_max(x, y, 3)", HINT)),
        },
        result: |types| match types {
            [value, _] => Ok(value.clone()),
            [value, _, _] => Ok(list_type(value)),
            _ => Err(refused("the aggregate takes two or three arguments", HINT)),
        },
        value,
        of_nothing: None,
    }
}

const fn several(name: &'static str, value: Value) -> Definition {
    Definition {
        name,
        aliases: &[],
        needed: 1,
        coerced: |types| match types {
            [value, _] => Ok(vec![value.clone(), DataType::Int64]),
            _ => Err(refused("min and max take one or two arguments: max(x), max(x, 3)", HINT)),
        },
        result: |types| match types {
            [value, ..] => Ok(list_type(value)),
            [] => Err(refused("min and max take a value", HINT)),
        },
        value,
        of_nothing: None,
    }
}

fn greatest(rows: &[ArrayRef], result: &DataType) -> Result<ScalarValue> {
    best(rows, result, true)
}

fn least(rows: &[ArrayRef], result: &DataType) -> Result<ScalarValue> {
    best(rows, result, false)
}

fn best(rows: &[ArrayRef], result: &DataType, descending: bool) -> Result<ScalarValue> {
    let wanted = match rows.get(2) {
        Some(wanted) => count(wanted)?,
        None => 1,
    };
    let found = best_values(&rows[0], &rows[1], wanted, descending)?;
    match rows.get(2) {
        Some(_) => one_list(&found),
        None if found.is_empty() => ScalarValue::try_new_null(result),
        None => ScalarValue::try_from_array(&found, 0),
    }
}

fn several_best(rows: &[ArrayRef], descending: bool) -> Result<ScalarValue> {
    one_list(&best_values(&rows[0], &rows[0], count(&rows[1])?, descending)?)
}

/// How many rows are asked for.
fn count(wanted: &ArrayRef) -> Result<usize> {
    let wanted = wanted.as_primitive::<Int64Type>();
    match usize::try_from(wanted.value(0)) {
        _ if wanted.is_null(0) => exec_err!("the number of values to keep cannot be NULL"),
        Ok(count) if count > 0 => Ok(count),
        _ => exec_err!("the number of values to keep must be greater than 0, not {}", wanted.value(0)),
    }
}

/// The values of the rows with the best keys that are not NULL, the best one first. Of equal keys the first row is the best.
fn best_values(values: &ArrayRef, keys: &ArrayRef, wanted: usize, descending: bool) -> Result<ArrayRef> {
    let numbers: ArrayRef =
        std::sync::Arc::new(datafusion::arrow::array::UInt64Array::from_iter_values(0..keys.len() as u64));
    let options = Some(SortOptions { descending, nulls_first: false });
    let columns = [SortColumn { values: sortable(keys)?, options }, SortColumn { values: numbers, options: None }];
    let valid = keys.len() - keys.logical_null_count();
    let order = lexsort_to_indices(&columns, Some(wanted.min(valid)))?;
    Ok(take(values, &order, None)?)
}
