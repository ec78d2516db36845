//! Chooses how the columns of a table are stored (GOLAP §3.4): row groups are taken at random, their blocks sealed by every
//! plan of a grid, and the costs compared.
//!
//! Invariants: rates are measured on the sample itself, on one core, where none were kept of this machine, and quantised by
//! `forebay_block::choose`; the cache is neither asked nor filled. Must not know: what is done with the choice.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use forebay_base::{Context, Error, PhysicalType, Result, limits};
use forebay_block::choose::{
    Cost, EncodedGroup, Machine, Objective, Plan, Rates, Timing, balance, choose as choose_plan, estimate_all, sample,
};
use forebay_block::{BlockSet, Compression, Inflate, Scheme, directory_summary, inflate_chunk};
use forebay_cpu::pool;
use forebay_cpu::simd::{SimdLevel, unpacking};
use forebay_disk::ReadPath;
use forebay_store::Table;

use crate::CancelToken;
use crate::chunks::{Engine, Extent, Place};
use crate::floors::RecordedReads;
use crate::memory::Urgency;
use crate::rates::{MachineRates, RateSource};

/// The row groups that plans are chosen by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// How many of the table's, in percent; at least one row group is taken.
    pub percent: u32,
    /// How many at most.
    pub most_groups: usize,
}

impl Default for Share {
    /// The largest share of the paper's, and no more than tell what four million rows are like.
    fn default() -> Self {
        Self { percent: 10, most_groups: 8 }
    }
}

/// The same table gives the same sample.
const SEED: u64 = 0x464f_5245;

/// Bytes per second of the drive that `SET compression_rates = fixed` stands for.
const FIXED_DISK_BYTES_PER_S: f64 = 1e9;

/// Bytes below which reading says nothing of a drive's bandwidth.
const LEAST_READ_BYTES: u64 = 8 << 20;

/// Bytes in memory below which a timing says more of the clock and the data than of a scheme.
const LEAST_TIMED_BYTES: u64 = 2 << 20;

/// Times that a chunk is inflated, of which the fastest counts.
const TIMED_RUNS: usize = 3;

/// A scheme's frames are timed where at least so many percent of a chunk's plain bytes are stored by it.
const TIMED_PERCENT: u64 = 90;

/// Encoded blocks of one column in one row group.
#[derive(Debug)]
struct OwnedGroup {
    bytes: Vec<u8>,
    block_offsets: Vec<u32>,
}

impl OwnedGroup {
    fn borrowed(&self) -> EncodedGroup<'_> {
        EncodedGroup { bytes: &self.bytes, block_offsets: &self.block_offsets }
    }
}

/// Row groups of a table that stand for all of it.
#[derive(Debug)]
pub struct Sample<'a> {
    engine: &'a Engine,
    threads: usize,
    columns: Vec<SampledColumn>,
    reads: RecordedReads,
    /// Row groups that were taken, and those of the table.
    groups: (usize, usize),
}

/// A column of the table.
#[derive(Debug)]
struct SampledColumn {
    physical: PhysicalType,
    /// The encoded blocks of each sampled row group that has the column.
    groups: Vec<OwnedGroup>,
    /// Bytes that their chunks and directories take now.
    stored_bytes: u64,
}

/// What plans cost for a column, in the order of the table's columns.
pub type ColumnCosts = Vec<(Plan, Cost)>;

/// The rates that costs are modelled by.
#[derive(Debug, Clone, Copy)]
pub struct Environment {
    /// Of one core.
    pub rates: Rates,
    /// The drive and the number of cores.
    pub machine: Machine,
}

impl Environment {
    /// By the rates that the engine keeps of this machine, and those of a common one in place of others; nothing is measured.
    pub(crate) fn kept(engine: &Engine, threads: usize) -> Self {
        Self::of(&engine.kept_rates().known(threads), threads)
    }

    fn of(known: &MachineRates, threads: usize) -> Self {
        let rates = known.schemes.iter().fold(Rates::fixed(), |rates, (scheme, rate)| rates.with(*scheme, *rate));
        let disk_bytes_per_s = known.disk_bytes_per_s.unwrap_or(FIXED_DISK_BYTES_PER_S);
        Self { rates, machine: Machine { disk_bytes_per_s, cores: threads.max(1) } }
    }
}

