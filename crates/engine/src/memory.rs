//! The engine's part of the account of memory: chunks as they are stored, on their way, and inflated ones, in use and kept.
//!
//! Who comes first: the chunk that a scan needs next is always granted. A scan holds chunks while it asks for the next, so
//! scans that waited for memory could wait for each other for ever; nobody waits here, and what is not left is overdrawn.
//! Inflated chunks in use come before those that are only kept, which make room, the longest unused first. Reads ahead take
//! what is left, but for a part that they leave to reads that somebody waits for.
//! Invariants: but for what is overdrawn, all that both pools have of the system stays within the engine's share.
//! Must not know: which chunks a query needs, and when.

use std::sync::Arc;

use forebay_base::{Budget, Error, ErrorKind, Result, limits};
use forebay_block::ChunkMemory;
use forebay_disk::{AlignedBuffer, BufferPool};

use crate::chunks::{Cache, Engine};

/// What an engine may take of a budget.
#[derive(Debug, Clone)]
pub struct MemoryShares {
    budget: Budget,
    chunk_bytes: usize,
    cache_bytes: usize,
}

impl MemoryShares {
    /// Up to `chunk_bytes` of `budget` for chunks.
    pub fn new(budget: Budget, chunk_bytes: usize) -> Self {
        Self { budget, chunk_bytes, cache_bytes: chunk_bytes }
    }

