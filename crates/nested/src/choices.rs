//! Lists of elements of others: those that a list of truth values or of places names, several lists as one, a list several times.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, StructArray, UInt64Array};
use datafusion::arrow::compute::kernels::comparison;
use datafusion::arrow::compute::{SortOptions, cast, concat, take};
use datafusion::arrow::datatypes::{DataType, Field, Fields, Int64Type};
use datafusion::common::Result;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use forebay_functions::function::{Call, Definition, Shape, TEXT, is_text, refused};
use forebay_functions::texts;

use crate::lists::{Chosen, Lists, element_of, list_of, lists_of};
use crate::maps;
use crate::orders::keys;

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["list_where", "array_where"],
        shape: |types| by(types, &DataType::Boolean),
        compute: flagged,
    },
    Definition {
        names: &["list_select", "array_select"],
        shape: |types| by(types, &DataType::Int64),
        compute: selected,
    },
    Definition {
        names: &["list_concat", "list_cat", "array_concat", "array_cat"],
        shape: lists_shape,
        compute: concatenated,
    },
    Definition {
        names: &["list_append", "array_append", "array_push_back"],
        shape: behind_shape,
        compute: concatenated,
    },
    Definition { names: &["list_prepend", "array_prepend"], shape: front_shape, compute: concatenated },
    Definition { names: &["array_push_front"], shape: behind_shape, compute: pushed_in_front },
    Definition { names: &["repeat"], shape: repeated_shape, compute: repeated },
    Definition { names: &["contains"], shape: contains_shape, compute: contains },
    Definition { names: &["array_has_all", "list_has_all"], shape: all_shape, compute: has_all },
    Definition { names: &["list_unique", "array_unique"], shape: unique_shape, compute: unique },
    Definition { names: &["list_zip", "array_zip"], shape: zipped_shape, compute: zipped },
    Definition { names: &["list_flattened"], shape: flattened_shape, compute: flattened },
];

fn by(types: &[DataType], element: &DataType) -> Option<Shape> {
    let [list, others] = types else { return None };
    let own = element_of(list)?;
    let fits = |other: &DataType| other.is_null() || other == element || (other.is_integer() && element.is_integer());
    element_of(others)
        .is_some_and(fits)
        .then(|| Shape { arguments: vec![list_of(own), list_of(element)], result: list_of(own) })
}

fn no_null(call: &Call<'_>, others: &Lists) -> Result<()> {
    let has_null =
        others.ranges.iter().flatten().any(|(begin, end)| (*begin..*end).any(|at| others.values.is_null(at)));
    match has_null && call.rows > 0 {
        true => Err(refused("the second list has a NULL", "Leave it out by list_filter(l, lambda x: x IS NOT NULL)")),
        false => Ok(()),
    }
}

fn flagged(call: &Call<'_>) -> Result<ArrayRef> {
    let (lists, flags) = (Lists::of(&call.arguments[0])?, Lists::of(&call.arguments[1])?);
    no_null(call, &flags)?;
    let is_set = flags.values.as_boolean();
    let mut chosen = Chosen::default();
    for (own, flags) in lists.ranges.iter().zip(&flags.ranges) {
        if let (Some((begin, end)), Some((first, last))) = (own, flags) {
            let places = (*first..*last).filter(|flag| is_set.value(*flag)).map(|flag| begin + flag - first);
            for place in places {
                chosen.push((place < *end).then_some(place));
            }
        }
        chosen.end_list(own.is_some() && flags.is_some());
    }
    chosen.finish(&lists.values, call.result)
}

