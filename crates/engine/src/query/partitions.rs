//! States that do not fit the memory of a query: how much each may take, what is done with the rest, and how pipelines run
//! over partitions of it.
//!
//! A worker that holds more than its share writes its rows out by partition and begins again (Kuiper et al. 2024). A
//! pipeline that looks such a state up is cut in two there: the first half writes its rows by the same partitions, the
//! second takes them up partition by partition, each with its part of the state, its workers and sink living on across
//! all of them (Grace join). Invariants: a partition is taken by one worker; the answer does not depend on what was
//! written.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, ErrorKind, Result};
use forebay_cpu::compile::{Finished, Part, Worker, collected, finish_runs, run_layout};
use forebay_cpu::layout::build_row;
use forebay_cpu::pool;
use forebay_cpu::rows::RowSet;
use forebay_cpu::runs::{Partitions, RunLayout};
use forebay_cpu::vector::Vector;
use forebay_pipeline::cut;
use forebay_pipeline::ir::{Pipeline, ProbeKind, Sink, Source, State, StateId, Step};

use super::runner::{Runner, Stop, reads};
use super::specialise::Specialised;
use super::spill::{Place, Spill};
use super::task::Task;
use crate::Engine;

/// A state on disk.
#[derive(Debug)]
pub(super) struct Spilled {
    /// Its rows: of a build side all that came, of groups what each worker had made when it was written.
    pub(super) rows: Spill,
    /// The state that these rows are about to look up. They have the same partitions.
    looks_up: Option<StateId>,
    /// By partition: which rows of a build side were met, one byte each.
    matched: Mutex<BTreeMap<usize, Vec<u8>>>,
    /// Bytes that a worker wants to have in memory of a partition.
    partition_bytes: u64,
}

impl Spilled {
    /// Bytes of memory that it takes nevertheless.
    pub(super) fn matched_bytes(&self) -> usize {
        self.matched().values().map(Vec::capacity).sum()
    }

    fn matched(&self) -> MutexGuard<'_, BTreeMap<usize, Vec<u8>>> {
        // Entries are put in whole.
        self.matched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The runs of a partition, in pieces that are in memory together: all of them, or some at a time.
    fn pieces(&self, partition: usize, at_once: bool) -> Vec<Vec<Place>> {
        let mut pieces = vec![Vec::new()];
        let mut bytes = 0;
        for place in self.rows.runs(partition) {
            let more = self.rows.run_bytes(&place);
            if !at_once && bytes > 0 && bytes + more > self.partition_bytes * 2 {
                pieces.push(Vec::new());
                bytes = 0;
            }
            bytes += more;
            pieces.last_mut().expect("there is one at first").push(place);
        }
        pieces
    }
}

/// Where the workers of a pipeline put what is more than their share of the memory.
#[derive(Debug)]
pub(super) struct Overflow {
    layout: RunLayout,
    partitions: Partitions,
    looks_up: Option<StateId>,
    /// Bytes that a worker may hold.
    worker_bytes: usize,
    /// Made when it is first needed.
    spill: Mutex<Option<Arc<Spill>>>,
}

impl Overflow {
    /// Whether something was written, or will be in any case.
    pub(super) fn is_used(&self) -> bool {
        self.looks_up.is_some() || self.locked().is_some()
    }

    /// Writes what a worker holds if it is more than its share.
    pub(super) fn relieve(&self, engine: &Engine, worker: &mut Worker) -> Result<()> {
        if worker.memory_bytes() <= self.worker_bytes {
            return Ok(());
        }
        let spill = self.open(engine)?;
        worker.take_runs(&self.layout, &self.partitions, &mut |partition, run| spill.write(partition, run))
    }