impl<'a> Sample<'a> {
    /// Reads a share of the row groups of `table`.
    pub fn take(engine: &'a Engine, table: &Table, share: Share, threads: usize, cancel: &CancelToken) -> Result<Self> {
        let mut all = Vec::new();
        for (number, segment) in table.segments.iter().enumerate() {
            all.extend((0..segment.groups()?.len()).map(|group| (number, group)));
        }
        let mut chosen: Vec<(usize, usize)> =
            sample(all.len(), share.percent, SEED).into_iter().map(|at| all[at]).collect();
        if chosen.len() > share.most_groups {
            let step = chosen.len() as f64 / share.most_groups as f64;
            chosen = (0..share.most_groups).map(|number| chosen[(number as f64 * step) as usize]).collect();
        }
        let empty = |physical| SampledColumn { physical, groups: Vec::new(), stored_bytes: 0 };
        let mut columns: Vec<_> = table.columns.iter().map(|column| empty(column.logical.physical())).collect();
        let (mut places, groups) = (Vec::new(), (chosen.len(), all.len()));
        for (number, group) in chosen {
            let segment = &table.segments[number];
            for (index, column) in table.columns.iter().enumerate() {
                cancel.check()?;
                let Some(at) = segment.column_index(column.id) else { continue };
                let chunks = segment.groups()?[group].columns[at].chunks.len();
                let mut blocks = OwnedGroup { bytes: Vec::new(), block_offsets: Vec::new() };
                for chunk in 0..chunks {
                    let all = BlockSet::first(segment.groups()?[group].columns[at].blocks_of(chunk).len());
                    let place = Place::new(table, index, (number, group), (at, chunk), all);
                    let describe = || segment.describe_chunk(&column.name, &table.full_name(), group, chunk);
                    let extent = Extent::whole(segment, &place)?;
                    let stored =
                        engine.begin(segment, &place, extent, ReadPath::Direct, Urgency::Now).context(describe)?;
                    let stored = stored.wait().context(describe)?;
                    let directory = segment.directory(group, at, chunk)?;
                    let physical = columns[index].physical;
                    let inflated = stored.inflate(segment, &place, physical, &Inflate::default());
                    let inflated = inflated.context(describe)?;
                    let start = blocks.bytes.len() as u32;
                    blocks.block_offsets.extend(inflated.block_offsets().iter().map(|offset| start + offset));
                    blocks.bytes.extend_from_slice(inflated.as_bytes());
                    columns[index].stored_bytes += (stored.len() + directory.len()) as u64;
                    places.push((Arc::clone(segment), place));
                }
                columns[index].groups.push(blocks);
            }
        }
        Ok(Self { engine, threads, columns, reads: RecordedReads::of(places), groups })
    }

    /// Row groups of the sample, and those of the table.
    pub fn groups(&self) -> (usize, usize) {
        self.groups
    }

    /// Bytes that the sampled chunks of a column and their directories take on disk now.
    pub fn stored_bytes(&self, column: usize) -> u64 {
        self.columns[column].stored_bytes
    }

    /// The rates of this machine, or the fixed ones. What the engine keeps none of is measured on the sample, and kept.
    pub fn environment(&self, source: RateSource) -> Result<Environment> {
        let kept = self.engine.kept_rates();
        let mut known = match source {
            RateSource::Fixed => MachineRates::default(),
            RateSource::Measured | RateSource::Remeasured => kept.get(self.threads),
        };
        let before = known.clone();
        match source {
            RateSource::Fixed => {}
            RateSource::Measured => self.measure(&before, &mut known)?,
            RateSource::Remeasured => self.measure(&MachineRates::default(), &mut known)?,
        }
        if known != before {
            kept.put(self.threads, &known);
        }
        Ok(Environment::of(&known, self.threads))
    }

    /// Measures what `known` lacks and the sample has enough of, and puts it into `found`.
    fn measure(&self, known: &MachineRates, found: &mut MachineRates) -> Result<()> {
        // Few columns have outliers to time, and but for those patched frames are packed ones.
        let timed = Scheme::ALL.into_iter().filter(|scheme| *scheme != Scheme::Patched);
        for scheme in timed.filter(|scheme| known.of(*scheme).is_none()) {
            let mut sum = Timing { plain_bytes: 0, seconds: 0.0 };
            for column in &self.columns {
                let Some(group) = column.groups.first() else { continue };
                let Some(timing) = self.timing(scheme, group, column.physical)? else { continue };
                sum =
                    Timing { plain_bytes: sum.plain_bytes + timing.plain_bytes, seconds: sum.seconds + timing.seconds };
            }
            if let Some(rate) = sum.rate().filter(|_| sum.plain_bytes >= LEAST_TIMED_BYTES) {
                found.set(scheme, rate);
                if scheme == Scheme::BitPacked {
                    found.set(Scheme::Patched, rate);
                }
            }
        }
        if known.disk_bytes_per_s.is_none() {
            let (elapsed, bytes) = self.reads.read(self.engine, ReadPath::Direct)?;
            let read = Timing { plain_bytes: bytes, seconds: elapsed.as_secs_f64() };
            if let Some(rate) = read.rate().filter(|_| bytes >= LEAST_READ_BYTES) {
                found.disk_bytes_per_s = Some(rate);
            }
        }
        Ok(())
    }

