//! Chunks by key: from the cache, else read and inflated. Reading has two halves, so that others compute in between:
//! [`Engine::begin`] puts a read on its way, [`Engine::inflate`] waits for it and inflates.
//!
//! Where few blocks of a chunk are needed, only these are read and inflated ([`Extent`]). Such a part is kept as whole chunks are,
//! under the same key; who needs other blocks of it then reads and keeps the whole chunk. What stays does so inflated or as it is
//! stored, as the cache's policy wants.
//!
//! Invariants: stored and inflated bytes lie in memory that is used over and over, since pages that the kernel has to clear
//! first cost as much as reading them. A part of a chunk is never taken for one that has the blocks that are needed. Must not
//! know: which chunks a query needs, and when.

mod arriving;
mod costs;
mod extent;
mod keeping;
mod obtain;
mod stored;
mod warm_up;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use forebay_base::budget::Client;
use forebay_base::{ColumnId, PhysicalType, Result, SegmentId, TableId, limits};
use forebay_block::{BlockSet, ChunkMemory, InflatedChunk};
use forebay_cache::{ChunkCache, ColumnKey, Goals, PolicyKind, Seen};
use forebay_cpu::compile::CompileCache;
use forebay_cpu::pool::Lease;
use forebay_disk::{Disk, DiskFile, ReadPath};
use forebay_store::{BackupReport, Segment, Store, Table};

use crate::ScanSettings;
use crate::accelerator::Accelerators;
use crate::column_shares::ColumnShares;
use crate::facts::KnownFacts;
use crate::floors::Recorder;
use crate::kept_keys::KeptKeys;
use crate::memory::{Memory, MemoryShares, Urgency};
use crate::query_log::QueryLog;
use crate::rates::KeptRates;
use crate::run::RunningScans;

pub(crate) use arriving::Arrival;
use arriving::Arrivals;
pub(crate) use costs::Costs;
pub(crate) use extent::{Extent, runs_of};
pub use keeping::CacheForms;
pub(crate) use keeping::is_small;
pub use stored::StoredBytes;
pub(crate) use stored::StoredChunk;
pub use warm_up::Background;
use warm_up::Threads;

/// The cache of a database's chunks, inflated and as they are stored.
pub type Cache = ChunkCache<ChunkKey, InflatedChunk, StoredBytes>;

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

/// Where a chunk is, and what of it is needed.
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
    /// The blocks of the chunk that are needed.
    pub(crate) blocks: BlockSet,
}

impl ChunkKey {
    /// The key of a chunk of a column of the table.
    pub(crate) fn new(table: &Table, column: usize, (segment, group): (usize, usize), chunk: usize) -> Self {
        Self {
            table: table.id,
            column: table.columns[column].id,
            segment: table.segments[segment].id(),
            group: group as u32,
            chunk: chunk as u32,
        }
    }

    /// The column that it is of.
    pub(crate) fn column_key(&self) -> ColumnKey {
        ColumnKey { table: self.table, column: self.column }
    }
}

impl Place {
    /// Blocks of a chunk of a column of the table, which is column `index` of the segment.
    pub(crate) fn new(
        table: &Table,
        column: usize,
        (segment, group): (usize, usize),
        (index, chunk): (usize, usize),
        blocks: BlockSet,
    ) -> Self {
        let key = ChunkKey::new(table, column, (segment, group), chunk);
        Self { segment, group, column: index, chunk, key, blocks }
    }

    /// Row group, column and chunk, as the segment names it.
    pub(crate) fn in_segment(&self) -> (usize, usize, usize) {
        (self.group, self.column, self.chunk)
    }
}

/// What scans of one database share.
#[derive(Debug)]
pub struct Engine {
    store: Store,
    /// Where chunks lie, and those that are kept.
    memory: Memory,
    /// Chunks that were read and not kept.
    read_before: Seen<ChunkKey>,
    /// Chunks on their way.
    arrivals: Arc<Arrivals>,
    /// The scans that run.
    running_scans: Arc<RunningScans>,
    /// The reads that were begun, while somebody asks for them.
    recorder: Recorder,
    /// Machine code of pipelines.
    code: CompileCache,
    /// Devices beside the CPU.
    accelerators: Accelerators,
    /// Rates of this machine that were measured before.
    kept_rates: KeptRates,
    /// Facts about tables that were read.
    kept_keys: KeptKeys,
    known_facts: KnownFacts,
    /// The statements that were run.
    query_log: QueryLog,
    /// How much of each column is to stay.
    column_shares: Arc<ColumnShares>,
    /// The forms in which chunks stay: their place in [`CacheForms::ALL`].
    cache_forms: AtomicUsize,
    /// What is done in the background.
    threads: Arc<Threads>,
    /// Where queries put what does not fit their memory.
    temporary: Arc<dyn Disk>,
    /// By which other directories are reached.
    outside: Arc<dyn Disk>,
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
    /// The number of its first block among those of the table.
    pub(crate) ordinal: usize,
}

