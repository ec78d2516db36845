//! Answers about the database itself: SHOW, DESCRIBE, SUMMARIZE, CHECK DATABASE.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, RecordBatch, StringArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema};
use forebay_base::{Error, Result, Value};
use forebay_engine::MemoryUse;
use forebay_engine::analyze::Method;
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_layout::{CLUSTER_OPTION, ShownSuggestion};
use forebay_store::{Catalog, CheckReport, TableSnapshot, names_equal};
use forebay_syntax::types::{shown_field, shown_type};
use forebay_tables::nested_columns;
use forebay_tables::table::primary_key;

use crate::search_path::SearchPath;
use forebay_system::CATALOG;

/// A column of answers.
type Answer = (&'static str, ArrayRef);

fn batch(columns: Vec<Answer>) -> Result<RecordBatch> {
    let fields: Vec<Field> =
        columns.iter().map(|(name, array)| Field::new(*name, array.data_type().clone(), true)).collect();
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays).map_err(|error| Error::internal(error.to_string()))
}

fn text<T: Into<String>>(values: impl IntoIterator<Item = T>) -> ArrayRef {
    Arc::new(values.into_iter().map(|value| Some(value.into())).collect::<StringArray>())
}

fn optional_text(values: impl IntoIterator<Item = Option<String>>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<StringArray>())
}

fn count(values: impl IntoIterator<Item = u64>) -> ArrayRef {
    Arc::new(values.into_iter().collect::<UInt64Array>())
}

/// A table or a view, in the order in which they are listed.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Listed {
    schema: String,
    name: String,
    /// `None` for a view.
    rows: Option<u64>,
    columns: u64,
    compression: Option<String>,
    order: Option<String>,
}

