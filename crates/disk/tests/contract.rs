//! What every disk promises, run over every disk.

/// All disks.
mod disks;

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::ErrorKind;
use forebay_base::limits::{IO_ALIGN, READ_PIECE_BYTES};
use forebay_disk::{
    AlignedBuffer, BufferPool, Disk, DiskFile, Faults, IoMode, LocalDisk, LockKind, MemoryDisk, OpenMode, ReadRequest,
    SimulatedDisk,
};
use proptest::prelude::*;

use disks::{on_every_disk, pattern};

fn create(disk: &dyn Disk, path: &str, bytes: &[u8]) -> Arc<dyn DiskFile> {
    let file = disk.open(path, OpenMode::Create).expect("a new file");
    file.write_at(0, bytes).expect("written");
    file
}

fn content(disk: &dyn Disk, path: &str) -> Vec<u8> {
    let file = disk.open(path, OpenMode::Read).expect("a file");
    let mut bytes = vec![0; usize::try_from(file.len().expect("a length")).expect("fits")];
    file.read_at(0, &mut bytes).expect("read");
    bytes
}

#[test]
fn temporary_files_have_no_name() {
    on_every_disk(|disk| {
        let files = [disk.temporary().expect("a file"), disk.temporary().expect("another")];
        for (number, file) in files.iter().enumerate() {
            file.write_at(10, &[number as u8; 1000]).expect("written");
        }
        for (number, file) in files.iter().enumerate() {
            let mut bytes = vec![9; 1000];
            file.read_at(10, &mut bytes).expect("read");
            assert_eq!(bytes, [number as u8; 1000]);
        }
        assert_eq!(disk.list("").expect("a listing"), [""; 0]);
    });
}

#[test]
fn files_are_written_extended_and_cut() {
    on_every_disk(|disk| {
        let file = create(disk, "f", b"hello");
        assert!(!file.is_empty().expect("a length"));
        file.write_at(8, b"world").expect("past the end");
        assert_eq!(content(disk, "f"), b"hello\0\0\0world");
        file.write_at(1, b"E").expect("over");
        file.set_len(4).expect("cut");
        assert_eq!(content(disk, "f"), b"hEll");
        file.set_len(6).expect("extended");
        assert_eq!(content(disk, "f"), b"hEll\0\0");
        file.write_at(100, b"").expect("nothing");
        assert_eq!(file.len().expect("a length"), 6);
        file.sync().expect("synced");
        assert!(file.path() == "f" || file.path().ends_with("/f"), "{}", file.path());
    });
}

#[test]
fn modes_are_kept() {
    on_every_disk(|disk| {
        let kind = |path, mode| disk.open(path, mode).map(drop).map_err(|error| error.kind());
        assert_eq!(kind("f", OpenMode::Read), Err(ErrorKind::NotFound));
        assert_eq!(kind("f", OpenMode::Write), Err(ErrorKind::NotFound));
        assert_eq!(kind("f", OpenMode::Create), Ok(()));
        assert_eq!(kind("f", OpenMode::Create), Err(ErrorKind::AlreadyExists));
        assert_eq!(kind("missing/f", OpenMode::Create), Err(ErrorKind::NotFound));
        assert_eq!(kind("../f", OpenMode::Create), Err(ErrorKind::Internal));
        let file = disk.open("f", OpenMode::Read).expect("a file");
        assert!(file.write_at(0, b"x").is_err() && file.set_len(3).is_err());
        assert!(file.write_direct(0, &AlignedBuffer::zeroed(IO_ALIGN)).is_err());
        disk.open("f", OpenMode::Write).expect("a file").write_at(0, b"x").expect("writable");
    });
}

