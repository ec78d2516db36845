//! Delimited files that are read from their beginning to their end by one reader: those of one column, where an empty line is a row
//! that is NULL, and those with lines in front of their rows. DataFusion's reader skips empty lines, and no others.

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use datafusion::arrow::csv::ReaderBuilder;
use datafusion::arrow::csv::reader::Reader;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::TableProvider;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::config::CsvOptions;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::streaming::PartitionStream;
use forebay_base::Result;
use forebay_context::error::from_datafusion;

use crate::input;
use crate::records::EmptyLines;

/// The files, written as `csv` says behind `skip` lines, as one table in batches of so many rows.
pub fn open(
    paths: &[String],
    csv: &CsvOptions,
    schema: &SchemaRef,
    skip: usize,
    batch_rows: usize,
) -> Result<Arc<dyn TableProvider>> {
    let partition = |path: &String| {
        let file = File { path: path.clone(), csv: csv.clone(), schema: Arc::clone(schema), skip, batch_rows };
        Arc::new(file) as Arc<dyn PartitionStream>
    };
    let partitions = paths.iter().map(partition).collect();
    Ok(Arc::new(StreamingTable::try_new(Arc::clone(schema), partitions).map_err(from_datafusion)?))
}

struct File {
    path: String,
    csv: CsvOptions,
    schema: SchemaRef,
    skip: usize,
    batch_rows: usize,
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path)
    }
}

impl File {
    fn open(&self) -> Result<Reader<Box<dyn Read + Send>>> {
        let mut builder = ReaderBuilder::new(Arc::clone(&self.schema))
            .with_batch_size(self.batch_rows)
            .with_header(self.csv.has_header == Some(true))
            .with_delimiter(self.csv.delimiter)
            .with_quote(self.csv.quote);
        if let Some(escape) = self.csv.escape {
            builder = builder.with_escape(escape);
        }
        if let Some(comment) = self.csv.comment {
            builder = builder.with_comment(comment);
        }
        let input = input::behind_lines(&self.path, self.csv.compression, self.skip)?;
        let input: Box<dyn Read + Send> = match self.schema.fields().len() {
            1 => Box::new(EmptyLines::new(input, &self.csv)),
            _ => input,
        };
        builder.build(input).map_err(|error| from_datafusion(error.into()))
    }
}

impl PartitionStream for File {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        input::stream(&self.schema, self.open())
    }
}
