//! A condition variable that costs nothing where nobody waits: the standard one asks the operating system each time.
//!
//! Must not know: what is waited for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, MutexGuard, PoisonError};

/// Tells those who wait that what a mutex guards has changed.
#[derive(Debug, Default)]
pub(crate) struct Signal {
    changed: Condvar,
    /// Changed by who has the mutex.
    waiting: AtomicUsize,
}

impl Signal {
    /// Waits for a change, and perhaps for none. All who wait have guards of one mutex.
    pub(crate) fn wait<'g, T>(&self, guard: MutexGuard<'g, T>) -> MutexGuard<'g, T> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        guard
    }

    /// Tells one that waits. For who has the mutex, or has had it since the change: whoever waits for the change is counted then.
    pub(crate) fn notify_one(&self) {
        if self.is_waited_for() {
            self.changed.notify_one();
        }
    }

    /// Tells all that wait, likewise.
    pub(crate) fn notify_all(&self) {
        if self.is_waited_for() {
            self.changed.notify_all();
        }
    }

    fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::volume::locked;

    #[test]
    fn nobody_waits_for_ever() {
        let (turn, signal) = (Mutex::new(0_usize), Signal::default());
        const THREADS: usize = 4;
        std::thread::scope(|scope| {
            for own in 0..THREADS {
                let (turn, signal) = (&turn, &signal);
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let mut now = locked(turn);
                        while *now % THREADS != own {
                            now = signal.wait(now);
                        }
                        *now += 1;
                        drop(now);
                        signal.notify_all();
                    }
                });
            }
        });
        assert_eq!(*locked(&turn), THREADS * 2000);
        assert!(!signal.is_waited_for());
    }
}