fn selected(call: &Call<'_>) -> Result<ArrayRef> {
    let (lists, places) = (Lists::of(&call.arguments[0])?, Lists::of(&call.arguments[1])?);
    no_null(call, &places)?;
    let numbers = places.values.as_primitive::<Int64Type>();
    let mut chosen = Chosen::default();
    for (own, places) in lists.ranges.iter().zip(&places.ranges) {
        if let (Some((begin, end)), Some((first, last))) = (own, places) {
            for number in &numbers.values()[*first..*last] {
                let place = usize::try_from(*number).ok().and_then(|number| number.checked_sub(1));
                chosen.push(place.map(|place| begin.saturating_add(place)).filter(|place| place < end));
            }
        }
        chosen.end_list(own.is_some() && places.is_some());
    }
    chosen.finish(&lists.values, call.result)
}

/// The type that elements have in common.
fn common(types: &[&DataType]) -> Option<DataType> {
    let first = types.iter().find(|own| !own.is_null());
    let Some(first) = first else { return Some(DataType::Null) };
    if types.iter().all(|own| own.is_null() || own == first) {
        return Some((*first).clone());
    }
    type_union_resolution(&types.iter().map(|own| (*own).clone()).collect::<Vec<_>>())
}

fn all_shape(types: &[DataType]) -> Option<Shape> {
    let [list, sought] = types else { return None };
    let list = list_of(&common(&[element_of(list)?, element_of(sought)?])?);
    Some(Shape { arguments: vec![list.clone(), list], result: DataType::Boolean })
}

/// Whether a list has all elements of another one that are not NULL.
fn has_all(call: &Call<'_>) -> Result<ArrayRef> {
    let (lists, sought) = (Lists::of(&call.arguments[0])?, Lists::of(&call.arguments[1])?);
    let own = lists.values.len();
    let keys = keys(&concat(&[lists.values.as_ref(), sought.values.as_ref()])?, SortOptions::default())?;
    let row = |row: usize| {
        let ((begin, end), (first, last)) = (lists.ranges[row]?, sought.ranges[row]?);
        let held: HashSet<_> = (begin..end).map(|place| keys.row(place)).collect();
        let mut wanted = (first..last).filter(|place| sought.values.is_valid(*place));
        Some(wanted.all(|place| held.contains(&keys.row(own + place))))
    };
    Ok(Arc::new((0..call.rows).map(row).collect::<BooleanArray>()))
}

fn lists_shape(types: &[DataType]) -> Option<Shape> {
    let elements: Vec<&DataType> = types.iter().map(element_of).collect::<Option<_>>()?;
    if types.is_empty() {
        return None;
    }
    let result = list_of(&common(&elements)?);
    Some(Shape { arguments: vec![result.clone(); types.len()], result })
}

/// A list and an element; the element becomes a list of its own.
fn behind_shape(types: &[DataType]) -> Option<Shape> {
    let [list, element] = types else { return None };
    let common = common(&[element_of(list)?, element])?;
    Some(Shape { arguments: vec![list_of(&common), common.clone()], result: list_of(&common) })
}

fn front_shape(types: &[DataType]) -> Option<Shape> {
    let [element, list] = types else { return None };
    let common = common(&[element_of(list)?, element])?;
    Some(Shape { arguments: vec![common.clone(), list_of(&common)], result: list_of(&common) })
}

/// The lists and elements of each row as one list; lists that are NULL have no elements.
fn joined(arguments: &[ArrayRef], call: &Call<'_>) -> Result<ArrayRef> {
    let mut parts = Vec::new();
    for argument in arguments {
        parts.push(match argument.data_type() == call.result {
            true => Lists::of(argument)?,
            false => {
                Lists { values: Arc::clone(argument), ranges: (0..call.rows).map(|row| Some((row, row + 1))).collect() }
            }
        });
    }
    let element = element_of(call.result).unwrap_or(&DataType::Null);
    let columns = parts.iter().map(|part| cast(&part.values, element)).collect::<Result<Vec<_>, _>>()?;
    let columns: Vec<&dyn Array> = columns.iter().map(AsRef::as_ref).collect();
    let values = concat(&columns)?;
    let mut chosen = Chosen::default();
    for row in 0..call.rows {
        let mut base = 0;
        for part in &parts {
            for place in part.ranges[row].into_iter().flat_map(|(begin, end)| begin..end) {
                chosen.push(Some(base + place));
            }
            base += part.values.len();
        }
        // NULL alone has no type that a list could have.
        chosen.end_list(!element.is_null() || parts.iter().any(|part| part.ranges[row].is_some()));
    }
    chosen.finish(&values, call.result)
}

