//! How fast a drive gives bytes to this machine: a file of noise, read past the page cache by one or by many reads at once.
//!
//! Must not know: databases.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use forebay_base::{Error, ErrorKind, Result, limits};
use forebay_disk::{BufferPool, Disk, DiskFile, IoMode, LocalDisk, OpenMode, ReadPath, ReadRequest, ReadTicket};

/// The file's name, for as long as it has one.
const NAME: &str = "drive-probe.tmp";

/// Bytes that are written at once.
const WRITE_BYTES: usize = 4 << 20;

/// Who reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// As many threads as there are reads in flight, each of which waits for its own (pread).
    Threads,
    /// One thread that keeps them all on their way (io_uring).
    Ring,
}

/// A file to be read; it ends with this value.
#[derive(Debug)]
pub struct DriveProbe {
    by_threads: Arc<dyn DiskFile>,
    /// `None` where io_uring does not work.
    by_ring: Option<Arc<dyn DiskFile>>,
    bytes: u64,
}

impl DriveProbe {
    /// Makes a file of about so many bytes, at least 4 MiB, on the drive of this folder.
    ///
    /// # Errors
    /// If the folder cannot be written to.
    pub fn new(folder: &Path, bytes: u64) -> Result<Self> {
        let disk = LocalDisk::open(folder, IoMode::Pread)?;
        disk.create_directory("")?;
        // Of a process that was killed.
        if disk.exists(NAME)? {
            disk.remove(NAME)?;
        }
        let written = disk.open(NAME, OpenMode::Create)?;
        let bytes = bytes.next_multiple_of(WRITE_BYTES as u64).max(WRITE_BYTES as u64);
        let filled = fill(&*written, bytes);
        let opened = filled.and_then(|()| {
            let by_threads = disk.open(NAME, OpenMode::Read)?;
            let by_ring = match LocalDisk::open(folder, IoMode::Uring) {
                Ok(ring) => Some(ring.open(NAME, OpenMode::Read)?),
                Err(error) if error.kind() == ErrorKind::Unsupported => None,
                Err(error) => return Err(error),
            };
            Ok(Self { by_threads, by_ring, bytes })
        });
        // Open files stay without their name.
        disk.remove(NAME)?;
        opened
    }

    /// Bytes per second of reading the file once from its beginning to its end, by so many reads of `request_bytes` in
    /// flight at any time. `None` for a ring where io_uring does not work. Reads of more than
    /// [`limits::READ_PIECE_BYTES`] are cut into pieces of that size, as those of chunks are.
    ///
    /// # Errors
    /// If `request_bytes` is 0, not a multiple of 4096 or more than the file has, if nothing is to be in flight, and
    /// whatever the drive reports.
    pub fn bandwidth(&self, reader: Reader, request_bytes: usize, in_flight: usize) -> Result<Option<f64>> {
        let fits = (1..=self.bytes).contains(&(request_bytes as u64)) && request_bytes.is_multiple_of(limits::IO_ALIGN);
        if !fits || in_flight == 0 {
            return Err(Error::input(format!("{in_flight} reads of {request_bytes} bytes at a time are not possible"))
                .hint("Give at least one read, of a multiple of 4096 bytes that the file has"));
        }
        let pool = BufferPool::new(in_flight * request_bytes + limits::POOL_REGION_BYTES);
        let request = || Ok(ReadRequest { offset: 0, buffer: pool.take(request_bytes)? });
        let requests: Vec<ReadRequest> = (0..in_flight).map(|_| request()).collect::<Result<_>>()?;
        let end = self.bytes / request_bytes as u64;
        let started = Instant::now();
        match (reader, &self.by_ring) {
            (Reader::Threads, _) => read_by_threads(&self.by_threads, requests, end)?,
            (Reader::Ring, Some(file)) => read_by_ring(file, requests, end)?,
            (Reader::Ring, None) => return Ok(None),
        }
        let bytes = end * request_bytes as u64;
        Ok(Some(bytes as f64 / started.elapsed().as_secs_f64().max(f64::MIN_POSITIVE)))
    }
}

/// Fills a new file with bytes that no layer below finds anything to spare in.
fn fill(file: &dyn DiskFile, bytes: u64) -> Result<()> {
    let pool = BufferPool::new(WRITE_BYTES);
    let mut buffer = pool.take(WRITE_BYTES)?;
    for offset in (0..bytes).step_by(WRITE_BYTES) {
        for (word, place) in (offset / 8..).zip(buffer.chunks_exact_mut(8)) {
            let mixed = (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            place.copy_from_slice(&(mixed ^ (mixed >> 32)).to_le_bytes());
        }
        file.write_direct(offset, &buffer)?;
    }
    file.sync()
}

/// A thread for each request takes the numbers of reads, up to `end`, and waits for each.
fn read_by_threads(file: &Arc<dyn DiskFile>, requests: Vec<ReadRequest>, end: u64) -> Result<()> {
    let next = AtomicU64::new(0);
    let read = |request: ReadRequest| -> Result<()> {
        let mut requests = [request];
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end {
                return Ok(());
            }
            requests[0].offset = number * requests[0].buffer.len() as u64;
            file.read_direct(&mut requests)?;
        }
    };
    let read = &read;
    std::thread::scope(|scope| {
        let threads: Vec<_> = requests.into_iter().map(|request| scope.spawn(move || read(request))).collect();
        let panicked = |_| Err(Error::internal("a reading thread panicked"));
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(panicked))
    })
}

/// One thread keeps all requests on their way and waits for the oldest.
fn read_by_ring(file: &Arc<dyn DiskFile>, requests: Vec<ReadRequest>, end: u64) -> Result<()> {
    let mut tickets: VecDeque<ReadTicket> = VecDeque::with_capacity(requests.len());
    let mut numbers = 0..end;
    let mut idle = requests;
    loop {
        while let Some(mut request) = idle.pop() {
            let Some(number) = numbers.next() else { break };
            request.offset = number * request.buffer.len() as u64;
            tickets.push_back(Arc::clone(file).submit_reads(vec![request], ReadPath::Direct)?);
        }
        let Some(oldest) = tickets.pop_front() else { return Ok(()) };
        idle.extend(oldest.wait()?);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_by_both_and_leaves_nothing() {
        let folder = std::env::temp_dir().join(format!("forebay-drive-{}", std::process::id()));
        let probe = DriveProbe::new(&folder, 5 << 20).expect("a writable folder");
        assert_eq!(probe.bytes, 8 << 20);
        for (request_bytes, in_flight) in [(4096, 3), (64 << 10, 1), (3 << 20, 2), (8 << 20, 4)] {
            let rate = probe.bandwidth(Reader::Threads, request_bytes, in_flight).expect("a sound drive");
            assert!(rate.expect("threads are always there") > 0.0);
            let rate = probe.bandwidth(Reader::Ring, request_bytes, in_flight).expect("a sound drive");
            assert!(rate.is_none_or(|rate| rate > 0.0));
        }
        for (request_bytes, in_flight) in [(0, 1), (100, 1), (16 << 20, 1), (4096, 0)] {
            assert!(probe.bandwidth(Reader::Ring, request_bytes, in_flight).is_err());
        }
        assert_eq!(std::fs::read_dir(&folder).expect("a folder").count(), 0);
        std::fs::remove_dir(&folder).expect("an empty folder");
    }
}
