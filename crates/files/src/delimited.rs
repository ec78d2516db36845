//! Delimited text as COPY … TO writes it. In CSV, values are quoted where they need it, and where a text would be taken for
//! NULL. A `.tbl` file has no quotes and a delimiter behind every value, as the TPC's generators write it; what such a file
//! cannot hold is refused. NULL in it is nothing between delimiters, as is an empty text.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::Arc;

use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::prelude::DataFrame;
use flate2::Compression;
use flate2::write::GzEncoder;
use forebay_base::{Error, ErrorKind, Result};
use forebay_context::error::{from_datafusion, worker_error};
use forebay_forms::file_options::{Format, Options};
use futures::StreamExt;

use crate::input::{TBL_QUOTE, csv_options};

/// Batches whose text is made ahead of the file, per thread.
const BATCHES_AHEAD: usize = 2;

/// Bytes collected before they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// What stands between the rows of a list of JSON objects.
const BETWEEN_OBJECTS: &[u8] = b",\n\t";

/// How values become text.
#[derive(Debug, Clone)]
pub struct Style {
    delimiter: u8,
    /// None in files without quotes.
    quote: Option<u8>,
    has_header: bool,
    /// A delimiter follows the last value too.
    is_terminated: bool,
    null: String,
    /// Columns whose values are always in quotes, or `*`.
    forced: Vec<String>,
    /// What stands before the quotes within a value.
    escape: u8,
    /// Rows are texts that are written as they are, of a JSON file.
    json: Option<Json>,
}

/// What a JSON file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Json {
    Lines,
    /// One list of all rows.
    Array,
}

impl Style {
    /// What the options say, else what the format means.
    pub fn new(format: Format, path: &str, options: &Options) -> Result<Self> {
        let csv = csv_options(format, path, CompressionTypeVariant::UNCOMPRESSED, options)?;
        Ok(Self {
            delimiter: csv.delimiter,
            quote: (format == Format::Csv || options.quote.is_some()).then_some(csv.quote),
            has_header: csv.has_header == Some(true),
            is_terminated: format == Format::Tbl,
            null: options.null.clone().unwrap_or_default(),
            forced: options.force_quote.clone(),
            escape: csv.escape.unwrap_or(csv.quote),
            json: None,
        })
    }

    /// Objects of JSON, one a line, or as one list.
    pub fn of_json(is_array: bool) -> Self {
        Self {
            delimiter: b'\n',
            quote: None,
            has_header: false,
            is_terminated: false,
            null: String::new(),
            forced: Vec::new(),
            escape: b'"',
            json: Some(if is_array { Json::Array } else { Json::Lines }),
        }
    }

    /// An error if a column of FORCE_QUOTE is not there.
    pub fn check_forced(&self, schema: &Schema) -> Result<()> {
        let is_there =
            |name: &String| name == "*" || schema.fields().iter().any(|field| field.name().eq_ignore_ascii_case(name));
        match self.forced.iter().find(|name| !is_there(name)) {
            Some(missing) => {
                Err(Error::new(ErrorKind::NotFound, format!("column {missing} does not exist (FORCE_QUOTE)")))
            }
            None => Ok(()),
        }
    }

    fn is_forced(&self, column: &str) -> bool {
        self.forced.iter().any(|name| name == "*" || name.eq_ignore_ascii_case(column))
    }

