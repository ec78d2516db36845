//! Results: columns of rows that were found, and aggregates over them.
//!
//! Must not know: how rows are found.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array, Float32Array, Float64Array, Int8Array,
    Int16Array, Int32Array, Int64Array, StringViewArray, Time64MicrosecondArray, TimestampMicrosecondArray,
    TimestampMillisecondArray, TimestampNanosecondArray, TimestampSecondArray, UInt8Array, UInt16Array, UInt32Array,
    UInt64Array,
};
use arrow::datatypes::{DataType, TimeUnit};
use forebay_base::{Error, PhysicalType, Result, Value};
use forebay_store::{Cell, HotRow};

use crate::values::{Datum, rescaled};

/// A column of the result that is one of a table.
#[derive(Debug)]
pub(crate) struct OutputColumn {
    pub(crate) table: usize,
    pub(crate) slot: usize,
    pub(crate) physical: PhysicalType,
}

/// What is computed of all rows.
#[derive(Debug)]
pub(crate) struct Aggregate {
    pub(crate) function: AggregateFunction,
    /// The column that it is of; `None` of `count(*)`.
    pub(crate) column: Option<OutputColumn>,
    /// Digits behind the point of the column's values.
    pub(crate) scale: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AggregateFunction {
    Count,
    CountDistinct,
    Sum,
    Min,
    Max,
}

/// An aggregate of the rows so far.
#[derive(Debug, Default)]
pub(crate) struct Accumulator {
    count: i128,
    /// The sum, the least or the greatest value.
    value: Option<Datum<'static>>,
    distinct: BTreeSet<Datum<'static>>,
}

impl Accumulator {
    /// Takes in a row; `None` where the statement has to be planned.
    pub(crate) fn add(&mut self, aggregate: &Aggregate, rows: &[HotRow]) -> Option<()> {
        let Some(OutputColumn { table, slot, physical }) = aggregate.column else {
            self.count += 1;
            return Some(());
        };
        let value = owned(Datum::of(rows[table].cell(slot), physical));
        if value == Datum::Null {
            return Some(());
        }
        self.count += 1;
        match aggregate.function {
            AggregateFunction::Count => {}
            AggregateFunction::CountDistinct => drop(self.distinct.insert(value)),
            AggregateFunction::Sum => {
                let Datum::Integer(int) = value else { return None };
                let sum = match self.value.take() {
                    Some(Datum::Integer(sum)) => sum.checked_add(int)?,
                    _ => int,
                };
                self.value = Some(Datum::Integer(sum));
            }
            AggregateFunction::Min => self.keep(value, |new, known| new < known),
            AggregateFunction::Max => self.keep(value, |new, known| new > known),
        }
        Some(())
    }

    fn keep(&mut self, value: Datum<'static>, is_better: impl Fn(&Datum<'static>, &Datum<'static>) -> bool) {
        if self.value.as_ref().is_none_or(|known| is_better(&value, known)) {
            self.value = Some(value);
        }
    }

    /// The result as a column of a type has it; `None` where the statement has to be planned.
    pub(crate) fn result(self, aggregate: &Aggregate, data_type: &DataType) -> Option<Datum<'static>> {
        let value = match aggregate.function {
            AggregateFunction::Count => Datum::Integer(self.count),
            AggregateFunction::CountDistinct => Datum::Integer(self.distinct.len() as i128),
            _ => self.value.unwrap_or(Datum::Null),
        };
        match (value, data_type) {
            (Datum::Integer(int), DataType::Decimal128(precision, scale)) => {
                let int = rescaled(int, aggregate.scale, u8::try_from(*scale).ok()?)?;
                let fits = int.unsigned_abs() < 10_u128.checked_pow((*precision).into())?;
                fits.then_some(Datum::Integer(int))
            }
            (value, _) => Some(value),
        }
    }
}

impl Aggregate {
    /// What its results are.
    pub(crate) fn physical(&self) -> PhysicalType {
        match &self.column {
            Some(column) if matches!(self.function, AggregateFunction::Min | AggregateFunction::Max) => column.physical,
            _ => PhysicalType::I128,
        }
    }
}

