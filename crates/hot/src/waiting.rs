//! Waiting for the transaction that has changed a row and has not ended.
//!
//! Who has met a change that it does not see may wait until its writer ends, and try again: a commit has then changed the row for good, a rollback has
//! left it as it was. Each transaction waits for one other at most, so that a deadlock is a cycle of transactions each of which waits for the next one;
//! whoever would close it is told instead of waiting.
//!
//! Lock order: no latch is held by who waits. Must not know: rows, tables, what is made of a timeout.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use crate::stamp::{FIRST_ID, Stamp, TransactionId};
use crate::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering, fence};

/// How often somebody who waits looks whether it was cancelled.
const LOOK: Duration = Duration::from_millis(20);

/// Whom a transaction has to wait for: the writer of a row that it has met.
#[derive(Debug, Clone)]
pub struct Blocker {
    stamp: Arc<Stamp>,
    id: TransactionId,
    waits: Arc<Waits>,
}

/// How waiting has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// The writer has ended, or has taken changes back: it is worth another try.
    Ended,
    /// The writer waits for the one that was about to wait, perhaps by way of others.
    Deadlock,
    /// The time is over.
    TimedOut,
    /// Nobody wants to wait any more.
    Cancelled,
}

/// Who waits for whom.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    waiting: AtomicUsize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// By transactions that have changed something themselves.
    waits_for: HashMap<TransactionId, TransactionId>,
    /// Transactions that have gone back to a savepoint meanwhile.
    returns: u64,
}

impl Waits {
    /// Wakes those who wait, if there are any: called after the stamp of a transaction says that it has ended.
    pub(crate) fn ended(&self) {
        // Either this sees who is about to wait, or that one sees the stamp.
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            drop(self.lock());
            self.changed.notify_all();
        }
    }

    /// The same where a transaction has taken back some of its changes, and goes on.
    pub(crate) fn returned(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::Relaxed) > 0 {
            self.lock().returns += 1;
            self.changed.notify_all();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Whether `from` waits for `to`, perhaps by way of others.
    fn leads(&self, from: TransactionId, to: TransactionId) -> bool {
        let mut at = from;
        while at != to {
            match self.waits_for.get(&at) {
                Some(next) => at = *next,
                None => return false,
            }
        }
        true
    }
}

impl Blocker {
    /// The transaction of this stamp; `None` if it has committed.
    pub(crate) fn new(stamp: &Arc<Stamp>, waits: &Arc<Waits>) -> Option<Self> {
        let id = stamp.get();
        (id > FIRST_ID).then(|| Self { stamp: Arc::clone(stamp), id, waits: Arc::clone(waits) })
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.stamp.is_rolled_back() || self.stamp.get() != self.id
    }

    /// Waits for it until a moment. `own` is the transaction that waits, if it has changed rows that others may wait for.
    pub fn wait(&self, own: Option<TransactionId>, until: Instant, is_cancelled: &dyn Fn() -> bool) -> Waited {
        let waits = &*self.waits;
        waits.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let waited = self.waited(waits, own, until, is_cancelled);
        waits.waiting.fetch_sub(1, Ordering::SeqCst);
        waited
    }