    /// How long a group's blocks take to inflate when all of their frames are stored by `scheme`, the fastest time of several;
    /// `None` where it cannot hold them.
    fn timing(&self, scheme: Scheme, group: &OwnedGroup, physical: PhysicalType) -> Result<Option<Timing>> {
        let plan = Plan { compression: Compression::Force(scheme), blocks_per_chunk: limits::GROUP_BLOCKS as u16 };
        let take = |bytes| self.engine.inflated_memory(bytes);
        let inflate = Inflate { take: &take, unpack: unpacking(SimdLevel::best()) };
        let mut sum = Timing { plain_bytes: 0, seconds: 0.0 };
        for sealed in plan.fitting(&group.borrowed()).seal(&group.borrowed())? {
            let schemes = directory_summary(&sealed.directory, physical)?;
            let all_bytes: u64 = schemes.iter().map(|summary| summary.plain_bytes).sum();
            let own_bytes: u64 =
                schemes.iter().filter(|summary| summary.scheme == scheme).map(|summary| summary.plain_bytes).sum();
            if own_bytes * 100 < all_bytes * TIMED_PERCENT || all_bytes == 0 {
                return Ok(None);
            }
            // Memory of the pool may be fresh the first time, and others may take the core at any.
            let mut fastest = f64::INFINITY;
            for _ in 0..TIMED_RUNS {
                let started = Instant::now();
                inflate_chunk(&sealed.directory, &sealed.bytes, physical, &inflate)?;
                fastest = fastest.min(started.elapsed().as_secs_f64());
            }
            sum.seconds += fastest;
            sum.plain_bytes += all_bytes;
        }
        Ok((sum.seconds > 0.0).then_some(sum))
    }

    /// What every plan of the grid costs for each column; nothing for a column that the sample has no blocks of.
    pub fn costs(&self, environment: &Environment, cancel: &CancelToken) -> Result<Vec<ColumnCosts>> {
        let next = AtomicUsize::new(0);
        let costs: Vec<Mutex<ColumnCosts>> = self.columns.iter().map(|_| Mutex::default()).collect();
        let ends = pool::run(self.threads.max(1), || -> Result<()> {
            loop {
                let index = next.fetch_add(1, Ordering::Relaxed);
                let Some(SampledColumn { physical, groups, .. }) = self.columns.get(index) else { return Ok(()) };
                cancel.check()?;
                if groups.is_empty() {
                    continue;
                }
                let plans = Plan::grid(*physical, limits::GROUP_BLOCKS);
                let groups: Vec<EncodedGroup<'_>> = groups.iter().map(OwnedGroup::borrowed).collect();
                let found = estimate_all(&plans, &groups, *physical, &environment.rates, &environment.machine)?;
                let mut place = costs[index].lock().unwrap_or_else(PoisonError::into_inner);
                *place = plans.into_iter().zip(found).collect();
            }
        });
        for end in ends {
            end.map_err(|_| Error::internal("a thread that chose plans panicked"))??;
        }
        Ok(costs.into_iter().map(|costs| costs.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
    }
}

/// The plan of every column that meets the objective; columns that nothing is known of are stored as loads store them.
pub fn choose(objective: Objective, columns: &[&[(Plan, Cost)]]) -> Vec<Plan> {
    let unknown = Plan { compression: Compression::Balanced, blocks_per_chunk: limits::GROUP_BLOCKS as u16 };
    let costs: Vec<Vec<Cost>> = columns.iter().map(|column| column.iter().map(|(_, cost)| *cost).collect()).collect();
    let joint = match objective {
        // What columns cost is weighed over all of them.
        Objective::Balanced => {
            let known: Vec<&[Cost]> = costs.iter().map(Vec::as_slice).filter(|costs| !costs.is_empty()).collect();
            balance(&known).unwrap_or_default()
        }
        Objective::BestTime | Objective::BestRatio => {
            costs.iter().filter_map(|costs| choose_plan(objective, costs)).collect()
        }
    };
    let mut joint = joint.into_iter();
    let chosen = columns.iter().map(|column| match column.is_empty() {
        true => unknown,
        false => joint.next().map_or(unknown, |index| column[index].0),
    });
    chosen.collect()
}