fn owned(value: Datum<'_>) -> Datum<'static> {
    match value {
        Datum::Null => Datum::Null,
        Datum::Integer(int) => Datum::Integer(int),
        Datum::Bytes(bytes) => Datum::Bytes(bytes.into_owned().into()),
    }
}

/// Whether [`array`] makes arrays of a type.
pub(crate) fn is_output(data_type: &DataType) -> bool {
    array(data_type, PhysicalType::I64, &[]).is_ok()
}

/// Values of a column, which has this physical type, as an array.
///
/// # Errors
/// `Internal` for other types, and for texts that are not UTF-8.
pub(crate) fn array(data_type: &DataType, physical: PhysicalType, cells: &[Cell<'_>]) -> Result<ArrayRef> {
    let integer = |cell: &Cell<'_>| match cell {
        Cell::Fixed(_) => match cell.value(physical) {
            Some(Value::Int(int)) => Some(int),
            _ => None,
        },
        Cell::Null | Cell::Bytes(_) => None,
    };
    macro_rules! integers {
        ($array:ty, $native:ty) => {
            Arc::new(cells.iter().map(|cell| integer(cell).map(|int| int as $native)).collect::<$array>())
        };
        ($array:ty, $native:ty, $zone:expr) => {
            Arc::new(
                cells
                    .iter()
                    .map(|cell| integer(cell).map(|int| int as $native))
                    .collect::<$array>()
                    .with_timezone_opt($zone.clone()),
            )
        };
    }
    Ok(match data_type {
        DataType::Boolean => {
            Arc::new(cells.iter().map(|cell| bits(cell).map(|bits| bits != 0)).collect::<BooleanArray>())
        }
        DataType::Int8 => integers!(Int8Array, i8),
        DataType::Int16 => integers!(Int16Array, i16),
        DataType::Int32 => integers!(Int32Array, i32),
        DataType::Int64 => integers!(Int64Array, i64),
        DataType::UInt8 => integers!(UInt8Array, u8),
        DataType::UInt16 => integers!(UInt16Array, u16),
        DataType::UInt32 => integers!(UInt32Array, u32),
        DataType::UInt64 => integers!(UInt64Array, u64),
        DataType::Date32 => integers!(Date32Array, i32),
        DataType::Time64(TimeUnit::Microsecond) => integers!(Time64MicrosecondArray, i64),
        DataType::Timestamp(TimeUnit::Second, zone) => integers!(TimestampSecondArray, i64, zone),
        DataType::Timestamp(TimeUnit::Millisecond, zone) => integers!(TimestampMillisecondArray, i64, zone),
        DataType::Timestamp(TimeUnit::Microsecond, zone) => integers!(TimestampMicrosecondArray, i64, zone),
        DataType::Timestamp(TimeUnit::Nanosecond, zone) => integers!(TimestampNanosecondArray, i64, zone),
        DataType::Decimal128(precision, scale) => {
            let decimals: Decimal128Array = cells.iter().map(integer).collect();
            let decimals = decimals.with_precision_and_scale(*precision, *scale);
            Arc::new(decimals.map_err(|error| Error::internal(error.to_string()))?)
        }
        other => return unordered(other, cells),
    })
}

/// The same of floats, texts and blobs.
fn unordered(data_type: &DataType, cells: &[Cell<'_>]) -> Result<ArrayRef> {
    fn bytes<'c>(cell: &Cell<'c>) -> Option<&'c [u8]> {
        match cell {
            Cell::Bytes(bytes) => Some(bytes),
            Cell::Null | Cell::Fixed(_) => None,
        }
    }
    let text = |bytes| std::str::from_utf8(bytes).ok();
    Ok(match data_type {
        DataType::Float32 => {
            let floats = cells.iter().map(|cell| bits(cell).map(|bits| f32::from_bits(bits as u32)));
            Arc::new(floats.collect::<Float32Array>())
        }
        DataType::Float64 => {
            let floats = cells.iter().map(|cell| bits(cell).map(|bits| f64::from_bits(bits as u64)));
            Arc::new(floats.collect::<Float64Array>())
        }
        DataType::Utf8View => {
            let texts: Option<Vec<Option<&str>>> =
                cells.iter().map(|cell| bytes(cell).map_or(Some(None), |bytes| Some(Some(text(bytes)?)))).collect();
            let texts = texts.ok_or_else(|| Error::corrupt("a text is not UTF-8"))?;
            Arc::new(texts.into_iter().collect::<StringViewArray>())
        }
        DataType::BinaryView => Arc::new(cells.iter().map(bytes).collect::<BinaryViewArray>()),
        other => return Err(Error::internal(format!("rows are not given out as {other}"))),
    })
}

/// The bits of a value; `None` of NULL.
fn bits(cell: &Cell<'_>) -> Option<u128> {
    match cell {
        Cell::Fixed(bits) => Some(*bits),
        Cell::Null | Cell::Bytes(_) => None,
    }
}
