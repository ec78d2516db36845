//! The life of a pipeline: specialise, compile, give its source to all workers, finish its state.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::RecordBatch;
use forebay_base::{Error, ErrorKind, Result, units};
use forebay_cpu::compile::{
    Compiled, Finished, Made, Part, StateLayouts, can_count_duplicates, collect, collected, finish_within,
};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::groups::GroupPlan;
use forebay_pipeline::ir::{Pipeline, Program, Sink, Source, StateId, Step};

use super::coming::Coming;
use super::device::{Attempt, DeviceBuild, Left, Place, arranged};
use super::early::Begun;
use super::memory::RunMemory;
use super::noted::Watch;
use super::output::{ResultSchema, RowsOnDisk};
use super::partitions::{Overflow, Spilled};
use super::partitionwise::{Section, Sectioned};
use super::report::timeline_of;
use super::specialise::{Known, Specialised};
use super::task::{Room, Task};
use super::{PipelineReport, Query, QueryOptions, QueryOutput, ScanReport, TopK};
use crate::timeline::{SourceTimeline, SpanKind};
use crate::{CancelToken, Engine};

/// Why a pipeline stopped early.
pub(super) enum Stop {
    /// For good.
    Failed(Error),
    /// A dictionary has more strings than was taken for granted: once more, without that.
    Outgrown,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// Batches of the result, and what of it is on disk.
pub(super) type Collected = (Vec<RecordBatch>, Option<RowsOnDisk>);

/// One run of a query.
pub(super) struct Runner<'a> {
    pub(super) engine: &'a Arc<Engine>,
    pub(super) query: &'a Query,
    pub(super) options: &'a QueryOptions,
    pub(super) cancel: &'a CancelToken,
    /// What it takes of the memory.
    pub(super) memory: Arc<RunMemory>,
    /// The query's program, with pipelines cut in two where they look up what is on disk.
    pub(super) program: Program,
    /// By pipeline that is not cut yet: its number in the query's program.
    pub(super) order: Vec<usize>,
    /// By pipeline, where it runs; nothing where there is no device beside the CPU.
    pub(super) places: Vec<Place>,
    /// Pipelines that run range by range.
    pub(super) sections: Vec<Arc<Section>>,
    /// By pipeline: true if `cut` made it the continuation of the pipeline before it.
    pub(super) goes_on: Vec<bool>,
    pub(super) dictionaries: Vec<Arc<Dictionary>>,
    /// By state, where it is in memory.
    pub(super) finished: Vec<Option<Arc<Finished>>>,
    /// By state, where it is a build side on a device.
    pub(super) on_device: Vec<Option<Arc<DeviceBuild>>>,
    /// By state, where it is on disk.
    pub(super) spilled: Vec<Option<Arc<Spilled>>>,
    /// Of states between the halves of pipelines: the state that their rows are about to look up.
    pub(super) between: BTreeMap<usize, StateId>,
    /// By table of the query: the scan of a pipeline that has not begun, which may have reads on their way.
    pub(super) coming: Coming,
    pub(super) reports: Vec<PipelineReport>,
    /// By state of groups: the pipeline that reads them, where some were passed on to it before all were there.
    pub(super) begun: BTreeMap<StateId, Begun>,
    /// Where the pipeline that runs notes when it does what.
    pub(super) timeline: Option<SourceTimeline>,
    /// Tells of pipelines that run for long; not of those that run range by range.
    pub(super) watch: Option<Watch<'a>>,
}

impl<'a> Runner<'a> {
    /// A run that has not begun.
    pub(super) fn new(
        engine: &'a Arc<Engine>,
        query: &'a Query,
        options: &'a QueryOptions,
        cancel: &'a CancelToken,
        memory: Arc<RunMemory>,
    ) -> Result<Self> {
        let dictionaries = (0..query.program.dictionaries).map(|_| Arc::new(Dictionary::default())).collect();
        let (Sectioned { program, sections, order }, places) = arranged(engine, query, options)?;
        let sections = sections.into_iter().map(Arc::new).collect();
        let finished = program.states.iter().map(|_| None).collect();
        let on_device = program.states.iter().map(|_| None).collect();
        let spilled = program.states.iter().map(|_| None).collect();
        let goes_on = vec![false; program.pipelines.len()];
        Ok(Self {
            engine,
            query,
            options,
            cancel,
            memory,
            program,
            places,
            order,
            sections,
            goes_on,
            dictionaries,
            finished,
            on_device,
            spilled,
            between: BTreeMap::new(),
            coming: Coming::default(),
            reports: Vec::new(),
            begun: BTreeMap::new(),
            timeline: None,
            watch: Some(Watch::new(engine, query)),
        })
    }

