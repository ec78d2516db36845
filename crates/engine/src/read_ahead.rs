//! Reads that are begun before the morsel that needs them is taken, so that the drive works while workers inflate and
//! compute (GOLAP §3.3).
//!
//! Two stages (late materialisation): columns of tests that zones did not decide are read ahead; columns that are only
//! loaded for surviving rows are, too, while recent morsels needed them. What is begun and not yet taken stays within
//! what the session allows; what turns out not to be needed is let go when its row group is done.
//! Invariants: no chunk is read twice because of it; a read that fails is told by who needs it, nobody else.
//! Must not know: rows, tests (it is told what a morsel needs).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::chunks::{ChunkKey, Engine, Place, StoredChunk};
use crate::morsel::Morsel;
use crate::timeline::SourceTimeline;

/// Morsels in front of the one that was taken last that are looked at, for each drive.
pub(crate) const MORSELS_AHEAD: usize = 32;
/// Morsels in a row whose chunks were all in memory, from which on few of those to come are looked at: a warm scan does
/// next to nothing here.
const MORSELS_IN_MEMORY: usize = 16;
/// Of those to come, then, one in so many. Some are in front of every morsel, whatever [`MORSELS_AHEAD`] is.
const MORSELS_PER_LOOK: usize = 8;
/// Morsels whose needs are remembered, about.
const MEMORY_MORSELS: u32 = 16;

/// What a morsel needs, as far as metadata tell.
#[derive(Debug, Default, Clone)]
pub(crate) struct Needs {
    /// Chunks of columns that tests and filters look at.
    pub(crate) tested: Vec<Place>,
    /// Chunks that are needed where rows survive those, with their column of the table.
    pub(crate) loaded: Vec<(usize, Place)>,
}

/// Reads of one scan that nobody has taken yet.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By morsel, from the first that was not taken on, as far as they were looked at.
    needs: BTreeMap<usize, Needs>,
    /// By segment and row group: every chunk whose read was begun, and the read until somebody takes it.
    begun: BTreeMap<(usize, usize), HashMap<ChunkKey, Option<StoredChunk>>>,
    begun_bytes: usize,
    /// Per column of the table: of the morsels before, how many loaded it.
    loads: BTreeMap<usize, Loads>,
    /// The first morsel for which nothing was begun before the scan ran.
    foreseen: usize,
    /// Morsels since the last one that needed something from disk.
    in_memory: usize,
}

impl State {
    /// Begins these reads, but for what is there or was begun before. False where one could not be.
    fn begin(&mut self, engine: &Engine, places: Vec<Place>, begin: &impl Fn(&Place) -> Option<StoredChunk>) -> bool {
        for place in places {
            let begun = self.begun.entry((place.segment, place.group)).or_default();
            if begun.contains_key(&place.key) || engine.is_cached(&place) {
                continue;
            }
            let Some(chunk) = begin(&place) else { return false };
            self.begun_bytes += chunk.bytes();
            begun.insert(place.key, Some(chunk));
        }
        true
    }
}

#[derive(Debug, Default, Clone, Copy)]
struct Loads {
    morsels: u32,
    loaded: u32,
}

impl Loads {
    fn note(&mut self, loaded: bool) {
        if self.morsels >= MEMORY_MORSELS {
            (self.morsels, self.loaded) = (self.morsels / 2, self.loaded / 2);
        }
        self.morsels += 1;
        self.loaded += u32::from(loaded);
    }

    fn is_likely(self) -> bool {
        self.loaded * 2 > self.morsels
    }
}

