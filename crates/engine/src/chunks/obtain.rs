//! The chunks that a scan wants: from the cache, from reads that were begun, else read now; inflated, and kept where that is wanted.
//!
//! Invariant: a chunk that is on its way is not read a second time. Must not know: which chunks a query needs, and when.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use forebay_base::{Context, ErrorKind, Result};
use forebay_block::{Inflate, InflatedChunk};
use forebay_cpu::simd::unpacking;
use forebay_store::Segment;

use super::arriving::{Claimed, Taken};
use super::{Arrival, Costs, Engine, Place, StoredBytes, StoredChunk, WantedChunk};
use crate::ScanSettings;
use crate::memory::Urgency;
use crate::read_ahead::ReadAhead;
use crate::timeline::ChunkTimes;
use crate::traffic::ChunkSource;

/// A chunk where it was found.
enum Found {
    /// In the cache, inflated.
    Inflated(Arc<InflatedChunk>),
    /// In the cache, as it is stored.
    Kept(Arc<StoredBytes>),
    /// On its way from the disk.
    Arriving(Arc<Arrival>),
}

impl Found {
    /// Takes note of the time if it is there.
    fn look(&self, now: Instant) {
        if let Self::Arriving(arrival) = self {
            arrival.look(now);
        }
    }
}

impl Engine {
    /// A chunk, or a part of it with the blocks that are needed, which is in the cache inflated.
    pub(crate) fn kept_chunk(&self, place: &Place) -> Option<Arc<InflatedChunk>> {
        let chunk = self.cache().get(&place.key).filter(|chunk| chunk.has_all(&place.blocks))?;
        chunk.note_reuse();
        Some(chunk)
    }

