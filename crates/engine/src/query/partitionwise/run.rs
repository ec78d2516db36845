//! Runs a section: each worker takes the next range through all of its pipelines, with states of its own; what the section
//! leaves behind, as groups of all rows, the workers fill range after range.
//!
//! Where a range does not fit the memory, the section is given up before it has left anything, and its pipelines run one after
//! the other, which puts on disk what is too much.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use forebay_base::{Error, ErrorKind, Result, Value};
use forebay_cpu::compile::{Finished, Made, Part, Worker, finish_within};
use forebay_cpu::pool;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{Sink, Source, StateId};
use forebay_pipeline::{ColumnPredicate, Predicate};

use super::super::coming::Coming;
use super::super::report::timeline_of;
use super::super::runner::{Collected, Runner, Stop};
use super::super::share::TableShare;
use super::super::source::{EqualRows, VectorLoader};
use super::super::specialise::Specialised;
use super::super::task::{Room, Task};
use super::super::{PipelineReport, QueryOptions, ScanReport};
use super::{Section, lookups};
use crate::metrics::MetricsSnapshot;
use crate::timeline::{SourceTimeline, SpanKind};
use crate::{AdaptivePredicate, RuntimeFilter, Scan};

/// Ranges in front of those that workers have, whose reads are begun.
const RANGES_AHEAD: usize = 3;

/// What all ranges left, and what they cost, by pipeline.
type Ended = (BTreeMap<usize, OuterSink>, BTreeMap<usize, PipelineReport>);

/// A section that runs.
struct Run<'r> {
    section: &'r Section,
    /// For each worker: one thread, and its share of the memory.
    options: QueryOptions,
    assumes_small_dictionaries: bool,
    scans: BTreeMap<usize, Arc<Scan>>,
    /// By pipeline whose state or result holds the rows of all ranges.
    outer: BTreeMap<usize, OuterSink>,
    /// By pipeline.
    timelines: BTreeMap<usize, Option<SourceTimeline>>,
    reports: BTreeMap<usize, Mutex<PipelineReport>>,
    /// The next range that no worker has taken.
    next: AtomicUsize,
}

/// A sink that holds the rows of all ranges.
struct OuterSink {
    special: Specialised,
    room: Arc<Room>,
    parts: Mutex<Vec<Part>>,
}

/// One worker's part of such a sink.
struct OuterWorker {
    worker: Worker,
    /// What it ran last.
    task: Task,
    known_bytes: usize,
}

