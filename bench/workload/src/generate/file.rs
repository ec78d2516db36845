//! A table file that is written part by part: encoding is free of the file and runs on any thread, appending is not.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use forebay::{Error, Result};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::{
    ArrowColumnChunk, ArrowColumnWriter, ArrowRowGroupWriterFactory, ArrowWriterOptions, compute_leaves,
};
use parquet::basic::Compression;
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;

use super::{Format, tbl};
use crate::table_source::Batches;

/// Bytes of the buffer between encoded parts and the operating system.
const WRITE_BUFFER_BYTES: usize = 1 << 20;

/// An incomplete file under its temporary name, removed if it is not finished.
pub(super) struct TableFile {
    path: PathBuf,
    rows: u64,
    writer: Writer,
    // Dropped behind the writer.
    temporary: Temporary,
}

/// Removes the file of this name in the end, unless it has another name by then.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // Whatever led here is what to report.
        drop(fs::remove_file(&self.0));
    }
}

enum Writer {
    Parquet(Box<SerializedFileWriter<BufWriter<File>>>),
    Tbl(BufWriter<File>),
}

/// Turns batches into the bytes of a part; shared by all threads.
pub(super) struct PartEncoder {
    schema: SchemaRef,
    kind: EncoderKind,
}

enum EncoderKind {
    Parquet(Box<ArrowRowGroupWriterFactory>),
    Tbl,
}

/// One encoded part.
pub(super) struct EncodedPart {
    rows: u64,
    bytes: PartBytes,
}

enum PartBytes {
    RowGroup(Vec<ArrowColumnChunk>),
    Text(Vec<u8>),
}

impl TableFile {
    /// Makes the file that will be `path`.
    pub(super) fn create(path: &Path, format: Format, schema: &SchemaRef) -> Result<(Self, PartEncoder)> {
        let name = path.with_extension(format!("{}.partial", format.extension()));
        let file = File::create(&name).map_err(|e| Error::io(format!("make file {}", name.display()), &e))?;
        let temporary = Temporary(name);
        let file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, file);
        let (writer, kind) = match format {
            Format::Tbl => (Writer::Tbl(file), EncoderKind::Tbl),
            Format::Parquet => {
                let properties = WriterProperties::builder()
                    .set_compression(Compression::SNAPPY)
                    .set_created_by("forebay".to_owned())
                    .build();
                // Without the Arrow schema inside, files hold plain Parquet types, the same for every reader.
                let options = ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
                let writer = ArrowWriter::try_new_with_options(file, Arc::clone(schema), options);
                let (writer, factory) =
                    writer.and_then(ArrowWriter::into_serialized_writer).map_err(|e| write_error(&temporary.0, e))?;
                (Writer::Parquet(Box::new(writer)), EncoderKind::Parquet(Box::new(factory)))
            }
        };
        let encoder = PartEncoder { schema: Arc::clone(schema), kind };
        Ok((Self { path: path.to_owned(), rows: 0, writer, temporary }, encoder))
    }

    /// Appends the next part.
    pub(super) fn append(&mut self, part: EncodedPart) -> Result<()> {
        match (&mut self.writer, part.bytes) {
            (Writer::Tbl(file), PartBytes::Text(text)) => {
                file.write_all(&text).map_err(|e| Error::io(format!("write {}", self.temporary.0.display()), &e))?;
            }
            (Writer::Parquet(writer), PartBytes::RowGroup(columns)) => {
                append_row_group(writer, columns).map_err(|e| write_error(&self.temporary.0, e))?;
            }
            _ => return Err(Error::internal("a part was encoded for another format than its file has")),
        }
        self.rows += part.rows;
        Ok(())
    }

    /// Completes the file and gives it its name. Returns rows and bytes.
    pub(super) fn finish(self) -> Result<(u64, u64)> {
        let failed = |e: &std::io::Error| Error::io(format!("write {}", self.path.display()), e);
        let file = match self.writer {
            Writer::Tbl(file) => file,
            Writer::Parquet(writer) => writer.into_inner().map_err(|e| write_error(&self.path, e))?,
        };
        let file = file.into_inner().map_err(|e| failed(e.error()))?;
        let bytes = file.metadata().map_err(|e| failed(&e))?.len();
        drop(file);
        fs::rename(&self.temporary.0, &self.path).map_err(|e| failed(&e))?;
        Ok((self.rows, bytes))
    }
}

impl PartEncoder {
    /// Encodes one part; `progress` hears of the rows of each batch.
    pub(super) fn encode(&self, batches: Batches, progress: impl Fn(u64)) -> Result<EncodedPart> {
        let mut rows = 0;
        let counted = batches.inspect(|batch| {
            let batch_rows = batch.as_ref().map_or(0, |batch| batch.num_rows() as u64);
            rows += batch_rows;
            progress(batch_rows);
        });
        let bytes = match &self.kind {
            EncoderKind::Tbl => {
                let mut text = Vec::new();
                for batch in counted {
                    tbl::append_rows(&batch?, &mut text)?;
                }
                PartBytes::Text(text)
            }
            EncoderKind::Parquet(factory) => {
                let mut writers = factory.create_column_writers(0).map_err(encode_error)?;
                for batch in counted {
                    let batch = batch?;
                    for ((writer, field), array) in writers.iter_mut().zip(self.schema.fields()).zip(batch.columns()) {
                        for leaf in compute_leaves(field, array).map_err(encode_error)? {
                            writer.write(&leaf).map_err(encode_error)?;
                        }
                    }
                }
                let columns: std::result::Result<_, _> = writers.into_iter().map(ArrowColumnWriter::close).collect();
                PartBytes::RowGroup(columns.map_err(encode_error)?)
            }
        };
        Ok(EncodedPart { rows, bytes })
    }
}

fn append_row_group(
    writer: &mut SerializedFileWriter<BufWriter<File>>,
    columns: Vec<ArrowColumnChunk>,
) -> std::result::Result<(), ParquetError> {
    let mut row_group = writer.next_row_group()?;
    for column in columns {
        column.append_to_row_group(&mut row_group)?;
    }
    row_group.close()?;
    Ok(())
}

fn encode_error(error: ParquetError) -> Error {
    Error::internal(format!("cannot encode a Parquet row group: {error}"))
}

/// Unwraps what the operating system said, so that a full disk is reported as one.
fn write_error(path: &Path, error: ParquetError) -> Error {
    let operation = format!("write {}", path.display());
    match error {
        ParquetError::External(inner) => match inner.downcast_ref::<std::io::Error>() {
            Some(os) => Error::io(operation, os),
            None => Error::internal(format!("cannot {operation}: {inner}")),
        },
        other => Error::internal(format!("cannot {operation}: {other}")),
    }
}
