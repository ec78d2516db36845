//! Answers that depend on where the session looks: SHOW TABLES, SHOW SCHEMAS; and OPTIMIZE TABLE … SUGGEST.

use std::sync::Arc;

use datafusion::arrow::array::{Float64Array, RecordBatch, UInt64Array};
use forebay_base::Result;
use forebay_engine::analyze::Method;
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_layout::{CLUSTER_OPTION, ShownSuggestion};
use forebay_store::{Catalog, names_equal};
use forebay_system::CATALOG;
use forebay_system::answers::{batch, count, optional_text, text};

use crate::search_path::SearchPath;

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
