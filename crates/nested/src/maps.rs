//! Maps: what belongs to a key, what they hold, several as one, lists of pairs as maps.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, MapArray, StructArray, UInt64Array};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::{SortOptions, cast, concat, take};
use datafusion::arrow::datatypes::{DataType, Field, Fields};
use datafusion::arrow::row::{OwnedRow, Rows};
use datafusion::common::{Result, internal_err};
use forebay_functions::function::{Call, Definition, Shape, refused};

use crate::lists::{Chosen, Lists, element_of, list_of};
use crate::orders::keys;

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["map_extract", "element_at"],
        shape: |types| shape(types, |_, value| list_of(value)),
        compute: extracted,
    },
    Definition {
        names: &["map_extract_value"],
        shape: |types| shape(types, |_, value| value.clone()),
        compute: values,
    },
    Definition { names: &["map_contains"], shape: contains_shape, compute: contains },
    Definition { names: &["map_contains_value"], shape: value_shape, compute: contains_value },
    Definition { names: &["map_contains_entry"], shape: entry_shape, compute: contains_entry },
    Definition { names: &["map_from_entries"], shape: entries_shape, compute: from_entries },
    Definition { names: &["map_concat"], shape: maps_shape, compute: concatenated },
];

/// The types of keys and values; `None` of what is no map.
fn parts_of(data_type: &DataType) -> Option<(&DataType, &DataType)> {
    let DataType::Map(entries, _) = data_type else { return None };
    match entries.data_type() {
        DataType::Struct(fields) if fields.len() == 2 => Some((fields[0].data_type(), fields[1].data_type())),
        _ => None,
    }
}

fn map_of(key: &DataType, value: &DataType) -> DataType {
    let fields = Fields::from(vec![Field::new("key", key.clone(), false), Field::new("value", value.clone(), true)]);
    DataType::Map(Arc::new(Field::new("entries", DataType::Struct(fields), false)), false)
}

/// What an argument is cast to that is compared with values of a type. An empty map has no type of its own.
fn sought(own: &DataType, argument: &DataType) -> Option<DataType> {
    match own.is_null() {
        true => Some(argument.clone()),
        false => (own.is_nested() == argument.is_nested() || argument.is_null()).then(|| own.clone()),
    }
}

pub(crate) fn contains_shape(types: &[DataType]) -> Option<Shape> {
    shape(types, |_, _| DataType::Boolean)
}

fn shape(types: &[DataType], result: fn(&DataType, &DataType) -> DataType) -> Option<Shape> {
    let [map, sought_key] = types else { return None };
    let (key, value) = parts_of(map)?;
    Some(Shape { arguments: vec![map.clone(), sought(key, sought_key)?], result: result(key, value) })
}

fn value_shape(types: &[DataType]) -> Option<Shape> {
    let [map, value] = types else { return None };
    Some(Shape { arguments: vec![map.clone(), sought(parts_of(map)?.1, value)?], result: DataType::Boolean })
}

fn entry_shape(types: &[DataType]) -> Option<Shape> {
    let [map, key, value] = types else { return None };
    let (own_key, own_value) = parts_of(map)?;
    Some(Shape {
        arguments: vec![map.clone(), sought(own_key, key)?, sought(own_value, value)?],
        result: DataType::Boolean,
    })
}

/// The entries of each map: where they are, and their keys and values.
struct Entries {
    ranges: Vec<Option<(usize, usize)>>,
    keys: ArrayRef,
    values: ArrayRef,
}

fn entries(column: &ArrayRef) -> Entries {
    let maps = column.as_map();
    let ends = maps.value_offsets();
    let range = |row: usize| maps.is_valid(row).then(|| (ends[row] as usize, ends[row + 1] as usize));
    Entries {
        ranges: (0..maps.len()).map(range).collect(),
        keys: Arc::clone(maps.keys()),
        values: Arc::clone(maps.values()),
    }
}

