//! Damaged files: whatever byte is flipped, cut off or lost, opening and reading everything gives an error or exactly the
//! rows that were written. Never other rows, a panic or an endless loop.
//!
//! `FOREBAY_FLIPS=100000` flips that many bytes.

mod model;

use std::sync::Arc;

use forebay_base::{ErrorKind, Result};
use forebay_disk::{Disk, MemoryDisk, OpenMode as FileMode};
use forebay_store::{OpenMode, Store};
use model::{Model, Random, definition, observe, version_2, write_fact, write_segment};

type Files = Vec<(String, Vec<u8>)>;

fn open(disk: &MemoryDisk, mode: OpenMode) -> Result<Store> {
    Store::open(Arc::new(disk.clone()), mode, "flips test")
}

fn flips() -> u64 {
    std::env::var("FOREBAY_FLIPS").map_or(3000, |text| text.parse().expect("a number of flips"))
}

/// A database with a few commits: its files when cleanly closed, its files as a crash would leave them, and its content.
fn database() -> (Files, Files, Model) {
    let disk = MemoryDisk::new();
    let store = open(&disk, OpenMode::ReadWrite).expect("a database");
    let mut next = 0;
    for name in ["orders", "lines", "parts"] {
        let mut transaction = store.begin().expect("a transaction");
        let table = transaction.create_table(definition(name)).expect("a table");
        transaction.create_view("main", &format!("{name}_view"), "select 1", false).expect("a view");
        transaction.commit().expect("commit");
        for rows in [40, 7] {
            let ids: Vec<i64> = (next..next + rows).collect();
            next += rows;
            let sealed = write_segment(&store, &ids).expect("a segment");
            let mut transaction = store.begin().expect("a transaction");
            transaction.publish(table, vec![sealed]).expect("publish");
            transaction.commit().expect("commit");
        }
    }
    let catalog = store.catalog();
    let table = catalog.table("main", "parts").expect("a table");
    let fact = write_fact(&store, table, &[7; 5000]).expect("a fact");
    let mut transaction = store.begin().expect("a transaction");
    transaction.publish_fact(fact).expect("publish");
    transaction.commit().expect("commit");
    drop(catalog);
    let model = observe(&store).expect("it reads back");
    let crashed = files(&disk);
    drop(store);
    (files(&disk), crashed, model)
}

/// The files of a database of version 2.
fn older_files() -> Files {
    let disk = MemoryDisk::new();
    version_2::write(&disk);
    files(&disk)
}

fn files(disk: &MemoryDisk) -> Files {
    let segments = disk.list("segments").expect("listed").into_iter().map(|file| format!("segments/{file}"));
    let logs = disk.list("").expect("listed").into_iter().filter(|file| file.starts_with("redo-"));
    let paths = ["HEAD".to_owned(), "forebay.redb".to_owned()].into_iter().chain(logs).chain(segments);
    let read = |path: String| {
        let file = disk.open(&path, FileMode::Read).expect("it is there");
        let mut bytes = vec![0; file.len().expect("its length") as usize];
        file.read_at(0, &mut bytes).expect("its bytes");
        (path, bytes)
    };
    paths.map(read).collect()
}

fn disk_of(files: &Files) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_directory("segments").expect("a folder");
    for (path, bytes) in files {
        disk.open(path, FileMode::Create).expect("a file").write_at(0, bytes).expect("its bytes");
    }
    disk
}

/// Opens and reads everything; true if that worked, and then it must be `model`.
fn reads_right(disk: &MemoryDisk, mode: OpenMode, model: &Model, what: &str) -> bool {
    match open(disk, mode).and_then(|store| observe(&store)) {
        Ok(seen) => {
            assert_eq!(&seen, model, "{what}: other rows");
            true
        }
        Err(error) => {
            let expected = [ErrorKind::Corrupt, ErrorKind::NotFound, ErrorKind::Version];
            assert!(expected.contains(&error.kind()), "{what}: {:?}: {error}", error.kind());
            false
        }
    }
}

/// Where to flip: anywhere, but more often where something is written.
fn place(random: &mut Random, bytes: &[u8]) -> usize {
    for _ in 0..random.below(200) {
        let at = random.below(bytes.len() as u64) as usize;
        if bytes[at] != 0 {
            return at;
        }
    }
    random.below(bytes.len() as u64) as usize
}

fn flip(files: &Files, model: &Model, seed: u64) {
    let disk = disk_of(files);
    let mut random = Random(seed);
    let (mut right, mut refused) = (0, 0);
    for _ in 0..flips() {
        // HEAD, the manifest and the redo log get as many as all segments.
        let index = match random.below(5) {
            first @ 0..=2 => first as usize,
            _ => random.below(files.len() as u64) as usize,
        };
        let (path, bytes) = &files[index];
        let at = place(&mut random, bytes);
        let mask = if random.below(2) == 0 { 1 << random.below(8) } else { 1 + random.below(255) as u8 };
        let file = disk.open(path, FileMode::Write).expect("it is there");
        file.write_at(at as u64, &[bytes[at] ^ mask]).expect("flip");
        if reads_right(&disk, OpenMode::ReadOnly, model, &format!("{path} at {at} ^ {mask}")) {
            right += 1;
        } else {
            refused += 1;
        }
        file.write_at(at as u64, &bytes[at..=at]).expect("flip back");
    }
    assert!(right > 0 && refused > 0, "{right} right, {refused} refused");
}

#[test]
fn flips_in_a_cleanly_closed_database() {
    let (files, _, model) = database();
    flip(&files, &model, 1);
}

#[test]
fn flips_in_a_crashed_database() {
    let (_, files, model) = database();
    flip(&files, &model, 2);
}

#[test]
fn flips_in_a_database_of_version_2() {
    flip(&older_files(), &version_2::content(), 5);
}

