//! What is known of a table from the footers of its segments, found out when a plan asks for it and kept for the plans to come:
//! segments do not change, and merging what the zones of thousands of blocks say takes longer than the rest of carving.
//!
//! Invariant: what is kept is of exactly this version of the table. Where a footer cannot be read nothing is kept.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock};

use datafusion::arrow::datatypes::{Field, Schema, SchemaRef};
use forebay_base::TableId;
use forebay_context::lock::lock;
use forebay_context::own_types;
use forebay_engine::types::arrow_type;
use forebay_store::{Catalog, Table, Zone};

use crate::distribution::Distribution;
use crate::zones::column_zone;

/// The option that tells the type of a column whose values are stored as texts.
pub const TYPE_OPTION: &str = "type";

/// One version of a table, with what is known of it.
#[derive(Debug)]
pub struct KnownTable {
    table: Arc<Table>,
    schema: SchemaRef,
    columns: Vec<Column>,
}

/// What is known of a column so far.
#[derive(Debug, Default)]
struct Column {
    zone: OnceLock<Zone>,
    distribution: OnceLock<Distribution>,
    encoded_row_bytes: OnceLock<f64>,
}

impl KnownTable {
    /// A table of which nothing is known yet.
    pub fn new(table: Arc<Table>) -> Self {
        let field = |column: &forebay_store::Column| {
            let field = Field::new(&column.name, arrow_type(&column.logical), column.nullable);
            match table.options.get(Some(column.id), TYPE_OPTION).filter(|told| own_types::is_own(told)) {
                Some(told) => own_types::marked(field, told),
                None => field,
            }
        };
        let schema = Arc::new(Schema::new(table.columns.iter().map(field).collect::<Vec<_>>()));
        let columns = table.columns.iter().map(|_| Column::default()).collect();
        Self { table, schema, columns }
    }

    /// The table itself.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// Its columns in Arrow's types.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The zone of a whole column; `None` where the footers cannot be read or a segment lacks the column.
    pub fn zone(&self, column: usize) -> Option<&Zone> {
        found(&self.columns[column].zone, || column_zone(&self.table, column))
    }

    /// The values of a column; `None` where a footer cannot be read.
    pub fn distribution(&self, column: usize) -> Option<&Distribution> {
        found(&self.columns[column].distribution, || Distribution::of(&self.table, column))
    }

    /// Encoded bytes of a column per row; `None` where the footers cannot tell.
    pub fn encoded_row_bytes(&self, column: usize) -> Option<f64> {
        found(&self.columns[column].encoded_row_bytes, || encoded_row_bytes(&self.table, column)).copied()
    }
}

impl Deref for KnownTable {
    type Target = Table;

    fn deref(&self) -> &Table {
        &self.table
    }
}

/// What `cell` holds, or else what is found, which it keeps.
fn found<T>(cell: &OnceLock<T>, find: impl FnOnce() -> Option<T>) -> Option<&T> {
    if cell.get().is_none() {
        // Who finds the same at the same time keeps one of both.
        let _ = cell.set(find()?);
    }
    cell.get()
}

fn encoded_row_bytes(table: &Table, column: usize) -> Option<f64> {
    let mut bytes = 0u64;
    for segment in &table.segments {
        let index = segment.column_index(table.columns[column].id)?;
        let chunks = segment.groups().ok()?.iter().flat_map(|group| &group.columns[index].chunks);
        bytes += chunks.map(|chunk| chunk.encoded_bytes).sum::<u64>();
    }
    Some(bytes as f64 / table.rows().max(1) as f64)
}

/// The tables that the plans of a database asked about.
#[derive(Debug, Default)]
pub struct KnownTables(Mutex<Tables>);

#[derive(Debug, Default)]
struct Tables {
    /// The commit up to which what changed was let go.
    commit: u64,
    by_id: HashMap<TableId, Arc<KnownTable>>,
}

impl KnownTables {
    /// `table`, which is of the catalog of this commit, with what is known of it.
    pub fn of(&self, table: &Arc<Table>, commit: u64) -> Arc<KnownTable> {
        let mut tables = lock(&self.0);
        // It may be gone by now, and would hold its segments.
        if commit < tables.commit {
            return Arc::new(KnownTable::new(Arc::clone(table)));
        }
        match tables.by_id.get(&table.id).filter(|known| Arc::ptr_eq(&known.table, table)) {
            Some(known) => Arc::clone(known),
            None => {
                let known = Arc::new(KnownTable::new(Arc::clone(table)));
                tables.by_id.insert(table.id, Arc::clone(&known));
                known
            }
        }
    }

    /// Lets the tables go that this catalog has other versions of, or does not have: they hold their segments.
    pub fn forget_others(&self, catalog: &Catalog) {
        let mut tables = lock(&self.0);
        if tables.commit < catalog.commit_number() {
            tables.commit = catalog.commit_number();
            let is_current = |known: &Arc<KnownTable>| {
                catalog.table_by_id(known.id).is_some_and(|table| Arc::ptr_eq(table, &known.table))
            };
            tables.by_id.retain(|_, known| is_current(known));
        }
    }
}
