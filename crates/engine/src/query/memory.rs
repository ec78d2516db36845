//! The account of one run of a query: what it may take, and what its states and workers take by now.
//!
//! Invariant: what is held of the account is never less than what was noted last, but for what one worker took since. Must not
//! know: what the memory is for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forebay_base::budget::{Client, Reservation};

/// Bytes that a run may take however many others there are: with as many it gets on, by way of the disk.
const LEAST_BYTES: usize = 4 << 20;

/// What a run takes of the memory. It is given back when this is dropped.
#[derive(Debug)]
pub(super) struct RunMemory {
    client: Client,
    /// Bytes that it may take.
    limit_bytes: usize,
    /// Bytes that it takes.
    noted_bytes: AtomicUsize,
    /// Bytes that are held for it, as they were last.
    held_bytes: AtomicUsize,
    held: Mutex<Reservation>,
}

/// Bytes that are taken for a while.
pub(super) struct Borrowed<'a> {
    memory: &'a RunMemory,
    bytes: usize,
}

impl RunMemory {
    /// The account of a run, for which this client's share is set aside, but no more than `most_bytes`.
    pub(super) fn new(client: Client, most_bytes: usize) -> Self {
        let limit_bytes = client.set_share_aside(LEAST_BYTES, most_bytes);
        let held = Mutex::new(client.nothing());
        Self { client, limit_bytes, noted_bytes: AtomicUsize::new(0), held_bytes: AtomicUsize::new(0), held }
    }

    /// Bytes that the run may take.
    pub(super) fn limit_bytes(&self) -> usize {
        self.limit_bytes
    }

    /// Something that took `before` bytes takes `now`.
    pub(super) fn note(&self, before: usize, now: usize) {
        if let Some(less) = before.checked_sub(now) {
            // What several workers share each of them may have counted as its own.
            let lessened = |noted: usize| Some(noted.saturating_sub(less));
            let _ = self.noted_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, lessened);
        } else if self.noted_bytes.fetch_add(now - before, Ordering::Relaxed) + (now - before)
            > self.held_bytes.load(Ordering::Relaxed)
        {
            self.hold();
        }
    }

    /// Takes so many bytes until the result is dropped.
    pub(super) fn borrow(&self, bytes: usize) -> Borrowed<'_> {
        self.note(0, bytes);
        Borrowed { memory: self, bytes }
    }

    /// All that it takes are so many bytes; nothing else is on its way.
    pub(super) fn settle(&self, bytes: usize) {
        self.noted_bytes.store(bytes, Ordering::Relaxed);
        self.hold();
    }

    /// Nothing is made any more: it takes so many bytes until it is dropped.
    pub(super) fn end(&self, bytes: usize) {
        self.client.set_rest_free();
        self.settle(bytes);
    }

    fn hold(&self) {
        let mut held = self.held();
        // What is set aside is there, but where others use it and cannot give it back.
        held.follow_in_any_case(self.noted_bytes.load(Ordering::Relaxed));
        self.held_bytes.store(held.bytes(), Ordering::Relaxed);
    }

    fn held(&self) -> MutexGuard<'_, Reservation> {
        // A reservation is whole whatever panics.
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.memory.note(self.bytes, 0);
    }
}