fn concatenated(call: &Call<'_>) -> Result<ArrayRef> {
    joined(call.arguments, call)
}

fn pushed_in_front(call: &Call<'_>) -> Result<ArrayRef> {
    joined(&[Arc::clone(&call.arguments[1]), Arc::clone(&call.arguments[0])], call)
}

fn repeated_shape(types: &[DataType]) -> Option<Shape> {
    let [value, count] = types else { return None };
    let own = match element_of(value) {
        Some(element) if !value.is_null() => list_of(element),
        _ if is_text(value) => TEXT,
        _ => return None,
    };
    (count.is_integer() || count.is_null())
        .then(|| Shape { arguments: vec![own.clone(), DataType::Int64], result: own })
}

fn repeated(call: &Call<'_>) -> Result<ArrayRef> {
    if *call.result == TEXT {
        return texts::repeated(call);
    }
    let (lists, counts) = (Lists::of(&call.arguments[0])?, call.integers(1));
    let mut chosen = Chosen::default();
    for (row, range) in lists.ranges.iter().enumerate() {
        let times = if counts.is_valid(row) { usize::try_from(counts.value(row)).unwrap_or(0) } else { 0 };
        if let Some((begin, end)) = *range {
            if (end - begin).saturating_mul(times) > i32::MAX as usize {
                return Err(refused(format!("{times} times the list is too long"), "Repeat it less often"));
            }
            for place in (0..times).flat_map(|_| begin..end) {
                chosen.push(Some(place));
            }
        }
        chosen.end_list(range.is_some() && counts.is_valid(row));
    }
    chosen.finish(&lists.values, call.result)
}

/// A text and a part of it, or a list and an element.
fn contains_shape(types: &[DataType]) -> Option<Shape> {
    let [whole, part] = types else { return None };
    let arguments = match element_of(whole) {
        _ if matches!(whole, DataType::Map(..)) => return maps::contains_shape(types),
        Some(element) if !whole.is_null() => {
            let common = common(&[element, part])?;
            vec![list_of(&common), common]
        }
        _ if is_text(whole) && is_text(part) => vec![TEXT; 2],
        _ => return None,
    };
    Some(Shape { arguments, result: DataType::Boolean })
}

/// Whether a list has an element, a text a part, a map a key.
fn contains(call: &Call<'_>) -> Result<ArrayRef> {
    if matches!(call.arguments[0].data_type(), DataType::Map(..)) {
        return maps::contains(call);
    }
    if call.arguments[0].data_type() == &TEXT {
        return Ok(Arc::new(comparison::contains(&call.texts(0), &call.texts(1))?));
    }
    let (lists, sought) = (Lists::of(&call.arguments[0])?, &call.arguments[1]);
    let (own, wanted) = (keys(&lists.values, SortOptions::default())?, keys(sought, SortOptions::default())?);
    let found = |(row, range): (usize, &Option<(usize, usize)>)| {
        let (begin, end) = range.filter(|_| sought.is_valid(row))?;
        Some((begin..end).any(|place| lists.values.is_valid(place) && own.row(place) == wanted.row(row)))
    };
    Ok(Arc::new(lists.ranges.iter().enumerate().map(found).collect::<BooleanArray>()))
}

fn unique_shape(types: &[DataType]) -> Option<Shape> {
    let [list] = types else { return None };
    Some(Shape { arguments: vec![list_of(element_of(list)?)], result: DataType::UInt64 })
}