    /// The wanted chunks of one segment, in order: from the cache, else read, if that was not begun already, and inflated.
    pub(crate) fn chunks(
        &self,
        segment: &Segment,
        wanted: &[WantedChunk<'_>],
        ahead: &ReadAhead,
        (table, settings): (&str, &ScanSettings),
        costs: Costs<'_>,
    ) -> Result<Vec<Arc<InflatedChunk>>> {
        let describe = |wanted: &WantedChunk<'_>| {
            segment.describe_chunk(wanted.name, table, wanted.place.group, wanted.place.chunk)
        };
        let begin = |wanted: &WantedChunk<'_>, urgency| {
            let place = &wanted.place;
            if let Some(chunk) = self.kept_chunk(place) {
                return Ok(Found::Inflated(chunk));
            }
            if let Some(bytes) = self.cache().get_stored(&place.key).filter(|bytes| bytes.has_all(&place.blocks)) {
                return Ok(Found::Kept(bytes));
            }
            // What was begun for a part that lacks something is let go.
            let begun = ahead.take(place).filter(|arrival| arrival.has_all(&place.blocks));
            match begun.or_else(|| self.arrivals.find(place)) {
                Some(arrival) => Ok(Found::Arriving(arrival)),
                None => {
                    self.begin_for_all(segment, place, settings, urgency, costs.timeline.is_some()).map(Found::Arriving)
                }
            }
        };
        let mut found: VecDeque<Found> = VecDeque::with_capacity(wanted.len());
        let mut coming = wanted.iter();
        let mut chunks = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            // All reads are on their way before the first one is waited for, as far as there is memory for them; the first one
            // always is.
            while let Some(next) = coming.as_slice().first() {
                let urgency = if found.is_empty() { Urgency::Now } else { Urgency::Next };
                match begin(next, urgency) {
                    Err(error) if urgency == Urgency::Next && error.kind() == ErrorKind::OutOfMemory => break,
                    begun => found.push_back(begun.context(|| describe(next))?),
                }
                coming.next();
            }
            chunks.push(match found.pop_front() {
                None => break,
                Some(Found::Inflated(chunk)) => {
                    costs.note(segment, wanted, ChunkSource::Inflated, &chunk, 0)?;
                    chunk
                }
                Some(Found::Kept(bytes)) => {
                    let chunk = self.inflate_kept(segment, wanted, &bytes, (settings, costs));
                    chunk.context(|| describe(wanted))?
                }
                Some(Found::Arriving(arrival)) => {
                    let look = |now| {
                        found.iter().for_each(|found| found.look(now));
                        ahead.look(now);
                    };
                    let chunk = self.arrived(segment, wanted, arrival, look, (settings, costs));
                    chunk.context(|| describe(wanted))?
                }
            });
        }
        Ok(chunks)
    }

    /// A chunk that was on its way: made here, or by another worker that took it before.
    fn arrived(
        &self,
        segment: &Segment,
        wanted: &WantedChunk<'_>,
        arrival: Arc<Arrival>,
        look: impl Fn(Instant),
        (settings, costs): (&ScanSettings, Costs<'_>),
    ) -> Result<Arc<InflatedChunk>> {
        let mut arrival = arrival;
        loop {
            let started = Instant::now();
            match arrival.claim() {
                Claimed::Read(stored, taken) => {
                    return self.inflate(segment, wanted, (stored, taken), look, (settings, costs));
                }
                Claimed::Made(chunk) => {
                    costs.metrics.read_ns.add(started.elapsed().as_nanos() as u64);
                    costs.note(segment, wanted, ChunkSource::Inflated, &chunk, 0)?;
                    return Ok(chunk);
                }
                Claimed::Nothing => {
                    let (place, is_timed) = (&wanted.place, costs.timeline.is_some());
                    arrival = self.begin_for_all(segment, place, settings, Urgency::Now, is_timed)?;
                }
            }
        }
    }

    /// Waits for a chunk's bytes, inflates them and keeps what is to be kept. Where times are noted, `look` is told when the chunk was there: others may
    /// have come with it.
    fn inflate(
        &self,
        segment: &Segment,
        wanted: &WantedChunk<'_>,
        (mut stored, taken): (StoredChunk, Taken),
        look: impl FnOnce(Instant),
        (settings, costs): (&ScanSettings, Costs<'_>),
    ) -> Result<Arc<InflatedChunk>> {
        let started = Instant::now();
        stored.look(started);
        let times = stored.times();
        let stored = stored.wait()?;
        let arrived = Instant::now();
        costs.metrics.read_ns.add((arrived - started).as_nanos() as u64);
        costs.metrics.read_bytes.add(stored.len() as u64);
        if costs.timeline.is_some() {
            look(arrived);
        }
        let take = |bytes| self.inflated_memory(bytes);
        let inflate = Inflate { take: &take, unpack: unpacking(settings.simd) };
        let chunk = stored.inflate(segment, &wanted.place, wanted.physical, &inflate)?;
        let inflated = Instant::now();
        costs.metrics.inflate_ns.add((inflated - arrived).as_nanos() as u64);
        costs.metrics.chunks_in_part.add(u64::from(!chunk.is_whole()));
        if let (Some(timeline), Some((begun, complete))) = (costs.timeline, times) {
            let read = (begun, complete.unwrap_or(arrived));
            let times = ChunkTimes { read, wanted: started, arrived, inflated };
            timeline.chunk(&wanted.place, &times, (stored.len(), chunk.as_bytes().len()));
        }
        let inflate_ns = (inflated - arrived).as_nanos() as u64;
        costs.note(segment, wanted, ChunkSource::Disk, &chunk, inflate_ns)?;
        let chunk = Arc::new(chunk);
        self.keep(wanted, &chunk, Some(&stored), (inflated - started).as_nanos() as u64);
        taken.made(&chunk);
        Ok(chunk)
    }

    /// Inflates a chunk whose stored bytes are in memory, and keeps it so where that is wanted by now.
    fn inflate_kept(
        &self,
        segment: &Segment,
        wanted: &WantedChunk<'_>,
        stored: &StoredBytes,
        (settings, costs): (&ScanSettings, Costs<'_>),
    ) -> Result<Arc<InflatedChunk>> {
        let started = Instant::now();
        let take = |bytes| self.inflated_memory(bytes);
        let inflate = Inflate { take: &take, unpack: unpacking(settings.simd) };
        let chunk = stored.inflate(segment, &wanted.place, wanted.physical, &inflate)?;
        let inflate_ns = started.elapsed().as_nanos() as u64;
        costs.metrics.inflate_ns.add(inflate_ns);
        costs.note(segment, wanted, ChunkSource::Stored, &chunk, inflate_ns)?;
        let chunk = Arc::new(chunk);
        self.keep(wanted, &chunk, None, inflate_ns);
        Ok(chunk)
    }
}
