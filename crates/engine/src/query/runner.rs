//! The life of a pipeline: specialise, compile, give its source to all workers, finish its state.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::compute::concat_batches;
use arrow::datatypes::DataType;
use forebay_base::{Error, ErrorKind, Result, units};
use forebay_cpu::compile::{Compiled, Finished, Part, Shapes, Worker, collect, finish};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::groups::GroupPlan;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};
use forebay_pipeline::ir::{Pipeline, Sink, Source, StateId, Step, TableSource};

use super::output;
use super::source::VectorLoader;
use super::specialise::{FEW_IDS, Known, Specialised};
use super::{PipelineReport, Query, QueryOptions, QueryOutput};
use crate::{CancelToken, Engine, RankedTest, Scan};

/// Why a pipeline stopped early.
enum Stop {
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

/// One run of a query.
pub(super) struct Runner<'a> {
    engine: &'a Arc<Engine>,
    query: &'a Query,
    options: &'a QueryOptions,
    cancel: &'a CancelToken,
    dictionaries: Vec<Arc<Dictionary>>,
    finished: Vec<Option<Arc<Finished>>>,
    reports: Vec<PipelineReport>,
}

/// A pipeline that runs, as its workers see it.
struct Task<'a> {
    special: &'a Specialised,
    compiled: Arc<Compiled>,
    /// The next group or build row that no worker has taken.
    cursor: AtomicUsize,
    rows_in: AtomicU64,
    /// Bytes of what the workers have made so far.
    part_bytes: AtomicUsize,
    /// Bytes that they may take.
    budget_bytes: usize,
}

impl<'a> Runner<'a> {
    /// A run that has not begun.
    pub(super) fn new(
        engine: &'a Arc<Engine>,
        query: &'a Query,
        options: &'a QueryOptions,
        cancel: &'a CancelToken,
    ) -> Self {
        let dictionaries = (0..query.program.dictionaries).map(|_| Arc::new(Dictionary::default())).collect();
        let finished = query.program.states.iter().map(|_| None).collect();
        Self { engine, query, options, cancel, dictionaries, finished, reports: Vec::new() }
    }

    /// Runs every pipeline.
    pub(super) fn run(mut self) -> Result<QueryOutput> {
        let mut batches = Vec::new();
        for index in 0..self.query.program.pipelines.len() {
            let parts = match self.pipeline(index, true) {
                Err(Stop::Outgrown) => self.pipeline(index, false),
                done => done,
            };
            let parts = parts.map_err(|stop| match stop {
                Stop::Failed(error) => error,
                Stop::Outgrown => Error::internal("a pipeline outgrew what it does not rely on"),
            })?;
            let started = Instant::now();
            let rows_out = match self.query.program.pipelines[index].sink.fills() {
                Some(state) => self.finish(state, parts)?,
                None if matches!(self.query.program.pipelines[index].sink, Sink::Mark { .. }) => 0,
                None => {
                    batches = self.collect(index, parts)?;
                    batches.iter().map(|batch| batch.num_rows() as u64).sum()
                }
            };
            if let Some(report) = self.reports.last_mut() {
                report.rows_out = rows_out;
                report.elapsed_ns += started.elapsed().as_nanos() as u64;
            }
            self.forget(index);
        }
        Ok(QueryOutput { batches, reports: self.reports })
    }

    /// Makes the state of what workers left. Gives its rows.
    fn finish(&mut self, state: StateId, parts: Vec<Part>) -> Result<u64> {
        let done = finish(&self.query.program, state, parts, self.options.threads)?;
        let rows = match &done {
            Finished::Join(table) => table.len(),
            Finished::Groups(table) => table.len(),
        };
        self.finished[state.0 as usize] = Some(Arc::new(done));
        self.within_budget(self.state_bytes())?;
        Ok(rows as u64)
    }

    fn collect(&self, index: usize, parts: Vec<Part>) -> Result<Vec<RecordBatch>> {
        let program = &self.query.program;
        let rows = collect(program, &program.pipelines[index], parts)?;
        let mut vectors = Vec::new();
        let mut batches = Vec::new();
        let is_ordered = |column: usize| {
            let is_text =
                matches!(self.query.schema.field(column).data_type(), DataType::Utf8View | DataType::BinaryView);
            !is_text && self.query.dictionaries[column].is_none()
        };
        if let Some(chosen) = self.query.first.as_ref().and_then(|first| first.choose(&rows, is_ordered)) {
            for row in chosen {
                self.cancel.check()?;
                rows.read(row..row + 1, &mut vectors);
                batches.push(output::batch(self.query, &vectors, 1, &self.dictionaries)?);
            }
            let one = concat_batches(&self.query.schema, &batches);
            return Ok(vec![one.map_err(|error| Error::internal(error.to_string()))?]);
        }
        for start in (0..rows.len()).step_by(VECTOR_ROWS) {
            self.cancel.check()?;
            let end = (start + VECTOR_ROWS).min(rows.len());
            rows.read(start..end, &mut vectors);
            batches.push(output::batch(self.query, &vectors, end - start, &self.dictionaries)?);
        }
        Ok(batches)
    }