/// For each map, the places of entries of which `own` equals the argument of its row. NULL equals nothing.
fn places(ranges: &[Option<(usize, usize)>], own: &ArrayRef, sought: &ArrayRef) -> Result<Vec<Vec<usize>>> {
    if own.is_empty() || own.data_type() != sought.data_type() {
        return Ok(vec![Vec::new(); ranges.len()]);
    }
    let (keys_of, wanted) = (keys(own, SortOptions::default())?, keys(sought, SortOptions::default())?);
    let found = |(row, range): (usize, &Option<(usize, usize)>)| {
        let (begin, end) = range.unwrap_or((0, 0));
        let equals = |at: &usize| own.is_valid(*at) && keys_of.row(*at) == wanted.row(row);
        if sought.is_valid(row) { (begin..end).filter(equals).collect() } else { Vec::new() }
    };
    Ok(ranges.iter().enumerate().map(found).collect())
}

fn extracted(call: &Call<'_>) -> Result<ArrayRef> {
    let maps = entries(&call.arguments[0]);
    let mut chosen = Chosen::default();
    let places = places(&maps.ranges, &maps.keys, &call.arguments[1])?;
    for (places, range) in places.into_iter().zip(&maps.ranges) {
        for place in places {
            chosen.push(Some(place));
        }
        chosen.end_list(range.is_some());
    }
    chosen.finish(&maps.values, call.result)
}

fn values(call: &Call<'_>) -> Result<ArrayRef> {
    let maps = entries(&call.arguments[0]);
    let places = places(&maps.ranges, &maps.keys, &call.arguments[1])?;
    let first = places.iter().map(|places| places.first().map(|place| *place as u64));
    Ok(take(&maps.values, &first.collect::<UInt64Array>(), None)?)
}

/// Whether maps have keys.
pub(crate) fn contains(call: &Call<'_>) -> Result<ArrayRef> {
    let maps = entries(&call.arguments[0]);
    let places = places(&maps.ranges, &maps.keys, &call.arguments[1])?;
    flags(&maps, places.iter().map(|places| !places.is_empty()), &call.arguments[1..])
}

fn contains_value(call: &Call<'_>) -> Result<ArrayRef> {
    let maps = entries(&call.arguments[0]);
    let places = places(&maps.ranges, &maps.values, &call.arguments[1])?;
    flags(&maps, places.iter().map(|places| !places.is_empty()), &call.arguments[1..])
}

fn contains_entry(call: &Call<'_>) -> Result<ArrayRef> {
    let maps = entries(&call.arguments[0]);
    let by_key = places(&maps.ranges, &maps.keys, &call.arguments[1])?;
    let by_value = places(&maps.ranges, &maps.values, &call.arguments[2])?;
    let both = by_key.iter().zip(&by_value).map(|(keys, values)| keys.iter().any(|place| values.contains(place)));
    flags(&maps, both, &call.arguments[1..])
}

/// Truth values, NULL where the map or what is looked for is.
fn flags(maps: &Entries, found: impl Iterator<Item = bool>, sought: &[ArrayRef]) -> Result<ArrayRef> {
    let known = |row: usize| maps.ranges[row].is_some() && sought.iter().all(|column| column.is_valid(row));
    Ok(Arc::new(found.enumerate().map(|(row, found)| known(row).then_some(found)).collect::<BooleanArray>()))
}

fn entries_shape(types: &[DataType]) -> Option<Shape> {
    let [list] = types else { return None };
    let element = element_of(list)?;
    match element {
        DataType::Struct(fields) if fields.len() == 2 => Some(Shape {
            arguments: vec![list_of(element)],
            result: map_of(fields[0].data_type(), fields[1].data_type()),
        }),
        _ => None,
    }
}

fn from_entries(call: &Call<'_>) -> Result<ArrayRef> {
    let lists = Lists::of(&call.arguments[0])?;
    let pairs = lists.values.as_struct();
    let (own_keys, own_values) = (pairs.column(0), pairs.column(1));
    let rows = keys(own_keys, SortOptions::default())?;
    let mut chosen = Pairs::default();
    for range in &lists.ranges {
        for place in range.iter().flat_map(|(begin, end)| *begin..*end) {
            if own_keys.data_type().is_null() || pairs.is_null(place) || own_keys.is_null(place) {
                return Err(refused("a key of a map is NULL", "Give each entry a key"));
            }
            if !chosen.push(&rows, place) {
                return Err(refused("a map has a key several times", "Give each entry a key of its own"));
            }
        }
        chosen.end_map(range.is_some());
    }
    chosen.finish(own_keys, own_values, call.result)
}

