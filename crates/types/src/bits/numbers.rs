//! Numbers, truth values and bytes as bits.

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, StringViewArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use datafusion::common::{Result, internal_err};
use forebay_base::Error;
use forebay_context::error::into_datafusion;

use super::digits;

/// Whether values of a type become bits, and bits such values.
pub fn has_bits(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Float32
                | DataType::Float64
                | DataType::Decimal128(38, 0)
                | DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
        )
}

/// The bits of values of such a type.
pub fn bits_of(array: &ArrayRef) -> Result<StringViewArray> {
    fn each<T: ArrowPrimitiveType>(array: &ArrayRef, bytes: impl Fn(T::Native) -> Vec<u8>) -> StringViewArray {
        let values = array.as_primitive::<T>();
        values.iter().map(|value| value.map(|value| digits::of_bytes(&bytes(value)))).collect()
    }
    use DataType as T;
    Ok(match array.data_type() {
        T::Boolean => {
            array.as_boolean().iter().map(|value| value.map(|value| digits::of_bytes(&[value.into()]))).collect()
        }
        T::Int8 => each::<Int8Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Int16 => each::<Int16Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Int32 => each::<Int32Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Int64 => each::<Int64Type>(array, |value| value.to_be_bytes().to_vec()),
        T::UInt8 => each::<UInt8Type>(array, |value| value.to_be_bytes().to_vec()),
        T::UInt16 => each::<UInt16Type>(array, |value| value.to_be_bytes().to_vec()),
        T::UInt32 => each::<UInt32Type>(array, |value| value.to_be_bytes().to_vec()),
        T::UInt64 => each::<UInt64Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Decimal128(..) => each::<Decimal128Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Float32 => each::<Float32Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Float64 => each::<Float64Type>(array, |value| value.to_be_bytes().to_vec()),
        T::Binary | T::LargeBinary | T::BinaryView => {
            let blobs = cast(array, &T::BinaryView)?;
            let bits = |bytes: Option<&[u8]>| match bytes {
                Some([]) => Err(into_datafusion(Error::input("an empty BLOB has no bits"))),
                bytes => Ok(bytes.map(digits::of_bytes)),
            };
            blobs.as_binary_view().iter().map(bits).collect::<Result<_>>()?
        }
        other => return internal_err!("{other} has no bits"),
    })
}
