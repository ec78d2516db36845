//! Files of segments: when they go, how many are open, what is found in them and what a check finds wrong.

use super::*;

#[test]
fn what_is_not_published_leaves_no_file() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    drop(store.segment_writer(vec![INT]).expect("a writer"));
    drop(segment(&store, &[1]).expect("a segment"));
    assert_eq!(segment_files(&disk), 0);
    let mut transaction = store.begin().expect("a transaction");
    transaction.publish(id, vec![segment(&store, &[1]).expect("a segment")]).expect("publish");
    assert_eq!(transaction.catalog().table("main", "t").expect("t").rows(), 1);
    assert_eq!(store.catalog().table("main", "t").expect("t").rows(), 0);
    drop(transaction);
    assert_eq!(segment_files(&disk), 0);
    let wrong = store.segment_writer(vec![(ColumnId(1), PhysicalType::I8)]).expect("a writer").finish().expect("empty");
    assert_eq!(kind(change(&store, |t| t.publish(id, vec![wrong]))), ErrorKind::Internal);
    assert_eq!(segment_files(&disk), 0);
}

#[test]
fn dropped_segments_stay_readable_for_old_snapshots_and_then_go() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    // Reopened, so that no file handle is open yet when the table goes.
    let store = open(&disk).expect("reopen");
    let snapshot = store.catalog();
    change(&store, |t| t.drop_table(id)).expect("drop");
    assert_eq!(store.catalog().tables().count(), 0);
    assert_eq!(blocks(&snapshot.table("main", "t").expect("t").segments[0]), [(Some(Value::Int(5)), 2)]);
    assert!(store.check(&mut |_, _| Ok(())).expect("a check").orphans.is_empty());
    assert_eq!(segment_files(&disk), 1);
    drop(snapshot);
    assert_eq!(segment_files(&disk), 0);
}

#[test]
fn many_segments_need_few_open_files() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = Arc::new(LocalDisk::open(directory.path(), IoMode::Auto).expect("a disk"));
    let limits = LogLimits { small_bytes: 0, ..LogLimits::default() };
    let store = Store::open_limited(disk, OpenMode::ReadWrite, "test", limits).expect("a database");
    let open_files = || {
        let all = std::fs::read_dir("/proc/self/fd").expect("listed").filter_map(|entry| entry.ok());
        let targets = all.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter(|target| target.starts_with(directory.path())).count()
    };
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let limit = 2 * forebay_base::limits::OPEN_SEGMENTS + 8;
    let sealed: Vec<_> = (0..limit as i64).map(|n| segment(&store, &[n]).expect("a segment")).collect();
    assert!(open_files() < 8, "sealed segments are closed: {}", open_files());
    change(&store, |t| t.publish(id, sealed)).expect("publish");
    let catalog = store.catalog();
    let segments = &catalog.table("main", "t").expect("t").segments;
    for _ in 0..2 {
        for (n, segment) in segments.iter().enumerate() {
            assert_eq!(blocks(segment), [(Some(Value::Int(n as i128)), 1)]);
        }
    }
    assert!(open_files() < limit, "{} files are open", open_files());
    drop(catalog);
    change(&store, |t| t.drop_table(id)).expect("drop");
    assert!(open_files() < 8, "files of segments that are gone are closed: {}", open_files());
}

#[test]
fn groups_from_many_threads_land_in_order() {
    let store = open(&MemoryDisk::new()).expect("a database");
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let writer = &writer;
            scope.spawn(move || {
                for n in 0..8 {
                    let index = n * 4 + thread;
                    writer.append_group(index, group(&[&[index as i64]])).expect("a group");
                }
            });
        }
    });
    assert_eq!(kind(writer.append_group(3, group(&[&[1]]))), ErrorKind::Internal);
    let sealed = writer.finish().expect("a segment");
    assert_eq!(sealed.rows(), 32);
}

/// A segment of two groups of two blocks, whose chunks have directories of frames.
fn segment_with_directories(store: &Store) -> SealedSegment {
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    for index in [1, 0] {
        let mut group = group(&[&[1, 2], &[3]]);
        for (number, chunk) in group.columns[0].chunks.iter_mut().enumerate() {
            chunk.directory = vec![(10 * index + number as u64) as u8; 1 + number];
        }
        writer.append_group(index, group).expect("a group");
    }
    writer.finish().expect("a segment")
}

#[test]
fn directories_of_frames_are_read_by_chunk() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment_with_directories(&store);
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let check = |store: &Store| {
        let catalog = store.catalog();
        let segment = &catalog.table_by_id(id).expect("a table").segments[0];
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for (group, chunk, expected) in
                        [(0, 0, &[0u8][..]), (0, 1, &[1, 1]), (1, 0, &[10]), (1, 1, &[11, 11])]
                    {
                        assert_eq!(segment.directory(group, 0, chunk).expect("a sound section"), expected);
                    }
                });
            }
        });
    };
    check(&store);
    drop(store);
    let store = open(&disk).expect("reopen");
    check(&store);
}