fn unique(call: &Call<'_>) -> Result<ArrayRef> {
    let lists = Lists::of(&call.arguments[0])?;
    let keys = keys(&lists.values, SortOptions::default())?;
    // Elements of the type of NULL alone have no marks.
    let nulls = lists.values.logical_nulls();
    let count = |(begin, end): (usize, usize)| {
        let places = (begin..end).filter(|place| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*place)));
        places.map(|place| keys.row(place)).collect::<HashSet<_>>().len() as u64
    };
    Ok(Arc::new(lists.ranges.iter().map(|range| range.map(count)).collect::<UInt64Array>()))
}

fn zipped_shape(types: &[DataType]) -> Option<Shape> {
    let (lists, is_cut) = match types.split_last()? {
        (DataType::Boolean, lists) => (lists, true),
        _ => (types, false),
    };
    let elements: Vec<&DataType> = lists.iter().map(element_of).collect::<Option<_>>()?;
    if lists.is_empty() {
        return None;
    }
    let mut arguments: Vec<DataType> = elements.iter().map(|element| list_of(element)).collect();
    arguments.extend(is_cut.then_some(DataType::Boolean));
    let field = |(place, element): (usize, &&DataType)| Field::new(format!("c{place}"), (*element).clone(), true);
    let fields: Fields = elements.iter().enumerate().map(field).collect();
    Some(Shape { arguments, result: list_of(&DataType::Struct(fields)) })
}

fn zipped(call: &Call<'_>) -> Result<ArrayRef> {
    let (columns, cuts) = match call.arguments.split_last() {
        Some((cuts, columns)) if *cuts.data_type() == DataType::Boolean => (columns, Some(cuts.as_boolean())),
        _ => (call.arguments, None),
    };
    let lists = columns.iter().map(Lists::of).collect::<Result<Vec<_>>>()?;
    let mut places: Vec<Vec<Option<u64>>> = vec![Vec::new(); lists.len()];
    let (mut ends, mut valid) = (Vec::new(), Vec::new());
    for row in 0..call.rows {
        let lengths = lists.iter().map(|list| list.ranges[row].map_or(0, |(begin, end)| end - begin));
        let is_cut = cuts.is_some_and(|cuts| cuts.is_valid(row) && cuts.value(row));
        let length = if is_cut { lengths.min() } else { lengths.max() }.unwrap_or(0);
        for (list, places) in lists.iter().zip(&mut places) {
            let (begin, end) = list.ranges[row].unwrap_or((0, 0));
            places.extend((begin..begin + length).map(|place| (place < end).then_some(place as u64)));
        }
        ends.push(places[0].len());
        valid.push(true);
    }
    let Some(DataType::Struct(fields)) = element_of(call.result) else {
        return datafusion::common::internal_err!("zipped lists have structs");
    };
    let taken = lists.iter().zip(places).map(|(list, places)| take(&list.values, &UInt64Array::from(places), None));
    let columns = taken.collect::<Result<Vec<_>, _>>()?;
    lists_of(Arc::new(StructArray::try_new(fields.clone(), columns, None)?), &ends, valid, call.result)
}

/// Lists of lists, of any depth.
fn flattened_shape(types: &[DataType]) -> Option<Shape> {
    let [list] = types else { return None };
    let mut element = element_of(list)?;
    while let (false, Some(inner)) = (element.is_null(), element_of(element)) {
        element = inner;
    }
    (!element.is_nested()).then(|| Shape { arguments: vec![list.clone()], result: list_of(element) })
}

fn flattened(call: &Call<'_>) -> Result<ArrayRef> {
    let mut lists = Lists::of(&call.arguments[0])?;
    while lists.values.data_type() != &DataType::Null && element_of(lists.values.data_type()).is_some() {
        lists = Lists::of(&lists.without_inner(None)?)?;
    }
    let mut chosen = Chosen::default();
    for range in &lists.ranges {
        for place in range.iter().flat_map(|(begin, end)| *begin..*end) {
            chosen.push(Some(place));
        }
        chosen.end_list(range.is_some());
    }
    chosen.finish(&lists.values, call.result)
}
