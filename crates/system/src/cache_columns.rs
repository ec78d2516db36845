//! `forebay.cache`: the columns that the cache holds something of, that the last pipelines read, or whose table is to stay, with
//! what is to stay of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_engine::{ColumnFigures, ColumnGoal, ColumnKey, ColumnUse};

use crate::columns::{Column, Of, known};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;

/// The columns.
#[derive(Debug)]
pub(crate) struct CacheColumns(pub(crate) Arc<dyn Seen>);

/// A column of a table.
pub(crate) struct CacheRow {
    schema: String,
    table: String,
    column: String,
    held: ColumnUse,
    figures: Option<ColumnFigures>,
    is_pinned: bool,
}

impl CacheRow {
    fn goal(&self) -> Option<ColumnGoal> {
        self.figures?.goal
    }
}

impl Rows for CacheColumns {
    type Row = CacheRow;

    const COLUMNS: &'static [Column<CacheRow>] = &[
        known("schema_name", Of::Text(|row| Ok(Some(row.schema.clone())))),
        known("table_name", Of::Text(|row| Ok(Some(row.table.clone())))),
        known("column_name", Of::Text(|row| Ok(Some(row.column.clone())))),
        known("inflated_chunks", Of::Count(|row| Ok(Some(row.held.inflated_chunks as u64)))),
        known("inflated_bytes", Of::Count(|row| Ok(Some(row.held.inflated_bytes as u64)))),
        known("stored_chunks", Of::Count(|row| Ok(Some(row.held.stored_chunks as u64)))),
        known("stored_bytes", Of::Count(|row| Ok(Some(row.held.stored_bytes as u64)))),
        known("make_ms", Of::Real(|row| Ok(Some(row.held.make_ns as f64 / 1e6)))),
        known("goal_inflated", Of::Real(|row| Ok(row.goal().map(|goal| goal.inflated)))),
        known("goal_stored", Of::Real(|row| Ok(row.goal().map(|goal| goal.stored)))),
        known("goal_bytes", Of::Count(|row| Ok(row.goal().map(|goal| goal.bytes as u64)))),
        known("all_inflated_bytes", Of::Count(|row| Ok(row.figures.map(|figures| figures.inflated_bytes as u64)))),
        known("all_stored_bytes", Of::Count(|row| Ok(row.figures.map(|figures| figures.stored_bytes as u64)))),
        known("is_pinned", Of::Flag(|row| Ok(Some(row.is_pinned)))),
        known("inflate_bytes_per_s", Of::Real(|row| Ok(row.figures.and_then(|figures| figures.inflate_bytes_per_s)))),
    ];

    fn batches(&self, _passes: Passes<CacheRow>) -> Batches<CacheRow> {
        let (held, figures) = (self.0.engine().cache().columns(), self.0.engine().column_shares().columns());
        let mut columns: BTreeMap<ColumnKey, (ColumnUse, Option<ColumnFigures>)> = BTreeMap::new();
        held.into_iter().for_each(|(key, held)| columns.entry(key).or_default().0 = held);
        figures.into_iter().for_each(|(key, figures)| columns.entry(key).or_default().1 = Some(figures));
        let (pinned, _) = self.0.engine().cache().pinned();
        for table in pinned.iter().filter_map(|id| self.0.catalog().table_by_id(*id)) {
            for column in &table.columns {
                columns.entry(ColumnKey { table: table.id, column: column.id }).or_default();
            }
        }
        let row = |(key, (held, figures)): (ColumnKey, _)| {
            let table = self.0.catalog().table_by_id(key.table)?;
            let schema = self.0.shown(&table.schema)?.to_owned();
            let column = table.column_by_id(key.column)?.1.name.to_string();
            let is_pinned = pinned.contains(&key.table);
            Some(CacheRow { schema, table: table.name.to_string(), column, held, figures, is_pinned })
        };
        let mut rows: Vec<CacheRow> = columns.into_iter().filter_map(row).collect();
        rows.sort_by(|a, b| (&a.schema, &a.table, &a.column).cmp(&(&b.schema, &b.table, &b.column)));
        Box::new(std::iter::once(Ok(rows)))
    }
}
