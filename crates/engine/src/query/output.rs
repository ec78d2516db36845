//! The query's result: vectors as Arrow arrays of the types that the query asks for.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, BooleanArray, Decimal128Array, Decimal256Array, Int64Array,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewBuilder,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use forebay_base::{Error, PhysicalType, Result};
use forebay_cpu::dictionary::{Dictionary, Strings};
use forebay_cpu::vector::Vector;

use super::Query;

/// One batch of the result. `vectors` are the collected columns, in order.
pub(super) fn batch(
    query: &Query,
    vectors: &[Vector],
    rows: usize,
    dictionaries: &[Arc<Dictionary>],
) -> Result<RecordBatch> {
    let mut arrays = Vec::with_capacity(vectors.len());
    for (index, (vector, field)) in vectors.iter().zip(query.schema.fields()).enumerate() {
        let strings = query.dictionaries[index].map(|id| dictionaries[id.0 as usize].snapshot());
        arrays.push(array(vector, field.data_type(), strings.as_deref())?);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    RecordBatch::try_new_with_options(Arc::clone(&query.schema), arrays, &options)
        .map_err(|error| Error::internal(format!("a query made an invalid batch: {error}")))
}

/// A vector as an array of `data_type`; ids become the strings that they stand for.
fn array(vector: &Vector, data_type: &DataType, strings: Option<&Strings>) -> Result<ArrayRef> {
    let rows = vector.rows();
    if let Some(strings) = strings {
        return bytes(vector, data_type, |row| {
            let id = integer(vector, row).unwrap_or_default() as u32;
            strings.get(id)
        });
    }
    Ok(match data_type {
        DataType::Boolean => {
            let bits = BooleanBuffer::collect_bool(rows, |row| vector.values::<u8>()[row] != 0);
            Arc::new(BooleanArray::new(bits, nulls(vector)))
        }
        DataType::Utf8View | DataType::BinaryView => return bytes(vector, data_type, |row| vector.bytes(row)),
        DataType::Float64 => {
            let values = vector.values::<f64>().to_vec();
            Arc::new(PrimitiveArray::<Float64Type>::new(ScalarBuffer::from(values), nulls(vector)))
        }
        DataType::Float32 => {
            let values: Vec<f32> = vector.values::<f64>().iter().map(|value| *value as f32).collect();
            Arc::new(PrimitiveArray::<Float32Type>::new(ScalarBuffer::from(values), nulls(vector)))
        }
        DataType::Int8 => integers::<Int8Type>(vector)?,
        DataType::Int16 => integers::<Int16Type>(vector)?,
        DataType::Int32 => integers::<Int32Type>(vector)?,
        DataType::Int64 => integers::<Int64Type>(vector)?,
        DataType::UInt8 => integers::<UInt8Type>(vector)?,
        DataType::UInt16 => integers::<UInt16Type>(vector)?,
        DataType::UInt32 => integers::<UInt32Type>(vector)?,
        DataType::UInt64 => integers::<UInt64Type>(vector)?,
        DataType::Date32 => integers::<Date32Type>(vector)?,
        DataType::Time64(_) => integers::<Time64MicrosecondType>(vector)?,
        DataType::Timestamp(..) => {
            let ticks: Int64Array = primitive::<Int64Type>(vector)?;
            arrow::compute::cast(&ticks, data_type).map_err(|error| Error::internal(error.to_string()))?
        }
        DataType::Decimal128(precision, scale) => {
            let values: Vec<i128> = (0..rows).map(|row| integer(vector, row).unwrap_or_default()).collect();
            let array = Decimal128Array::new(ScalarBuffer::from(values), nulls(vector));
            let typed = array.with_precision_and_scale(*precision, *scale);
            Arc::new(typed.map_err(|error| Error::internal(error.to_string()))?)
        }
        DataType::Decimal256(precision, scale) => {
            let wide = |row| i256::from_i128(integer(vector, row).unwrap_or_default());
            let values: Vec<i256> = (0..rows).map(wide).collect();
            let array = Decimal256Array::new(ScalarBuffer::from(values), nulls(vector));
            let typed = array.with_precision_and_scale(*precision, *scale);
            Arc::new(typed.map_err(|error| Error::internal(error.to_string()))?)
        }
        other => return Err(Error::internal(format!("a pipeline cannot give values of type {other}"))),
    })
}

fn nulls(vector: &Vector) -> Option<NullBuffer> {
    let validity = vector.validity()?;
    Some(NullBuffer::new(BooleanBuffer::collect_bool(validity.len(), |row| validity[row] != 0)))
}

/// The integer of a row; `None` where the vector holds none.
pub(super) fn integer(vector: &Vector, row: usize) -> Option<i128> {
    Some(match vector.physical() {
        PhysicalType::I64 => vector.values::<i64>()[row].into(),
        PhysicalType::I128 => vector.values::<i128>()[row],
        PhysicalType::U8 => vector.values::<u8>()[row].into(),
        PhysicalType::U32 => vector.values::<u32>()[row].into(),
        _ => return None,
    })
}

fn integers<T: ArrowPrimitiveType>(vector: &Vector) -> Result<ArrayRef>
where
    T::Native: TryFrom<i128> + Default,
{
    Ok(Arc::new(primitive::<T>(vector)?))
}

fn primitive<T: ArrowPrimitiveType>(vector: &Vector) -> Result<PrimitiveArray<T>>
where
    T::Native: TryFrom<i128> + Default,
{
    let value = |row: usize| -> Result<T::Native> {
        if !vector.is_valid(row) {
            return Ok(T::Native::default());
        }
        let wide = integer(vector, row).ok_or_else(|| Error::internal("an integer column holds something else"))?;
        wide.try_into()
            .map_err(|_| Error::new(forebay_base::ErrorKind::Overflow, format!("{wide} does not fit {}", T::DATA_TYPE)))
    };
    let values = (0..vector.rows()).map(value).collect::<Result<Vec<_>>>()?;
    Ok(PrimitiveArray::new(ScalarBuffer::from(values), nulls(vector)))
}

fn bytes<'a>(vector: &Vector, data_type: &DataType, value: impl Fn(usize) -> &'a [u8]) -> Result<ArrayRef> {
    let rows = vector.rows();
    if *data_type == DataType::BinaryView {
        let mut builder = BinaryViewBuilder::with_capacity(rows);
        for row in 0..rows {
            builder.append_option(vector.is_valid(row).then(|| value(row)));
        }
        return Ok(Arc::new(builder.finish()));
    }
    let mut builder = StringViewBuilder::with_capacity(rows);
    for row in 0..rows {
        let text = match vector.is_valid(row) {
            true => Some(std::str::from_utf8(value(row)).map_err(|_| Error::corrupt("a text is not UTF-8"))?),
            false => None,
        };
        builder.append_option(text);
    }
    Ok(Arc::new(builder.finish()))
}
