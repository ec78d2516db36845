//! Files as tables: `FROM 'file.parquet'`, globs, and what COPY … FROM reads.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::parsers::CompressionTypeVariant;
use datafusion::datasource::file_format::FileFormat;
use datafusion::datasource::file_format::csv::CsvFormat;
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::file_format::json::JsonFormat;
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::prelude::{cast, ident};
use forebay_base::{Context, Error, ErrorKind, Result, limits};
use forebay_context::error::from_datafusion;
use forebay_context::statement::StatementContext;
use forebay_forms::file_options::{BETWEEN_FILES, Format, Options, split_compression};

use crate::checked::Checked;
use crate::each_file::{EachFile, not_in_all};
use crate::input::{csv_options, decompressed, is_single_column, too_wide, without_null_text};
use crate::records::{self, Quotes};
use crate::sniff::{Sniffed, sniff};
use crate::{in_sequence, lines, parquet, tolerant, typed_values};

/// Opens the file or the files of a glob as one table.
pub async fn open(state: &SessionState, path: &str, options: &Options) -> Result<Arc<dyn TableProvider>> {
    let files = matching_files(path)?;
    // What COPY reads has the columns of its table.
    let each = if options.schema.is_none() { EachFile::of(&files, options)? } else { None };
    let Some(each) = each else { return open_together(state, path, files, options).await };
    let mut tables = Vec::with_capacity(files.len());
    for file in &files {
        tables.push(open_together(state, file, vec![file.clone()], options).await?);
    }
    each.together(&files, tables)
}

/// As [`open`], of files whose rows lie one behind the other.
async fn open_together(
    state: &SessionState,
    path: &str,
    files: Vec<String>,
    options: &Options,
) -> Result<Arc<dyn TableProvider>> {
    let first = files.first().map_or(path, String::as_str);
    let format = match options.format.or_else(|| Format::of_path(first)) {
        Some(format) => format,
        None => {
            return Err(Error::input(format!("the format of {path} is not clear from its name"))
                .hint("Name it *.csv, *.tbl, *.parquet or *.json, or say COPY … (FORMAT csv)"));
        }
    };
    let (sniffed, options) = told(first, format, options)?;
    let options = &options;
    let compression = compression_of(first, options);
    let urls = files
        .iter()
        .map(|file| ListingTableUrl::parse(url(file)?).map_err(from_datafusion))
        .collect::<Result<Vec<_>>>()?;
    let text = match format {
        Format::Parquet => parquet::check_files(state, &files).map(|()| Text::default())?,
        Format::Json => check_lines(&files, options, lines::check_json)?,
        Format::Csv | Format::Tbl => {
            // Lengths come first: whoever reads the first record holds it.
            let text = check_quotes(&files, format, options)?;
            check_width(first, format, options)?;
            check_headers(&files, format, options)?;
            text
        }
    };
    let reader = reader(state, format, first, compression, options, text)?;
    if let Some(statement) = state.config().get_extension::<StatementContext>() {
        statement.reads(&files);
    }
    if format == Format::Csv && (options.is_tolerant() || (options.is_read_one_by_one() && options.schema.is_some())) {
        let batch_rows = lines::batch_rows(text.line_bytes);
        return read_one_by_one(state, &files, sniffed.as_ref(), options, batch_rows);
    }
    let listing = ListingOptions::new(reader).with_file_extension("");
    let null = options.null.as_deref().filter(|_| matches!(format, Format::Csv | Format::Tbl));
    let reads_texts = options.reads_texts() && matches!(format, Format::Csv | Format::Tbl);
    let inferred = match (&options.schema, &sniffed) {
        (Some(schema), _) => Arc::clone(schema),
        (None, Some(sniffed)) => sniffed.read_schema(reads_texts),
        (None, None) => inferred(state, &listing, &files, &urls, format, options).await?,
    };
    let is_text = matches!(format, Format::Csv | Format::Tbl);
    let schema = if null.is_some() && options.schema.is_none() { all_text(&inferred) } else { Arc::clone(&inferred) };
    let has_one_column = is_text && is_single_column(&schema, options);
    let table = if has_one_column || (is_text && options.skip > 0) {
        let csv = csv_options(format, first, compression, options)?;
        in_sequence::open(&files, &csv, &schema, options.skip, lines::batch_rows(text.line_bytes))?
    } else {
        let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(listing).with_schema(schema);
        Arc::new(ListingTable::try_new(config).map_err(from_datafusion)?)
    };
    match &sniffed {
        Some(sniffed) if reads_texts || sniffed.is_cast() => projected(table, None, sniffed.values(state, options)?),
        None if options.schema.is_none() && (null.is_some() || format == Format::Tbl) => view(table, &inferred, null),
        _ => Ok(table),
    }
}

