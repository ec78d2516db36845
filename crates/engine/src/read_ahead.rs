//! Reads that are begun before the morsel that needs them is taken, so that the drive works while workers inflate and
//! compute (GOLAP §3.3).
//!
//! Two stages (late materialisation): columns of tests that zones did not decide are read ahead; columns that are only
//! loaded for surviving rows are, too, while recent morsels needed them. What is begun and not yet taken stays within
//! what the session allows; what turns out not to be needed is let go when its row group is done. What a scan has from the
//! time before it ran counts apart: it would else not begin what its first morsels need beside that.
//! Invariants: no chunk is read twice because of it; a read that fails is told by who needs it, nobody else.
//! Must not know: rows, tests (it is told what a morsel needs).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::chunks::{Arrival, ChunkKey, Engine, Place};
use crate::morsel::Morsel;
use crate::timeline::SourceTimeline;

/// Morsels in front of the one that was taken last that are looked at, for each drive; and, of a scan that does not run yet,
/// at a time. Where most is in memory, it takes many to keep the drive busy.
pub(crate) const MORSELS_AHEAD: usize = 128;
/// As long as nobody knows what is needed where rows survive: else all memory would be that of columns which tests look at.
const MORSELS_AT_FIRST: usize = 32;
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
    /// Of the morsels in front of this one, from the first that was not taken on, all were looked at or passed over.
    looked_to: usize,
    /// Those that were passed over, since they are likely to be in memory.
    passed_over: BTreeSet<usize>,
    /// Of those that were looked at, what is needed where rows survive and was not likely to be.
    unlikely: BTreeMap<usize, Vec<(usize, Place)>>,
    /// The columns that were likely to be needed when these were looked at last.
    likely: Vec<usize>,
    /// By segment and row group: every chunk whose read was begun, and the read until somebody takes it.
    begun: BTreeMap<(usize, usize), HashMap<ChunkKey, Option<Begun>>>,
    /// Segments and row groups that are done: whoever is further behind begins nothing of them again.
    done: BTreeSet<(usize, usize)>,
    /// Bytes of those that were begun while the scan ran, and before.
    bytes: [usize; 2],
    /// Per column of the table: of the morsels before, how many loaded it.
    loads: BTreeMap<usize, Loads>,
    /// The first morsel for which nothing was begun before the scan ran.
    foreseen: usize,
    /// Morsels since the last one that needed something from disk.
    in_memory: usize,
}

/// A read that nobody has taken yet.
#[derive(Debug)]
struct Begun {
    chunk: Arc<Arrival>,
    time: Time,
}

/// When a read was begun.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Time {
    /// While the scan ran.
    Running = 0,
    /// While a scan in front of it did.
    Before = 1,
}

/// Reads of a scan that does not run yet.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ForeseenReads {
    /// Bytes that were begun.
    pub(crate) bytes: usize,
    /// Of these, bytes that have not arrived.
    pub(crate) arriving_bytes: usize,
    /// Whether that is all that the scan is known to need.
    pub(crate) are_all: bool,
}

impl State {
    /// The morsels in front of number `next` were taken.
    fn pass(&mut self, next: usize) {
        while self.passed_over.first().is_some_and(|morsel| *morsel < next) {
            self.passed_over.pop_first();
        }
        while let Some(first) = self.unlikely.first_entry().filter(|first| *first.key() < next) {
            first.remove();
        }
    }

    /// What a morsel needs if rows survive, for when that is likely.
    fn leave(&mut self, morsel: usize, loaded: Vec<(usize, Place)>) {
        if !loaded.is_empty() {
            self.unlikely.insert(morsel, loaded);
        }
    }