    /// Runs every pipeline.
    pub(super) fn run(mut self) -> Result<QueryOutput> {
        let mut result = (Vec::new(), None);
        self.foresee()?;
        let mut index = 0;
        while index < self.program.pipelines.len() {
            if let Some(section) = self.section_at(index)
                && self.run_section(&section, &mut result)?
            {
                self.memory.settle(self.state_bytes() + result_bytes(&result));
                index = section.pipelines.end;
                continue;
            }
            self.cut(index)?;
            let left_out = self.leave_out_behind_first(index);
            let source = &self.program.pipelines[index].source;
            self.timeline = self.foreseen_timeline(source).or_else(|| timeline_of(self.options, self.query, source));
            let attempt = if self.is_begun(index) { Attempt::Cpu(None) } else { self.on_device(index)? };
            let (rows_out, started) = match attempt {
                Attempt::Done(left) => (self.keep(index, left, &mut result)?, Instant::now()),
                Attempt::Cpu(reason) => {
                    if self.bring_to_cpu(index)? > 0 {
                        // One of them may be on disk now.
                        self.cut(index)?;
                    }
                    let (parts, overflow) = self.on_cpu(index)?;
                    if let (Some(reason), Some(report)) = (reason, self.reports.last_mut()) {
                        report.notes.push(format!("on the CPU: {reason}"));
                    }
                    let started = Instant::now();
                    let rows_out = match self.program.pipelines[index].sink.fills() {
                        Some(state) => self.finish(index, state, parts, overflow)?,
                        None if matches!(self.program.pipelines[index].sink, Sink::Mark { .. }) => 0,
                        None => self.collect(index, parts, overflow, &mut result)?,
                    };
                    (rows_out, started)
                }
            };
            let ended = Instant::now();
            let early_groups = self.early_groups_of(index);
            if let Some(report) = self.reports.last_mut() {
                report.rows_out = rows_out + early_groups;
                report.rows_in += left_out;
                report.elapsed_ns += (ended - started).as_nanos() as u64;
            }
            self.timeline.iter().for_each(|timeline| timeline.note(SpanKind::Finish, started, ended));
            self.forget(index);
            self.memory.settle(self.state_bytes() + result_bytes(&result));
            index += 1;
        }
        let (batches, on_disk) = result;
        let mut reports: Vec<_> = self.order.iter().zip(self.reports).collect();
        reports.sort_by_key(|(number, _)| **number);
        let reports = reports.into_iter().map(|(_, report)| report).collect();
        Ok(QueryOutput { batches, on_disk, reports, held: None })
    }

    /// Runs one pipeline on the CPU; gives what its workers left.
    pub(super) fn on_cpu(&mut self, index: usize) -> Result<(Vec<Part>, Option<Overflow>)> {
        let parts = match self.pipeline(index, true) {
            Err(Stop::Outgrown) => self.pipeline(index, false),
            done => done,
        };
        parts.map_err(|stop| match stop {
            Stop::Failed(error) => error,
            Stop::Outgrown => Error::internal("a pipeline outgrew what it does not rely on"),
        })
    }

    /// Keeps a state. Gives its rows.
    pub(super) fn take_state(&mut self, state: StateId, done: Box<Finished>) -> Result<u64> {
        let rows = match &*done {
            Finished::Join(table) => table.len(),
            Finished::Groups(table) => table.len(),
        };
        self.finished[state.0 as usize] = Some(Arc::from(done));
        self.within_budget(self.state_bytes())?;
        Ok(rows as u64)
    }

    /// Keeps what a pipeline left that ran on a device. Gives its rows.
    fn keep(&mut self, index: usize, left: Left, result: &mut Collected) -> Result<u64> {
        match left {
            Left::Rows(rows) => self.collect(index, rows.into_iter().map(Part::Collect).collect(), None, result),
            Left::State(state, done) => self.take_state(state, done),
            Left::Build(state, made) => {
                let rows = made.rows();
                self.on_device[state.0 as usize] = Some(made);
                Ok(rows)
            }
        }
    }