/// What a CSV file is like whose columns nobody told, and the options with what is to be known of its dialect.
fn told(file: &str, format: Format, options: &Options) -> Result<(Option<Sniffed>, Options)> {
    let mut options = options.clone();
    if format != Format::Csv || options.schema.is_some() {
        return Ok((None, options));
    }
    let sniffed = sniff(file, &options)?;
    (options.delimiter, options.header) = (Some(sniffed.delimiter), Some(sniffed.has_header));
    options.skip = sniffed.skip;
    Ok((Some(sniffed), options))
}

/// The rows of CSV files whose records are read one by one, with the columns that COPY asks for, or that the file was told to have.
fn read_one_by_one(
    state: &SessionState,
    files: &[String],
    sniffed: Option<&Sniffed>,
    options: &Options,
    batch_rows: usize,
) -> Result<Arc<dyn TableProvider>> {
    let mut columns: Vec<(&str, &DataType, Option<&str>)> = Vec::new();
    match (&options.schema, sniffed) {
        (Some(schema), _) => {
            columns.extend(schema.fields().iter().map(|field| (field.name().as_str(), field.data_type(), None)));
        }
        (None, Some(sniffed)) => columns.extend(sniffed.columns()),
        (None, None) => return Err(Error::internal("a file of unknown columns")),
    }
    let table = tolerant::open(files, columns.iter().map(|(name, ..)| *name), options, batch_rows)?;
    let value = |(name, data_type, form): &(&str, &DataType, Option<&str>)| {
        typed_values::value(state, name, data_type, *form, options)
    };
    let values = columns.iter().map(value).collect::<Result<Vec<_>>>()?;
    let condition = typed_values::castable(columns.iter().map(|(name, ..)| *name).zip(&values), options);
    let named = columns.iter().zip(values).map(|((name, ..), value)| value.alias(*name));
    projected(table, condition, named.collect())
}

/// The columns that the first of some files has, as its reader tells them.
async fn inferred(
    state: &SessionState,
    listing: &ListingOptions,
    files: &[String],
    urls: &[ListingTableUrl],
    format: Format,
    options: &Options,
) -> Result<SchemaRef> {
    let mut schemas: Vec<SchemaRef> = Vec::with_capacity(1);
    // Files of text have been compared by their headers.
    let compared = if format == Format::Parquet { files.len() } else { 1 };
    for (file, url) in files.iter().zip(urls).take(compared) {
        let own = listing.infer_schema(state, url).await;
        let own = own.map_err(|error| from_datafusion(error).context(format!("file {file}")))?;
        if let Some(first) = schemas.first() {
            check_columns(first, &own, file)?;
        } else {
            schemas.push(own);
        }
    }
    let (first, file) = match (schemas.pop(), files.first()) {
        (Some(first), Some(file)) => (first, file),
        _ => return Err(Error::internal("there is no file to read")),
    };
    match format {
        Format::Tbl => with_trailing(&first, file, options),
        Format::Parquet if files.len() > 1 => Ok(nullable(&first)),
        _ => Ok(first),
    }
}

/// Every file has the columns of the first one: a reader would take those that it lacks for NULL.
fn check_columns(first: &Schema, own: &Schema, file: &str) -> Result<()> {
    let is_there = |name: &String| own.fields().iter().any(|field| field.name() == name);
    match first.fields().iter().find(|field| !is_there(field.name())) {
        Some(missing) => Err(not_in_all(missing.name(), file)),
        None => Ok(()),
    }
}

