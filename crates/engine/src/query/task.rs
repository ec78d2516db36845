//! A pipeline that runs: what its workers share, and what they counted.

use std::sync::atomic::{AtomicU64, AtomicUsize};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use forebay_base::{Error, Result};
use forebay_cpu::compile::{Compiled, Part, Worker};

use super::early::EarlyGroups;
use super::partitions::Overflow;
use super::specialise::{Specialised, StepPlace};
use super::{StepReport, TestReport};
use crate::metrics::MetricsSnapshot;
use crate::timeline::{Computing, SourceTimeline};
use crate::{AdaptivePredicate, RuntimeFilter};

/// A pipeline that runs, as its workers see it.
pub(super) struct Task {
    pub(super) index: usize,
    pub(super) special: Arc<Specialised>,
    /// `None` where that depends on the partition of the state that is looked up.
    pub(super) compiled: Option<Arc<Compiled>>,
    pub(super) compile_ns: AtomicU64,
    /// Code for equal rows of blocks, once that is worth compiling.
    pub(super) duplicates_code: Mutex<Option<Arc<Compiled>>>,
    /// Rows that workers noticed to be equal to others of their block.
    pub(super) equal_rows: AtomicUsize,
    /// The next group, build row or partition that no worker has taken.
    pub(super) cursor: AtomicUsize,
    pub(super) rows_in: AtomicU64,
    /// The room for what the workers make.
    pub(super) room: Arc<Room>,
    /// What becomes of groups that are finished before all rows have come.
    pub(super) early: Option<Box<EarlyGroups>>,
    /// Where it is noted when the pipeline does what.
    pub(super) timeline: Option<SourceTimeline>,
    /// When it began, and what its table's counters were then.
    pub(super) began: Option<(Instant, MetricsSnapshot)>,
    /// What the workers counted that have ended.
    counted: Mutex<Counted>,
}

/// The memory of what the workers of a pipeline make, and what they do with more.
#[derive(Debug)]
pub(super) struct Room {
    /// Bytes of what they have made so far.
    pub(super) part_bytes: AtomicUsize,
    /// Bytes that they may take.
    pub(super) budget_bytes: usize,
    /// Where they put what is more than their share of it, if that can be.
    pub(super) overflow: Option<Overflow>,
}

impl Room {
    /// Room for so many bytes.
    pub(super) fn new((budget_bytes, overflow): (usize, Option<Overflow>)) -> Self {
        Self { part_bytes: AtomicUsize::new(0), budget_bytes, overflow }
    }

    /// Where the workers, which have all ended, put what was more than their share.
    pub(super) fn into_overflow(self: Arc<Self>) -> Result<Option<Overflow>> {
        let room = Arc::into_inner(self).ok_or_else(|| Error::internal("a worker of a pipeline has not ended"))?;
        Ok(room.overflow)
    }
}

/// Rows as workers counted them.
struct Counted {
    /// By step of the pipeline that is compiled: those that left it. Empty where nobody counts.
    steps: Vec<u64>,
    tests: Vec<TestReport>,
}

impl Task {
    /// A task that no worker has begun; `counted` where the rows of each step are.
    pub(super) fn new(
        index: usize,
        special: Arc<Specialised>,
        room: Arc<Room>,
        (counted, timeline): (bool, Option<SourceTimeline>),
    ) -> Self {
        let steps = if counted { special.program.pipelines[index].steps.len() } else { 0 };
        Self {
            index,
            special,
            compiled: None,
            compile_ns: AtomicU64::new(0),
            duplicates_code: Mutex::default(),
            equal_rows: AtomicUsize::new(0),
            cursor: AtomicUsize::new(0),
            rows_in: AtomicU64::new(0),
            room,
            early: None,
            timeline,
            began: None,
            counted: Mutex::new(Counted { steps: vec![0; steps], tests: Vec::new() }),
        }
    }

    /// Notes that this thread computes on rows of a state, until the result is dropped.
    pub(super) fn computing(&self) -> Option<Computing> {
        self.timeline.as_ref().map(|timeline| timeline.compute(None))
    }

    /// What a worker leaves that has nothing more to do.
    pub(super) fn end(&self, worker: Worker) -> Part {
        self.counted().steps.iter_mut().zip(worker.step_rows()).for_each(|(sum, rows)| *sum += rows);
        worker.finish()
    }

    /// Says that equal rows of blocks ran as one.
    pub(super) fn note_of_equal_rows(&self) -> Option<String> {
        let duplicates_code = self.duplicates_code.lock().unwrap_or_else(PoisonError::into_inner);
        duplicates_code.as_ref().map(|_| "of equal rows of a block one runs for all".to_owned())
    }

    /// Adds what a worker saw its tests do.
    pub(super) fn tested(&self, tests: &[AdaptivePredicate], keys: &[RuntimeFilter]) {
        let reports = &mut self.counted().tests;
        if reports.is_empty() {
            let learned = self.special.learned.iter().map(Option::as_ref);
            let of_test = |(test, learned): (&AdaptivePredicate, Option<&String>)| {
                TestReport::new(vec![test.test.column], learned.cloned())
            };
            reports.extend(tests.iter().zip(learned).map(of_test));
            let of_keys = |(filter, text): &(RuntimeFilter, String)| {
                TestReport::new(filter.columns().collect(), Some(text.clone()))
            };
            reports.extend(self.special.keys.iter().map(of_keys));
        }
        let rows = tests.iter().map(AdaptivePredicate::rows).chain(keys.iter().map(RuntimeFilter::rows));
        reports.iter_mut().zip(rows).for_each(|(report, rows)| report.add(rows));
    }

    fn counted(&self) -> MutexGuard<'_, Counted> {
        // Sums are changed by what cannot panic.
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the tests did, once all workers have ended.
    pub(super) fn tests(&self) -> Vec<TestReport> {
        std::mem::take(&mut self.counted().tests)
    }

    /// What became of the rows at each step, once all workers have ended.
    pub(super) fn steps(&self) -> Vec<StepReport> {
        let counted = self.counted();
        let report = |place: &StepPlace| match place {
            StepPlace::Pipeline(number) => counted.steps.get(*number).map(|rows| StepReport::Ran(*rows)),
            StepPlace::Scan(test) => Some(StepReport::InScan(*test)),
        };
        self.special.steps.iter().map_while(report).collect()
    }
}
