//! Keys that order lists and structs as texts are ordered: element for element, NULL behind all else, a list behind those that
//! it goes on from. Intervals inside are as long as they are.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;

use crate::interval_lengths::lengths;

/// The keys of lists or structs, NULL where they are. Those of two arrays of one type may be compared.
pub fn order_keys(values: &ArrayRef) -> Result<ArrayRef> {
    let options = SortOptions { descending: false, nulls_first: false };
    let ordered = lengths(values)?;
    let converter = RowConverter::new(vec![SortField::new_with_options(ordered.data_type().clone(), options)])?;
    let rows = converter.convert_columns(&[ordered])?;
    // Bytes as characters of their number keep their order; windows take texts for keys, but no bytes.
    let text = |bytes: &[u8]| bytes.iter().copied().map(char::from).collect::<String>();
    let keys = rows.iter().enumerate().map(|(place, row)| values.is_valid(place).then(|| text(row.data())));
    Ok(Arc::new(keys.collect::<StringArray>()))
}
