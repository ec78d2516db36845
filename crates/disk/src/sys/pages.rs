//! Aligned memory: heap allocations, and regions for huge pages that are cut and joined.
//!
//! Invariant: every byte of [`Pages`] is initialised and belongs to one of them. Must not know: who uses the memory.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_base::limits::{HUGE_PAGE_BYTES, IO_ALIGN};

use super::huge_pages;

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

    /// A fresh region of at least `len` zeros, in huge pages where the process gets them; `None` if it has no memory left.
    pub(crate) fn region(len: usize) -> Option<Self> {
        let region = Region::map(len.checked_next_multiple_of(HUGE_PAGE_BYTES)?)?;
        Some(Self { start: region.start, len: region.len, region: Some(Arc::new(region)) })
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The region that these bytes are a part of, and where the part begins in it; `None` for a heap allocation.
    pub(super) fn place(&self) -> Option<(&Arc<Region>, usize)> {
        let region = self.region.as_ref()?;
        Some((region, self.address() - region.start.addr().get()))
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

    /// Gives the memory of these bytes back to the system, which has zeros for whoever touches them next; false where it does not
    /// take it. Only for parts of a region that no file is read into: a drive might still know the memory.
    pub(crate) fn discard(&mut self) -> bool {
        assert!(self.region.is_some(), "only parts of regions are discarded");
        // SAFETY: the bytes are whole pages of an anonymous mapping that this value owns alone, and read as zeros from now on.
        unsafe { libc::madvise(self.start.as_ptr().cast(), self.len, libc::MADV_DONTNEED) == 0 }
    }

    /// Takes the memory of pages that nobody has touched yet from the system: at once, instead of page by page while something else
    /// waits. Regions are used from the front: what lies before pages that were touched counts as touched, too.
    pub(crate) fn touch(&mut self) {
        let Some((region, start)) = self.place() else { return };
        let touched = region.touched.fetch_max(start + self.len, Ordering::Relaxed).max(start) - start;
        let Some(untouched) = self.bytes_mut().get_mut(touched..).filter(|bytes| !bytes.is_empty()) else { return };
        huge_pages::take(untouched.len());
        // SAFETY: whole pages of an anonymous mapping that this value owns alone. Where the kernel is too old for it, or has no
        // memory, it does nothing, and pages come when they are used.
        unsafe { libc::madvise(untouched.as_mut_ptr().cast(), untouched.len(), libc::MADV_POPULATE_WRITE) };
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
#[derive(Debug)]
pub(super) struct Region {
    start: NonNull<u8>,
    len: usize,
    /// How far its pages were touched.
    touched: AtomicUsize,
}

// SAFETY: a region is an address and lengths; its bytes are reached through `Pages` alone.
unsafe impl Send for Region {}
// SAFETY: as above.
unsafe impl Sync for Region {}

impl Region {
    /// Where it starts: for the kernel, not a way to reach its bytes.
    pub(super) fn start(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Bytes of the huge pages that hold its first `bytes`.
    pub(super) fn whole_pages(&self, bytes: usize) -> usize {
        bytes.next_multiple_of(HUGE_PAGE_BYTES).min(self.len)
    }

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
        Some(Self { start: NonNull::new(start.cast())?, len, touched: AtomicUsize::new(0) })
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: mapped in `map`; the last `Pages` of it is gone, and so is every reference into it.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}
