//! Memory that direct reads and writes accept, and the budget that it comes from.
//!
//! Invariants: a buffer starts on an [`IO_ALIGN`] boundary and its capacity is a multiple of it; the buffers taken from a
//! pool never exceed its limit, and what the pool has of the system is reserved with a client of a [`Budget`].
//! Must not know: files, and who holds the buffers.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use forebay_base::budget::{Backing, Budget, Client, Reservation};
use forebay_base::limits::{HUGE_PAGE_BYTES, IO_ALIGN, POOL_REGION_BYTES};
use forebay_base::units::format_bytes;
use forebay_base::{Error, ErrorKind, Result};
use parking_lot::Mutex;

use crate::sys::{self, Pages};

/// Bytes on an [`IO_ALIGN`] boundary. A buffer from a [`BufferPool`] goes back there when it is dropped.
#[derive(Default)]
pub struct AlignedBuffer {
    pages: Pages,
    len: usize,
    owner: Owner,
}

/// Where the memory of a buffer belongs.
#[derive(Default)]
enum Owner {
    /// To nobody else.
    #[default]
    Itself,
    Pool(Arc<Shared>),
    /// To nobody else, but a pool's client has to answer for it.
    Beyond {
        _overdrawn: Reservation,
    },
}

impl AlignedBuffer {
    /// A buffer of `len` zeros outside of any pool and budget.
    ///
    /// # Panics
    /// If the system has no memory left: for small buffers, or where that is the end anyway.
    pub fn zeroed(len: usize) -> Self {
        Self::try_zeroed(len).expect("the system has memory for a small buffer")
    }

    /// A buffer of `len` zeros outside of any pool and budget.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the system has no memory left.
    pub fn try_zeroed(len: usize) -> Result<Self> {
        let no_memory = || {
            let message = format!("the system has no memory for a buffer of {}", format_bytes(len as u64));
            Error::new(ErrorKind::OutOfMemory, message).hint("End other programs, or give the database less memory")
        };
        let pages = len.checked_next_multiple_of(IO_ALIGN).and_then(Pages::zeroed).ok_or_else(no_memory)?;
        Ok(Self { pages, len, owner: Owner::Itself })
    }

    /// The memory behind the buffer.
    pub(crate) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Bytes of memory behind the buffer: its length rounded up to [`IO_ALIGN`] or more.
    pub fn capacity(&self) -> usize {
        self.pages.len()
    }

    /// Whether it was taken beyond a pool's limit ([`BufferPool::require`]), so that it should not be kept for long.
    pub fn is_beyond_limit(&self) -> bool {
        matches!(self.owner, Owner::Beyond { .. })
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
        if let Owner::Pool(pool) = std::mem::take(&mut self.owner) {
            pool.put_back(std::mem::take(&mut self.pages));
        }
    }
}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("len", &self.len).field("capacity", &self.capacity()).finish()
    }
}

/// Has this process do with small pages until buffer pools have taken 256 MiB, or [`end_without_huge_pages`] is called: what a short
/// process takes comes sooner in small ones. For programs whose memory is all the database's, since other parts of the process are
/// concerned, too.
pub fn begin_without_huge_pages() {
    sys::begin_without_huge_pages();
}

/// Lets a process that does without huge pages have them: it knows by now that it will not be short.
pub fn end_without_huge_pages() {
    sys::end_without_huge_pages();
}

/// Aligned memory within a limit. Clones share it.
///
/// Memory comes from the system in regions for huge pages and is cut to measure, best fit first; what is given back is
/// joined with its neighbours. So steady reading allocates nothing, and what a drive writes to lies together in memory.
/// Memory stays with the pool when its buffers have come back, as far as its limit goes: a pool holds what it needed most, until
/// it is asked to give some back ([`BufferPool::give_back`]).
#[derive(Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    /// Most bytes of the buffers that are taken, a multiple of [`IO_ALIGN`].
    limit_bytes: usize,
    /// Parts of regions go back to the system, too.
    discards: bool,
    state: Mutex<State>,
}

struct State {
    in_use_bytes: usize,
    /// Bytes of all regions, but for those that are discarded.
    owned: Reservation,
    free: FreePages,
    /// Free, and without memory: what was given back of regions that are in use.
    discarded: FreePages,
}

