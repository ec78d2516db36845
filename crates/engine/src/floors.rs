//! What a query read, done again by itself: the reads alone, and inflating alone. No cold query can be faster than either;
//! `forebay bench --cold` prints them beside what the query took.
//!
//! Invariants: the chunks, or the parts of them, are those that were read, in the order in which their reads were begun; the
//! cache is neither asked nor filled. Must not know: queries.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use forebay_base::{Error, Result, limits};
use forebay_block::Inflate;
use forebay_cpu::pool;
use forebay_disk::ReadPath;
use forebay_store::Segment;

use crate::chunks::{Engine, Extent, Place, StoredBytes};
use crate::memory::Urgency;

/// Stored bytes, about, that are read before the chunks in them are inflated, while the clock of inflating stands.
const BATCH_BYTES: usize = 128 << 20;

/// The chunks that were read while somebody recorded, with the blocks that were read of each.
#[derive(Debug, Default)]
pub(crate) struct Recorder(Mutex<Option<Vec<Place>>>);

impl Recorder {
    /// Takes note of a read that was begun.
    pub(crate) fn note(&self, place: &Place) {
        if let Some(places) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            places.push(*place);
        }
    }

    fn replace(&self, places: Option<Vec<Place>>) -> Vec<Place> {
        std::mem::replace(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner), places).unwrap_or_default()
    }
}

/// Chunks that were read.
#[derive(Debug)]
pub struct RecordedReads {
    chunks: Vec<(Arc<Segment>, Place)>,
}

impl Engine {
    /// Records from now on which chunks are read from disk, by any query of this database.
    pub fn record_reads(&self) {
        self.recorder().replace(Some(Vec::new()));
    }

    /// The chunks read since [`Engine::record_reads`], and no more of them are recorded. Those of segments that were
    /// dropped in between are left out.
    pub fn recorded_reads(&self) -> RecordedReads {
        let catalog = self.store().catalog();
        let chunks = self.recorder().replace(None).into_iter().filter_map(|place| {
            let table = catalog.table_by_id(place.key.table)?;
            Some((Arc::clone(table.segments.find(place.key.segment)?), place))
        });
        RecordedReads { chunks: chunks.collect() }
    }
}

impl RecordedReads {
    pub(crate) fn of(chunks: Vec<(Arc<Segment>, Place)>) -> Self {
        Self { chunks }
    }

    /// Number of chunks.
    pub fn len(&self) -> usize {
        self.chunks.len()
    }

    /// Whether nothing was read.
    pub fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// How long reading the chunks takes once more, as many at a time as a scan reads ahead, and nothing else; and their
    /// bytes. Errors are those of the disk.
    pub fn read(&self, engine: &Engine, path: ReadPath) -> Result<(Duration, u64)> {
        let started = Instant::now();
        let (mut on_their_way, mut ahead_bytes, mut read_bytes) = (VecDeque::new(), 0, 0);
        let most_bytes = engine.memory().ahead_bytes(limits::READ_AHEAD_BYTES);
        for (segment, place) in &self.chunks {
            let chunk = engine.begin(segment, place, Extent::of(segment, place)?, path, Urgency::Now)?;
            ahead_bytes += chunk.bytes();
            on_their_way.push_back(chunk);
            while ahead_bytes > most_bytes {
                let Some(chunk) = on_their_way.pop_front() else { break };
                ahead_bytes -= chunk.bytes();
                read_bytes += chunk.wait()?.len() as u64;
            }
        }
        for chunk in on_their_way {
            read_bytes += chunk.wait()?.len() as u64;
        }
        Ok((started.elapsed(), read_bytes))
    }

    /// How long `threads` threads take to inflate the chunks, which are in memory then. Errors are those of reading and of
    /// damaged chunks.
    pub fn inflate(&self, engine: &Engine, path: ReadPath, threads: usize) -> Result<Duration> {
        let mut elapsed = Duration::ZERO;
        let mut rest = self.chunks.as_slice();
        let most_bytes = engine.memory().ahead_bytes(BATCH_BYTES);
        while !rest.is_empty() {
            let (mut batch, mut batch_bytes): (Vec<StoredBytes>, usize) = (Vec::new(), 0);
            while batch.len() < rest.len() && (batch.is_empty() || batch_bytes < most_bytes) {
                let (segment, place) = &rest[batch.len()];
                // The directory of the column's frames is read on its first use, which is none of inflating.
                segment.directory(place.group, place.column, place.chunk)?;
                let extent = Extent::of(segment, place)?;
                let stored = engine.begin(segment, place, extent, path, Urgency::Now)?.wait()?;
                batch_bytes += stored.len();
                batch.push(stored);
            }
            let (chunks, next) = rest.split_at(batch.len());
            elapsed += inflate_all(engine, chunks, &batch, threads)?;
            rest = next;
        }
        Ok(elapsed)
    }
}

/// Inflates chunks whose stored bytes are in memory, each by whichever thread comes first.
fn inflate_all(
    engine: &Engine,
    chunks: &[(Arc<Segment>, Place)],
    stored: &[StoredBytes],
    threads: usize,
) -> Result<Duration> {
    let next = AtomicUsize::new(0);
    let inflate_some = || -> Result<()> {
        let take = |bytes| engine.inflated_memory(bytes);
        let inflate =
            Inflate { take: &take, unpack: forebay_cpu::simd::unpacking(forebay_cpu::simd::SimdLevel::best()) };
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(((segment, place), stored)) = chunks.get(index).zip(stored.get(index)) else { return Ok(()) };
            let physical = segment.columns()[place.column].1;
            stored.inflate(segment, place, physical, &inflate)?;
        }
    };
    let started = Instant::now();
    let ends = pool::run(threads, inflate_some);
    let elapsed = started.elapsed();
    for end in ends {
        end.map_err(|_| Error::internal("a thread that inflated chunks panicked"))??;
    }
    Ok(elapsed)
}
