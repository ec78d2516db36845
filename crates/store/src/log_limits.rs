//! When segments are small, the redo log is long, and hot rows are many.

use forebay_base::limits;

/// When segments are small, a log is long, and hot rows are many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogLimits {
    /// Bytes of the redo log from which on a checkpoint is made.
    pub log_bytes: u64,
    /// Bytes of a segment, without the zeros that pad it, up to which it has no file before the next checkpoint.
    pub small_bytes: u64,
    /// Memory of hot rows in bytes from which on cold ones are put into segments when a checkpoint is made.
    pub hot_bytes: u64,
    /// Whether a checkpoint for which the log is long enough is made beside others, by a thread of its own; else by whoever commits.
    pub beside_others: bool,
}

impl Default for LogLimits {
    fn default() -> Self {
        Self {
            log_bytes: limits::REDO_LOG_BYTES,
            small_bytes: limits::SMALL_SEGMENT_BYTES,
            hot_bytes: limits::HOT_BYTES,
            beside_others: true,
        }
    }
}