    fn header(&self, schema: &Schema) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for (index, field) in schema.fields().iter().enumerate() {
            self.begin(index, &mut out);
            self.value(field.name(), field.name(), &mut out)?;
        }
        self.end(&mut out);
        Ok(out)
    }

    fn text(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let internal = |error: &dyn std::fmt::Display| Error::internal(format!("a value has no text: {error}"));
        let options = FormatOptions::default();
        let schema = batch.schema();
        let columns = batch
            .columns()
            .iter()
            .zip(schema.fields())
            .map(|(array, field)| {
                let formatter = ArrayFormatter::try_new(array, &options).map_err(|error| internal(&error))?;
                Ok((formatter, array.logical_nulls(), field.name()))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut null = self.null.clone().into_bytes();
        // An empty line would be no row at all.
        let is_nothing = columns.len() == 1 && null.is_empty() && !self.is_terminated;
        if let Some(quote) = self.quote
            && (is_nothing || !self.is_plain(&self.null))
        {
            null.clear();
            quoted(&self.null, quote, self.escape, &mut null);
        }
        let mut out = Vec::with_capacity(batch.get_array_memory_size());
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (index, (formatter, nulls, name)) in columns.iter().enumerate() {
                self.begin(index, &mut out);
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(&null);
                    continue;
                }
                text.clear();
                write!(text, "{}", formatter.value(row)).map_err(|error| internal(&error))?;
                self.value(&text, name, &mut out)?;
            }
            self.end(&mut out);
        }
        Ok(out)
    }

    fn begin(&self, index: usize, out: &mut Vec<u8>) {
        if self.json == Some(Json::Array) {
            out.extend_from_slice(BETWEEN_OBJECTS);
        } else if index > 0 {
            out.push(self.delimiter);
        }
    }

    fn end(&self, out: &mut Vec<u8>) {
        if self.is_terminated {
            out.push(self.delimiter);
        }
        if self.json != Some(Json::Array) {
            out.push(b'\n');
        }
    }

    /// Whether nothing in `text` means more than itself.
    fn is_plain(&self, text: &str) -> bool {
        let quote = self.quote.unwrap_or(TBL_QUOTE);
        !text.bytes().any(|byte| byte == self.delimiter || byte == quote || matches!(byte, b'\n' | b'\r'))
    }

    fn value(&self, text: &str, column: &str, out: &mut Vec<u8>) -> Result<()> {
        match self.quote {
            Some(quote) if text == self.null || !self.is_plain(text) || self.is_forced(column) => {
                quoted(text, quote, self.escape, out);
            }
            None if self.json.is_none() && !self.is_plain(text) => {
                let shown: String = text.chars().take(40).collect();
                return Err(Error::input(format!("{shown:?} in column {column} cannot be written without quotes"))
                    .hint("Write a .csv file, or choose another DELIMITER"));
            }
            _ => out.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }
}

fn quoted(text: &str, quote: u8, escape: u8, out: &mut Vec<u8>) {
    out.push(quote);
    for byte in text.bytes() {
        if byte == quote || byte == escape {
            out.push(escape);
        }
        out.push(byte);
    }
    out.push(quote);
}

/// Writes the rows of `frame` and returns their number.
pub async fn write(frame: DataFrame, file: File, compression: CompressionTypeVariant, style: Style) -> Result<u64> {
    let schema = Arc::clone(frame.schema().inner());
    let threads = frame.task_ctx().session_config().target_partitions();
    let style_of_json = style.json;
    let style = Arc::new(style);
    let mut output = Output::new(file, compression)?;
    if style.has_header {
        output.write(&style.header(&schema)?)?;
    }
    let rows = frame.execute_stream().await.map_err(from_datafusion)?;
    let mut texts = rows
        .map(|batch| {
            let style = Arc::clone(&style);
            async move {
                let batch = batch.map_err(from_datafusion)?;
                let rows = batch.num_rows() as u64;
                let text = tokio::task::spawn_blocking(move || style.text(&batch)).await;
                Ok::<_, Error>((rows, text.map_err(|error| worker_error(&error)).flatten()?))
            }
        })
        .buffered(BATCHES_AHEAD * threads);
    let is_array = style_of_json == Some(Json::Array);
    if is_array {
        output.write(b"[\n\t")?;
    }
    let mut rows = 0;
    while let Some(next) = texts.next().await {
        let (count, text) = next?;
        // Nothing stands in front of the first object.
        let skipped = if is_array && rows == 0 { BETWEEN_OBJECTS.len().min(text.len()) } else { 0 };
        output.write(&text[skipped..])?;
        rows += count;
    }
    if is_array {
        output.write(b"\n]\n")?;
    }
    output.finish()?;
    Ok(rows)
}

