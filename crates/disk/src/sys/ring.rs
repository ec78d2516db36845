//! An io_uring for reads: one owner pushes and reaps, one thread at a time may wait for completions meanwhile.
//!
//! Invariants: a piece that the kernel may write to lies in a slot of [`RingQueue`], with its file, until its completion
//! was reaped; a queue that cannot wait for the kernel any more leaks them. There are as many slots as entries in the
//! submission queue, and half as many as in the completion queue, so neither overflows.
//! A piece in a registered region is read by its slot, any other by its address: the bytes are the same.
//! Must not know: requests, and who waits for them.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use forebay_base::limits::{READ_IN_FLIGHT_BYTES, READ_QUEUE_DEPTH};
use io_uring::{IoUring, Probe, opcode, squeue, types};

use super::Piece;
use super::registered::RegisteredRegions;

/// The one end of a ring that touches its queues. `T` says whose a piece is.
pub(crate) struct RingQueue<T> {
    ring: Arc<IoUring>,
    regions: RegisteredRegions,
    slots: Vec<Option<Sent<T>>>,
    /// Indexes of empty slots.
    free: Vec<usize>,
    /// Bytes of pieces that were pushed and not reaped.
    in_flight_bytes: usize,
}

/// A piece on its way.
struct Sent<T> {
    piece: Piece,
    /// Its bytes when it was pushed.
    len: usize,
    owner: T,
    /// Keeps the descriptor open. The kernel does so too, but only from the moment when it took the entry.
    _file: Arc<File>,
}

/// The other end: sleeps until something is complete.
pub(crate) struct RingWaiter {
    ring: Arc<IoUring>,
}

impl<T> RingQueue<T> {
    /// Both ends of a ring that was seen to work: a sandbox may allow its setup and forbid its use. Where it `registers`, the
    /// kernel learns which memory is read into over and over.
    pub(crate) fn open(registers: bool) -> io::Result<(Self, RingWaiter)> {
        let mut ring = IoUring::new(READ_QUEUE_DEPTH as u32)?;
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe)?;
        if !probe.is_supported(opcode::Read::CODE) {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        // SAFETY: a no-op refers to no memory.
        unsafe { ring.submission().push(&opcode::Nop::new().build()) }.map_err(io::Error::other)?;
        ring.submit_and_wait(1)?;
        ring.completion().for_each(drop);
        let ring = Arc::new(ring);
        let slots = (0..READ_QUEUE_DEPTH).map(|_| None).collect();
        let regions =
            RegisteredRegions::new(Arc::clone(&ring), registers && probe.is_supported(opcode::ReadFixed::CODE));
        let free = (0..READ_QUEUE_DEPTH).collect();
        let queue = Self { ring: Arc::clone(&ring), regions, slots, free, in_flight_bytes: 0 };
        Ok((queue, RingWaiter { ring }))
    }

    /// Whether there is room for another piece, and it is to be read already.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() && self.in_flight_bytes < READ_IN_FLIGHT_BYTES
    }

    /// Pieces that were pushed and not reaped.
    pub(crate) fn in_flight(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Bytes of memory that the kernel was told of.
    pub(crate) fn registered_bytes(&self) -> usize {
        self.regions.bytes()
    }

    /// Queues a read of `piece` from `file` for the next [`RingQueue::submit`]. Reads of a `buffered` file are left to
    /// the kernel's workers: else what is in the page cache would be copied within the system call that submits.
    ///
    /// # Panics
    /// Without room.
    pub(crate) fn push(&mut self, mut piece: Piece, file: Arc<File>, buffered: bool, owner: T) {
        let slot = self.free.pop().expect("the caller saw room");
        let bytes = piece.len();
        let len = u32::try_from(bytes).expect("pieces are short");
        let registered = piece.place().and_then(|place| self.regions.slot_of(place, bytes));
        let (from, start, offset) = (types::Fd(file.as_raw_fd()), piece.bytes_mut().as_mut_ptr(), piece.offset());
        let entry = match registered {
            Some(region) => opcode::ReadFixed::new(from, start, len, region).offset(offset).build(),
            None => opcode::Read::new(from, start, len).offset(offset).build(),
        };
        let mut entry = entry.user_data(slot as u64);
        if buffered {
            entry = entry.flags(squeue::Flags::ASYNC);
        }
        self.in_flight_bytes += bytes;
        self.slots[slot] = Some(Sent { piece, len: bytes, owner, _file: file });
        // SAFETY: `&mut self` of the only queue of this ring: no other submission queue exists. The piece, which owns its
        // bytes, and the file stay in their slot until the completion was reaped, or for ever.
        let pushed = unsafe { self.ring.submission_shared().push(&entry) };
        pushed.expect("there are as many entries as slots");
    }

    /// Hands to the kernel what was pushed, without waiting. What it has no memory for now stays, for the next call or
    /// for [`RingWaiter::wait`].
    pub(crate) fn submit(&mut self) -> io::Result<()> {
        // SAFETY: `&mut self` of the only queue of this ring: no other submission queue exists.
        let is_empty = unsafe { self.ring.submission_shared().is_empty() };
        if is_empty {
            return Ok(());
        }
        match self.ring.submit() {
            Err(error) if !is_passing(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes what is complete: each piece with what is missing of it, whatever the cause. Not while another thread is in
    /// [`RingWaiter::wait`], which might then wait for what was taken.
    pub(crate) fn reap(&mut self) -> Vec<(T, Piece)> {
        let mut returned = Vec::new();
        // SAFETY: `&mut self` of the only queue of this ring: no other completion queue exists.
        let completions = unsafe { self.ring.completion_shared() };
        for completion in completions {
            let slot = completion.user_data() as usize;
            let Sent { mut piece, len, owner, .. } = self.slots[slot].take().expect("one completion for each entry");
            self.free.push(slot);
            self.in_flight_bytes -= len;
            // Negative is an error number: nothing was read.
            piece.advance(usize::try_from(completion.result()).unwrap_or(0));
            returned.push((owner, piece));
        }
        returned
    }
}

#[cfg(test)]
impl<T> RingQueue<T> {
    /// Has the kernel refuse to learn of memory, on a ring that has not read yet.
    pub(crate) fn refuse_registration(&mut self) {
        self.regions.refuse();
    }

    /// As if the kernel had just refused to learn of more memory.
    pub(crate) fn close_registration(&mut self) {
        self.regions.close();
    }
}

impl<T> Drop for RingQueue<T> {
    /// Waits for what is in flight.
    fn drop(&mut self) {
        while self.in_flight() > 0 {
            if wait(&self.ring).is_err() {
                // Memory that is never freed can be written to at any time.
                std::mem::forget(std::mem::take(&mut self.slots));
                return;
            }
            self.reap();
        }
    }
}

impl RingWaiter {
    /// Sleeps until something is complete and not reaped; may return before. The caller knows that something is in flight
    /// and that nobody else reaps.
    ///
    /// # Errors
    /// The ring is unusable: what is in flight is lost to the process.
    pub(crate) fn wait(&self) -> io::Result<()> {
        wait(&self.ring)
    }
}

fn wait(ring: &IoUring) -> io::Result<()> {
    match ring.submit_and_wait(1) {
        Ok(_) => Ok(()),
        Err(error) if is_passing(&error) => {
            std::thread::yield_now();
            Ok(())
        }
        Err(error) => Err(error),
    }
}

/// Interrupted by a signal, or the kernel is short of memory or completions: reap and try again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}