/// SHOW TABLES: tables and views of one schema, or of all with their rows and what was asked of their compression and order.
pub fn tables(catalog: &Catalog, path: &SearchPath, all: bool) -> Result<RecordBatch> {
    let mut found: Vec<Listed> = Vec::new();
    for table in catalog.tables() {
        found.push(Listed {
            schema: table.schema.clone(),
            name: table.name.clone(),
            rows: Some(table.rows()),
            columns: table.columns.len() as u64,
            compression: table.options.get(None, COMPRESSION_OPTION).map(str::to_owned),
            order: table.options.get(None, CLUSTER_OPTION).map(str::to_owned),
        });
    }
    for view in catalog.views() {
        let (schema, name) = (view.schema.clone(), view.name.clone());
        found.push(Listed { schema, name, rows: None, columns: 0, compression: None, order: None });
    }
    found.retain(|listed| all || names_equal(&listed.schema, &path.schema) || listed.schema == path.temporary);
    found.retain_mut(|listed| {
        path.shown(&listed.schema).map(str::to_owned).map(|shown| listed.schema = shown).is_some()
    });
    found.sort();
    if !all {
        found.sort_by(|one, other| one.name.cmp(&other.name));
        return batch(vec![("name", text(found.into_iter().map(|listed| listed.name)))]);
    }
    let kind = |listed: &Listed| if listed.rows.is_some() { "table" } else { "view" };
    batch(vec![
        ("database", text(found.iter().map(|_| CATALOG))),
        ("schema", text(found.iter().map(|listed| listed.schema.as_str()))),
        ("name", text(found.iter().map(|listed| listed.name.as_str()))),
        ("kind", text(found.iter().map(kind))),
        ("columns", count(found.iter().map(|listed| listed.columns))),
        ("rows", Arc::new(found.iter().map(|listed| listed.rows).collect::<UInt64Array>())),
        ("compression", optional_text(found.iter().map(|listed| listed.compression.clone()))),
        ("cluster_by", optional_text(found.iter().map(|listed| listed.order.clone()))),
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

/// SHOW SCHEMAS.
pub fn schemas(catalog: &Catalog, path: &SearchPath) -> Result<RecordBatch> {
    batch(vec![("schema", text(catalog.schemas().filter_map(|schema| path.shown(schema))))])
}

/// SHOW DATABASES.
pub fn databases(path: &str) -> Result<RecordBatch> {
    batch(vec![("database", text([CATALOG])), ("path", text([path]))])
}

/// SHOW MEMORY: what the memory of the database is for, and how much of it is taken.
pub fn memory(uses: &[MemoryUse]) -> Result<RecordBatch> {
    let bytes = |of: fn(&MemoryUse) -> Option<usize>| -> ArrayRef {
        Arc::new(uses.iter().map(|memory| of(memory).map(|bytes| bytes as u64)).collect::<UInt64Array>())
    };
    batch(vec![
        ("memory", text(uses.iter().map(|memory| memory.name))),
        ("limit_bytes", bytes(|memory| Some(memory.limit_bytes))),
        ("held_bytes", bytes(|memory| Some(memory.held_bytes))),
        ("used_bytes", bytes(|memory| memory.used_bytes)),
        ("peak_bytes", bytes(|memory| memory.peak_bytes)),
    ])
}

/// DESCRIBE a query.
pub fn describe_schema(schema: &Schema) -> Result<RecordBatch> {
    let fields = schema.fields();
    batch(vec![
        ("column_name", text(fields.iter().map(|field| field.name().as_str()))),
        ("column_type", text(fields.iter().map(|field| shown_field(field)))),
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
    let compression = |column| table.options.of_column(column, COMPRESSION_OPTION).map(str::to_owned);
    batch(vec![
        ("column_name", text(columns.iter().map(|column| column.name.as_str()))),
        ("column_type", text(columns.iter().map(|column| nested_columns::shown(table, column)))),
        ("null", text(columns.iter().map(|column| if column.nullable { "YES" } else { "NO" }))),
        ("key", optional_text(columns.iter().map(|column| key.contains(&column.name).then(|| "PRI".to_owned())))),
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

/// The query whose one row answers SUMMARIZE, for columns of these names and types.
pub fn summarize_query(source: &str, schema: &Schema) -> String {
    let mut parts = vec!["count(*)".to_owned()];
    for field in schema.fields() {
        let name = format!("\"{}\"", field.name().replace('"', "\"\""));
        let ordered = !matches!(field.data_type(), DataType::Interval(_));
        let bound = |function: &str| match ordered {
            true => format!("CAST({function}({name}) AS VARCHAR)"),
            false => "CAST(NULL AS VARCHAR)".to_owned(),
        };
        parts.push(bound("min"));
        parts.push(bound("max"));
        parts.push(format!("count(DISTINCT {name})"));
        match field.data_type().is_numeric() {
            true => {
                parts.push(format!("CAST(avg(CAST({name} AS DOUBLE)) AS VARCHAR)"));
                parts.push(format!("CAST(stddev(CAST({name} AS DOUBLE)) AS VARCHAR)"));
            }
            false => parts.extend(["CAST(NULL AS VARCHAR)".to_owned(), "CAST(NULL AS VARCHAR)".to_owned()]),
        }
        parts.push(format!("count({name})"));
    }
    let columns: Vec<String> =
        parts.into_iter().enumerate().map(|(index, part)| format!("{part} AS c{index}")).collect();
    format!("SELECT {} FROM {source}", columns.join(", "))
}

/// The figures that [`summarize_query`] computes for every column.
const SUMMARY_FIGURES: usize = 6;

/// The answer to SUMMARIZE: a row for every column, from the one row of [`summarize_query`] as text.
pub fn summary(schema: &Schema, row: &[Option<String>]) -> Result<RecordBatch> {
    let rows: u64 = row.first().and_then(|value| value.as_deref()).and_then(|value| value.parse().ok()).unwrap_or(0);
    let figure = |column: usize, index: usize| row.get(1 + column * SUMMARY_FIGURES + index).cloned().flatten();
    let number =
        |column: usize, index: usize| figure(column, index).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    let columns = 0..schema.fields().len();
    let nulls = |column: usize| match rows {
        0 => None,
        _ => Some(format!("{:.2}", 100.0 * (rows - number(column, 5)) as f64 / rows as f64)),
    };
    batch(vec![
        ("column_name", text(schema.fields().iter().map(|field| field.name().as_str()))),
        ("column_type", text(schema.fields().iter().map(|field| shown_type(field.data_type())))),
        ("min", optional_text(columns.clone().map(|column| figure(column, 0)))),
        ("max", optional_text(columns.clone().map(|column| figure(column, 1)))),
        ("unique", count(columns.clone().map(|column| number(column, 2)))),
        ("avg", optional_text(columns.clone().map(|column| figure(column, 3)))),
        ("std", optional_text(columns.clone().map(|column| figure(column, 4)))),
        ("count", count(columns.clone().map(|_| rows))),
        ("null_percentage", optional_text(columns.map(nulls))),
    ])
}
