//! Hot rows under many interleavings of a few threads, which take turns at every latch and every atomic (crate `shuttle`): what a view sees does
//! not depend on when it looks, no change is lost, no key is there twice, and nobody waits for ever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::PhysicalType;
use forebay_hot::{Batch, Cell, Commits, HotTable, Row, RowId, Snapshot, Transaction, UniqueIndex, View, Waited};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread::JoinHandle;

/// Interleavings of each test.
fn schedules() -> usize {
    std::env::var("FOREBAY_SCHEDULES").ok().and_then(|count| count.parse().ok()).unwrap_or(10_000)
}

/// A table of numbers: a key, and a value.
struct World {
    commits: Arc<Commits>,
    table: HotTable,
    keys: UniqueIndex,
}

impl World {
    /// With the rows (0, 100), (1, 100) and so on.
    fn new(rows: i64) -> (Arc<Self>, Vec<RowId>) {
        let commits = Commits::new(0);
        let table = HotTable::new(1, "t".to_owned(), vec![PhysicalType::I64, PhysicalType::I64], 0, &commits);
        let keys = UniqueIndex::new(&table, vec![0]);
        let world = Self { commits, table, keys };
        let mut transaction = Transaction::begin(&world.commits);
        let rows = (0..rows).map(|key| world.add(&mut transaction, key, 100).expect("nobody else adds"));
        let rows = rows.collect();
        transaction.commit();
        (Arc::new(world), rows)
    }

    fn key(&self, key: i64) -> Vec<u8> {
        self.keys.columns().key_of(|_| Cell::i64(key))
    }

    /// Adds a row, unless the key is taken.
    fn add(&self, transaction: &mut Transaction, key: i64, value: i64) -> Option<RowId> {
        let row = self.table.insert(transaction, &[Cell::i64(key), Cell::i64(value)]).expect("it fits");
        if self.keys.insert(transaction.view(), &self.key(key), row).is_ok() {
            return Some(row);
        }
        self.table.delete(transaction, row).expect("its own row");
        None
    }

    fn value(&self, view: View<'_>, row: RowId) -> Option<i64> {
        let mut read = Row::default();
        self.table.get(view, row, &[1], &mut read).expect("read").then(|| read.cell(0).as_i64().expect("a number"))
    }

    /// All rows that a view sees, in one of two ways that have to give the same.
    fn rows(&self, view: View<'_>) -> Vec<(i64, i64)> {
        let mut rows = Vec::new();
        let mut batch = Batch::default();
        for chunk in self.table.chunks() {
            let visible = self.table.visible(view, chunk);
            if visible.count_ones() == 0 {
                continue;
            }
            self.table.scan(view, chunk, 0..visible.len(), &[0, 1], &mut batch).expect("it holds rows that are seen");
            assert!(visible.ones().eq(batch.visible().ones()), "the same rows are seen and copied");
            let number = |column: usize, row| batch.columns()[column].cell(row).as_i64().expect("a number");
            rows.extend(visible.ones().map(|row| (number(0, row), number(1, row))));
        }
        assert_eq!(self.table.count(view), rows.len());
        rows
    }

    /// A view sees the same however often it looks.
    fn look(&self, snapshot: &Snapshot) -> Vec<(i64, i64)> {
        let first = self.rows(snapshot.view());
        shuttle::thread::yield_now();
        assert_eq!(self.rows(snapshot.view()), first);
        let mut found: BTreeMap<i64, i64> = BTreeMap::new();
        for (key, value) in &first {
            assert!(found.insert(*key, *value).is_none(), "key {key} is there twice");
            let row = self.keys.find(snapshot.view(), &self.key(*key)).expect("the index has it");
            assert_eq!(self.value(snapshot.view(), row), Some(*value));
        }
        first
    }

    fn tidy(&self) {
        self.table.prune();
        if thread_rng().gen_bool(0.3) {
            self.table.close_last();
        }
        self.table.release_empty();
        self.keys.sweep();
    }
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(600)
}

