//! Tables whose rows are functions of their numbers, so that any thread can make any range of them.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use forebay::Error;

use super::{Batches, TableSource};

/// Rows of a part, which becomes one row group.
pub(crate) const PART_ROWS: u64 = 524_288;

/// Units made at once.
const BATCH_UNITS: u64 = 16_384;

/// Makes the rows of a range of units.
pub(crate) type MakeRows = dyn Fn(Range<u64>) -> std::result::Result<RecordBatch, ArrowError> + Send + Sync;

/// A table by units: rows, or what makes several of them.
pub(crate) struct RangeTable {
    /// Its name.
    pub(crate) name: &'static str,
    /// Its columns.
    pub(crate) schema: SchemaRef,
    /// Number of units.
    pub(crate) units: u64,
    /// Units of a part.
    pub(crate) part_units: u64,
    /// Rows of all units, about.
    pub(crate) expected_rows: u64,
    /// The rows of some units.
    pub(crate) make_rows: Arc<MakeRows>,
}

impl TableSource for RangeTable {
    fn name(&self) -> &'static str {
        self.name
    }

    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn parts(&self) -> usize {
        self.units.div_ceil(self.part_units) as usize
    }

    fn expected_rows(&self) -> u64 {
        self.expected_rows
    }

    fn part(&self, index: usize) -> Batches {
        let first = index as u64 * self.part_units;
        let end = (first + self.part_units).min(self.units);
        let make_rows = Arc::clone(&self.make_rows);
        let name = self.name;
        let starts = (first..end).step_by(BATCH_UNITS as usize);
        Box::new(starts.map(move |start| {
            make_rows(start..(start + BATCH_UNITS).min(end))
                .map_err(|e| Error::internal(format!("cannot generate rows of {name}: {e}")))
        }))
    }
}
