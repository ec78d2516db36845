//! Fields of structs, by their names and places.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Int32Array, StringViewArray, StructArray};
use datafusion::arrow::compute::{SortOptions, cast, is_null, nullif};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::ScalarUDF;
use forebay_functions::function::{TEXT, refused};

use crate::lists::{list_of, lists_of};
use crate::literals::{Argument, Definition, Function};
use crate::orders::keys;

/// All of them.
pub(crate) fn functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    DEFINITIONS.iter().map(|definition| Arc::new(ScalarUDF::from(Function::new(definition))))
}

static DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["struct_extract", "struct_extract_at"],
        result: |arguments| Ok(extracted(arguments)?.1.data_type().clone()),
        compute: |arguments, columns, _| field_of(&columns[0], extracted(arguments)?.0),
    },
    Definition {
        names: &["struct_keys"],
        result: |arguments| fields(arguments, 0).map(|_| list_of(&TEXT)),
        compute: |arguments, columns, result| {
            let names: Vec<&String> = fields(arguments, 0)?.iter().map(|field| field.name()).collect();
            let rows = columns[0].len();
            let all = (0..rows).flat_map(|_| names.iter().map(Some));
            let ends: Vec<usize> = (1..=rows).map(|row| row * names.len()).collect();
            let valid = (0..rows).map(|row| columns[0].is_valid(row)).collect();
            lists_of(Arc::new(all.collect::<StringViewArray>()), &ends, valid, result)
        },
    },
    Definition {
        names: &["struct_values"],
        result: |arguments| {
            let fields = fields(arguments, 0)?.iter().enumerate();
            Ok(struct_of(fields.map(|(place, field)| named(&format!("c{place}"), field.data_type()))))
        },
        compute: |_, columns, result| made(parts(&columns[0])?, columns[0].nulls().cloned(), result),
    },
    Definition {
        names: &["struct_insert"],
        result: |arguments| {
            let mut all: Vec<FieldRef> = fields(arguments, 0)?.iter().cloned().collect();
            for (name, data_type) in assigned(arguments)? {
                if place_of(&all, &name).is_some() {
                    return Err(refused(format!("the struct has a field {name}"), "Change it by struct_update"));
                }
                all.push(Arc::new(named(&name, &data_type)));
            }
            Ok(DataType::Struct(all.into()))
        },
        compute: |_, columns, result| {
            let mut all = parts(&columns[0])?;
            all.extend(columns[1..].iter().skip(1).step_by(2).cloned());
            made(all, None, result)
        },
    },
    Definition {
        names: &["struct_update"],
        result: |arguments| {
            let mut all: Vec<FieldRef> = fields(arguments, 0)?.iter().cloned().collect();
            for (name, data_type) in assigned(arguments)? {
                match place_of(&all, &name) {
                    Some(place) => all[place] = Arc::new(named(&name, &data_type)),
                    None => all.push(Arc::new(named(&name, &data_type))),
                }
            }
            Ok(DataType::Struct(all.into()))
        },
        compute: |arguments, columns, result| {
            let mut all = parts(&columns[0])?;
            let mut known: Vec<FieldRef> = fields(arguments, 0)?.iter().cloned().collect();
            for ((name, data_type), column) in
                assigned(arguments)?.into_iter().zip(columns[1..].iter().skip(1).step_by(2))
            {
                match place_of(&known, &name) {
                    Some(place) => all[place] = Arc::clone(column),
                    None => {
                        known.push(Arc::new(named(&name, &data_type)));
                        all.push(Arc::clone(column));
                    }
                }
            }
            made(all, None, result)
        },
    },
    Definition {
        names: &["struct_concat"],
        result: |arguments| {
            let mut all: Vec<FieldRef> = Vec::new();
            for place in 0..arguments.len() {
                for field in fields(arguments, place)? {
                    if place_of(&all, field.name()).is_some() {
                        let message = format!("struct_concat: several structs have a field {}", field.name());
                        return Err(refused(message, "Give the fields names of their own"));
                    }
                    all.push(Arc::clone(field));
                }
            }
            Ok(DataType::Struct(all.into()))
        },
        compute: |_, columns, result| {
            let all = columns.iter().map(parts).collect::<Result<Vec<_>>>()?;
            made(all.into_iter().flatten().collect(), None, result)
        },
    },
    Definition {
        names: &["struct_contains", "struct_has"],
        result: |arguments| fields(arguments, 0).map(|_| DataType::Boolean),
        compute: |_, columns, _| {
            let places = positions(columns)?;
            let found =
                places.into_iter().enumerate().map(|(row, place)| columns[0].is_valid(row).then_some(place.is_some()));
            Ok(Arc::new(found.collect::<BooleanArray>()))
        },
    },
    Definition {
        names: &["struct_position", "struct_indexof"],
        result: |arguments| fields(arguments, 0).map(|_| DataType::Int32),
        compute: |_, columns, _| Ok(Arc::new(positions(columns)?.into_iter().collect::<Int32Array>())),
    },
];

