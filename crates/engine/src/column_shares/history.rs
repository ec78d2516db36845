//! The last pipelines, and what is known of the columns that they read.
//!
//! Must not know: what is made of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use forebay_base::TableId;
use forebay_cache::ColumnKey;
use forebay_placement::{Column, Forms, Machine, Model, Need, Pipeline, Workload};

use super::ColumnFigures;
use super::slowdown::{Kind, Measured, Slowdown};
use crate::traffic::{ColumnTraffic, Traffic};

/// Pipelines that are remembered (L of the paper): of some tens of queries.
pub(super) const PIPELINES: usize = 128;
/// What a pipeline counts beside the one behind it: the oldest a quarter of the last one, so that goals stay while queries come in
/// turn.
const DECAY: f64 = 0.99;
/// Pipelines that took less, or read fewer inflated bytes, are too short to tell anything.
const LEAST_TIME: Duration = Duration::from_millis(1);
const LEAST_BYTES: u64 = 1 << 20;
/// What a rate of inflating counts beside those before: a faster one, and a slower one. What slows inflating down, as memory that the kernel
/// clears first, is none of the column's, and nothing makes it faster than it is.
const FASTER_NEWS: f64 = 0.5;
const SLOWER_NEWS: f64 = 0.05;
/// Inflated bytes that one core makes in a second where nothing was measured: about what the fast schemes do.
const INFLATE_BYTES_PER_S: f64 = 2e9;
/// Columns whose rates are remembered although none of the last pipelines read them.
const COLUMNS: usize = 4096;
/// Bytes that pipelines must have read before they tell how fast the disk is.
const TELLING_READ_BYTES: u64 = 16 << 20;
/// A pipeline whose workers waited for the disk for more than this part of their time was bound by it.
const BOUND_BY_DISK: f64 = 0.25;
/// What a pipeline counts beside the one behind it, where reading and computing are compared with what both took.
const FADING: f64 = 0.97;
/// The shorter one of reading and computing tells how well both overlap if it is at least this part of the longer one.
const TELLING_PART: f64 = 0.1;
/// The most of it that is taken to be exposed, and the least where shares are chosen: of plans that would take the same time if all were
/// hidden, the one that reads less is the safer one.
const MOST_EXPOSED: f64 = 0.5;
const LEAST_EXPOSED: f64 = 0.1;
/// Runs of a pipeline whose median work is that of the next one.
const RUNS: usize = 5;
/// What a disk gives where nothing was measured.
const DISK_BYTES_PER_S: f64 = 1e9;
/// What memory gives one core where no pipeline had more of it: a careful figure for today's machines.
const MEMORY_BYTES_PER_S: f64 = 8e9;

/// What is known of a pipeline that ran.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ran {
    /// What came of its columns.
    pub(crate) traffic: Traffic,
    /// Of these, bytes of the whole column: stored and inflated.
    pub(crate) sizes: BTreeMap<ColumnKey, (u64, u64)>,
    /// Rows that came to its first step, and that it left.
    pub(crate) rows: (u64, u64),
    pub(crate) elapsed: Duration,
    /// Time of one core that it computed once its chunks were there.
    pub(crate) work: Duration,
    /// Time that its workers waited for the disk, one after the other.
    pub(crate) waited: Duration,
    pub(crate) threads: usize,
}

impl Ran {
    fn sum(&self, of: impl FnMut(&ColumnTraffic) -> u64) -> u64 {
        self.traffic.values().map(of).sum()
    }

    /// What it will have done at its end, of which it has done this part.
    pub(crate) fn extrapolated(mut self, part: f64) -> Self {
        self.traffic.values_mut().for_each(|column| *column = column.times(part.recip()));
        self.elapsed = self.elapsed.div_f64(part);
        self.work = self.work.div_f64(part);
        self.waited = self.waited.div_f64(part);
        self
    }

    fn read_bytes(&self) -> u64 {
        self.sum(|column| column.disk.stored_bytes)
    }

    /// Whether all that it read was in memory, in the fastest of these forms.
    fn was_in_memory(&self, forms: Forms) -> bool {
        self.read_bytes() == 0 && (!forms.inflated || self.sum(|column| column.stored.inflated_bytes) == 0)
    }