    fn open(&self, engine: &Engine) -> Result<Arc<Spill>> {
        let mut spill = self.locked();
        if let Some(spill) = &*spill {
            return Ok(Arc::clone(spill));
        }
        let file = engine.temporary_file().map_err(|error| match error.kind() {
            ErrorKind::OutOfSpace => error,
            // Reported as OutOfMemory, so that DataFusion runs the query with its own spilling operators.
            _ => Error::new(
                ErrorKind::OutOfMemory,
                format!("the query's joins and groups need a temporary file: {error}"),
            )
            .hint("Start forebay with more --memory"),
        })?;
        let new = Arc::new(Spill::new(file, self.layout.clone(), self.partitions.clone()));
        *spill = Some(Arc::clone(&new));
        Ok(new)
    }

    fn locked(&self) -> MutexGuard<'_, Option<Arc<Spill>>> {
        // It is put in whole.
        self.spill.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Runner<'_> {
    /// Cuts a pipeline in front of its first look-up of a state on disk, unless its rows were written for that.
    pub(super) fn cut(&mut self, index: usize) -> Result<()> {
        let pipeline = &self.program.pipelines[index];
        let is_spilled = |state: StateId| self.spilled[state.0 as usize].is_some();
        let served = self.looked_up(index).map(|_| look_up(pipeline));
        let probes = pipeline.steps.iter().enumerate();
        let probes = probes.filter(|(_, step)| matches!(step, Step::Probe(probe) if is_spilled(probe.state)));
        let at = probes.map(|(at, _)| at).find(|at| Some(*at) != served);
        let marks = matches!(&pipeline.sink, Sink::Mark { state, .. } if is_spilled(*state));
        let behind = pipeline.steps.len();
        let Some(at) = at.or((marks && served != Some(behind)).then_some(behind)) else { return Ok(()) };
        let state = match (pipeline.steps.get(at), &pipeline.sink) {
            (Some(Step::Probe(probe)), _) => probe.state,
            (_, Sink::Mark { state, .. }) => *state,
            _ => return Err(Error::internal("a pipeline is cut where it looks nothing up")),
        };
        self.program = cut(&self.program, index, at)?;
        self.goes_on.insert(index + 1, true);
        self.finished.push(None);
        self.on_device.push(None);
        self.spilled.push(None);
        self.between.insert(self.spilled.len() - 1, state);
        Ok(())
    }

    /// The state on disk that a pipeline looks up with rows that were written for that.
    pub(super) fn looked_up(&self, index: usize) -> Option<StateId> {
        match &self.program.pipelines[index].source {
            Source::BuildRows { state, .. } => self.spilled[state.0 as usize].as_ref()?.looks_up,
            Source::Table(_) | Source::Groups { .. } => None,
        }
    }

    /// Bytes that the workers of a pipeline may take in all, and what they do with more.
    pub(super) fn room(&self, index: usize, special: &Specialised) -> Result<(usize, Option<Overflow>)> {
        let rest = self.options.memory_bytes.saturating_sub(self.state_bytes());
        let pipeline = &self.program.pipelines[index];
        let is_dense = special.groups.as_ref().is_some_and(|groups| groups.layout().is_dense());
        let is_mark = matches!(pipeline.sink, Sink::Mark { .. });
        if is_dense || is_mark {
            return Ok((rest, None));
        }
        let looks_up = pipeline.sink.fills().and_then(|state| self.between.get(&(state.0 as usize)).copied());
        let partitions = match (looks_up, pipeline.sink.fills()) {
            (Some(other), _) => self.on_disk(other)?.rows.partitions().clone(),
            (None, Some(_)) => Partitions::first(),
            (None, None) => Partitions::one(),
        };
        // What is finished of it takes as much again, and a source on disk has its partitions in memory.
        let from_disk = match &pipeline.source {
            Source::Groups { state, .. } | Source::BuildRows { state, .. } => self.spilled[state.0 as usize].is_some(),
            Source::Table(_) => false,
        };
        let share = if from_disk { rest / 5 } else { rest / 5 * 2 };
        let worker_bytes = share / self.options.threads;
        let layout = match pipeline.sink.fills() {
            Some(state) => run_layout(&self.program, state),
            None => RunLayout::of_rows(&collected(&self.program, pipeline)),
        };
        Ok((rest, Some(Overflow { layout, partitions, looks_up, worker_bytes, spill: Mutex::default() })))
    }