impl BufferPool {
    /// A pool with an account of its own, whose buffers take at most `limit_bytes`. Fragments between buffers may make it own
    /// more than that, by an eighth and a region at most.
    pub fn new(limit_bytes: usize) -> Self {
        let owned_bytes = limit_bytes.saturating_add(limit_bytes / 8).saturating_add(POOL_REGION_BYTES);
        Self::with(Budget::new(owned_bytes).client("buffers", owned_bytes, Backing::System), limit_bytes, false)
    }

    /// A pool of which everything that it has of the system, fragments included, is reserved with `client`, and stays within
    /// that one's limit.
    pub fn within(client: Client) -> Self {
        let limit_bytes = client.limit_bytes();
        Self::with(client, limit_bytes, false)
    }

    /// The same for buffers that no file is read into, which the pool can give back by the page.
    pub fn of_memory(client: Client) -> Self {
        let limit_bytes = client.limit_bytes();
        Self::with(client, limit_bytes, true)
    }

    fn with(client: Client, limit_bytes: usize, discards: bool) -> Self {
        let limit_bytes =
            limit_bytes.checked_next_multiple_of(IO_ALIGN).unwrap_or(limit_bytes - limit_bytes % IO_ALIGN);
        let (free, discarded) = (FreePages::default(), FreePages::default());
        let state = Mutex::new(State { in_use_bytes: 0, owned: client.nothing(), free, discarded });
        Self { shared: Arc::new(Shared { client, limit_bytes, discards, state }) }
    }

    /// A buffer of `len` bytes with *unspecified content*: zeros, or what an earlier user left. Writers fill all of it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the buffers in use leave too little, or others who share the budget.
    pub fn take(&self, len: usize) -> Result<AlignedBuffer> {
        self.try_take(len).ok_or_else(|| {
            let [wanted, used, limit] =
                [len, self.in_use_bytes(), self.shared.limit_bytes].map(|bytes| format_bytes(bytes as u64));
            let place = format!("a buffer of {wanted}, where {used} of {limit} are in use");
            self.shared.client.exhausted(len).context(place)
        })
    }

    /// As [`BufferPool::take`], or `None` where that is an error.
    pub fn try_take(&self, len: usize) -> Option<AlignedBuffer> {
        let capacity = len.checked_next_multiple_of(IO_ALIGN)?;
        let mut state = self.shared.state.lock();
        if capacity > self.shared.limit_bytes - state.in_use_bytes {
            return None;
        }
        let mut pages = match state.free.take(capacity).or_else(|| state.take_discarded(capacity)) {
            Some(pages) => pages,
            None => self.shared.grow(&mut state, capacity)?,
        };
        state.in_use_bytes += capacity;
        drop(state);
        pages.touch();
        Some(AlignedBuffer { pages, len, owner: Owner::Pool(Arc::clone(&self.shared)) })
    }

    /// As [`BufferPool::take`], but where that is an error other memory, which the pool's client overdraws: for who cannot go
    /// on without it.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`] if the system has no memory left.
    pub fn require(&self, len: usize) -> Result<AlignedBuffer> {
        if let Some(buffer) = self.try_take(len) {
            return Ok(buffer);
        }
        let mut buffer = AlignedBuffer::try_zeroed(len)?;
        buffer.owner = Owner::Beyond { _overdrawn: self.shared.client.overdraw(buffer.capacity()) };
        Ok(buffer)
    }

    /// Gives about so many bytes that no buffer has back to the system, if there are as many; gives how many these were.
    pub fn give_back(&self, bytes: usize) -> usize {
        let mut state = self.shared.state.lock();
        let before = state.owned.bytes();
        let goal = before.saturating_sub(bytes);
        if self.shared.discards {
            state.discard(goal);
        }
        state.shrink(goal);
        before - state.owned.bytes()
    }

    /// Bytes that the pool has of the system.
    pub fn owned_bytes(&self) -> usize {
        self.shared.state.lock().owned.bytes()
    }

    /// Bytes of the pool's buffers that are taken, by capacity; without those beyond its limit.
    pub fn in_use_bytes(&self) -> usize {
        self.shared.state.lock().in_use_bytes
    }

    /// Bytes that the buffers may take.
    pub fn limit_bytes(&self) -> usize {
        self.shared.limit_bytes
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferPool")
            .field("limit_bytes", &self.shared.limit_bytes)
            .field("in_use_bytes", &self.in_use_bytes())
            .finish()
    }
}