    /// The morsel from `next` on and in front of `last` that is to be looked at; `None` where all were, as far as they are to be.
    fn next_to_look_at(&mut self, next: usize, last: usize) -> Option<usize> {
        let looks_at_few = self.in_memory >= MORSELS_IN_MEMORY;
        if let Some(morsel) = self.passed_over.first().copied().filter(|morsel| !looks_at_few && *morsel < last) {
            // The others are not in memory, so that this one may be on disk, too.
            self.passed_over.remove(&morsel);
            return Some(morsel);
        }
        self.looked_to = self.looked_to.max(next);
        while self.looked_to < last {
            let morsel = self.looked_to;
            self.looked_to += 1;
            if !looks_at_few || morsel.is_multiple_of(MORSELS_PER_LOOK) {
                return Some(morsel);
            }
            self.passed_over.insert(morsel);
        }
        None
    }

    /// Begins these reads, but for what is there or was begun before. False where one could not be.
    fn begin(
        &mut self,
        engine: &Engine,
        places: impl IntoIterator<Item = Place>,
        time: Time,
        begin: &impl Fn(&Place) -> Option<Arc<Arrival>>,
    ) -> bool {
        for place in places {
            if self.done.contains(&(place.segment, place.group)) {
                continue;
            }
            let begun = self.begun.entry((place.segment, place.group)).or_default();
            // What others read now is gone when a scan runs that does not yet.
            let is_arriving = || time == Time::Running && engine.is_arriving(&place);
            if begun.contains_key(&place.key) || engine.is_cached(&place) || is_arriving() {
                continue;
            }
            let Some(chunk) = begin(&place) else { return false };
            self.bytes[time as usize] += chunk.bytes();
            begun.insert(place.key, Some(Begun { chunk, time }));
        }
        true
    }

    /// Bytes that have not arrived.
    fn arriving_bytes(&mut self) -> usize {
        let begun = self.begun.values_mut().flat_map(HashMap::values_mut).flatten();
        begun.filter_map(|begun| (!begun.chunk.is_done()).then_some(begun.chunk.bytes())).sum()
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
    /// wait to be taken, beside what was begun before the scan ran; of `most_morsels` at most. Gives whether that is all that
    /// the scan is known to need.
    pub(crate) fn run(
        &self,
        engine: &Engine,
        (next, count): (usize, usize),
        (most_bytes, most_morsels): (usize, usize),
        needs: impl Fn(usize) -> Needs,
        begin: impl Fn(&Place) -> Option<Arc<Arrival>>,
    ) -> bool {
        let mut state = self.lock();
        let state = &mut *state;
        state.pass(next);
        let likely: Vec<usize> = state.loads.iter().filter(|(_, loads)| loads.is_likely()).map(|(at, _)| *at).collect();
        let is_likely = |(column, _): &(usize, Place)| likely.contains(column);
        if state.likely != likely {
            let mut unlikely = std::mem::take(&mut state.unlikely);
            let mut has_room = true;
            while has_room && let Some((morsel, loaded)) = unlikely.pop_first() {
                let (places, rest) = loaded.into_iter().partition::<Vec<_>, _>(is_likely);
                state.leave(morsel, rest);
                let places = places.into_iter().map(|(_, place)| place);
                has_room = state.begin(engine, places, Time::Running, &begin)
                    && state.bytes[Time::Running as usize] < most_bytes;
            }
            // The others are looked at when there is room.
            state.unlikely.append(&mut unlikely);
            if !has_room {
                return false;
            }
            state.likely.clone_from(&likely);
        }
        loop {
            if state.bytes[Time::Running as usize] >= most_bytes {
                return false;
            }
            let knows_all = state.unlikely.is_empty() || !state.loads.is_empty();
            let last = count.min(next + if knows_all { most_morsels } else { most_morsels.min(MORSELS_AT_FIRST) });
            let Some(morsel) = state.next_to_look_at(next, last) else { return last == count };
            let Needs { tested, loaded } = needs(morsel);
            let (likely, rest) = loaded.into_iter().partition::<Vec<_>, _>(is_likely);
            state.leave(morsel, rest);
            // Where zones rule a morsel out, that says nothing of the others.
            if tested.is_empty() && likely.is_empty() {
                continue;
            }
            let before = state.bytes;
            let places = tested.into_iter().chain(likely.into_iter().map(|(_, place)| place));
            if !state.begin(engine, places, Time::Running, &begin) {
                return false;
            }
            state.in_memory = if state.bytes == before { state.in_memory + 1 } else { 0 };
        }
    }

    /// Bytes that were begun and have not arrived.
    pub(crate) fn arriving_bytes(&self) -> usize {
        self.lock().arriving_bytes()
    }

    /// Whether all that was begun is there, and something of it waits to be taken.
    pub(crate) fn has_arrived(&self) -> bool {
        let mut state = self.lock();
        state.bytes.iter().any(|bytes| *bytes > 0) && state.arriving_bytes() == 0
    }

    /// Bytes that were begun and that nobody has taken.
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.lock().bytes.iter().sum()
    }

