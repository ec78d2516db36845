//! The redo log: what is in it and what is not, who waits for whom, what is damage and what a power loss leaves.

use super::*;
use crate::redo_log::{FoundLog, read_logs};
use crate::volume::locked;

fn open_small(disk: &Arc<dyn Disk>) -> Result<Store> {
    Store::open(Arc::clone(disk), OpenMode::ReadWrite, "test")
}

fn logs(disk: &dyn Disk) -> Vec<FoundLog> {
    read_logs(disk).expect("sound logs")
}

/// A database with a table `t`, whose log has a commit for each of these rows, and the folder that a kill would leave.
fn logged(rows: std::ops::Range<i64>) -> (Arc<dyn Disk>, Store, TableId) {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let store = open_small(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    rows.for_each(|row| add(&store, id, row).expect("a row"));
    (disk, store, id)
}

fn add(store: &Store, id: TableId, row: i64) -> Result<()> {
    let sealed = segment(store, &[row])?;
    change(store, |t| t.publish(id, vec![sealed]))
}

/// A copy of a folder, as a kill leaves it.
pub(super) fn copied(disk: &dyn Disk) -> Arc<dyn Disk> {
    let copy: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    copy.create_directory("segments").expect("a folder");
    let list = |directory: &str| disk.list(directory).expect("listed");
    let inside = list("segments").into_iter().map(|name| format!("segments/{name}"));
    for path in list("").into_iter().filter(|name| name != "segments/" && name != "LOCK").chain(inside) {
        let from = disk.open(&path, FileMode::Read).expect("there");
        let mut bytes = vec![0; from.len().expect("known") as usize];
        from.read_at(0, &mut bytes).expect("read");
        copy.open(&path, FileMode::Create).expect("made").write_at(0, &bytes).expect("written");
    }
    copy
}

fn rows_of(store: &Store) -> Vec<i64> {
    let catalog = store.catalog();
    let Some(table) = catalog.table("main", "t") else { return Vec::new() };
    table.segments.iter().map(|segment| first_of(segment)).collect()
}

/// The one row of a segment.
pub(super) fn first_of(segment: &Segment) -> i64 {
    match blocks(segment).first() {
        Some((Some(Value::Int(row)), 1)) => *row as i64,
        other => panic!("{other:?}"),
    }
}

#[test]
fn small_segments_have_no_file_before_a_checkpoint() {
    let (disk, store, id) = logged(0..5);
    assert_eq!(disk.list("segments").expect("listed").len(), 0);
    let log = &logs(&*disk)[0];
    assert_eq!((log.frames.len(), log.path.as_str()), (6, "redo-0000000001.log"));
    let bytes = log.bytes.len() - 4096;
    assert!(bytes < 6 * 1500, "{bytes} bytes of six commits");
    let held = store.catalog();
    let killed = copied(&*disk);
    store.checkpoint().expect("a checkpoint");
    assert_eq!(disk.list("segments").expect("listed").len(), 5);
    assert!(logs(&*disk).is_empty());
    assert_eq!(rows_of(&store), [0, 1, 2, 3, 4]);
    drop(held);
    change(&store, |t| t.drop_table(id)).expect("dropped");
    assert_eq!(disk.list("segments").expect("listed").len(), 0);
    drop(store);
    assert!(logs(&*disk).is_empty(), "closing makes a checkpoint");
    // What a kill has left is read by those who only read, and written by the others.
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let store = Store::open(Arc::clone(&killed), mode, "test").expect("it opens");
        assert_eq!(rows_of(&store), [0, 1, 2, 3, 4]);
        assert_eq!(
            (store.recovery().commits, store.recovery().last_commit, &store.recovery().cut[..]),
            (6, 6, &[][..])
        );
        assert_eq!(store.check(&mut |_, _| Ok(())).expect("a check").error_count, 0);
        assert_eq!(logs(&*killed).is_empty(), mode == OpenMode::ReadWrite);
        assert_eq!(killed.list("segments").expect("listed").is_empty(), mode == OpenMode::ReadOnly);
    }
}

