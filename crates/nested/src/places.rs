//! Elements and parts of lists and texts by their places: `list_extract(l, -1)`, `list_slice(l, 2, 3)`; lists of a length, and those
//! of lists as one.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, UInt64Array};
use datafusion::arrow::compute::{concat, take};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};
use forebay_functions::texts;

use crate::lists::{Chosen, Lists, element_of, list_of};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition { names: &["list_extract", "list_element", "array_extract"], shape: extract_shape, compute: extracted },
    Definition { names: &["list_slice", "array_slice"], shape: slice_shape, compute: sliced },
    Definition { names: &["list_resize", "array_resize"], shape: resize_shape, compute: resized },
    Definition { names: &["flatten"], shape: flat_shape, compute: flat },
];

/// A text, or a list, as the first argument.
fn whole(data_type: &DataType) -> Option<DataType> {
    match element_of(data_type) {
        Some(element) if !data_type.is_null() => Some(list_of(element)),
        _ => is_text(data_type).then_some(TEXT),
    }
}

fn extract_shape(types: &[DataType]) -> Option<Shape> {
    let [own, place] = types else { return None };
    let whole = whole(own)?;
    let result = element_of(&whole).unwrap_or(&TEXT).clone();
    is_integer(place).then(|| Shape { arguments: vec![whole, DataType::Int64], result })
}

fn extracted(call: &Call<'_>) -> Result<ArrayRef> {
    if call.arguments[0].data_type() == &TEXT {
        return texts::characters(call);
    }
    let (lists, places) = (Lists::of(&call.arguments[0])?, call.integers(1));
    let place = |(row, range): (usize, &Option<(usize, usize)>)| {
        let (begin, end) = range.filter(|_| places.is_valid(row))?;
        let (number, length) = (places.value(row), (end - begin) as i64);
        let offset = if number < 0 { length.saturating_add(number) } else { number - 1 };
        (0..length).contains(&offset).then(|| begin as u64 + offset as u64)
    };
    let places: UInt64Array = lists.ranges.iter().enumerate().map(place).collect();
    Ok(take(&lists.values, &places, None)?)
}

fn slice_shape(types: &[DataType]) -> Option<Shape> {
    let (own, places) = types.split_first()?;
    let whole = whole(own)?;
    let most = if whole == TEXT { 2 } else { 3 };
    if places.len() < 2 || places.len() > most || !places.iter().all(is_place) {
        return None;
    }
    let mut arguments = vec![whole.clone()];
    arguments.resize(types.len(), DataType::Int64);
    Some(Shape { arguments, result: whole })
}

/// Whether a bound of a slice can be of this type.
fn is_place(data_type: &DataType) -> bool {
    data_type.is_numeric() || data_type.is_null() || is_text(data_type) || *data_type == DataType::Boolean
}

fn sliced(call: &Call<'_>) -> Result<ArrayRef> {
    if call.arguments[0].data_type() == &TEXT {
        return texts::slices(call);
    }
    let (lists, firsts, lasts) = (Lists::of(&call.arguments[0])?, call.integers(1), call.integers(2));
    let steps = (call.arguments.len() > 3).then(|| call.integers(3));
    let mut chosen = Chosen::default();
    for (row, range) in lists.ranges.iter().enumerate() {
        let is_known = firsts.is_valid(row) && lasts.is_valid(row) && steps.is_none_or(|steps| steps.is_valid(row));
        let Some((begin, end)) = range.filter(|_| is_known) else {
            chosen.end_list(false);
            continue;
        };
        let step = steps.map_or(1, |steps| steps.value(row));
        if step == 0 {
            return Err(refused("the step of a slice is 0", "Take every second element by 2, and go backwards by -1"));
        }
        let (mut first, mut last) = (firsts.value(row), lasts.value(row));
        if step < 0 {
            std::mem::swap(&mut first, &mut last);
        }
        let part = bounds(first, last, (end - begin) as i64);
        let stride = usize::try_from(step.unsigned_abs()).unwrap_or(usize::MAX);
        let mut places: Vec<usize> = part.map(|offset| begin + offset as usize).collect();
        if step < 0 {
            places.reverse();
        }
        for place in places.into_iter().step_by(stride) {
            chosen.push(Some(place));
        }
        chosen.end_list(true);
    }
    chosen.finish(&lists.values, call.result)
}

/// The offsets from the `first` to the `last` place, counted from 1, or from the end where they are negative.
fn bounds(first: i64, last: i64, length: i64) -> std::ops::Range<i64> {
    let begin = match first {
        ..0 => length.saturating_add(first).max(0),
        0 => 0,
        _ => first - 1,
    };
    let end = if last < 0 { length.saturating_add(last).saturating_add(1) } else { last };
    begin..end.min(length)
}

fn resize_shape(types: &[DataType]) -> Option<Shape> {
    let (own, others) = types.split_first()?;
    let own = list_of(element_of(own)?);
    let element = element_of(&own)?.clone();
    match others {
        [length] if is_integer(length) => Some(Shape { arguments: vec![own.clone(), DataType::Int64], result: own }),
        [length, _] if is_integer(length) => {
            Some(Shape { arguments: vec![own.clone(), DataType::Int64, element], result: own })
        }
        _ => None,
    }
}

fn resized(call: &Call<'_>) -> Result<ArrayRef> {
    let (lists, lengths) = (Lists::of(&call.arguments[0])?, call.integers(1));
    let own = lists.values.len();
    let values = match call.arguments.get(2) {
        Some(added) => concat(&[lists.values.as_ref(), added.as_ref()])?,
        None => Arc::clone(&lists.values),
    };
    let mut chosen = Chosen::default();
    for (row, range) in lists.ranges.iter().enumerate() {
        if let Some((begin, end)) = *range {
            let length = if lengths.is_valid(row) { lengths.value(row) } else { 0 };
            let length = usize::try_from(length).ok().filter(|length| *length <= i32::MAX as usize);
            let length =
                length.ok_or_else(|| refused("a list cannot have that length", "Lengths are 0 to 2147483647"))?;
            for offset in 0..length {
                let added = call.arguments.get(2).map(|_| own + row);
                chosen.push(if begin + offset < end { Some(begin + offset) } else { added });
            }
        }
        chosen.end_list(range.is_some());
    }
    chosen.finish(&values, call.result)
}

fn flat_shape(types: &[DataType]) -> Option<Shape> {
    let [own] = types else { return None };
    let inner = element_of(own)?;
    let result = list_of(element_of(inner)?);
    Some(Shape { arguments: vec![list_of(inner)], result })
}

fn flat(call: &Call<'_>) -> Result<ArrayRef> {
    Lists::of(&call.arguments[0])?.without_inner(Some(call.result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_count_from_both_ends() {
        let slice = |first, last| bounds(first, last, 3).collect::<Vec<_>>();
        assert_eq!((slice(2, 3), slice(-2, -1), slice(0, 2)), (vec![1, 2], vec![1, 2], vec![0, 1]));
        assert_eq!((slice(1, -1), slice(3, 1), slice(5, 9), slice(-9, 1)), (vec![0, 1, 2], vec![], vec![], vec![0]));
        assert_eq!((slice(i64::MIN, i64::MAX), slice(i64::MAX, i64::MIN)), (vec![0, 1, 2], vec![]));
    }
}
