//! What the database says of itself in statements of their own: DESCRIBE, SHOW DATABASES, SHOW STATS, CHECK DATABASE,
//! PRAGMA table_info and version, OPTIMIZE TABLE … SUGGEST.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::datatypes::{Field, Schema};
use forebay_base::{Error, Result, Value};
use forebay_engine::analyze::Method;
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_layout::ShownSuggestion;
use forebay_store::{BackupReport, CheckReport, Column, Constraint, TableSnapshot};
use forebay_syntax::types::{shown_field, shown_type};
use forebay_tables::nested_columns;
use forebay_tables::table::primary_key;

use crate::CATALOG;

/// A column of answers.
pub type Answer = (&'static str, ArrayRef);

/// Columns as an answer.
///
/// # Errors
/// Columns of different lengths, which would be a bug.
pub fn batch(columns: Vec<Answer>) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::internal(error.to_string()))
}

/// Texts.
pub fn text<T: Into<String>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(values.into_iter().map(|value| Some(value.into())).collect::<StringArray>())
}

/// Texts, some of which are NULL.
pub fn optional_text(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

/// Numbers.
pub fn count(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<UInt64Array>())
}

/// SHOW DATABASES.
pub fn databases(path: &str) -> Result<RecordBatch> {
    batch(vec![("database", text([CATALOG])), ("path", text([path]))])
}

/// DESCRIBE a query; `told` are types that its schema does not have.
pub fn describe_schema(schema: &Schema, told: &[Option<String>]) -> Result<RecordBatch> {
    let fields = schema.fields();
    batch(vec![
        ("column_name", text(fields.iter().map(|field| field.name().as_str()))),
        (
            "column_type",
            text(fields.iter().zip(told).map(|(field, told)| told.clone().unwrap_or_else(|| shown_field(field)))),
        ),
        ("null", text(fields.iter().map(|_| "YES"))),
        ("key", optional_text(fields.iter().map(|_| None))),
        ("default", optional_text(fields.iter().map(|_| None))),
        ("extra", optional_text(fields.iter().map(|_| None))),
    ])
}

/// DESCRIBE a table. The compression of a column is what its own option asks, or else its table's.
pub fn describe_table(table: &forebay_store::Table) -> Result<RecordBatch> {
    let key = primary_key(table);
    let columns = &table.columns;
    let is_unique =
        |id| table.constraints.iter().any(|one| matches!(one, Constraint::Unique(ids) if ids.contains(&id)));
    let kind = |column: &Column| match (key.contains(&column.name), is_unique(column.id)) {
        (true, _) => Some("PRI".to_owned()),
        (false, true) => Some("UNI".to_owned()),
        (false, false) => None,
    };
    let compression = |column| table.options.of_column(column, COMPRESSION_OPTION).map(str::to_owned);
    batch(vec![
        ("column_name", text(columns.iter().map(|column| column.name.as_str()))),
        ("column_type", text(columns.iter().map(|column| nested_columns::shown(table, column)))),
        ("null", text(columns.iter().map(|column| if column.nullable { "YES" } else { "NO" }))),
        ("key", optional_text(columns.iter().map(kind))),
        ("default", optional_text(columns.iter().map(|column| column.default.clone()))),
        ("compression", optional_text(columns.iter().map(|column| compression(column.id)))),
    ])
}

/// PRAGMA table_info of a table.
pub fn table_info(table: &forebay_store::Table) -> Result<RecordBatch> {
    let key = primary_key(table);
    let columns = &table.columns;
    info(
        columns.iter().map(|column| column.name.clone()).collect(),
        columns.iter().map(|column| nested_columns::shown(table, column)).collect(),
        columns.iter().map(|column| !column.nullable).collect(),
        columns.iter().map(|column| column.default.clone()).collect(),
        columns.iter().map(|column| key.contains(&column.name)).collect(),
    )
}

/// PRAGMA table_info of a view.
pub fn columns_info(schema: &Schema) -> Result<RecordBatch> {
    let fields = schema.fields();
    info(
        fields.iter().map(|field| field.name().clone()).collect(),
        fields.iter().map(|field| shown_type(field.data_type())).collect(),
        fields.iter().map(|_| false).collect(),
        fields.iter().map(|_| None).collect(),
        fields.iter().map(|_| false).collect(),
    )
}