/// What commits change of the rows makes the same rows as all of the catalog does.
#[test]
fn changed_rows_are_those_of_the_whole_catalog() {
    let (_, store, id) = logged(0..4);
    let check = |store: &Store| {
        let next_file = store.inner.next_file.load(std::sync::atomic::Ordering::Relaxed);
        let whole = rows::encode(&store.catalog(), next_file);
        let (mut of_line, root) = (store.inner.line.rows(), rows::key(rows::ROW_ROOT, 0));
        rows::verify(&of_line).expect("the rows of one commit");
        // Ids may have been given since.
        of_line.insert(root, whole[&root].clone());
        assert_eq!(of_line, whole);
    };
    check(&store);
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    change(&store, |t| t.create_table(table("u"))).expect("a table");
    check(&store);
    let old = store.catalog().table_by_id(id).expect("it").segments[1].as_version();
    let sealed = segment(&store, &[7]).expect("a segment");
    change(&store, |t| t.replace(id, &[old], vec![sealed])).expect("replaced");
    check(&store);
    let first = Arc::clone(&store.catalog().table_by_id(id).expect("it").segments[0]);
    let (big, gone) = (segment(&store, &[1, 2, 3]).expect("a segment"), first.as_version());
    change(&store, |t| t.replace(id, &[gone], vec![big])).expect("replaced");
    let first = Arc::clone(&store.catalog().table_by_id(id).expect("it").segments[0]);
    let deleted = Deleted { segment: first.as_version(), rows: first.rows_at(&[1]).expect("it has it") };
    let changes = RowChanges { replaced: Vec::new(), deleted: vec![(deleted, Vec::new())] };
    change(&store, |t| t.change_rows(id, changes, ReplacedCopies::new())).expect("deleted");
    check(&store);
    change(&store, |t| t.rename_table(id, "w")).expect("renamed");
    check(&store);
    change(&store, |t| t.drop_table(id)).expect("dropped");
    check(&store);
}

/// What is dropped before a checkpoint never has a file; who still reads it reads it from memory, also behind the checkpoint.
#[test]
fn dropped_small_segments_are_read_from_memory() {
    let (disk, store, id) = logged(0..3);
    let held = store.catalog();
    change(&store, |t| t.drop_table(id)).expect("dropped");
    store.checkpoint().expect("a checkpoint");
    assert_eq!(disk.list("segments").expect("listed").len(), 0);
    let segment = &held.table("main", "t").expect("it was there").segments[2];
    assert_eq!(blocks(segment), [(Some(Value::Int(2)), 1)]);
    drop(held);
    assert_eq!(
        kind(
            store
                .volume()
                .open_file(volume::FilePlace::of_segment(volume::DATABASE_DIRECTORY, forebay_base::SegmentId(3)))
        ),
        ErrorKind::NotFound
    );
}

#[test]
fn long_logs_end_in_a_checkpoint() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let limits = LogLimits { log_bytes: 20_000, beside_others: false, ..LogLimits::default() };
    let store = Store::open_limited(Arc::clone(&disk), OpenMode::ReadWrite, "test", limits).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let mut longest = 0;
    for row in 0..200 {
        add(&store, id, row).expect("a row");
        longest = longest.max(logs(&*disk).iter().map(|log| log.bytes.len()).sum());
    }
    assert!((15_000..22_000).contains(&longest), "{longest}");
    assert!(disk.list("segments").expect("listed").len() > 150);
    assert_eq!(rows_of(&store), (0..200).collect::<Vec<_>>());
    let store = Store::open(copied(&*disk), OpenMode::ReadOnly, "test").expect("it opens");
    assert_eq!(rows_of(&store), (0..200).collect::<Vec<_>>());
}

/// A checkpoint for which a log is long enough is made beside those who commit, and closing waits for it.
#[test]
fn long_logs_end_in_a_checkpoint_beside_commits() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let limits = LogLimits { log_bytes: 20_000, ..LogLimits::default() };
    for round in 0..3 {
        let store = Store::open_limited(Arc::clone(&disk), OpenMode::ReadWrite, "test", limits).expect("a database");
        let name = format!("t{round}");
        let id = change(&store, |t| t.create_table(table(&name))).expect("a table");
        std::thread::scope(|scope| {
            for first in [0, 1000] {
                let store = store.clone();
                scope.spawn(move || (first..first + 300).for_each(|row| add(&store, id, row).expect("a row")));
            }
        });
        if round == 1 {
            store.checkpoint().expect("a checkpoint");
        }
        drop(store);
        assert_eq!(logs(&*disk).len(), 0, "whoever closes a database leaves no log");
        let store = Store::open(Arc::clone(&disk), OpenMode::ReadWrite, "test").expect("it opens");
        let rows = store.catalog().table_by_id(id).expect("the table").rows();
        assert_eq!(rows, 600);
    }
}

