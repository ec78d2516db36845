//! Opening a database: who else has it, what is no database or one of another version, what cannot be read.

use super::*;

#[test]
fn two_holders_and_what_they_are_told() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let error = open(&disk).expect_err("it is held");
    assert_eq!(error.kind(), ErrorKind::Locked);
    assert!(error.to_string().contains("process 1 (test)"), "{error}");
    drop(store);
    let reader = |holder: &str| Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, holder);
    let _two = (reader("a").expect("a reader"), reader("b").expect("another"));
    assert_eq!(kind(open(&disk)), ErrorKind::Locked);
}

#[test]
fn directories_that_are_no_database() {
    let empty: Arc<dyn Disk> = Arc::new(MemoryDisk::new());
    assert_eq!(kind(Store::open(Arc::clone(&empty), OpenMode::ReadOnly, "r")), ErrorKind::NotFound);
    assert!(empty.list("").expect("the root").is_empty(), "nothing was made");
    empty.open("notes.txt", FileMode::Create).expect("a file");
    let error = Store::open(Arc::clone(&empty), OpenMode::ReadWrite, "r").expect_err("not ours");
    assert_eq!(error.kind(), ErrorKind::Input);
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(empty.list("").expect("the root"), ["notes.txt"]);
    empty.remove("notes.txt").expect("removed");
    empty.create_directory("photos").expect("a folder");
    let error = Store::open(Arc::clone(&empty), OpenMode::ReadWrite, "r").expect_err("not ours either");
    assert!(error.kind() == ErrorKind::Input && error.to_string().contains("photos"), "{error}");
    let begun = MemoryDisk::new();
    begun.create_directory("segments").expect("what a crash leaves");
    open(&begun).expect("a database");

    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    drop(store);
    disk.remove("HEAD").expect("it is there");
    assert_eq!(kind(open(&disk)), ErrorKind::Corrupt, "a lost HEAD is not an empty directory");
}

/// A manifest that cannot be read just now is not one that may be made anew.
#[test]
fn a_lost_head_and_a_failing_read() {
    let sound = SimulatedDisk::new(1, Faults::default());
    let open = |disk: &SimulatedDisk| Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "test");
    let store = open(&sound).expect("a database");
    change(&store, |t| t.create_view("main", "v", "select 1", false)).expect("a view");
    drop(store);
    sound.remove("HEAD").expect("it is there");
    sound.sync_directory("").expect("synced");
    for call in 1..40 {
        let disk = sound.crash_with(Faults { fail_call: Some((call, FaultKind::Eio)), crash_at_call: None });
        open(&disk).expect_err("damaged, or not readable");
        assert_eq!(kind(open(&disk.crash())), ErrorKind::Corrupt, "call {call}");
    }
}

/// What is damaged is counted; what could not be looked at ends the check.
#[test]
fn a_check_that_cannot_read() {
    let sound = SimulatedDisk::new(1, Faults::default());
    let open = |disk: &SimulatedDisk| Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "test");
    let store = open(&sound).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    let mut failed = 0;
    for call in 1..80 {
        let disk = sound.crash_with(Faults { fail_call: Some((call, FaultKind::Eio)), crash_at_call: None });
        let Ok(store) = open(&disk) else { continue };
        match store.check(&mut |_, _| Ok(())) {
            Ok(report) => assert_eq!(report.error_count, 0, "call {call}: {report:?}"),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "call {call}: {error}");
                failed += 1;
            }
        }
    }
    assert!(failed > 8, "{failed} calls of the check failed");
}

#[test]
fn other_format_versions_are_named() {
    for (version, word) in [(FORMAT_VERSION + 1, "newer"), (FORMAT_VERSION_OLDEST - 1, "older")] {
        let disk = MemoryDisk::new();
        drop(open(&disk).expect("a database"));
        set_head_version(&disk, version);
        for mode in [OpenMode::ReadWrite, OpenMode::ReadOnly] {
            let error = Store::open(Arc::new(disk.clone()), mode, "x").expect_err("another format");
            assert_eq!(error.kind(), ErrorKind::Version);
            let text = error.to_string();
            let versions = format!("format {version}, this program reads {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}");
            assert!(text.contains(word) && text.contains(&versions), "{text}");
        }
    }
}

