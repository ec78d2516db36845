//! What a session does now, for others to see.
//!
//! Must not know: what a statement does.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Instant, SystemTime};

use crate::{Isolation, OpenTransaction};

/// A transaction as `forebay.transactions` shows it.
#[derive(Debug, Clone)]
pub struct TransactionStatus {
    /// Its number, by which it is ended.
    pub number: u64,
    /// The number of its session.
    pub session: u64,
    /// When it began.
    pub started: SystemTime,
    /// What it sees of others.
    pub isolation: Isolation,
    /// Its statements may not change anything.
    pub is_read_only: bool,
    /// It was begun by BEGIN; one of a single statement otherwise.
    pub is_explicit: bool,
    /// What it does.
    pub state: TransactionState,
    /// Since when it does that.
    pub since: Instant,
    /// The number of the commit that it sees the database after; `None` where it has seen nothing yet, and where it is just changing something.
    pub snapshot: Option<u64>,
    /// The statement that runs, or that ran last.
    pub statement: Arc<str>,
}

/// What a transaction does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionState {
    /// A statement of it runs, or its rows are being read.
    Running,
    /// A statement of it waits for another transaction to end.
    Waiting,
    /// It waits for its next statement.
    Idle,
    /// The same, after a statement has failed.
    Aborted,
}

impl TransactionState {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Idle => "idle",
            Self::Aborted => "aborted",
        }
    }
}

/// What a session does now.
#[derive(Debug)]
pub(crate) struct Activity {
    /// Statements that run, one within the other.
    pub(crate) running: u32,
    /// One of them waits for another transaction.
    pub(crate) waits: bool,
    /// Since when statements run, or none does.
    pub(crate) since: Instant,
    /// The statement that runs, or that ran last.
    pub(crate) text: Arc<str>,
    /// The transaction of the statement that runs.
    pub(crate) transaction: Weak<OpenTransaction>,
}

impl Default for Activity {
    fn default() -> Self {
        let (text, transaction) = (Arc::from(""), Weak::new());
        Self { running: 0, waits: false, since: Instant::now(), text, transaction }
    }
}

/// A statement runs in a session, until this is dropped.
#[derive(Debug)]
pub struct Working {
    activity: Arc<Mutex<Activity>>,
    /// When it ended, where somebody knows.
    ended: Option<Instant>,
}

impl Working {
    /// A statement began at this time.
    pub(crate) fn begin(
        activity: &Arc<Mutex<Activity>>,
        transaction: &Arc<OpenTransaction>,
        (text, began): (Arc<str>, Instant),
    ) -> Self {
        let mut now = locked(activity);
        now.running += 1;
        if now.running == 1 {
            (now.text, now.since) = (text, began);
        }
        now.transaction = Arc::downgrade(transaction);
        drop(now);
        Self { activity: Arc::clone(activity), ended: None }
    }

    /// It ended at this time.
    pub fn end(mut self, at: Instant) {
        self.ended = Some(at);
    }

    /// Its transaction is another one from now on.
    pub fn goes_on_in(&self, transaction: &Arc<OpenTransaction>) {
        locked(&self.activity).transaction = Arc::downgrade(transaction);
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let mut now = locked(&self.activity);
        now.running -= 1;
        if now.running == 0 {
            now.since = self.ended.unwrap_or_else(Instant::now);
        }
    }
}

/// What a session does.
pub(crate) fn locked(activity: &Mutex<Activity>) -> MutexGuard<'_, Activity> {
    activity.lock().unwrap_or_else(PoisonError::into_inner)
}
