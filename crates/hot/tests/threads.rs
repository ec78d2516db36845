//! Threads on one table: what holds after every commit holds at every snapshot.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use forebay_base::{ErrorKind, PhysicalType};
use forebay_hot::{Batch, Cell, Commits, HotTable, Row, RowId, Transaction, View};

/// Accounts: a balance, and the same as text, so that half of a change would show.
const ACCOUNTS: usize = 3000;
const BALANCE: i64 = 1000;

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn text(balance: i64) -> String {
    format!("a balance of {balance} in all")
}

/// The sum of all balances and the number of accounts, by a scan.
fn sum(table: &HotTable, view: View<'_>) -> (i64, usize) {
    let (mut sum, mut count) = (0, 0);
    let mut batch = Batch::default();
    for chunk in table.chunks() {
        for start in (0..table.chunk_rows(chunk)).step_by(1000) {
            table.scan(view, chunk, start..start + 1000, &[1, 0], &mut batch).expect("held");
            for row in batch.visible().ones() {
                let balance = batch.columns()[1].cell(row).as_i64().expect("not NULL");
                assert_eq!(batch.columns()[0].cell(row), Cell::Bytes(text(balance).as_bytes()), "a torn row");
                (sum, count) = (sum + balance, count + 1);
            }
        }
    }
    (sum, count)
}

/// Moves an amount between two accounts; at times an account moves to a row of its own. False on a conflict.
fn transfer(commits: &Arc<Commits>, table: &HotTable, accounts: &[AtomicUsize], random: &mut Random) -> bool {
    let mut transaction = Transaction::begin(commits);
    let mut moved = None;
    let amount = random.below(20) as i64;
    let from = random.below(ACCOUNTS as u64) as usize;
    let to = (from + 1 + random.below(ACCOUNTS as u64 - 1) as usize) % ACCOUNTS;
    for (account, amount) in [(from, -amount), (to, amount)] {
        let row = RowId(accounts[account].load(Ordering::Acquire) as u64);
        let mut out = Row::default();
        // Moved by somebody whose commit this one does not see, or not any more.
        if !table.get(transaction.view(), row, &[0], &mut out).expect("held") {
            return false;
        }
        let balance = out.cell(0).as_i64().expect("not NULL") + amount;
        let string = text(balance);
        let cells = [Cell::i64(balance), Cell::Bytes(string.as_bytes())];
        let answer = match random.below(20) {
            0 => table.delete(&mut transaction, row).and_then(|done| {
                moved = Some((account, table.insert(&mut transaction, &cells)?));
                Ok(done)
            }),
            _ => {
                let savepoint = transaction.savepoint();
                if let Err(error) = table.update(&mut transaction, row, &[(0, Cell::Null)]) {
                    assert_eq!(error.kind(), ErrorKind::Conflict);
                    return false;
                }
                transaction.roll_back_to(savepoint);
                table.update(&mut transaction, row, &[(0, cells[0]), (1, cells[1])])
            }
        };
        match answer {
            Ok(done) => assert!(done, "it was seen"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Conflict);
                return false;
            }
        }
        if let Some((account, row)) = moved.take() {
            // Everybody finds it there from now on, and fails until this one commits.
            let before = accounts[account].swap(row.0 as usize, Ordering::AcqRel);
            if random.below(4) == 0 {
                accounts[account].store(before, Ordering::Release);
                return false;
            }
        }
    }
    transaction.commit();
    true
}

#[test]
fn the_sum_of_balances_is_constant_at_every_snapshot() {
    let commits = Commits::new(0);
    let table = HotTable::new(1, "accounts", vec![PhysicalType::I64, PhysicalType::Bytes], 0, &commits);
    let mut first = Transaction::begin(&commits);
    let string = text(BALANCE);
    let cells = [Cell::i64(BALANCE), Cell::Bytes(string.as_bytes())];
    for _ in 0..ACCOUNTS {
        table.insert(&mut first, &cells).expect("inserts do not fail");
    }
    first.commit();
    let all = (ACCOUNTS as i64 * BALANCE, ACCOUNTS);
    let is_over = AtomicBool::new(false);
    let (done, scans) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|threads| {
        let writers: Vec<_> = (0..3)
            .map(|seed| {
                let (commits, table, done) = (&commits, &table, &done);
                threads.spawn(move || {
                    // Rows of accounts: each thread moves only those that it moved itself; others' are gone for it then.
                    let accounts: Vec<AtomicUsize> = (0..ACCOUNTS).map(AtomicUsize::new).collect();
                    let mut random = Random(seed);
                    for _ in 0..60_000 {
                        done.fetch_add(
                            usize::from(transfer(commits, table, &accounts, &mut random)),
                            Ordering::Relaxed,
                        );
                    }
                })
            })
            .collect();
        for _ in 0..2 {
            threads.spawn(|| {
                let mut held = commits.snapshot();
                while !is_over.load(Ordering::Relaxed) {
                    let snapshot = commits.snapshot();
                    assert_eq!(sum(&table, snapshot.view()), all);
                    assert_eq!(table.count(snapshot.view()), ACCOUNTS);
                    assert_eq!(sum(&table, held.view()), all);
                    if scans.fetch_add(1, Ordering::Relaxed).is_multiple_of(5) {
                        table.prune();
                        held = snapshot;
                    }
                }
            });
        }
        for writer in writers {
            let ended = writer.join();
            if ended.is_err() {
                is_over.store(true, Ordering::Relaxed);
            }
            ended.expect("no writer panics");
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(done.load(Ordering::Relaxed) > 1000, "{done:?} transfers went through");
    assert!(scans.load(Ordering::Relaxed) > 0);
    let last = commits.snapshot();
    assert_eq!(sum(&table, last.view()), all);
    table.prune();
    let memory = table.memory_bytes();
    assert_eq!((memory.undo, memory.marks), (0, 0));
}
