//! Lengths of texts and lists, and places in texts: BIGINT, where DataFusion has other types.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Int64Array};
use datafusion::arrow::compute::{cast, kernels::length::length};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::Result;

use crate::function::{Call, Definition, Shape, TEXT, is_integer, is_text, refused};

pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        names: &["length", "char_length", "character_length"],
        shape: |types| of_text(types).or_else(|| of_list(types)),
        compute: lengths,
    },
    Definition { names: &["array_length"], shape: of_list, compute: lengths },
    Definition { names: &["strlen", "octet_length"], shape: of_bytes, compute: |call| bytes(call, 1) },
    Definition { names: &["bit_length"], shape: of_text, compute: |call| bytes(call, 8) },
    Definition { names: &["strpos", "instr", "position"], shape: of_texts, compute: places },
];

fn of_text(types: &[DataType]) -> Option<Shape> {
    matches!(types, [text] if is_text(text)).then(|| Shape { arguments: vec![TEXT], result: DataType::Int64 })
}

fn of_bytes(types: &[DataType]) -> Option<Shape> {
    let is_blob = |own: &DataType| matches!(own, DataType::Binary | DataType::LargeBinary | DataType::BinaryView);
    match types {
        [blob] if is_blob(blob) => Some(Shape { arguments: vec![DataType::Binary], result: DataType::Int64 }),
        _ => of_text(types),
    }
}

/// A list, and a dimension that is the first one.
fn of_list(types: &[DataType]) -> Option<Shape> {
    let (list, dimension) = match types {
        [list] => (list, false),
        [list, dimension] if is_integer(dimension) => (list, true),
        _ => return None,
    };
    let element = match list {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => field.data_type(),
        _ => return None,
    };
    let mut arguments = vec![DataType::new_list(element.clone(), true)];
    arguments.extend(dimension.then_some(DataType::Int64));
    Some(Shape { arguments, result: DataType::Int64 })
}

fn of_texts(types: &[DataType]) -> Option<Shape> {
    let fits = types.len() == 2 && types.iter().all(is_text);
    fits.then(|| Shape { arguments: vec![TEXT; 2], result: DataType::Int64 })
}

fn lengths(call: &Call<'_>) -> Result<ArrayRef> {
    if let Some(dimensions) = call.arguments.get(1)
        && dimensions.as_primitive::<Int64Type>().iter().flatten().any(|dimension| dimension != 1)
    {
        return Err(refused("lists have one dimension", "Ask for the length of an element: array_length(l[1])"));
    }
    if call.arguments[0].data_type() != &TEXT {
        return Ok(cast(&length(&call.arguments[0])?, &DataType::Int64)?);
    }
    let texts = call.texts(0);
    let count = |text: &str| if text.is_ascii() { text.len() } else { text.chars().count() };
    let counts: Int64Array = texts.iter().map(|text| text.map(|text| count(text) as i64)).collect();
    Ok(Arc::new(counts))
}

fn bytes(call: &Call<'_>, times: i64) -> Result<ArrayRef> {
    let counts: Int64Array = match call.arguments[0].data_type() {
        DataType::Binary => {
            let blobs = call.arguments[0].as_binary::<i32>();
            blobs.iter().map(|blob| blob.map(|blob| blob.len() as i64)).collect()
        }
        _ => call.texts(0).iter().map(|text| text.map(|text| text.len() as i64 * times)).collect(),
    };
    Ok(Arc::new(counts))
}

/// Where a text begins in another, counted in characters from 1; 0 where it is not.
fn places(call: &Call<'_>) -> Result<ArrayRef> {
    let (texts, parts) = (call.texts(0), call.texts(1));
    let place = |text: &str, part: &str| match text.find(part) {
        None => 0,
        Some(byte) if text.is_ascii() => byte as i64 + 1,
        Some(byte) => text[..byte].chars().count() as i64 + 1,
    };
    let both = texts.iter().zip(parts.iter());
    let found: Int64Array = both.map(|(text, part)| text.zip(part).map(|(text, part)| place(text, part))).collect();
    Ok(Arc::new(found))
}