/// Puts a version into both records of `HEAD`.
fn set_head_version(disk: &MemoryDisk, version: u32) {
    let head = disk.open("HEAD", FileMode::Write).expect("HEAD");
    for slot in [0, 4096] {
        let mut record = [0; 24];
        head.read_at(slot, &mut record).expect("a record");
        record[8..12].copy_from_slice(&version.to_le_bytes());
        let crc = forebay_base::checksum::crc32c(&record[..20]);
        record[20..].copy_from_slice(&crc.to_le_bytes());
        head.write_at(slot, &record).expect("write");
    }
}

/// Versions in the newest record of `HEAD` and in the root row of the manifest.
fn versions(disk: &MemoryDisk) -> (u32, u32) {
    let head = disk.open("HEAD", FileMode::Read).expect("HEAD");
    let number = |at: u64| {
        let mut bytes = [0; 4];
        head.read_at(at, &mut bytes).expect("a record");
        u32::from_le_bytes(bytes)
    };
    let newest = if number(12) > number(4096 + 12) { 0 } else { 4096 };
    (number(newest + 8), rows::verify(&manifest::load(disk).expect("rows").rows).expect("sound").version)
}

/// A database of the version before the redo log is read as it is, and its first commit makes one of today's of it.
#[test]
fn version_3_is_read_and_upgraded_by_a_commit() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    for row in [5, 6] {
        let sealed = segment(&store, &[row]).expect("a segment");
        change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    }
    drop(store);
    let now = manifest::load(&disk).expect("rows").rows;
    let (mut older, root) = (now.clone(), rows::key(rows::ROW_ROOT, 0));
    let mut payload = now[&root][..now[&root].len() - 4].to_vec();
    payload[..4].copy_from_slice(&3_u32.to_le_bytes());
    rows::seal_again(&mut older, root, payload);
    let written = manifest::Manifest::new(Arc::new(disk.clone())).commit(&now, &older, &[]);
    assert!(matches!(written, outcome::Outcome::Committed));
    set_head_version(&disk, 3);
    let rows_of = |store: &Store| {
        let catalog = store.catalog();
        let segments = &catalog.table("main", "t").expect("t").segments;
        segments.iter().flat_map(|segment| blocks(segment)).map(|(first, _)| first).collect::<Vec<_>>()
    };
    let (five, six, seven) = (Some(Value::Int(5)), Some(Value::Int(6)), Some(Value::Int(7)));
    for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
        let store = Store::open(Arc::new(disk.clone()), mode, "test").expect("version 3 opens");
        assert_eq!(rows_of(&store), [five.clone(), six.clone()]);
        drop(store);
        assert_eq!(versions(&disk), (3, 3), "nothing was committed");
    }
    let store = Store::open(Arc::new(disk.clone()), OpenMode::ReadWrite, "test").expect("version 3 opens");
    let sealed = segment(&store, &[7]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    assert_eq!(versions(&disk), (FORMAT_VERSION, FORMAT_VERSION), "older programs are kept from the log");
    assert!(disk.exists("redo-0000000004.log").expect("looked"));
    drop(store);
    let store = Store::open(Arc::new(disk.clone()), OpenMode::ReadOnly, "test").expect("it opens");
    assert_eq!(rows_of(&store), [five, six, seven]);
    assert_eq!(store.check(&mut |_, _| Ok(())).expect("a check").error_count, 0);
}

#[test]
fn an_older_manifest_than_head_is_noticed() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    drop(store);
    let read = |disk: &MemoryDisk| {
        let file = disk.open("forebay.redb", FileMode::Read).expect("the manifest");
        let mut bytes = vec![0; file.len().expect("its length") as usize];
        file.read_at(0, &mut bytes).expect("its bytes");
        bytes
    };
    let old = read(&disk);
    let store = open(&disk).expect("a database");
    change(&store, |t| t.create_table(table("t"))).expect("a table");
    drop(store);
    let file = disk.open("forebay.redb", FileMode::Write).expect("the manifest");
    file.set_len(old.len() as u64).expect("cut");
    file.write_at(0, &old).expect("put back");
    let error = open(&disk).expect_err("a commit is missing");
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.to_string().contains("commit 0"), "{error}");
}

#[test]
fn writers_take_turns() {
    let store = open(&MemoryDisk::new()).expect("a database");
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let store = store.clone();
            scope.spawn(move || {
                for n in 0..5 {
                    change(&store, |t| t.create_table(table(&format!("t{thread}_{n}")))).expect("a table");
                }
            });
        }
    });
    assert_eq!(store.catalog().tables().count(), 20);
    assert_eq!(store.catalog().commit_number(), 20);
}
