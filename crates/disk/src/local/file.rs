//! Files of the machine, and tickets for their reads.
//!
//! Invariant: who waits for a ticket, or drops it, stays until nobody fills its buffers any more; so they go back to their
//! pool at once. What is queued of a dropped ticket is not read.
//! Must not know: names, directories.

use std::sync::Arc;

use forebay_base::{Error, Result};

use super::batches::BatchId;
use super::descriptors::Descriptors;
use super::ring_reads::{RingReads, RingSource};
use super::thread_reads::{ThreadReads, ThreadSource};
use crate::sys::{Piece, Transfer};
use crate::ticket::PendingReads;
use crate::{AlignedBuffer, DiskFile, ReadPath, ReadRequest, ReadTicket, check_all_aligned};

/// What keeps reads in flight. Clones share it.
#[derive(Debug, Clone)]
pub(super) enum ReadQueue {
    Ring(Arc<RingReads>),
    Threads(Arc<ThreadReads>),
}

impl ReadQueue {
    fn submit(&self, file: &Arc<Descriptors>, path: ReadPath, pieces: Vec<Piece>) -> Result<BatchId> {
        match self {
            Self::Threads(threads) => Ok(threads.submit(ThreadSource { file: Arc::clone(file), path }, pieces)),
            Self::Ring(ring) => {
                let direct = if path == ReadPath::Direct { file.direct()? } else { None };
                let opened = Arc::clone(direct.unwrap_or(file.buffered()));
                Ok(ring.submit(RingSource { file: opened, buffered: direct.is_none() }, pieces))
            }
        }
    }

    fn is_done(&self, batch: BatchId) -> bool {
        match self {
            Self::Ring(ring) => ring.is_done(batch),
            Self::Threads(threads) => threads.is_done(batch),
        }
    }

    fn finish(&self, batch: BatchId) -> Result<Vec<Piece>> {
        match self {
            Self::Ring(ring) => ring.finish(batch),
            Self::Threads(threads) => threads.finish(batch),
        }
    }

    fn abandon(&self, batch: BatchId) {
        match self {
            Self::Ring(ring) => ring.abandon(batch),
            Self::Threads(threads) => threads.abandon(batch),
        }
    }
}

/// An open file of a [`super::LocalDisk`].
#[derive(Debug)]
pub(super) struct LocalFile {
    path: String,
    descriptors: Arc<Descriptors>,
    reads: ReadQueue,
}

impl LocalFile {
    pub(super) fn new(path: String, descriptors: Arc<Descriptors>, reads: ReadQueue) -> Self {
        Self { path, descriptors, reads }
    }

    #[cfg(test)]
    pub(super) fn descriptors(&self) -> &Descriptors {
        &self.descriptors
    }

    /// Starts reads that were checked.
    fn start(&self, requests: Vec<ReadRequest>, path: ReadPath) -> Result<LocalReads> {
        let (transfer, pieces) = Transfer::new(requests);
        let batch = self.reads.submit(&self.descriptors, path, pieces)?;
        let (reads, file) = (self.reads.clone(), Arc::clone(&self.descriptors));
        Ok(LocalReads { reads, file, path, batch: Some(batch), transfer: Some(transfer) })
    }
}

impl DiskFile for LocalFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.descriptors.read_at(offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.descriptors.write_at(offset, bytes)
    }

    fn submit_reads(self: Arc<Self>, requests: Vec<ReadRequest>, path: ReadPath) -> Result<ReadTicket> {
        check_all_aligned(self.descriptors.place(), &requests)?;
        Ok(ReadTicket::new(Box::new(self.start(requests, path)?)))
    }

    fn read_direct(&self, requests: &mut [ReadRequest]) -> Result<()> {
        check_all_aligned(self.descriptors.place(), requests)?;
        let taken = requests
            .iter_mut()
            .map(|request| ReadRequest { offset: request.offset, buffer: std::mem::take(&mut request.buffer) });
        let served = self.start(taken.collect(), ReadPath::Direct)?.wait()?;
        for (request, served) in requests.iter_mut().zip(served) {
            request.buffer = served.buffer;
        }
        Ok(())
    }

    fn write_direct(&self, offset: u64, buffer: &AlignedBuffer) -> Result<()> {
        self.descriptors.write_direct(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        self.descriptors.sync()
    }

    fn len(&self) -> Result<u64> {
        self.descriptors.len()
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.descriptors.set_len(bytes)
    }

    fn path(&self) -> &str {
        &self.path
    }
}

