//! Tables as sequences of parts that any thread can make at any time.

mod range_table;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use forebay::Result;

pub(crate) use range_table::{MakeRows, PART_ROWS, RangeTable};

/// The batches of one part.
pub(crate) type Batches = Box<dyn Iterator<Item = Result<RecordBatch>>>;

/// A table as a sequence of parts, each of which any thread can make at any time.
pub(crate) trait TableSource: Sync {
    /// The table's name.
    fn name(&self) -> &'static str;
    /// Columns of every batch.
    fn schema(&self) -> SchemaRef;
    /// Number of parts, at least 1. A part is a row group.
    fn parts(&self) -> usize;
    /// Rows of the table; an expected value where the number is drawn.
    fn expected_rows(&self) -> u64;
    /// The rows of part `index`.
    fn part(&self, index: usize) -> Batches;
}