/// redb's header has no checksum over all of it: every bit of it.
#[test]
fn every_bit_of_the_manifest_header() {
    let (clean, crashed, model) = database();
    for files in [clean, crashed] {
        let disk = disk_of(&files);
        let (path, bytes) = &files[1];
        let file = disk.open(path, FileMode::Write).expect("it is there");
        for at in 0..320 {
            for bit in 0..8 {
                file.write_at(at as u64, &[bytes[at] ^ 1 << bit]).expect("flip");
                reads_right(&disk, OpenMode::ReadOnly, &model, &format!("{path} at {at} bit {bit}"));
                file.write_at(at as u64, &bytes[at..=at]).expect("flip back");
            }
        }
    }
}

/// A damaged database that opens for writing is either refused, untouched, or goes on right.
#[test]
fn flips_before_writing() {
    let (clean, crashed, model) = database();
    let (older, older_model) = (older_files(), version_2::content());
    let starts = [(&clean, &model), (&crashed, &model), (&older, &older_model)];
    let mut random = Random(3);
    for (round, (files, model)) in (0..flips() / 10).zip(starts.into_iter().cycle()) {
        let mut files = files.clone();
        let index = random.below(3) as usize;
        let at =
            if index == 1 && round % 2 == 0 { random.below(320) as usize } else { place(&mut random, &files[index].1) };
        files[index].1[at] ^= 1 << random.below(8);
        let what = format!("{} at {at}", files[index].0);
        let disk = disk_of(&files);
        if !reads_right(&disk, OpenMode::ReadWrite, model, &what) {
            assert_eq!(self::files(&disk), files, "{what}: a refused database is left as it was");
            continue;
        }
        let store = open(&disk, OpenMode::ReadWrite).expect("it opened before");
        let mut transaction = store.begin().expect("a transaction");
        transaction.create_view("main", "after", &what, false).expect("a view");
        let committed = transaction.commit();
        let mut after = model.clone();
        if committed.is_ok() {
            after.views.insert("after".into(), what.clone());
        }
        drop(store);
        let reads = reads_right(&disk, OpenMode::ReadOnly, &after, &what);
        assert!(reads || committed.is_err(), "{what}: it could be written and not read again");
    }
}

#[test]
fn cut_grown_and_missing_files() {
    let (clean, crashed, model) = database();
    let mut random = Random(4);
    for files in [clean, crashed] {
        for (index, (path, bytes)) in files.iter().enumerate() {
            let disk = disk_of(&files);
            let file = disk.open(path, FileMode::Write).expect("it is there");
            let mut lengths: Vec<u64> = (0..60).map(|_| random.below(bytes.len() as u64)).collect();
            lengths.extend([0, 1, 24, 4096, bytes.len() as u64 - 1, bytes.len() as u64 + 1, bytes.len() as u64 * 3]);
            for length in lengths {
                file.set_len(length).expect("cut or grow");
                let read = reads_right(&disk, OpenMode::ReadOnly, &model, &format!("{path} with {length} bytes"));
                assert!(!read || index < 2 || length > 4096, "{path} read with {length} bytes");
                file.set_len(0).expect("cut");
                file.write_at(0, bytes).expect("restored");
            }
            drop(file);
            disk.remove(path).expect("it is there");
            for mode in [OpenMode::ReadOnly, OpenMode::ReadWrite] {
                assert!(!reads_right(&disk, mode, &model, &format!("{path} missing")), "{path} is missing");
            }
        }
    }
}

/// A database opens with one record of `HEAD`; CHECK DATABASE says that the other one is damaged.
#[test]
fn a_check_reads_both_records_of_head() {
    let (files, _, _) = database();
    for at in [8, 4096 + 12] {
        let disk = disk_of(&files);
        let file = disk.open("HEAD", FileMode::Write).expect("it is there");
        file.write_at(at, &[files[0].1[at as usize] ^ 1]).expect("flip");
        let store = open(&disk, OpenMode::ReadOnly).expect("one record is enough");
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert_eq!(report.error_count, 1);
        assert!(report.errors[0].to_string().contains("HEAD"), "{}", report.errors[0]);
    }
}

/// CHECK DATABASE names table, column, chunk and file of a damaged chunk, and goes on.
#[test]
fn a_check_names_what_is_damaged() {
    let (files, _, _) = database();
    let disk = disk_of(&files);
    let mut damaged = 0;
    for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("segments/")) {
        // The first frame of the first chunk, which is of column `id`, or the first byte of a fact.
        let file = disk.open(path, FileMode::Write).expect("it is there");
        file.write_at(4096, &[bytes[4096] ^ 1]).expect("flip");
        damaged += 1;
    }
    let store = open(&disk, OpenMode::ReadOnly).expect("the manifest is sound");
    let mut seen = (0, 0);
    let report = store
        .check(&mut |done, total| {
            seen = (done, total);
            Ok(())
        })
        .expect("a check");
    assert_eq!((report.error_count, report.errors.len()), (damaged, damaged as usize));
    assert!(seen.0 == seen.1 && seen.1 == report.bytes && seen.1 > 0, "{seen:?}");
    for error in &report.errors {
        let text = error.to_string();
        let of_chunk = ["table main.", "column id", "chunk 0", "file segments/"];
        let of_fact = ["table main.parts", "checksum mismatch", "fact file segments/", ".fact"];
        for part in if text.contains(".fact") { of_fact } else { of_chunk } {
            assert!(text.contains(part), "{text}");
        }
    }
    let cancelled = store.check(&mut |_, _| Err(forebay_base::Error::new(ErrorKind::Cancelled, "stop")));
    assert_eq!(cancelled.expect_err("cancelled").kind(), ErrorKind::Cancelled);
}
