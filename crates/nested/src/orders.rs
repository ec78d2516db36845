//! Lists in an order of their elements, and the places that these have in it.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Int64Array};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text, refused};
use forebay_functions::interval_lengths::lengths;
use forebay_functions::order_keys::order_keys;

use crate::lists::{Chosen, Lists, element_of, list_of, lists_of};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["list_sort", "array_sort"], shape: |types| shape(types, 3, None), compute: sorted },
    Definition {
        names: &["list_reverse_sort", "array_reverse_sort"],
        shape: |types| shape(types, 2, None),
        compute: sorted_backwards,
    },
    Definition {
        names: &["list_grade_up", "array_grade_up", "grade_up"],
        shape: |types| shape(types, 3, Some(DataType::Int64)),
        compute: places,
    },
];

fn shape(types: &[DataType], most: usize, element: Option<DataType>) -> Option<Shape> {
    let (list, words) = types.split_first()?;
    let own = element_of(list)?;
    (types.len() <= most && words.iter().all(is_text)).then(|| {
        let mut arguments = vec![list_of(own)];
        arguments.extend(words.iter().map(|_| TEXT));
        Shape { arguments, result: list_of(element.as_ref().unwrap_or(own)) }
    })
}

/// A word of the call, in capitals; of NULL it is the default.
fn word(call: &Call<'_>, argument: usize) -> Option<String> {
    let texts = (argument < call.arguments.len() && call.rows > 0).then(|| call.texts(argument))?;
    texts.is_valid(0).then(|| texts.value(0).trim().to_uppercase())
}

fn is_descending(call: &Call<'_>) -> Result<bool> {
    match word(call, 1).as_deref() {
        None | Some("ASC" | "ASCENDING" | "DEFAULT") => Ok(false),
        Some("DESC" | "DESCENDING") => Ok(true),
        Some(other) => Err(refused(format!("{other:?} is no order of a list"), "Write 'ASC' or 'DESC'")),
    }
}

fn has_nulls_first(call: &Call<'_>, argument: usize) -> Result<bool> {
    match word(call, argument).as_deref() {
        None | Some("NULLS LAST" | "DEFAULT") => Ok(false),
        Some("NULLS FIRST") => Ok(true),
        Some(other) => Err(refused(format!("{other:?} is no place of NULL"), "Write 'NULLS FIRST' or 'NULLS LAST'")),
    }
}

fn sorted(call: &Call<'_>) -> Result<ArrayRef> {
    let options = SortOptions { descending: is_descending(call)?, nulls_first: has_nulls_first(call, 2)? };
    in_order(call, options)
}

fn sorted_backwards(call: &Call<'_>) -> Result<ArrayRef> {
    in_order(call, SortOptions { descending: true, nulls_first: has_nulls_first(call, 1)? })
}

fn in_order(call: &Call<'_>, options: SortOptions) -> Result<ArrayRef> {
    let lists = Lists::of(&call.arguments[0])?;
    let keys = sort_keys(&lists.values, options)?;
    let mut chosen = Chosen::default();
    for range in &lists.ranges {
        for place in range.map(|range| ordered(&keys, range)).into_iter().flatten() {
            chosen.push(Some(place));
        }
        chosen.end_list(range.is_some());
    }
    chosen.finish(&lists.values, call.result)
}

fn places(call: &Call<'_>) -> Result<ArrayRef> {
    let options = SortOptions { descending: is_descending(call)?, nulls_first: has_nulls_first(call, 2)? };
    let lists = Lists::of(&call.arguments[0])?;
    let keys = sort_keys(&lists.values, options)?;
    let (mut numbers, mut ends, mut valid) = (Vec::new(), Vec::new(), Vec::new());
    for range in &lists.ranges {
        if let Some((begin, end)) = *range {
            numbers.extend(ordered(&keys, (begin, end)).into_iter().map(|place| (place - begin) as i64 + 1));
        }
        ends.push(numbers.len());
        valid.push(range.is_some());
    }
    lists_of(Arc::new(Int64Array::from(numbers)), &ends, valid, call.result)
}

/// Keys of values in an order: a NULL within a value is greater than all others there, wherever the value's own NULL goes.
fn sort_keys(values: &ArrayRef, options: SortOptions) -> Result<Rows> {
    match values.data_type().is_nested() {
        true => keys(&order_keys(values)?, options),
        false => keys(values, options),
    }
}

/// Keys whose bytes are ordered as values are.
pub(crate) fn keys(values: &ArrayRef, options: SortOptions) -> Result<Rows> {
    let values = lengths(values)?;
    let converter = RowConverter::new(vec![SortField::new_with_options(values.data_type().clone(), options)])?;
    Ok(converter.convert_columns(&[values])?)
}

/// The places of a list by their keys; equal ones as they stand.
fn ordered(keys: &Rows, (begin, end): (usize, usize)) -> Vec<usize> {
    let mut places: Vec<usize> = (begin..end).collect();
    places.sort_by(|one, other| keys.row(*one).cmp(&keys.row(*other)));
    places
}
