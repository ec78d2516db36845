//! What pipelines did, for EXPLAIN ANALYZE.

use std::sync::atomic::Ordering;

use forebay_pipeline::ir::Source;

use super::task::Task;
use super::{Query, QueryOptions, QueryTable};
use crate::metrics::MetricsSnapshot;
use crate::timeline::SourceTimeline;
use crate::traffic::Traffic;

/// What one pipeline did.
#[derive(Debug, Clone, Default)]
pub struct PipelineReport {
    /// Rows that entered the first step.
    pub rows_in: u64,
    /// Rows, groups or build rows that it left.
    pub rows_out: u64,
    /// Wall time without compilation.
    pub elapsed_ns: u64,
    /// Time to compile it; 0 where its code was there already.
    pub compile_ns: u64,
    /// Workers.
    pub threads: usize,
    /// Bytes of rows that went to disk, because they did not fit the memory.
    pub spill_write_bytes: u64,
    /// Bytes of such rows that were read.
    pub spill_read_bytes: u64,
    /// What was chosen at run time: layouts of states, filters handed to the scan.
    pub notes: Vec<String>,
    /// What the scan did where the source is a table.
    pub scan: Option<ScanReport>,
    /// One for each filter and probe of the query's pipeline, in order; none where nobody counted.
    pub steps: Vec<StepReport>,
}

/// What became of the rows at one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepReport {
    /// So many rows left it.
    Ran(u64),
    /// The scan did it, by this one of its tests.
    InScan(usize),
}

/// What the scan of a table did.
#[derive(Debug, Clone, Default)]
pub struct ScanReport {
    /// Rows of the table.
    pub rows: u64,
    /// Blocks of the table.
    pub blocks: u64,
    /// Blocks that zones ruled out.
    pub blocks_pruned: u64,
    /// Rows of the other blocks.
    pub rows_in: u64,
    /// Rows of those that positional aggregates left out.
    pub psma_rows: u64,
    /// Rows that came to the filters that codes cannot answer, if there are any.
    pub rows_filtered: u64,
    /// Bytes of chunks that came from disk.
    pub read_bytes: u64,
    /// Chunks of which only some blocks were read.
    pub chunks_in_part: u64,
    /// Time that the workers, one after the other, waited for them.
    pub read_wait_ns: u64,
    /// Time that they took to inflate them.
    pub inflate_ns: u64,
    /// Where the chunks of its columns came from.
    pub traffic: Traffic,
    /// What the pipeline is expected to take with that ([`crate::column_shares`]), where enough is known.
    pub expected_ns: Option<u64>,
    /// The predicates: the source's, then the runtime filters of build sides.
    pub tests: Vec<TestReport>,
    /// When it did what, where somebody asked.
    pub timeline: Option<SourceTimeline>,
}

/// What one test did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestReport {
    /// Positions of its columns in the table's list.
    pub columns: Vec<usize>,
    /// What it looks for, where a build side told; the source knows the others.
    pub learned: Option<String>,
    /// Rows that came to it; not those whose zones decided.
    pub rows_in: u64,
    /// Rows of those that passed.
    pub rows_out: u64,
}

impl PipelineReport {
    /// Adds what the second half of the same pipeline did, which was cut in two.
    pub(super) fn go_on(&mut self, second: Self) {
        self.rows_out = second.rows_out;
        self.elapsed_ns += second.elapsed_ns;
        self.compile_ns += second.compile_ns;
        self.threads = self.threads.max(second.threads);
        self.spill_write_bytes += second.spill_write_bytes;
        self.spill_read_bytes += second.spill_read_bytes;
        self.notes.extend(second.notes);
        self.steps.extend(second.steps);
    }

    /// The same report, with what the ended workers of a task for one range counted; of its steps nothing.
    pub(super) fn of_task(mut self, task: &Task) -> Self {
        self.rows_in = task.rows_in.load(Ordering::Relaxed);
        self.compile_ns = task.compile_ns.load(Ordering::Relaxed);
        self.notes.clone_from(&task.special.notes);
        self.scan = Some(ScanReport { tests: task.tests(), ..ScanReport::default() });
        self
    }

    /// Adds what the same pipeline did for another range.
    pub(super) fn add_range(&mut self, other: Self) {
        self.rows_in += other.rows_in;
        self.rows_out += other.rows_out;
        self.elapsed_ns += other.elapsed_ns;
        self.compile_ns += other.compile_ns;
        let new = other.notes.into_iter().filter(|note| !self.notes.contains(note)).collect::<Vec<_>>();
        self.notes.extend(new);
        self.add_steps(other.steps);
        let scan = self.scan.get_or_insert_with(ScanReport::default);
        for (index, test) in other.scan.map(|scan| scan.tests).unwrap_or_default().into_iter().enumerate() {
            match scan.tests.get_mut(index).filter(|known| known.columns == test.columns) {
                Some(known) => known.add((test.rows_in, test.rows_out)),
                // Of another range, which had other keys to look for.
                None => scan.tests.push(test),
            }
        }
    }

    /// Adds the rows that left each step for another range.
    pub(super) fn add_steps(&mut self, steps: Vec<StepReport>) {
        if self.steps.len() < steps.len() {
            self.steps.resize(steps.len(), StepReport::Ran(0));
        }
        for (sum, step) in self.steps.iter_mut().zip(steps) {
            *sum = match (*sum, step) {
                (StepReport::Ran(a), StepReport::Ran(b)) => StepReport::Ran(a + b),
                (_, in_scan) => in_scan,
            };
        }
    }
}

impl ScanReport {
    /// What a scan of `bound` did by these tests, whose counters were at `before` when it began.
    pub(super) fn new(
        bound: &QueryTable,
        before: &MetricsSnapshot,
        tests: Vec<TestReport>,
        timeline: Option<SourceTimeline>,
    ) -> Self {
        let now = bound.metrics.snapshot();
        Self {
            rows: bound.table.rows(),
            blocks: now.blocks - before.blocks,
            blocks_pruned: now.blocks_pruned - before.blocks_pruned,
            rows_in: now.rows_in - before.rows_in,
            psma_rows: now.psma_rows - before.psma_rows,
            rows_filtered: now.rows_filtered - before.rows_filtered,
            read_bytes: now.read_bytes - before.read_bytes,
            chunks_in_part: now.chunks_in_part - before.chunks_in_part,
            read_wait_ns: now.read_ns - before.read_ns,
            inflate_ns: now.inflate_ns - before.inflate_ns,
            traffic: bound.metrics.take_traffic(),
            expected_ns: None,
            tests,
            timeline,
        }
    }
}

impl TestReport {
    /// Nothing seen yet.
    pub(super) fn new(columns: Vec<usize>, learned: Option<String>) -> Self {
        Self { columns, learned, rows_in: 0, rows_out: 0 }
    }

    /// Adds the rows that one worker saw come and pass.
    pub(super) fn add(&mut self, (rows_in, rows_out): (u64, u64)) {
        self.rows_in += rows_in;
        self.rows_out += rows_out;
    }
}

/// Where a pipeline with this source notes when it does what.
pub(super) fn timeline_of(options: &QueryOptions, query: &Query, source: &Source) -> Option<SourceTimeline> {
    let recorder = options.timeline.as_ref()?;
    Some(match source {
        Source::Table(source) => recorder.scan_of(&query.tables[source.table].table),
        Source::Groups { state, .. } => recorder.state_of(format!("groups #{}", state.0)),
        Source::BuildRows { state, .. } => recorder.state_of(format!("rows of #{}", state.0)),
    })
}
