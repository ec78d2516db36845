//! Cancellation: a flag that is looked at between morsels, blocks and batches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_base::{Error, ErrorKind, Result};

/// A flag that a user sets and that the statement in progress looks at; a session has one for all its statements, one after
/// the other. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Asks the statement in progress to end.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Takes back what was asked, before the next statement starts.
    pub fn reset(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// The flag itself, for what computes for long between two looks at it.
    pub fn flag(&self) -> &Arc<AtomicBool> {
        &self.0
    }

    /// Whether the statement should end.
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
