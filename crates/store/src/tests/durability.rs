//! Commits that are acknowledged before they are durable, and what becomes of those that wait for one that fails.

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::volume::locked;

/// A database in a folder of a machine whose power may go.
fn database(machine: &SimulatedDisk) -> (Store, TableId) {
    let disk = machine.elsewhere("/db").expect("a path");
    disk.create_directory("").expect("made");
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    (store, id)
}

fn add(store: &Store, id: TableId, row: i64, durability: Durability) -> Result<()> {
    let sealed = segment(store, &[row])?;
    let mut transaction = store.begin()?;
    transaction.set_durability(durability);
    transaction.publish(id, vec![sealed])?;
    transaction.commit()
}

fn rows_of(store: &Store) -> Vec<i64> {
    let catalog = store.catalog();
    let Some(table) = catalog.table("main", "t") else { return Vec::new() };
    table.segments.iter().map(|segment| super::redo::first_of(segment)).collect()
}

/// What is there after a power loss, which limits of room do not outlive.
fn left(machine: &SimulatedDisk) -> Vec<i64> {
    let after = machine.crash();
    after.set_full("/db", false).expect("absolute");
    rows_of(&Store::open(after.elsewhere("/db").expect("a path"), OpenMode::ReadWrite, "test").expect("it opens"))
}

/// What is there where the power goes behind this work.
fn left_by(seed: u64, work: impl FnOnce(&Store, TableId)) -> Vec<i64> {
    let machine = SimulatedDisk::new(seed, Faults::default());
    let (store, id) = database(&machine);
    work(&store, id);
    left(&machine)
}

fn has_unsynced(store: &Store) -> bool {
    locked(&store.inner.written).log.as_ref().is_some_and(crate::redo_log::RedoLog::has_unsynced)
}

/// One row under `Full`, and four that are not durable when they are acknowledged.
fn five_rows(store: &Store, id: TableId) {
    add(store, id, 1, Durability::Full).expect("a row");
    (2..6).for_each(|row| add(store, id, row, Durability::Off).expect("a row"));
    assert_eq!(rows_of(store), [1, 2, 3, 4, 5], "all see them");
    assert!(has_unsynced(store));
}

/// A power loss takes the newest commits only, and none that was durable.
#[test]
fn a_power_loss_leaves_the_first_commits() {
    let mut lengths = BTreeSet::new();
    for seed in 0..40 {
        let rows = left_by(seed, five_rows);
        assert!(!rows.is_empty() && [1, 2, 3, 4, 5].starts_with(&rows), "seed {seed}: {rows:?}");
        lengths.insert(rows.len());
        let rows = left_by(seed, |store, id| {
            five_rows(store, id);
            add(store, id, 6, Durability::Full).expect("a row");
        });
        assert_eq!(rows, [1, 2, 3, 4, 5, 6], "seed {seed}: one that is durable takes the others with it");
        let rows = left_by(seed, |store, id| {
            five_rows(store, id);
            store.checkpoint().expect("a checkpoint");
        });
        assert_eq!(rows, [1, 2, 3, 4, 5], "seed {seed}");
        let machine = SimulatedDisk::new(seed, Faults::default());
        let (store, id) = database(&machine);
        five_rows(&store, id);
        drop(store);
        assert_eq!(left(&machine), [1, 2, 3, 4, 5], "seed {seed}: closing makes all durable");
    }
    assert!(lengths.len() > 2, "a power loss takes more or less of them: {lengths:?}");
}

#[test]
fn commits_are_durable_after_their_time() {
    let rows = left_by(3, |store, id| {
        for round in 0..3_i64 {
            for row in 0..5 {
                add(store, id, round * 5 + row, Durability::Within(Duration::from_millis(20))).expect("a row");
            }
            let is_synced = |_| {
                std::thread::sleep(Duration::from_millis(10));
                !has_unsynced(store)
            };
            assert!((0..500).any(is_synced), "nobody has synced the log in five seconds");
        }
    });
    assert_eq!(rows, (0..15).collect::<Vec<_>>());
    // A long time is no time to wait for where the database is closed.
    let machine = SimulatedDisk::new(4, Faults::default());
    let (store, id) = database(&machine);
    add(&store, id, 1, Durability::Within(Duration::from_secs(3600))).expect("a row");
    drop(store);
    assert_eq!(left(&machine), [1]);
}

/// What a commit that is not durable has dropped is there again after a power loss.
#[test]
fn dropped_files_stay_until_that_is_durable() {
    let mut came_back = 0;
    for seed in 0..20 {
        for is_made_durable in [false, true] {
            let machine = SimulatedDisk::new(seed, Faults::default());
            let (store, id) = database(&machine);
            (0..3).for_each(|row| add(&store, id, row, Durability::Full).expect("a row"));
            store.checkpoint().expect("a checkpoint");
            let home = machine.elsewhere("/db").expect("a path");
            let files = || home.list("segments").expect("listed").len();
            assert_eq!(files(), 3);
            let mut transaction = store.begin().expect("begun");
            transaction.drop_table(id).expect("dropped");
            transaction.set_durability(Durability::Off);
            transaction.commit().expect("committed");
            assert_eq!((rows_of(&store).len(), files()), (0, 3));
            if is_made_durable {
                change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
                assert_eq!(files(), 0, "the next durable commit takes it with it");
            }
            let rows = left(&machine);
            assert!(rows.is_empty() || !is_made_durable && rows == [0, 1, 2], "seed {seed}: {rows:?}");
            came_back += usize::from(!rows.is_empty());
        }
    }
    assert!(came_back > 0, "no seed has lost the commit");
}

