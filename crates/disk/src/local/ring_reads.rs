//! Reads through one io_uring that all threads share.
//!
//! A thread that waits for its batch takes the lead if nobody has it: it sleeps in the kernel and reaps for everybody.
//! The others sleep until their batch is done, or until the lead is theirs. No thread is started and none polls.
//!
//! Invariants: while there is a leader nobody else reaps, and the leader saw something in flight: so it always wakes.
//! Pieces that find the ring full are pushed by whoever reaps, those of batches that somebody waits for first. What the ring leaves of a
//! piece comes back unread.
//! Must not know: paths, requests, and how a rest is read.

use std::fs::File;
use std::io;
use std::sync::Arc;

use forebay_base::{Error, Result};
use parking_lot::{Mutex, MutexGuard};

use super::batches::{BatchId, Batches};
use crate::sys::{Piece, RingQueue, RingWaiter};

/// The ring of a disk.
pub(super) struct RingReads {
    state: Mutex<State>,
    waiter: RingWaiter,
    registers: bool,
}

/// Where the ring reads from.
#[derive(Debug, Clone)]
pub(super) struct RingSource {
    pub(super) file: Arc<File>,
    /// Whether the descriptor goes through the page cache.
    pub(super) buffered: bool,
}

struct State {
    batches: Batches<RingSource>,
    ring: RingQueue<BatchId>,
    /// Whether a thread waits in the kernel.
    is_led: bool,
    /// Batches whose waiting threads sleep and could lead.
    followers: Vec<BatchId>,
    /// Whether the ring failed. Then it is not touched any more.
    is_broken: bool,
}

impl RingReads {
    /// A ring. Where it `registers`, the kernel learns which memory is read into over and over.
    pub(super) fn open(registers: bool) -> io::Result<Self> {
        let (ring, waiter) = RingQueue::open(registers)?;
        let batches = Batches::new();
        let state = State { batches, ring, is_led: false, followers: Vec::new(), is_broken: false };
        Ok(Self { state: Mutex::new(state), waiter, registers })
    }

    /// Whether the kernel learns which memory is read into over and over.
    pub(super) fn registers(&self) -> bool {
        self.registers
    }

    /// Bytes of memory that the kernel was told of.
    pub(super) fn registered_bytes(&self) -> usize {
        self.state.lock().ring.registered_bytes()
    }

    /// Starts reads of `pieces`.
    pub(super) fn submit(&self, source: RingSource, pieces: Vec<Piece>) -> BatchId {
        let mut state = self.state.lock();
        let id = state.batches.add(source, pieces);
        state.advance();
        id
    }

    /// Whether the batch is done. Never blocks.
    pub(super) fn is_done(&self, id: BatchId) -> bool {
        let mut state = self.state.lock();
        if !state.batches.is_done(id) {
            state.advance();
        }
        state.batches.is_done(id)
    }

    /// Waits for the batch and ends it: what the ring left of its pieces.
    pub(super) fn finish(&self, id: BatchId) -> Result<Vec<Piece>> {
        let mut state = self.state.lock();
        state.batches.hurry(id);
        self.wait(&mut state, id);
        state.batches.take(id)
    }

    /// Ends the batch when the kernel has done with those of its pieces that it knows of.
    pub(super) fn abandon(&self, id: BatchId) {
        let mut state = self.state.lock();
        state.batches.withdraw(id);
        self.wait(&mut state, id);
        // Nobody is left to hear of an error.
        let _ = state.batches.take(id);
    }

    fn wait(&self, state: &mut MutexGuard<'_, State>, id: BatchId) {
        state.advance();
        while !state.batches.is_done(id) {
            if state.is_led {
                let done = state.batches.done(id);
                state.followers.push(id);
                done.wait(state);
                state.followers.retain(|follower| *follower != id);
                continue;
            }
            state.is_led = true;
            let outcome = MutexGuard::unlocked(state, || self.waiter.wait());
            state.is_led = false;
            match outcome {
                Ok(()) => state.advance(),
                Err(error) => state.break_down(&error),
            }
        }
        if !state.is_led
            && let Some(follower) = state.followers.last()
        {
            state.batches.wake(*follower);
        }
    }
}