impl ReadAhead {
    /// Begins reads for the morsels from number `next` on, of `count`, whose needs `needs` tells, until `most_bytes` or more
    /// are on their way; of `most_morsels` at most. Gives the bytes that are, and whether that is all that the scan is known to
    /// need.
    pub(crate) fn run(
        &self,
        engine: &Engine,
        (next, count): (usize, usize),
        (most_bytes, most_morsels): (usize, usize),
        needs: impl Fn(usize) -> Needs,
        begin: impl Fn(&Place) -> Option<StoredChunk>,
    ) -> (usize, bool) {
        let mut state = self.lock();
        let state = &mut *state;
        state.needs = state.needs.split_off(&next);
        let last = count.min(next + most_morsels);
        let mut coming = next..last;
        while let Some(morsel) = coming.next() {
            if state.begun_bytes >= most_bytes {
                return (state.begun_bytes, false);
            }
            let looks_at_few = state.in_memory >= MORSELS_IN_MEMORY;
            if looks_at_few && !morsel.is_multiple_of(MORSELS_PER_LOOK) {
                continue;
            }
            let needed = state.needs.entry(morsel).or_insert_with(|| needs(morsel));
            let likely = |column: &usize| state.loads.get(column).is_some_and(|loads| loads.is_likely());
            let mut places: Vec<Place> = std::mem::take(&mut needed.tested);
            needed.loaded.retain(|(column, place)| {
                let takes = likely(column);
                if takes {
                    places.push(*place);
                }
                !takes
            });
            // Where zones rule a morsel out, that says nothing of the others.
            if places.is_empty() {
                continue;
            }
            let before = state.begun_bytes;
            if !state.begin(engine, places, &begin) {
                return (state.begun_bytes, false);
            }
            if state.begun_bytes == before {
                state.in_memory += 1;
            } else {
                state.in_memory = 0;
                if looks_at_few {
                    // What was left out may be on disk, too.
                    coming = next..last;
                }
            }
        }
        (state.begun_bytes, last == count)
    }

    /// Begins reads for a scan of `count` morsels that does not run yet, as [`ReadAhead::run`] does; `needs` tells the chunks
    /// that a morsel needs for sure.
    pub(crate) fn foresee(
        &self,
        engine: &Engine,
        count: usize,
        (most_bytes, most_morsels): (usize, usize),
        needs: impl Fn(usize) -> Vec<Place>,
        begin: impl Fn(&Place) -> Option<StoredChunk>,
    ) -> (usize, bool) {
        let mut state = self.lock();
        let last = count.min(most_morsels);
        while state.foreseen < last && state.begun_bytes < most_bytes {
            let places = needs(state.foreseen);
            if !state.begin(engine, places, &begin) {
                return (state.begun_bytes, false);
            }
            state.foreseen += 1;
        }
        (state.begun_bytes, state.foreseen == count)
    }

    /// Takes a read that was begun, of all blocks that were known to be needed then. Where none was, the caller does it, and
    /// nobody begins it any more.
    pub(crate) fn take(&self, place: &Place) -> Option<StoredChunk> {
        let mut state = self.lock();
        state.in_memory = 0;
        let begun = state.begun.entry((place.segment, place.group)).or_default();
        let chunk = begun.insert(place.key, None).flatten()?;
        state.begun_bytes -= chunk.bytes();
        Some(chunk)
    }

    /// Takes note of whether a morsel loaded these columns after its tests.
    pub(crate) fn note(&self, columns: impl Iterator<Item = (usize, bool)>) {
        let mut state = self.lock();
        for (column, loaded) in columns {
            state.loads.entry(column).or_default().note(loaded);
        }
    }

    /// Takes note of the time for chunks that are complete.
    pub(crate) fn look(&self, now: Instant) {
        let mut state = self.lock();
        state.begun.values_mut().flat_map(HashMap::values_mut).flatten().for_each(|chunk| chunk.look(now));
    }

    /// Lets go of what was begun for a row group that is done.
    pub(crate) fn forget(&self, morsel: Morsel, timeline: Option<&SourceTimeline>) {
        let done = {
            let mut state = self.lock();
            let done = state.begun.remove(&(morsel.segment, morsel.group)).unwrap_or_default();
            state.begun_bytes -= done.values().flatten().map(StoredChunk::bytes).sum::<usize>();
            done
        };
        // Reads on their way are waited for, and others need not wait with us.
        for (key, chunk) in done {
            let Some(chunk) = chunk else { continue };
            let bytes = chunk.bytes();
            let times = chunk.times();
            drop(chunk);
            if let (Some(timeline), Some((begun, complete))) = (timeline, times) {
                timeline.let_go(&key, morsel.segment, (begun, complete.unwrap_or_else(Instant::now)), bytes);
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state whole, so a panicking holder is no reason to stop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