/// The columns of several files, any of which may have NULLs.
fn nullable(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| field.as_ref().clone().with_nullable(true);
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// Every column as text.
fn all_text(schema: &Schema) -> SchemaRef {
    let field = |field: &Arc<Field>| Field::new(field.name(), DataType::Utf8View, true);
    Arc::new(Schema::new(schema.fields().iter().map(field).collect::<Vec<_>>()))
}

/// The columns of `table` in the types of `schema`, NULL where they are the text `null`, and without what is behind the
/// last delimiter.
fn view(table: Arc<dyn TableProvider>, schema: &Schema, null: Option<&str>) -> Result<Arc<dyn TableProvider>> {
    let column = |field: &Arc<Field>| {
        let mut value = ident(field.name().as_str());
        if let Some(null) = null {
            let holds_text = field.data_type().is_string();
            value = cast(without_null_text(value, null, holds_text), field.data_type().clone());
        }
        value.alias(field.name())
    };
    let columns = schema.fields().iter().filter(|field| field.name() != TRAILING_COLUMN).map(column);
    projected(table, None, columns.collect())
}

/// These values of the rows of `table` for which a condition holds.
fn projected(
    table: Arc<dyn TableProvider>,
    condition: Option<Expr>,
    values: Vec<Expr>,
) -> Result<Arc<dyn TableProvider>> {
    let plan = LogicalPlanBuilder::scan("file", provider_as_source(table), None)
        .and_then(|scan| match condition {
            Some(condition) => scan.filter(condition),
            None => Ok(scan),
        })
        .and_then(|scan| scan.project(values))
        .and_then(LogicalPlanBuilder::build)
        .map_err(from_datafusion)?;
    Ok(Arc::new(ViewTable::new(plan, None)))
}

/// The files that a path or glob names, sorted; of several paths, one after the other. An error where there are none.
pub fn matching_files(path: &str) -> Result<Vec<String>> {
    if path.contains(BETWEEN_FILES) {
        let all: Result<Vec<Vec<String>>> = path.split(BETWEEN_FILES).map(matching_files).collect();
        return Ok(all?.into_iter().flatten().collect());
    }
    let is_glob = path.contains(['*', '?', '[']) && !Path::new(path).exists();
    if is_glob {
        let wrong = |error: glob::PatternError| Error::input(format!("the pattern {path} is not valid: {error}"));
        let mut found = Vec::new();
        for entry in glob::glob(path).map_err(wrong)? {
            let entry = entry.map_err(|error| Error::io(format!("read {}", error.path().display()), error.error()))?;
            if entry.is_file() {
                found.push(entry.to_string_lossy().into_owned());
            }
        }
        if found.is_empty() {
            return Err(Error::new(ErrorKind::NotFound, format!("no file matches {path}")));
        }
        found.sort();
        return Ok(found);
    }
    let metadata = std::fs::metadata(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::new(ErrorKind::NotFound, format!("file {path} does not exist")),
        _ => Error::io(format!("read {path}"), &error),
    })?;
    if metadata.is_dir() {
        return Err(Error::input(format!("{path} is a directory"))
            .hint(format!("Name its files, for example '{path}/*.parquet'")));
    }
    std::fs::File::open(path).map_err(|error| Error::io(format!("open {path}"), &error))?;
    Ok(vec![path.to_owned()])
}

/// What the lines of text files are like.
#[derive(Debug, Clone, Copy, Default)]
struct Text {
    /// Some values span lines.
    spans_lines: bool,
    /// A length that records have.
    line_bytes: usize,
}

/// The compression of a file, from the options or its name.
fn compression_of(file: &str, options: &Options) -> CompressionTypeVariant {
    options.compression.unwrap_or_else(|| split_compression(&file.to_ascii_lowercase()).1)
}

/// Checks that no line is too long to be held, by what checks a file.
fn check_lines(
    files: &[String],
    options: &Options,
    check: fn(&str, CompressionTypeVariant, usize) -> Result<usize>,
) -> Result<Text> {
    let mut text = Text::default();
    for file in files {
        let most_bytes = options.line_bytes.unwrap_or(limits::LINE_BYTES);
        let longest = check(file, compression_of(file, options), most_bytes);
        text.line_bytes = text.line_bytes.max(longest.context(|| format!("file {file}"))?);
    }
    Ok(text)
}

/// No file has more columns than a table may have.
fn check_width(file: &str, format: Format, options: &Options) -> Result<()> {
    let record = records::first_record(file, &Options { format: Some(format), ..options.clone() })?;
    match record.len() > limits::TABLE_COLUMNS + 1 {
        true => Err(too_wide(file, record.len())),
        false => Ok(()),
    }
}

/// A header is that of all files: their columns are told by it, in its order.
fn check_headers(files: &[String], format: Format, options: &Options) -> Result<()> {
    let Some((first, others)) = files.split_first().filter(|(_, others)| !others.is_empty()) else { return Ok(()) };
    if !options.header.unwrap_or(format == Format::Csv) {
        return Ok(());
    }
    let options = Options { format: Some(format), ..options.clone() };
    let names = |file: &String| -> Result<Vec<String>> {
        let record = records::first_record(file, &options)?;
        Ok(record.iter().map(|name| name.trim().to_lowercase()).collect())
    };
    let expected = names(first)?;
    for file in others {
        let own = names(file)?;
        // A file without any line has no rows either.
        if !own.is_empty() && own != expected {
            let shown = |names: &[String]| names.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
            let message = format!("the header is {}, but {} in {first}", shown(&own), shown(&expected));
            return Err(Error::input(message).context(format!("file {file}")).hint("Read the files one by one"));
        }
    }
    Ok(())
}