    /// A budget of `bytes` for the engine alone.
    pub fn alone(bytes: usize) -> Self {
        Self::new(Budget::new(bytes), bytes)
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

/// Memory for the chunks of one database.
#[derive(Debug)]
pub(crate) struct Memory {
    budget: Budget,
    /// Stored chunks on their way from disk to inflation.
    stored: BufferPool,
    /// Inflated chunks, in use or kept; and stored ones that are kept.
    inflated: BufferPool,
    /// Those that are kept.
    pub(crate) cache: Arc<Cache>,
    /// Most bytes of them.
    cache_bytes: usize,
}

impl Memory {
    pub(crate) fn new(shares: MemoryShares) -> Self {
        let MemoryShares { budget, chunk_bytes, cache_bytes } = shares;
        // Each pool has a limit of its own: else chunks that are kept would take all, and reads would find memory only where
        // a whole region happens to be free.
        let stored_bytes = (chunk_bytes / limits::READ_POOL_SHARE).min(limits::READ_POOL_BYTES);
        let inflated_bytes = chunk_bytes - stored_bytes;
        let stored = BufferPool::within(budget.client("read buffers", stored_bytes));
        let inflated = BufferPool::within(budget.client("inflated chunks", inflated_bytes));
        let cache_bytes = cache_bytes.min(inflated_bytes);
        Self { budget, stored, inflated, cache: Arc::new(Cache::new(cache_bytes)), cache_bytes }
    }

    /// A buffer for a stored chunk.
    ///
    /// # Errors
    /// Of kind `OutOfMemory`: where the chunk is needed now only if the system has no memory left.
    pub(crate) fn stored(&self, bytes: usize, urgency: Urgency) -> Result<AlignedBuffer> {
        match urgency {
            Urgency::Now => self.stored.require(bytes),
            Urgency::Next => self.stored.take(bytes),
            Urgency::Ahead => {
                let limit_bytes = self.stored.limit_bytes();
                let most_bytes = limit_bytes - limit_bytes / limits::READ_NOW_SHARE;
                if self.stored.in_use_bytes().saturating_add(bytes) > most_bytes {
                    return Err(Error::new(ErrorKind::OutOfMemory, "reads ahead have as much memory as they may"));
                }
                self.stored.take(bytes)
            }
        }
    }

    /// Memory for an inflated chunk, for which others that nobody uses make room. Beyond the limit it is overdrawn.
    ///
    /// # Errors
    /// Of kind `OutOfMemory` if the system has no memory left.
    pub(crate) fn inflated(&self, bytes: usize) -> Result<Box<dyn ChunkMemory>> {
        let memory = match self.kept(bytes) {
            Some(memory) => memory,
            None => self.inflated.require(bytes)?,
        };
        Ok(Box::new(PooledMemory(memory)))
    }

    /// Memory for something that is to be kept, for which others that nobody uses make room; `None` where there is none.
    pub(crate) fn kept(&self, bytes: usize) -> Option<AlignedBuffer> {
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

    /// Keeps at most so many bytes of chunks, or as many as it may.
    pub(crate) fn keep_at_most(&self, bytes: Option<usize>) {
        self.cache.resize(bytes.map_or(self.cache_bytes, |bytes| bytes.min(self.cache_bytes)));
    }

    /// Bytes of memory that hold stored chunks at the moment.
    pub(crate) fn stored_bytes(&self) -> usize {
        self.stored.in_use_bytes()
    }

    /// Most bytes that one scan has on their way ahead, where `wanted_bytes` are asked for: others find memory for theirs.
    pub(crate) fn ahead_bytes(&self, wanted_bytes: usize) -> usize {
        wanted_bytes.min(self.stored.limit_bytes() / 2)
    }

    /// Most bytes that scans have which do not run yet, beside [`Memory::ahead_bytes`] of the one that runs; nothing where
    /// `wanted_bytes`, which that asks for, are none.
    pub(crate) fn foreseen_bytes(&self, wanted_bytes: usize) -> usize {
        match wanted_bytes {
            0 => 0,
            _ => self.stored.limit_bytes() / 2 - self.ahead_bytes(wanted_bytes) / 2,
        }
    }
}

/// What a part of a database's memory is for, and how much of it is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryUse {
    /// What it is for.
    pub name: &'static str,
    /// Bytes that it may have.
    pub limit_bytes: usize,
    /// Bytes that it has.
    pub held_bytes: usize,
    /// Of these, bytes that hold something at the moment, where that is known; the rest is there to be used again.
    pub used_bytes: Option<usize>,
    /// The most bytes that it ever had, where that is known.
    pub peak_bytes: Option<usize>,
}

impl Engine {
    /// The account that the engine's memory comes from: all its clients, what the cache has of the inflated chunks, and all
    /// clients together.
    pub fn memory_use(&self) -> Vec<MemoryUse> {
        let Memory { budget, stored, inflated, cache, .. } = self.memory();
        let used = [("read buffers", stored), ("inflated chunks", inflated)];
        let of_client = |client: forebay_base::budget::ClientFigures| {
            let pool = used.iter().find(|(name, _)| *name == client.name);
            MemoryUse {
                name: client.name,
                limit_bytes: client.limit_bytes,
                held_bytes: client.held_bytes,
                used_bytes: pool.map(|(_, pool)| pool.in_use_bytes() + client.overdrawn_bytes),
                peak_bytes: Some(client.peak_bytes),
            }
        };
        let mut all: Vec<_> = budget.figures().into_iter().map(of_client).collect();
        all.push(MemoryUse {
            name: "chunks that are kept",
            limit_bytes: cache.budget_bytes(),
            held_bytes: cache.held_bytes(),
            used_bytes: None,
            peak_bytes: None,
        });
        all.push(MemoryUse {
            name: "all",
            limit_bytes: budget.total_bytes(),
            held_bytes: budget.held_bytes(),
            used_bytes: None,
            peak_bytes: None,
        });
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(memory: &Memory) -> Vec<usize> {
        memory.budget.figures().iter().map(|client| client.held_bytes >> 20).collect()
    }

    #[test]
    fn reads_ahead_leave_memory_to_those_that_are_needed() {
        let memory = Memory::new(MemoryShares::alone(64 << 20));
        let ahead: Vec<_> = std::iter::from_fn(|| memory.stored(1 << 20, Urgency::Ahead).ok()).collect();
        assert_eq!((ahead.len(), memory.stored_bytes(), memory.ahead_bytes(usize::MAX)), (12, 12 << 20, 8 << 20));
        let next: Vec<_> = std::iter::from_fn(|| memory.stored(1 << 20, Urgency::Next).ok()).collect();
        assert_eq!((next.len(), held(&memory)), (4, vec![16, 0]));
        let now = memory.stored(1 << 20, Urgency::Now).expect("the system has memory");
        assert_eq!((held(&memory), now.is_beyond_limit()), (vec![17, 0], true));
        drop((ahead, next, now));
        assert_eq!((held(&memory), memory.stored_bytes()), (vec![16, 0], 0));
    }

    #[test]
    fn no_memory_at_all_is_overdrawn() {
        let memory = Memory::new(MemoryShares::alone(0));
        assert!(memory.stored(4096, Urgency::Ahead).is_err() && memory.stored(4096, Urgency::Next).is_err());
        let read = memory.stored(4096, Urgency::Now).expect("the system has memory");
        let inflated = memory.inflated(10_000).expect("the system has memory");
        assert!(!inflated.may_be_kept() && inflated.bytes().len() == 10_000);
        assert_eq!(memory.budget.held_bytes(), 4096 + 12_288);
        drop((read, inflated));
        assert_eq!(memory.budget.held_bytes(), 0);
    }
}