    /// Lets go of states that no later pipeline reads.
    fn forget(&mut self, done: usize) {
        let later = &self.query.program.pipelines[done + 1..];
        for (number, state) in self.finished.iter_mut().enumerate() {
            if !later.iter().any(|pipeline| reads(pipeline, StateId(number as u32))) {
                *state = None;
            }
        }
    }

    /// Runs one pipeline; gives what its workers left.
    fn pipeline(&mut self, index: usize, trusting: bool) -> std::result::Result<Vec<Part>, Stop> {
        self.cancel.check()?;
        let known = Known {
            query: self.query,
            finished: &self.finished,
            dictionaries: &self.dictionaries,
            budget_bytes: self.options.memory_bytes,
            threads: self.options.threads,
            trusting,
        };
        let special = known.specialise(index);
        let layout = |state: &Option<Arc<Finished>>| match state.as_deref() {
            Some(Finished::Join(table)) => Some(table.layout()),
            _ => None,
        };
        let shapes = Shapes {
            joins: self.finished.iter().map(layout).collect(),
            groups: special.groups.as_ref().map(GroupPlan::layout),
        };
        let (compiled, known) = self.engine.code().compile(&special.program, index, &shapes)?;
        let mut report = PipelineReport {
            compile_ns: if known { 0 } else { compiled.compile_ns() },
            notes: special.notes.clone(),
            ..PipelineReport::default()
        };
        let started = Instant::now();
        let task = Task {
            special: &special,
            compiled,
            cursor: AtomicUsize::new(0),
            rows_in: AtomicU64::new(0),
            part_bytes: AtomicUsize::new(0),
            budget_bytes: self.options.memory_bytes.saturating_sub(self.state_bytes()),
        };
        let parts = self.work(&special.program.pipelines[index], &task)?;
        report.threads = parts.len();
        report.rows_in = task.rows_in.load(Ordering::Relaxed);
        report.elapsed_ns = started.elapsed().as_nanos() as u64;
        self.reports.push(report);
        Ok(parts)
    }

    /// Gives the source to as many workers as it is worth.
    fn work(&self, pipeline: &Pipeline, task: &Task<'_>) -> std::result::Result<Vec<Part>, Stop> {
        match &pipeline.source {
            Source::Table(source) => {
                let bound = &self.query.tables[source.table];
                let columns = source.columns.iter().map(|column| column.column).collect();
                let (table, metrics) = (Arc::clone(&bound.table), Arc::clone(&bound.metrics));
                let scan = Scan::new(Arc::clone(self.engine), table, columns, metrics, self.cancel.clone())?;
                let scan = Arc::new(scan.with_settings(self.options.scan));
                self.on_workers(scan.morsels(), || self.scan(source, &scan, task))
            }
            Source::Groups { state, .. } => match self.finished[state.0 as usize].as_deref() {
                Some(Finished::Groups(table)) => {
                    let read = |range: std::ops::Range<usize>, vectors: &mut Vec<Vector>| {
                        let rows = range.len();
                        table.rows().read(range, vectors);
                        rows
                    };
                    self.on_workers(table.len().div_ceil(STATE_MORSEL_ROWS), || {
                        self.scan_state(table.len(), read, task)
                    })
                }
                _ => Err(Stop::Failed(Error::internal("groups are scanned before they are finished"))),
            },
            Source::BuildRows { state, matched, .. } => match self.finished[state.0 as usize].as_deref() {
                Some(Finished::Join(table)) => {
                    let read =
                        |range: std::ops::Range<usize>, vectors: &mut Vec<Vector>| table.read(range, *matched, vectors);
                    self.on_workers(table.len().div_ceil(STATE_MORSEL_ROWS), || {
                        self.scan_state(table.len(), read, task)
                    })
                }
                _ => Err(Stop::Failed(Error::internal("build rows are scanned before they are finished"))),
            },
        }
    }

