//! Chunks by key: from the cache, else read and inflated. Reading has two halves, so that others compute in between:
//! [`Engine::begin`] puts a read on its way, [`Engine::inflate`] waits for it and inflates.
//!
//! Invariants: stored and inflated bytes lie in memory that is used over and over, since pages that the kernel has to clear
//! first cost as much as reading them. Must not know: which chunks a query needs, and when.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use forebay_base::{ColumnId, Context, Error, ErrorKind, PhysicalType, Result, SegmentId, TableId, limits};
use forebay_block::{ChunkMemory, Inflate, InflatedChunk, heap_memory, inflate_chunk};
use forebay_cache::{ChunkCache, Seen};
use forebay_cpu::compile::CompileCache;
use forebay_cpu::pool::Lease;
use forebay_cpu::simd::unpacking;
use forebay_disk::{AlignedBuffer, BufferPool, Disk, DiskFile, ReadPath, ReadTicket};
use forebay_store::{Segment, Store, Table};

use crate::accelerator::Accelerators;
use crate::floors::Recorder;
use crate::rates::KeptRates;
use crate::read_ahead::ReadAhead;
use crate::timeline::{ChunkTimes, SourceTimeline};
use crate::{Metrics, ScanSettings};

/// Names one chunk of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkKey {
    /// The table.
    pub table: TableId,
    /// The column.
    pub column: ColumnId,
    /// The segment file.
    pub segment: SegmentId,
    /// Row group in the segment.
    pub group: u32,
    /// Chunk of the column in the row group.
    pub chunk: u32,
}

/// Where a chunk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// Number of the segment in the table.
    pub(crate) segment: usize,
    /// Row group of the segment.
    pub(crate) group: usize,
    /// Column of the segment.
    pub(crate) column: usize,
    /// Chunk of the column in the row group.
    pub(crate) chunk: usize,
    pub(crate) key: ChunkKey,
}

impl Place {
    /// A chunk of a column of the table, which is column `index` of the segment.
    pub(crate) fn new(
        table: &Table,
        column: usize,
        (segment, group): (usize, usize),
        (index, chunk): (usize, usize),
    ) -> Self {
        let key = ChunkKey {
            table: table.id,
            column: table.columns[column].id,
            segment: table.segments[segment].id(),
            group: group as u32,
            chunk: chunk as u32,
        };
        Self { segment, group, column: index, chunk, key }
    }
}

/// A chunk as it is stored, on its way from the disk.
#[derive(Debug)]
pub(crate) struct StoredChunk {
    ticket: ReadTicket,
    bytes: usize,
    /// When it was begun, where somebody notes that.
    begun: Option<Instant>,
    /// When it was seen to be complete.
    complete: Option<Instant>,
}

impl StoredChunk {
    /// The same, which was begun at this time.
    pub(crate) fn begun(self, begun: Option<Instant>) -> Self {
        Self { begun, ..self }
    }

    /// Takes note of the time if it is complete and nobody saw that before, where somebody noted when it was begun.
    pub(crate) fn look(&mut self, now: Instant) {
        if self.begun.is_some() && self.complete.is_none() && self.ticket.is_done() {
            self.complete = Some(now);
        }
    }

    /// When it was begun, where somebody noted that, and when it was seen to be complete, if it was.
    pub(crate) fn times(&self) -> Option<(Instant, Option<Instant>)> {
        Some((self.begun?, self.complete))
    }

    /// Its bytes on disk.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its bytes, once they have been read.
    pub(crate) fn wait(self) -> Result<AlignedBuffer> {
        let mut read = self.ticket.wait()?;
        read.pop().map(|read| read.buffer).ok_or_else(|| Error::internal("a read gave no buffer"))
    }
}

/// Whether all of a table may be kept at the first look.
fn is_small(table: &Table) -> bool {
    table.segments.iter().map(|segment| segment.file_bytes()).sum::<u64>() <= limits::KEPT_AT_ONCE_BYTES as u64
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
}

