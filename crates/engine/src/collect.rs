//! The collecting sink: selected rows of a block as Arrow arrays.
//!
//! Strings are never copied, but for those of constant blocks: arrays share the buffer of their inflated chunk.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, PrimitiveArray, StringViewArray, UInt32Array, make_view, new_null_array,
};
use arrow::buffer::{BooleanBuffer, Buffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type,
    Int64Type, IntervalMonthDayNanoType, Time64MicrosecondType, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use forebay_base::{Error, LogicalType, PhysicalType, Result, TimeUnit, Value};
use forebay_block::{Access, EncodedBlock, InflatedChunk, Native, StringValues, ValueRef, Values};
use forebay_cpu::{Selection, unpack_codes, unpack_fixed, unpack_validity};

use crate::plain::interval_of_bits;
use crate::types::arrow_type;

/// One block of a column on its way to Arrow arrays, piece by piece.
#[derive(Debug)]
pub struct BlockValues<'a> {
    chunk: &'a Arc<InflatedChunk>,
    block: EncodedBlock<'a>,
    logical: &'a LogicalType,
    /// The strings of a dictionary, of runs or a constant, checked once for all pieces.
    entries: Option<ArrayRef>,
}

impl<'a> BlockValues<'a> {
    /// Block `index` of `chunk`, whose column has the type `logical`; about `rows` of its rows will be asked for.
    pub fn open(chunk: &'a Arc<InflatedChunk>, index: usize, logical: &'a LogicalType, rows: usize) -> Result<Self> {
        let mut values = Self { chunk, block: chunk.block(index), logical, entries: None };
        values.entries = match values.block.access() {
            Access::Constant(ValueRef::Bytes(bytes)) => {
                Some(collect_constant(Some(&Value::Bytes(bytes.to_vec())), logical, 1)?)
            }
            // A dictionary of more entries than rows is not worth an array.
            Access::Dictionary { values: Values::Strings(strings), .. }
            | Access::RunLength { values: Values::Strings(strings), .. }
                if strings.len() <= rows =>
            {
                Some(values.view_array(&strings, &mut (0..strings.len()), None)?)
            }
            Access::AllNull
            | Access::Constant(_)
            | Access::FrameOfReference { .. }
            | Access::Dictionary { .. }
            | Access::Plain(_)
            | Access::RunLength { .. } => None,
        };
        Ok(values)
    }

    /// The selected rows as an array of the column's Arrow type.
    pub fn collect(&self, selection: &Selection) -> Result<ArrayRef> {
        if let Access::AllNull = self.block.access() {
            return Ok(new_null_array(&arrow_type(self.logical), selection.len()));
        }
        match self.logical.physical() {
            PhysicalType::Bytes => self.strings(selection),
            _ => collect_fixed(&self.block, self.logical, selection),
        }
    }

    fn strings(&self, selection: &Selection) -> Result<ArrayRef> {
        let nulls = validity(&self.block, selection);
        let codes = || {
            let mut codes = Vec::with_capacity(selection.len());
            unpack_codes(&self.block, selection, &mut codes);
            codes
        };
        match (self.block.access(), &self.entries) {
            (Access::Dictionary { .. } | Access::RunLength { .. }, Some(entries)) => take(entries, codes(), nulls),
            (
                Access::Dictionary { values: Values::Strings(strings), .. }
                | Access::RunLength { values: Values::Strings(strings), .. },
                None,
            ) => self.view_array(&strings, &mut codes().into_iter().map(|code| code as usize), nulls),
            (Access::Constant(_), Some(entries)) => take(entries, vec![0; selection.len()], nulls),
            (Access::Plain(Values::Strings(strings)), _) => self.view_array(&strings, &mut selection.rows(), nulls),
            (Access::AllNull, _)
            | (Access::Constant(_), None)
            | (Access::FrameOfReference { .. }, _)
            | (Access::Dictionary { values: Values::Fixed(_), .. }, None)
            | (Access::Plain(Values::Fixed(_)), _)
            | (Access::RunLength { values: Values::Fixed(_), .. }, None) => {
                Err(Error::corrupt("a column of strings holds numbers"))
            }
        }
    }