impl Runner<'_> {
    /// Whether a section begins with this pipeline, and nothing that it looks up is on disk.
    pub(in super::super) fn section_at(&self, index: usize) -> Option<Arc<Section>> {
        let section = self.sections.iter().find(|section| section.pipelines.start == index)?;
        let mut looked_up = section.pipelines.clone().flat_map(|number| lookups(&self.program.pipelines[number]));
        let is_here =
            looked_up.all(|(state, _)| section.states.contains(&state) || self.finished[state.0 as usize].is_some());
        is_here.then(|| Arc::clone(section))
    }

    /// Runs a section. False where it was given up.
    pub(in super::super) fn run_section(&mut self, section: &Arc<Section>, result: &mut Collected) -> Result<bool> {
        let before = section.pipelines.clone().map(|number| self.scan_metrics(number)).collect::<Vec<_>>();
        let ended = match self.ranges(section, true) {
            Err(Stop::Outgrown) => self.ranges(section, false),
            ended => ended,
        };
        let (mut outer, mut reports) = match ended {
            Ok(ended) => ended,
            Err(Stop::Failed(error)) if error.kind() == ErrorKind::OutOfMemory => {
                self.sections.retain(|other| !Arc::ptr_eq(other, section));
                return Ok(false);
            }
            Err(Stop::Failed(error)) => return Err(error),
            Err(Stop::Outgrown) => return Err(Error::internal("a section outgrew what it does not rely on")),
        };
        for (number, before) in section.pipelines.clone().zip(before) {
            let mut report = reports.remove(&number).unwrap_or_default();
            if let (Some(scan), Some(before), Source::Table(source)) =
                (&mut report.scan, before, &self.program.pipelines[number].source)
            {
                let bound = &self.query.tables[source.table];
                *scan = ScanReport::new(bound, &before, std::mem::take(&mut scan.tests), scan.timeline.take());
            }
            self.reports.push(report);
            let Some(OuterSink { room, parts, .. }) = outer.remove(&number) else { continue };
            let overflow = room.into_overflow()?;
            let parts = parts.into_inner().unwrap_or_else(PoisonError::into_inner);
            let started = Instant::now();
            let rows_out = match self.program.pipelines[number].sink.fills() {
                Some(state) => self.finish(number, state, parts, overflow)?,
                None => self.collect(number, parts, overflow, result)?,
            };
            if let Some(report) = self.reports.last_mut() {
                report.rows_out = rows_out;
                report.elapsed_ns += started.elapsed().as_nanos() as u64;
            }
        }
        section.pipelines.clone().for_each(|number| self.forget(number));
        Ok(true)
    }

    fn scan_metrics(&self, number: usize) -> Option<MetricsSnapshot> {
        match &self.program.pipelines[number].source {
            Source::Table(source) => Some(self.query.tables[source.table].metrics.snapshot()),
            Source::Groups { .. } | Source::BuildRows { .. } => None,
        }
    }

    /// Takes all ranges through the pipelines of a section.
    fn ranges(&self, section: &Section, assumes_small_dictionaries: bool) -> std::result::Result<Ended, Stop> {
        let threads = self.options.threads.min(section.ranges.len()).max(1);
        let run = self.section_run(section, threads, assumes_small_dictionaries)?;
        let panicked = |_| Err(Stop::Failed(Error::internal("a worker of a section panicked")));
        let ends = pool::run(threads, || self.take_ranges(&run));
        ends.into_iter().map(|end| end.unwrap_or_else(panicked)).collect::<std::result::Result<Vec<_>, Stop>>()?;
        let note =
            format!("{} ranges, each through pipelines {} at a time", section.ranges.len(), self.numbers(section));
        let of = |(number, report): (usize, Mutex<PipelineReport>)| {
            let mut report = report.into_inner().unwrap_or_else(PoisonError::into_inner);
            report.threads = threads;
            // Times of all workers, of which each had its ranges.
            report.elapsed_ns /= threads as u64;
            if number == section.pipelines.start {
                report.notes.insert(0, note.clone());
            }
            (number, report)
        };
        Ok((run.outer, run.reports.into_iter().map(of).collect()))
    }

    /// The pipelines of a section as EXPLAIN numbers them.
    fn numbers(&self, section: &Section) -> String {
        let numbers: Vec<_> = section.pipelines.clone().map(|number| self.order[number].to_string()).collect();
        match numbers.split_last() {
            Some((last, others)) => format!("{} and {last}", others.join(", ")),
            None => String::new(),
        }
    }

    fn section_run<'r>(
        &self,
        section: &'r Section,
        threads: usize,
        assumes_small_dictionaries: bool,
    ) -> Result<Run<'r>> {
        let outer_bytes = self.state_bytes();
        let worker_bytes = self.options.memory_bytes.saturating_sub(outer_bytes) / threads;
        let options = QueryOptions { threads: 1, memory_bytes: outer_bytes + worker_bytes, ..self.options.clone() };
        let mut run = Run {
            section,
            options,
            assumes_small_dictionaries,
            scans: BTreeMap::new(),
            outer: BTreeMap::new(),
            timelines: BTreeMap::new(),
            reports: BTreeMap::new(),
            next: AtomicUsize::new(0),
        };
        for number in section.pipelines.clone() {
            let pipeline = &self.program.pipelines[number];
            let mut timeline = timeline_of(self.options, self.query, &pipeline.source);
            if let Source::Table(source) = &pipeline.source {
                let scan = self.scan_of(source)?;
                timeline = scan.timeline().cloned().or(timeline);
                run.scans.insert(number, scan);
            }
            run.timelines.insert(number, timeline);
            run.reports.insert(number, Mutex::default());
            let is_outer = match &pipeline.sink {
                Sink::Build { state, .. } | Sink::Aggregate { state, .. } => !section.states.contains(state),
                Sink::Collect { .. } => true,
                Sink::Mark { .. } => false,
            };
            if is_outer {
                let special = self.specialised(number, assumes_small_dictionaries);
                let room = Arc::new(Room::new(self.room(number, &special)?));
                run.outer.insert(number, OuterSink { special, room, parts: Mutex::default() });
            }
        }
        Ok(run)
    }

    /// One worker's share of the ranges.
    fn take_ranges(&self, run: &Run<'_>) -> std::result::Result<(), Stop> {
        let mut worker = self.of_one_worker(run);
        let mut outer = BTreeMap::new();
        loop {
            let range = run.next.fetch_add(1, Ordering::Relaxed);
            if range >= run.section.ranges.len() {
                break;
            }
            worker.finished.clone_from(&self.finished);
            let shared_bytes = worker.state_bytes();
            for number in run.section.pipelines.clone() {
                worker.take_range(run, range, number, &mut outer)?;
            }
            self.memory.note(worker.state_bytes(), shared_bytes);
        }
        for (number, OuterWorker { worker, task, .. }) in outer {
            run.keep_part(number, &task, worker);
        }
        Ok(())
    }

    /// A run of the same program whose states are those of one worker.
    fn of_one_worker<'w>(&'w self, run: &'w Run<'_>) -> Runner<'w> {
        Runner {
            engine: self.engine,
            query: self.query,
            options: &run.options,
            cancel: self.cancel,
            memory: Arc::clone(&self.memory),
            program: self.program.clone(),
            order: Vec::new(),
            places: Vec::new(),
            sections: Vec::new(),
            goes_on: vec![false; self.program.pipelines.len()],
            dictionaries: self.dictionaries.clone(),
            finished: self.finished.clone(),
            on_device: self.on_device.clone(),
            spilled: self.spilled.clone(),
            between: BTreeMap::new(),
            coming: Coming::default(),
            reports: Vec::new(),
            begun: BTreeMap::new(),
            timeline: None,
            watch: None,
        }
    }

    /// Takes a range through one pipeline of a section.
    fn take_range(
        &mut self,
        run: &Run<'_>,
        range: usize,
        number: usize,
        outer: &mut BTreeMap<usize, OuterWorker>,
    ) -> std::result::Result<(), Stop> {
        self.cancel.check()?;
        self.timeline = run.timelines[&number].clone();
        let task = self.task_of_range(run, range, number)?;
        let started = Instant::now();
        let mut report = PipelineReport::default();
        if run.outer.contains_key(&number) {
            let mut own = self.outer_worker(run, number, task, outer.remove(&number))?;
            self.feed_range(run, range, &own.task, (&mut own.worker, &mut own.known_bytes))?;
            self.note_range(run, number, started, report.of_task(&own.task));
            outer.insert(number, own);
            return Ok(());
        }
        let mut worker = self.worker(&task)?;
        let (mut known_bytes, before_bytes) = (0, self.state_bytes());
        self.feed_range(run, range, &task, (&mut worker, &mut known_bytes))?;
        let part = task.end(worker);
        let fed = Instant::now();
        if let Some(state) = self.program.pipelines[number].sink.fills() {
            report.rows_out = self.finish_range(state, part)?;
        }
        self.memory.note(known_bytes + before_bytes, self.state_bytes());
        self.timeline.iter().for_each(|timeline| timeline.note(SpanKind::Finish, fed, Instant::now()));
        report.steps = task.steps();
        self.note_range(run, number, started, report.of_task(&task));
        Ok(())
    }

    /// The code of a pipeline for the states of a range.
    fn task_of_range(&self, run: &Run<'_>, range: usize, number: usize) -> Result<Task> {
        let mut special = self.specialised(number, run.assumes_small_dictionaries);
        let outer = run.outer.get(&number);
        match outer {
            // The groups of all ranges lie alike.
            Some(OuterSink { special: of_all, .. }) => {
                special.groups.clone_from(&of_all.groups);
                special.assumed_small_dictionaries.clone_from(&of_all.assumed_small_dictionaries);
                special.notes.clone_from(&of_all.notes);
            }
            None if special.groups.is_some() => special.hash_groups(),
            None => {}
        }
        if let Some(scan) = run.section.scans.get(&number) {
            let (low, high) = run.section.ranges[range];
            let bound = |value: i64| Bound::Included(Value::Int(value.into()));
            let test = Predicate::Range { low: bound(low), high: bound(high) };
            let test = ColumnPredicate { column: scan.column, test };
            special.tests.push(AdaptivePredicate::new(test, false).of_morsel());
            special.learned.push(Some("within the range that is at hand".to_owned()));
        }
        let room = outer
            .map_or_else(|| Arc::new(Room::new((self.options.memory_bytes, None))), |outer| Arc::clone(&outer.room));
        let noted = (self.options.counted, self.timeline.clone());
        let mut task = Task::new(number, Arc::new(special), room, noted);
        task.compiled = Some(self.compile(&task, &self.finished, false)?);
        Ok(task)
    }

    /// A worker that goes on filling the sink of all ranges, where the code for this range allows it; else a new one.
    fn outer_worker(
        &self,
        run: &Run<'_>,
        number: usize,
        task: Task,
        before: Option<OuterWorker>,
    ) -> Result<OuterWorker> {
        let compiled = task.compiled.as_ref().ok_or_else(|| Error::internal("a range without code"))?;
        if let Some(OuterWorker { mut worker, task: last, known_bytes }) = before {
            if worker.can_rebind(compiled) {
                worker.rebind(compiled, &self.finished)?;
                return Ok(OuterWorker { worker, task, known_bytes });
            }
            run.keep_part(number, &last, worker);
        }
        Ok(OuterWorker { worker: self.worker(&task)?, task, known_bytes: 0 })
    }

    /// Takes the rows of a range through a worker.
    fn feed_range(
        &self,
        run: &Run<'_>,
        range: usize,
        task: &Task,
        (worker, known_bytes): (&mut Worker, &mut usize),
    ) -> std::result::Result<(), Stop> {
        let mut vectors = Vec::new();
        match &task.special.program.pipelines[task.index].source {
            Source::Table(source) => {
                let scan = &run.scans[&task.index];
                let bound = &self.query.tables[source.table];
                let mut share = TableShare {
                    worker,
                    loader: VectorLoader::new(source, &self.dictionaries),
                    tests: task.special.tests.clone(),
                    keys: task.special.keys.iter().map(|(filter, _)| filter.clone()).collect::<Vec<RuntimeFilter>>(),
                    filters: bound.filters.iter().map(|filter| filter.filter()).collect::<Result<Vec<_>>>()?,
                    equal_rows: EqualRows::Ignored,
                    known_bytes: *known_bytes,
                };
                for morsel in run.section.scans[&task.index].of_range(range) {
                    run.read_ahead(range);
                    self.scan_morsel(scan, scan.morsel(morsel), task, &mut share, None)?;
                }
                task.tested(&share.tests, &share.keys);
                *known_bytes = share.known_bytes;
                Ok(())
            }
            Source::Groups { state, .. } | Source::BuildRows { state, .. } => {
                let _computing = task.computing();
                let source = &task.special.program.pipelines[task.index].source;
                match (self.finished[state.0 as usize].as_deref(), source) {
                    (Some(Finished::Groups(table)), _) => {
                        let read = |range: Range<usize>, vectors: &mut Vec<Vector>| {
                            let rows = range.len();
                            table.rows().read(range, vectors);
                            rows
                        };
                        Ok(self.feed(0..table.len(), read, &mut vectors, task, (worker, known_bytes))?)
                    }
                    (Some(Finished::Join(table)), Source::BuildRows { matched, .. }) => {
                        let read =
                            |range: Range<usize>, vectors: &mut Vec<Vector>| table.read(range, *matched, vectors);
                        Ok(self.feed(0..table.len(), read, &mut vectors, task, (worker, known_bytes))?)
                    }
                    _ => Err(Stop::Failed(Error::internal("a state is scanned before its range is there"))),
                }
            }
        }
    }

    /// Makes the state of a range. Gives its rows.
    fn finish_range(&mut self, state: StateId, part: Part) -> Result<u64> {
        let limit = self.options.memory_bytes.saturating_sub(self.state_bytes());
        match finish_within(&self.program, state, vec![part], 1, limit)? {
            Made::State(done) => self.take_state(state, done),
            Made::TooLarge(_) => Err(Error::new(ErrorKind::OutOfMemory, "a range of a join does not fit the memory")),
        }
    }

    /// Adds what a range cost to the pipeline's report.
    fn note_range(&self, run: &Run<'_>, number: usize, started: Instant, report: PipelineReport) {
        let report = PipelineReport { elapsed_ns: started.elapsed().as_nanos() as u64, ..report };
        let scan = matches!(self.program.pipelines[number].source, Source::Table(_));
        let timeline = run.timelines[&number].clone();
        let mut sum = run.report(number);
        sum.add_range(report);
        if scan {
            sum.scan.get_or_insert_with(ScanReport::default).timeline = timeline;
        }
    }
}

