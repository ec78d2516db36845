//! The thread that makes commits durable that were acknowledged before they were.
//!
//! Must not know: what it syncs, and how.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_base::{Error, Result};

use crate::volume::locked;

/// Syncs the log when commits are due that were acknowledged before they were durable.
#[derive(Debug)]
pub(crate) struct Syncer {
    shared: Arc<Shared>,
    /// Started with the first such commit.
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    sync: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    due: Option<Instant>,
    is_over: bool,
}

impl Syncer {
    /// Its thread calls `sync` when commits are due.
    pub(crate) fn new(sync: impl Fn() + Send + Sync + 'static) -> Self {
        let shared = Shared { state: Mutex::default(), changed: Condvar::new(), sync: Box::new(sync) };
        Self { shared: Arc::new(shared), thread: Mutex::default() }
    }

    /// Has the log synced in this time. An error where no thread can be started for it.
    pub(crate) fn sync_within(&self, time: Duration) -> Result<()> {
        let due = Instant::now() + time;
        let mut thread = locked(&self.thread);
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let started = std::thread::Builder::new().name("forebay-sync".to_owned()).spawn(move || shared.run());
            *thread = Some(started.map_err(|error| Error::io("starting the thread that syncs the redo log", &error))?);
        }
        let mut state = locked(&self.shared.state);
        if state.due.is_none_or(|before| due < before) {
            state.due = Some(due);
            self.shared.changed.notify_one();
        }
        Ok(())
    }

    /// Ends the thread, if there is one.
    pub(crate) fn stop(&self) {
        locked(&self.shared.state).is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = locked(&self.thread).take() {
            // Who closes the database makes a checkpoint, which needs nothing of this thread.
            let _it_may_have_panicked = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        let mut state = locked(&self.state);
        while !state.is_over {
            let now = Instant::now();
            state = match state.due {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(due) if due > now => {
                    self.changed.wait_timeout(state, due - now).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    state.due = None;
                    drop(state);
                    (self.sync)();
                    locked(&self.state)
                }
            };
        }
    }
}
