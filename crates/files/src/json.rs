//! JSON files for COPY, one object a line: read with the table's types, where a text column takes any simple value.

use std::fmt;
use std::io::{BufRead, BufReader, Cursor};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::json::{Reader, ReaderBuilder};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use forebay_base::{Context, Error, LogicalType, Result, limits};
use forebay_context::error::from_datafusion;
use forebay_engine::types::arrow_type;
use forebay_forms::file_options::{Options, split_compression};
use forebay_functions::casts;
use forebay_store::Column;

use crate::lines::BoundedLines;
use crate::{input, lines};

/// The files as one table with a column for each of `columns`, found by name.
pub fn open(paths: &[String], columns: &[Column], options: &Options) -> Result<Arc<dyn TableProvider>> {
    let schema = read_schema(columns);
    let partition = |path: &String| -> Result<Arc<dyn PartitionStream>> {
        let compression = options.compression.unwrap_or_else(|| split_compression(&path.to_ascii_lowercase()).1);
        let line_bytes = options.line_bytes.unwrap_or(limits::LINE_BYTES);
        // What a compressed file is like is not known before it is read.
        let batch_rows = match compression {
            CompressionTypeVariant::UNCOMPRESSED => {
                lines::batch_rows(lines::check(path, compression, line_bytes).context(|| format!("file {path}"))?)
            }
            _ => limits::BATCH_ROWS,
        };
        let file = JsonFile { path: path.clone(), compression, schema: Arc::clone(&schema), line_bytes, batch_rows };
        Ok(Arc::new(file) as Arc<dyn PartitionStream>)
    };
    let partitions = paths.iter().map(partition).collect::<Result<_>>()?;
    Ok(Arc::new(StreamingTable::try_new(schema, partitions).map_err(from_datafusion)?))
}

/// The types in which columns are read: their own, or text where JSON has no such values, or the reader cuts digits off.
fn read_schema(columns: &[Column]) -> SchemaRef {
    let field = |column: &Column| {
        let own = match arrow_type(&column.logical) {
            DataType::BinaryView | DataType::Interval(_) | DataType::Utf8View | DataType::Decimal128(..) => {
                DataType::Utf8
            }
            own => own,
        };
        Field::new(&column.name, own, true)
    };
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

struct JsonFile {
    path: String,
    compression: CompressionTypeVariant,
    schema: SchemaRef,
    line_bytes: usize,
    batch_rows: usize,
}

impl fmt::Debug for JsonFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

fn reader<R: BufRead>(schema: &SchemaRef, batch_rows: usize, input: R) -> Result<Reader<R>> {
    let builder = ReaderBuilder::new(Arc::clone(schema)).with_batch_size(batch_rows).with_coerce_primitive(true);
    builder.build(input).map_err(|error| from_datafusion(error.into()))
}

impl PartitionStream for JsonFile {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let input = input::decompressed(&self.path, self.compression);
        let input = input.map(|input| BoundedLines::json(input, self.line_bytes));
        let opened =
            input.and_then(|input| reader(&self.schema, self.batch_rows, BufReader::with_capacity(1 << 20, input)));
        input::stream(&self.schema, opened)
    }
}

/// The first line, from 1, that is not an object with values of these columns, and what is wrong with it.
pub fn find_bad_line(path: &str, columns: &[Column], options: &Options) -> Result<Option<(u64, Error)>> {
    let compression = options.compression.unwrap_or_else(|| split_compression(&path.to_ascii_lowercase()).1);
    let schema = read_schema(columns);
    let input =
        BoundedLines::json(input::decompressed(path, compression)?, options.line_bytes.unwrap_or(limits::LINE_BYTES));
    let lines = BufReader::new(input).split(b'\n');
    for (index, line) in lines.enumerate() {
        let line = line.map_err(|error| Error::io(format!("read {path}"), &error).context(format!("file {path}")))?;
        for batch in reader(&schema, 1, Cursor::new(line))? {
            let checked = batch.map_err(|error| from_datafusion(error.into()));
            if let Err(error) = checked.and_then(|batch| check_decimals(&batch, columns)) {
                return Ok(Some((index as u64 + 1, error)));
            }
        }
    }
    Ok(None)
}

fn check_decimals(batch: &RecordBatch, columns: &[Column]) -> Result<()> {
    for (array, column) in batch.columns().iter().zip(columns) {
        if let LogicalType::Decimal { .. } = column.logical {
            casts::cast(array, &arrow_type(&column.logical), false)
                .map_err(|error| from_datafusion(error.into()).context(format!("column {}", column.name)))?;
        }
    }
    Ok(())
}
