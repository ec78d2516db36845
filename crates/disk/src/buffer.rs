//! Memory that direct reads and writes accept, and the budget that it comes from.
//!
//! Invariants: a buffer starts on an [`IO_ALIGN`] boundary and its capacity is a multiple of it; a pool never owns more
//! bytes, taken and kept for reuse together, than its budget.
//! Must not know: files, and who holds the buffers.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use forebay_base::limits::IO_ALIGN;
use forebay_base::units::format_bytes;
use forebay_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::sys::Pages;

/// Bytes on an [`IO_ALIGN`] boundary. A buffer from a [`BufferPool`] goes back there when it is dropped.
#[derive(Default)]
pub struct AlignedBuffer {
    pages: Pages,
    len: usize,
    pool: Option<Arc<Shared>>,
}

impl AlignedBuffer {
    /// A buffer of `len` zeros outside of any pool, for writers and tests.
    ///
    /// # Panics
    /// If the system has no memory left.
    pub fn zeroed(len: usize) -> Self {
        let pages = Pages::zeroed(len.next_multiple_of(IO_ALIGN)).expect("the system has memory for a small buffer");
        Self { pages, len, pool: None }
    }

    /// Bytes up to which the memory reaches: [`slice::len`] rounded up to [`IO_ALIGN`] or more.
    pub fn capacity(&self) -> usize {
        self.pages.len()
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.pages.bytes()[..self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.pages.bytes_mut()[..self.len]
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.take() {
            pool.put_back(std::mem::take(&mut self.pages));
        }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("len", &self.len).field("capacity", &self.capacity()).finish()
    }
}

/// A budget of aligned memory. Clones share it. Buffers are reused by size class, so that steady reading allocates
/// nothing and touches no fresh pages.
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    budget_bytes: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    in_use_bytes: usize,
    kept_bytes: usize,
    /// Buffers kept for reuse by capacity. No list is empty.
    kept: BTreeMap<usize, Vec<Pages>>,
}

impl BufferPool {
    /// A pool that owns at most `budget_bytes`.
    pub fn new(budget_bytes: usize) -> Self {
        Self { shared: Arc::new(Shared { budget_bytes, state: Mutex::default() }) }
    }

    /// A buffer of `len` bytes with *unspecified content*: zeros, or what an earlier user left. Writers fill all of it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the buffers in use leave too little of the budget.
    pub fn take(&self, len: usize) -> Result<AlignedBuffer> {
        let capacity = size_class(len);
        let pages = match self.shared.reserve(len, capacity)? {
            Some(pages) => pages,
            None => Pages::zeroed(capacity).ok_or_else(|| {
                self.shared.state.lock().in_use_bytes -= capacity;
                let wanted = format_bytes(capacity as u64);
                Error::new(ErrorKind::OutOfMemory, format!("the system has no memory for a buffer of {wanted}"))
                    .hint("Set a smaller memory limit")
            })?,
        };
        Ok(AlignedBuffer { pages, len, pool: Some(Arc::clone(&self.shared)) })
    }

    /// Bytes of the buffers that are taken, by capacity.
    pub fn in_use_bytes(&self) -> usize {
        self.shared.state.lock().in_use_bytes
    }

    /// Bytes that the pool may own.
    pub fn budget_bytes(&self) -> usize {
        self.shared.budget_bytes
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("budget_bytes", &self.shared.budget_bytes)
            .field("in_use_bytes", &self.in_use_bytes())
            .finish()
    }
}

impl Shared {
    /// Counts `capacity` bytes as taken; gives a kept buffer of that class, or nothing if it has to be allocated.
    fn reserve(&self, len: usize, capacity: usize) -> Result<Option<Pages>> {
        let mut state = self.state.lock();
        if let Some(pages) = state.pop_kept(capacity) {
            state.in_use_bytes += capacity;
            return Ok(Some(pages));
        }
        if state.in_use_bytes.saturating_add(capacity) > self.budget_bytes {
            let [wanted, used, budget] = [len, state.in_use_bytes, self.budget_bytes].map(|b| format_bytes(b as u64));
            let message =
                format!("memory budget exhausted: a buffer of {wanted} is wanted, {used} of {budget} are in use");
            return Err(Error::new(ErrorKind::OutOfMemory, message)
                .hint("Raise the memory limit, or run fewer queries at once"));
        }
        while state.in_use_bytes + state.kept_bytes + capacity > self.budget_bytes {
            let largest = *state.kept.keys().next_back().expect("kept bytes are in a list");
            drop(state.pop_kept(largest));
        }
        state.in_use_bytes += capacity;
        Ok(None)
    }

    fn put_back(&self, pages: Pages) {
        let mut state = self.state.lock();
        let capacity = pages.len();
        state.in_use_bytes -= capacity;
        if capacity > 0 {
            state.kept_bytes += capacity;
            state.kept.entry(capacity).or_default().push(pages);
        }
    }
}

impl State {
    fn pop_kept(&mut self, capacity: usize) -> Option<Pages> {
        let list = self.kept.get_mut(&capacity)?;
        let pages = list.pop();
        if list.is_empty() {
            self.kept.remove(&capacity);
        }
        self.kept_bytes -= pages.as_ref().map_or(0, Pages::len);
        pages
    }
}

/// The capacity that serves `len`: four classes per doubling, so that at most a fifth of a large buffer is unused.
fn size_class(len: usize) -> usize {
    let step = (len.next_power_of_two() / 8).max(IO_ALIGN);
    len.next_multiple_of(step)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_classes_waste_little() {
        for len in (0..200_000).step_by(977).chain([IO_ALIGN, IO_ALIGN + 1, 1 << 30, (1 << 30) + 1]) {
            let class = size_class(len);
            assert!(class >= len && class.is_multiple_of(IO_ALIGN), "{len}");
            assert!(class - len < IO_ALIGN.max(len / 4 + 1), "{len} takes {class}");
            assert_eq!(size_class(class), class, "a class serves itself");
        }
    }

    #[test]
    fn buffers_are_aligned_and_reused() {
        let pool = BufferPool::new(1 << 20);
        let mut first = pool.take(5000).expect("in budget");
        assert_eq!(first.as_ptr().addr() % IO_ALIGN, 0);
        assert_eq!((first.len(), first.capacity()), (5000, 8192));
        first.fill(7);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.in_use_bytes(), 0);
        assert_eq!(pool.take(8000).expect("in budget").as_ptr(), address);
    }

    #[test]
    fn the_budget_holds_with_kept_buffers() {
        let pool = BufferPool::new(64 << 10);
        let taken: Vec<_> = (0..16).map(|_| pool.take(4096).expect("in budget")).collect();
        assert_eq!(pool.take(1).expect_err("over budget").kind(), ErrorKind::OutOfMemory);
        drop(taken);
        let large = pool.take(64 << 10).expect("kept buffers make room");
        assert_eq!(pool.in_use_bytes(), 64 << 10);
        let state = pool.shared.state.lock();
        assert_eq!((state.kept_bytes, state.kept.len()), (0, 0));
        drop(state);
        drop(large);
        assert_eq!(pool.take(usize::MAX / 2).expect_err("over budget").kind(), ErrorKind::OutOfMemory);
    }

    #[test]
    fn an_empty_buffer_needs_no_memory() {
        let pool = BufferPool::new(0);
        assert!(pool.take(0).expect("nothing").is_empty());
        assert!(AlignedBuffer::zeroed(0).is_empty());
    }
}