    /// Runs `work` on as many threads as there is work for, at least one.
    fn on_workers(
        &self,
        morsels: usize,
        work: impl Fn() -> std::result::Result<Part, Stop> + Sync,
    ) -> std::result::Result<Vec<Part>, Stop> {
        let threads = self.options.threads.min(morsels).max(1);
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(&work)).collect();
            let mut parts = vec![work()];
            parts.extend(others.into_iter().map(|other| {
                let panicked = |_| Err(Stop::Failed(Error::internal("a worker of a pipeline panicked")));
                other.join().unwrap_or_else(panicked)
            }));
            parts.into_iter().collect()
        })
    }

    /// One worker's share of a table.
    fn scan(&self, source: &TableSource, scan: &Arc<Scan>, task: &Task<'_>) -> std::result::Result<Part, Stop> {
        let mut worker = self.worker(task)?;
        let mut loader = VectorLoader::new(source, &self.dictionaries);
        let mut tests: Vec<RankedTest> = task.special.tests.clone();
        let bound = &self.query.tables[source.table];
        let mut filters = bound.filters.iter().map(|filter| filter.filter()).collect::<Result<Vec<_>>>()?;
        let mut known_bytes = 0;
        while let Some(morsel) = scan.next_morsel() {
            let rows = scan.run(morsel, &mut tests, &mut filters)?;
            let mut rows_in = 0;
            while let Some((count, vectors)) = loader.next(&rows)? {
                if task.special.few.iter().any(|number| self.dictionaries[*number].len() > FEW_IDS) {
                    return Err(Stop::Outgrown);
                }
                self.cancel.check()?;
                worker.run(vectors, count)?;
                rows_in += count as u64;
            }
            task.rows_in.fetch_add(rows_in, Ordering::Relaxed);
            self.account(task, &worker, &mut known_bytes)?;
        }
        Ok(worker.finish())
    }

    /// One worker's share of the rows of a state; `read` fills vectors with some of a range of rows and says how many.
    fn scan_state(
        &self,
        rows: usize,
        read: impl Fn(std::ops::Range<usize>, &mut Vec<Vector>) -> usize,
        task: &Task<'_>,
    ) -> std::result::Result<Part, Stop> {
        let mut worker = self.worker(task)?;
        let mut vectors = Vec::new();
        let mut known_bytes = 0;
        loop {
            let start = task.cursor.fetch_add(STATE_MORSEL_ROWS, Ordering::Relaxed);
            if start >= rows {
                return Ok(worker.finish());
            }
            let end = (start + STATE_MORSEL_ROWS).min(rows);
            for start in (start..end).step_by(VECTOR_ROWS) {
                self.cancel.check()?;
                let count = read(start..(start + VECTOR_ROWS).min(end), &mut vectors);
                worker.run(&vectors, count)?;
                task.rows_in.fetch_add(count as u64, Ordering::Relaxed);
            }
            self.account(task, &worker, &mut known_bytes)?;
        }
    }

    fn worker(&self, task: &Task<'_>) -> Result<Worker> {
        let worker = Worker::new(&task.compiled, &self.finished, task.special.groups.as_ref())?;
        Ok(worker.stopped_by(self.cancel.flag()))
    }

    /// Adds what a worker has taken since it was last asked, within the budget.
    fn account(&self, task: &Task<'_>, worker: &Worker, known_bytes: &mut usize) -> Result<()> {
        let now = worker.memory_bytes();
        let more = now.saturating_sub(*known_bytes);
        *known_bytes = now;
        let all = task.part_bytes.fetch_add(more, Ordering::Relaxed) + more;
        match all <= task.budget_bytes {
            true => Ok(()),
            false => self.within_budget(all + self.state_bytes()),
        }
    }

    fn state_bytes(&self) -> usize {
        let states = self.finished.iter().flatten().map(|state| match &**state {
            Finished::Join(table) => table.memory_bytes(),
            Finished::Groups(table) => table.memory_bytes(),
        });
        states.sum::<usize>() + self.dictionaries.iter().map(|dictionary| dictionary.memory_bytes()).sum::<usize>()
    }

    fn within_budget(&self, bytes: usize) -> Result<()> {
        let budget = self.options.memory_bytes;
        if bytes <= budget {
            return Ok(());
        }
        let (taken, budget) = (units::format_bytes(bytes as u64), units::format_bytes(budget as u64));
        Err(Error::new(ErrorKind::OutOfMemory, format!("the query's joins and groups take {taken} of {budget}"))
            .hint("Start forebay with more --memory"))
    }
}

/// Rows of a state that a worker takes at a time.
const STATE_MORSEL_ROWS: usize = 2 * VECTOR_ROWS;

/// Whether `pipeline` needs what is in `state`.
fn reads(pipeline: &Pipeline, state: StateId) -> bool {
    let source = match &pipeline.source {
        Source::Table(_) => false,
        Source::Groups { state: other, .. } | Source::BuildRows { state: other, .. } => *other == state,
    };
    let step = |step: &Step| matches!(step, Step::Probe(probe) if probe.state == state);
    let marks = matches!(&pipeline.sink, Sink::Mark { state: other, .. } if *other == state);
    source || marks || pipeline.steps.iter().any(step)
}