impl Run<'_> {
    fn report(&self, number: usize) -> std::sync::MutexGuard<'_, PipelineReport> {
        // Sums are changed by what cannot panic.
        self.reports[&number].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps what a worker has made for the sink of all ranges.
    fn keep_part(&self, number: usize, task: &Task, worker: Worker) {
        let part = task.end(worker);
        self.report(number).add_steps(task.steps());
        // It is put in whole.
        self.outer[&number].parts.lock().unwrap_or_else(PoisonError::into_inner).push(part);
    }

    /// Begins reads for a range that is at hand and those behind it, in the order in which they are needed.
    fn read_ahead(&self, range: usize) {
        let Some(most_bytes) = self.scans.values().map(|scan| scan.most_ahead_bytes()).max() else { return };
        if most_bytes == 0 {
            return;
        }
        let last = self.section.ranges.len().min(range + self.scans.len().max(1) + RANGES_AHEAD);
        for range in range..last {
            for (number, scan) in &self.scans {
                let others = self.scans.iter().filter(|(other, _)| *other != number);
                let taken: usize = others.map(|(_, other)| other.waiting_bytes()).sum();
                let morsels = self.section.scans[number].of_range(range);
                if !scan.read_ahead_of(morsels, most_bytes.saturating_sub(taken)) {
                    return;
                }
            }
        }
        if last == self.section.ranges.len()
            && let Some((_, scan)) = self.scans.last_key_value()
        {
            let waiting: usize = self.scans.values().map(|scan| scan.waiting_bytes()).sum();
            scan.begin_behind((most_bytes / 2).saturating_sub(waiting));
        }
    }
}
