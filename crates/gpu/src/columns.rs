//! Columns that kernels write, as the host reads them back.

use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{Typed, ValueType};

/// Bytes that a value takes in its column.
pub fn value_bytes(value: ValueType) -> u64 {
    match value {
        ValueType::Bool => 1,
        ValueType::I128 => 16,
        ValueType::I64 | ValueType::F64 | ValueType::Bytes => 8,
    }
}

/// One value of a column; `nulls` has a byte for each row, and is not looked at where the column has no NULLs.
pub fn value_at(values: &[u8], nulls: &[u8], row: usize, typed: Typed) -> Scalar {
    if typed.nullable && nulls[row] != 0 {
        return Scalar::Null;
    }
    let width = value_bytes(typed.value) as usize;
    let mut bits = [0u8; 16];
    bits[..width].copy_from_slice(&values[row * width..][..width]);
    let number = i128::from_le_bytes(bits);
    match typed.value {
        ValueType::Bool => Scalar::Bool(number != 0),
        ValueType::I128 => Scalar::I128(number),
        ValueType::F64 => Scalar::F64(f64::from_bits(number as u64)),
        ValueType::I64 | ValueType::Bytes => Scalar::I64(number as i64),
    }
}
