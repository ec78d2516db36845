//! `forebay.projections`: the projections of every table.

use std::sync::Arc;

use forebay_store::ProjectionDefinition;

use crate::columns::{Column, Of, known};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;
use crate::shown::{ShownTable, copies};

/// The projections of all tables.
#[derive(Debug)]
pub(crate) struct Projections(pub(crate) Arc<dyn Seen>);

/// A projection, as a copy of its table's rows.
pub(crate) struct ProjectionRow(Arc<ShownTable>);

impl ProjectionRow {
    fn definition(&self) -> Option<&ProjectionDefinition> {
        self.0.table.projection()
    }

    fn order(&self) -> Option<String> {
        let order = |definition: &ProjectionDefinition| definition.order_text(&self.0.table, self.0.seen.catalog());
        self.definition().map(order)
    }

    /// The columns that it has; `None` for all.
    fn columns(&self) -> Option<String> {
        self.definition()?.columns.as_ref()?;
        let columns =
            self.0.table.columns.iter().enumerate().filter(|(position, _)| self.0.table.has_column(*position));
        Some(columns.map(|(_, column)| column.name.as_str()).collect::<Vec<_>>().join(", "))
    }
}

impl Rows for Projections {
    type Row = ProjectionRow;

    const COLUMNS: &'static [Column<ProjectionRow>] = &[
        known("schema_name", Of::Text(|row| Ok(Some(row.0.schema.clone())))),
        known("table_name", Of::Text(|row| Ok(Some(row.0.table.name.clone())))),
        known("projection_name", Of::Text(|row| Ok(row.0.projection()))),
        known("order_by", Of::Text(|row| Ok(row.order()))),
        known("column_names", Of::Text(|row| Ok(row.columns()))),
        known("rows", Of::Count(|row| Ok(Some(row.0.table.rows())))),
        known("segments", Of::Count(|row| Ok(Some(row.0.table.segments.len() as u64)))),
        known("file_bytes", Of::Count(|row| Ok(Some(row.0.table.segments.file_bytes())))),
    ];

    fn batches(&self, _passes: Passes<ProjectionRow>) -> Batches<ProjectionRow> {
        let is_projection = |of: &Arc<ShownTable>| of.table.projection().is_some();
        let rows = copies(&self.0).into_iter().filter(is_projection).map(ProjectionRow).collect();
        Box::new(std::iter::once(Ok(rows)))
    }
}