/// What the lines of delimited files are like; an error where one is too long, or a quote is not closed.
fn check_quotes(files: &[String], format: Format, options: &Options) -> Result<Text> {
    if format == Format::Tbl && options.quote.is_none() {
        return check_lines(files, options, lines::check);
    }
    let mut text = Text::default();
    for file in files {
        let csv = csv_options(format, file, compression_of(file, options), options)?;
        let (quotes, line_bytes) = records::quotes(file, &csv, options.line_bytes.unwrap_or(limits::LINE_BYTES))?;
        text.line_bytes = text.line_bytes.max(line_bytes);
        match quotes {
            Quotes::Inline => {}
            Quotes::SpanLines => text.spans_lines = true,
            Quotes::Open => {
                let options = Options { format: Some(format), ..options.clone() };
                let line = records::last_line(file, &options)?;
                return Err(Error::input("a quote is not closed")
                    .context(format!("line {line}"))
                    .context(format!("file {file}")));
            }
        }
    }
    Ok(text)
}

/// The URL of a file, in which no character of its path has a meaning of its own.
pub fn url(path: &str) -> Result<String> {
    let full = std::path::absolute(path).map_err(|error| Error::io(format!("find {path}"), &error))?;
    let full = full.to_str().ok_or_else(|| Error::input(format!("the path of {path} is not UTF-8")))?;
    let mut url = "file://".to_owned();
    for byte in full.bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => url.push(char::from(byte)),
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    Ok(url)
}

fn reader(
    state: &SessionState,
    format: Format,
    path: &str,
    compression: CompressionTypeVariant,
    options: &Options,
    text: Text,
) -> Result<Arc<dyn FileFormat>> {
    let compressed = FileCompressionType::from(compression);
    let batch_rows = (format != Format::Parquet).then(|| lines::batch_rows(text.line_bytes));
    let format: Arc<dyn FileFormat> = match format {
        Format::Parquet => Arc::new(ParquetFormat::default().with_options(state.default_table_options().parquet)),
        Format::Json => Arc::new(JsonFormat::default().with_file_compression_type(compressed)),
        Format::Csv | Format::Tbl => {
            let mut csv = csv_options(format, path, compression, options)?;
            // Only lines that are records can be shared among threads.
            csv.newlines_in_values = Some(text.spans_lines);
            Arc::new(CsvFormat::default().with_options(csv))
        }
    };
    Ok(Arc::new(Checked { format, batch_rows }))
}

/// The columns of a `.tbl` file, where the empty one that its trailing delimiter makes has its own name.
fn with_trailing(schema: &SchemaRef, path: &str, options: &Options) -> Result<SchemaRef> {
    let mut fields: Vec<Field> = schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    if !has_trailing_delimiter(path, options)? {
        return Ok(Arc::clone(schema));
    }
    if let Some(last) = fields.last_mut() {
        *last = Field::new(TRAILING_COLUMN, DataType::Utf8View, true);
    }
    Ok(Arc::new(Schema::new(fields)))
}

/// The name of the empty column behind a trailing delimiter.
pub const TRAILING_COLUMN: &str = "_trailing";

/// Whether the first line of an uncompressed or compressed `.tbl` file ends with its delimiter.
pub fn has_trailing_delimiter(path: &str, options: &Options) -> Result<bool> {
    use std::io::{BufRead, BufReader, Read};
    let compression = compression_of(path, options);
    let mut line = Vec::new();
    let input = decompressed(path, compression)?.take(1 << 20);
    BufReader::new(input).read_until(b'\n', &mut line).map_err(|error| Error::io(format!("read {path}"), &error))?;
    while line.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        line.pop();
    }
    Ok(line.last() == Some(&options.delimiter.unwrap_or(b'|')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_character_of_a_path_has_a_meaning_in_its_url() {
        assert_eq!(url("/a b/100%[1]?*#.csv").expect("a path"), "file:///a%20b/100%25%5B1%5D%3F%2A%23.csv");
    }
}
