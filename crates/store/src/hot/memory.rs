//! How much memory hot rows take, of what they may.
//!
//! What they take is measured whenever a part of it has been written. Above half of the limit they are put into segments, whether they are cold
//! or not; above three quarters of it those who commit wait for that; and beyond the limit no row becomes hot any more, so that rows that
//! are added go to segments at once. Must not know: tables, how rows become segments.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

use forebay_base::Result;
use forebay_base::budget::{Client, Reservation};

use crate::volume::locked;

/// Bytes beside its values that a row takes: a version, entries of indexes.
const ROW_BYTES: usize = 128;

/// Bytes beyond the limit that a statement may still take which found room: more than those take whose rows become hot.
const MORE_BYTES: usize = 16 << 20;

/// So many times within the limit it is measured.
const PARTS: usize = 64;

/// What hot rows take of the account of memory.
#[derive(Debug, Default)]
pub(crate) struct HotMemory {
    account: OnceLock<Account>,
    /// Bytes that were written so far.
    written: AtomicUsize,
    /// Bytes that they took when this was measured last.
    held: AtomicUsize,
    /// Bytes that had been written when segments were last made of them because they took too much.
    frozen_at: AtomicUsize,
}

#[derive(Debug)]
struct Account {
    client: Client,
    limit_bytes: usize,
    reservation: Mutex<Reservation>,
}

impl HotMemory {
    /// They take their memory from this client from now on, and no more than it may have.
    pub(crate) fn take_from(&self, client: Client) {
        let account = Account { limit_bytes: client.limit_bytes(), reservation: Mutex::new(client.nothing()), client };
        let _the_first_one_counts = self.account.set(account);
    }

    /// Says that values of so many bytes were written in a row; whether what they take is to be measured.
    ///
    /// # Errors
    /// `OutOfMemory` where they take more than they may.
    pub(crate) fn wrote(&self, bytes: usize) -> Result<bool> {
        let Some(account) = self.account.get() else { return Ok(false) };
        let held = self.held.load(Ordering::Relaxed);
        // A statement that found room before has some more.
        if held > account.limit_bytes.saturating_add(MORE_BYTES.max(account.limit_bytes / 8)) {
            return Err(account
                .client
                .exhausted(bytes)
                .context("rows that are kept in memory take more than they may"));
        }
        let bytes = bytes + ROW_BYTES;
        let part = (account.limit_bytes / PARTS).max(1);
        let before = self.written.fetch_add(bytes, Ordering::Relaxed);
        Ok(before / part != (before + bytes) / part)
    }

    /// Says that they take so many bytes.
    pub(crate) fn measured(&self, bytes: usize) {
        self.held.store(bytes, Ordering::Relaxed);
        if let Some(account) = self.account.get() {
            locked(&account.reservation).follow_in_any_case(bytes);
        }
    }

    /// Whether more rows may become hot.
    pub(crate) fn has_room(&self) -> bool {
        self.account.get().is_none_or(|account| self.held.load(Ordering::Relaxed) <= account.limit_bytes)
    }

    /// Whether they are to become segments, which was not done lately or is needed by all who add some.
    pub(crate) fn is_high(&self) -> bool {
        let since = self.written.load(Ordering::Relaxed).wrapping_sub(self.frozen_at.load(Ordering::Relaxed));
        let is_long_ago = || self.account.get().is_some_and(|account| since >= account.limit_bytes / PARTS * 4);
        self.is_above(4) && (is_long_ago() || !self.has_room())
    }

    /// Whether who adds more waits for that as long as it is being done.
    pub(crate) fn is_higher(&self) -> bool {
        self.is_above(6)
    }

    /// Whether so many have become segments that others may stay.
    pub(crate) fn is_low(&self) -> bool {
        !self.is_above(3)
    }

    /// Whether they take more than so many eighths of what they may.
    fn is_above(&self, eighths: usize) -> bool {
        let held = self.held.load(Ordering::Relaxed);
        self.account.get().is_some_and(|account| held > account.limit_bytes / 8 * eighths)
    }

    /// Says that they are put into segments now because they take too much.
    pub(crate) fn freezing(&self) {
        self.frozen_at.store(self.written.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::budget::{Backing, Budget};

    use super::*;

    #[test]
    fn pressure_rises_with_what_is_held() {
        let memory = HotMemory::default();
        assert!(!memory.wrote(1 << 30).expect("nobody limits it"));
        memory.measured(1 << 40);
        assert!(memory.has_room() && !memory.is_high());
        let budget = Budget::new(64 << 20);
        memory.take_from(budget.client("hot rows", 32 << 20, Backing::Heap));
        memory.measured(1 << 20);
        assert!(budget.held_bytes() >= 1 << 20);
        let write = |mib: usize| (0..mib << 10).filter(|_| memory.wrote(1024 - ROW_BYTES).expect("room")).count();
        assert_eq!(write(8), 16, "once in half a mebibyte");
        assert!(memory.is_low() && !memory.is_high());
        memory.measured(17 << 20);
        assert!(memory.is_high() && !memory.is_higher() && !memory.is_low());
        memory.freezing();
        assert!(!memory.is_high(), "it was just done");
        write(3);
        memory.measured(25 << 20);
        assert!(memory.is_high() && memory.is_higher() && memory.has_room());
        memory.measured(33 << 20);
        assert!(!memory.has_room() && memory.wrote(1).is_ok());
        memory.measured(49 << 20);
        let error = memory.wrote(1).expect_err("there is no room");
        assert_eq!(error.kind(), forebay_base::ErrorKind::OutOfMemory);
        memory.measured(0);
        assert!(budget.held_bytes() == 0 && memory.is_low());
    }
}
