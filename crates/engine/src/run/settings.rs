//! What a session may change about its scans; no answer depends on it.

use forebay_base::limits;
use forebay_cpu::simd::SimdLevel;
use forebay_cpu::vector::VECTOR_ROWS;
use forebay_disk::ReadPath;

use super::MorselRows;
use crate::facts::FactUse;

/// How scans run, whatever they read; settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSettings {
    /// The vector instructions of the tests on codes.
    pub simd: SimdLevel,
    /// Rows of a vector, at most [`VECTOR_ROWS`].
    pub vector_rows: usize,
    /// Blocks are ruled out by their zones (SMA).
    pub sma: bool,
    /// Blocks are narrowed by positional aggregates (PSMA).
    pub psma: bool,
    /// The facts that rule blocks out beside zones.
    pub facts: FactUse,
    /// Rows of blocks with few different ones in a pipeline from which code is worth compiling that runs one of equal rows
    /// for all (eager aggregation); 0 is at once.
    pub fold_rows: usize,
    /// Rows of build sides and groups from which on pipelines run range by range of a key that their tables lie in the order
    /// of, so that these hold a range at a time; with 0 wherever that is possible, whatever the order.
    pub partition_wise_rows: usize,
    /// How chunks are read.
    pub read_path: ReadPath,
    /// Where few blocks of a chunk are needed, only these are read.
    pub read_blocks: bool,
    /// Bytes of stored chunks that are put on their way before anybody needs them, for each data directory that the table
    /// lies in; 0 for none.
    pub read_ahead_bytes: usize,
}

/// An order of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The least first.
    Ascending,
    /// The greatest first.
    Descending,
}

/// About as many rows as a pipeline does while another one is compiled.
const FOLD_ROWS: usize = 1 << 18;

/// Fewer rows stay in the caches of most processors anyway.
const PARTITION_WISE_ROWS: usize = 1 << 18;

impl Default for ScanSettings {
    fn default() -> Self {
        Self {
            simd: SimdLevel::best(),
            vector_rows: VECTOR_ROWS,
            sma: true,
            psma: true,
            facts: FactUse::All,
            fold_rows: FOLD_ROWS,
            partition_wise_rows: PARTITION_WISE_ROWS,
            read_path: ReadPath::Direct,
            read_blocks: true,
            read_ahead_bytes: limits::READ_AHEAD_BYTES,
        }
    }
}

impl MorselRows {
    /// How their scan runs.
    pub(crate) fn settings(&self) -> ScanSettings {
        self.scan.settings
    }
}
