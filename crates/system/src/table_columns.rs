//! `forebay.columns`: what every column of every table takes, and what is known of it.

use std::sync::{Arc, OnceLock};

use forebay_base::{Result, Value};
use forebay_engine::goal::COMPRESSION_OPTION;
use forebay_engine::inspect::{StoredColumn, stored_column};
use forebay_store::ColumnBounds;
use forebay_tables::nested_columns;

use crate::bounds;
use crate::columns::{Column, Of, known, read};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;
use crate::shown::{ShownTable, shares, tables};

/// The columns of all tables.
#[derive(Debug)]
pub(crate) struct TableColumns(pub(crate) Arc<dyn Seen>);

/// A column of a table.
pub(crate) struct ColumnRow {
    of: Arc<ShownTable>,
    column: usize,
    /// What was read of it.
    stored: OnceLock<StoredColumn>,
}

impl ColumnRow {
    fn new(of: &Arc<ShownTable>, column: usize) -> Self {
        Self { of: Arc::clone(of), column, stored: OnceLock::new() }
    }

    fn definition(&self) -> &forebay_store::Column {
        &self.of.table.columns[self.column]
    }

    fn stored(&self) -> Result<&StoredColumn> {
        if let Some(known) = self.stored.get() {
            return Ok(known);
        }
        let found = stored_column(&self.of.table, self.column)?;
        Ok(self.stored.get_or_init(|| found))
    }

    fn bounds(&self) -> Result<Option<&ColumnBounds>> {
        self.of.table.read_bounds(self.column)
    }

    fn bound(&self, of: fn(&ColumnBounds) -> Option<&Value>) -> Result<Option<String>> {
        Ok(self.bounds()?.and_then(of).and_then(|value| bounds::text(value, &self.definition().logical)))
    }

    /// How many times more bytes the plain values have than the stored ones.
    fn ratio(&self) -> Result<Option<f64>> {
        let stored = self.stored()?;
        Ok((stored.stored_bytes > 0).then(|| stored.plain_bytes as f64 / stored.stored_bytes as f64))
    }

    fn distinct(&self) -> Result<Option<u64>> {
        let is_empty = self.bounds()?.is_none();
        let known = self.of.table.distribution(self.column).filter(|_| !is_empty);
        Ok(known.map(|known| known.distinct.round() as u64))
    }

    fn facts(&self, is_used: bool) -> u64 {
        self.of.facts_of(self.column).filter(|fact| self.of.is_used(fact) == is_used).count() as u64
    }
}

/// Columns that a table alone tells.
const OF_TABLES: usize = 2;

impl Rows for TableColumns {
    type Row = ColumnRow;

    const COLUMNS: &'static [Column<ColumnRow>] = &[
        known("schema_name", Of::Text(|row| Ok(Some(row.of.schema.clone())))),
        known("table_name", Of::Text(|row| Ok(Some(row.of.table.name.clone())))),
        known("column_name", Of::Text(|row| Ok(Some(row.definition().name.clone())))),
        known("column_index", Of::Count(|row| Ok(Some(row.column as u64 + 1)))),
        known("data_type", Of::Text(|row| Ok(Some(nested_columns::shown(&row.of.table, row.definition()))))),
        known("rows", Of::Count(|row| Ok(Some(row.of.table.rows())))),
        read("nulls", Of::Count(|row| Ok(row.bounds()?.map(|bounds| bounds.nulls)))),
        read("min", Of::Text(|row| row.bound(|bounds| bounds.min.as_ref()))),
        read("max", Of::Text(|row| row.bound(|bounds| bounds.max.as_ref()))),
        read("distinct_estimate", Of::Count(ColumnRow::distinct)),
        read("chunks", Of::Count(|row| Ok(Some(row.stored()?.chunks)))),
        read("blocks", Of::Count(|row| Ok(Some(row.stored()?.blocks)))),
        read(
            "encodings",
            Of::Text(|row| Ok(shares(row.stored()?.encodings.iter().map(|(known, blocks)| (known.name(), *blocks))))),
        ),
        read(
            "schemes",
            Of::Text(|row| Ok(shares(row.stored()?.schemes.iter().map(|known| (known.scheme.name(), known.frames))))),
        ),
        read("plain_bytes", Of::Count(|row| Ok(Some(row.stored()?.plain_bytes)))),
        read("encoded_bytes", Of::Count(|row| Ok(Some(row.stored()?.encoded_bytes)))),
        read("stored_bytes", Of::Count(|row| Ok(Some(row.stored()?.stored_bytes)))),
        read("ratio", Of::Real(ColumnRow::ratio)),
        known(
            "compression",
            Of::Text(|row| {
                let asked = row.of.table.options.of_column(row.definition().id, COMPRESSION_OPTION);
                Ok(asked.map(str::to_owned))
            }),
        ),
        known("has_facts", Of::Flag(|row| Ok(Some(row.facts(true) > 0)))),
        known("facts", Of::Count(|row| Ok(Some(row.facts(true))))),
        known("outdated_facts", Of::Count(|row| Ok(Some(row.facts(false))))),
        known("fact_bytes", Of::Count(|row| Ok(Some(row.of.facts_of(row.column).map(|fact| fact.file_bytes()).sum())))),
    ];

    fn batches(&self, passes: Passes<ColumnRow>) -> Batches<ColumnRow> {
        let all = tables(&self.0).iter().map(|of| ColumnRow::new(of, 0)).collect();
        match passes.of_first(OF_TABLES, all) {
            Err(error) => Box::new(std::iter::once(Err(error))),
            Ok(wanted) => Box::new(wanted.into_iter().map(|ColumnRow { of, .. }| {
                Ok((0..of.table.columns.len()).map(|column| ColumnRow::new(&of, column)).collect())
            })),
        }
    }
}
