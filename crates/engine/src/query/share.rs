//! The source of a pipeline, shared by its workers: each takes morsels of a table or ranges of a state, loads them into
//! vectors and runs the pipeline's code on them, until none is left.

use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use forebay_base::{Error, Result};
use forebay_cpu::compile::{Compiled, Finished, Part, Worker, can_count_duplicates};
use forebay_cpu::pool;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};
use forebay_pipeline::ir::{AggregateFunction, Pipeline, Program, Sink, Source, State, TableSource};

use super::early::EarlyWorker;
use super::noted::WatchedScan;
use super::partner_tests::rule_out_by_keys;
use super::runner::{Runner, Stop};
use super::source::{EqualRows, Loaded, VectorLoader};
use super::specialise::FEW_IDS;
use super::task::Task;
use crate::morsel::Morsel;
use crate::{AdaptivePredicate, RowFilter, RuntimeFilter, Scan};

/// Rows of a state that a worker takes at a time.
const STATE_MORSEL_ROWS: usize = 2 * VECTOR_ROWS;

/// What a worker has that takes morsels of a table through a pipeline.
pub(super) struct TableShare<'a> {
    pub(super) worker: &'a mut Worker,
    pub(super) loader: VectorLoader<'a>,
    pub(super) tests: Vec<AdaptivePredicate>,
    pub(super) keys: Vec<RuntimeFilter>,
    pub(super) filters: Vec<Box<dyn RowFilter>>,
    pub(super) equal_rows: EqualRows,
    /// Bytes that the worker was known to hold.
    pub(super) known_bytes: usize,
}