    /// An array of views into the chunk's own bytes for these rows of `strings`.
    fn view_array(
        &self,
        strings: &StringValues<'_>,
        rows: &mut dyn Iterator<Item = usize>,
        nulls: Option<NullBuffer>,
    ) -> Result<ArrayRef> {
        let (bytes, offsets) = (strings.bytes(), strings.offsets());
        let start = bytes.as_ptr() as usize - self.chunk.as_bytes().as_ptr() as usize;
        let views: ScalarBuffer<u128> =
            rows.map(|row| make_view(strings.get(row), 0, offsets[row])).collect::<Vec<_>>().into();
        let owner = bytes::Bytes::from_owner(Owner(Arc::clone(self.chunk)));
        let buffers = vec![Buffer::from(owner.slice(start..start + bytes.len()))];
        Ok(match self.logical {
            LogicalType::Varchar => {
                Arc::new(StringViewArray::try_new(views, buffers, nulls).map_err(|_| invalid_text())?)
            }
            _ => Arc::new(BinaryViewArray::try_new(views, buffers, nulls).map_err(internal)?),
        })
    }
}

/// The chunk's buffer as the owner that Arrow keeps alive.
struct Owner(Arc<InflatedChunk>);

impl AsRef<[u8]> for Owner {
    fn as_ref(&self) -> &[u8] {
        self.0.as_bytes()
    }
}

fn take(entries: &ArrayRef, codes: Vec<u32>, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let codes = UInt32Array::new(ScalarBuffer::from(codes), nulls);
    arrow::compute::take(entries, &codes, None).map_err(internal)
}

fn invalid_text() -> Error {
    Error::corrupt("a text is not UTF-8")
}

fn internal(error: arrow::error::ArrowError) -> Error {
    Error::internal(error.to_string())
}

/// The places of the selected rows of a block, of whose first row the place is `first`.
pub(crate) fn collect_places(first: i64, selection: &Selection) -> ArrayRef {
    let places = selection.rows().map(|row| first + row as i64);
    Arc::new(PrimitiveArray::<Int64Type>::from_iter_values(places))
}

/// `rows` times the same value, for columns that a segment does not have.
pub fn collect_constant(value: Option<&Value>, logical: &LogicalType, rows: usize) -> Result<ArrayRef> {
    let data_type = arrow_type(logical);
    let Some(value) = value else { return Ok(new_null_array(&data_type, rows)) };
    let one: ArrayRef = match (value, logical) {
        (Value::Bytes(bytes), LogicalType::Varchar) => {
            let text = std::str::from_utf8(bytes).map_err(|_| invalid_text())?;
            Arc::new(StringViewArray::from_iter_values([text]))
        }
        (Value::Bytes(bytes), _) => Arc::new(BinaryViewArray::from_iter_values([bytes])),
        (Value::Float(value), LogicalType::Float32) => {
            Arc::new(PrimitiveArray::<Float32Type>::from_value(*value as f32, 1))
        }
        (Value::Float(value), _) => Arc::new(PrimitiveArray::<Float64Type>::from_value(*value, 1)),
        (Value::Int(value), LogicalType::Bool) => Arc::new(BooleanArray::from(vec![*value != 0])),
        (Value::Int(value), LogicalType::Interval) => {
            Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::from_value(interval_of_bits(*value), 1))
        }
        (Value::Int(value), _) => {
            let wide = PrimitiveArray::<Decimal128Type>::from_value(*value, 1);
            let wide = wide.with_precision_and_scale(38, 0).map_err(internal)?;
            integer_array(&wide, &data_type)?
        }
    };
    take(&one, vec![0; rows], None)
}

fn integer_array(wide: &PrimitiveArray<Decimal128Type>, data_type: &DataType) -> Result<ArrayRef> {
    let value = wide.value(0);
    Ok(match data_type {
        DataType::Decimal128(precision, scale) => Arc::new(
            PrimitiveArray::<Decimal128Type>::from_value(value, 1)
                .with_precision_and_scale(*precision, *scale)
                .map_err(internal)?,
        ),
        DataType::Date32 => Arc::new(PrimitiveArray::<Date32Type>::from_value(value as i32, 1)),
        DataType::Time64(_) => Arc::new(PrimitiveArray::<Time64MicrosecondType>::from_value(value as i64, 1)),
        DataType::Timestamp(..) => {
            let ticks = PrimitiveArray::<Int64Type>::from_value(value as i64, 1);
            arrow::compute::cast(&ticks, data_type).map_err(internal)?
        }
        _ => arrow::compute::cast(wide, data_type).map_err(internal)?,
    })
}

