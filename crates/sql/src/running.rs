//! The running statement as other threads see it: they cancel it, and ask how far it is.

use std::sync::{Arc, Mutex};

use forebay_base::{Error, ErrorKind, Result};
use forebay_context::lock::lock;
use forebay_context::statement::StatementContext;
use forebay_engine::CancelToken;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

/// The running statement, as seen from other threads.
#[derive(Debug, Default)]
pub(crate) struct Running {
    pub(crate) cancel: CancelToken,
    cancelled: Notify,
    pub(crate) statement: Mutex<Option<Arc<StatementContext>>>,
    pub(crate) task: Mutex<Option<AbortHandle>>,
}

impl Running {
    /// What `work` gives, or [`ErrorKind::Cancelled`] as soon as the statement is cancelled.
    pub(crate) async fn unless_cancelled<T>(&self, work: impl Future<Output = Result<T>>) -> Result<T> {
        let cancelled = self.cancelled.notified();
        self.cancel.check()?;
        tokio::select! {
            done = work => done,
            () = cancelled => Err(Error::new(ErrorKind::Cancelled, "the query was cancelled")),
        }
    }
}

/// Cancels a session's running statement from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(pub(crate) Arc<Running>);

impl Canceller {
    /// The running statement ends with [`ErrorKind::Cancelled`].
    pub fn cancel(&self) {
        self.0.cancel.cancel();
        self.0.cancelled.notify_waiters();
        if let Some(task) = lock(&self.0.task).take() {
            task.abort();
        }
    }

    /// What is being done and how much of it is done, from 0 to 1.
    pub fn progress(&self) -> Option<(String, f64)> {
        let statement = lock(&self.0.statement).clone()?;
        statement.progress()
    }
}