/// Commits that come while a checkpoint is made are in the later of two logs, and are there whenever the power fails.
#[test]
fn commits_beside_a_checkpoint_are_in_another_log() {
    let (disk, store, id) = logged(0..3);
    let mut between = None;
    let made = store.checkpoint_beside(|| {
        add(&store, id, 3).expect("a row");
        between = Some(copied(&*disk));
        assert_eq!(logs(&*disk).len(), 2);
    });
    made.expect("a checkpoint");
    assert_eq!(logs(&*disk).len(), 1);
    for disk in [between.expect("copied"), copied(&*disk)] {
        let store = Store::open(disk, OpenMode::ReadOnly, "test").expect("it opens");
        assert_eq!(rows_of(&store), [0, 1, 2, 3]);
    }
}

/// While one commit is written others get in line, and the next write is for all of them.
#[test]
fn commits_that_wait_share_a_sync() {
    let (disk, store, id) = logged(0..0);
    let line = &store.inner.line;
    std::thread::scope(|scope| {
        let written = locked(&store.inner.written);
        for row in 0..8 {
            let store = store.clone();
            scope.spawn(move || add(&store, id, row).expect("a row"));
        }
        while line.waiting() < 7 {
            std::thread::yield_now();
        }
        assert_eq!(rows_of(&store), [0_i64; 0], "none is visible before it is durable");
        drop(written);
    });
    let log = &logs(&*disk)[0];
    assert_eq!(log.frames.len(), 3, "the table, the first row, and the others");
    let mut rows = rows_of(&store);
    rows.sort_unstable();
    assert_eq!(rows, [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(store.catalog().commit_number(), 9);
    assert_eq!(rows_of(&Store::open(copied(&*disk), OpenMode::ReadOnly, "test").expect("it opens")), rows_of(&store));
}

/// A full disk fails what is in line, and what builds on it; then all goes on, also behind a power loss.
#[test]
fn a_full_disk_takes_back_what_builds_on_it() {
    let machine = SimulatedDisk::new(5, Faults::default());
    let disk = machine.elsewhere("/db").expect("a path");
    disk.create_directory("").expect("made");
    let store = open_small(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    add(&store, id, 1).expect("a row");
    machine.set_full("/db", true).expect("absolute");
    let written = locked(&store.inner.written);
    let (failed, built) = std::thread::scope(|scope| {
        let commit = |row| {
            let store = store.clone();
            scope.spawn(move || add(&store, id, row))
        };
        let first = commit(2);
        while store.inner.line.newest().0.commit < 3 {
            std::thread::yield_now();
        }
        // One that is in line behind it, and one that has begun.
        let second = commit(3);
        while store.inner.line.waiting() < 1 {
            std::thread::yield_now();
        }
        let begun = store.begin().expect("begun");
        drop(written);
        let outcomes = (first.join().expect("no panic"), second.join().expect("no panic"));
        assert_eq!(kind(begun.commit()), ErrorKind::Conflict, "what it has seen is not there");
        outcomes
    });
    assert_eq!((kind(failed), kind(built)), (ErrorKind::OutOfSpace, ErrorKind::Conflict));
    assert_eq!(rows_of(&store), [1]);
    machine.set_full("/db", false).expect("absolute");
    add(&store, id, 4).expect("there is room");
    assert_eq!(rows_of(&store), [1, 4]);
    let after = machine.crash().elsewhere("/db").expect("a path");
    assert_eq!(rows_of(&open_small(&after).expect("it opens")), [1, 4]);
}

/// What was reported as failed stays so, though a write that failed may have reached the drive as a whole.
#[test]
fn a_failed_commit_does_not_come_back() {
    for seed in 0..60 {
        let machine = SimulatedDisk::new(seed, Faults::default());
        let disk = machine.elsewhere("/db").expect("a path");
        disk.create_directory("").expect("made");
        let store = open_small(&disk).expect("a database");
        change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
        machine.set_full("/db", true).expect("absolute");
        // Longer than the zeros that are there, so that the frame is the first part of what is written.
        let failed = change(&store, |t| t.create_view("main", "w", &"select 2 ".repeat(3000), false));
        assert_eq!(kind(failed), ErrorKind::OutOfSpace);
        let views = |store: &Store| store.catalog().views().map(|view| view.name.clone()).collect::<Vec<_>>();
        let mut expected = vec!["v"];
        if seed % 2 == 1 {
            machine.set_full("/db", false).expect("absolute");
            change(&store, |t| t.create_view("main", "x", "select 3", false)).expect("a view");
            expected.push("x");
        }
        let after = machine.crash();
        after.set_full("/db", false).expect("absolute");
        let again = open_small(&after.elsewhere("/db").expect("a path")).expect("it opens");
        assert_eq!(views(&again), expected, "seed {seed}");
    }
}

/// Every byte of a log: a flipped one is an error that names the file and the place, or nothing is different.
#[test]
fn damage_in_a_log_is_an_error_with_its_place() {
    let (disk, store, _) = logged(0..4);
    let log = logs(&*disk).remove(0);
    let starts: Vec<usize> = log.frames.iter().map(|frame| frame.offset).collect();
    let killed = copied(&*disk);
    drop(store);
    let file = killed.open(&log.path, FileMode::Write).expect("there");
    for at in (0..30).chain(starts[0]..log.bytes.len()) {
        file.write_at(at as u64, &[log.bytes[at] ^ 0x41]).expect("flipped");
        let opened = Store::open(Arc::clone(&killed), OpenMode::ReadOnly, "test");
        match opened {
            Ok(store) => assert_eq!(rows_of(&store), [0, 1, 2, 3], "byte {at}"),
            Err(error) => {
                let text = error.to_string();
                assert!(matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::Version), "byte {at}: {text}");
                assert!(text.contains(&log.path), "byte {at}: {text}");
                let start = starts.iter().rfind(|start| **start <= at);
                assert!(start.is_none_or(|start| text.contains(&format!(" at {start}"))), "byte {at}: {text}");
            }
        }
        file.write_at(at as u64, &log.bytes[at..=at]).expect("back");
    }
    assert_eq!(rows_of(&open_small(&killed).expect("it is sound again")), [0, 1, 2, 3]);
}

/// What a power loss leaves behind the last commit is cut, and told; what was durable in front of it stays.
#[test]
fn a_torn_tail_is_cut_and_told() {
    let (disk, store, id) = logged(0..3);
    let before = copied(&*disk);
    add(&store, id, 3).expect("a row");
    let log = logs(&*disk).remove(0);
    let last = log.frames.last().expect("frames").offset;
    for kept in last + 1..log.bytes.len() {
        // HEAD is as it was: the power went before the commit was acknowledged.
        let torn = copied(&*before);
        let file = torn.open(&log.path, FileMode::Write).expect("there");
        file.write_at(last as u64, &log.bytes[last..kept]).expect("torn");
        let zeros = log.bytes[kept..].iter().all(|byte| *byte == 0);
        let reader = Store::open(Arc::clone(&torn), OpenMode::ReadOnly, "test").expect("it opens");
        let expected = if zeros { vec![0, 1, 2, 3] } else { vec![0, 1, 2] };
        assert_eq!(rows_of(&reader), expected, "{kept}");
        let cut = reader.recovery().cut.clone();
        assert_eq!(cut.len(), usize::from(!zeros), "{kept}");
        assert!(cut.iter().all(|cut| cut.offset == last as u64 && cut.bytes <= (kept - last) as u64 && cut.bytes > 0));
        drop(reader);
        let store = open_small(&torn).expect("it opens");
        assert_eq!((rows_of(&store), &store.recovery().cut), (expected, &cut));
        drop(store);
        assert!(open_small(&torn).expect("it opens").recovery().cut.is_empty());
    }
    // Behind an acknowledged commit there is no tail to cut: it is missing.
    let lost = copied(&*disk);
    lost.open(&log.path, FileMode::Write).expect("there").set_len(last as u64 + 100).expect("cut");
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let error = Store::open(Arc::clone(&lost), mode, "test").expect_err("a commit is missing");
        let place = format!("file {} at {last}", log.path);
        assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&place), "{error}");
    }
}

