//! Commit numbers, transaction ids and live snapshots: the clock of all hot tables of a database.
//!
//! Commits are numbered in their order, in 8 bytes; transaction ids lie above 2^63, so that one comparison tells that a stamp is of no
//! snapshot's past (Neumann et al. 2015).
//!
//! A transaction's undo records lead to its [`Stamp`], which holds its id until it commits and its commit number then: one store makes
//! all of its rows everyone's at once, whatever their number. To rewrite the stamps of all records instead would touch each of them, under the latches of
//! their chunks, and others would see a part of the transaction meanwhile unless they waited. Pruning writes numbers into records later.
//!
//! Invariants: a snapshot is never newer than the last commit whose stamp is set; who computes the live snapshots sees every one that is
//! older than the last commit. Must not know: tables, rows.

use std::sync::{Arc, PoisonError};

use forebay_base::Result;

use crate::stamp::{FIRST_ID, Stamp, TransactionId};
use crate::sync::{AtomicU64, Mutex, MutexGuard, Ordering};
use crate::waiting::Waits;

/// The number of a commit; 0 is before the first.
pub type CommitNumber = u64;

/// Hands out snapshots, ids and commit numbers.
#[derive(Debug)]
pub struct Commits {
    last: AtomicU64,
    next_id: AtomicU64,
    /// One commit at a time.
    committing: Mutex<()>,
    live: Mutex<Vec<LiveSnapshot>>,
    pub(crate) waits: Arc<Waits>,
}

/// A commit number at which transactions read, and how many. A list of them is ascending.
#[derive(Debug)]
struct LiveSnapshot {
    number: CommitNumber,
    readers: usize,
}

impl Commits {
    /// Commits go on after number `last`, which is below 2^63.
    pub fn new(last: CommitNumber) -> Arc<Self> {
        assert!(last < FIRST_ID, "commit numbers lie below transaction ids");
        Arc::new(Self {
            last: last.into(),
            next_id: (FIRST_ID + 1).into(),
            committing: Mutex::default(),
            live: Mutex::default(),
            waits: Arc::default(),
        })
    }

    /// The number of the last commit.
    pub fn last(&self) -> CommitNumber {
        self.last.load(Ordering::Acquire)
    }

    /// A snapshot of now, for reading.
    pub fn snapshot(self: &Arc<Self>) -> Snapshot {
        let mut live = self.lock_live();
        let number = self.last();
        match live.last_mut() {
            Some(newest) if newest.number == number => newest.readers += 1,
            _ => live.push(LiveSnapshot { number, readers: 1 }),
        }
        drop(live);
        Snapshot { commits: Arc::clone(self), number }
    }

    /// The snapshots that somebody reads at, ascending; the last one is that of the last commit, at which somebody may begin to read.
    pub(crate) fn live(&self) -> Vec<CommitNumber> {
        let live = self.lock_live();
        let mut numbers = Vec::with_capacity(live.len() + 1);
        numbers.extend(live.iter().map(|snapshot| snapshot.number));
        let last = self.last();
        if numbers.last() != Some(&last) {
            numbers.push(last);
        }
        numbers
    }

    /// How many different snapshots are read at.
    pub fn live_snapshots(&self) -> usize {
        self.lock_live().len()
    }

    pub(crate) fn new_stamp(&self) -> Arc<Stamp> {
        Arc::new(Stamp::of_transaction(self.next_id.fetch_add(1, Ordering::Relaxed)))
    }

    /// Gives a transaction its number; not if `record` fails, which is called with the number while nobody else commits.
    pub(crate) fn commit(
        &self,
        stamp: &Stamp,
        record: impl FnOnce(CommitNumber) -> Result<()>,
    ) -> Result<CommitNumber> {
        let turn = self.committing.lock().unwrap_or_else(PoisonError::into_inner);
        let number = self.last.load(Ordering::Relaxed) + 1;
        record(number)?;
        stamp.commit(number);
        // Who reads at this number sees the stamp.
        self.last.store(number, Ordering::Release);
        drop(turn);
        self.waits.ended();
        Ok(number)
    }

