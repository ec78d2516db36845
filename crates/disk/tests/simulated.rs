//! Power loss and faults on the simulated disk.

use std::collections::BTreeSet;

use forebay_base::ErrorKind;
use forebay_base::limits::IO_ALIGN;
use forebay_disk::{AlignedBuffer, Disk, FaultKind, Faults, LockKind, OpenMode, ReadRequest, SimulatedDisk};

/// What is found after a power loss of what `prepare` does, over many seeds.
fn survivors<T: Ord>(prepare: impl Fn(&SimulatedDisk), find: impl Fn(&SimulatedDisk) -> T) -> BTreeSet<T> {
    (0..300)
        .map(|seed| {
            let disk = SimulatedDisk::new(seed, Faults::default());
            prepare(&disk);
            find(&disk.crash())
        })
        .collect()
}

fn names(disk: &SimulatedDisk) -> Vec<String> {
    disk.list("").expect("the root")
}

fn write(disk: &SimulatedDisk, path: &str, bytes: &[u8]) {
    let file = disk.open(path, OpenMode::Create).expect("a new file");
    file.write_at(0, bytes).expect("written");
    file.sync().expect("synced");
}

fn read(disk: &SimulatedDisk, path: &str) -> Option<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read).ok()?;
    let mut bytes = vec![0; file.len().expect("a length") as usize];
    file.read_at(0, &mut bytes).expect("read");
    Some(bytes)
}

fn set(names: &[&[&str]]) -> BTreeSet<Vec<String>> {
    names.iter().map(|names| names.iter().map(|name| (*name).to_owned()).collect()).collect()
}

#[test]
fn names_need_their_directory_synced() {
    let found = survivors(|disk| write(disk, "f", b"x"), names);
    assert_eq!(found, set(&[&[], &["f"]]), "syncing the file does not make its name durable");
    let replace = |disk: &SimulatedDisk| {
        write(disk, "f", b"old");
        disk.sync_directory("").expect("synced");
        write(disk, "f.new", b"new");
        disk.rename("f.new", "f").expect("renamed");
    };
    let found = survivors(replace, |disk| read(disk, "f").expect("never missing"));
    assert_eq!(found, BTreeSet::from([b"old".to_vec(), b"new".to_vec()]), "a rename is atomic");
    let remove = |disk: &SimulatedDisk| {
        replace(disk);
        disk.sync_directory("").expect("synced");
        disk.remove("f").expect("removed");
    };
    assert_eq!(survivors(remove, names), set(&[&[], &["f"]]));
}

#[test]
fn a_file_is_lost_with_its_directory() {
    let prepare = |disk: &SimulatedDisk| {
        disk.create_directory("d").expect("made");
        write(disk, "d/f", b"x");
        disk.sync_directory("d").expect("synced");
    };
    let found = survivors(prepare, |disk| (disk.exists("d").ok(), disk.exists("d/f").ok()));
    assert_eq!(found, BTreeSet::from([(Some(false), Some(false)), (Some(true), Some(true))]));
}

#[test]
fn a_rename_between_directories_leaves_one_name() {
    let prepare = |disk: &SimulatedDisk| {
        disk.create_directory("a").expect("made");
        disk.create_directory("b").expect("made");
        disk.sync_directory("").expect("synced");
        write(disk, "a/f", b"x");
        disk.rename("a/f", "b/f").expect("renamed");
        disk.sync_directory("b").expect("synced");
    };
    let found = survivors(prepare, |disk| (disk.exists("a/f").ok(), disk.exists("b/f").ok()));
    assert_eq!(found, BTreeSet::from([(Some(false), Some(true))]));
}

#[test]
fn the_same_seed_tells_the_same_story() {
    let story = |seed| {
        let disk = SimulatedDisk::new(seed, Faults::default());
        for number in 0..6_u8 {
            let file = disk.open(&format!("f{number}"), OpenMode::Create).expect("a new file");
            file.write_at(0, &[number; 4000]).expect("written");
        }
        let after = disk.crash();
        names(&after).iter().map(|name| (name.clone(), read(&after, name))).collect::<Vec<_>>()
    };
    assert_eq!(story(5), story(5));
    assert!((0..20).map(story).collect::<BTreeSet<_>>().len() > 10, "seeds differ");
}

#[test]
fn after_the_power_is_gone_every_call_fails_until_the_crash() {
    let disk = SimulatedDisk::new(3, Faults { crash_at_call: Some(6), fail_call: None });
    let lock = disk.lock("LOCK", LockKind::Exclusive, "first").expect("free");
    let file = disk.open("f", OpenMode::Create).expect("call 2");
    file.sync().expect("call 3");
    disk.sync_directory("").expect("calls 4 and 5");
    assert_eq!(disk.calls(), 5);
    let error = file.write_at(0, &[1; 2048]).expect_err("the power goes");
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(file.sync().is_err() && file.len().is_err() && disk.list("").is_err() && disk.exists("f").is_err());
    let lengths: BTreeSet<_> = (0..100).map(|_| read(&disk.crash(), "f").expect("durable").len()).collect();
    assert!(lengths.contains(&0) && lengths.contains(&2048), "the last write is kept or not: {lengths:?}");
    let after = disk.crash();
    assert_eq!(after.calls(), 0);
    let _again = after.lock("LOCK", LockKind::Exclusive, "second").expect("released by the crash");
    drop(lock);
    let twice = after.crash_with(Faults { crash_at_call: Some(1), fail_call: None });
    assert!(twice.list("").is_err() && after.list("").is_err());
}

