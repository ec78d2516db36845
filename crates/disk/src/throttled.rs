//! A disk whose reads take as long as those of a drive with a given bandwidth: for benchmarks that compare us with
//! ourselves.
//!
//! There is one virtual drive per disk: each request occupies it for its bytes over the bandwidth, and is complete when its time is
//! over and the disk below has served it. Requests reach it in the order of submission, but those that somebody waits for before the
//! others, and no further one while what it has takes it as long as [`READ_IN_FLIGHT_BYTES`]: as with the disk below.
//! Invariant: what is read, and every error, is that of the disk below. Must not know: which disk that is.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_base::Result;
use forebay_base::limits::READ_IN_FLIGHT_BYTES;
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
        let queue = Queue { free_at: Instant::now(), waiting: VecDeque::new(), ends: BTreeMap::new(), next: 0 };
        let drive = Drive { bytes_per_second, queue: Mutex::new(queue) };
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
    queue: Mutex<Queue>,
}

/// Names a batch of requests until its time is asked for for the last time.
type BatchNumber = u64;

/// What the drive has to do.
#[derive(Debug)]
struct Queue {
    /// When it has done with what reached it.
    free_at: Instant,
    /// What has not reached it, in the order of submission: when that was, and how long it takes.
    waiting: VecDeque<(BatchNumber, Instant, Duration)>,
    /// When those are read that reached it.
    ends: BTreeMap<BatchNumber, Instant>,
    next: BatchNumber,
}

impl Drive {
    fn time_of(&self, bytes: usize) -> Duration {
        let elapsed_ns = bytes as u128 * 1_000_000_000 / u128::from(self.bytes_per_second.get());
        Duration::from_nanos(elapsed_ns as u64)
    }

    fn submit(&self, bytes: usize) -> BatchNumber {
        let elapsed = self.time_of(bytes);
        let mut queue = self.queue.lock();
        let number = queue.next;
        queue.next += 1;
        let now = Instant::now();
        queue.waiting.push_back((number, now, elapsed));
        queue.advance(now, self.time_of(READ_IN_FLIGHT_BYTES));
        number
    }

    /// Whether a batch is read by now.
    fn is_done(&self, number: BatchNumber) -> bool {
        let (mut queue, now) = (self.queue.lock(), Instant::now());
        queue.advance(now, self.time_of(READ_IN_FLIGHT_BYTES));
        queue.ends.get(&number).is_some_and(|end| *end <= now)
    }

    /// Ends a batch that somebody waits for: when it is read.
    fn finish(&self, number: BatchNumber) -> Instant {
        let (mut queue, now) = (self.queue.lock(), Instant::now());
        queue.advance(now, self.time_of(READ_IN_FLIGHT_BYTES));
        if let Some(place) = queue.waiting.iter().position(|(waiting, ..)| *waiting == number)
            && let Some((_, _, elapsed)) = queue.waiting.remove(place)
        {
            queue.begin(number, now, elapsed);
        }
        queue.ends.remove(&number).unwrap_or(now)
    }

    /// Ends a batch that nobody wants any more: what has not reached the drive is not read.
    fn abandon(&self, number: BatchNumber) {
        let mut queue = self.queue.lock();
        queue.advance(Instant::now(), self.time_of(READ_IN_FLIGHT_BYTES));
        queue.waiting.retain(|(waiting, ..)| *waiting != number);
        queue.ends.remove(&number);
    }

    /// When so many bytes are read that somebody waits for from now on.
    fn occupy(&self, bytes: usize) -> Instant {
        self.finish(self.submit(bytes))
    }
}

impl Queue {
    /// What has reached the drive by now, where it takes more as long as it has less than `most` to do.
    fn advance(&mut self, now: Instant, most: Duration) {
        while let Some((number, submitted, elapsed)) = self.waiting.front().copied()
            && self.free_at < now + most
        {
            self.waiting.pop_front();
            self.begin(number, submitted, elapsed);
        }
    }

    /// A batch reaches the drive.
    fn begin(&mut self, number: BatchNumber, not_before: Instant, elapsed: Duration) {
        self.free_at = self.free_at.max(not_before) + elapsed;
        self.ends.insert(number, self.free_at);
    }
}

fn bytes_of(requests: &[ReadRequest]) -> usize {
    requests.iter().map(|request| request.buffer.len()).sum()
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
        let bytes = bytes_of(&requests);
        let reads = Arc::clone(&self.file).submit_reads(requests, path)?;
        let batch = Some(self.drive.submit(bytes));
        Ok(ReadTicket::new(Box::new(ThrottledReads { reads: Some(reads), drive: Arc::clone(&self.drive), batch })))
    }

    fn read_direct(&self, requests: &mut [ReadRequest]) -> Result<()> {
        let end = self.drive.occupy(bytes_of(requests));
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
    /// `None` once they are waited for, as is the batch.
    reads: Option<ReadTicket>,
    drive: Arc<Drive>,
    batch: Option<BatchNumber>,
}

impl PendingReads for ThrottledReads {
    fn is_done(&self) -> bool {
        self.batch.is_none_or(|batch| self.drive.is_done(batch)) && self.reads.as_ref().is_none_or(ReadTicket::is_done)
    }

    fn wait(mut self: Box<Self>) -> Result<Vec<ReadRequest>> {
        let end = self.batch.take().map(|batch| self.drive.finish(batch));
        let requests = self.reads.take().map_or(Ok(Vec::new()), ReadTicket::wait)?;
        end.into_iter().for_each(sleep_until);
        Ok(requests)
    }
}

impl Drop for ThrottledReads {
    fn drop(&mut self) {
        self.batch.iter().for_each(|batch| self.drive.abandon(*batch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_waited_for_overtakes_what_has_not_reached_the_drive() {
        let second = Duration::from_secs(1);
        let start = Instant::now();
        let mut queue = Queue { free_at: start, waiting: VecDeque::new(), ends: BTreeMap::new(), next: 0 };
        (0..6).for_each(|number| queue.waiting.push_back((number, start, second)));
        queue.advance(start, 2 * second);
        assert_eq!(queue.ends, BTreeMap::from([(0, start + second), (1, start + 2 * second)]));
        let urgent = queue.waiting.remove(3).expect("the last one");
        queue.begin(urgent.0, start, urgent.2);
        assert_eq!(queue.ends[&5], start + 3 * second);
        // The drive was never idle, whenever somebody looks.
        queue.advance(start + 10 * second, 2 * second);
        assert_eq!(queue.ends[&4], start + 6 * second);
        queue.waiting.push_back((6, start + 8 * second, second));
        queue.advance(start + 10 * second, 2 * second);
        assert_eq!(queue.ends[&6], start + 9 * second, "nothing was there between");
    }
}
