//! Arrow arrays as the plain columns that encoders take.

use std::borrow::Cow;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{
    ArrowPrimitiveType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, ToByteSlice, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_base::{Error, LogicalType, PhysicalType, Result, TimeUnit, canonical_f32, canonical_f64};
use forebay_block::{ColumnStatistics, EncodeOptions, PlainColumn, PlainValues, Zone, encode_block};

/// Encodes `array`, which has the Arrow type of `logical`, as one block appended to `out`; adds its values to `statistics`.
pub fn encode_array(
    array: &ArrayRef,
    logical: &LogicalType,
    options: &EncodeOptions,
    out: &mut Vec<u8>,
    statistics: &mut ColumnStatistics,
) -> Result<Zone> {
    let validity = array.nulls().filter(|nulls| nulls.null_count() > 0).map(bitmap);
    let validity = validity.as_deref();
    let mut encode = |values: PlainValues<'_>, out: &mut Vec<u8>| {
        let column = PlainColumn { physical: logical.physical(), rows: array.len(), validity, values };
        statistics.add(&column);
        encode_block(&column, options, out)
    };
    match logical {
        LogicalType::Varchar => {
            let strings = array.as_string_view_opt().ok_or_else(|| mismatch(array, logical))?;
            let slices: Vec<&[u8]> = (0..strings.len()).map(|row| strings.value(row).as_bytes()).collect();
            encode(PlainValues::Bytes(&slices), out)
        }
        LogicalType::Blob => {
            let blobs = array.as_binary_view_opt().ok_or_else(|| mismatch(array, logical))?;
            let slices: Vec<&[u8]> = (0..blobs.len()).map(|row| blobs.value(row)).collect();
            encode(PlainValues::Bytes(&slices), out)
        }
        LogicalType::Bool => {
            let bools = array.as_boolean_opt().ok_or_else(|| mismatch(array, logical))?;
            let bytes: Vec<u8> = bools.values().iter().map(u8::from).collect();
            encode(PlainValues::Fixed(&bytes), out)
        }
        LogicalType::Float32 => {
            encode(PlainValues::Fixed(&canonical::<Float32Type>(array, logical, canonical_f32)?), out)
        }
        LogicalType::Float64 => {
            encode(PlainValues::Fixed(&canonical::<Float64Type>(array, logical, canonical_f64)?), out)
        }
        LogicalType::Decimal { .. } if logical.physical() == PhysicalType::I64 => {
            let wide = array.as_primitive_opt::<Decimal128Type>().ok_or_else(|| mismatch(array, logical))?;
            // NULL rows may hold anything, so the narrowing must not fail on them.
            let bytes: Vec<u8> = wide.values().iter().flat_map(|value| (*value as i64).to_le_bytes()).collect();
            encode(PlainValues::Fixed(&bytes), out)
        }
        LogicalType::Interval => {
            let intervals =
                array.as_primitive_opt::<IntervalMonthDayNanoType>().ok_or_else(|| mismatch(array, logical))?;
            let bytes: Vec<u8> =
                intervals.values().iter().flat_map(|value| interval_bits(*value).to_le_bytes()).collect();
            encode(PlainValues::Fixed(&bytes), out)
        }
        _ => encode(PlainValues::Fixed(native_bytes(array, logical)?), out),
    }
}

/// The bytes of floats, each in its canonical form; as they lie where they have it.
fn canonical<'a, T: ArrowPrimitiveType>(
    array: &'a ArrayRef,
    logical: &LogicalType,
    form: fn(T::Native) -> T::Native,
) -> Result<Cow<'a, [u8]>> {
    let floats = array.as_primitive_opt::<T>().ok_or_else(|| mismatch(array, logical))?;
    let is_canonical = |value: &T::Native| value.to_byte_slice() == form(*value).to_byte_slice();
    if floats.values().iter().all(is_canonical) {
        return Ok(Cow::Borrowed(floats.values().inner().as_slice()));
    }
    let forms: Vec<T::Native> = floats.values().iter().map(|value| form(*value)).collect();
    Ok(Cow::Owned(forms.to_byte_slice().to_vec()))
}

