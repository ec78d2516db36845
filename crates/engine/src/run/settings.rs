//! What a session may change about its scans; no answer depends on it.

use forebay_cpu::simd::Flavour;
use forebay_cpu::vector::VECTOR_ROWS;

use super::MorselRows;

/// How scans run, whatever they read; settings of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ScanSettings {
    /// The vector instructions of the tests on codes.
    pub simd: Flavour,
    /// Rows of a vector, at most [`VECTOR_ROWS`].
    pub vector_rows: usize,
    /// Blocks are ruled out by their zones (SMA).
    pub sma: bool,
    /// Blocks are narrowed by positional aggregates (PSMA).
    pub psma: bool,
}

impl Default for ScanSettings {
    fn default() -> Self {
        Self { simd: Flavour::best(), vector_rows: VECTOR_ROWS, sma: true, psma: true }
    }
}

impl MorselRows {
    /// How their scan runs.
    pub(crate) fn settings(&self) -> ScanSettings {
        self.scan.settings
    }
}
