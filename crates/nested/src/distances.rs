//! Distances and angles of vectors, which are lists of floats: in single precision where both are.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use forebay_functions::casts::cast;
use forebay_functions::function::{Call, Definition, Shape, refused};

use crate::lists::{Lists, element_of, list_of, lists_of};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["list_distance", "array_distance"],
        shape,
        compute: |call| {
            computed(call, |pairs, round| Some(round(sum(pairs, round, |a, b| round(a - b).powi(2)).sqrt())))
        },
    },
    Definition {
        names: &["list_inner_product", "list_dot_product", "array_inner_product", "array_dot_product"],
        shape,
        compute: |call| computed(call, |pairs, round| Some(sum(pairs, round, |a, b| a * b))),
    },
    Definition {
        names: &[
            "list_negative_inner_product",
            "list_negative_dot_product",
            "array_negative_inner_product",
            "array_negative_dot_product",
        ],
        shape,
        compute: |call| computed(call, |pairs, round| Some(-sum(pairs, round, |a, b| a * b))),
    },
    Definition {
        names: &["list_cosine_similarity", "array_cosine_similarity"],
        shape,
        compute: |call| computed(call, similarity),
    },
    Definition {
        names: &["list_cosine_distance", "array_cosine_distance"],
        shape,
        compute: |call| computed(call, |pairs, round| similarity(pairs, round).map(|one| round(1.0 - one))),
    },
    Definition { names: &["array_cross_product"], shape: vectors_shape, compute: cross_product },
];

/// What the result of an operation becomes in the precision of the vectors.
type Round = fn(f64) -> f64;

/// A value of pairs of elements.
type Value = fn(&[(f64, f64)], Round) -> Option<f64>;

fn shape(types: &[DataType]) -> Option<Shape> {
    let [left, right] = types else { return None };
    let elements = [element_of(left)?, element_of(right)?];
    if !elements.iter().all(|element| element.is_numeric() || element.is_null()) {
        return None;
    }
    let is_single = elements.iter().all(|element| **element == DataType::Float32);
    let result = if is_single { DataType::Float32 } else { DataType::Float64 };
    Some(Shape { arguments: vec![list_of(&result); 2], result })
}

fn computed(call: &Call<'_>, value: Value) -> Result<ArrayRef> {
    let round: Round = if *call.result == DataType::Float32 { |value| f64::from(value as f32) } else { |value| value };
    let (left, right) = (Lists::of(&call.arguments[0])?, Lists::of(&call.arguments[1])?);
    let (lefts, rights) =
        (cast(&left.values, &DataType::Float64, false)?, cast(&right.values, &DataType::Float64, false)?);
    let (lefts, rights) = (lefts.as_primitive::<Float64Type>(), rights.as_primitive::<Float64Type>());
    let mut values = Vec::with_capacity(call.rows);
    for ranges in left.ranges.iter().zip(&right.ranges) {
        let (Some((begin, end)), Some((first, last))) = ranges else {
            values.push(None);
            continue;
        };
        if end - begin != last - first {
            let lengths = format!("one list has {} elements, the other {}", end - begin, last - first);
            return Err(refused(lengths, "Take lists of one length"));
        }
        if (*begin..*end).any(|at| lefts.is_null(at)) || (*first..*last).any(|at| rights.is_null(at)) {
            return Err(refused("a list has a NULL", "Vectors have no NULL"));
        }
        let pairs = lefts.values()[*begin..*end].iter().copied().zip(rights.values()[*first..*last].iter().copied());
        values.push(value(&pairs.collect::<Vec<_>>(), round));
    }
    Ok(cast(&(Arc::new(Float64Array::from(values)) as ArrayRef), call.result, false)?)
}

/// Two vectors, and one as the result.
fn vectors_shape(types: &[DataType]) -> Option<Shape> {
    let Shape { arguments, result } = shape(types)?;
    Some(Shape { arguments, result: list_of(&result) })
}

/// The vector of three elements that is orthogonal to two others.
fn cross_product(call: &Call<'_>) -> Result<ArrayRef> {
    let (left, right) = (Lists::of(&call.arguments[0])?, Lists::of(&call.arguments[1])?);
    let is_single = element_of(call.result) == Some(&DataType::Float32);
    let round = |value: f64| if is_single { f64::from(value as f32) } else { value };
    let floats = |values: &ArrayRef| cast(values, &DataType::Float64, false);
    let (lefts, rights) = (floats(&left.values)?, floats(&right.values)?);
    let vector = |values: &ArrayRef, (begin, end): (usize, usize)| -> Result<[f64; 3]> {
        let values = values.slice(begin, end - begin);
        if values.null_count() > 0 {
            return Err(refused("a list has a NULL", "Vectors have no NULL"));
        }
        let numbers = values.as_primitive::<Float64Type>().values();
        let wrong =
            || refused(format!("a vector has {} elements", end - begin), "A cross product is of vectors of 3 elements");
        <[f64; 3]>::try_from(numbers.as_ref()).map_err(|_| wrong())
    };
    let (mut values, mut ends, mut valid) = (Vec::new(), Vec::with_capacity(call.rows), Vec::with_capacity(call.rows));
    for ranges in left.ranges.iter().zip(&right.ranges) {
        if let (Some(one), Some(other)) = ranges {
            let (a, b) = (vector(&lefts, *one)?, vector(&rights, *other)?);
            let of = |x: usize, y: usize| round(round(a[x] * b[y]) - round(a[y] * b[x]));
            values.extend([of(1, 2), of(2, 0), of(0, 1)]);
        }
        valid.push(matches!(ranges, (Some(_), Some(_))));
        ends.push(values.len());
    }
    let element = if is_single { DataType::Float32 } else { DataType::Float64 };
    let values = cast(&(Arc::new(Float64Array::from(values)) as ArrayRef), &element, false)?;
    lists_of(values, &ends, valid, call.result)
}

fn sum(pairs: &[(f64, f64)], round: Round, term: impl Fn(f64, f64) -> f64) -> f64 {
    pairs.iter().fold(0.0, |sum, (a, b)| round(sum + round(term(*a, *b))))
}

fn similarity(pairs: &[(f64, f64)], round: Round) -> Option<f64> {
    let product = sum(pairs, round, |a, b| a * b);
    let norms = round(sum(pairs, round, |a, _| a * a) * sum(pairs, round, |_, b| b * b));
    let share = round(product / round(norms.sqrt()));
    // Of vectors without a direction it is not a number.
    Some(share.clamp(-1.0, 1.0))
}
