//! Arrays of the wide table's columns, as their definitions say.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int16Array, Int32Array, Int64Array,
    RecordBatch, StringBuilder, TimestampMicrosecondArray,
};
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;

use super::columns::{COLUMNS, Column, Entity, Kind, Shape};
use super::{View, rank, text};
use crate::random::{RowRandom, scaled};

/// Added to a column's place for whether it is NULL, and for what it draws besides.
const NULL_PLACE: u64 = 2_000;
const SECOND_PLACE: u64 = 3_000;

const SECONDS_OF_DAY: i64 = 86_400;

/// Digits behind the point of all decimals.
const DECIMAL_SCALE: i8 = 2;

/// Digits of all decimals.
const DECIMAL_PRECISION: u8 = 12;

/// The rows of these views.
pub(super) fn rows(schema: &SchemaRef, views: &[View]) -> Result<RecordBatch, ArrowError> {
    let arrays = COLUMNS.iter().enumerate().map(|(place, column)| array(column, place as u64, views));
    RecordBatch::try_new(Arc::clone(schema), arrays.collect::<Result<_, _>>()?)
}

/// The random numbers that a column is made of.
fn source(column: &Column, view: &View) -> RowRandom {
    match column.of {
        Entity::Own => view.own,
        Entity::User => view.user,
        Entity::Page => view.page,
        Entity::Referer => view.referer,
    }
}

fn array(column: &Column, place: u64, views: &[View]) -> Result<ArrayRef, ArrowError> {
    let is_null = |view: &View| column.nulls > 0 && scaled(view.own.at(place + NULL_PLACE), 1_000) < column.nulls;
    let numbers = views.iter().map(|view| (!is_null(view)).then(|| number(column, place, view)));
    Ok(match column.kind {
        Kind::Text => {
            let mut builder = StringBuilder::new();
            let mut value = String::new();
            for view in views {
                if is_null(view) {
                    builder.append_null();
                    continue;
                }
                value.clear();
                write_text(column, place, view, &mut value);
                builder.append_value(&value);
            }
            Arc::new(builder.finish())
        }
        Kind::Bool => Arc::new(numbers.map(|n| n.map(|n| n != 0)).collect::<BooleanArray>()),
        Kind::Small => Arc::new(numbers.map(|n| n.map(|n| n as i16)).collect::<Int16Array>()),
        Kind::Int => Arc::new(numbers.map(|n| n.map(|n| n as i32)).collect::<Int32Array>()),
        Kind::Big => Arc::new(numbers.collect::<Int64Array>()),
        Kind::Date => Arc::new(numbers.map(|n| n.map(|n| (n / SECONDS_OF_DAY) as i32)).collect::<Date32Array>()),
        Kind::Time => Arc::new(numbers.map(|n| n.map(|n| n * 1_000_000)).collect::<TimestampMicrosecondArray>()),
        Kind::Float => Arc::new(numbers.map(|n| n.map(|n| n as f64 / 64.0)).collect::<Float64Array>()),
        Kind::Decimal => {
            let values = numbers.map(|n| n.map(i128::from)).collect::<Decimal128Array>();
            Arc::new(values.with_precision_and_scale(DECIMAL_PRECISION, DECIMAL_SCALE)?)
        }
    })
}

/// A value of a column that is no text.
fn number(column: &Column, place: u64, view: &View) -> i64 {
    let random = source(column, view);
    let drawn = random.at(place);
    match column.shape {
        Shape::Constant(value) => value,
        Shape::Hash => (drawn >> 1) as i64,
        Shape::Between(low, high) => low + scaled(drawn, (high - low + 1) as u64) as i64,
        Shape::Skewed(levels) => rank(drawn, 0..levels) as i64 - 1,
        Shape::Rare(per_mille, levels) => match scaled(drawn, 1_000) < per_mille {
            true => rank(random.at(place + SECOND_PLACE), 0..levels) as i64,
            false => 0,
        },
        Shape::OneOf(values) => values[scaled(drawn, values.len() as u64) as usize],
        Shape::Second(before) => view.second - rank(drawn, 0..before) as i64 + 1,
        Shape::Words(_) | Shape::RareWords(..) | Shape::Url | Shape::Title | Shape::Phrase(_) | Shape::Agent => 0,
        Shape::Letters(..) => 0,
    }
}

fn write_text(column: &Column, place: u64, view: &View, out: &mut String) {
    let random = source(column, view);
    let drawn = random.at(place);
    let chosen = |words: &[&'static str], number| words[scaled(number, words.len() as u64) as usize];
    match column.shape {
        Shape::Words(words) => out.push_str(chosen(words, drawn)),
        Shape::RareWords(per_mille, words) if scaled(drawn, 1_000) < per_mille => {
            // The first words are the most frequent.
            let at = (rank(random.at(place + SECOND_PLACE), 0..words.len().ilog2() + 1) - 1) as usize;
            out.push_str(words[at % words.len()]);
        }
        Shape::Letters(per_mille, length) if scaled(drawn, 1_000) < per_mille => {
            text::letters(random.at(place + SECOND_PLACE), length, out);
        }
        Shape::Url => text::url(&random, out),
        Shape::Title => text::title(&random, out),
        Shape::Phrase(per_mille) if scaled(drawn, 1_000) < per_mille => {
            text::phrase(view.own.at(place + SECOND_PLACE), out);
        }
        Shape::Agent => text::agent(&random, out),
        _ => {}
    }
}
