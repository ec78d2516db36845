//! Chunks on their way from the disk, of all scans: whoever needs a chunk that another scan's read brings takes it over, or waits
//! for the worker that took it.
//!
//! Invariants: a worker that took a chunk waits for nobody but the disk until it has told what became of it, so that workers never
//! wait for one another in a circle; it tells, however that ends. Must not know: why chunks are needed.

use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use forebay_block::{BlockSet, InflatedChunk};

use super::{ChunkKey, Place, StoredChunk};

/// The chunks on their way, by key.
#[derive(Debug, Default)]
pub(crate) struct Arrivals(Mutex<HashMap<ChunkKey, Weak<Arrival>>>);

/// A chunk, or a part of one, on its way.
#[derive(Debug)]
pub(crate) struct Arrival {
    key: ChunkKey,
    blocks: BlockSet,
    bytes: usize,
    all: Arc<Arrivals>,
    state: Mutex<State>,
    /// It is over.
    told: Condvar,
}

#[derive(Debug)]
enum State {
    /// Nobody has taken it.
    Read(StoredChunk),
    /// Somebody waits for its bytes, or inflates them.
    Taken,
    /// What became of it; nothing where that failed.
    Over(Option<Arc<InflatedChunk>>),
}

/// What is there for who needs a chunk.
#[derive(Debug)]
pub(crate) enum Claimed {
    /// Its read; what becomes of it is to be told.
    Read(StoredChunk, Taken),
    /// What another worker made of it.
    Made(Arc<InflatedChunk>),
    /// Nothing: another worker failed, and who needs it reads it.
    Nothing,
}

/// A chunk that was taken. Dropped, it tells that nothing became of it.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Arrival>);

impl Arrivals {
    /// Makes a read known to others.
    pub(crate) fn begun(self: &Arc<Self>, key: ChunkKey, stored: StoredChunk) -> Arc<Arrival> {
        let (blocks, bytes) = (stored.blocks(), stored.bytes());
        let (state, told) = (Mutex::new(State::Read(stored)), Condvar::new());
        let arrival = Arc::new(Arrival { key, blocks, bytes, all: Arc::clone(self), state, told });
        // One that lacks blocks is known no more.
        self.lock().insert(key, Arc::downgrade(&arrival));
        arrival
    }

    /// The read that brings all needed blocks of a chunk, if one was begun and its chunk is not done with.
    pub(crate) fn find(&self, place: &Place) -> Option<Arc<Arrival>> {
        let found = self.lock().get(&place.key).and_then(Weak::upgrade);
        found.filter(|arrival| arrival.has_all(&place.blocks))
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ChunkKey, Weak<Arrival>>> {
        // Every change is one call.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Arrival {
    /// Its bytes on disk.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether it brings all these blocks.
    pub(crate) fn has_all(&self, blocks: &BlockSet) -> bool {
        self.blocks.contains_all(blocks)
    }

    /// Takes note of the time if its bytes are there, where somebody noted when it was begun.
    pub(crate) fn look(&self, now: Instant) {
        if let State::Read(stored) = &mut *self.lock() {
            stored.look(now);
        }
    }

    /// Whether its bytes are there. Never waits for them.
    pub(crate) fn is_done(&self) -> bool {
        match &mut *self.lock() {
            State::Read(stored) => stored.is_done(),
            State::Taken | State::Over(_) => true,
        }
    }

    /// When it was begun, where somebody noted that, and when its bytes were seen to be there, as long as nobody has taken it.
    pub(crate) fn times(&self) -> Option<(Instant, Option<Instant>)> {
        match &*self.lock() {
            State::Read(stored) => stored.times(),
            State::Taken | State::Over(_) => None,
        }
    }

    /// Takes it, or waits for who took it.
    pub(crate) fn claim(self: &Arc<Self>) -> Claimed {
        let mut state = self.lock();
        loop {
            match std::mem::replace(&mut *state, State::Taken) {
                State::Read(stored) => return Claimed::Read(stored, Taken(Arc::clone(self))),
                State::Over(made) => {
                    *state = State::Over(made.clone());
                    return made.map_or(Claimed::Nothing, Claimed::Made);
                }
                State::Taken => state = self.told.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one assignment.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Arrival {
    fn drop(&mut self) {
        let mut by_key = self.all.lock();
        // Another read of the same chunk may stand there by now.
        if by_key.get(&self.key).is_some_and(|known| std::ptr::eq(known.as_ptr(), self)) {
            by_key.remove(&self.key);
        }
    }
}

impl Taken {
    /// Tells what became of it.
    pub(crate) fn made(self, chunk: &Arc<InflatedChunk>) {
        *self.0.lock() = State::Over(Some(Arc::clone(chunk)));
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        if matches!(*state, State::Taken) {
            *state = State::Over(None);
        }
        drop(state);
        self.0.told.notify_all();
    }
}
