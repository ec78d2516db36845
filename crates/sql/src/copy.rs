//! COPY … FROM: files into tables.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use datafusion::datasource::provider_as_source;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::prelude::{cast, ident as column_expr};
use forebay_base::{Error, ErrorKind, LogicalType, Result};
use forebay_changes::checks::checked;
use forebay_changes::columns::unknown_column;
use forebay_context::error::from_datafusion;
use forebay_engine::types::arrow_type;
use forebay_files::files::{self, TRAILING_COLUMN};
use forebay_files::input::without_null_text;
use forebay_files::json;
use forebay_files::records::{Record, Records, first_record};
use forebay_files::sniff::delimiter_for;
use forebay_forms::file_options::{Format, Options};
use forebay_functions::blob_text::blob_of_text;
use forebay_functions::casts;
use forebay_names::qualified_name::ident;
use forebay_store::{Column, Table, names_equal};

use crate::catalog::Planner;

/// Rows that the search for a bad value converts at a time.
const DIAGNOSIS_ROWS: usize = 8192;

/// What COPY … FROM reads: the plan, and what is needed to say where a bad value is.
#[derive(Debug)]
pub struct Input {
    /// Rows in the order of the table's columns.
    pub plan: Arc<LogicalPlan>,
    /// The files.
    pub files: Vec<String>,
    format: Format,
    /// Columns as they lie in the files.
    columns: Vec<Column>,
    options: Options,
}

/// Plans `COPY table (names) FROM path`.
pub async fn plan_input(
    planner: &Arc<Planner>,
    state: &SessionState,
    table: &Table,
    names: &[datafusion::sql::sqlparser::ast::Ident],
    path: &str,
    mut options: Options,
) -> Result<Input> {
    let listed: Vec<Column> = match names.is_empty() {
        true => table.columns.clone(),
        false => names
            .iter()
            .map(|name| {
                let found = table.column(&ident(name)).map(|(_, column)| column.clone());
                found.ok_or_else(|| {
                    unknown_column(&ident(name), table.columns.iter().map(|column| column.name.as_str()))
                })
            })
            .collect::<Result<_>>()?,
    };
    let files = files::matching_files(path)?;
    let first = files.first().map_or(path, String::as_str);
    let Some(format) = options.format.or_else(|| Format::of_path(first)) else {
        return Err(Error::input(format!("the format of {path} is not clear from its name"))
            .hint("Say COPY … FROM … (FORMAT csv), or tbl, parquet or json"));
    };
    options.format = Some(format);
    let mut columns = listed;
    if options.date_format.is_some() || options.timestamp_format.is_some() || !options.types.is_empty() {
        return Err(Error::unsupported("COPY reads values in the types of the table")
            .hint("Write INSERT INTO t SELECT * FROM read_csv('file', dateformat = '%d.%m.%Y')"));
    }
    if matches!(format, Format::Csv | Format::Tbl) {
        columns = delimited_columns(format, &files, columns, names.is_empty(), &mut options)?;
    }
    let provider = match format {
        Format::Json => json::open(&files, &columns, &options)?,
        _ => files::open(state, path, &options).await?,
    };
    let file_schema = provider.schema();
    let scan =
        LogicalPlanBuilder::scan(path_name(path), provider_as_source(provider), None).map_err(from_datafusion)?;
    let mut values = Vec::with_capacity(table.columns.len());
    for column in &table.columns {
        values.push(column_value(planner, column, &columns, &file_schema, &options, first)?);
    }
    let plan = scan.project(values).and_then(LogicalPlanBuilder::build).map_err(from_datafusion)?;
    let plan = checked(state, table, plan)?;
    Ok(Input { plan: Arc::new(plan), files, format, columns, options })
}

fn path_name(path: &str) -> datafusion::common::TableReference {
    datafusion::common::TableReference::bare(path)
}