impl Shared {
    /// `capacity` bytes of a new region. What is free makes room for it; `None` if the system has no memory, or the budget,
    /// perhaps because fragments take too much of it.
    fn grow(&self, state: &mut State, capacity: usize) -> Option<Pages> {
        let least = capacity.checked_next_multiple_of(HUGE_PAGE_BYTES)?;
        state.shrink(self.limit_bytes.saturating_sub(least.max(self.region_bytes())));
        let left = self.client.limit_bytes().saturating_sub(state.owned.bytes());
        let wanted = least.max(self.region_bytes().min(left - left % HUGE_PAGE_BYTES));
        let mut reserved = [wanted, least].into_iter().find(|bytes| state.owned.try_grow(*bytes));
        if reserved.is_none() {
            // What is free is too small for this buffer, but may be enough of the budget.
            state.shrink(0);
            if self.discards {
                state.discard(0);
                if let Some(pages) = state.take_discarded(capacity) {
                    return Some(pages);
                }
            }
            reserved = state.owned.try_grow(least).then_some(least);
        }
        let Some(mut region) = Pages::region(reserved?) else {
            state.owned.shrink(reserved?);
            return None;
        };
        let rest = region.split_off(capacity);
        state.free.insert(rest);
        Some(region)
    }

    fn put_back(&self, pages: Pages) {
        let mut state = self.state.lock();
        state.in_use_bytes -= pages.len();
        state.free.insert(pages);
        state.shrink(self.limit_bytes.max(self.region_bytes()));
    }

    /// Bytes that are asked of the system at once, where there are as many left.
    fn region_bytes(&self) -> usize {
        self.limit_bytes.min(POOL_REGION_BYTES).next_multiple_of(HUGE_PAGE_BYTES)
    }
}

impl State {
    /// Gives regions that are all free back to the system until no more than `bytes` are owned, if that is possible.
    fn shrink(&mut self, bytes: usize) {
        while self.owned.bytes() > bytes {
            let Some(region) = self.free.pop_region() else { return };
            self.owned.shrink(region.len());
        }
    }

    /// Gives the memory of free pages back to the system, most of them first, until no more than `bytes` are owned, if that is
    /// possible. A region of which nothing is left goes as a whole.
    fn discard(&mut self, bytes: usize) {
        while self.owned.bytes() > bytes {
            let wanted = (self.owned.bytes() - bytes).next_multiple_of(HUGE_PAGE_BYTES);
            let Some(mut pages) = self.free.pop_largest() else { return };
            if pages.len() > wanted {
                let rest = pages.split_off(wanted);
                self.free.add(rest);
            }
            if !pages.discard() {
                return self.free.insert(pages);
            }
            self.owned.shrink(pages.len());
            self.discarded.insert(pages);
            while self.discarded.pop_region().is_some() {}
        }
    }

    /// `len` bytes of those that are discarded, if as many lie together and the budget has them.
    fn take_discarded(&mut self, len: usize) -> Option<Pages> {
        let pages = self.discarded.take(len)?;
        if self.owned.try_grow(len) {
            return Some(pages);
        }
        self.discarded.insert(pages);
        None
    }
}

/// Pages that nobody uses. No two of them could be joined, and none is empty.
#[derive(Default)]
struct FreePages {
    by_address: BTreeMap<usize, Pages>,
    /// Length and address of each.
    by_len: BTreeSet<(usize, usize)>,
}

impl FreePages {
    /// `len` bytes from the smallest pages that have as many.
    fn take(&mut self, len: usize) -> Option<Pages> {
        if len == 0 {
            return Some(Pages::default());
        }
        let (_, address) = *self.by_len.range((len, 0)..).next()?;
        let mut pages = self.remove(address)?;
        let rest = pages.split_off(len);
        self.add(rest);
        Some(pages)
    }

    /// Adds pages, joined with the free ones behind and before them.
    fn insert(&mut self, mut pages: Pages) {
        let behind = self.by_address.range(pages.address()..).next().map(|(address, _)| *address);
        if let Some(behind) = behind.and_then(|address| self.remove(address))
            && let Some(apart) = pages.join(behind)
        {
            self.add(apart);
        }
        let before = self.by_address.range(..pages.address()).next_back().map(|(address, _)| *address);
        if let Some(mut before) = before.and_then(|address| self.remove(address)) {
            pages = match before.join(pages) {
                None => before,
                Some(pages) => {
                    self.add(before);
                    pages
                }
            };
        }
        self.add(pages);
    }

