//! All disks, for tests of what each of them promises.

use forebay_disk::{Disk, Faults, IoMode, LocalDisk, MemoryDisk, SimulatedDisk};

/// Runs `test` on every disk. Where the system forbids io_uring, that one is left out aloud.
pub(crate) fn on_every_disk(test: impl Fn(&dyn Disk)) {
    for mode in [IoMode::Uring, IoMode::Pread, IoMode::Auto] {
        let directory = tempfile::tempdir().expect("a temporary directory");
        match LocalDisk::open(directory.path(), mode) {
            Ok(disk) => test(&disk),
            Err(error) if mode == IoMode::Uring => eprintln!("io_uring left out: {error}"),
            Err(error) => panic!("{error}"),
        }
    }
    test(&MemoryDisk::new());
    test(&SimulatedDisk::new(1, Faults::default()));
}

/// Bytes that tell their own position.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ (at >> 8) ^ (at >> 16)) as u8).collect()
}
