//! Prints how fast one core inserts, updates, reads and scans hot rows, and what versions cost.
//!
//! `cargo run --release -p forebay-hot --example updates [ROWS]`

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use forebay_base::PhysicalType;
use forebay_hot::{Batch, Cell, Commits, Fixed, HotTable, Row, RowId, Transaction, View};

/// Rows of one call of a scan: a vector of 8-byte values stays in the first-level cache.
const VECTOR_ROWS: usize = 2048;
/// Changes of a transaction.
const CHANGES: usize = 10;
const OPERATIONS: usize = 4_000_000;

fn main() {
    let rows: usize = std::env::args().nth(1).map_or(Ok(8_000_000), |rows| rows.parse()).expect("a number of rows");
    let commits = Commits::new(0);
    let table = HotTable::new(1, "t", vec![PhysicalType::I64, PhysicalType::I64], 0, &commits);
    let mut run = Run { commits, table, rows, random: Random(42) };

    let seconds = measured(|| run.insert());
    print_rate(&format!("inserts, {CHANGES} a transaction, {rows} rows"), rows, seconds);
    for changes in [CHANGES, 1] {
        let seconds = measured(|| run.update(OPERATIONS, changes));
        print_rate(&format!("updates of one column, random rows, {changes} a transaction"), OPERATIONS, seconds);
    }
    run.table.prune();
    let mut sum = 0;
    let seconds = measured(|| sum += run.get());
    print_rate("gets of two columns, random rows", OPERATIONS, seconds);
    run.scans();
    black_box(sum);
}

struct Run {
    commits: Arc<Commits>,
    table: HotTable,
    rows: usize,
    random: Random,
}

impl Run {
    fn insert(&mut self) {
        for first in (0..self.rows).step_by(CHANGES) {
            let mut transaction = Transaction::begin(&self.commits);
            for row in first..(first + CHANGES).min(self.rows) {
                let cells = [Cell::i64(row as i64), Cell::i64(1)];
                self.table.insert(&mut transaction, &cells).expect("inserts do not fail");
            }
            transaction.commit();
        }
    }

    /// A random row.
    fn row(&mut self) -> RowId {
        RowId(self.random.below(self.rows) as u64)
    }

    fn update(&mut self, count: usize, changes: usize) {
        for _ in 0..count / changes {
            let mut transaction = Transaction::begin(&self.commits);
            for _ in 0..changes {
                let (row, value) = (self.row(), Cell::i64(self.random.0 as i64 >> 40));
                assert!(self.table.update(&mut transaction, row, &[(1, value)]).expect("nobody else writes"));
            }
            transaction.commit();
        }
    }

    fn get(&mut self) -> i64 {
        let snapshot = self.commits.snapshot();
        let (mut out, mut sum) = (Row::default(), 0);
        for _ in 0..OPERATIONS {
            let row = self.row();
            assert!(self.table.get(snapshot.view(), row, &[0, 1], &mut out).expect("held"));
            sum += out.cell(1).as_i64().expect("not NULL");
        }
        sum
    }

    fn scans(&mut self) {
        let (mut sum, bytes) = (0_i64, (self.rows * 8) as f64);
        // What memory gives: the same sum over an array.
        let plain: Vec<u64> = (0..self.rows as u64).collect();
        let memory =
            repeated(|| sum += black_box(&plain).iter().fold(0_u64, |sum, value| sum.wrapping_add(*value)) as i64);
        println!("{:<56}{:>8.2} GB/s", "sum of an array of 8-byte values", bytes / memory / 1e9);

        let snapshot = self.commits.snapshot();
        let untouched = repeated(|| sum += scan(&self.table, snapshot.view()));
        print_scan("sum over a scan, no versions", bytes, untouched, untouched, memory);
        let right = scan(&self.table, snapshot.view());
        for share in [1000, 100, 10, 1] {
            self.update(self.rows / share, CHANGES);
            assert_eq!(scan(&self.table, snapshot.view()), right, "a snapshot's sum stays");
            let versioned = repeated(|| sum += scan(&self.table, snapshot.view()));
            let what = format!("the same, old snapshot, 1 of {share} rows updated");
            print_scan(&what, bytes, versioned, untouched, memory);
        }
        self.table.prune();
        let versioned = repeated(|| sum += scan(&self.table, snapshot.view()));
        print_scan("the same, pruned", bytes, versioned, untouched, memory);
        let newest = self.commits.snapshot();
        let versioned = repeated(|| sum += scan(&self.table, newest.view()));
        print_scan("the same, newest snapshot, pruned but for the old one", bytes, versioned, untouched, memory);
        println!("{:?}", self.table.memory_bytes());
        drop((snapshot, newest));
        self.table.prune();
        println!("without snapshots: {:?}", self.table.memory_bytes());
        black_box(sum);
    }
}

/// The sum of the second column, as every query would make it: a batch at a time.
fn scan(table: &HotTable, view: View<'_>) -> i64 {
    let mut batch = Batch::default();
    let mut sum = 0_u64;
    for chunk in table.chunks() {
        for start in (0..table.chunk_rows(chunk)).step_by(VECTOR_ROWS) {
            table.scan(view, chunk, start..start + VECTOR_ROWS, &[1], &mut batch).expect("held");
            let Some(Fixed::W8(values)) = batch.columns()[0].fixed() else { unreachable!("8-byte values") };
            assert_eq!(batch.visible().count_ones(), batch.rows());
            sum = values.iter().fold(sum, |sum, value| sum.wrapping_add(*value));
        }
    }
    sum as i64
}

fn print_scan(what: &str, bytes: f64, seconds: f64, untouched: f64, memory: f64) {
    let (of_untouched, of_memory) = (untouched / seconds, memory / seconds);
    println!(
        "{what:<56}{:>8.2} GB/s {of_untouched:>6.2} of untouched {of_memory:>6.2} of the array",
        bytes / seconds / 1e9
    );
}

/// Seconds on the processor, as others may use it, too; by the clock where the system does not tell.
fn measured(work: impl FnOnce()) -> f64 {
    let on_processor = || {
        let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
        Some(told.split(' ').next()?.parse::<u64>().ok()? as f64 / 1e9)
    };
    let (clock, before) = (Instant::now(), on_processor());
    work();
    match (before, on_processor()) {
        (Some(before), Some(after)) => after - before,
        _ => clock.elapsed().as_secs_f64(),
    }
}

/// Seconds that some work takes when it is repeated for some tenths of a second: the system tells time in steps of milliseconds.
fn repeated(mut work: impl FnMut()) -> f64 {
    let mut repeats = 1;
    loop {
        let seconds = measured(|| (0..repeats).for_each(|_| work()));
        if seconds > 0.3 {
            return seconds / f64::from(repeats);
        }
        repeats *= 2;
    }
}

fn print_rate(what: &str, operations: usize, seconds: f64) {
    println!("{what:<56}{:>8.2} M/s", operations as f64 / seconds / 1e6);
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * limit as u128) >> 64) as usize
    }
}