fn joined(threads: Vec<JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

fn check(run: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(run, schedules());
    shuttle::check_pct(run, schedules(), 3);
}

/// Moves a part of one row's value to another one; a writer that is in the way is waited for. False where it has to begin again.
fn transfer(world: &World, rows: &[RowId]) -> bool {
    let mut transaction = Transaction::begin(&world.commits);
    let (from, to) = (thread_rng().gen_range(0..rows.len()), thread_rng().gen_range(0..rows.len()));
    for (row, more) in [(rows[from], -1), (rows[to], 1)] {
        loop {
            let value = world.value(transaction.view(), row).expect("nobody deletes");
            if world.table.update(&mut transaction, row, &[(1, Cell::i64(value + more))]).is_ok() {
                break;
            }
            let Some(blocker) = transaction.take_blocker() else { return false };
            match blocker.wait(Some(transaction.id()), soon(), &|| false) {
                Waited::Ended => {}
                Waited::Deadlock => return false,
                other => panic!("{other:?}"),
            }
        }
    }
    if thread_rng().gen_bool(0.2) {
        transaction.roll_back();
    } else {
        transaction.commit();
    }
    true
}

#[test]
fn transfers_beside_readers() {
    check(|| {
        let (world, rows) = World::new(3);
        let mut threads = Vec::new();
        for _ in 0..2 {
            let (world, rows) = (Arc::clone(&world), rows.clone());
            threads.push(shuttle::thread::spawn(move || {
                for _ in 0..3 {
                    transfer(&world, &rows);
                }
            }));
        }
        let reader = Arc::clone(&world);
        threads.push(shuttle::thread::spawn(move || {
            for _ in 0..2 {
                let sum: i64 = reader.look(&reader.commits.snapshot()).iter().map(|(_, value)| value).sum();
                assert_eq!(sum, 300);
                reader.tidy();
            }
        }));
        joined(threads);
        let sum: i64 = world.look(&world.commits.snapshot()).iter().map(|(_, value)| value).sum();
        assert_eq!((sum, world.commits.live_snapshots()), (300, 0));
    });
}

/// Adds, changes and deletes rows, goes back to savepoints, and commits or rolls back.
fn change(world: &World) {
    let mut transaction = Transaction::begin(&world.commits);
    for _ in 0..2 {
        let savepoint = transaction.savepoint();
        let key = thread_rng().gen_range(0..4);
        let found = world.keys.find(transaction.view(), &world.key(key));
        match found {
            None => drop(world.add(&mut transaction, key, 1)),
            // Somebody else may have changed it.
            Some(row) if thread_rng().gen_bool(0.5) => drop(world.table.delete(&mut transaction, row)),
            Some(row) => drop(world.table.update(&mut transaction, row, &[(1, Cell::i64(7))])),
        }
        let own = world.rows(transaction.view());
        shuttle::thread::yield_now();
        assert_eq!(world.rows(transaction.view()), own, "its own view stays, too");
        if thread_rng().gen_bool(0.3) {
            transaction.roll_back_to(savepoint);
        }
    }
    match thread_rng().gen_bool(0.7) {
        true => drop(transaction.commit()),
        false => transaction.roll_back(),
    }
}

#[test]
fn rows_come_and_go_beside_readers() {
    check(|| {
        let (world, _) = World::new(2);
        let mut threads = Vec::new();
        for _ in 0..2 {
            let world = Arc::clone(&world);
            threads.push(shuttle::thread::spawn(move || (0..2).for_each(|_| change(&world))));
        }
        let reader = Arc::clone(&world);
        threads.push(shuttle::thread::spawn(move || {
            let snapshot = reader.commits.snapshot();
            let first = reader.look(&snapshot);
            reader.tidy();
            reader.look(&reader.commits.snapshot());
            reader.tidy();
            assert_eq!(reader.look(&snapshot), first);
        }));
        joined(threads);
        world.tidy();
        world.look(&world.commits.snapshot());
    });
}

/// Of several that add the same key one does.
#[test]
fn keys_are_given_once() {
    check(|| {
        let (world, _) = World::new(0);
        let adds = |world: &Arc<World>| {
            let world = Arc::clone(world);
            shuttle::thread::spawn(move || {
                for _ in 0..2 {
                    let mut transaction = Transaction::begin(&world.commits);
                    let added = world.add(&mut transaction, 5, 1);
                    match thread_rng().gen_bool(0.5) {
                        true => drop(transaction.commit()),
                        false => transaction.roll_back(),
                    }
                    if added.is_none() {
                        continue;
                    }
                    // Once it is committed it stays until somebody deletes it.
                    let mut transaction = Transaction::begin(&world.commits);
                    if let Some(row) = world.keys.find(transaction.view(), &world.key(5))
                        && world.table.delete(&mut transaction, row).is_ok()
                    {
                        transaction.commit();
                    }
                    world.keys.sweep();
                }
            })
        };
        joined(vec![adds(&world), adds(&world), adds(&world)]);
        assert!(world.look(&world.commits.snapshot()).len() <= 1);
    });
}