/// Every byte behind the chunks is looked at by a check, and a query's error names file and section.
#[test]
fn damaged_sections_are_found() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment_with_directories(&store);
    let (path, location) = (sealed.segment.path(), sealed.segment.footer());
    let chunks_end = sealed.segment.groups().expect("groups").iter().flat_map(|group| &group.columns[0].chunks);
    let chunks_end = chunks_end.map(|chunk| chunk.offset + chunk.stored_bytes).max().expect("chunks");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    let file = disk.open(&path, FileMode::Write).expect("the file");
    for at in chunks_end..location.offset + location.bytes {
        let mut byte = [0];
        file.read_at(at, &mut byte).expect("a byte");
        file.write_at(at, &[byte[0] ^ 0x10]).expect("flip");
        let store = open(&disk).expect("the manifest is sound");
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert_eq!(report.error_count, 1, "byte {at}");
        let catalog = store.catalog();
        let segment = &catalog.table_by_id(id).expect("a table").segments[0];
        let error = segment.directory(0, 0, 0).expect_err("damaged");
        let text = error.to_string();
        assert!(error.kind() == ErrorKind::Corrupt && text.contains(&path), "{text}");
        let place = if at >= location.offset { "in the footer" } else { "in the section" };
        assert!(text.contains(place), "{text}");
        if at < location.metadata_offset {
            assert!(text.contains("FRAMES of column 0"), "{text}");
            assert_eq!(segment.groups().expect("read apart").len(), 2);
        }
        drop((catalog, store));
        file.write_at(at, &byte).expect("flip back");
    }
}

#[test]
fn row_groups_of_many_blocks() {
    let disk = MemoryDisk::new();
    let store = open(&disk).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let values: Vec<[i64; 1]> = (0..forebay_base::limits::GROUP_BLOCKS_MAX as i64 + 1).map(|n| [n]).collect();
    let blocks_of: Vec<&[i64]> = values.iter().map(|value| value.as_slice()).collect();
    let writer = store.segment_writer(vec![INT]).expect("a writer");
    assert_eq!(kind(writer.append_group(0, group(&blocks_of))), ErrorKind::Internal, "one block too many");
    writer.append_group(0, group(&blocks_of[1..])).expect("as many as there may be");
    let sealed = writer.finish().expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    drop(store);
    let catalog = open(&disk).expect("reopen").catalog();
    let expected: Vec<_> = values[1..].iter().map(|value| (Some(Value::Int(value[0].into())), 1)).collect();
    assert_eq!(blocks(&catalog.table_by_id(id).expect("a table").segments[0]), expected);
}

#[test]
fn on_the_machines_disk() {
    let directory = tempfile::tempdir().expect("a directory");
    let disk = |path: &std::path::Path| LocalDisk::open(path, IoMode::Auto).expect("a disk");
    let limits = LogLimits { small_bytes: 0, ..LogLimits::default() };
    let local = |path, mode| Store::open_limited(Arc::new(disk(path)), mode, "process 7 (test)", limits);
    let store = local(directory.path(), OpenMode::ReadWrite).expect("a database");
    let id = change(&store, |t| t.create_table(table("t"))).expect("a table");
    let sealed = segment(&store, &[5, 6]).expect("a segment");
    change(&store, |t| t.publish(id, vec![sealed])).expect("publish");
    let error = local(directory.path(), OpenMode::ReadOnly).expect_err("it is held");
    assert!(error.kind() == ErrorKind::Locked && error.to_string().contains("process 7 (test)"), "{error}");

    // A copy of the files of a database that is open: what a killed process leaves.
    let killed = tempfile::tempdir().expect("a directory");
    std::fs::create_dir(killed.path().join("segments")).expect("a folder");
    for file in ["HEAD", "forebay.redb", "redo-0000000001.log", "segments/0000000001.seg"] {
        std::fs::copy(directory.path().join(file), killed.path().join(file)).expect("a copy");
    }
    let read =
        || ["forebay.redb", "redo-0000000001.log"].map(|file| std::fs::read(killed.path().join(file)).expect("there"));
    let before = read();
    drop(store);
    for place in [directory.path(), killed.path()] {
        let store = local(place, OpenMode::ReadOnly).expect("read-only");
        let catalog = store.catalog();
        assert_eq!(blocks(&catalog.table("main", "t").expect("t").segments[0]), [(Some(Value::Int(5)), 2)]);
        assert_eq!(store.check(&mut |_, _| Ok(())).expect("a check").error_count, 0);
    }
    assert_eq!(read(), before, "left as it was");
    let store = local(killed.path(), OpenMode::ReadWrite).expect("read-write");
    assert!(!killed.path().join("redo-0000000001.log").exists());
    change(&store, |t| t.drop_table(id)).expect("drop");
    assert!(!killed.path().join("segments/0000000001.seg").exists());
}
