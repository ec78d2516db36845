//! The one place for unsafe code in this crate: aligned allocations and io_uring.
//!
//! Invariants: every byte of [`Pages`] is initialised; while the kernel may write to a buffer nothing in this process
//! can reach it. Must not know: paths, modes, errors of Forebay.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;

use forebay_base::limits::{IO_ALIGN, READ_PIECE_BYTES, READ_QUEUE_DEPTH};
use io_uring::{IoUring, Probe, opcode, types};

use crate::{AlignedBuffer, ReadRequest};

/// Owned bytes on an [`IO_ALIGN`] boundary.
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `Pages` owns its bytes alone, like a `Box<[u8]>`.
unsafe impl Send for Pages {}
// SAFETY: shared references only read.
unsafe impl Sync for Pages {}

impl Pages {
    /// `len` zeros; `None` if the system has no memory left.
    pub(crate) fn zeroed(len: usize) -> Option<Self> {
        if len == 0 {
            return Some(Self::default());
        }
        let layout = Self::layout(len)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, len })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is valid for `len` initialised bytes that this value owns; dangling only with length 0.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`, and `&mut self` is the only access.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }

    fn layout(len: usize) -> Option<Layout> {
        Layout::from_size_align(len, IO_ALIGN).ok()
    }
}

impl Default for Pages {
    fn default() -> Self {
        Self { start: NonNull::dangling(), len: 0 }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len > 0 {
            let layout = Self::layout(self.len).expect("the layout was valid when it was allocated");
            // SAFETY: allocated in `zeroed` with this layout, and not freed before.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// An io_uring for reads, used by one thread at a time.
pub(crate) struct Ring {
    ring: IoUring,
}

/// A part of a request: one read in flight.
struct Piece {
    offset: u64,
    start: *mut u8,
    len: u32,
}

impl Ring {
    /// A ring that was seen to work: a sandbox may allow its setup and forbid its use.
    pub(crate) fn new() -> io::Result<Self> {
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
        Ok(Self { ring })
    }

    /// Reads the requests in pieces of [`READ_PIECE_BYTES`], up to [`READ_QUEUE_DEPTH`] in flight. The result holds for
    /// every piece, in order, the bytes that were read; the caller completes what is missing, whatever the cause.
    ///
    /// # Errors
    /// The ring is unusable, the requests have lost their buffers, and whatever was in flight is lost to the process.
    pub(crate) fn read(&mut self, file: &File, requests: &mut [ReadRequest]) -> io::Result<Vec<usize>> {
        // While reads are in flight the buffers belong to the kernel. `ManuallyDrop` leaks them if this function ends
        // early, by an error or a panic: memory that is never freed can be written to at any time.
        let taken = requests.iter_mut().map(|request| std::mem::take(&mut request.buffer));
        let mut buffers: ManuallyDrop<Vec<AlignedBuffer>> = ManuallyDrop::new(taken.collect());
        let mut pieces = Vec::new();
        for (request, buffer) in requests.iter().zip(buffers.iter_mut()) {
            let mut offset = request.offset;
            for part in buffer.chunks_mut(READ_PIECE_BYTES) {
                pieces.push(Piece { offset, start: part.as_mut_ptr(), len: part.len() as u32 });
                offset += part.len() as u64;
            }
        }
        let read_bytes = self.run(file, &pieces)?;
        for (request, buffer) in requests.iter_mut().zip(ManuallyDrop::into_inner(buffers)) {
            request.buffer = buffer;
        }
        Ok(read_bytes)
    }

    /// Returns `Ok` only when nothing is in flight any more.
    fn run(&mut self, file: &File, pieces: &[Piece]) -> io::Result<Vec<usize>> {
        let descriptor = types::Fd(file.as_raw_fd());
        let mut read_bytes = vec![0; pieces.len()];
        let mut next = 0;
        let mut in_flight = 0;
        while next < pieces.len() || in_flight > 0 {
            while next < pieces.len() && in_flight < READ_QUEUE_DEPTH {
                let piece = &pieces[next];
                let read = opcode::Read::new(descriptor, piece.start, piece.len).offset(piece.offset);
                let entry = read.build().user_data(next as u64);
                // SAFETY: the piece lies in a buffer that the caller keeps allocated and out of reach until this
                // function returns `Ok`; `file` outlives the call.
                unsafe { self.ring.submission().push(&entry) }.map_err(io::Error::other)?;
                next += 1;
                in_flight += 1;
            }
            match self.ring.submit_and_wait(1) {
                Ok(_) => {}
                Err(error) if is_passing(&error) => std::thread::yield_now(),
                Err(error) => return Err(error),
            }
            for completion in self.ring.completion() {
                in_flight -= 1;
                read_bytes[completion.user_data() as usize] = usize::try_from(completion.result()).unwrap_or(0);
            }
        }
        Ok(read_bytes)
    }
}

/// Interrupted by a signal, or the kernel is short of memory or completions: reap and try again.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY))
}