/// Which of the table's columns a delimited file has, in its order: by its header where that names the columns.
fn delimited_columns(
    format: Format,
    files: &[String],
    listed: Vec<Column>,
    by_header: bool,
    options: &mut Options,
) -> Result<Vec<Column>> {
    let mut columns = listed;
    let Some((first, others)) = files.split_first() else { return Ok(columns) };
    if options.delimiter.is_none() && format == Format::Csv {
        options.delimiter = delimiter_for(first, columns.len(), options)?;
    }
    if options.header.is_none() && format == Format::Csv {
        let header = has_header(first, &columns, options)?;
        for other in others {
            if !header && has_header(other, &columns, options)? {
                let error = Error::input(format!("the first line names columns, but not that of {first}"));
                return Err(error.context(format!("file {other}")).hint("Say HEADER true or HEADER false"));
            }
        }
        options.header = Some(header);
    }
    if by_header
        && options.header == Some(true)
        && let Some(ordered) = columns_of_header(first, &columns, options)?
    {
        columns = ordered;
    }
    let trailing = format == Format::Tbl && files::has_trailing_delimiter(first, options)?;
    options.schema = Some(text_schema(&columns, trailing, options));
    Ok(columns)
}

/// The types in which a text file's columns are read: their own where the reader knows them, else text that is cast. With
/// a text for NULL all are read as text.
fn text_schema(columns: &[Column], trailing: bool, options: &Options) -> SchemaRef {
    let mut fields: Vec<Field> = columns
        .iter()
        .map(|column| {
            let own = arrow_type(&column.logical);
            let read = match own {
                own if options.is_read_one_by_one() && column.logical != LogicalType::Blob => own,
                _ if options.null.is_some() => DataType::Utf8View,
                DataType::BinaryView | DataType::Interval(_) | DataType::Boolean => DataType::Utf8View,
                // The reader would cut digits of decimals off.
                DataType::Timestamp(..) | DataType::Time64(_) | DataType::Decimal128(..) => DataType::Utf8View,
                own => own,
            };
            Field::new(&column.name, read, true)
        })
        .collect();
    if trailing {
        fields.push(Field::new(TRAILING_COLUMN, DataType::Utf8View, true));
    }
    Arc::new(Schema::new(fields))
}

fn column_value(
    planner: &Arc<Planner>,
    column: &Column,
    in_file: &[Column],
    file_schema: &Schema,
    options: &Options,
    file: &str,
) -> Result<Expr> {
    let target = arrow_type(&column.logical);
    if in_file.iter().any(|other| other.id == column.id) {
        let found = file_schema.fields().iter().find(|field| names_equal(field.name(), &column.name));
        if let Some(field) = found {
            let mut value = column_expr(field.name().as_str());
            if let (Some(null), DataType::Utf8View, false) =
                (&options.null, field.data_type(), options.is_read_one_by_one())
            {
                let holds_text = matches!(column.logical, LogicalType::Varchar | LogicalType::Blob);
                value = without_null_text(value, null, holds_text);
            }
            if column.logical == LogicalType::Blob && options.format != Some(Format::Parquet) {
                value = blob_of_text(cast(value, DataType::Utf8View));
                return Ok(value.alias(&column.name));
            }
            let value = if *field.data_type() == target { value } else { cast(value, target) };
            return Ok(value.alias(&column.name));
        }
        if options.format == Some(Format::Parquet) {
            let names: Vec<&str> = file_schema.fields().iter().map(|field| field.name().as_str()).collect();
            let error = Error::new(ErrorKind::NotFound, format!("file {file} has no column {}", column.name));
            return Err(match forebay_context::error::suggestion(&column.name, names.iter().copied()) {
                Some(other) => error.hint(format!("It has a column {other}")),
                None => error.hint(format!("Its columns are {}", shown_names(&names))),
            });
        }
    }
    let value = match &column.default {
        Some(text) => planner.default_expr(text)?,
        None => lit(ScalarValue::Null),
    };
    Ok(cast(value, target).alias(&column.name))
}

fn shown_names(names: &[&str]) -> String {
    match names.len() {
        0..=8 => names.join(", "),
        more => format!("{}, … {} more", names[..8].join(", "), more - 8),
    }
}

/// Whether the first line names columns: some of the table's columns, or at least no value that one could hold.
fn has_header(path: &str, columns: &[Column], options: &Options) -> Result<bool> {
    let record = first_record(path, options)?;
    let is_name = |text: &String| columns.iter().any(|column| names_equal(column.name.as_str(), text.trim()));
    Ok(!record.is_empty() && record.iter().filter(|text| is_name(text)).count() * 2 >= record.len())
}

/// The columns in the order of the header; `None` where the header does not name exactly them.
fn columns_of_header(path: &str, columns: &[Column], options: &Options) -> Result<Option<Vec<Column>>> {
    let record = first_record(path, options)?;
    let find = |text: &String| columns.iter().find(|column| names_equal(&column.name, text.trim())).cloned();
    let found: Option<Vec<Column>> = record.iter().map(find).collect();
    Ok(found.filter(|found| !found.is_empty()))
}