/// What scans of one database share.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    cache: ChunkCache<ChunkKey, InflatedChunk>,
    /// Chunks that were read and not kept.
    read_before: Seen<ChunkKey>,
    /// Stored bytes on their way from disk to inflation.
    stored: BufferPool,
    /// Inflated chunks, in the cache or in use.
    inflated: BufferPool,
    /// The reads that were begun, while somebody asks for them.
    recorder: Recorder,
    /// Machine code of pipelines.
    code: CompileCache,
    /// Devices beside the CPU.
    accelerators: Accelerators,
    /// Rates of this machine that were measured before.
    kept_rates: KeptRates,
    /// Where queries put what does not fit their memory.
    temporary: Arc<dyn Disk>,
    /// Keeps the threads that run pipelines.
    _workers: Lease,
}

/// A chunk that a scan wants, with what an error has to say about it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WantedChunk<'a> {
    pub(crate) place: Place,
    /// How the column's values lie.
    pub(crate) physical: PhysicalType,
    /// The column's name.
    pub(crate) name: &'a str,
    /// It is kept at its first read as long as the cache then holds no more than this, else when it is read again.
    pub(crate) kept_at_once_bytes: usize,
}

impl Engine {
    /// An engine over `store` that keeps up to `cache_bytes` of inflated chunks, with temporary files on `temporary`.
    pub fn new(store: Store, cache_bytes: usize, temporary: Arc<dyn Disk>) -> Self {
        Self {
            store,
            cache: ChunkCache::new(cache_bytes),
            read_before: Seen::new(limits::SEEN_CHUNKS),
            stored: BufferPool::new(limits::READ_POOL_BYTES),
            inflated: BufferPool::new(cache_bytes.saturating_add(limits::INFLATE_POOL_BYTES)),
            recorder: Recorder::default(),
            code: CompileCache::default(),
            accelerators: Accelerators::default(),
            kept_rates: KeptRates::default(),
            temporary,
            _workers: Lease::new(),
        }
    }

    /// The same engine, which keeps what it measures of this machine.
    pub fn keeping_rates(self, kept_rates: KeptRates) -> Self {
        Self { kept_rates, ..self }
    }

    /// Rates of this machine that were measured before.
    pub fn kept_rates(&self) -> &KeptRates {
        &self.kept_rates
    }

    /// The database below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The cache of inflated chunks.
    pub fn cache(&self) -> &ChunkCache<ChunkKey, InflatedChunk> {
        &self.cache
    }

    /// Bytes of memory that hold stored chunks at the moment, on their way from the disk or waiting to be inflated.
    pub fn stored_bytes(&self) -> usize {
        self.stored.in_use_bytes()
    }

    /// A new temporary file.
    pub fn temporary_file(&self) -> Result<Arc<dyn DiskFile>> {
        self.temporary.temporary()
    }

    /// Pipelines that were compiled before.
    pub fn code(&self) -> &CompileCache {
        &self.code
    }

    /// Devices beside the CPU.
    pub fn accelerators(&self) -> &Accelerators {
        &self.accelerators
    }

    /// Puts the read of a chunk on its way. Of memory for it, the pool's is taken; with `or_else` other memory where the pool
    /// is exhausted, else that is an error of kind `OutOfMemory`.
    pub(crate) fn begin(&self, segment: &Segment, place: &Place, path: ReadPath, or_else: bool) -> Result<StoredChunk> {
        let take = |bytes| match self.stored.take(bytes) {
            Err(error) if or_else && error.kind() == ErrorKind::OutOfMemory => AlignedBuffer::try_zeroed(bytes),
            taken => taken,
        };
        let (ticket, bytes) = segment.submit_chunk((place.group, place.column, place.chunk), &take, path)?;
        self.recorder.note(place);
        Ok(StoredChunk { ticket, bytes, begun: None, complete: None })
    }