    /// The most pages that lie together.
    fn pop_largest(&mut self) -> Option<Pages> {
        let (_, address) = *self.by_len.last()?;
        self.remove(address)
    }

    /// Pages that are a whole region.
    fn pop_region(&mut self) -> Option<Pages> {
        let address = self.by_address.values().find(|pages| pages.is_whole_region())?.address();
        self.remove(address)
    }

    fn add(&mut self, pages: Pages) {
        if pages.len() > 0 {
            self.by_len.insert((pages.len(), pages.address()));
            self.by_address.insert(pages.address(), pages);
        }
    }

    fn remove(&mut self, address: usize) -> Option<Pages> {
        let pages = self.by_address.remove(&address)?;
        self.by_len.remove(&(pages.len(), address));
        Some(pages)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buffers_are_aligned_and_reused() {
        let pool = BufferPool::new(1 << 20);
        let mut first = pool.take(5000).expect("in budget");
        assert_eq!(first.as_ptr().addr() % IO_ALIGN, 0);
        assert_eq!((first.len(), first.capacity(), pool.in_use_bytes()), (5000, 8192, 8192));
        first.fill(7);
        let address = first.as_ptr();
        drop(first);
        assert_eq!(pool.in_use_bytes(), 0);
        assert_eq!(pool.take(8000).expect("in budget").as_ptr(), address);
    }

    #[test]
    fn the_budget_holds_to_the_byte() {
        let pool = BufferPool::new(64 << 10);
        let taken: Vec<_> = (0..16).map(|_| pool.take(4096).expect("in budget")).collect();
        assert_eq!(pool.take(1).expect_err("over budget").kind(), ErrorKind::OutOfMemory);
        drop(taken);
        let all = pool.take(64 << 10).expect("joined again");
        assert_eq!(pool.in_use_bytes(), 64 << 10);
        drop(all);
        for len in [(64 << 10) + 1, usize::MAX / 2, usize::MAX] {
            assert_eq!(pool.take(len).expect_err("over budget").kind(), ErrorKind::OutOfMemory);
        }
    }

    #[test]
    fn free_regions_make_room_for_a_large_buffer() {
        let pool = BufferPool::new(4 * POOL_REGION_BYTES);
        let regions: Vec<_> = (0..4).map(|_| pool.take(POOL_REGION_BYTES).expect("in budget")).collect();
        drop(regions);
        let large = pool.take(4 * POOL_REGION_BYTES).expect("in budget");
        assert_eq!(pool.shared.state.lock().owned.bytes(), 4 * POOL_REGION_BYTES);
        drop(large);
        pool.take(1).expect("the large region is cut");
    }

    #[test]
    fn what_a_pool_has_of_the_system_is_reserved() {
        let budget = Budget::new(24 << 20);
        let [pool, other] =
            ["reads", "chunks"].map(|name| BufferPool::within(budget.client(name, 16 << 20, Backing::System)));
        let held = || budget.figures().iter().map(|client| client.held_bytes >> 20).collect::<Vec<_>>();
        let first = pool.take(1 << 20).expect("in budget");
        assert_eq!(held(), [16, 0], "no larger than its limit");
        let second = pool.take((13 << 20) + 1).expect("in budget");
        assert_eq!(held(), [16, 0]);
        assert!(pool.take(2 << 20).is_err(), "its limit, for fragments too");
        let third = other.take(8 << 20).expect("what the other one left");
        let error = other.take(1 << 20).expect_err("exhausted");
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(error.to_string().contains("1.00 MiB more are wanted for chunks"), "{error}");
        assert!(error.to_string().contains("reads 16.0 MiB, chunks 8.00 MiB"), "{error}");
        let beyond = other.require(5000).expect("the system has memory");
        assert!(beyond.is_beyond_limit() && !third.is_beyond_limit() && beyond.iter().all(|byte| *byte == 0));
        assert_eq!((other.in_use_bytes(), budget.held_bytes()), (8 << 20, (24 << 20) + 8192));
        drop((first, second, third, beyond));
        assert_eq!(held(), [16, 8], "they keep their memory");
        let large = pool.take(16 << 20).expect("free regions make room");
        assert_eq!((held(), large.len()), (vec![16, 8], 16 << 20));
        drop((large, pool, other));
        assert_eq!(budget.held_bytes(), 0);
    }

    #[test]
    fn what_no_buffer_has_is_given_back_by_the_page() {
        let budget = Budget::new(64 << 20);
        let pool = BufferPool::of_memory(budget.client("chunks", 64 << 20, Backing::System));
        let mut taken: Vec<AlignedBuffer> = (0..24).map(|_| pool.take(1 << 20).expect("in budget")).collect();
        taken.iter_mut().for_each(|buffer| buffer.fill(7));
        // Every other one, so that no huge page is free as a whole.
        let mut number = 0;
        taken.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        let owned = pool.owned_bytes();
        assert_eq!(owned, 32 << 20);
        assert_eq!(pool.give_back(8 << 20), 8 << 20, "the end of the region");
        assert_eq!(pool.give_back(usize::MAX), 12 << 20);
        assert_eq!((pool.owned_bytes(), budget.held_bytes()), (12 << 20, 12 << 20));
        assert!(taken.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)));
        let mut again = pool.take(1 << 20).expect("in budget");
        assert!(again.iter().all(|byte| *byte == 0), "the system has cleared it");
        again.fill(9);
        assert!(taken.iter().all(|buffer| buffer.iter().all(|byte| *byte == 7)));
        assert_eq!(pool.owned_bytes(), 13 << 20);
        drop((taken, again));
        assert_eq!((pool.give_back(usize::MAX), budget.held_bytes()), (13 << 20, 0));
    }

    #[test]
    fn an_empty_buffer_needs_no_memory() {
        let pool = BufferPool::new(0);
        assert!(pool.take(0).expect("nothing").is_empty());
        assert!(AlignedBuffer::zeroed(0).is_empty());
        let huge = AlignedBuffer::zeroed(HUGE_PAGE_BYTES + 1);
        assert!(huge.len() == HUGE_PAGE_BYTES + 1 && huge.iter().all(|byte| *byte == 0));
    }

    #[test]
    fn memory_that_is_not_there_is_an_error() {
        for len in [usize::MAX, usize::MAX / 2, 1 << 60] {
            assert_eq!(AlignedBuffer::try_zeroed(len).expect_err("too much").kind(), ErrorKind::OutOfMemory);
        }
        assert_eq!(AlignedBuffer::try_zeroed(5).expect("a little").capacity(), IO_ALIGN);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// Every buffer keeps what was written to it whatever else is taken and given back, and all memory joins again.
        #[test]
        fn buffers_never_overlap(
            discards: bool,
            steps in proptest::collection::vec((0..4_u8, 0..400_000_usize, any::<usize>()), 1..120),
        ) {
            let budget = Budget::new(8 << 20);
            let client = budget.client("buffers", 8 << 20, Backing::System);
            let pool = BufferPool::with(client, 6 << 20, discards);
            let mut taken: Vec<(u8, AlignedBuffer)> = Vec::new();
            for (mark, (action, len, at)) in steps.into_iter().enumerate() {
                if action == 0 && !taken.is_empty() {
                    let (mark, buffer) = taken.swap_remove(at % taken.len());
                    prop_assert!(buffer.iter().all(|byte| *byte == mark));
                } else if action == 1 {
                    let before = pool.owned_bytes();
                    let given = pool.give_back(len);
                    prop_assert_eq!(pool.owned_bytes(), before - given);
                    prop_assert!(pool.owned_bytes() >= pool.in_use_bytes());
                    prop_assert!(!discards || given >= len.min(before - pool.in_use_bytes()), "as many as were free");
                } else if let Ok(mut buffer) = pool.take(len) {
                    buffer.fill(mark as u8);
                    taken.push((mark as u8, buffer));
                }
                let in_use: usize = taken.iter().map(|(_, buffer)| buffer.capacity()).sum();
                prop_assert!(in_use <= 6 << 20);
                prop_assert_eq!(pool.in_use_bytes(), in_use);
            }
            for (mark, buffer) in taken {
                prop_assert!(buffer.iter().all(|byte| *byte == mark));
            }
            {
                let state = pool.shared.state.lock();
                let free: usize = state.free.by_len.iter().map(|(len, _)| len).sum();
                prop_assert_eq!(free, state.owned.bytes());
                prop_assert!(discards || state.free.by_address.values().all(Pages::is_whole_region));
            }
            pool.give_back(usize::MAX);
            let state = pool.shared.state.lock();
            prop_assert_eq!((state.owned.bytes(), budget.held_bytes()), (0, 0));
            prop_assert!(state.free.by_len.is_empty() && state.discarded.by_len.is_empty(), "regions go when nothing is left");
        }
    }
}
