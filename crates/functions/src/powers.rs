//! Powers, which are floats; one of zero to a negative number is infinite.

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::Result;
use forebay_base::canonical_f64;

use crate::function::{Call, Definition, Shape};

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["power", "pow"], shape, compute: powers }];

fn shape(types: &[DataType]) -> Option<Shape> {
    let is_number = |data_type: &DataType| data_type.is_numeric() || data_type.is_null() || data_type.is_string();
    let fits = types.len() == 2 && types.iter().all(is_number);
    fits.then(|| Shape { arguments: vec![DataType::Float64; 2], result: DataType::Float64 })
}

fn powers(call: &Call<'_>) -> Result<ArrayRef> {
    let (bases, exponents) = (call.floats(0), call.floats(1));
    call.values_of::<Float64Type>(|row| {
        let both = bases.is_valid(row) && exponents.is_valid(row);
        Ok(both.then(|| canonical_f64(bases.value(row).powf(exponents.value(row)))))
    })
}