    /// Makes the state of what workers left. Gives its rows.
    pub(super) fn finish(
        &mut self,
        index: usize,
        state: StateId,
        mut parts: Vec<Part>,
        overflow: Option<Overflow>,
    ) -> Result<u64> {
        let number = state.0 as usize;
        if !overflow.as_ref().is_some_and(Overflow::is_used) {
            let limit = self.state_limit(index, state);
            // What is made of it lies beside it until it is done.
            let memory = Arc::clone(&self.memory);
            let _made = memory.borrow(parts.iter().map(Part::memory_bytes).sum::<usize>().min(limit));
            match finish_within(&self.program, state, parts, self.options.threads, limit)? {
                Made::State(done) => return self.take_state(state, done),
                Made::TooLarge(rows) => parts = rows,
            }
        }
        let overflow = overflow.ok_or_else(|| Error::internal("a state that cannot be on disk is too large"))?;
        let spilled = self.spill(overflow, parts)?;
        let rows = spilled.rows.rows();
        self.note_written(&spilled);
        self.spilled[number] = Some(Arc::new(spilled));
        Ok(rows)
    }

    /// Shows what was collected. Gives the number of rows.
    pub(super) fn collect(
        &mut self,
        index: usize,
        parts: Vec<Part>,
        overflow: Option<Overflow>,
        result: &mut Collected,
    ) -> Result<u64> {
        let shape = ResultSchema::of(self.query, &self.dictionaries);
        let pipeline = &self.program.pipelines[index];
        match overflow.filter(Overflow::is_used) {
            Some(overflow) => {
                let layout = collected(&self.program, pipeline);
                let spilled = self.spill(overflow, parts)?;
                self.note_written(&spilled);
                let rows = spilled.rows.rows();
                result.1 = Some(RowsOnDisk::new(shape, layout, spilled.rows, self.cancel.clone()));
                Ok(rows)
            }
            None => {
                let _shown = self.memory.borrow(parts.iter().map(Part::memory_bytes).sum());
                let rows = collect(&self.program, pipeline, parts)?;
                let position_of = |column: usize| shape.is_ordered(column).then_some(column);
                let choose = |first: &TopK| first.choose(&rows, self.options.threads, position_of);
                let batches = match self.query.first.as_ref().and_then(choose) {
                    Some(chosen) => shape.chosen(&rows, &chosen, self.cancel)?,
                    None => shape.batches(&rows, self.cancel)?,
                };
                let count = batches.iter().map(|batch| batch.num_rows() as u64).sum();
                result.0 = batches;
                Ok(count)
            }
        }
    }

    fn note_written(&mut self, spilled: &Spilled) {
        if let Some(report) = self.reports.last_mut() {
            report.notes.push(spilled.rows.note());
            report.spill_write_bytes += spilled.rows.written_bytes();
            report.spill_read_bytes += spilled.rows.read_bytes();
        }
    }

    /// Lets go of states that no later pipeline reads.
    pub(super) fn forget(&mut self, done: usize) {
        let later = &self.program.pipelines[done + 1..];
        for number in 0..self.finished.len() {
            if !later.iter().any(|pipeline| reads(pipeline, StateId(number as u32))) {
                (self.finished[number], self.on_device[number], self.spilled[number]) = (None, None, None);
            }
        }
    }

    /// Runs one pipeline; gives what its workers left.
    fn pipeline(
        &mut self,
        index: usize,
        assumes_small_dictionaries: bool,
    ) -> std::result::Result<(Vec<Part>, Option<Overflow>), Stop> {
        self.cancel.check()?;
        let (mut task, mut parts) = match self.take_begun(index) {
            Some(Begun { task, parts, .. }) => (task, parts),
            None => (self.task(index, assumes_small_dictionaries)?, Vec::new()),
        };
        let special = Arc::clone(&task.special);
        let read_bytes = self.spill_read_bytes();
        let scanned = match &special.program.pipelines[task.index].source {
            Source::Table(source) => Some(&self.query.tables[source.table]),
            Source::Groups { .. } | Source::BuildRows { .. } => None,
        };
        let before = scanned.map(|bound| bound.metrics.snapshot()).unwrap_or_default();
        let started = Instant::now();
        task.began = Some((started, before));
        let made = self.work(&special.program.pipelines[task.index], &task)?;
        let threads = made.len().max(parts.len());
        parts.extend(made);
        let mut notes = special.notes.clone();
        notes.extend(task.note_of_equal_rows());
        if let Some(early) = task.early.take() {
            notes.extend(self.keep_begun(early));
        }
        let report = PipelineReport {
            rows_in: task.rows_in.load(Ordering::Relaxed),
            elapsed_ns: started.elapsed().as_nanos() as u64,
            compile_ns: task.compile_ns.load(Ordering::Relaxed),
            threads,
            notes,
            spill_read_bytes: self.spill_read_bytes() - read_bytes,
            steps: task.steps(),
            scan: scanned.map(|bound| ScanReport::new(bound, &before, task.tests(), self.timeline.clone())),
            ..PipelineReport::default()
        };
        match self.reports.last_mut() {
            Some(first) if self.goes_on[index] => first.go_on(report),
            _ => self.reports.push(report),
        }
        Ok((parts, task.room.into_overflow()?))
    }

