//! A transaction over hot tables: what it has written, savepoints, and its end.
//!
//! Invariant: one that is dropped without a commit has changed nothing. Must not know: how rows lie.

use std::sync::Arc;

use forebay_base::Result;

use crate::commits::{CommitNumber, Commits, Snapshot, View};
use crate::row_id::RowId;
use crate::stamp::{Stamp, TransactionId};
use crate::waiting::Blocker;

/// Where rows are that can be taken back.
pub(crate) trait Restore: Send + Sync + std::fmt::Debug {
    /// The number of the table.
    fn number(&self) -> u64;

    /// Takes back the newest change of a row, which is of a transaction that has not committed.
    fn restore(&self, row: RowId);
}

/// An open transaction at snapshot isolation.
#[derive(Debug)]
pub struct Transaction {
    snapshot: Arc<Snapshot>,
    stamp: Arc<Stamp>,
    id: TransactionId,
    tables: Vec<Arc<dyn Restore>>,
    /// Changes that have records of their own, in their order: the number of the table, the row.
    writes: Vec<(u32, RowId)>,
    /// Writes before the last savepoint.
    floor: usize,
    /// Whose change was in its way last.
    blocker: Option<Blocker>,
}

/// A moment of a transaction to which it can go back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Savepoint(usize);

impl Transaction {
    /// One that sees what is committed now.
    pub fn begin(commits: &Arc<Commits>) -> Self {
        Self::at(&Arc::new(commits.snapshot()))
    }

    /// One that sees what this snapshot does.
    pub fn at(snapshot: &Arc<Snapshot>) -> Self {
        let (snapshot, stamp) = (Arc::clone(snapshot), snapshot.commits().new_stamp());
        let id = stamp.get();
        Self { snapshot, stamp, id, tables: Vec::new(), writes: Vec::new(), floor: 0, blocker: None }
    }

    /// Its id, for those who wait for it.
    pub fn id(&self) -> TransactionId {
        self.id
    }

    /// What it sees.
    pub fn view(&self) -> View<'_> {
        View::of_transaction(&self.snapshot, self.id)
    }

    /// Whether it has changed nothing.
    pub fn is_read_only(&self) -> bool {
        self.writes.is_empty()
    }

    /// The rows that it has inserted, updated or deleted, each once: the number of the table, the row. In ascending order.
    pub fn written(&self) -> Vec<(u64, RowId)> {
        let mut rows: Vec<(u64, RowId)> =
            self.writes.iter().map(|(table, row)| (self.tables[*table as usize].number(), *row)).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// The numbers of the tables of which it has written rows.
    pub fn written_tables(&self) -> Vec<u64> {
        let mut tables = Vec::with_capacity(self.tables.len());
        for (table, _) in &self.writes {
            let number = self.tables[*table as usize].number();
            if !tables.contains(&number) {
                tables.push(number);
            }
        }
        tables
    }

    /// Marks this moment.
    pub fn savepoint(&mut self) -> Savepoint {
        self.floor = self.writes.len();
        Savepoint(self.floor)
    }

    /// Takes back what was changed since a savepoint, which stays; later ones are gone.
    ///
    /// # Panics
    /// Where the savepoint is gone.
    pub fn roll_back_to(&mut self, savepoint: Savepoint) {
        assert!(savepoint.0 <= self.writes.len(), "the savepoint is gone");
        while self.writes.len() > savepoint.0 {
            let (table, row) = self.writes.pop().expect("there are more writes");
            self.tables[table as usize].restore(row);
        }
        self.floor = savepoint.0;
        self.snapshot.commits().waits.returned();
    }

    /// Has it see what this snapshot does from now on, unless that is older than its own, and what it has changed itself.
    pub fn see(&mut self, snapshot: &Arc<Snapshot>) {
        if snapshot.number() > self.snapshot.number() {
            self.snapshot = Arc::clone(snapshot);
        }
    }

    /// Whom to wait for after a conflict before trying the same again; `None` where that is of no use.
    pub fn take_blocker(&mut self) -> Option<Blocker> {
        self.blocker.take()
    }

    /// Says whose change was in its way.
    pub fn blocked_by(&mut self, blocker: Option<Blocker>) {
        self.blocker = blocker;
    }

    /// Makes its changes everyone's; gives the number of the commit, that of its snapshot if it has changed nothing.
    pub fn commit(self) -> CommitNumber {
        self.commit_with(|_| Ok(())).expect("nothing is done that can fail")
    }

    /// As [`Transaction::commit`], but `record` is called with the number first, while no other transaction commits: it writes the
    /// record of the log. If it fails, everything is rolled back. Not called if nothing was changed.
    ///
    /// # Errors
    /// That of `record`.
    pub fn commit_with(mut self, record: impl FnOnce(CommitNumber) -> Result<()>) -> Result<CommitNumber> {
        if self.writes.is_empty() {
            return Ok(self.snapshot.number());
        }
        let number = self.snapshot.commits().commit(&self.stamp, record)?;
        self.writes.clear();
        Ok(number)
    }

    /// Takes back all that it has changed.
    pub fn roll_back(self) {
        drop(self);
    }

    pub(crate) fn stamp(&self) -> &Arc<Stamp> {
        &self.stamp
    }

    /// The number of its next write, and the first behind its last savepoint.
    pub(crate) fn next_write(&self) -> (u32, u32) {
        let number = |count| u32::try_from(count).expect("a transaction has fewer than 2^32 changes");
        (number(self.writes.len()), number(self.floor))
    }

    pub(crate) fn wrote<T: Restore + 'static>(&mut self, table: &Arc<T>, row: RowId) {
        let is_it = |known: &Arc<dyn Restore>| std::ptr::addr_eq(Arc::as_ptr(known), Arc::as_ptr(table));
        let known = self.tables.iter().rposition(is_it);
        let table = known.unwrap_or_else(|| {
            self.tables.push(Arc::<T>::clone(table));
            self.tables.len() - 1
        });
        self.writes.push((table as u32, row));
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if !self.writes.is_empty() {
            self.roll_back_to(Savepoint(0));
            self.snapshot.commits().rolled_back(&self.stamp);
        }
    }
}
