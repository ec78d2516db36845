//! Cancellation: one flag per statement, looked at between morsels, blocks and batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_base::{Error, ErrorKind, Result};

/// A flag that a user sets and that work looks at. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the work to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Makes the token ready for the next statement.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether the work should end.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// [`ErrorKind::Cancelled`] once cancelled.
    pub fn check(&self) -> Result<()> {
        match self.is_cancelled() {
            true => Err(Error::new(ErrorKind::Cancelled, "the query was cancelled")),
            false => Ok(()),
        }
    }
}
