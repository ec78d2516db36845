//! The query's result: vectors as Arrow arrays of the types that the query asks for.

use std::sync::Arc;

use arrow::array::{
    ArrayRef, ArrowPrimitiveType, BinaryViewBuilder, BooleanArray, Decimal128Array, Decimal256Array, Int64Array,
    PrimitiveArray, RecordBatch, RecordBatchOptions, StringViewBuilder,
};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::compute::concat_batches;
use arrow::datatypes::{
    DataType, Date32Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, SchemaRef,
    Time64MicrosecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type, i256,
};
use forebay_base::{Error, PhysicalType, Result};
use forebay_cpu::dictionary::{Dictionary, Strings};
use forebay_cpu::layout::RowLayout;
use forebay_cpu::rows::RowSet;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};

use super::Query;
use super::spill::{Place, Spill};
use crate::CancelToken;

/// What a result looks like.
pub(super) struct ResultSchema {
    schema: SchemaRef,
    /// Per column: what its ids stand for.
    strings: Vec<Option<Arc<Strings>>>,
}

impl ResultSchema {
    /// The result of a query whose pipelines are done.
    pub(super) fn of(query: &Query, dictionaries: &[Arc<Dictionary>]) -> Self {
        let strings = query.dictionaries.iter().map(|id| id.map(|id| dictionaries[id.0 as usize].snapshot())).collect();
        Self { schema: Arc::clone(&query.schema), strings }
    }

    /// One batch. `vectors` are the collected columns, in order.
    pub(super) fn batch(&self, vectors: &[Vector], rows: usize) -> Result<RecordBatch> {
        let mut arrays = Vec::with_capacity(vectors.len());
        for ((vector, field), strings) in vectors.iter().zip(self.schema.fields()).zip(&self.strings) {
            arrays.push(array(vector, field.data_type(), strings.as_deref())?);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| Error::internal(format!("a query made an invalid batch: {error}")))
    }

    /// Whether the numbers of a column have the order of its values.
    pub(super) fn is_ordered(&self, column: usize) -> bool {
        let is_text = matches!(self.schema.field(column).data_type(), DataType::Utf8View | DataType::BinaryView);
        !is_text && self.strings[column].is_none()
    }

    /// One batch of some of the rows.
    pub(super) fn chosen(&self, rows: &RowSet, chosen: &[usize], cancel: &CancelToken) -> Result<Vec<RecordBatch>> {
        let (mut vectors, mut batches) = (Vec::new(), Vec::with_capacity(chosen.len()));
        for row in chosen {
            cancel.check()?;
            rows.read(*row..row + 1, &mut vectors);
            batches.push(self.batch(&vectors, 1)?);
        }
        let one = concat_batches(&self.schema, &batches);
        Ok(vec![one.map_err(|error| Error::internal(format!("batches of one query differ: {error}")))?])
    }

    /// The batches of rows.
    pub(super) fn batches(&self, rows: &RowSet, cancel: &CancelToken) -> Result<Vec<RecordBatch>> {
        let (mut vectors, mut batches) = (Vec::new(), Vec::new());
        for start in (0..rows.len()).step_by(VECTOR_ROWS) {
            cancel.check()?;
            let end = (start + VECTOR_ROWS).min(rows.len());
            rows.read(start..end, &mut vectors);
            batches.push(self.batch(&vectors, end - start)?);
        }
        Ok(batches)
    }
}

/// Rows of a result that did not fit the memory: read run by run while they are asked for.
pub struct RowsOnDisk {
    shape: ResultSchema,
    layout: RowLayout,
    rows: Spill,
    left: std::vec::IntoIter<Place>,
    batches: std::vec::IntoIter<RecordBatch>,
    cancel: CancelToken,
}

impl RowsOnDisk {
    pub(super) fn new(shape: ResultSchema, layout: RowLayout, rows: Spill, cancel: CancelToken) -> Self {
        let left = rows.runs(0).into_iter();
        Self { shape, layout, rows, left, batches: Vec::new().into_iter(), cancel }
    }

    fn read(&self, place: &Place) -> Result<Vec<RecordBatch>> {
        let rows = RowSet::of_buffers(&self.layout, vec![self.rows.read(place)?]);
        self.shape.batches(&rows, &self.cancel)
    }
}

impl std::fmt::Debug for RowsOnDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RowsOnDisk").field("runs_left", &self.left.len()).finish_non_exhaustive()
    }
}

impl Iterator for RowsOnDisk {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(batch) = self.batches.next() {
                return Some(Ok(batch));
            }
            let place = self.left.next()?;
            match self.read(&place) {
                Ok(batches) => self.batches = batches.into_iter(),
                Err(error) => {
                    self.left = Vec::new().into_iter();
                    return Some(Err(error));
                }
            }
        }
    }
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