#[test]
fn reading_past_the_end_is_corruption() {
    on_every_disk(|disk| {
        let file = create(disk, "f", &[1; 10]);
        for (offset, len) in [(5, 6), (11, 1), (u64::MAX >> 1, 1), (u64::MAX, 1)] {
            let error = file.read_at(offset, &mut vec![0; len]).expect_err("past the end");
            if offset < 100 {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.message().contains(&format!("{len} bytes at {offset} of ")), "{error}");
            }
        }
        file.set_len(IO_ALIGN as u64 + 100).expect("extended");
        for (offset, len) in [(0, 2 * IO_ALIGN), (IO_ALIGN, IO_ALIGN), (2 * IO_ALIGN, IO_ALIGN)] {
            let buffer = AlignedBuffer::zeroed(len);
            let error =
                file.read_direct(&mut [ReadRequest { offset: offset as u64, buffer }]).expect_err("past the end");
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        }
    });
}

#[test]
fn unaligned_direct_transfers_are_refused() {
    on_every_disk(|disk| {
        let file = create(disk, "f", &[1; 3 * IO_ALIGN]);
        for (offset, len) in [(1, IO_ALIGN), (0, IO_ALIGN - 1), (512, IO_ALIGN)] {
            let mut requests = [ReadRequest { offset, buffer: AlignedBuffer::zeroed(len) }];
            assert_eq!(file.read_direct(&mut requests).expect_err("unaligned").kind(), ErrorKind::Internal);
            let error = file.write_direct(offset, &requests[0].buffer).expect_err("unaligned");
            assert_eq!(error.kind(), ErrorKind::Internal);
        }
    });
}

#[test]
fn directories_list_what_is_in_them() {
    on_every_disk(|disk| {
        assert_eq!(disk.list("").expect("the root"), Vec::<String>::new());
        assert_eq!(disk.list("a").expect_err("missing").kind(), ErrorKind::NotFound);
        disk.create_directory("a/b").expect("with its parent");
        disk.create_directory("a/b").expect("fine if it exists");
        for path in ["a/z", "a/b/x", "a/c", "a0", "top"] {
            create(disk, path, b"");
        }
        assert_eq!(disk.list("a").expect("a directory"), ["b/", "c", "z"]);
        assert_eq!(disk.list("a/b/").expect("a directory"), ["x"]);
        assert_eq!(disk.list(".").expect("the root"), ["a/", "a0", "top"]);
        assert!(disk.exists("a/b").expect("told") && disk.exists("a/c").expect("told"));
        assert!(!disk.exists("a/d").expect("told"));
        assert!(disk.create_directory("a/c/d").is_err(), "a file is in the way");
        disk.sync_directory("a").expect("synced");
        assert_eq!(disk.sync_directory("q").expect_err("missing").kind(), ErrorKind::NotFound);
    });
}

#[test]
fn names_change_and_open_files_stay() {
    on_every_disk(|disk| {
        disk.create_directory("d").expect("made");
        let old = create(disk, "old", b"old");
        let new = create(disk, "d/new", &pattern(IO_ALIGN));
        disk.rename("d/new", "old").expect("replaces");
        assert_eq!(content(disk, "old"), pattern(IO_ALIGN));
        assert_eq!(disk.rename("d/new", "x").expect_err("gone").kind(), ErrorKind::NotFound);
        assert_eq!(disk.rename("old", "nowhere/x").expect_err("no directory").kind(), ErrorKind::NotFound);
        disk.remove("old").expect("removed");
        assert_eq!(disk.remove("old").expect_err("gone").kind(), ErrorKind::NotFound);
        assert!(disk.remove("d").is_err(), "only files are removed");
        let mut bytes = [0; 3];
        old.read_at(0, &mut bytes).expect("still open");
        assert_eq!(&bytes, b"old");
        // The direct descriptor is opened only now, when the name is gone.
        let mut requests = [ReadRequest { offset: 0, buffer: AlignedBuffer::zeroed(IO_ALIGN) }];
        new.read_direct(&mut requests).expect("still open");
        assert_eq!(requests[0].buffer[..], pattern(IO_ALIGN));
    });
}

