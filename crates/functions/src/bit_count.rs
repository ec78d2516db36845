//! How many bits of an integer are set; those of a negative number in two's complement.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Decimal128Type, Int8Type, Int64Type, UInt64Type};
use datafusion::common::{Result, internal_err};

use crate::function::{Call, Definition, Shape, is_integer, is_text};

pub(crate) const DEFINITIONS: &[Definition] = &[Definition { names: &["bit_count"], shape, compute: bit_counts }];

fn shape(types: &[DataType]) -> Option<Shape> {
    let [only] = types else { return None };
    // A BIT is a text here; the rule of its type puts its own function in.
    let result = if is_text(only) { DataType::Int64 } else { DataType::Int8 };
    let argument = if only.is_null() { DataType::Int64 } else { only.clone() };
    (is_integer(only) || is_text(only)).then_some(Shape { arguments: vec![argument], result })
}

fn bit_counts(call: &Call<'_>) -> Result<ArrayRef> {
    let values = &call.arguments[0];
    if is_text(values.data_type()) {
        return internal_err!("bits are counted by a function of their own");
    }
    // All bits of a HUGEINT are one more than a TINYINT counts up to.
    let count = |bits: u32| bits as i8;
    if let Some(huge) = values.as_primitive_opt::<Decimal128Type>() {
        return call.values_of::<Int8Type>(|row| Ok(huge.is_valid(row).then(|| count(huge.value(row).count_ones()))));
    }
    if values.data_type().is_unsigned_integer() {
        let wide = cast(values, &DataType::UInt64)?;
        let wide = wide.as_primitive::<UInt64Type>();
        return call.values_of::<Int8Type>(|row| Ok(wide.is_valid(row).then(|| count(wide.value(row).count_ones()))));
    }
    // The sign fills the bits that the type does not have.
    let spare = 64 - 8 * values.data_type().primitive_width().unwrap_or(8) as u32;
    let wide = cast(values, &DataType::Int64)?;
    let wide = wide.as_primitive::<Int64Type>();
    call.values_of::<Int8Type>(|row| {
        let bits = |value: i64| value.count_ones() - if value < 0 { spare } else { 0 };
        Ok(wide.is_valid(row).then(|| count(bits(wide.value(row)))))
    })
}