    fn waited(
        &self,
        waits: &Waits,
        own: Option<TransactionId>,
        until: Instant,
        is_cancelled: &dyn Fn() -> bool,
    ) -> Waited {
        let mut state = waits.lock();
        if let Some(own) = own {
            if state.leads(self.id, own) {
                return Waited::Deadlock;
            }
            state.waits_for.insert(own, self.id);
        }
        let returns = state.returns;
        let waited = loop {
            if self.has_ended() || state.returns != returns {
                break Waited::Ended;
            }
            if is_cancelled() {
                break Waited::Cancelled;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break Waited::TimedOut;
            }
            let woken = waits.changed.wait_timeout(state, left.min(LOOK));
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        };
        if let Some(own) = own {
            state.waits_for.remove(&own);
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use forebay_base::PhysicalType;

    use super::*;
    use crate::{Cell, Commits, HotTable, RowId, Transaction};

    /// A table with two rows of one column, all 0.
    fn two_rows(commits: &Arc<Commits>) -> (HotTable, [RowId; 2]) {
        let table = HotTable::new(1, "t", vec![PhysicalType::I64], 0, commits);
        let mut transaction = Transaction::begin(commits);
        let rows = [0, 1].map(|_| table.insert(&mut transaction, &[Cell::i64(0)]).expect("inserted"));
        transaction.commit();
        (table, rows)
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    fn put(table: &HotTable, transaction: &mut Transaction, row: RowId) -> Option<Blocker> {
        match table.update(transaction, row, &[(0, Cell::i64(1))]) {
            Ok(_) => None,
            Err(_) => Some(transaction.take_blocker().expect("the writer is open")),
        }
    }

    #[test]
    fn who_waits_goes_on_when_the_writer_ends() {
        let commits = Commits::new(0);
        let (table, [row, _]) = two_rows(&commits);
        for is_committed in [true, false] {
            let (mut first, mut second) = (Transaction::begin(&commits), Transaction::begin(&commits));
            assert!(put(&table, &mut first, row).is_none());
            let blocker = put(&table, &mut second, row).expect("a conflict");
            assert_eq!(blocker.wait(Some(second.id()), Instant::now(), &|| false), Waited::TimedOut);
            assert_eq!(blocker.wait(None, soon(), &|| true), Waited::Cancelled);
            let waited = thread::scope(|scope| {
                let waits = scope.spawn(|| blocker.wait(Some(second.id()), soon(), &|| false));
                thread::sleep(Duration::from_millis(5));
                if is_committed {
                    first.commit();
                } else {
                    first.roll_back();
                }
                waits.join().expect("no panic")
            });
            assert_eq!(waited, Waited::Ended);
            let again = table.update(&mut second, row, &[(0, Cell::i64(2))]);
            assert_eq!(again.is_err(), is_committed);
            assert!(second.take_blocker().is_none(), "who has committed is nobody to wait for");
        }
    }

    #[test]
    fn who_would_close_a_cycle_is_told() {
        let commits = Commits::new(0);
        let (table, [one, other]) = two_rows(&commits);
        let (mut first, mut second) = (Transaction::begin(&commits), Transaction::begin(&commits));
        assert!(put(&table, &mut first, one).is_none() && put(&table, &mut second, other).is_none());
        let (blocks_first, blocks_second) =
            (put(&table, &mut first, other).expect("blocked"), put(&table, &mut second, one).expect("blocked"));
        thread::scope(|scope| {
            let waits = scope.spawn(|| blocks_first.wait(Some(first.id()), soon(), &|| false));
            // As soon as the first one waits the second one must not.
            let told = loop {
                match blocks_second.wait(Some(second.id()), Instant::now(), &|| false) {
                    Waited::TimedOut => thread::yield_now(),
                    told => break told,
                }
            };
            assert_eq!(told, Waited::Deadlock);
            second.roll_back();
            assert_eq!(waits.join().expect("no panic"), Waited::Ended);
        });
        assert!(put(&table, &mut first, other).is_none());
    }

    #[test]
    fn savepoints_give_rows_back() {
        let commits = Commits::new(0);
        let (table, [row, _]) = two_rows(&commits);
        let (mut first, mut second) = (Transaction::begin(&commits), Transaction::begin(&commits));
        let savepoint = first.savepoint();
        assert!(put(&table, &mut first, row).is_none());
        let blocker = put(&table, &mut second, row).expect("a conflict");
        thread::scope(|scope| {
            let waits = scope.spawn(|| blocker.wait(Some(second.id()), soon(), &|| false));
            while !waits.is_finished() {
                first.roll_back_to(savepoint);
                thread::yield_now();
            }
        });
        assert!(!blocker.has_ended() && put(&table, &mut second, row).is_none());
    }
}
