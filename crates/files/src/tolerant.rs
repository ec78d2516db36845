//! CSV files that are read record by record, since not all of their records are as wide as the table: those that are too short are
//! filled up (`null_padding`), wrong ones are left out (`ignore_errors`). All values are texts here; who casts them leaves out those
//! rows that cannot be.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringViewBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use forebay_base::{Error, Result};
use forebay_context::error::{from_datafusion, into_datafusion};
use forebay_forms::file_options::Options;

use crate::records::{Record, Records};

/// The files as one table of texts with these columns, in batches of so many rows. `options` say everything of the dialect.
pub(crate) fn open<'a>(
    paths: &[String],
    names: impl Iterator<Item = &'a str>,
    options: &Options,
    batch_rows: usize,
) -> Result<Arc<dyn TableProvider>> {
    let fields: Vec<Field> = names.map(|name| Field::new(name, DataType::Utf8View, true)).collect();
    let schema: SchemaRef = Arc::new(Schema::new(fields));
    let partition = |path: &String| {
        let file = File { path: path.clone(), options: options.clone(), schema: Arc::clone(&schema), batch_rows };
        Arc::new(file) as Arc<dyn PartitionStream>
    };
    let partitions = paths.iter().map(partition).collect();
    Ok(Arc::new(StreamingTable::try_new(Arc::clone(&schema), partitions).map_err(from_datafusion)?))
}

struct File {
    path: String,
    options: Options,
    schema: SchemaRef,
    batch_rows: usize,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl PartitionStream for File {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches: Box<dyn Iterator<Item = Result<RecordBatch>> + Send> =
            match Rows::open(&self.path, &self.options, &self.schema, self.batch_rows) {
                Ok(rows) => Box::new(rows),
                Err(error) => Box::new(std::iter::once(Err(error))),
            };
        let batches = futures::stream::iter(batches.map(|batch| batch.map_err(into_datafusion)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// The rows of a file that are wide enough, as batches.
struct Rows {
    records: Records,
    path: String,
    schema: SchemaRef,
    batch_rows: usize,
    pads: bool,
    ignores: bool,
    has_ended: bool,
}

impl Rows {
    fn open(path: &str, options: &Options, schema: &SchemaRef, batch_rows: usize) -> Result<Self> {
        let mut records = Records::open(path, options)?;
        if options.header == Some(true) {
            records.next_record()?;
        }
        Ok(Self {
            records,
            path: path.to_owned(),
            schema: Arc::clone(schema),
            batch_rows,
            pads: options.null_padding,
            ignores: options.ignore_errors,
            has_ended: false,
        })
    }

    fn batch(&mut self) -> Result<Option<RecordBatch>> {
        let width = self.schema.fields().len();
        let mut columns: Vec<StringViewBuilder> = (0..width).map(|_| StringViewBuilder::new()).collect();
        let mut rows = 0;
        while rows < self.batch_rows {
            let Some(record) = self.records.next_record()? else {
                self.has_ended = true;
                break;
            };
            let is_blank = width > 1 && matches!(&record.fields[..], [only] if only.is_empty());
            if is_blank {
                continue;
            }
            match self.values(&record, width) {
                Ok(values) => {
                    let values = values.into_iter().map(Some).chain(std::iter::repeat(None));
                    columns.iter_mut().zip(values).for_each(|(column, value)| match value {
                        Some(text) if !text.is_empty() => column.append_value(text),
                        _ => column.append_null(),
                    });
                    rows += 1;
                }
                Err(_) if self.ignores => {}
                Err(error) => {
                    let place = format!("line {}", record.line);
                    return Err(error.context(place).context(format!("file {}", self.path)));
                }
            }
        }
        if rows == 0 {
            return Ok(None);
        }
        let arrays = columns.into_iter().map(|mut column| Arc::new(column.finish()) as ArrayRef).collect();
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), arrays);
        batch.map(Some).map_err(|error| Error::internal(error.to_string()))
    }

    /// The values of a record, as many as there are columns at most.
    fn values<'a>(&self, record: &'a Record, width: usize) -> Result<Vec<&'a str>> {
        let count = record.fields.len();
        if count > width || (count < width && !self.pads) {
            let error = Error::input(format!("{width} values are expected, and there are {count}"));
            return Err(error.hint("null_padding fills short lines up, ignore_errors leaves wrong ones out"));
        }
        let text = |field: &'a Vec<u8>| {
            std::str::from_utf8(field)
                .map_err(|_| Error::input("a value is not UTF-8").hint("Convert the file to UTF-8"))
        };
        record.fields.iter().map(text).collect()
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.has_ended {
            return None;
        }
        let batch = self.batch();
        self.has_ended |= batch.is_err();
        batch.transpose()
    }
}
