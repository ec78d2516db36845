//! Stamps: which transaction has made a change, and at which commit.
//!
//! Must not know: who hands out numbers.

use crate::sync::{AtomicU64, Ordering};

/// Stamps from here on are ids of transactions that have not committed.
pub(crate) const FIRST_ID: u64 = 1 << 63;

/// The id of a transaction, above 2^63.
pub type TransactionId = u64;

/// The stamp of a transaction that has rolled back.
const ROLLED_BACK: u64 = u64::MAX;

/// What all undo records of a transaction lead to: its id while it is open, its commit number then, the greatest number if there is none.
#[derive(Debug)]
pub(crate) struct Stamp(AtomicU64);

impl Stamp {
    /// That of an open transaction with this id.
    pub(crate) fn of_transaction(id: TransactionId) -> Self {
        Self(id.into())
    }

    /// The transaction's id, or its commit number once it has committed.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Acquire)
    }

    /// Whether it is of a transaction that has rolled back.
    pub(crate) fn is_rolled_back(&self) -> bool {
        self.get() == ROLLED_BACK
    }

    pub(crate) fn commit(&self, number: u64) {
        self.0.store(number, Ordering::Release);
    }

    pub(crate) fn roll_back(&self) {
        self.0.store(ROLLED_BACK, Ordering::Release);
    }
}
