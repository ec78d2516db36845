//! `hash`: a number of 64 bits that follows from values alone, the same in all programs and on all machines.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use forebay_functions::function::{Call, Definition, Shape};

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["hash"], shape, compute: hashes }];

/// The start and the factor of FNV-1a (Fowler, Noll and Vo), 64 bits.
const START: u64 = 0xcbf2_9ce4_8422_2325;
const FACTOR: u64 = 0x0000_0100_0000_01b3;

fn shape(types: &[DataType]) -> Option<Shape> {
    // The same number has the same hash in all types of whole numbers.
    let argument = |data_type: &DataType| match data_type {
        DataType::Null => DataType::Int64,
        whole if whole.is_integer() && *whole != DataType::UInt64 => DataType::Int64,
        text if text.is_string() => DataType::Utf8View,
        other => other.clone(),
    };
    (!types.is_empty()).then(|| Shape { arguments: types.iter().map(argument).collect(), result: DataType::UInt64 })
}

fn hashes(call: &Call<'_>) -> Result<ArrayRef> {
    let arguments: Vec<ArrayRef> = call
        .arguments
        .iter()
        .map(|array| match array.data_type() {
            // Maps as the lists of their entries.
            DataType::Map(entries, _) => {
                let map = array.as_map();
                let (values, nulls) = (Arc::new(map.entries().clone()), map.nulls().cloned());
                ListArray::try_new(Arc::clone(entries), map.offsets().clone(), values, nulls)
                    .map(|list| Arc::new(list) as _)
            }
            _ => Ok(Arc::clone(array)),
        })
        .collect::<std::result::Result<_, _>>()?;
    let fields = arguments.iter().map(|array| SortField::new(array.data_type().clone())).collect();
    let rows = RowConverter::new(fields)?.convert_columns(&arguments)?;
    Ok(Arc::new(rows.iter().map(|row| Some(mixed(row.as_ref()))).collect::<UInt64Array>()))
}

/// FNV-1a of bytes, with its bits spread.
fn mixed(bytes: &[u8]) -> u64 {
    let hash = bytes.iter().fold(START, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(FACTOR));
    let hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_stay_what_they_are() {
        assert_ne!(mixed(b"a"), mixed(b"b"));
        assert_eq!(mixed(b""), {
            let hash = (START ^ (START >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
            hash ^ (hash >> 32)
        });
    }
}