#[test]
fn locks_exclude_and_name_the_holder() {
    on_every_disk(|disk| {
        let lock = |kind, holder: &str| disk.lock("LOCK", kind, holder);
        let refusal = |kind| disk.lock("LOCK", kind, "me").map(drop).expect_err("held");
        let exclusive = lock(LockKind::Exclusive, "process 42 on host").expect("free");
        for kind in [LockKind::Exclusive, LockKind::Shared] {
            let error = refusal(kind);
            assert_eq!(error.kind(), ErrorKind::Locked);
            assert!(error.message().contains("process 42 on host"), "{error}");
        }
        drop(exclusive);
        let readers = [0, 1].map(|_| lock(LockKind::Shared, "reader").expect("shared"));
        let error = refusal(LockKind::Exclusive);
        assert!(
            error.message().ends_with("is locked by another process") && !error.message().contains("42"),
            "{error}"
        );
        drop(readers);
        drop(lock(LockKind::Exclusive, "again").expect("free again"));
        let _other = disk.lock("LOCK2", LockKind::Exclusive, "").expect("another name");
        lock(LockKind::Shared, "").expect("free again");
    });
}

#[test]
fn many_large_reads_at_once_from_many_threads() {
    let len = 5 * READ_PIECE_BYTES + 3 * IO_ALIGN;
    let bytes = pattern(len);
    on_every_disk(|disk| {
        let mut buffer = AlignedBuffer::zeroed(len);
        buffer.copy_from_slice(&bytes);
        let file = disk.open("f", OpenMode::Create).expect("a file");
        file.write_direct(0, &buffer).expect("written");
        file.sync().expect("synced");
        let pool = BufferPool::new(64 << 20);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (pool, file, bytes) = (&pool, &file, &bytes);
                scope.spawn(move || {
                    let ranges = (0..40).map(|at| (at * 31 + thread) % 300 * IO_ALIGN).chain([0]);
                    let take = |offset: usize| {
                        let len = if offset == 0 { len } else { (len - offset).min(300 * IO_ALIGN) };
                        ReadRequest { offset: offset as u64, buffer: pool.take(len).expect("in budget") }
                    };
                    for offsets in ranges.collect::<Vec<_>>().chunks(7) {
                        let mut requests: Vec<_> = offsets.iter().map(|offset| take(*offset)).collect();
                        file.read_direct(&mut requests).expect("read");
                        for request in &requests {
                            let start = request.offset as usize;
                            assert!(request.buffer[..] == bytes[start..start + request.buffer.len()], "at {start}");
                        }
                    }
                });
            }
        });
        assert_eq!(pool.in_use_bytes(), 0);
    });
}

#[test]
fn buffered_and_direct_transfers_see_each_other() {
    on_every_disk(|disk| {
        let file = create(disk, "f", &[1; 2 * IO_ALIGN]);
        let mut requests = [ReadRequest { offset: 0, buffer: AlignedBuffer::zeroed(2 * IO_ALIGN) }];
        file.read_direct(&mut requests).expect("read");
        assert!(requests[0].buffer.iter().all(|byte| *byte == 1));
        let mut page = AlignedBuffer::zeroed(IO_ALIGN);
        page.fill(2);
        file.write_direct(IO_ALIGN as u64, &page).expect("written");
        file.write_at(IO_ALIGN as u64 - 1, &[3]).expect("written");
        let mut found = [0; 3];
        file.read_at(IO_ALIGN as u64 - 2, &mut found).expect("read");
        assert_eq!(found, [1, 3, 2]);
    });
}