    /// A pipeline with what is known by now, and its code; no worker has begun it.
    pub(super) fn task(&self, index: usize, assumes_small_dictionaries: bool) -> Result<Task> {
        let mut special = self.specialised(index, assumes_small_dictionaries);
        let finishing = self.finishing(index, &special);
        if finishing.is_some() {
            special.hash_groups();
        }
        let room = Arc::new(Room::new(self.room(index, &special)?));
        let noted = (self.options.counted, self.timeline.clone());
        let mut task = Task::new(index, Arc::new(special), room, noted);
        task.early = finishing.map(|finishing| self.early_groups(finishing)).transpose()?;
        if self.looked_up(index).is_none() {
            let source = &task.special.program.pipelines[index].source;
            let reads_nothing = matches!(source, Source::Table(source) if source.columns.is_empty());
            let counts_duplicates = reads_nothing && can_count_duplicates(&task.special.program, index);
            task.compiled = Some(self.compile(&task, &self.finished, counts_duplicates)?);
        }
        Ok(task)
    }

    /// A pipeline with what is known by now.
    pub(super) fn specialised(&self, index: usize, assumes_small_dictionaries: bool) -> Specialised {
        let known = Known {
            query: self.query,
            program: &self.program,
            finished: &self.finished,
            dictionaries: &self.dictionaries,
            budget_bytes: self.options.memory_bytes.saturating_sub(self.state_bytes()),
            threads: self.options.threads,
            assumes_small_dictionaries,
        };
        known.specialise(index)
    }

    /// The code of a pipeline that looks these states up, for rows that stand for several equal ones where it `counts_duplicates`.
    pub(super) fn compile(
        &self,
        task: &Task,
        finished: &[Option<Arc<Finished>>],
        counts_duplicates: bool,
    ) -> Result<Arc<Compiled>> {
        let layout = |state: &Option<Arc<Finished>>| match state.as_deref() {
            Some(Finished::Join(table)) => Some(table.layout()),
            _ => None,
        };
        let layouts = StateLayouts {
            joins: finished.iter().map(layout).collect(),
            groups: task.special.groups.as_ref().map(GroupPlan::layout),
            counted: self.options.counted,
            counts_duplicates,
        };
        let started = Instant::now();
        let (compiled, known) = self.engine.code().compile(&task.special.program, task.index, &layouts)?;
        if !known {
            task.timeline.iter().for_each(|timeline| timeline.note(SpanKind::Compile, started, Instant::now()));
            task.compile_ns.fetch_add(compiled.compile_ns(), Ordering::Relaxed);
        }
        Ok(compiled)
    }

    /// Bytes of memory that states and dictionaries take.
    pub(super) fn state_bytes(&self) -> usize {
        let states = self.finished.iter().flatten().map(|state| state.memory_bytes());
        let matched = self.spilled.iter().flatten().map(|spilled| spilled.matched_bytes());
        let begun = self.begun.values().map(|begun| begun.task.room.part_bytes.load(Ordering::Relaxed));
        states.sum::<usize>()
            + matched.sum::<usize>()
            + begun.sum::<usize>()
            + self.dictionaries.iter().map(|dictionary| dictionary.memory_bytes()).sum::<usize>()
    }

    pub(super) fn within_budget(&self, bytes: usize) -> Result<()> {
        let budget = self.options.memory_bytes;
        if bytes <= budget {
            return Ok(());
        }
        let (taken, budget) = (units::format_bytes(bytes as u64), units::format_bytes(budget as u64));
        Err(Error::new(ErrorKind::OutOfMemory, format!("the query's joins and groups take {taken} of {budget}"))
            .hint("Raise memory_limit, give the database more with --memory, or run fewer queries at once"))
    }
}

/// Bytes of memory that the rows of a result take.
fn result_bytes((batches, _): &Collected) -> usize {
    batches.iter().map(RecordBatch::get_array_memory_size).sum()
}

/// Whether `pipeline` needs what is in `state`.
pub(super) fn reads(pipeline: &Pipeline, state: StateId) -> bool {
    let source = match &pipeline.source {
        Source::Table(_) => false,
        Source::Groups { state: other, .. } | Source::BuildRows { state: other, .. } => *other == state,
    };
    let step = |step: &Step| matches!(step, Step::Probe(probe) if probe.state == state);
    let marks = matches!(&pipeline.sink, Sink::Mark { state: other, .. } if *other == state);
    source || marks || pipeline.steps.iter().any(step)
}