    /// Says that a transaction has taken back all that it had changed.
    pub(crate) fn rolled_back(&self, stamp: &Stamp) {
        stamp.roll_back();
        self.waits.ended();
    }

    fn lock_live(&self) -> MutexGuard<'_, Vec<LiveSnapshot>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rows as they were after a commit. Versions that it needs are kept until it is dropped.
#[derive(Debug)]
pub struct Snapshot {
    commits: Arc<Commits>,
    number: CommitNumber,
}

impl Snapshot {
    /// The last commit that it sees.
    pub fn number(&self) -> CommitNumber {
        self.number
    }

    /// What it sees.
    pub fn view(&self) -> View<'_> {
        View { number: self.number, own: FIRST_ID, commits: &self.commits }
    }

    /// What a transaction sees that began with it.
    pub fn view_of(&self, transaction: TransactionId) -> View<'_> {
        View::of_transaction(self, transaction)
    }

    pub(crate) fn commits(&self) -> &Arc<Commits> {
        &self.commits
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let mut live = self.commits.lock_live();
        let at = live.partition_point(|snapshot| snapshot.number < self.number);
        live[at].readers -= 1;
        if live[at].readers == 0 {
            live.remove(at);
        }
    }
}

/// What a transaction sees: all commits up to a number, and what it has changed itself.
#[derive(Debug, Clone, Copy)]
pub struct View<'s> {
    pub(crate) number: CommitNumber,
    /// The transaction's own id; [`FIRST_ID`], which nobody has, for a snapshot.
    pub(crate) own: TransactionId,
    commits: &'s Arc<Commits>,
}

impl<'s> View<'s> {
    pub(crate) fn of_transaction(snapshot: &'s Snapshot, own: TransactionId) -> Self {
        View { own, ..snapshot.view() }
    }

    /// What everybody sees who begins now.
    pub(crate) fn of_last_commit(commits: &'s Arc<Commits>) -> Self {
        View { number: commits.last(), own: FIRST_ID, commits }
    }

    /// The same commits, with what a transaction has changed, if there is one.
    pub(crate) fn with_own(self, own: Option<TransactionId>) -> Self {
        View { own: own.unwrap_or(FIRST_ID), ..self }
    }

    /// Whether changes with this stamp are seen.
    #[inline]
    pub(crate) fn sees(self, stamp: u64) -> bool {
        stamp <= self.number || stamp == self.own
    }

    /// The same commits, without what the transaction has changed itself.
    pub(crate) fn of_others(self) -> Self {
        View { own: FIRST_ID, ..self }
    }

    pub(crate) fn is_of(self, commits: &Arc<Commits>) -> bool {
        Arc::ptr_eq(self.commits, commits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn live_snapshots_come_and_go() {
        let commits = Commits::new(7);
        let (first, second) = (commits.snapshot(), commits.snapshot());
        let stamp = commits.new_stamp();
        assert!(stamp.get() > FIRST_ID && !first.view().sees(stamp.get()));
        assert!(commits.commit(&stamp, |_| Err(forebay_base::Error::input("the log is full"))).is_err());
        assert_eq!((commits.last(), commits.live()), (7, vec![7]));
        let mut told = 0;
        let record = |number| {
            told = number;
            Ok(())
        };
        assert_eq!(commits.commit(&stamp, record).expect("commits"), 8);
        assert_eq!(told, 8);
        assert!(!first.view().sees(stamp.get()) && commits.snapshot().view().sees(stamp.get()));
        assert_eq!(commits.live(), [7, 8]);
        drop(first);
        assert_eq!(commits.live(), [7, 8]);
        drop(second);
        assert_eq!((commits.live(), commits.live_snapshots()), (vec![8], 0));
    }
}