fn maps_shape(types: &[DataType]) -> Option<Shape> {
    let known: Vec<&DataType> = types.iter().filter(|own| !own.is_null()).collect();
    // An empty map has no types of its own.
    let typed = known.iter().find(|own| parts_of(own).is_some_and(|(key, _)| !key.is_null()));
    let result = (*typed.or(known.first())?).clone();
    let (key, value) = parts_of(&result)?;
    let result = map_of(key, value);
    known.iter().all(|own| parts_of(own).is_some()).then(|| Shape { arguments: types.to_vec(), result })
}

fn concatenated(call: &Call<'_>) -> Result<ArrayRef> {
    let Some((key, value)) = parts_of(call.result) else { return internal_err!("maps are put together to maps") };
    let maps: Vec<Entries> = call.arguments.iter().filter(|own| !own.data_type().is_null()).map(entries).collect();
    let all_keys = maps.iter().map(|maps| cast(&maps.keys, key)).collect::<Result<Vec<_>, _>>()?;
    let all_values = maps.iter().map(|maps| cast(&maps.values, value)).collect::<Result<Vec<_>, _>>()?;
    let all_keys = concat(&all_keys.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?;
    let all_values = concat(&all_values.iter().map(AsRef::as_ref).collect::<Vec<&dyn Array>>())?;
    let rows = keys(&all_keys, SortOptions::default())?;
    let mut chosen = Pairs::default();
    for row in 0..call.rows {
        let mut base = 0;
        for part in &maps {
            for place in part.ranges[row].iter().flat_map(|(begin, end)| *begin..*end) {
                chosen.push(&rows, base + place);
            }
            base += part.keys.len();
        }
        chosen.end_map(maps.iter().any(|part| part.ranges[row].is_some()));
    }
    chosen.finish(&all_keys, &all_values, call.result)
}

/// Maps that are made entry by entry. Of equal keys the last value holds, at the place of the first.
#[derive(Default)]
struct Pairs {
    known: HashMap<OwnedRow, usize>,
    keys: Vec<u64>,
    values: Vec<u64>,
    offsets: Vec<usize>,
    valid: Vec<bool>,
}

impl Pairs {
    /// Returns whether the key is a new one of the map at hand.
    fn push(&mut self, rows: &Rows, place: usize) -> bool {
        match self.known.get(&rows.row(place).owned()) {
            Some(index) => {
                self.values[*index] = place as u64;
                false
            }
            None => {
                self.known.insert(rows.row(place).owned(), self.keys.len());
                self.keys.push(place as u64);
                self.values.push(place as u64);
                true
            }
        }
    }

    fn end_map(&mut self, is_valid: bool) {
        self.known.clear();
        self.offsets.push(self.keys.len());
        self.valid.push(is_valid);
    }

    fn finish(self, keys: &ArrayRef, values: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
        let DataType::Map(entries, is_sorted) = result else { return internal_err!("{result} is no map") };
        let DataType::Struct(fields) = entries.data_type() else { return internal_err!("entries are structs") };
        let columns = vec![
            take(keys, &UInt64Array::from(self.keys), None)?,
            take(values, &UInt64Array::from(self.values), None)?,
        ];
        let mut offsets = vec![0_i32];
        for end in self.offsets {
            offsets.push(i32::try_from(end).map_err(|_| refused("the maps are too large", "Take fewer rows"))?);
        }
        let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
        let all = StructArray::try_new(fields.clone(), columns, None)?;
        let nulls = NullBuffer::from(self.valid);
        Ok(Arc::new(MapArray::try_new(Arc::clone(entries), offsets, all, Some(nulls), *is_sorted)?))
    }
}
