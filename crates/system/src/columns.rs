//! Columns of system tables: each is computed from a row by a function of its own, so that a query pays for the columns that it
//! names.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchOptions, StringArray,
    TimestampMicrosecondArray, new_null_array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use forebay_base::{Error, Result};

/// The zone of moments, as of columns of tables.
const ZONE: &str = "UTC";

/// How a column's value is found.
pub(crate) enum Of<R> {
    /// VARCHAR.
    Text(fn(&R) -> Result<Option<String>>),
    /// BIGINT: numbers, counts, bytes.
    Count(fn(&R) -> Result<Option<u64>>),
    /// DOUBLE.
    Real(fn(&R) -> Result<Option<f64>>),
    /// BOOLEAN.
    Flag(fn(&R) -> Result<Option<bool>>),
    /// TIMESTAMP WITH TIME ZONE, by microseconds since 1970.
    Moment(fn(&R) -> Result<Option<i64>>),
}

/// A column of a system table.
pub(crate) struct Column<R> {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its values.
    pub(crate) of: Of<R>,
    /// It is known without reading anything.
    pub(crate) is_known: bool,
}

/// A column that is known without reading anything.
pub(crate) const fn known<R>(name: &'static str, of: Of<R>) -> Column<R> {
    Column { name, of, is_known: true }
}

/// A column that something is read for, if a query names it.
pub(crate) const fn read<R>(name: &'static str, of: Of<R>) -> Column<R> {
    Column { name, of, is_known: false }
}

impl<R> Column<R> {
    fn data_type(&self) -> DataType {
        match self.of {
            Of::Text(_) => DataType::Utf8,
            Of::Count(_) => DataType::Int64,
            Of::Real(_) => DataType::Float64,
            Of::Flag(_) => DataType::Boolean,
            Of::Moment(_) => DataType::Timestamp(TimeUnit::Microsecond, Some(ZONE.into())),
        }
    }

    /// The values of these rows.
    fn values(&self, rows: &[R]) -> Result<ArrayRef> {
        fn all<R, V, A: FromIterator<Option<V>>>(rows: &[R], of: fn(&R) -> Result<Option<V>>) -> Result<A> {
            rows.iter().map(of).collect()
        }
        Ok(match self.of {
            Of::Text(of) => Arc::new(all::<_, _, StringArray>(rows, of)?),
            Of::Real(of) => Arc::new(all::<_, _, Float64Array>(rows, of)?),
            Of::Flag(of) => Arc::new(all::<_, _, BooleanArray>(rows, of)?),
            Of::Moment(of) => Arc::new(all::<_, _, TimestampMicrosecondArray>(rows, of)?.with_timezone(ZONE)),
            Of::Count(of) => {
                let counts: Vec<Option<u64>> = all(rows, of)?;
                let counts = counts.into_iter().map(|count| count.and_then(|count| i64::try_from(count).ok()));
                Arc::new(counts.collect::<Int64Array>())
            }
        })
    }
}

/// The schema of all columns.
pub(crate) fn schema<R>(columns: &[Column<R>]) -> SchemaRef {
    let fields = columns.iter().map(|column| Field::new(column.name, column.data_type(), true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// These columns of rows.
pub(crate) fn batch<R>(columns: &[Column<R>], schema: &SchemaRef, chosen: &[usize], rows: &[R]) -> Result<RecordBatch> {
    let arrays = chosen.iter().map(|column| columns[*column].values(rows)).collect::<Result<Vec<_>>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options).map_err(of_arrow)
}

/// All columns of rows, of which only `chosen` have values.
pub(crate) fn sparse<R>(columns: &[Column<R>], chosen: &[usize], rows: &[R]) -> Result<RecordBatch> {
    let of = |(index, column): (usize, &Column<R>)| match chosen.contains(&index) {
        true => column.values(rows),
        false => Ok(new_null_array(&column.data_type(), rows.len())),
    };
    let arrays = columns.iter().enumerate().map(of).collect::<Result<Vec<_>>>()?;
    RecordBatch::try_new(schema(columns), arrays).map_err(of_arrow)
}

fn of_arrow(error: datafusion::arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows of a system table: {error}"))
}