    fn inflated_bytes(&self) -> u64 {
        self.sum(|column| column.inflated_bytes())
    }

    /// Whether its time is that of its reads.
    fn is_bound_by_disk(&self) -> bool {
        self.waited.as_secs_f64() > self.elapsed.as_secs_f64() * self.threads as f64 * BOUND_BY_DISK
    }

    /// Whether both are the same pipeline, as far as can be told: of the same columns, and as many rows.
    fn is_like(&self, other: &Self) -> bool {
        self.threads == other.threads && self.rows == other.rows && self.traffic.keys().eq(other.traffic.keys())
    }

    fn kind(&self) -> Kind {
        (self.traffic.keys().copied().collect(), self.rows.0.max(1).ilog2(), self.threads)
    }

    /// Whether it is long enough to tell something.
    pub(crate) fn tells(&self) -> bool {
        self.elapsed >= LEAST_TIME && self.inflated_bytes() >= LEAST_BYTES
    }
}

/// How fast a machine was.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Rates {
    /// What the disk gave.
    pub(super) disk_bytes_per_s: Option<f64>,
    /// Inflated bytes that a core made of a column in a second.
    pub(super) inflate_bytes_per_s: BTreeMap<ColumnKey, f64>,
}

/// The last pipelines.
#[derive(Debug, Clone, Default)]
pub(super) struct History {
    /// The oldest first.
    pipelines: VecDeque<Ran>,
    /// Inflated bytes that a core makes of a column in a second.
    inflate_bytes_per_s: BTreeMap<ColumnKey, f64>,
    /// What the disk gave when pipelines waited for it last: those may be none of the last ones any more.
    disk_bytes_per_s: Option<f64>,
    /// Of those that read and computed, older ones less: seconds of the shorter one of both, and what they took longer than the longer
    /// one.
    shorter_s: f64,
    exposed_s: f64,
    slowdown: Slowdown,
}

impl History {
    pub(super) fn is_empty(&self) -> bool {
        self.pipelines.is_empty()
    }

    /// Adds the pipelines of a query that took so long; columns may stay in these forms.
    pub(super) fn add_query(&mut self, pipelines: Vec<Ran>, elapsed: Duration, forms: Forms) {
        // The small ones tell something at one time, and are too short at another one.
        if let Some(largest) = pipelines.iter().filter(|ran| ran.tells()).max_by_key(|ran| ran.inflated_bytes()) {
            let was_in_memory = pipelines.iter().all(|ran| ran.was_in_memory(forms));
            self.slowdown.add(largest.kind(), elapsed.as_secs_f64(), was_in_memory);
        }
        pipelines.into_iter().for_each(|ran| self.add(ran));
    }

    /// Adds a pipeline, unless it is too short.
    pub(super) fn add(&mut self, ran: Ran) {
        if !ran.tells() {
            return;
        }
        for (key, column) in &ran.traffic {
            let inflated_bytes = column.stored.inflated_bytes + column.disk.inflated_bytes;
            if column.inflate_ns > 0 && inflated_bytes >= LEAST_BYTES {
                let rate = inflated_bytes as f64 / column.inflate_ns as f64 * 1e9;
                let known = self.inflate_bytes_per_s.entry(*key).or_insert(rate.max(INFLATE_BYTES_PER_S));
                *known += (rate - *known) * if rate > *known { FASTER_NEWS } else { SLOWER_NEWS };
            }
        }
        let took_s = ran.elapsed.as_secs_f64();
        let parts = self.parts(&ran).filter(|parts| parts.shorter() > parts.longer() * TELLING_PART);
        if let Some(parts) = parts {
            self.shorter_s = self.shorter_s * FADING + parts.shorter();
            self.exposed_s = self.exposed_s * FADING + (took_s - parts.longer());
        }
        if self.pipelines.len() == PIPELINES {
            self.pipelines.pop_front();
        }
        self.pipelines.push_back(ran);
        self.disk_bytes_per_s = self.bound_bytes_per_s().or(self.disk_bytes_per_s);
        let Self { pipelines, inflate_bytes_per_s, .. } = self;
        if inflate_bytes_per_s.len() > COLUMNS {
            inflate_bytes_per_s.retain(|key, _| pipelines.iter().any(|ran| ran.traffic.contains_key(key)));
        }
    }

