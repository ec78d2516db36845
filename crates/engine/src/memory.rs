//! The memory of a database's engine: the account that all of it comes from, and who takes it.
//!
//! There are no fixed shares. Chunks that are kept have what nobody else needs: queries that need memory take it from those that
//! nobody uses, the ones first that are worth least, and when they give it back chunks are kept there again. Queries together leave
//! a quarter to the chunks that they read. Of the memory for chunks, reads come before chunks that are only kept, and reads ahead
//! take what is left, but for a part that they leave to reads that somebody waits for.
//! What nobody reserves is measured, where somebody does ([`ProcessCounter`]).
//! Invariants: but for what is overdrawn, all that the engine has of the system and of the heap stays within the account.
//! Must not know: which chunks a query needs, and when.

mod figures;
mod rest;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use forebay_base::budget::{Backing, Client, GivesBack, Tier};
use forebay_base::{Budget, Error, ErrorKind, Result, limits};
use forebay_block::ChunkMemory;
use forebay_disk::{AlignedBuffer, BufferPool};

use crate::chunks::Cache;

pub use figures::MemoryUse;
pub use rest::ProcessCounter;
use rest::Rest;

/// The part of the memory that queries leave to the chunks that they read.
const CHUNKS_PART: usize = 4;

/// The part of the memory that hot rows may take.
const HOT_ROWS_PART: usize = 3;

/// Bytes that chunks give back at once, where there are as many: queries ask in small steps.
const GIVEN_BYTES: usize = 16 << 20;

/// Characters of a statement's text that its account has.
const SHOWN_CHARACTERS: usize = 200;

/// How long the allocator keeps what queries gave back: the next ones find it there. As long as the program tells it to.
const KEPT_BY_ALLOCATOR: Duration = Duration::from_secs(60);

/// What an engine may take of a budget.
#[derive(Debug, Clone)]
pub struct MemoryShares {
    budget: Budget,
    cache_bytes: usize,
}

impl MemoryShares {
    /// All of `budget`.
    pub fn new(budget: Budget) -> Self {
        Self { budget, cache_bytes: usize::MAX }
    }

    /// A budget of `bytes` for the engine alone.
    pub fn alone(bytes: usize) -> Self {
        Self::new(Budget::new(bytes))
    }

    /// The same, where at most `cache_bytes` are of chunks that are kept for queries to come.
    #[must_use]
    pub fn keeping(self, cache_bytes: usize) -> Self {
        Self { cache_bytes, ..self }
    }
}

/// How soon a stored chunk is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// Whoever asks can do nothing else before it is there.
    Now,
    /// Behind others that the same worker has on their way.
    Next,
    /// By morsels that nobody has taken yet.
    Ahead,
}

/// Memory of a pool that a chunk lies in once inflated.
#[derive(Debug)]
struct PooledMemory(AlignedBuffer);

impl ChunkMemory for PooledMemory {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn may_be_kept(&self) -> bool {
        !self.0.is_beyond_limit()
    }
}

/// Memory for the chunks and the queries of one database.
#[derive(Debug)]
pub(crate) struct Memory {
    chunks: Arc<ChunkPools>,
    /// What queries take, and loads, beside the chunks that they read.
    queries: Client,
    /// What rows take that transactions have changed and that are in no segment yet.
    hot_rows: Client,
    /// When the allocator was last taken to have given back what nobody had needed for a while.
    forgotten: Mutex<Instant>,
}

/// Memory for chunks.
#[derive(Debug)]
struct ChunkPools {
    budget: Budget,
    /// Stored chunks on their way from disk to inflation.
    stored: BufferPool,
    /// Inflated chunks, in use or kept; and stored ones that are kept.
    inflated: BufferPool,
    /// Those that are kept.
    cache: Arc<Cache>,
    /// Most bytes of them, as it was asked for.
    cache_bytes: AtomicUsize,
    /// What the process has beside the account.
    rest: Rest,
}

impl GivesBack for ChunkPools {
    fn give_back(&self, bytes: usize) -> bool {
        let bytes = bytes.max(GIVEN_BYTES);
        let from_reads = self.stored.give_back(bytes);
        let gives = from_reads > 0 || self.inflated_gives_back(bytes);
        self.keep_what_is_left();
        gives
    }
}

impl ChunkPools {
    /// Bytes of chunks that can be kept beside what all others hold.
    fn left_bytes(&self) -> usize {
        let taken = self.budget.held_bytes() + self.budget.kept_bytes();
        let others = taken.saturating_sub(self.inflated.owned_bytes());
        self.inflated.limit_bytes().min(self.budget.total_bytes().saturating_sub(others))
    }

    /// The cache keeps as much as there is memory for: its policy shares it out.
    fn keep_what_is_left(&self) {
        let bytes = self.left_bytes().min(self.cache_bytes.load(Ordering::Relaxed));
        if bytes != self.cache.budget_bytes() {
            self.cache.resize(bytes);
        }
    }