fn validity(block: &EncodedBlock<'_>, selection: &Selection) -> Option<NullBuffer> {
    let bitmap = unpack_validity(block, selection)?;
    Some(NullBuffer::new(BooleanBuffer::new(Buffer::from_vec(bitmap), 0, selection.len())))
}

fn collect_fixed(block: &EncodedBlock<'_>, logical: &LogicalType, selection: &Selection) -> Result<ArrayRef> {
    fn native<T>(block: &EncodedBlock<'_>, selection: &Selection) -> Vec<T>
    where
        T: Native,
    {
        let mut values = Vec::with_capacity(selection.len());
        unpack_fixed(block, selection, &mut values);
        values
    }
    fn array<T>(block: &EncodedBlock<'_>, selection: &Selection) -> PrimitiveArray<T>
    where
        T: ArrowPrimitiveType,
        T::Native: Native,
    {
        let values: Vec<T::Native> = native(block, selection);
        PrimitiveArray::new(ScalarBuffer::from(values), validity(block, selection))
    }
    fn timestamp<T>(block: &EncodedBlock<'_>, selection: &Selection, zone: Option<&str>) -> ArrayRef
    where
        T: arrow::datatypes::ArrowTimestampType,
    {
        Arc::new(array::<T>(block, selection).with_timezone_opt(zone))
    }
    Ok(match logical {
        LogicalType::Bool => {
            let bytes: Vec<u8> = native(block, selection);
            let bits = BooleanBuffer::collect_bool(bytes.len(), |row| bytes[row] != 0);
            Arc::new(BooleanArray::new(bits, validity(block, selection)))
        }
        LogicalType::Int8 => Arc::new(array::<Int8Type>(block, selection)),
        LogicalType::Int16 => Arc::new(array::<Int16Type>(block, selection)),
        LogicalType::Int32 => Arc::new(array::<Int32Type>(block, selection)),
        LogicalType::Int64 => Arc::new(array::<Int64Type>(block, selection)),
        LogicalType::UInt8 => Arc::new(array::<UInt8Type>(block, selection)),
        LogicalType::UInt16 => Arc::new(array::<UInt16Type>(block, selection)),
        LogicalType::UInt32 => Arc::new(array::<UInt32Type>(block, selection)),
        LogicalType::UInt64 => Arc::new(array::<UInt64Type>(block, selection)),
        LogicalType::Float32 => Arc::new(array::<Float32Type>(block, selection)),
        LogicalType::Float64 => Arc::new(array::<Float64Type>(block, selection)),
        LogicalType::Date => Arc::new(array::<Date32Type>(block, selection)),
        LogicalType::Time => Arc::new(array::<Time64MicrosecondType>(block, selection)),
        LogicalType::Timestamp { unit, zone } => {
            let zone = zone.as_deref();
            match unit {
                TimeUnit::Second => timestamp::<TimestampSecondType>(block, selection, zone),
                TimeUnit::Milli => timestamp::<TimestampMillisecondType>(block, selection, zone),
                TimeUnit::Micro => timestamp::<TimestampMicrosecondType>(block, selection, zone),
                TimeUnit::Nano => timestamp::<TimestampNanosecondType>(block, selection, zone),
            }
        }
        LogicalType::Decimal { precision, scale } => {
            let values: Vec<i128> = match logical.physical() {
                PhysicalType::I64 => native::<i64>(block, selection).into_iter().map(i128::from).collect(),
                _ => native(block, selection),
            };
            let array = PrimitiveArray::<Decimal128Type>::new(ScalarBuffer::from(values), validity(block, selection));
            let typed = array.with_precision_and_scale(*precision, *scale as i8);
            Arc::new(typed.map_err(internal)?)
        }
        LogicalType::Interval => {
            let values: Vec<_> = native::<i128>(block, selection).into_iter().map(interval_of_bits).collect();
            let nulls = validity(block, selection);
            Arc::new(PrimitiveArray::<IntervalMonthDayNanoType>::new(ScalarBuffer::from(values), nulls))
        }
        LogicalType::Varchar | LogicalType::Blob => {
            return Err(Error::internal("strings are not fixed-width values"));
        }
    })
}
