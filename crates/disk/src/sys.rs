//! The one place for unsafe code in this crate: aligned allocations, io_uring, and the limit of open files.
//!
//! Invariants: every byte of [`Pages`] is initialised; while the kernel may write to a buffer nothing in this process
//! can reach it. Must not know: paths, modes, errors of Forebay.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::{Arc, Once};

use forebay_base::limits::{HUGE_PAGE_BYTES, IO_ALIGN, READ_PIECE_BYTES, READ_QUEUE_DEPTH};
use io_uring::{IoUring, Probe, opcode, types};

use crate::{AlignedBuffer, ReadRequest};

/// Owned bytes on an [`IO_ALIGN`] boundary: a heap allocation, or a part of a [`Region`] that nothing else can reach.
pub(crate) struct Pages {
    start: NonNull<u8>,
    len: usize,
    region: Option<Arc<Region>>,
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
        if len >= HUGE_PAGE_BYTES {
            return Self::region(len);
        }
        let layout = Self::layout(len)?;
        // SAFETY: the layout has a size above zero.
        let start = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        Some(Self { start, len, region: None })
    }

    /// A fresh region of at least `len` zeros, in huge pages where the system has them; `None` if it has no memory left.
    pub(crate) fn region(len: usize) -> Option<Self> {
        let region = Region::map(len.checked_next_multiple_of(HUGE_PAGE_BYTES)?)?;
        Some(Self { start: region.start, len: region.len, region: Some(Arc::new(region)) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Where the bytes are: a key, not a way to reach them.
    pub(crate) fn address(&self) -> usize {
        self.start.addr().get()
    }

    /// Whether these are all bytes of a region, which is given back to the system when they are dropped.
    pub(crate) fn is_whole_region(&self) -> bool {
        self.region.as_ref().is_some_and(|region| region.len == self.len)
    }

    /// Keeps the first `len` bytes and returns the rest. Only for parts of a region.
    pub(crate) fn split_off(&mut self, len: usize) -> Self {
        assert!(self.region.is_some() && len <= self.len && len.is_multiple_of(IO_ALIGN), "only regions are split");
        // SAFETY: `len` is within the pages, or one past them.
        let start = unsafe { self.start.add(len) };
        let rest = Self { start, len: self.len - len, region: self.region.clone() };
        self.len = len;
        rest
    }

    /// Appends `next` if it lies right behind in the same region; else returns it.
    pub(crate) fn join(&mut self, next: Self) -> Option<Self> {
        let is_same_region = match (&self.region, &next.region) {
            (Some(own), Some(other)) => Arc::ptr_eq(own, other),
            _ => false,
        };
        if !is_same_region || self.address() + self.len != next.address() {
            return Some(next);
        }
        self.len += next.len;
        None
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
    /// No bytes, on no boundary.
    fn default() -> Self {
        Self { start: NonNull::dangling(), len: 0, region: None }
    }
}

impl Drop for Pages {
    fn drop(&mut self) {
        if self.len > 0 && self.region.is_none() {
            let layout = Self::layout(self.len).expect("the layout was valid when it was allocated");
            // SAFETY: allocated in `zeroed` with this layout, never split, and not freed before.
            unsafe { dealloc(self.start.as_ptr(), layout) }
        }
    }
}

/// Anonymous memory from the system; the [`Pages`] that it is split into share it.
struct Region {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a region is an address and a length; its bytes are reached through `Pages` alone.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Maps `len` zeros, a multiple of [`HUGE_PAGE_BYTES`], on a boundary of huge pages. No page is touched here: the
    /// advice has to come first.
    fn map(len: usize) -> Option<Self> {
        let mapped_len = len.checked_add(HUGE_PAGE_BYTES)?;
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new anonymous mapping at an address of the kernel's choice touches no memory of this process.
        let mapped = unsafe { libc::mmap(std::ptr::null_mut(), mapped_len, protection, flags, -1, 0) };
        if mapped == libc::MAP_FAILED {
            return None;
        }
        let before = mapped.align_offset(HUGE_PAGE_BYTES);
        let start = mapped.wrapping_byte_add(before);
        // SAFETY: all three ranges lie in the mapping that was just made, and nothing refers to it yet. What lies before
        // and after the aligned part is given back; the advice changes no content, and it may fail.
        unsafe {
            if before > 0 {
                libc::munmap(mapped, before);
            }
            if before < HUGE_PAGE_BYTES {
                libc::munmap(start.wrapping_byte_add(len), HUGE_PAGE_BYTES - before);
            }
            libc::madvise(start, len, libc::MADV_HUGEPAGE);
        }
        Some(Self { start: NonNull::new(start.cast())?, len })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`; the last `Pages` of it is gone, and so is every reference into it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Raises this process's limit of open files from the soft one, often 1,024, to the hard one. Where that is refused,
/// things stay as they are.
pub(crate) fn raise_open_files() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: both calls get a valid pointer to an initialised `rlimit` that outlives them.
        unsafe {
            if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 && limit.rlim_cur < limit.rlim_max {
                limit.rlim_cur = limit.rlim_max;
                libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
            }
        }
    });
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