fn info(
    names: Vec<String>,
    types: Vec<String>,
    not_null: Vec<bool>,
    defaults: Vec<Option<String>>,
    keys: Vec<bool>,
) -> Result<RecordBatch> {
    let places: Int32Array = (0..).take(names.len()).collect();
    batch(vec![
        ("cid", Arc::new(places)),
        ("name", text(names)),
        ("type", text(types)),
        ("notnull", Arc::new(BooleanArray::from(not_null))),
        ("dflt_value", optional_text(defaults)),
        ("pk", Arc::new(BooleanArray::from(keys))),
    ])
}

/// PRAGMA version.
pub fn version() -> Result<RecordBatch> {
    batch(vec![
        ("library_version", text([concat!("v", env!("CARGO_PKG_VERSION"))])),
        ("source_id", text([""])),
        ("codename", text(["Forebay"])),
    ])
}

/// OPTIMIZE TABLE … SUGGEST: projections that a table is worth, and what queries would read of them.
pub fn suggestions(all: &[ShownSuggestion]) -> Result<RecordBatch> {
    let method = |shown: &ShownSuggestion| match shown.suggestion.method {
        Method::Msc => "MSC",
        Method::Gfc => "GFC",
    };
    let seconds: Float64Array = all.iter().map(|shown| Some(shown.suggestion.seconds)).collect();
    batch(vec![
        ("method", text(all.iter().map(method))),
        ("order_by", text(all.iter().map(|shown| shown.order.as_str()))),
        ("stored_bytes", count(all.iter().map(|shown| shown.suggestion.stored_bytes))),
        ("read_bytes", count(all.iter().map(|shown| shown.suggestion.read_bytes))),
        ("read_bytes_now", count(all.iter().map(|shown| shown.read_bytes_now))),
        ("seconds", Arc::new(seconds)),
        ("statement", text(all.iter().map(|shown| shown.statement.as_str()))),
    ])
}

/// SHOW STATS: what estimates know of each column of a table. Bounds and quartiles of integers only.
pub fn statistics(table: &TableSnapshot) -> Result<RecordBatch> {
    let columns = 0..table.columns.len();
    let bounds: Vec<_> = columns.clone().map(|column| table.bounds(column)).collect();
    let known: Vec<_> = columns.map(|column| table.distribution(column).cloned().unwrap_or_default()).collect();
    let bound = |value: Option<&Value>| match value {
        Some(Value::Int(value)) => Some(value.to_string()),
        Some(Value::Float(value)) => Some(value.to_string()),
        Some(Value::Bytes(value)) => Some(String::from_utf8_lossy(value).into_owned()),
        None => None,
    };
    let quantile = |share: f64| optional_text(known.iter().map(move |known| Some(known.quantile(share)?.to_string())));
    batch(vec![
        ("column_name", text(table.columns.iter().map(|column| column.name.as_str()))),
        ("rows", count(table.columns.iter().map(|_| table.rows()))),
        ("nulls", Arc::new(bounds.iter().map(|bounds| Some(bounds.as_ref()?.nulls)).collect::<UInt64Array>())),
        ("distinct", count(known.iter().map(|known| known.distinct.round() as u64))),
        ("min", optional_text(bounds.iter().map(|bounds| bound(bounds.as_ref()?.min.as_ref())))),
        ("quarter", quantile(0.25)),
        ("median", quantile(0.5)),
        ("three_quarters", quantile(0.75)),
        ("max", optional_text(bounds.iter().map(|bounds| bound(bounds.as_ref()?.max.as_ref())))),
    ])
}

/// BACKUP TO.
pub fn backup_report(report: &BackupReport) -> Result<RecordBatch> {
    batch(vec![
        ("commit", count([report.commit])),
        ("files", count([report.files])),
        ("bytes", count([report.file_bytes])),
        ("hot_rows", count([report.hot_rows])),
    ])
}

/// CHECK DATABASE, where nothing is wrong.
pub fn check_report(report: &CheckReport) -> Result<RecordBatch> {
    batch(vec![
        ("tables", count([report.tables])),
        ("segments", count([report.segments])),
        ("chunks", count([report.chunks])),
        ("bytes", count([report.bytes])),
        ("errors", count([report.error_count])),
        ("orphans", count([report.orphans.len() as u64])),
    ])
}