    /// Gives about so many bytes back, for which chunks that nobody uses go; false where there are none.
    fn inflated_gives_back(&self, bytes: usize) -> bool {
        let free = self.inflated.give_back(bytes);
        if free < bytes && self.cache.evict(bytes - free) > 0 {
            return self.inflated.give_back(bytes - free) + free > 0;
        }
        free > 0
    }

    /// Memory for something that is to be kept, for which others that nobody uses make room; `None` where there is none.
    fn kept(&self, bytes: usize) -> Option<AlignedBuffer> {
        loop {
            if let Some(memory) = self.inflated.try_take(bytes) {
                return Some(memory);
            }
            // None of them make room for more than there can ever be.
            if bytes > self.inflated.limit_bytes() || !self.cache.evict_unused() {
                return None;
            }
        }
    }

    /// A buffer for a stored chunk, for which chunks that are kept make room; `None` where there is none.
    fn read_buffer(&self, bytes: usize) -> Option<AlignedBuffer> {
        loop {
            if let Some(buffer) = self.stored.try_take(bytes) {
                return Some(buffer);
            }
            let is_full = self.stored.in_use_bytes().saturating_add(bytes) > self.stored.limit_bytes();
            if is_full || !self.inflated_gives_back(limits::POOL_REGION_BYTES.max(bytes)) {
                return None;
            }
        }
    }
}

impl Memory {
    pub(crate) fn new(shares: MemoryShares) -> Self {
        let MemoryShares { budget, cache_bytes } = shares;
        let total_bytes = budget.total_bytes();
        // Reads have a part of their own: else chunks that are kept would take all, and reads would find memory only where a
        // whole region happens to be free.
        let stored_bytes = (total_bytes / limits::READ_POOL_SHARE).min(limits::READ_POOL_BYTES);
        let inflated_bytes = total_bytes - stored_bytes;
        let client = |name, bytes| budget.client(name, bytes, Backing::System);
        let stored = BufferPool::within(client(figures::READ_BUFFERS, stored_bytes));
        let inflated = BufferPool::of_memory(client(figures::INFLATED_CHUNKS, inflated_bytes));
        let queries = budget.client(figures::QUERIES, total_bytes - total_bytes / CHUNKS_PART, Backing::Heap);
        let hot_rows = budget.client(figures::HOT_ROWS, total_bytes / HOT_ROWS_PART, Backing::Heap);
        let cache = Arc::new(Cache::new(cache_bytes.min(inflated_bytes)));
        let cache_bytes = AtomicUsize::new(cache_bytes);
        let chunks = Arc::new(ChunkPools { budget, stored, inflated, cache, cache_bytes, rest: Rest::default() });
        let giver: Weak<ChunkPools> = Arc::downgrade(&chunks);
        chunks.budget.takes_from(giver);
        Self { chunks, queries, hot_rows, forgotten: Mutex::new(Instant::now()) }
    }

    /// The account of hot rows.
    pub(crate) fn hot_rows(&self) -> &Client {
        &self.hot_rows
    }

    /// The chunks that are kept.
    pub(crate) fn cache(&self) -> &Arc<Cache> {
        &self.chunks.cache
    }

    /// Opens the account of a statement with this text.
    pub(crate) fn open_account(&self, text: &str) -> Client {
        let end = text.char_indices().nth(SHOWN_CHARACTERS).map_or(text.len(), |(end, _)| end);
        self.queries.part(Tier::Query, &text[..end])
    }

    /// A buffer for a stored chunk.
    ///
    /// # Errors
    /// Of kind `OutOfMemory`: where the chunk is needed now only if the system has no memory left.
    pub(crate) fn stored(&self, bytes: usize, urgency: Urgency) -> Result<AlignedBuffer> {
        let stored = &self.chunks.stored;
        if urgency == Urgency::Ahead {
            let limit_bytes = stored.limit_bytes();
            let most_bytes = limit_bytes - limit_bytes / limits::READ_NOW_SHARE;
            if stored.in_use_bytes().saturating_add(bytes) > most_bytes {
                return Err(Error::new(ErrorKind::OutOfMemory, "reads ahead have as much memory as they may"));
            }
        }
        match self.chunks.read_buffer(bytes) {
            Some(buffer) => Ok(buffer),
            None if urgency == Urgency::Now => stored.require(bytes),
            None => stored.take(bytes),
        }
    }

    /// Memory for an inflated chunk, for which others that nobody uses make room. Beyond the limit it is overdrawn.
    ///
    /// # Errors
    /// Of kind `OutOfMemory` if the system has no memory left.
    pub(crate) fn inflated(&self, bytes: usize) -> Result<Box<dyn ChunkMemory>> {
        let memory = match self.kept(bytes) {
            Some(memory) => memory,
            None => self.chunks.inflated.require(bytes)?,
        };
        Ok(Box::new(PooledMemory(memory)))
    }

    /// Memory for something that is to be kept, for which others that nobody uses make room; `None` where there is none.
    pub(crate) fn kept(&self, bytes: usize) -> Option<AlignedBuffer> {
        self.chunks.kept(bytes)
    }