/// A frame that was not durable may be lost though a later one that was written without knowing better is there.
#[test]
fn what_was_never_durable_may_be_missing_anywhere() {
    let (disk, store, _) = logged(0..1);
    let log = logs(&*disk).remove(0);
    let killed = copied(&*disk);
    drop(store);
    let file = killed.open(&log.path, FileMode::Write).expect("there");
    let end = log.bytes.len() as u64;
    let of_log = |sequence, durable| redo_log::frame(1, sequence, durable, std::iter::empty());
    // Number 2 is lost, number 3 says that 0 and 1 were durable.
    let lost = of_log(2, 2).len() as u64;
    file.write_at(end + lost, &of_log(3, 2)).expect("written");
    let reader = Store::open(Arc::clone(&killed), OpenMode::ReadOnly, "test").expect("nobody was promised it");
    assert_eq!((rows_of(&reader), reader.recovery().cut.len()), (vec![0], 1));
    drop(reader);
    file.write_at(end + lost, &of_log(3, 3)).expect("written");
    let error = open_small(&killed).expect_err("it was durable");
    let place = format!("damaged at {end}");
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&place), "{error}");
}

#[test]
fn logs_that_do_not_fit() {
    let (disk, store, _) = logged(0..3);
    let log = logs(&*disk).remove(0);
    let killed = copied(&*disk);
    drop(store);
    let open = |disk: &Arc<dyn Disk>| Store::open(Arc::clone(disk), OpenMode::ReadOnly, "test");
    // A newer program's.
    let newer = copied(&*killed);
    let mut head = log.bytes[..24].to_vec();
    head[8] += 1;
    let crc = forebay_base::checksum::crc32c(&head[..20]);
    head[20..].copy_from_slice(&crc.to_le_bytes());
    newer.open(&log.path, FileMode::Write).expect("there").write_at(0, &head).expect("written");
    let error = open(&newer).expect_err("a newer one");
    assert!(error.kind() == ErrorKind::Version && error.to_string().contains("Upgrade Forebay"), "{error}");
    // Lost, under another name, of another database.
    let missing = copied(&*killed);
    missing.rename(&log.path, "redo-0000000002.log").expect("renamed");
    assert_eq!(kind(open(&missing)), ErrorKind::Corrupt);
    missing.remove("redo-0000000002.log").expect("removed");
    let text = open(&missing).expect_err("it is gone").to_string();
    assert!(text.contains("end with commit 0 though 4 was the last"), "{text}");
    // One that was left behind by a checkpoint whose removal was lost.
    let stale = copied(&*disk);
    stale.open(&log.path, FileMode::Create).expect("made").write_at(0, &log.bytes).expect("written");
    assert_eq!(rows_of(&open(&stale).expect("it is passed over")), [0, 1, 2]);
    let store = open_small(&stale).expect("it is passed over");
    assert_eq!((store.recovery().commits, logs(&*stale).len()), (0, 0));
}

/// Freezing commits on the thread that makes checkpoints, which does not wait for itself where the log is long.
#[test]
fn freezing_goes_on_where_commits_wait_for_checkpoints() {
    let disk: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    let limits = LogLimits { log_bytes: 2000, hot_bytes: 0, ..LogLimits::default() };
    let store = Store::open_limited(Arc::clone(&disk), OpenMode::ReadWrite, "test", limits).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let text = [b'x'; 900];
    for first in (0..140_000).step_by(1000) {
        let mut transaction = store.begin_on(store.catalog()).expect("begun");
        for row in first..first + 1000 {
            transaction.insert_hot(id, &[Cell::i64(row), Cell::Bytes(&text[..(row % 7) as usize])]).expect("a row");
        }
        transaction.set_durability(Durability::Off);
        transaction.commit().expect("committed");
    }
    assert_eq!(store.catalog().table_by_id(id).expect("the table").rows(), 140_000);
    drop(store);
    let store = Store::open(disk, OpenMode::ReadWrite, "test").expect("it opens");
    assert_eq!(store.catalog().table_by_id(id).expect("the table").rows(), 140_000);
}