    /// Begins reads for a scan of `count` morsels that does not run yet, until `most_bytes` or more wait to be taken or
    /// `most_arriving_bytes` or more have not arrived; for `most_morsels` more at most. `needs` tells the chunks that a morsel
    /// needs for sure.
    pub(crate) fn foresee(
        &self,
        engine: &Engine,
        count: usize,
        (most_bytes, most_arriving_bytes, most_morsels): (usize, usize, usize),
        needs: impl Fn(usize) -> Vec<Place>,
        begin: impl Fn(&Place) -> Option<Arc<Arrival>>,
    ) -> ForeseenReads {
        let mut state = self.lock();
        let mut arriving_bytes = state.arriving_bytes();
        let last = count.min(state.foreseen + most_morsels);
        while state.foreseen < last
            && state.in_memory < MORSELS_IN_MEMORY
            && state.bytes[Time::Before as usize] < most_bytes
            && arriving_bytes < most_arriving_bytes
        {
            let (places, before) = (needs(state.foreseen), state.bytes[Time::Before as usize]);
            let is_needed = !places.is_empty();
            if !state.begin(engine, places, Time::Before, &begin) {
                break;
            }
            let begun_bytes = state.bytes[Time::Before as usize] - before;
            state.in_memory = if begun_bytes > 0 { 0 } else { state.in_memory + usize::from(is_needed) };
            arriving_bytes += begun_bytes;
            state.foreseen += 1;
        }
        // What the first ones need is in memory: that of the others will be seen when the scan runs.
        let are_all = state.foreseen == count || state.in_memory >= MORSELS_IN_MEMORY;
        ForeseenReads { bytes: state.bytes[Time::Before as usize], arriving_bytes, are_all }
    }

    /// Takes a read that was begun, of all blocks that were known to be needed then. Where none was, the caller does it, and
    /// nobody begins it any more.
    pub(crate) fn take(&self, place: &Place) -> Option<Arc<Arrival>> {
        let mut state = self.lock();
        state.in_memory = 0;
        let begun = state.begun.entry((place.segment, place.group)).or_default();
        let Begun { chunk, time } = begun.insert(place.key, None).flatten()?;
        state.bytes[time as usize] -= chunk.bytes();
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
        state.begun.values_mut().flat_map(HashMap::values_mut).flatten().for_each(|begun| begun.chunk.look(now));
    }

    /// Lets go of what was begun for a row group that is done.
    pub(crate) fn forget(&self, morsel: Morsel, timeline: Option<&SourceTimeline>) {
        let done = {
            let mut state = self.lock();
            state.done.insert((morsel.segment, morsel.group));
            let done = state.begun.remove(&(morsel.segment, morsel.group)).unwrap_or_default();
            for Begun { chunk, time } in done.values().flatten() {
                state.bytes[*time as usize] -= chunk.bytes();
            }
            done
        };
        // Reads on their way are waited for, and others need not wait with us.
        for (key, begun) in done {
            let Some(Begun { chunk, .. }) = begun else { continue };
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
