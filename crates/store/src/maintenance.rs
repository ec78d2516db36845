//! The thread that makes checkpoints and freezes cold rows beside those who commit.
//!
//! Invariant: once [`Maintenance::stop`] has returned nothing is being done, and nothing begins. Must not know: what is done.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::volume::locked;

/// Does what is asked for on a thread of its own, which is started when somebody first asks.
#[derive(Debug, Default)]
pub(crate) struct Maintenance {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_wanted: bool,
    is_running: bool,
    is_over: bool,
}

impl Maintenance {
    /// Has work done soon, which is the same for all who ask, and once more if it is being done just now. False where nobody can do it: no thread can be started, or the
    /// database is being closed.
    pub(crate) fn request(&self, work: impl Fn() + Send + 'static) -> bool {
        let mut thread = locked(&self.thread);
        let mut state = locked(&self.shared.state);
        if state.is_over {
            return false;
        }
        if thread.is_none() {
            let shared = Arc::clone(&self.shared);
            let run = move || shared.run(work);
            let Ok(started) = std::thread::Builder::new().name("forebay-freeze".to_owned()).spawn(run) else {
                return false;
            };
            *thread = Some(started);
        }
        state.is_wanted = true;
        self.shared.changed.notify_all();
        true
    }

    /// Waits until everything is done that was asked for; not where it is done just now by who asks.
    pub(crate) fn wait(&self) {
        let is_it = |thread: &JoinHandle<()>| thread.thread().id() == std::thread::current().id();
        if locked(&self.thread).as_ref().is_some_and(is_it) {
            return;
        }
        let mut state = locked(&self.shared.state);
        while (state.is_wanted || state.is_running) && !state.is_over {
            state = self.shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Does nothing for a while, for whoever does what was asked for; whether it should come to its end, since something else is wanted or
    /// the database is being closed.
    pub(crate) fn rest(&self, time: Duration) -> bool {
        let state = locked(&self.shared.state);
        let goes_on = |state: &mut State| !state.is_wanted && !state.is_over;
        let waited = self.shared.changed.wait_timeout_while(state, time, goes_on);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.is_wanted || state.is_over
    }

    /// Waits until what is being done has come to its end; from then on nothing more is done.
    pub(crate) fn stop(&self) {
        let thread = locked(&self.thread).take();
        locked(&self.shared.state).is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = thread {
            let _it_may_have_panicked = thread.join();
        }
    }
}

impl Shared {
    /// Does what is asked for until it is over.
    fn run(&self, work: impl Fn()) {
        let mut state = locked(&self.state);
        while !state.is_over {
            if !state.is_wanted {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            (state.is_wanted, state.is_running) = (false, true);
            drop(state);
            let running = Running(self);
            // Who waits for the next checkpoint would wait for ever where one that panics ended the thread.
            let _the_log_stays = catch_unwind(AssertUnwindSafe(&work));
            drop(running);
            state = locked(&self.state);
        }
    }
}

/// Something is being done, until dropped; also where that panics.
struct Running<'s>(&'s Shared);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        locked(&self.0.state).is_running = false;
        self.0.changed.notify_all();
    }
}