    /// Memory for an inflated chunk: the pool's, or the heap's where that is exhausted.
    pub(crate) fn inflated_memory(&self, bytes: usize) -> Result<Box<dyn ChunkMemory>> {
        match self.inflated.take(bytes) {
            Ok(memory) => Ok(Box::new(PooledMemory(memory))),
            Err(_) => heap_memory(bytes),
        }
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
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
        // All reads are on their way before the first one is waited for.
        let begin = |wanted: &WantedChunk<'_>| {
            if let Some(chunk) = self.cache.get(&wanted.place.key) {
                chunk.note_reuse();
                return Ok(Found::Inflated(chunk));
            }
            if let Some(stored) = ahead.take(&wanted.place) {
                return Ok(Found::Stored(stored));
            }
            let begun = costs.timeline.map(|_| Instant::now());
            let stored = self.begin(segment, &wanted.place, settings.read_path, true);
            stored.map(|stored| Found::Stored(stored.begun(begun))).context(|| describe(wanted))
        };
        let mut found: VecDeque<_> = wanted.iter().map(begin).collect::<Result<_>>()?;
        let mut chunks = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            chunks.push(match found.pop_front() {
                None => break,
                Some(Found::Inflated(chunk)) => chunk,
                Some(Found::Stored(stored)) => {
                    let look = |now| {
                        found.iter_mut().for_each(|found| found.look(now));
                        ahead.look(now);
                    };
                    let chunk = self.inflate(segment, wanted, stored, look, (settings, costs));
                    let chunk = Arc::new(chunk.context(|| describe(wanted))?);
                    self.keep(wanted, &chunk);
                    chunk
                }
            });
        }
        Ok(chunks)
    }

    /// Bytes that the cache may hold while a column's chunks are kept at their first read: those of columns that the same
    /// query reads again up to half of the cache, those of small tables as long as they are few, others not at all.
    pub(crate) fn kept_at_once_bytes(&self, table: &Table, is_read_again: bool) -> usize {
        let of_small_table = if is_small(table) { limits::KEPT_AT_ONCE_BYTES } else { 0 };
        let read_again = if is_read_again { self.cache.budget_bytes() / 2 } else { 0 };
        of_small_table.max(read_again)
    }

    /// Keeps a chunk that was read, at once or from the second time on that it is read (as 2Q's cache admits pages, Johnson &
    /// Shasha, VLDB 1994): to keep chunks takes fresh memory, which costs a scan that nobody repeats as much as its reads.
    fn keep(&self, wanted: &WantedChunk<'_>, chunk: &Arc<InflatedChunk>) {
        let (key, bytes) = (wanted.place.key, chunk.memory_bytes());
        let has_room = self.cache.held_bytes() + bytes <= wanted.kept_at_once_bytes;
        if has_room || self.read_before.note(key) {
            self.cache.insert(key, Arc::clone(chunk), bytes);
        }
    }

    /// Waits for a chunk's bytes and inflates them. Where times are noted, `look` is told when the chunk was there: others may
    /// have come with it.
    fn inflate(
        &self,
        segment: &Segment,
        wanted: &WantedChunk<'_>,
        mut stored: StoredChunk,
        look: impl FnOnce(Instant),
        (settings, costs): (&ScanSettings, Costs<'_>),
    ) -> Result<InflatedChunk> {
        let started = Instant::now();
        stored.look(started);
        let times = stored.times();
        let buffer = stored.wait()?;
        let arrived = Instant::now();
        costs.metrics.read_ns.add((arrived - started).as_nanos() as u64);
        costs.metrics.read_bytes.add(buffer.len() as u64);
        if costs.timeline.is_some() {
            look(arrived);
        }
        let take = |bytes| self.inflated_memory(bytes);
        let inflate = Inflate { take: &take, unpack: unpacking(settings.simd) };
        let Place { group, column, chunk, .. } = wanted.place;
        let chunk = inflate_chunk(segment.directory(group, column, chunk)?, &buffer, wanted.physical, &inflate)?;
        let inflated = Instant::now();
        costs.metrics.inflate_ns.add((inflated - arrived).as_nanos() as u64);
        if let (Some(timeline), Some((begun, complete))) = (costs.timeline, times) {
            let read = (begun, complete.unwrap_or(arrived));
            let times = ChunkTimes { read, wanted: started, arrived, inflated };
            timeline.chunk(&wanted.place, &times, (buffer.len(), chunk.as_bytes().len()));
        }
        Ok(chunk)
    }
}

/// Where it is noted what chunks cost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Costs<'a> {
    pub(crate) metrics: &'a Metrics,
    pub(crate) timeline: Option<&'a SourceTimeline>,
}

/// A chunk in one of its two forms.
enum Found {
    Inflated(Arc<InflatedChunk>),
    Stored(StoredChunk),
}

impl Found {
    /// Takes note of the time if it is there.
    fn look(&mut self, now: Instant) {
        if let Self::Stored(stored) = self {
            stored.look(now);
        }
    }
}
