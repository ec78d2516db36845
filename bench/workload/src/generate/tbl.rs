//! Rows as dbgen writes them: values as text, each followed by `|`, one row a line.
//!
//! Must not know: files, threads. Values of both benchmarks hold no `|`, no line feed and no NULL.

use std::io::Write;

use arrow::array::{Array, AsArray, RecordBatch};
use arrow::datatypes::{DataType, Date32Type, Decimal128Type, Int32Type, Int64Type};
use arrow::temporal_conversions::date32_to_datetime;
use forebay::{Error, Result};

/// A column with its type resolved, once for all rows of a batch.
enum Column<'a> {
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    /// Two digits after the point.
    Hundredths(&'a [i128]),
    /// Hundredths that dbgen writes without them: TPC-H quantities.
    Whole(&'a [i128]),
    /// Days since 1970-01-01.
    Date(&'a [i32]),
    Text(&'a arrow::array::StringArray),
    TextView(&'a arrow::array::StringViewArray),
}

/// Appends all rows of `batch` to `out`.
pub(super) fn append_rows(batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
    let schema = batch.schema();
    let columns = schema
        .fields()
        .iter()
        .zip(batch.columns())
        .map(|(field, array)| resolve(field.name(), array.as_ref()))
        .collect::<Result<Vec<_>>>()?;
    for row in 0..batch.num_rows() {
        for column in &columns {
            append_value(column, row, out).map_err(|e| Error::io("write a row as text", &e))?;
            out.push(b'|');
        }
        out.push(b'\n');
    }
    Ok(())
}

fn resolve<'a>(name: &str, array: &'a dyn Array) -> Result<Column<'a>> {
    Ok(match array.data_type() {
        DataType::Int32 => Column::Int32(array.as_primitive::<Int32Type>().values()),
        DataType::Int64 => Column::Int64(array.as_primitive::<Int64Type>().values()),
        DataType::Decimal128(_, 2) if name == "l_quantity" => {
            Column::Whole(array.as_primitive::<Decimal128Type>().values())
        }
        DataType::Decimal128(_, 2) => Column::Hundredths(array.as_primitive::<Decimal128Type>().values()),
        DataType::Date32 => Column::Date(array.as_primitive::<Date32Type>().values()),
        DataType::Utf8 => Column::Text(array.as_string()),
        DataType::Utf8View => Column::TextView(array.as_string_view()),
        other => return Err(Error::internal(format!("no text form for column {name} of type {other}"))),
    })
}

fn append_value(column: &Column<'_>, row: usize, out: &mut Vec<u8>) -> std::io::Result<()> {
    match column {
        Column::Int32(values) => write!(out, "{}", values[row]),
        Column::Int64(values) => write!(out, "{}", values[row]),
        Column::Whole(values) => write!(out, "{}", values[row] / 100),
        Column::Hundredths(values) => {
            let sign = if values[row] < 0 { "-" } else { "" };
            let hundredths = values[row].unsigned_abs();
            write!(out, "{sign}{}.{:02}", hundredths / 100, hundredths % 100)
        }
        Column::Date(values) => match date32_to_datetime(values[row]) {
            Some(day) => write!(out, "{}", day.date()),
            None => Err(std::io::Error::other(format!("day {} is outside of the calendar", values[row]))),
        },
        Column::Text(array) => out.write_all(array.value(row).as_bytes()),
        Column::TextView(array) => out.write_all(array.value(row).as_bytes()),
    }
}