#[derive(Debug, Clone)]
enum Step {
    Create(u8),
    Write(u8, u64, Vec<u8>),
    SetLen(u8, u64),
    Rename(u8, u8),
    Remove(u8),
    Sync(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let name = || 0..4_u8;
    let step = prop_oneof![
        name().prop_map(Step::Create),
        (name(), 0..9000_u64, proptest::collection::vec(any::<u8>(), 0..5000))
            .prop_map(|(n, at, b)| Step::Write(n, at, b)),
        (name(), 0..9000_u64).prop_map(|(n, len)| Step::SetLen(n, len)),
        (name(), name()).prop_map(|(a, b)| Step::Rename(a, b)),
        name().prop_map(Step::Remove),
        name().prop_map(Step::Sync),
    ];
    proptest::collection::vec(step, 1..30)
}

/// What `steps` leave: which of them worked, and every file's bytes.
fn replay(disk: &dyn Disk, steps: &[Step]) -> (Vec<Option<ErrorKind>>, BTreeMap<String, Vec<u8>>) {
    let name = |number: &u8| format!("d/f{number}");
    let write = |number: &u8| disk.open(&name(number), OpenMode::Write);
    disk.create_directory("d").expect("made");
    let mut outcomes = Vec::new();
    for step in steps {
        let outcome = match step {
            Step::Create(n) => disk.open(&name(n), OpenMode::Create).map(drop),
            Step::Write(n, at, bytes) => write(n).and_then(|file| file.write_at(*at, bytes)),
            Step::SetLen(n, len) => write(n).and_then(|file| file.set_len(*len)),
            Step::Rename(a, b) => disk.rename(&name(a), &name(b)),
            Step::Remove(n) => disk.remove(&name(n)),
            Step::Sync(n) => write(n).and_then(|file| file.sync()).and_then(|()| disk.sync_directory("d")),
        };
        outcomes.push(outcome.err().map(|error| error.kind()));
    }
    let names = disk.list("d").expect("a directory");
    (outcomes, names.into_iter().map(|name| (name.clone(), content(disk, &format!("d/{name}")))).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_disk_agrees_with_the_file_system(steps in steps()) {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let expected = replay(&LocalDisk::open(directory.path(), IoMode::Pread).expect("a disk"), &steps);
        prop_assert_eq!(&replay(&MemoryDisk::new(), &steps), &expected);
        prop_assert_eq!(&replay(&SimulatedDisk::new(7, Faults::default()), &steps), &expected);
    }

    #[test]
    fn synced_files_survive_a_power_loss(steps in steps(), seed in any::<u64>()) {
        let disk = SimulatedDisk::new(seed, Faults::default());
        let (_, expected) = replay(&disk, &steps);
        for name in expected.keys() {
            disk.open(&format!("d/{name}"), OpenMode::Write).expect("a file").sync().expect("synced");
        }
        disk.sync_directory("d").expect("synced");
        disk.sync_directory("").expect("synced");
        let after = disk.crash();
        let found: BTreeMap<_, _> = after.list("d").expect("a directory").into_iter()
            .map(|name| (name.clone(), content(&after, &format!("d/{name}")))).collect();
        prop_assert_eq!(found, expected);
    }
}

/// Two directories of a disk have names of their own, and each is itself under any spelling.
#[test]
fn other_directories_are_disks_of_their_own() {
    on_every_disk(|disk| {
        let home = disk.canonical_path().expect("it exists");
        let inside = disk.elsewhere(&format!("{}/other", home.trim_end_matches('/'))).expect("a directory");
        assert!(!inside.exists("f").expect("looked for"), "it need not exist");
        inside.create_directory("").expect("made");
        create(&*inside, "f", b"inside");
        assert_eq!(content(disk, "other/f"), b"inside");
        let again = inside.elsewhere(&home).expect("a directory");
        assert_eq!(again.canonical_path().expect("it exists"), home);
        assert_eq!(content(&*again, "other/f"), b"inside");
        assert_ne!(inside.canonical_path().expect("it exists"), home);
        let held = inside.lock("LOCK", LockKind::Exclusive, "first").expect("free");
        assert_eq!(
            disk.lock("other/LOCK", LockKind::Shared, "").map(drop).expect_err("held").kind(),
            ErrorKind::Locked
        );
        assert!(disk.lock("LOCK", LockKind::Shared, "").is_ok());
        drop(held);
        assert!(disk.elsewhere("other").is_err(), "not absolute");
    });
}
