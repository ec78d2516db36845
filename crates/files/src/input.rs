//! A file's plain bytes, how delimited text lies in them, and the batches that a reader makes of them.

use std::io::{BufRead, BufReader};
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::arrow::error::ArrowError;
use datafusion::common::DataFusionError;
use datafusion::common::config::CsvOptions;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::functions::core::expr_fn::{coalesce, nullif};
use datafusion::logical_expr::{Expr, lit};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use forebay_base::{Error, Result, limits};
use forebay_context::error::{from_datafusion, into_datafusion};
use forebay_forms::file_options::{Format, Options};
use futures::StreamExt;

/// A quote that no `.tbl` file has: in such a file, `"` is a character like others.
pub const TBL_QUOTE: u8 = 0x01;

/// The details of delimited text: what the options say, else what the format means, else what the file shows.
pub fn csv_options(
    format: Format,
    path: &str,
    compression: CompressionTypeVariant,
    options: &Options,
) -> Result<CsvOptions> {
    let tabs = path.to_ascii_lowercase().contains(".tsv");
    let delimiter = options.delimiter.unwrap_or(match format {
        Format::Tbl => b'|',
        _ if tabs => b'\t',
        _ => b',',
    });
    let header = options.header.unwrap_or(format == Format::Csv);
    let mut csv = CsvOptions {
        has_header: Some(header),
        delimiter,
        escape: options.escape.filter(|escape| Some(*escape) != options.quote.or(Some(b'"'))),
        compression,
        newlines_in_values: Some(false),
        comment: options.comment,
        null_regex: options.null.as_ref().map(|null| {
            let nulls = std::iter::once(null).chain(&options.more_nulls).map(|null| escape_regex(null));
            format!("^(?:{})$", nulls.collect::<Vec<_>>().join("|"))
        }),
        ..CsvOptions::default()
    };
    csv.quote = options.quote.unwrap_or(if format == Format::Tbl { TBL_QUOTE } else { b'"' });
    Ok(csv)
}

fn escape_regex(text: &str) -> String {
    text.chars().flat_map(|c| (!c.is_alphanumeric()).then_some('\\').into_iter().chain([c])).collect()
}

/// Whether a delimited file with the columns of `schema` is read by [`in_sequence`](crate::in_sequence). With a text for NULL an empty line is not NULL: it
/// is skipped.
pub fn is_single_column(schema: &Schema, options: &Options) -> bool {
    schema.fields().len() == 1 && options.null.as_ref().is_none_or(String::is_empty)
}

/// The file's plain bytes.
pub fn decompressed(path: &str, compression: CompressionTypeVariant) -> Result<Box<dyn std::io::Read + Send>> {
    let file = std::fs::File::open(path).map_err(|error| Error::io(format!("open {path}"), &error))?;
    Ok(match compression {
        CompressionTypeVariant::UNCOMPRESSED => Box::new(file),
        CompressionTypeVariant::GZIP => Box::new(flate2::read::MultiGzDecoder::new(file)),
        CompressionTypeVariant::ZSTD => {
            Box::new(zstd::Decoder::new(file).map_err(|error| Error::io(format!("read {path}"), &error))?)
        }
        CompressionTypeVariant::BZIP2 | CompressionTypeVariant::XZ => {
            FileCompressionType::from(compression).convert_read(file).map_err(from_datafusion)?
        }
    })
}

/// The file's plain bytes behind so many lines.
pub fn behind_lines(
    path: &str,
    compression: CompressionTypeVariant,
    lines: usize,
) -> Result<Box<dyn std::io::Read + Send>> {
    let input = decompressed(path, compression)?;
    if lines == 0 {
        return Ok(input);
    }
    let mut input = BufReader::new(input);
    for _ in 0..lines {
        // Of long lines nothing is kept.
        let skipped = input.skip_until(b'\n').map_err(|error| Error::io(format!("read {path}"), &error))?;
        if skipped == 0 {
            break;
        }
    }
    Ok(Box::new(input))
}

/// An error about a line of so many values.
pub(crate) fn too_wide(file: &str, values: usize) -> Error {
    let message = format!("the first line has {values} values, and a table at most {} columns", limits::TABLE_COLUMNS);
    Error::input(message).context(format!("file {file}"))
}

/// A column that was read as text, NULL where it is the text `null`. The reader holds every empty value for NULL; beside
/// another text for NULL, an empty text is one.
pub fn without_null_text(value: Expr, null: &str, holds_text: bool) -> Expr {
    let value = if holds_text && !null.is_empty() { coalesce(vec![value, lit("")]) } else { value };
    nullif(value, lit(null))
}

/// The batches of a reader that was opened, or why it was not.
pub fn stream(
    schema: &SchemaRef,
    opened: Result<impl Iterator<Item = std::result::Result<RecordBatch, ArrowError>> + Send + 'static>,
) -> SendableRecordBatchStream {
    let batches = match opened {
        Ok(batches) => futures::stream::iter(batches.map(|batch| batch.map_err(DataFusionError::from))).left_stream(),
        Err(error) => futures::stream::iter([Err(into_datafusion(error))]).right_stream(),
    };
    Box::pin(RecordBatchStreamAdapter::new(Arc::clone(schema), batches))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_texts_are_taken_literally() {
        assert_eq!(escape_regex("N/A."), r"N\/A\.");
    }
}