impl Input {
    /// The place of the first bad value of the files, if the load failed for one; else `error` as it is.
    pub fn diagnose(&self, error: Error) -> Error {
        let is_about_data = matches!(error.kind(), ErrorKind::Input | ErrorKind::Internal | ErrorKind::Io);
        for file in &self.files {
            let found = match self.format {
                _ if !is_about_data => break,
                Format::Parquet => break,
                Format::Json => self.find_bad_line(file),
                Format::Csv | Format::Tbl => self.find_bad_value(file),
            };
            match found {
                Ok(Some(found)) => return found,
                Ok(None) => {}
                Err(other) => return other,
            }
        }
        if error.to_string().contains("file ") {
            return error;
        }
        error.context(format!("file {}", self.files.join(", ")))
    }

    fn find_bad_line(&self, file: &str) -> Result<Option<Error>> {
        let found = json::find_bad_line(file, &self.columns, &self.options)?;
        Ok(found.map(|(line, error)| place(error, file, line, None)))
    }

    fn find_bad_value(&self, file: &str) -> Result<Option<Error>> {
        let mut records = Records::open(file, &self.options)?;
        if self.options.header == Some(true) {
            records.next_record()?;
        }
        let mut pending: Vec<Record> = Vec::new();
        loop {
            let record = records.next_record()?;
            let is_end = record.is_none();
            if let Some(record) = record {
                // A trailing delimiter gives one empty field more.
                let trailing = self.format == Format::Tbl && record.fields.last().is_some_and(Vec::is_empty);
                let fields = record.fields.len() - usize::from(trailing && record.fields.len() > self.columns.len());
                let is_blank = record.fields.len() == 1 && record.fields[0].is_empty();
                if fields != self.columns.len() && !is_blank {
                    let message = format!("the line has {fields} values where {} are expected", self.columns.len());
                    return Ok(Some(place(Error::input(message), file, record.line, None)));
                }
                pending.push(record);
            }
            if is_end || pending.len() == DIAGNOSIS_ROWS {
                for (index, column) in self.columns.iter().enumerate() {
                    if let Some(error) = self.bad_in_column(file, index, column, &pending)? {
                        return Ok(Some(error));
                    }
                }
                pending.clear();
            }
            if is_end {
                return Ok(None);
            }
        }
    }

    fn bad_in_column(&self, file: &str, index: usize, column: &Column, records: &[Record]) -> Result<Option<Error>> {
        let null = self.options.null.as_deref().unwrap_or("");
        let mut values = Vec::with_capacity(records.len());
        for record in records {
            let bytes = record.fields.get(index).map_or(&[][..], Vec::as_slice);
            match std::str::from_utf8(bytes) {
                Ok(text) => values.push((text != null).then_some(text)),
                Err(_) => {
                    let error = Error::input(format!("the value of column {} is not valid UTF-8", column.name));
                    return Ok(Some(place(error, file, record.line, Some(index))));
                }
            }
        }
        let texts = StringArray::from(values);
        let converted = casts::cast(&(Arc::new(texts.clone()) as ArrayRef), &arrow_type(&column.logical), true);
        let converted = converted.map_err(|error| Error::internal(error.to_string()))?;
        for (row, record) in records.iter().enumerate() {
            if texts.is_valid(row) && converted.is_null(row) {
                let shown: String = texts.value(row).chars().take(40).collect();
                let message = format!("cannot read {shown:?} as {} for column {}", column.logical, column.name);
                return Ok(Some(place(Error::input(message), file, record.line, Some(index))));
            }
            if !column.nullable && texts.is_null(row) {
                let message = format!("NULL in column {}, which is NOT NULL", column.name);
                let error = Error::new(ErrorKind::Constraint, message);
                return Ok(Some(place(error, file, record.line, Some(index))));
            }
        }
        Ok(None)
    }
}

fn place(error: Error, file: &str, line: u64, column: Option<usize>) -> Error {
    let error = match column {
        Some(column) => error.context(format!("line {line}, column {}", column + 1)),
        None => error.context(format!("line {line}")),
    };
    error.context(format!("file {file}")).hint("No row was loaded")
}