/// Where the sync fails that commits are due for, the database is closed: nothing more is acknowledged.
#[test]
fn a_sync_that_fails_later_closes_the_database() {
    let machine = SimulatedDisk::new(1, Faults::default());
    let (store, id) = database(&machine);
    add(&store, id, 1, Durability::Off).expect("a row");
    let calls = machine.calls();
    drop(store);
    // The call behind the write of the second row's record is the sync; where it is not, nothing fails.
    let mut closed = 0;
    for call in calls..calls + 8 {
        let machine = SimulatedDisk::new(1, Faults { fail_call: Some((call, FaultKind::Eio)), ..Faults::default() });
        let (store, id) = database(&machine);
        let first = add(&store, id, 1, Durability::Off);
        let second = add(&store, id, 2, Durability::Within(Duration::from_millis(1)));
        std::thread::sleep(Duration::from_millis(30));
        if first.is_ok() && second.is_ok() && store.begin().is_err() {
            let error = store.begin().expect_err("closed").to_string();
            assert!(error.contains("closed after a failed write") && error.contains("Reopen it"), "{error}");
            assert_eq!(rows_of(&store), [1, 2], "what is there can be read");
            closed += 1;
        }
    }
    assert!(closed > 0, "no sync has failed");
}

/// Of commits that wait together those are kept that there is room for, and the others say what is missing.
#[test]
fn a_full_disk_keeps_what_fits() {
    let machine = SimulatedDisk::new(7, Faults::default());
    let (store, id) = database(&machine);
    add(&store, id, 0, Durability::Full).expect("a row");
    let line = &store.inner.line;
    let outcomes =
        std::thread::scope(|scope| {
            let written = locked(&store.inner.written);
            let mut threads = vec![scope.spawn(|| add(&store, id, 1, Durability::Full))];
            let in_line = |commit| {
                while line.newest().0.commit < commit {
                    std::thread::yield_now();
                }
            };
            in_line(3);
            threads.push(scope.spawn(|| add(&store, id, 2, Durability::Full)));
            in_line(4);
            threads.push(scope.spawn(|| {
                change(&store, |t| t.create_view("main", "w", &"select 2 ".repeat(100_000), false)).map(drop)
            }));
            in_line(5);
            threads.push(scope.spawn(|| add(&store, id, 3, Durability::Full)));
            in_line(6);
            machine.limit_files("/db", 14 << 10).expect("absolute");
            drop(written);
            threads.into_iter().map(|thread| thread.join().expect("no panic")).collect::<Vec<_>>()
        });
    let kinds: Vec<_> = outcomes.iter().map(|outcome| outcome.as_ref().err().map(|error| error.kind())).collect();
    assert_eq!(kinds, [None, None, Some(ErrorKind::OutOfSpace), Some(ErrorKind::Conflict)]);
    assert_eq!(rows_of(&store), [0, 1, 2]);
    add(&store, id, 4, Durability::Full).expect("there is room for a short one");
    assert_eq!(left(&machine), [0, 1, 2, 4]);
}

/// A thread that panics while it writes for others leaves nobody waiting.
#[test]
fn who_waits_for_a_writer_that_panics_is_told() {
    let calls = {
        let machine = SimulatedDisk::new(1, Faults::default());
        let (store, id) = database(&machine);
        add(&store, id, 1, Durability::Full).expect("a row");
        machine.calls()
    };
    let faults = Faults { fail_call: Some((calls - 2, FaultKind::Panic)), ..Faults::default() };
    let machine = SimulatedDisk::new(1, faults);
    let (store, id) = database(&machine);
    let outcomes = std::thread::scope(|scope| {
        let written = locked(&store.inner.written);
        let commit = |row| {
            let store = &store;
            scope.spawn(move || add(store, id, row, Durability::Full))
        };
        let first = commit(1);
        while store.inner.line.newest().0.commit < 2 {
            std::thread::yield_now();
        }
        let second = commit(2);
        while store.inner.line.waiting() < 1 {
            std::thread::yield_now();
        }
        drop(written);
        [first, second].map(|thread| thread.join())
    });
    assert!(outcomes[0].is_err(), "it panicked");
    let error = outcomes[1].as_ref().expect("no panic").as_ref().expect_err("its base is lost");
    assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
    assert!(store.begin().is_err(), "the database is closed");
    assert_eq!(rows_of(&store), [0_i64; 0]);
    drop(store);
    let rows = left(&machine);
    assert!(rows.is_empty() || rows == [1], "{rows:?}");
}
