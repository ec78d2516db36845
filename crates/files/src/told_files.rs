//! `parquet_metadata('file')` and the like, and `sniff_csv('file')`: what files say of themselves, as tables; and `read_text`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, new_empty_array};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use datafusion::catalog::{TableFunctionArgs, TableFunctionImpl, TableProvider};
use datafusion::common::scalar::ScalarStructBuilder;
use datafusion::common::{Result as DataFusionResult, ScalarValue};
use datafusion::datasource::MemTable;
use datafusion::execution::SessionState;
use datafusion::logical_expr::Expr;
use forebay_base::{Context, Error, Result};
use forebay_context::error::{from_datafusion, into_datafusion};
use forebay_context::words::plain_words;
use forebay_forms::file_options::{Options, TOLD_FUNCTIONS};
use forebay_syntax::parse;
use forebay_syntax::types::shown_type;

use crate::files;
use crate::parquet::{self, metadata_rows, schema_rows};
use crate::sniff::{self, Sniffed};
use crate::told_types::{Rows, box_type, column_type, list, map_type, page_type};
use crate::whole_files;

/// Adds the functions to a session.
pub fn register(state: &mut SessionState) {
    for name in TOLD_FUNCTIONS {
        state.register_udtf(name, Arc::new(Told(name)));
    }
}

#[derive(Debug)]
struct Told(&'static str);

impl TableFunctionImpl for Told {
    fn call_with_args(&self, args: TableFunctionArgs<'_, '_>) -> DataFusionResult<Arc<dyn TableProvider>> {
        let text = |argument: &Expr| match argument {
            Expr::Literal(ScalarValue::Utf8(Some(text)) | ScalarValue::Utf8View(Some(text)), _) => Some(text.clone()),
            _ => None,
        };
        let texts: Option<Vec<String>> = args.exprs().iter().map(text).collect();
        let (pattern, told_options) = match texts.as_deref() {
            Some([pattern]) => (pattern.clone(), &[][..]),
            Some([pattern, others @ ..]) if self.0 == "sniff_csv" => (pattern.clone(), others),
            _ => {
                let other = args.exprs();
                let shown: Vec<String> = other.iter().map(ToString::to_string).collect();
                let message = plain_words(&format!("{} takes the path of a file, not ({})", self.0, shown.join(", ")));
                return Err(into_datafusion(Error::input(message).hint(format!("Write FROM {}('path')", self.0))));
            }
        };
        let mut options = Options::default();
        for text in told_options {
            let (name, value) = text.split_once('=').unwrap_or((text, ""));
            parse::set_option(&mut options, name, value).map_err(into_datafusion)?;
        }
        let memory_bytes = parquet::memory_bytes(args.session());
        told(self.0, &pattern, &options, memory_bytes).map_err(into_datafusion)
    }
}

/// The table of a function of files.
fn told(function: &str, pattern: &str, options: &Options, memory_bytes: usize) -> Result<Arc<dyn TableProvider>> {
    let (fields, mut rows) = (columns(function), Rows::new());
    let named =
        if whole_files::is_one(function) { whole_files::matching(pattern) } else { files::matching_files(pattern) };
    for file in named? {
        let of_file = match function {
            whole if whole_files::is_one(whole) => whole_files::row(whole, &file, memory_bytes).map(|row| vec![row]),
            "sniff_csv" => sniff::sniff(&file, options).map(|found| vec![sniffed(&file, &found)]),
            _ => parquet::metadata(&file, memory_bytes).map(|known| match function {
                "parquet_metadata" => metadata_rows::chunks(&file, &known),
                "parquet_schema" => schema_rows::elements(&file, &known),
                "parquet_file_metadata" => vec![metadata_rows::file(&file, &known)],
                _ => metadata_rows::entries(&file, &known),
            }),
        };
        rows.extend(of_file.context(|| format!("file {file}"))?);
    }
    let arrays: DataFusionResult<Vec<ArrayRef>> = fields
        .iter()
        .enumerate()
        .map(|(column, field)| match rows.is_empty() {
            true => Ok(new_empty_array(field.data_type())),
            false => ScalarValue::iter_to_array(rows.iter().map(|row| row[column].clone())),
        })
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays.map_err(from_datafusion)?)
        .map_err(|error| Error::internal(error.to_string()))?;
    Ok(Arc::new(MemTable::try_new(schema, vec![vec![batch]]).map_err(from_datafusion)?))
}

