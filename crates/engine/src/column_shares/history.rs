//! The last pipelines, and what is known of the columns that they read.
//!
//! Must not know: what is made of it.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use forebay_base::TableId;
use forebay_cache::ColumnKey;
use forebay_placement::{Column, Forms, Machine, Model, Need, Pipeline, Workload};

use super::ColumnFigures;
use crate::traffic::{ColumnTraffic, Traffic};

/// Pipelines that are remembered (L of the paper): of some tens of queries.
pub(super) const PIPELINES: usize = 128;
/// What a pipeline counts beside the one behind it: the oldest a quarter of the last one, so that goals stay while queries come in
/// turn.
const DECAY: f64 = 0.99;
/// Pipelines that took less, or read fewer inflated bytes, are too short to tell anything.
const LEAST_TIME: Duration = Duration::from_millis(1);
const LEAST_BYTES: u64 = 1 << 20;
/// What a new rate counts beside those before.
const NEWS: f64 = 0.3;
/// Inflated bytes that one core makes in a second where nothing was measured: about what the fast schemes do.
const INFLATE_BYTES_PER_S: f64 = 2e9;
/// Bytes that pipelines must have read before they tell how fast the disk is.
const TELLING_READ_BYTES: u64 = 16 << 20;
/// A pipeline whose workers waited for the disk for more than this part of their time was bound by it.
const BOUND_BY_DISK: f64 = 0.25;
/// What the time of a pipeline counts beside that of the one behind it, where times are compared with what was expected.
const FADING: f64 = 0.97;
/// How far that comparison is believed.
const MOST_WRONG: (f64, f64) = (0.5, 1.5);
/// Kinds of pipelines whose times in memory are remembered.
const KINDS: usize = 1024;
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
        (self.traffic.keys().copied().collect(), self.rows, self.threads)
    }

    /// Whether it is long enough to tell something.
    pub(crate) fn tells(&self) -> bool {
        self.elapsed >= LEAST_TIME && self.inflated_bytes() >= LEAST_BYTES
    }
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
    /// Seconds that pipelines were expected to take, and took, older ones less.
    expected_s: f64,
    took_s: f64,
    /// Seconds that pipelines took when they read nothing.
    in_memory_s: HashMap<Kind, f64>,
}

/// What pipelines are known by when they run again, as far as can be told: their columns, their rows, their threads.
type Kind = (Vec<ColumnKey>, (u64, u64), usize);

impl History {
    pub(super) fn is_empty(&self) -> bool {
        self.pipelines.is_empty()
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
                let known = self.inflate_bytes_per_s.entry(*key).or_insert(rate);
                *known += (rate - *known) * NEWS;
            }
        }
        if let Some(expected) = self.expected(&ran) {
            self.expected_s = self.expected_s * FADING + expected.as_secs_f64();
            self.took_s = self.took_s * FADING + ran.elapsed.as_secs_f64();
        }
        if ran.read_bytes() == 0 {
            if self.in_memory_s.len() >= KINDS {
                self.in_memory_s.clear();
            }
            let seconds = ran.elapsed.as_secs_f64();
            let known = self.in_memory_s.entry(ran.kind()).or_insert(seconds);
            *known += (seconds - *known) * NEWS;
        }
        if self.pipelines.len() == PIPELINES {
            self.pipelines.pop_front();
        }
        self.pipelines.push_back(ran);
        self.disk_bytes_per_s = self.bound_bytes_per_s().or(self.disk_bytes_per_s);
        let Self { pipelines, inflate_bytes_per_s, .. } = self;
        inflate_bytes_per_s.retain(|key, _| pipelines.iter().any(|ran| ran.traffic.contains_key(key)));
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

    /// What a slowdown is multiplied by for the model of this workload, which is theirs. With everything in memory they take so many
    /// times as long as the model says, and lately they took so many times as long as it expected: the one over the other.
    pub(super) fn in_model(&self, workload: &Workload) -> f64 {
        let times_as_long = if self.expected_s > 0.0 { self.took_s / self.expected_s } else { 1.0 };
        let of_model = workload.times(&vec![workload.all(); workload.columns.len()]);
        let (mut model_s, mut took_s) = (0.0, 0.0);
        for ((ran, pipeline), seconds) in self.pipelines.iter().rev().zip(&workload.pipelines).zip(of_model) {
            model_s += pipeline.weight * seconds;
            took_s += pipeline.weight * self.in_memory_s.get(&ran.kind()).copied().unwrap_or(seconds);
        }
        let (least, most) = MOST_WRONG;
        let in_memory = if model_s > 0.0 { took_s / model_s } else { 1.0 };
        (in_memory / times_as_long).clamp(least, most)
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
        };
        (keys, Workload { columns, pipelines, machine, model, forms })
    }

    /// What the model says of a pipeline with what came from where, by its work when it ran before; `None` where nobody knows how
    /// fast the disk is.
    pub(super) fn expected(&self, ran: &Ran) -> Option<Duration> {
        let read_bytes = ran.read_bytes();
        let disk = if read_bytes == 0 { f64::INFINITY } else { self.disk_bytes_per_s(None)? };
        let threads = ran.threads.max(1) as f64;
        let inflating = |(key, column): (&ColumnKey, &ColumnTraffic)| {
            self.inflate_s(key, column.stored.inflated_bytes + column.disk.inflated_bytes)
        };
        let before = self.pipelines.iter().rev().find(|before| before.is_like(ran));
        let work_s = before.unwrap_or(ran).work.as_secs_f64() + ran.traffic.iter().map(inflating).sum::<f64>();
        let memory_s = ran.inflated_bytes() as f64 / self.memory_bytes_per_s(threads);
        let seconds = (read_bytes as f64 / disk).max(work_s / threads).max(memory_s);
        Some(Duration::from_secs_f64(seconds))
    }
}