impl State {
    /// Reaps what is complete, unless a leader does, and fills the ring.
    fn advance(&mut self) {
        if self.is_broken {
            return self.break_down(&io::Error::other("the ring failed before"));
        }
        if !self.is_led {
            for (id, piece) in self.ring.reap() {
                self.batches.give_back(id, Ok(piece));
            }
        }
        while self.ring.has_room() {
            let Some((id, source, piece)) = self.batches.next_piece() else { break };
            self.ring.push(piece, source.file, source.buffered, id);
        }
        if let Err(error) = self.ring.submit() {
            self.break_down(&error);
        }
    }

    /// Leaves all that is queued to pread, and fails what is in flight: its buffers are never seen again.
    fn break_down(&mut self, error: &io::Error) {
        self.is_broken = true;
        self.batches.break_down(&Error::io("wait for reads in flight", error));
    }
}

impl std::fmt::Debug for RingReads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RingReads").field("in_flight", &self.state.lock().ring.in_flight()).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use forebay_base::limits::{READ_IN_FLIGHT_BYTES, READ_PIECE_BYTES};

    use super::*;
    use crate::sys::Transfer;
    use crate::{BufferPool, ReadRequest};

    /// Pieces that are in flight at once.
    const IN_FLIGHT: usize = READ_IN_FLIGHT_BYTES / READ_PIECE_BYTES;

    /// Where the system forbids io_uring there is nothing to test.
    fn ring() -> Option<RingReads> {
        RingReads::open(true).inspect_err(|error| eprintln!("io_uring left out: {error}")).ok()
    }

    /// What a ring that fails leaves: batches that it had not begun are read otherwise, the others fail, and the buffers
    /// that the kernel may still write to stay out of reach until it has done with them.
    #[test]
    fn a_ring_that_fails_keeps_its_buffers() {
        let Some(reads) = ring() else { return };
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        file.write_all_at(&vec![7; READ_PIECE_BYTES], 0).expect("written");
        let pool = BufferPool::new(2 * IN_FLIGHT * READ_PIECE_BYTES);
        let submit = || {
            let request = || ReadRequest { offset: 0, buffer: pool.take(READ_PIECE_BYTES).expect("in budget") };
            let (transfer, pieces) = Transfer::new((0..IN_FLIGHT).map(|_| request()).collect());
            (reads.submit(RingSource { file: Arc::clone(&file), buffered: true }, pieces), transfer)
        };
        // The second lead is taken so that nothing is reaped meanwhile.
        let (begun, first) = submit();
        reads.state.lock().is_led = true;
        let (queued, second) = submit();
        reads.state.lock().break_down(&io::Error::other("a test"));
        reads.state.lock().is_led = false;
        assert!(reads.is_done(begun) && reads.is_done(queued));
        assert!(reads.finish(begun).expect_err("lost").message().contains("a test"));
        drop(first);
        assert_eq!(pool.in_use_bytes(), 2 * IN_FLIGHT * READ_PIECE_BYTES, "the kernel may write to them");
        assert_eq!(reads.finish(queued).expect("not begun").len(), IN_FLIGHT);
        drop(second);
        assert_eq!(pool.in_use_bytes(), IN_FLIGHT * READ_PIECE_BYTES);
        let (later, third) = submit();
        assert_eq!(reads.finish(later).expect("not begun").len(), IN_FLIGHT, "without the ring");
        drop(third);
        drop(reads);
        assert_eq!(pool.in_use_bytes(), 0, "drained");
    }

    /// Reads a file over and over, one to five buffers of a pool at a time: every read must give the bytes of its place in the
    /// file.
    fn read_around(reads: &RingReads, file: &Arc<File>, bytes: &[u8], pool: &BufferPool, turns: usize) {
        for turn in 0..turns {
            let request = |index: usize| {
                let offset = (turn * 37 + index * 101) % 240 * 4096;
                let buffer = pool.take(READ_PIECE_BYTES + index * 4096).expect("in budget");
                ReadRequest { offset: offset as u64, buffer }
            };
            let (transfer, pieces) = Transfer::new((0..1 + turn % 5).map(request).collect());
            let source = RingSource { file: Arc::clone(file), buffered: true };
            let rest = reads.finish(reads.submit(source, pieces)).expect("read");
            assert!(rest.is_empty(), "{rest:?}");
            for ReadRequest { offset, buffer } in Transfer::into_requests(transfer).expect("all is back") {
                assert!(bytes[offset as usize..][..buffer.len()] == buffer[..], "{} bytes at {offset}", buffer.len());
            }
        }
    }

    fn numbered_file() -> (Arc<File>, Vec<u8>) {
        let file = Arc::new(tempfile::tempfile().expect("a file"));
        let bytes: Vec<u8> = (0..1_u32 << 19).flat_map(|word| word.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
        file.write_all_at(&bytes, 0).expect("written");
        (file, bytes)
    }

    #[test]
    fn memory_that_is_read_into_over_and_over_is_registered_and_gets_the_same_bytes() {
        let Some(registering) = ring() else { return };
        let plain = RingReads::open(false).expect("there was one");
        let (file, bytes) = numbered_file();
        for round in 0..3 {
            // A new region each time, which may well lie where the one before lay.
            let pool = BufferPool::new(16 << 20);
            read_around(&registering, &file, &bytes, &pool, 1);
            assert_eq!(
                registering.registered_bytes(),
                0,
                "one read is no reason, and the last pool is gone: round {round}"
            );
            for reads in [&registering, &plain] {
                read_around(reads, &file, &bytes, &pool, 40);
            }
            let registered = registering.registered_bytes();
            if registered == 0 {
                eprintln!("registered memory left out: the system refuses it (RLIMIT_MEMLOCK?)");
                return;
            }
            assert!((6 << 20..=16 << 20).contains(&registered), "{registered} bytes");
        }
        assert_eq!(plain.registered_bytes(), 0);
    }

    #[test]
    fn refused_registration_changes_no_read() {
        let Some(reads) = ring() else { return };
        let (file, bytes) = numbered_file();
        let pool = BufferPool::new(16 << 20);
        reads.state.lock().ring.refuse_registration();
        read_around(&reads, &file, &bytes, &pool, 40);
        assert_eq!(reads.registered_bytes(), 0);
    }

    #[test]
    fn a_refusal_lets_go_of_what_was_registered() {
        let Some(reads) = ring() else { return };
        let (file, bytes) = numbered_file();
        let pool = BufferPool::new(16 << 20);
        read_around(&reads, &file, &bytes, &pool, 40);
        // A read that has its slot and was not begun finds it empty: that one is left to pread.
        let request = |_| ReadRequest { offset: 0, buffer: pool.take(READ_PIECE_BYTES).expect("in budget") };
        let (transfer, pieces) = Transfer::new((0..5).map(request).collect());
        let on_their_way = reads.submit(RingSource { file: Arc::clone(&file), buffered: true }, pieces);
        reads.state.lock().ring.close_registration();
        for mut piece in reads.finish(on_their_way).expect("told by who reads the rest") {
            let (offset, len) = (piece.offset(), piece.len());
            file.read_exact_at(piece.bytes_mut(), offset).expect("read");
            piece.advance(len);
        }
        let served = Transfer::into_requests(transfer).expect("all is back");
        assert!(served.iter().all(|request| request.buffer[..] == bytes[..READ_PIECE_BYTES]));
        read_around(&reads, &file, &bytes, &pool, 40);
        assert_eq!(reads.registered_bytes(), 0);
    }

    #[test]
    fn short_reads_and_errors_come_back_with_what_is_missing() {
        let Some(reads) = ring() else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let unreadable = Arc::new(File::create(directory.path().join("f")).expect("for writing alone"));
        let short = Arc::new(tempfile::tempfile().expect("a file"));
        short.write_all_at(&[7; 5000], 0).expect("written");
        for (file, missing) in [(unreadable, 8192), (short, 3192)] {
            let buffer = crate::AlignedBuffer::zeroed(8192);
            let (transfer, pieces) = Transfer::new(vec![ReadRequest { offset: 0, buffer }]);
            let id = reads.submit(RingSource { file, buffered: true }, pieces);
            let rest = reads.finish(id).expect("told by who reads the rest");
            assert_eq!(
                rest.iter().map(|piece| (piece.offset(), piece.len())).collect::<Vec<_>>(),
                [(8192 - missing as u64, missing)]
            );
            drop(rest);
            let requests = Transfer::into_requests(transfer).expect("all is back");
            assert!(requests[0].buffer[..8192 - missing].iter().all(|byte| *byte == 7));
        }
    }
}
