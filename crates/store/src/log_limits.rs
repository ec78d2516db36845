//! When segments are small, and when the redo log is long.

use forebay_base::limits;

/// When segments are small, and when a log is long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Bytes of the redo log from which on a checkpoint is made.
    pub log_bytes: u64,
    /// Bytes of a segment, without the zeros that pad it, up to which it has no file before the next checkpoint.
    pub small_bytes: u64,
    /// Whether a checkpoint for which the log is long enough is made beside others, by a thread of its own; else by whoever commits.
    pub beside_others: bool,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self { log_bytes: limits::REDO_LOG_BYTES, small_bytes: limits::SMALL_SEGMENT_BYTES, beside_others: true }
    }
}