    /// What is known of the machine, for the next process.
    pub(super) fn rates(&self) -> Rates {
        Rates { disk_bytes_per_s: self.disk_bytes_per_s, inflate_bytes_per_s: self.inflate_bytes_per_s.clone() }
    }

    /// What an earlier process knew of the machine, where nothing else is known.
    pub(super) fn recall(&mut self, rates: Rates) {
        self.disk_bytes_per_s = self.disk_bytes_per_s.or(rates.disk_bytes_per_s);
        for (key, rate) in rates.inflate_bytes_per_s {
            self.inflate_bytes_per_s.entry(key).or_insert(rate);
        }
    }

    /// The same, as if nobody read these tables.
    pub(super) fn without(mut self, tables: &BTreeSet<TableId>) -> Self {
        for ran in &mut self.pipelines {
            ran.traffic.retain(|key, _| !tables.contains(&key.table));
            ran.sizes.retain(|key, _| !tables.contains(&key.table));
        }
        self
    }

    /// The columns that they read.
    pub(super) fn columns(&self) -> impl Iterator<Item = &ColumnKey> {
        self.sizes().into_keys()
    }

    /// The sizes of whole columns, as the last pipeline saw them.
    fn sizes(&self) -> BTreeMap<&ColumnKey, (u64, u64)> {
        self.pipelines.iter().flat_map(|ran| &ran.sizes).map(|(key, sizes)| (key, *sizes)).collect()
    }

    /// What is known of a column, without a goal.
    pub(super) fn column(&self, key: &ColumnKey) -> ColumnFigures {
        let sizes = self.pipelines.iter().rev().find_map(|ran| ran.sizes.get(key));
        let (stored, inflated) = sizes.copied().unwrap_or_default();
        ColumnFigures {
            stored_bytes: stored as f64,
            inflated_bytes: inflated as f64,
            inflate_bytes_per_s: self.inflate_bytes_per_s.get(key).copied(),
            goal: None,
        }
    }

    fn inflate_s(&self, key: &ColumnKey, inflated_bytes: u64) -> f64 {
        inflated_bytes as f64 / self.inflate_bytes_per_s.get(key).copied().unwrap_or(INFLATE_BYTES_PER_S)
    }

    /// What pipelines that waited for the disk had of it, all together, since it reads for the next ones while one runs.
    fn bound_bytes_per_s(&self) -> Option<f64> {
        let bound = || self.pipelines.iter().filter(|ran| ran.is_bound_by_disk());
        let bytes: u64 = bound().map(Ran::read_bytes).sum();
        let seconds: f64 = bound().map(|ran| ran.elapsed.as_secs_f64()).sum();
        (bytes >= TELLING_READ_BYTES).then(|| bytes as f64 / seconds)
    }

    /// What the disk gives: what pipelines that waited for it had of it, else the most that one had, or what was measured before.
    fn disk_bytes_per_s(&self, measured: Option<f64>) -> Option<f64> {
        let telling = self.pipelines.iter().filter(|ran| ran.read_bytes() >= TELLING_READ_BYTES);
        let rates = telling.map(|ran| ran.read_bytes() as f64 / ran.elapsed.as_secs_f64());
        self.disk_bytes_per_s.or_else(|| rates.chain(measured).max_by(f64::total_cmp))
    }

    /// What memory gives so many threads: pipelines may have had more of it than is known of machines.
    fn memory_bytes_per_s(&self, threads: f64) -> f64 {
        let rates = self.pipelines.iter().map(|ran| ran.inflated_bytes() as f64 / ran.elapsed.as_secs_f64());
        rates.fold(MEMORY_BYTES_PER_S * threads, f64::max)
    }

    /// How many times as long as with everything in memory queries have taken since that was asked last, or since there were
    /// other shares.
    pub(super) fn take_slowdown(&mut self) -> Measured {
        self.slowdown.take()
    }

    /// There are other shares: what runs next brings chunks in and out.
    pub(super) fn begin_anew(&mut self) {
        self.slowdown.begin_anew();
    }

