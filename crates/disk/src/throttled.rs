//! A disk whose reads take as long as those of a drive with a given bandwidth: for benchmarks that compare us with
//! ourselves.
//!
//! There is one virtual drive per disk: each request occupies it for its bytes over the bandwidth, in the order of
//! submission, and is complete when its time is over and the disk below has served it.
//! Invariant: what is read, and every error, is that of the disk below. Must not know: which disk that is.

use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::Result;
use parking_lot::Mutex;

use crate::ticket::PendingReads;
use crate::{AlignedBuffer, Disk, DiskDirectory, DiskFile, LockKind, OpenMode, ReadPath, ReadRequest, ReadTicket};

/// A disk with a limited bandwidth of reads. Clones share it.
#[derive(Debug, Clone)]
pub struct ThrottledDisk {
    disk: Arc<dyn Disk>,
    drive: Arc<Drive>,
}

impl ThrottledDisk {
    /// `disk`, from which at most `bytes_per_second` are read. Writes take as long as they take.
    pub fn new(disk: Arc<dyn Disk>, bytes_per_second: NonZeroU64) -> Self {
        let drive = Drive { bytes_per_second, free_at: Mutex::new(Instant::now()) };
        Self { disk, drive: Arc::new(drive) }
    }

    fn throttled(&self, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(ThrottledFile { file, drive: Arc::clone(&self.drive) })
    }
}

/// The virtual drive.
#[derive(Debug)]
struct Drive {
    bytes_per_second: NonZeroU64,
    /// When it has done with what was submitted.
    free_at: Mutex<Instant>,
}

impl Drive {
    /// When `bytes` that are submitted now are read.
    fn occupy(&self, bytes: usize) -> Instant {
        let elapsed_ns = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        let mut free_at = self.free_at.lock();
        *free_at = (*free_at).max(Instant::now()) + Duration::from_nanos(elapsed_ns as u64);
        *free_at
    }

    fn occupy_all(&self, requests: &[ReadRequest]) -> Instant {
        self.occupy(requests.iter().map(|request| request.buffer.len()).sum())
    }
}

fn sleep_until(end: Instant) {
    std::thread::sleep(end.saturating_duration_since(Instant::now()));
}

impl Disk for ThrottledDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        Ok(self.throttled(self.disk.open(path, mode)?))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(path)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(directory)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.disk.create_directory(path)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(path)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(from, to)
    }

    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>> {
        self.disk.open_directory(path)
    }

    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        self.disk.lock(path, kind, holder)
    }

    fn temporary(&self) -> Result<Arc<dyn DiskFile>> {
        Ok(self.throttled(self.disk.temporary()?))
    }

    /// A virtual drive of its own, as fast as this one.
    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>> {
        Ok(Arc::new(Self::new(self.disk.elsewhere(path)?, self.drive.bytes_per_second)))
    }

    fn canonical_path(&self) -> Result<String> {
        self.disk.canonical_path()
    }

    fn describe(&self) -> String {
        self.disk.describe()
    }
}

#[derive(Debug)]
struct ThrottledFile {
    file: Arc<dyn DiskFile>,
    drive: Arc<Drive>,
}

impl DiskFile for ThrottledFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = self.drive.occupy(buffer.len());
        self.file.read_at(offset, buffer)?;
        sleep_until(end);
        Ok(())
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file.write_at(offset, bytes)
    }

    fn submit_reads(self: Arc<Self>, requests: Vec<ReadRequest>, path: ReadPath) -> Result<ReadTicket> {
        let end = self.drive.occupy_all(&requests);
        let reads = Arc::clone(&self.file).submit_reads(requests, path)?;
        Ok(ReadTicket::new(Box::new(ThrottledReads { reads, end })))
    }

    fn read_direct(&self, requests: &mut [ReadRequest]) -> Result<()> {
        let end = self.drive.occupy_all(requests);
        self.file.read_direct(requests)?;
        sleep_until(end);
        Ok(())
    }

    fn write_direct(&self, offset: u64, buffer: &AlignedBuffer) -> Result<()> {
        self.file.write_direct(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn len(&self) -> Result<u64> {
        self.file.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes)
    }

    fn path(&self) -> &str {
        self.file.path()
    }
}

struct ThrottledReads {
    reads: ReadTicket,
    end: Instant,
}

impl PendingReads for ThrottledReads {
    fn is_done(&self) -> bool {
        self.end <= Instant::now() && self.reads.is_done()
    }

    fn wait(self: Box<Self>) -> Result<Vec<ReadRequest>> {
        let requests = self.reads.wait()?;
        sleep_until(self.end);
        Ok(requests)
    }
}