/// Reads of a file that are on their way.
struct LocalReads {
    reads: ReadQueue,
    file: Arc<Descriptors>,
    path: ReadPath,
    /// `None` once it has ended.
    batch: Option<BatchId>,
    /// `None` once the requests have left.
    transfer: Option<Arc<Transfer>>,
}

impl LocalReads {
    fn wait(mut self) -> Result<Vec<ReadRequest>> {
        let batch = self.batch.take().expect("a batch ends once");
        let mut rest = self.reads.finish(batch)?;
        rest.iter_mut().try_for_each(|piece| self.file.read_piece(piece, self.path))?;
        drop(rest);
        let requests = self.transfer.take().and_then(Transfer::into_requests);
        requests.ok_or_else(|| Error::internal(format!("reads of {} are still on their way", self.file.place())))
    }
}

impl PendingReads for LocalReads {
    fn is_done(&self) -> bool {
        self.batch.is_none_or(|batch| self.reads.is_done(batch))
    }

    fn wait(self: Box<Self>) -> Result<Vec<ReadRequest>> {
        (*self).wait()
    }
}

impl Drop for LocalReads {
    fn drop(&mut self) {
        if let Some(batch) = self.batch.take() {
            self.reads.abandon(batch);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::sync::atomic::AtomicBool;

    use forebay_base::ErrorKind;
    use forebay_base::limits::READ_PIECE_BYTES;

    use super::*;
    use crate::{BufferPool, OpenMode};

    /// A descriptor that refuses to be read from, among tickets of a file that does not.
    #[test]
    fn an_error_is_that_of_pread_and_fails_its_ticket_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("f");
        std::fs::write(&path, vec![5; 2 * READ_PIECE_BYTES]).expect("written");
        let opened = |write: bool| OpenOptions::new().read(!write).write(write).open(&path).expect("opened");
        let ring = RingReads::open(true).map(|ring| ReadQueue::Ring(Arc::new(ring)));
        for reads in [ring.ok(), Some(ReadQueue::Threads(Arc::new(ThreadReads::new())))].into_iter().flatten() {
            let pool = BufferPool::new(64 << 20);
            let open = |write| {
                let refused = Arc::new(AtomicBool::new(true));
                let descriptors = Descriptors::new("the file".to_owned(), OpenMode::Read, opened(write), refused);
                LocalFile::new("f".to_owned(), Arc::new(descriptors), reads.clone())
            };
            let start = |file: &LocalFile| {
                let buffer = pool.take(2 * READ_PIECE_BYTES).expect("in budget");
                file.start(vec![ReadRequest { offset: 0, buffer }], ReadPath::PageCache).expect("submitted")
            };
            let (good, bad) = (open(false), open(true));
            let tickets: Vec<_> = (0..8).map(|number| start(if number % 2 == 0 { &good } else { &bad })).collect();
            for (number, ticket) in tickets.into_iter().enumerate() {
                match ticket.wait() {
                    Ok(served) => assert!(number % 2 == 0 && served[0].buffer.iter().all(|byte| *byte == 5)),
                    Err(error) => {
                        assert!(number % 2 == 1 && error.kind() == ErrorKind::Io, "{error}");
                        assert!(error.message().starts_with("cannot read 1048576 bytes at "), "{error}");
                        assert!(error.message().contains(" of the file: "), "{error}");
                    }
                }
            }
            assert_eq!(pool.in_use_bytes(), 0);
        }
    }
}