    /// Bytes that a finished state may take, so that those which live beside it find room too.
    pub(super) fn state_limit(&self, index: usize, state: StateId) -> usize {
        let rest = self.options.memory_bytes.saturating_sub(self.state_bytes());
        let later = &self.program.pipelines[index + 1..];
        let beside = later.iter().rposition(|pipeline| reads(pipeline, state)).map_or(0, |last| last + 1);
        rest / (beside + 1).min(3)
    }

    /// Puts all rows of a state on disk.
    pub(super) fn spill(&self, overflow: Overflow, parts: Vec<Part>) -> Result<Spilled> {
        let spill = overflow.open(self.engine)?;
        let write = |part: Part| {
            self.cancel.check()?;
            part.into_runs(&overflow.layout, &overflow.partitions, &mut |partition, run| spill.write(partition, run))
        };
        let threads = parts.len();
        let parts = Mutex::new(parts);
        // The guard is let go of before the part is written.
        let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let writers = pool::run(threads, || std::iter::from_fn(next).try_for_each(write));
        let panicked = |_| Err(Error::internal("a worker that writes rows panicked"));
        writers.into_iter().try_for_each(|writer| writer.unwrap_or_else(panicked))?;
        let looks_up = overflow.looks_up;
        drop((spill, overflow.partitions));
        let rows = overflow.spill.into_inner().unwrap_or_else(PoisonError::into_inner).and_then(Arc::into_inner);
        let mut rows = rows.ok_or_else(|| Error::internal("someone else writes the rows of a state"))?;
        let rest = self.options.memory_bytes.saturating_sub(self.state_bytes());
        let partition_bytes = (rest / 8 / self.options.threads) as u64;
        if looks_up.is_none() && rows.partitions().count() > 1 {
            rows.divide(partition_bytes, self.cancel)?;
        }
        Ok(Spilled { rows, looks_up, matched: Mutex::default(), partition_bytes })
    }

    /// Bytes that were read of states on disk so far.
    pub(super) fn spill_read_bytes(&self) -> u64 {
        self.spilled.iter().flatten().map(|spilled| spilled.rows.read_bytes()).sum()
    }

    fn on_disk(&self, state: StateId) -> Result<&Arc<Spilled>> {
        let spilled = self.spilled[state.0 as usize].as_ref();
        spilled.ok_or_else(|| Error::internal("a state that is looked up by partitions is not on disk"))
    }

    /// One worker's share of the partitions of a state on disk.
    pub(super) fn scan_partitions(
        &self,
        state: StateId,
        spilled: &Spilled,
        task: &Task,
    ) -> std::result::Result<Option<Part>, Stop> {
        let mut hand = PartitionWorker { worker: None, vectors: Vec::new(), known_bytes: 0 };
        let _computing = task.computing();
        loop {
            let partition = task.cursor.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            if partition >= spilled.rows.partitions().count() {
                return Ok(hand.worker.map(|worker| task.end(worker)));
            }
            if spilled.rows.partition_bytes(partition) == 0 {
                continue;
            }
            match spilled.looks_up {
                None => self.scan_partition(state, spilled, partition, task, &mut hand)?,
                Some(other) => self.look_up_partition((state, spilled), other, partition, task, &mut hand)?,
            }
        }
    }