impl Runner<'_> {
    /// Gives the source to as many workers as it is worth.
    pub(super) fn work(&self, pipeline: &Pipeline, task: &Task) -> std::result::Result<Vec<Part>, Stop> {
        match &pipeline.source {
            Source::Table(source) => {
                let scan = self.scan_of(source)?;
                rule_out_by_keys(
                    self.engine,
                    &self.query.tables[source.table],
                    (&scan, self.options.scan.facts),
                    &task.special,
                );
                self.on_workers(scan.morsels(), || self.scan(source, &scan, task))
            }
            Source::Groups { state, .. } | Source::BuildRows { state, .. }
                if let Some(spilled) = self.spilled[state.0 as usize].as_ref() =>
            {
                self.on_workers(spilled.rows.partitions().count(), || self.scan_partitions(*state, spilled, task))
            }
            Source::Groups { state, .. } => match self.finished[state.0 as usize].as_deref() {
                Some(Finished::Groups(table)) => {
                    let read = |range: Range<usize>, vectors: &mut Vec<Vector>| {
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
                    let read = |range: Range<usize>, vectors: &mut Vec<Vector>| table.read(range, *matched, vectors);
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
        work: impl Fn() -> std::result::Result<Option<Part>, Stop> + Sync,
    ) -> std::result::Result<Vec<Part>, Stop> {
        let threads = self.options.threads.min(morsels).max(1);
        let panicked = |_| Err(Stop::Failed(Error::internal("a worker of a pipeline panicked")));
        let parts = pool::run(threads, work).into_iter().map(|part| part.unwrap_or_else(panicked));
        parts.filter_map(std::result::Result::transpose).collect()
    }

    /// One worker's share of a table.
    fn scan(&self, source: &TableSource, scan: &Arc<Scan>, task: &Task) -> std::result::Result<Option<Part>, Stop> {
        let mut worker = self.worker(task)?;
        let loader = VectorLoader::new(source, &self.dictionaries);
        let tests: Vec<AdaptivePredicate> = task.special.tests.clone();
        let keys: Vec<RuntimeFilter> = task.special.keys.iter().map(|(filter, _)| filter.clone()).collect();
        let bound = &self.query.tables[source.table];
        let filters = bound.filters.iter().map(|filter| filter.filter()).collect::<Result<Vec<_>>>()?;
        let mut early = task.early.as_ref().map(|groups| EarlyWorker::new(self, groups)).transpose()?;
        let can_fold = can_count_duplicates(&task.special.program, task.index);
        if can_fold && !worker.counts_duplicates() && self.options.scan.fold_rows == 0 {
            worker.count_duplicates_with(&self.duplicates_code(task)?)?;
        }
        let equal_rows = match can_fold {
            true if worker.counts_duplicates() => EqualRows::Folded,
            true => EqualRows::Noticed,
            false => EqualRows::Ignored,
        };
        let mut share = TableShare { worker: &mut worker, loader, tests, keys, filters, equal_rows, known_bytes: 0 };
        // Groups that are finished early come from rows in the table's order.
        if task.early.is_none() && takes_any_order(&task.special.program, task.index) {
            scan.join_others();
        }
        while let Some(morsel) = scan.next_morsel() {
            self.scan_morsel(scan, morsel, task, &mut share, early.as_mut())?;
            if let (Some(watch), Some((started, before))) = (&self.watch, &task.began) {
                let (pipeline, morsels, metrics) = (task.index, scan.morsels(), &*bound.metrics);
                let threads = self.options.threads.min(morsels).max(1);
                watch.look(&WatchedScan { pipeline, started: *started, metrics, before, morsels, threads });
            }
        }
        task.tested(&share.tests, &share.keys);
        early.into_iter().for_each(EarlyWorker::end);
        Ok(Some(task.end(worker)))
    }

    /// Takes a morsel through a pipeline.
    pub(super) fn scan_morsel(
        &self,
        scan: &Arc<Scan>,
        morsel: Morsel,
        task: &Task,
        share: &mut TableShare<'_>,
        mut early: Option<&mut EarlyWorker<'_>>,
    ) -> std::result::Result<(), Stop> {
        let TableShare { worker, loader, tests, keys, filters, equal_rows, known_bytes } = share;
        let rows = scan.run_with_keys(morsel, tests, keys, filters)?;
        let mut rows_in = 0;
        while let Some(loaded) = loader.next(&rows, *equal_rows)? {
            let small = &task.special.assumed_small_dictionaries;
            if small.iter().any(|number| self.dictionaries[*number].len() > FEW_IDS) {
                return Err(Stop::Outgrown);
            }
            self.cancel.check()?;
            self.run_loaded(&loaded, task, worker, equal_rows)?;
            let count = loaded.table_rows();
            if let (Some(early), Some(block)) = (&mut early, loader.finished_block(&rows)) {
                early.pass_on(self, worker, (morsel, block))?;
            }
            self.account(task, worker, known_bytes)?;
            rows_in += count;
        }
        task.rows_in.fetch_add(rows_in, Ordering::Relaxed);
        Ok(())
    }

    /// Takes loaded rows through a worker. Once there were enough equal ones, later blocks are folded.
    fn run_loaded(
        &self,
        loaded: &Loaded<'_>,
        task: &Task,
        worker: &mut Worker,
        equal_rows: &mut EqualRows,
    ) -> Result<()> {
        if let Some(multiplicities) = loaded.multiplicities {
            return worker.run_duplicates(loaded.vectors, multiplicities);
        }
        worker.run(loaded.vectors, loaded.rows)?;
        if loaded.equal
            && *equal_rows == EqualRows::Noticed
            && task.equal_rows.fetch_add(loaded.rows, Ordering::Relaxed) >= self.options.scan.fold_rows
        {
            worker.count_duplicates_with(&self.duplicates_code(task)?)?;
            *equal_rows = EqualRows::Folded;
        }
        Ok(())
    }

    /// The code of a pipeline for equal rows of blocks; the first worker that asks compiles it.
    fn duplicates_code(&self, task: &Task) -> Result<Arc<Compiled>> {
        // It is there or not, also after a panic.
        let mut duplicates_code = task.duplicates_code.lock().unwrap_or_else(PoisonError::into_inner);
        match &*duplicates_code {
            Some(code) => Ok(Arc::clone(code)),
            None => Ok(Arc::clone(duplicates_code.insert(self.compile(task, &self.finished, true)?))),
        }
    }

    /// One worker's share of the rows of a state; `read` fills vectors with some of a range of rows and says how many.
    fn scan_state(
        &self,
        rows: usize,
        read: impl Fn(Range<usize>, &mut Vec<Vector>) -> usize,
        task: &Task,
    ) -> std::result::Result<Option<Part>, Stop> {
        let _computing = task.computing();
        let mut worker = self.worker(task)?;
        let mut vectors = Vec::new();
        let mut known_bytes = 0;
        loop {
            let start = task.cursor.fetch_add(STATE_MORSEL_ROWS, Ordering::Relaxed);
            if start >= rows {
                return Ok(Some(task.end(worker)));
            }
            let range = start..(start + STATE_MORSEL_ROWS).min(rows);
            self.feed(range, &read, &mut vectors, task, (&mut worker, &mut known_bytes))?;
        }
    }

    pub(super) fn worker(&self, task: &Task) -> Result<Worker> {
        let compiled = task.compiled.as_ref().ok_or_else(|| Error::internal("a worker without code"))?;
        let worker = Worker::new(compiled, &self.finished, task.special.groups.as_ref())?;
        Ok(worker.stopped_by(self.cancel.flag()))
    }

    /// Takes a range of rows of a state through a worker, which was known to hold so many bytes.
    pub(super) fn feed(
        &self,
        rows: Range<usize>,
        read: impl Fn(Range<usize>, &mut Vec<Vector>) -> usize,
        vectors: &mut Vec<Vector>,
        task: &Task,
        (worker, known_bytes): (&mut Worker, &mut usize),
    ) -> Result<()> {
        for start in rows.clone().step_by(VECTOR_ROWS) {
            self.cancel.check()?;
            let count = read(start..(start + VECTOR_ROWS).min(rows.end), vectors);
            worker.run(vectors, count)?;
            task.rows_in.fetch_add(count as u64, Ordering::Relaxed);
            self.account(task, worker, known_bytes)?;
        }
        Ok(())
    }

    /// Notes what a worker has taken since it was last asked. What is more than its share goes to disk; what cannot has to
    /// be within the budget.
    fn account(&self, task: &Task, worker: &mut Worker, known_bytes: &mut usize) -> Result<()> {
        if let Some(overflow) = &task.room.overflow {
            overflow.relieve(self.engine, worker)?;
        }
        let now = worker.memory_bytes();
        let before = std::mem::replace(known_bytes, now);
        self.memory.note(before, now);
        let all = match now >= before {
            true => task.room.part_bytes.fetch_add(now - before, Ordering::Relaxed) + (now - before),
            false => task.room.part_bytes.fetch_sub(before - now, Ordering::Relaxed) - (before - now),
        };
        match all <= task.room.budget_bytes {
            true => Ok(()),
            false => self.within_budget(all + self.state_bytes()),
        }
    }
}

/// Whether a pipeline makes the same of its rows in whatever order they come: aggregates, but for those that take the first value.
fn takes_any_order(program: &Program, index: usize) -> bool {
    let Sink::Aggregate { state, .. } = &program.pipelines[index].sink else { return false };
    let State::Aggregate(groups) = &program.states[state.0 as usize] else { return false };
    groups.aggregates.iter().all(|aggregate| aggregate.function != AggregateFunction::First)
}
