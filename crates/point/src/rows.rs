//! The rows that a program gives: value by value, or as arrays.
//!
//! Must not know: how rows are found.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::SchemaRef;
use forebay_base::{Error, PhysicalType, Result};
use forebay_store::{Cell, HotRow};

use crate::output::array;

/// Rows with columns of a schema. They lie one behind the other as they were found, since few are asked for as arrays.
#[derive(Debug, Clone)]
pub struct PointRows {
    schema: SchemaRef,
    /// What the cells of each column are.
    physical: Arc<[PhysicalType]>,
    cells: HotRow,
}

impl PointRows {
    /// Rows whose columns have these types, row by row. There is at least one column.
    pub(crate) fn new(schema: &SchemaRef, physical: &Arc<[PhysicalType]>, cells: HotRow) -> Self {
        debug_assert_eq!(schema.fields().len(), physical.len(), "each column has a type");
        Self { schema: SchemaRef::clone(schema), physical: Arc::clone(physical), cells }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.cells.len() / self.physical.len().max(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }

    /// Names and types of the columns.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// A value, and what its bits are; `None` where there is no such row or column.
    pub fn cell(&self, row: usize, column: usize) -> Option<(Cell<'_>, PhysicalType)> {
        let physical = self.physical.get(column)?;
        (row < self.len()).then(|| (self.cells.cell(row * self.physical.len() + column), *physical))
    }

    /// All of them as arrays.
    ///
    /// # Errors
    /// `Corrupt` for a text that is not UTF-8.
    pub fn batch(&self) -> Result<RecordBatch> {
        let column = |(at, physical): (usize, &PhysicalType)| -> Result<ArrayRef> {
            let cells: Vec<Cell<'_>> =
                (0..self.len()).map(|row| self.cells.cell(row * self.physical.len() + at)).collect();
            array(self.schema.field(at).data_type(), *physical, &cells)
        };
        let columns = self.physical.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        RecordBatch::try_new(SchemaRef::clone(&self.schema), columns).map_err(|e| Error::internal(e.to_string()))
    }
}