    fn scan_partition(
        &self,
        state: StateId,
        spilled: &Spilled,
        partition: usize,
        task: &Task,
        hand: &mut PartitionWorker,
    ) -> Result<()> {
        let done = self.load(state, spilled, &spilled.rows.runs(partition))?;
        let _loaded = self.memory.borrow(done.memory_bytes());
        let worker = match &mut hand.worker {
            Some(worker) => worker,
            none => none.insert(self.worker(task)?),
        };
        let of_worker = (worker, &mut hand.known_bytes);
        match (&done, &self.program.pipelines[task.index].source) {
            (Finished::Groups(table), _) => {
                let read = |range: std::ops::Range<usize>, vectors: &mut Vec<Vector>| {
                    let rows = range.len();
                    table.rows().read(range, vectors);
                    rows
                };
                self.feed(0..table.len(), read, &mut hand.vectors, task, of_worker)
            }
            (Finished::Join(table), Source::BuildRows { matched, .. }) => {
                if let Some(known) = spilled.matched().get(&partition) {
                    table.set_matched(known);
                }
                let read = |range, vectors: &mut Vec<Vector>| table.read(range, *matched, vectors);
                self.feed(0..table.len(), read, &mut hand.vectors, task, of_worker)
            }
            _ => Err(Error::internal("a build side is read as groups")),
        }
    }

    /// Takes the rows of a partition through the rest of their pipeline, which begins by looking `other` up.
    fn look_up_partition(
        &self,
        (state, spilled): (StateId, &Spilled),
        other: StateId,
        partition: usize,
        task: &Task,
        hand: &mut PartitionWorker,
    ) -> Result<()> {
        let pipeline = &self.program.pipelines[task.index];
        let (State::Join(join), probed) = (&self.program.states[state.0 as usize], self.on_disk(other)?) else {
            return Err(Error::internal("rows that look something up are no build side"));
        };
        let row = build_row(join);
        // Pairs are independent of each other in an inner join alone: else all rows of a key have to be there.
        let is_inner =
            matches!(pipeline.steps.get(look_up(pipeline)), Some(Step::Probe(probe)) if probe.kind == ProbeKind::Inner);
        for piece in probed.pieces(partition, !is_inner) {
            if let Some(worker) = &mut hand.worker {
                worker.release();
            }
            let table = self.load(other, probed, &piece)?;
            let _loaded = self.memory.borrow(table.memory_bytes());
            if let (Finished::Join(table), Some(known)) = (&table, probed.matched().get(&partition)) {
                table.set_matched(known);
            }
            let table = Arc::new(table);
            let mut finished = self.finished.clone();
            finished[other.0 as usize] = Some(Arc::clone(&table));
            let compiled = self.compile(task, &finished, false)?;
            let worker = match &mut hand.worker {
                Some(worker) => {
                    worker.rebind(&compiled, &finished)?;
                    worker
                }
                none => none.insert(Worker::new(&compiled, &finished, task.special.groups.as_ref())?),
            };
            for place in spilled.rows.runs(partition) {
                let rows = RowSet::of_buffers(&row, vec![spilled.rows.read(&place)?]);
                let read = |range: std::ops::Range<usize>, vectors: &mut Vec<Vector>| {
                    let count = range.len();
                    rows.read(range, vectors);
                    count
                };
                let of_worker = (&mut *worker, &mut hand.known_bytes);
                self.feed(0..rows.len(), read, &mut hand.vectors, task, of_worker)?;
            }
            if let (Finished::Join(table), Sink::Mark { state, .. }) = (&*table, &pipeline.sink)
                && *state == other
            {
                probed.matched().insert(partition, table.matched());
            }
        }
        Ok(())
    }

    /// A part of a state on disk, in memory.
    fn load(&self, state: StateId, spilled: &Spilled, places: &[Place]) -> Result<Finished> {
        let read = |place: &Place| self.cancel.check().and_then(|()| spilled.rows.read(place));
        finish_runs(&self.program, state, places.iter().map(read).collect::<Result<_>>()?)
    }
}

/// A worker on its way through partitions.
struct PartitionWorker {
    /// Made for the first one.
    worker: Option<Worker>,
    vectors: Vec<Vector>,
    known_bytes: usize,
}

/// The step that looks up what a pipeline's rows were written for; behind all steps it is the sink.
fn look_up(pipeline: &Pipeline) -> usize {
    let first = pipeline.steps.iter().position(|step| matches!(step, Step::Probe(_)));
    first.unwrap_or(pipeline.steps.len())
}