    /// All of it as a workload over these columns.
    pub(super) fn workload(
        &self,
        (model, forms): (Model, Forms),
        disk_bytes_per_s: Option<f64>,
    ) -> (Vec<ColumnKey>, Workload) {
        let sizes = self.sizes();
        let keys: Vec<ColumnKey> = sizes.keys().map(|key| **key).collect();
        let column =
            |(stored, inflated): (u64, u64)| Column { stored_bytes: stored as f64, inflated_bytes: inflated as f64 };
        let columns = sizes.values().map(|sizes| column(*sizes)).collect();
        let pipeline = |(age, ran): (usize, &Ran)| {
            let needs = ran.traffic.iter().filter_map(|(key, traffic)| {
                let (stored_bytes, inflated_bytes) = (traffic.stored_bytes() as f64, traffic.inflated_bytes());
                let inflate_s = self.inflate_s(key, inflated_bytes);
                let column = keys.binary_search(key).ok()?;
                Some(Need { column, stored_bytes, inflated_bytes: inflated_bytes as f64, inflate_s })
            });
            Pipeline { weight: DECAY.powi(age as i32), needs: needs.collect(), work_s: ran.work.as_secs_f64() }
        };
        let pipelines = self.pipelines.iter().rev().enumerate().map(pipeline).collect();
        let threads = self.pipelines.iter().map(|ran| ran.threads).max().unwrap_or(1).max(1) as f64;
        let machine = Machine {
            disk_bytes_per_s: self.disk_bytes_per_s(disk_bytes_per_s).unwrap_or(DISK_BYTES_PER_S),
            memory_bytes_per_s: self.memory_bytes_per_s(threads),
            cores: threads,
            exposed: self.exposed().max(LEAST_EXPOSED),
        };
        (keys, Workload { columns, pipelines, machine, model, forms })
    }

    /// The part of the shorter one of reading and computing that pipelines did not hide lately.
    fn exposed(&self) -> f64 {
        if self.shorter_s > 0.0 { (self.exposed_s / self.shorter_s).clamp(0.0, MOST_EXPOSED) } else { 0.0 }
    }

    /// What bounds a pipeline with what came from where, by its work when it ran before; `None` where nobody knows how fast the disk
    /// is.
    fn parts(&self, ran: &Ran) -> Option<Parts> {
        let read_bytes = ran.read_bytes();
        let disk = if read_bytes == 0 { f64::INFINITY } else { self.disk_bytes_per_s(None)? };
        let threads = ran.threads.max(1) as f64;
        let inflating = |(key, column): (&ColumnKey, &ColumnTraffic)| {
            self.inflate_s(key, column.stored.inflated_bytes + column.disk.inflated_bytes)
        };
        let before = self.pipelines.iter().rev().filter(|before| before.is_like(ran)).take(RUNS);
        let mut works: Vec<Duration> = before.map(|before| before.work).collect();
        works.sort_unstable();
        let work = works.get(works.len() / 2).copied().unwrap_or(ran.work);
        let work_s = work.as_secs_f64() + ran.traffic.iter().map(inflating).sum::<f64>();
        let memory_s = ran.inflated_bytes() as f64 / self.memory_bytes_per_s(threads);
        Some(Parts { read_s: read_bytes as f64 / disk, work_s: work_s / threads, memory_s })
    }

    /// What the model says of a pipeline with what came from where; `None` where too little is known.
    pub(super) fn expected(&self, ran: &Ran) -> Option<Duration> {
        self.parts(ran).map(|parts| Duration::from_secs_f64(parts.seconds(self.exposed())))
    }
}

/// What bounds a pipeline's time, in seconds.
#[derive(Debug, Clone, Copy)]
struct Parts {
    read_s: f64,
    work_s: f64,
    memory_s: f64,
}

impl Parts {
    fn longer(&self) -> f64 {
        self.read_s.max(self.work_s)
    }

    fn shorter(&self) -> f64 {
        self.read_s.min(self.work_s)
    }

    /// Its time, where this part of the shorter one is not hidden.
    fn seconds(&self, exposed: f64) -> f64 {
        (self.longer() + exposed * self.shorter()).max(self.memory_s)
    }
}
