//! `forebay.tables`: every table, and what was asked of how it is stored.

use std::sync::Arc;

use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_layout::CLUSTER_OPTION;

use crate::columns::{Column, Of, known};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;
use crate::shown::{ShownTable, tables};

/// All tables.
#[derive(Debug)]
pub(crate) struct ToldTables(pub(crate) Arc<dyn Seen>);

fn option(row: &ShownTable, name: &str) -> Option<String> {
    row.table.options.get(None, name).map(str::to_owned)
}

impl Rows for ToldTables {
    type Row = Arc<ShownTable>;

    const COLUMNS: &'static [Column<Arc<ShownTable>>] = &[
        known("schema_name", Of::Text(|row| Ok(Some(row.schema.clone())))),
        known("table_name", Of::Text(|row| Ok(Some(row.table.name.clone())))),
        known("columns", Of::Count(|row| Ok(Some(row.table.columns.len() as u64)))),
        known("rows", Of::Count(|row| Ok(Some(row.table.rows())))),
        known("segments", Of::Count(|row| Ok(Some(row.table.segments.len() as u64)))),
        known("file_bytes", Of::Count(|row| Ok(Some(row.table.segments.file_bytes())))),
        known("compression", Of::Text(|row| Ok(option(row, COMPRESSION_OPTION)))),
        known("cluster_by", Of::Text(|row| Ok(option(row, CLUSTER_OPTION)))),
    ];

    fn batches(&self, _passes: Passes<Arc<ShownTable>>) -> Batches<Arc<ShownTable>> {
        Box::new(std::iter::once(Ok(tables(&self.0))))
    }
}