#[test]
fn faults_hit_the_call_that_was_named() {
    let outcome = |call, kind| {
        let disk = SimulatedDisk::new(1, Faults { fail_call: Some((call, kind)), crash_at_call: None });
        let run = || {
            let file = disk.open("f", OpenMode::Create)?;
            file.write_at(0, &vec![0; 2 * IO_ALIGN])?;
            file.sync()?;
            let mut requests = [0, 1]
                .map(|page| ReadRequest { offset: page * IO_ALIGN as u64, buffer: AlignedBuffer::zeroed(IO_ALIGN) });
            file.read_direct(&mut requests)?;
            disk.rename("f", "g")?;
            Ok(requests.iter().flat_map(|r| r.buffer.iter()).map(|byte| byte.count_ones()).sum::<u32>())
        };
        (run().map_err(|error: forebay_base::Error| error.kind()), disk.calls())
    };
    for call in 1..=6 {
        assert_eq!(outcome(call, FaultKind::Eio), (Err(ErrorKind::Io), call));
    }
    for call in [1, 2, 3, 6] {
        assert_eq!(outcome(call, FaultKind::Enospc), (Err(ErrorKind::OutOfSpace), call));
        assert_eq!(outcome(call, FaultKind::BitFlip), (Ok(0), 6));
    }
    for call in [4, 5] {
        assert_eq!(outcome(call, FaultKind::Enospc), (Ok(0), 6), "reading needs no space");
        assert_eq!(outcome(call, FaultKind::ShortRead), (Err(ErrorKind::Corrupt), call));
        assert_eq!(outcome(call, FaultKind::BitFlip), (Ok(1), 6));
    }
    assert_eq!(outcome(7, FaultKind::Eio), (Ok(0), 6));
}

#[test]
fn a_failed_write_leaves_whole_sectors() {
    let lengths: BTreeSet<_> = (0..50)
        .map(|seed| {
            let disk =
                SimulatedDisk::new(seed, Faults { fail_call: Some((2, FaultKind::Enospc)), crash_at_call: None });
            let file = disk.open("f", OpenMode::Create).expect("a new file");
            assert_eq!(file.write_at(0, &[1; 2048]).expect_err("full").kind(), ErrorKind::OutOfSpace);
            file.len().expect("a length")
        })
        .collect();
    assert_eq!(lengths, BTreeSet::from([0, 512, 1024, 1536, 2048]));
}

#[test]
fn a_failed_sync_is_not_mended_by_the_next() {
    let lost = (0..100).filter(|seed| {
        let disk = SimulatedDisk::new(*seed, Faults { fail_call: Some((5, FaultKind::Eio)), crash_at_call: None });
        let file = disk.open("f", OpenMode::Create).expect("call 1");
        disk.sync_directory("").expect("calls 2 and 3");
        file.write_at(0, b"acknowledged?").expect("call 4");
        assert_eq!(file.sync().expect_err("call 5").kind(), ErrorKind::Io);
        file.sync().expect("the kernel forgot");
        assert_eq!(read(&disk, "f").expect("there").len(), 13, "the page cache still has it");
        read(&disk.crash(), "f").expect("there").is_empty()
    });
    assert!(lost.count() > 20);
}

/// Until it is given room again, and for its own files only.
#[test]
fn one_drive_fills_and_the_others_do_not() {
    let disk = SimulatedDisk::new(1, Faults::default());
    let drives = ["/a", "/ab"].map(|path| {
        let drive = disk.elsewhere(path).expect("a directory");
        drive.create_directory("").expect("made");
        drive.open("f", OpenMode::Create).expect("a new file")
    });
    disk.set_full("/a", true).expect("absolute");
    let outcomes = || [0, 1].map(|at| drives[at].write_at(0, b"x").map_err(|error| error.kind()));
    assert_eq!(outcomes(), [Err(ErrorKind::OutOfSpace), Ok(())]);
    assert!(drives[0].set_len(0).is_ok() && drives[0].sync().is_ok());
    let after = disk.crash();
    after.open("a/g", OpenMode::Create).expect("a name").write_at(0, b"x").expect_err("still full");
    disk.set_full("/a", false).expect("absolute");
    after.set_full("/a", false).expect("absolute");
    after.open("a/h", OpenMode::Create).expect("a name").write_at(0, b"x").expect("room");
}
