//! Reads by a few standing threads, where there is no io_uring.
//!
//! Threads start at the first submission, serve batches in their order, sleep in between, and end with the disk and its
//! tickets. A thread that waits for its batch reads that batch's pieces itself as long as nobody has begun with them.
//!
//! Invariant: a reading thread has nothing that keeps this alive, so it is never the one that ends it.
//! Must not know: what a file is, beyond how a piece of it is read.

use std::sync::Arc;
use std::thread::{Builder, JoinHandle};

use forebay_base::Result;
use forebay_base::limits::READ_THREADS;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::batches::{BatchId, Batches};
use super::descriptors::Descriptors;
use crate::ReadPath;
use crate::sys::Piece;

/// The reading threads of a disk.
#[derive(Debug)]
pub(super) struct ThreadReads {
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// Where the threads read from.
#[derive(Debug, Clone)]
pub(super) struct ThreadSource {
    pub(super) file: Arc<Descriptors>,
    pub(super) path: ReadPath,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Woken when there is something to read, or the end has come.
    work: Condvar,
}

#[derive(Debug)]
struct State {
    batches: Batches<ThreadSource>,
    has_ended: bool,
}

impl ThreadReads {
    pub(super) fn new() -> Self {
        let state = Mutex::new(State { batches: Batches::new(), has_ended: false });
        Self { shared: Arc::new(Shared { state, work: Condvar::new() }), threads: Mutex::default() }
    }

    /// Starts reads of `pieces`.
    pub(super) fn submit(&self, source: ThreadSource, pieces: Vec<Piece>) -> BatchId {
        let threads = self.start();
        let woken_threads = pieces.len().min(threads);
        let mut state = self.shared.state.lock();
        let id = state.batches.add(source, pieces);
        if threads == 0 {
            // The system has no thread left: reads that nobody runs ahead with are done now.
            serve_batch(&mut state, id);
        }
        drop(state);
        for _ in 0..woken_threads {
            self.shared.work.notify_one();
        }
        id
    }

    /// Whether the batch is done. Never blocks.
    pub(super) fn is_done(&self, id: BatchId) -> bool {
        self.shared.state.lock().batches.is_done(id)
    }

    /// Waits for the batch and ends it. Nothing is left of its pieces.
    pub(super) fn finish(&self, id: BatchId) -> Result<Vec<Piece>> {
        let mut state = self.shared.state.lock();
        serve_batch(&mut state, id);
        wait(&mut state, id);
        state.batches.take(id)
    }

    /// Ends the batch when those of its pieces are read that a thread has begun with.
    pub(super) fn abandon(&self, id: BatchId) {
        let mut state = self.shared.state.lock();
        state.batches.withdraw(id);
        wait(&mut state, id);
        // Nobody is left to hear of an error.
        let _ = state.batches.take(id);
    }

    /// The number of threads, which are started if they are not there.
    fn start(&self) -> usize {
        let mut threads = self.threads.lock();
        if threads.is_empty() {
            let start = |_| {
                let shared = Arc::clone(&self.shared);
                Builder::new().name("forebay-read".to_owned()).spawn(move || shared.serve()).ok()
            };
            threads.extend((0..READ_THREADS).map_while(start));
        }
        threads.len()
    }
}

impl Drop for ThreadReads {
    fn drop(&mut self) {
        self.shared.state.lock().has_ended = true;
        self.shared.work.notify_all();
        for thread in self.threads.get_mut().drain(..) {
            thread.join().expect("reading does not panic");
        }
    }
}

impl Shared {
    /// A reading thread.
    fn serve(&self) {
        let mut state = self.state.lock();
        while !state.has_ended {
            match state.batches.next_piece() {
                Some((id, source, piece)) => read(&mut state, id, source, piece),
                None => self.work.wait(&mut state),
            }
        }
    }
}

/// Reads those pieces of the batch that nobody has begun with.
fn serve_batch(state: &mut MutexGuard<'_, State>, id: BatchId) {
    while let Some((source, piece)) = state.batches.piece_of(id) {
        read(state, id, source, piece);
    }
}

fn wait(state: &mut MutexGuard<'_, State>, id: BatchId) {
    while !state.batches.is_done(id) {
        let done = state.batches.done(id);
        done.wait(state);
    }
}

fn read(state: &mut MutexGuard<'_, State>, id: BatchId, source: ThreadSource, mut piece: Piece) {
    let outcome = MutexGuard::unlocked(state, || {
        let ThreadSource { file, path } = source;
        file.read_piece(&mut piece, path)?;
        Ok(piece)
    });
    state.batches.give_back(id, outcome);
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::sys::Transfer;
    use crate::{AlignedBuffer, OpenMode, ReadRequest};

    #[test]
    fn threads_start_with_the_first_reads_and_end_with_the_disk() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(8 << 20).expect("extended");
        let refused = Arc::new(AtomicBool::new(false));
        let file = Arc::new(Descriptors::new("the file".to_owned(), OpenMode::Read, file, refused));
        for is_waited_for in [true, false] {
            let reads = ThreadReads::new();
            assert!(reads.threads.lock().is_empty());
            let (transfer, pieces) =
                Transfer::new(vec![ReadRequest { offset: 0, buffer: AlignedBuffer::zeroed(8 << 20) }]);
            let source = ThreadSource { file: Arc::clone(&file), path: ReadPath::Direct };
            let id = reads.submit(source, pieces);
            assert_eq!(reads.threads.lock().len(), READ_THREADS);
            if is_waited_for {
                assert!(reads.finish(id).expect("read").is_empty());
            } else {
                reads.abandon(id);
            }
            assert!(Transfer::into_requests(transfer).is_some(), "nobody has a piece any more");
            let shared = Arc::downgrade(&reads.shared);
            drop(reads);
            assert!(shared.upgrade().is_none(), "every thread had a share of it");
            assert_eq!(Arc::strong_count(&file), 1);
        }
    }
}
