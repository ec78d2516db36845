//! Mutexes of what is replaced whole.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks what is replaced whole, so that a panicking holder leaves nothing half done.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