/// The policy of an engine that was told of none: it is as others are while there is memory for all chunks, and asks for the best shares once
/// there is not.
pub const DEFAULT_POLICY: PolicyKind = PolicyKind::Proportional;

impl Engine {
    /// An engine over `store` with this memory for chunks, and with temporary files on `temporary`.
    pub fn new(store: Store, shares: MemoryShares, temporary: Arc<dyn Disk>) -> Self {
        let query_log = QueryLog::new(store.record_log());
        let column_shares = Arc::new(ColumnShares::kept_in(store.side_file()));
        let memory = Memory::new(shares);
        store.limit_hot_rows(memory.hot_rows().clone());
        memory.cache().set_policy(DEFAULT_POLICY);
        Self {
            store,
            memory,
            read_before: Seen::new(limits::SEEN_CHUNKS),
            arrivals: Arc::default(),
            running_scans: Arc::default(),
            recorder: Recorder::default(),
            code: CompileCache::default(),
            accelerators: Accelerators::default(),
            kept_rates: KeptRates::default(),
            known_facts: KnownFacts::default(),
            kept_keys: KeptKeys::default(),
            query_log,
            column_shares,
            cache_forms: AtomicUsize::new(0),
            threads: Arc::default(),
            outside: Arc::clone(&temporary),
            temporary,
            _workers: Lease::new(),
        }
    }

    /// The same engine, which keeps what it measures of this machine.
    pub fn keeping_rates(self, kept_rates: KeptRates) -> Self {
        Self { kept_rates, ..self }
    }

    /// The same engine, which reaches directories outside of the database as `outside` does.
    pub fn reaching(self, outside: Arc<dyn Disk>) -> Self {
        Self { outside, ..self }
    }

