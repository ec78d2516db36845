//! All disks, for tests of what each of them promises.

use std::num::NonZeroU64;
use std::sync::Arc;

use forebay_disk::{Disk, Faults, IoMode, LocalDisk, MemoryDisk, SimulatedDisk, ThrottledDisk};

/// Runs `test` on every disk. Where the system forbids io_uring, that one is left out aloud.
pub(crate) fn on_every_disk(test: impl Fn(&dyn Disk)) {
    for mode in [IoMode::Uring, IoMode::UringUnregistered, IoMode::Pread, IoMode::Auto] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        match LocalDisk::open(directory.path(), mode) {
            Ok(disk) => test(&disk),
            Err(error) if matches!(mode, IoMode::Uring | IoMode::UringUnregistered) => {
                eprintln!("io_uring left out: {error}")
            }
            Err(error) => panic!("{error}"),
        }
    }
    test(&MemoryDisk::new());
    test(&SimulatedDisk::new(1, Faults::default()));
    for parent in [&MemoryDisk::new() as &dyn Disk, &SimulatedDisk::new(1, Faults::default())] {
        let disk = parent.elsewhere("/drives/a").expect("a directory of it");
        disk.create_directory("").expect("made");
        test(&*disk);
    }
    let bytes_per_second = NonZeroU64::new(100 << 30).expect("above zero");
    test(&ThrottledDisk::new(Arc::new(MemoryDisk::new()), bytes_per_second));
}

/// Bytes that tell their own position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}
