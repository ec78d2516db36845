//! Chunks by key: from the cache, else read and inflated.

use std::sync::Arc;
use std::time::Instant;

use forebay_base::{Context, ErrorKind, PhysicalType, Result, SegmentId, limits};
use forebay_block::{InflatedChunk, inflate_chunk};
use forebay_cache::ChunkCache;
use forebay_cpu::compile::CompileCache;
use forebay_cpu::pool::Lease;
use forebay_disk::{AlignedBuffer, BufferPool, Disk, DiskFile};
use forebay_store::{Segment, Store};

use crate::Metrics;
use crate::accelerator::Accelerators;

/// Names one chunk of the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ChunkKey {
    /// The segment file.
    pub segment: SegmentId,
    /// Row group in the segment.
    pub group: u32,
    /// Column in the segment.
    pub column: u32,
    /// Chunk of the column in the row group.
    pub chunk: u32,
}

/// What scans of one database share.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    cache: ChunkCache<ChunkKey, InflatedChunk>,
    /// Stored bytes on their way from disk to inflation.
    buffers: BufferPool,
    /// Machine code of pipelines.
    code: CompileCache,
    /// Devices beside the CPU.
    accelerators: Accelerators,
    /// Where queries put what does not fit their memory.
    temporary: Arc<dyn Disk>,
    /// Keeps the threads that run pipelines.
    _workers: Lease,
}

/// A chunk that a scan wants, with what an error has to say about it.
#[derive(Debug, Clone, Copy)]
pub struct WantedChunk<'a> {
    /// Column in the segment.
    pub column: usize,
    /// Chunk of the column in the row group.
    pub chunk: usize,
    /// How the column's values lie.
    pub physical: PhysicalType,
    /// The column's name.
    pub name: &'a str,
}

impl Engine {
    /// An engine over `store` that keeps up to `cache_bytes` of inflated chunks, with temporary files on `temporary`.
    pub fn new(store: Store, cache_bytes: usize, temporary: Arc<dyn Disk>) -> Self {
        Self {
            store,
            cache: ChunkCache::new(cache_bytes),
            buffers: BufferPool::new(limits::READ_POOL_BYTES),
            code: CompileCache::default(),
            accelerators: Accelerators::default(),
            temporary,
            _workers: Lease::new(),
        }
    }

    /// The database below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The cache of inflated chunks.
    pub fn cache(&self) -> &ChunkCache<ChunkKey, InflatedChunk> {
        &self.cache
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

    /// The wanted chunks of one row group, in order. What is not in the cache is read in one go, several reads in
    /// flight, then inflated.
    pub fn chunks(
        &self,
        segment: &Segment,
        group: usize,
        wanted: &[WantedChunk<'_>],
        table: &str,
        metrics: &Metrics,
    ) -> Result<Vec<Arc<InflatedChunk>>> {
        let key = |wanted: &WantedChunk<'_>| ChunkKey {
            segment: segment.id(),
            group: group as u32,
            column: wanted.column as u32,
            chunk: wanted.chunk as u32,
        };
        let mut found: Vec<Option<Arc<InflatedChunk>>> =
            wanted.iter().map(|wanted| self.cache.get(&key(wanted))).collect();
        let missing: Vec<usize> = (0..wanted.len()).filter(|index| found[*index].is_none()).collect();
        if !missing.is_empty() {
            let places: Vec<(usize, usize, usize)> =
                missing.iter().map(|index| (group, wanted[*index].column, wanted[*index].chunk)).collect();
            let started = Instant::now();
            // What does not fit into the pool gets memory of its own.
            let take = |bytes| match self.buffers.take(bytes) {
                Err(error) if error.kind() == ErrorKind::OutOfMemory => AlignedBuffer::try_zeroed(bytes),
                taken => taken,
            };
            let buffers = segment.read_chunks_into(&places, &take).map_err(|error| match error.kind() {
                // A file that is too short or gone is damage to the table, and the user needs to know which.
                ErrorKind::Corrupt | ErrorKind::NotFound => {
                    // One at a time, since the reads together do not say which of them failed.
                    let fails = |place: &(usize, usize, usize)| segment.read_chunks(&[*place]).is_err();
                    let failed = &wanted[missing[places.iter().position(fails).unwrap_or(0)]];
                    error.context(segment.describe_chunk(failed.name, table, group, failed.chunk))
                }
                _ => error.context(format!("table {table}")),
            })?;
            metrics.read_ns.add(started.elapsed().as_nanos() as u64);
            let started = Instant::now();
            for (index, buffer) in missing.into_iter().zip(buffers) {
                let wanted = &wanted[index];
                metrics.read_bytes.add(buffer.len() as u64);
                let chunk = inflate_chunk(&buffer, wanted.physical)
                    .context(|| segment.describe_chunk(wanted.name, table, group, wanted.chunk))?;
                let chunk = Arc::new(chunk);
                self.cache.insert(key(wanted), Arc::clone(&chunk), chunk.memory_bytes());
                found[index] = Some(chunk);
            }
            metrics.inflate_ns.add(started.elapsed().as_nanos() as u64);
        }
        let chunks: Vec<_> = found.into_iter().flatten().collect();
        debug_assert_eq!(chunks.len(), wanted.len());
        Ok(chunks)
    }
}