/// Months, days and nanoseconds in one stored integer, most significant first.
pub fn interval_bits(value: arrow::datatypes::IntervalMonthDayNano) -> i128 {
    (i128::from(value.months) << 96) | (i128::from(value.days as u32) << 64) | i128::from(value.nanoseconds as u64)
}

/// The inverse of [`interval_bits`].
pub fn interval_of_bits(bits: i128) -> arrow::datatypes::IntervalMonthDayNano {
    arrow::datatypes::IntervalMonthDayNano::new((bits >> 96) as i32, (bits >> 64) as i32, bits as i64)
}

fn native_bytes<'a>(array: &'a ArrayRef, logical: &LogicalType) -> Result<&'a [u8]> {
    use arrow::datatypes::{
        Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType,
    };
    fn bytes<T: ArrowPrimitiveType>(array: &ArrayRef) -> Option<&[u8]> {
        array.as_primitive_opt::<T>().map(|array| array.values().inner().as_slice())
    }
    let bytes = match logical {
        LogicalType::Int8 => bytes::<Int8Type>(array),
        LogicalType::Int16 => bytes::<Int16Type>(array),
        LogicalType::Int32 => bytes::<Int32Type>(array),
        LogicalType::Int64 => bytes::<Int64Type>(array),
        LogicalType::UInt8 => bytes::<UInt8Type>(array),
        LogicalType::UInt16 => bytes::<UInt16Type>(array),
        LogicalType::UInt32 => bytes::<UInt32Type>(array),
        LogicalType::UInt64 => bytes::<UInt64Type>(array),
        LogicalType::Decimal { .. } => bytes::<Decimal128Type>(array),
        LogicalType::Date => bytes::<Date32Type>(array),
        LogicalType::Time => bytes::<Time64MicrosecondType>(array),
        LogicalType::Timestamp { unit: TimeUnit::Second, .. } => bytes::<TimestampSecondType>(array),
        LogicalType::Timestamp { unit: TimeUnit::Milli, .. } => bytes::<TimestampMillisecondType>(array),
        LogicalType::Timestamp { unit: TimeUnit::Micro, .. } => bytes::<TimestampMicrosecondType>(array),
        LogicalType::Timestamp { unit: TimeUnit::Nano, .. } => bytes::<TimestampNanosecondType>(array),
        LogicalType::Float32 | LogicalType::Float64 => None,
        LogicalType::Bool | LogicalType::Interval | LogicalType::Varchar | LogicalType::Blob => None,
    };
    bytes.ok_or_else(|| mismatch(array, logical))
}

fn mismatch(array: &ArrayRef, logical: &LogicalType) -> Error {
    Error::internal(format!("a {} array cannot be loaded into a {logical} column", array.data_type()))
}

/// The bitmap of valid rows from bit 0 on, whatever bit the array's own starts at.
fn bitmap(nulls: &NullBuffer) -> Vec<u8> {
    nulls.inner().sliced().as_slice().to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::Float64Array;
    use arrow::datatypes::IntervalMonthDayNano;
    use std::sync::Arc;

    #[test]
    fn floats_are_stored_in_their_canonical_form() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![-0.0, -f64::NAN, 1.5]));
        let bytes = canonical::<Float64Type>(&array, &LogicalType::Float64, canonical_f64).expect("floats");
        let expect: Vec<u8> = [0.0, f64::NAN, 1.5].into_iter().flat_map(f64::to_le_bytes).collect();
        assert_eq!(bytes.as_ref(), expect);
    }

    #[test]
    fn intervals_survive_as_integers() {
        for (months, days, nanoseconds) in [(0, 0, 0), (-1, -1, -1), (i32::MIN, i32::MAX, i64::MIN), (14, -3, i64::MAX)]
        {
            let interval = IntervalMonthDayNano::new(months, days, nanoseconds);
            assert_eq!(interval_of_bits(interval_bits(interval)), interval);
        }
    }
}