    /// Makes a backup of the database in the directory at this absolute path ([`Store::back_up`]).
    ///
    /// # Errors
    /// As there.
    pub fn back_up(
        &self,
        path: &str,
        holder: &str,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<BackupReport> {
        self.store.back_up(self.outside.elsewhere(path)?, holder, progress)
    }

    /// Rates of this machine that were measured before.
    pub fn kept_rates(&self) -> &KeptRates {
        &self.kept_rates
    }

    /// Keys of blocks that were asked for lately.
    pub(crate) fn kept_keys(&self) -> &KeptKeys {
        &self.kept_keys
    }

    /// Facts about tables that were read.
    pub(crate) fn known_facts(&self) -> &KnownFacts {
        &self.known_facts
    }

    /// The statements that were run.
    pub fn query_log(&self) -> &QueryLog {
        &self.query_log
    }

    /// The database below.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// The cache of chunks.
    pub fn cache(&self) -> &Arc<Cache> {
        self.memory.cache()
    }

    /// This policy decides which chunks stay, [`DEFAULT_POLICY`] before somebody says so. If it has goals those of the last process are
    /// its first, and chunks for them are read while the disk has nothing else to do; without having been told to, they are its first
    /// when memory is short.
    pub fn set_cache_policy(self: &Arc<Self>, kind: PolicyKind) {
        let is_new = self.cache().policy_kind() != kind;
        if is_new {
            self.column_shares.forget_plan();
            self.cache().set_policy(kind);
        }
        if kind == PolicyKind::Proportional && (is_new || !self.column_shares.has_recalled()) {
            let goals = self.column_shares.recall();
            self.cache().aim(&goals);
            warm_up::begin(self, goals);
        }
    }

    /// Keeps chunks in these forms from now on; what is there in another one stays until there is no room for it.
    pub fn set_cache_forms(&self, forms: CacheForms) {
        let place = CacheForms::ALL.iter().position(|known| *known == forms).unwrap_or_default();
        if self.cache_forms.swap(place, Ordering::Relaxed) != place {
            self.column_shares.set_forms(forms.of_goals());
            self.cache().aim(&Goals::new());
        }
    }

    /// The forms in which it keeps chunks.
    pub fn cache_forms(&self) -> CacheForms {
        CacheForms::ALL[self.cache_forms.load(Ordering::Relaxed)]
    }

    /// Keeps the chunks with which queries take at most so many times as long as with all of them, in the least memory for that, or
    /// as many as there is memory for.
    pub fn set_memory_goal(&self, slowdown: Option<f64>) {
        self.column_shares.set_slowdown(slowdown);
        self.cache().save(slowdown.is_some());
    }

    /// Keeps at most so many bytes of chunks from now on, or as many as it was given.
    pub fn set_cache_bytes(&self, bytes: Option<usize>) {
        self.memory.keep_at_most(bytes);
    }

    /// How much of each column is to stay in memory.
    pub fn column_shares(&self) -> &Arc<ColumnShares> {
        &self.column_shares
    }

    /// Opens the account of a statement with this text.
    pub fn open_account(&self, text: &str) -> Client {
        self.memory.open_account(text)
    }

    /// Memory for chunks and queries.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Bytes of memory that hold stored chunks at the moment, on their way from the disk or waiting to be inflated.
    pub fn stored_bytes(&self) -> usize {
        self.memory.stored_bytes()
    }

    /// A new temporary file.
    pub fn temporary_file(&self) -> Result<Arc<dyn DiskFile>> {
        self.temporary.temporary()
    }

    /// Where temporary files are.
    pub(crate) fn temporary(&self) -> &dyn Disk {
        self.temporary.as_ref()
    }

    /// Pipelines that were compiled before.
    pub fn code(&self) -> &CompileCache {
        &self.code
    }

    /// Devices beside the CPU.
    pub fn accelerators(&self) -> &Accelerators {
        &self.accelerators
    }

    /// Whether the needed blocks of a chunk are in the cache, in any form; asking is no use of them.
    pub(crate) fn is_cached(&self, place: &Place) -> bool {
        let Place { key, blocks, .. } = place;
        self.cache().peek(key).is_some_and(|chunk| chunk.has_all(blocks))
            || self.cache().peek_stored(key).is_some_and(|stored| stored.has_all(blocks))
    }

    /// What to read of a chunk whose needed blocks are not in the cache. Of one that others keep a part of, all: it is needed
    /// here and there.
    pub(crate) fn extent(&self, segment: &Segment, place: &Place, settings: &ScanSettings) -> Result<Extent> {
        match settings.read_blocks && !self.cache().contains(&place.key) {
            true => Extent::of(segment, place),
            false => Extent::whole(segment, place),
        }
    }

    /// Puts the read of a chunk, or of the part `extent` of it, on its way. Where it is not needed now and there is no memory for
    /// it, that is an error of kind `OutOfMemory`.
    pub(crate) fn begin(
        &self,
        segment: &Segment,
        place: &Place,
        extent: Extent,
        path: ReadPath,
        urgency: Urgency,
    ) -> Result<StoredChunk> {
        let take = |bytes| self.memory.stored(bytes, urgency);
        let ticket = segment.submit_chunk(place.in_segment(), &extent.runs, &take, path)?;
        self.recorder.note(&Place { blocks: extent.blocks, ..*place });
        Ok(StoredChunk::new(ticket, extent))
    }

    /// The same, for all who need the chunk.
    pub(crate) fn begin_for_all(
        &self,
        segment: &Segment,
        place: &Place,
        settings: &ScanSettings,
        urgency: Urgency,
        is_timed: bool,
    ) -> Result<Arc<Arrival>> {
        let begun = is_timed.then(Instant::now);
        let extent = self.extent(segment, place, settings)?;
        let stored = self.begin(segment, place, extent, settings.read_path, urgency)?;
        Ok(self.arrivals.begun(place.key, stored.begun(begun)))
    }

    /// Whether the needed blocks of a chunk are on their way, for whomever.
    pub(crate) fn is_arriving(&self, place: &Place) -> bool {
        self.arrivals.find(place).is_some()
    }

    /// The scans that run.
    pub(crate) fn running_scans(&self) -> &Arc<RunningScans> {
        &self.running_scans
    }

    /// Memory for an inflated chunk.
    pub(crate) fn inflated_memory(&self, bytes: usize) -> Result<Box<dyn ChunkMemory>> {
        self.memory.inflated(bytes)
    }

    pub(crate) fn recorder(&self) -> &Recorder {
        &self.recorder
    }
}