/// The row of a CSV file, which is like `found`.
fn sniffed(path: &str, found: &Sniffed) -> Vec<ScalarValue> {
    let text = |text: &str| ScalarValue::Utf8(Some(text.to_owned()));
    let columns: Vec<(&str, String)> =
        found.columns().map(|(name, data_type, _)| (name, shown_type(data_type))).collect();
    let form_of = |wanted: fn(&DataType) -> bool| found.columns().find(|(_, data_type, _)| wanted(data_type));
    let date = form_of(|data_type| matches!(data_type, DataType::Date32));
    let date = date.map(|(_, _, form)| form.unwrap_or("%Y-%m-%d").to_owned());
    // SQL's own form of timestamps is not told.
    let timestamp = form_of(|data_type| matches!(data_type, DataType::Timestamp(..)));
    let timestamp = timestamp.and_then(|(_, _, form)| form.map(str::to_owned));
    let quoted = |text: &str| format!("'{}'", text.replace('\'', "''"));
    let delimiter = char::from(found.delimiter).to_string();
    let types: Vec<String> =
        columns.iter().map(|(name, data_type)| format!("{}: {}", quoted(name), quoted(data_type))).collect();
    let forms = [("dateformat", &date), ("timestampformat", &timestamp)];
    let forms =
        forms.into_iter().filter_map(|(name, form)| form.as_ref().map(|form| format!(", {name}={}", quoted(form))));
    let prompt = format!(
        "FROM read_csv({}, auto_detect=false, delim={}, quote='\"', escape='\"', new_line='\\n', skip={}, comment='', header={}, columns={{{}}}{});",
        quoted(path),
        quoted(&delimiter),
        found.skip,
        found.has_header,
        types.join(", "),
        forms.collect::<String>()
    );
    let column = |(name, data_type): &(&str, String)| {
        let parts = [("name", *name), ("type", data_type.as_str())];
        let built = parts.into_iter().fold(ScalarStructBuilder::new(), |built, (field, value)| {
            built.with_scalar(Field::new(field, DataType::Utf8, true), text(value))
        });
        built.build().unwrap_or(ScalarValue::Null)
    };
    let listed: Vec<ScalarValue> = columns.iter().map(column).collect();
    vec![
        text(&delimiter),
        text("\""),
        text("\""),
        text("\\n"),
        text("(empty)"),
        ScalarValue::UInt32(u32::try_from(found.skip).ok()),
        ScalarValue::Boolean(Some(found.has_header)),
        ScalarValue::List(ScalarValue::new_list_nullable(&listed, &column_type())),
        ScalarValue::Utf8(date),
        ScalarValue::Utf8(timestamp),
        ScalarValue::Utf8(None),
        text(&prompt),
    ]
}

fn columns(function: &str) -> Vec<Field> {
    if whole_files::is_one(function) {
        return whole_files::columns(function);
    }
    use DataType::{Boolean, Int64, UInt32, UInt64, Utf8};
    let all: Vec<(&str, DataType)> = match function {
        "parquet_metadata" => of_chunks(),
        "parquet_schema" => vec![
            ("file_name", Utf8),
            ("name", Utf8),
            ("type", Utf8),
            ("type_length", Utf8),
            ("repetition_type", Utf8),
            ("num_children", Int64),
            ("converted_type", Utf8),
            ("scale", Int64),
            ("precision", Int64),
            ("field_id", Int64),
            ("logical_type", Utf8),
            ("duckdb_type", Utf8),
            ("column_id", Int64),
        ],
        "parquet_file_metadata" => vec![
            ("file_name", Utf8),
            ("created_by", Utf8),
            ("num_rows", Int64),
            ("num_row_groups", Int64),
            ("format_version", Int64),
            ("encryption_algorithm", Utf8),
            ("footer_signing_key_metadata", Utf8),
            ("file_size_bytes", UInt64),
            ("footer_size", UInt64),
            ("column_orders", list(Utf8)),
        ],
        "parquet_kv_metadata" => {
            vec![("file_name", Utf8), ("key", DataType::Binary), ("value", DataType::Binary)]
        }
        _ => vec![
            ("Delimiter", Utf8),
            ("Quote", Utf8),
            ("Escape", Utf8),
            ("NewLineDelimiter", Utf8),
            ("Comment", Utf8),
            ("SkipRows", UInt32),
            ("HasHeader", Boolean),
            ("Columns", list(column_type())),
            ("DateFormat", Utf8),
            ("TimestampFormat", Utf8),
            ("UserArguments", Utf8),
            ("Prompt", Utf8),
        ],
    };
    all.into_iter().map(|(name, data_type)| Field::new(name, data_type, true)).collect()
}

/// The columns of `parquet_metadata`.
fn of_chunks() -> Vec<(&'static str, DataType)> {
    use DataType::{Boolean, Int64, Utf8};
    vec![
        ("file_name", Utf8),
        ("row_group_id", Int64),
        ("row_group_num_rows", Int64),
        ("row_group_num_columns", Int64),
        ("row_group_bytes", Int64),
        ("column_id", Int64),
        ("file_offset", Int64),
        ("num_values", Int64),
        ("path_in_schema", Utf8),
        ("type", Utf8),
        ("stats_min", Utf8),
        ("stats_max", Utf8),
        ("stats_null_count", Int64),
        ("stats_distinct_count", Int64),
        ("stats_min_value", Utf8),
        ("stats_max_value", Utf8),
        ("compression", Utf8),
        ("encodings", Utf8),
        ("index_page_offset", Int64),
        ("dictionary_page_offset", Int64),
        ("data_page_offset", Int64),
        ("total_compressed_size", Int64),
        ("total_uncompressed_size", Int64),
        ("key_value_metadata", map_type()),
        ("bloom_filter_offset", Int64),
        ("bloom_filter_length", Int64),
        ("min_is_exact", Boolean),
        ("max_is_exact", Boolean),
        ("row_group_compressed_bytes", Int64),
        ("geo_bbox", box_type()),
        ("geo_types", list(Utf8)),
        ("encoding_stats", list(page_type())),
        ("stats_nan_count", Int64),
    ]
}