/// The fields of the struct that an argument is.
fn fields<'a>(arguments: &[Argument<'a>], place: usize) -> Result<&'a Fields> {
    match arguments.get(place).map(|argument| argument.data_type) {
        Some(DataType::Struct(fields)) => Ok(fields),
        _ => Err(refused(format!("argument {} is no struct", place + 1), "Write a struct as {'a': 1, 'b': 2}")),
    }
}

fn named(name: &str, data_type: &DataType) -> Field {
    Field::new(name, data_type.clone(), true)
}

fn struct_of(fields: impl Iterator<Item = Field>) -> DataType {
    DataType::Struct(fields.collect())
}

fn place_of(fields: &[FieldRef], name: &str) -> Option<usize> {
    fields.iter().position(|field| field.name().eq_ignore_ascii_case(name))
}

/// The field that the second argument names.
fn extracted<'a>(arguments: &[Argument<'a>]) -> Result<(usize, &'a FieldRef)> {
    let fields = fields(arguments, 0)?;
    let key = arguments.get(1);
    let names = || fields.iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    if let Some(name) = key.and_then(Argument::text) {
        let place = place_of(fields, name);
        return place
            .map(|place| (place, &fields[place]))
            .ok_or_else(|| refused(format!("the struct has no field {name}"), &format!("Its fields are {}", names())));
    }
    let place = key.and_then(Argument::integer).and_then(|number| usize::try_from(number - 1).ok());
    place.and_then(|place| Some((place, fields.get(place)?))).ok_or_else(|| {
        let hint = format!("Write its name as a text, or its place from 1 to {}", fields.len());
        refused("struct_extract takes a struct and a field of it", &hint)
    })
}

/// Names and types of the fields that are given behind the first argument, each behind its name.
fn assigned(arguments: &[Argument<'_>]) -> Result<Vec<(String, DataType)>> {
    let pairs = arguments.get(1..).unwrap_or_default().chunks(2);
    let pair = |pair: &[Argument<'_>]| match pair {
        [name, value] => Some((name.text()?.to_owned(), value.data_type.clone())),
        _ => None,
    };
    let known = pairs.map(pair).collect::<Option<Vec<_>>>().filter(|known| !known.is_empty());
    known.ok_or_else(|| refused("the fields have no names", "Write struct_insert(s, a := 1)"))
}

/// A field of a struct, NULL where that is.
fn field_of(column: &ArrayRef, place: usize) -> Result<ArrayRef> {
    let all = column.as_struct();
    let values = all.column(place);
    Ok(if all.null_count() == 0 { Arc::clone(values) } else { nullif(values, &is_null(all)?)? })
}

fn parts(column: &ArrayRef) -> Result<Vec<ArrayRef>> {
    (0..column.as_struct().num_columns()).map(|place| field_of(column, place)).collect()
}

fn made(
    columns: Vec<ArrayRef>,
    nulls: Option<datafusion::arrow::buffer::NullBuffer>,
    result: &DataType,
) -> Result<ArrayRef> {
    let DataType::Struct(fields) = result else { return internal_err!("{result} is no struct") };
    let fitted = columns.iter().zip(fields).map(|(column, field)| cast(column, field.data_type()));
    Ok(Arc::new(StructArray::try_new(fields.clone(), fitted.collect::<Result<Vec<_>, _>>()?, nulls)?))
}

/// Where the first field is that equals the second argument, counted from 1.
fn positions(columns: &[ArrayRef]) -> Result<Vec<Option<i32>>> {
    let [fields, value] = columns else {
        return Err(refused("a struct and a value are looked for", "Write struct_position(s, value)"));
    };
    let mut found = vec![None; value.len()];
    for (place, field) in parts(fields)?.iter().enumerate() {
        let Ok(value) = cast(value, field.data_type()) else { continue };
        let (own, wanted) = (keys(field, SortOptions::default())?, keys(&value, SortOptions::default())?);
        for (row, found) in found.iter_mut().enumerate() {
            if found.is_none() && field.is_valid(row) && own.row(row) == wanted.row(row) {
                *found = i32::try_from(place + 1).ok();
            }
        }
    }
    Ok(found)
}