    /// Keeps at most so many bytes of chunks, or as many as there is memory for.
    pub(crate) fn keep_at_most(&self, bytes: Option<usize>) {
        self.chunks.cache_bytes.store(bytes.unwrap_or(usize::MAX), Ordering::Relaxed);
        self.chunks.keep_what_is_left();
    }

    /// A query gave back what it held: chunks may be kept there.
    pub(crate) fn given_back(&self) {
        {
            let mut forgotten = self.forgotten.lock().unwrap_or_else(PoisonError::into_inner);
            if forgotten.elapsed() > KEPT_BY_ALLOCATOR {
                self.chunks.budget.forget_kept();
                *forgotten = Instant::now();
            }
        }
        self.chunks.keep_what_is_left();
    }

    /// Bytes of memory that hold stored chunks at the moment.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.chunks.stored.in_use_bytes()
    }

    /// Most bytes that one scan has on their way ahead, where `wanted_bytes` are asked for: others find memory for theirs.
    pub(crate) fn ahead_bytes(&self, wanted_bytes: usize) -> usize {
        wanted_bytes.min(self.chunks.stored.limit_bytes() / 2)
    }

    /// Most bytes that scans have which do not run yet, beside [`Memory::ahead_bytes`] of the one that runs; nothing where
    /// `wanted_bytes`, which that asks for, are none.
    pub(crate) fn foreseen_bytes(&self, wanted_bytes: usize) -> usize {
        match wanted_bytes {
            0 => 0,
            _ => self.chunks.stored.limit_bytes() / 2 - self.ahead_bytes(wanted_bytes) / 2,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(memory: &Memory) -> Vec<usize> {
        memory.chunks.budget.figures().iter().map(|client| client.held_bytes >> 20).collect()
    }

    #[test]
    fn reads_ahead_leave_memory_to_those_that_are_needed() {
        let memory = Memory::new(MemoryShares::alone(128 << 20));
        let ahead: Vec<_> = std::iter::from_fn(|| memory.stored(1 << 20, Urgency::Ahead).ok()).collect();
        assert_eq!((ahead.len(), memory.stored_bytes(), memory.ahead_bytes(usize::MAX)), (12, 12 << 20, 8 << 20));
        let next: Vec<_> = std::iter::from_fn(|| memory.stored(1 << 20, Urgency::Next).ok()).collect();
        assert_eq!((next.len(), held(&memory)), (4, vec![16, 0, 0, 0]));
        let now = memory.stored(1 << 20, Urgency::Now).expect("the system has memory");
        assert_eq!((held(&memory), now.is_beyond_limit()), (vec![17, 0, 0, 0], true));
        drop((ahead, next, now));
        assert_eq!((held(&memory), memory.stored_bytes()), (vec![16, 0, 0, 0], 0));
    }

    #[test]
    fn no_memory_at_all_is_overdrawn() {
        let memory = Memory::new(MemoryShares::alone(0));
        assert!(memory.stored(4096, Urgency::Ahead).is_err() && memory.stored(4096, Urgency::Next).is_err());
        let read = memory.stored(4096, Urgency::Now).expect("the system has memory");
        let inflated = memory.inflated(10_000).expect("the system has memory");
        assert!(!inflated.may_be_kept() && inflated.bytes().len() == 10_000);
        assert_eq!(memory.chunks.budget.held_bytes(), 4096 + 12_288);
        drop((read, inflated));
        assert_eq!(memory.chunks.budget.held_bytes(), 0);
    }

    /// Queries take memory from what is kept, reads too, and give it back.
    #[test]
    fn chunks_that_are_kept_make_room_for_queries_and_reads() {
        let memory = Memory::new(MemoryShares::alone(256 << 20));
        let (inflated, budget) = (&memory.chunks.inflated, &memory.chunks.budget);
        assert_eq!(memory.cache().budget_bytes(), 224 << 20);
        // Others than the cache hold these: they are in use.
        let in_use: Vec<_> = (0..150).map(|_| inflated.take(1 << 20).expect("in budget")).collect();
        let statement = memory.open_account("SELECT 1");
        let mut held = statement.reserve(64 << 20).expect("in budget");
        assert!(held.grow(64 << 20).is_err(), "nothing that is in use");
        drop(in_use);
        held.grow(64 << 20).expect("the pool gives back what is free");
        assert!(held.grow(65 << 20).is_err(), "more than three quarters");
        memory.chunks.keep_what_is_left();
        assert!(memory.cache().budget_bytes() <= 128 << 20);
        let read = memory.stored(20 << 20, Urgency::Now).expect("there is room");
        assert!(!read.is_beyond_limit() && budget.held_bytes() <= 256 << 20);
        drop((held, read));
        memory.chunks.stored.give_back(usize::MAX);
        assert_eq!((budget.held_bytes() - inflated.owned_bytes(), budget.kept_bytes()), (0, 128 << 20));
        memory.given_back();
        assert_eq!(memory.cache().budget_bytes(), 128 << 20, "the allocator has it for a while");
        budget.forget_kept();
        budget.forget_kept();
        memory.given_back();
        assert_eq!(memory.cache().budget_bytes(), 224 << 20);
    }
}