/// The file behind its compression.
enum Output {
    Plain(BufWriter<File>),
    Gzip(GzEncoder<BufWriter<File>>),
    Zstd(zstd::Encoder<'static, BufWriter<File>>),
}

impl Output {
    fn new(file: File, compression: CompressionTypeVariant) -> Result<Self> {
        let file = BufWriter::with_capacity(BUFFER_BYTES, file);
        Ok(match compression {
            CompressionTypeVariant::UNCOMPRESSED => Self::Plain(file),
            CompressionTypeVariant::GZIP => Self::Gzip(GzEncoder::new(file, Compression::default())),
            CompressionTypeVariant::ZSTD => Self::Zstd(zstd::Encoder::new(file, 0).map_err(|error| failed(&error))?),
            other => {
                return Err(
                    Error::unsupported(format!("compression {other:?} is for reading")).hint("Use gzip or zstd")
                );
            }
        })
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let written = match self {
            Self::Plain(output) => output.write_all(bytes),
            Self::Gzip(output) => output.write_all(bytes),
            Self::Zstd(output) => output.write_all(bytes),
        };
        written.map_err(|error| failed(&error))
    }

    fn finish(self) -> Result<()> {
        let finished = match self {
            Self::Plain(output) => Ok(output),
            Self::Gzip(output) => output.finish(),
            Self::Zstd(output) => output.finish(),
        };
        finished.and_then(|mut file| file.flush()).map_err(|error| failed(&error))
    }
}

fn failed(error: &std::io::Error) -> Error {
    Error::io("write", error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::{Int32Array, StringArray};

    fn batch() -> RecordBatch {
        let numbers = Int32Array::from(vec![Some(1), None, Some(3)]);
        let texts = StringArray::from(vec![Some("a|\"b\""), Some("N/A"), None]);
        RecordBatch::try_from_iter([("i", Arc::new(numbers) as _), ("t", Arc::new(texts) as _)]).expect("two columns")
    }

    fn check(format: Format, options: Options, batch: &RecordBatch, expect: &str) {
        let style = Style::new(format, "x", &options).expect("a style");
        let mut out = if style.has_header { style.header(&batch.schema()).expect("names") } else { Vec::new() };
        out.extend(style.text(batch).expect("plain values"));
        assert_eq!(String::from_utf8(out).expect("text"), expect);
    }

    #[test]
    fn values_are_quoted_where_they_must_be() {
        check(Format::Csv, Options::default(), &batch(), "i,t\n1,\"a|\"\"b\"\"\"\n,N/A\n3,\n");
        let options = Options { null: Some("N/A".to_owned()), delimiter: Some(b'|'), ..Options::default() };
        check(Format::Csv, options, &batch(), "i|t\n1|\"a|\"\"b\"\"\"\nN/A|\"N/A\"\n3|N/A\n");
    }

    #[test]
    fn a_null_alone_is_a_row() {
        let one = batch().project(&[0]).expect("one column");
        check(Format::Csv, Options::default(), &one, "i\n1\n\"\"\n3\n");
    }

    #[test]
    fn a_tbl_file_has_no_quotes() {
        let options = Options { delimiter: Some(b';'), ..Options::default() };
        check(Format::Tbl, options, &batch(), "1;a|\"b\";\n;N/A;\n3;;\n");
        let style = Style::new(Format::Tbl, "x", &Options::default()).expect("a style");
        let error = style.text(&batch()).expect_err("a delimiter in a value").to_string();
        assert!(error.contains("column t") && error.contains("without quotes"), "{error}");
    }

    #[test]
    fn quotes_are_escaped_and_forced() {
        let options = Options { escape: Some(b'\\'), force_quote: vec!["I".to_owned()], ..Options::default() };
        check(Format::Csv, options, &batch(), "\"i\",t\n\"1\",\"a|\\\"b\\\"\"\n,N/A\n\"3\",\n");
    }
}
