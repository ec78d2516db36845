//! Runs a program of pipelines over tables (Data Blocks §4): for each pipeline in turn, compile it for the states that are
//! there, let the workers take morsels, make one state of what they leave.
//!
//! Reading order: [`run`], then `runner` (a pipeline's life), `coming` (reads for the next ones), `device` (the same beside the CPU), `source` (morsels become vectors), `first` and `output`
//! (vectors become Arrow), `spill` and `partitions` (what does not fit the memory), `partitionwise` (pipelines that run range by
//! range of a key). Invariants: the answer does not depend on
//! the number of workers or on the execution; nothing is returned before the whole program has run, though what does not
//! fit the memory is read back while it is taken. Must not know: SQL, DataFusion.

mod coming;
mod copies;
mod device;
mod early;
mod interpreted;
mod memory;
mod noted;
mod output;
mod partitions;
mod partitionwise;
mod partner_tests;
mod report;
mod runner;
mod share;
pub(crate) mod source;
mod specialise;
mod spill;
mod task;
mod top_k;

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use forebay_base::Result;
use forebay_base::budget::{Client, Tier};
use forebay_pipeline::ir::{DictionaryId, Program, StateId};
use forebay_store::TableSnapshot;

use crate::copies::CopyChoice;
use crate::timeline::Recorder;
use crate::{CancelToken, DeviceChoice, Engine, Metrics, RowFilter, ScanSettings};

use memory::RunMemory;

pub use copies::choose_copies;
pub use device::places;
pub use output::RowsOnDisk;
pub use report::{PipelineReport, ScanReport, StepReport, TestReport};
pub use top_k::{SortKey, TopK};

/// A program with what it is bound to.
#[derive(Debug)]
pub struct Query {
    /// What is computed; verified by whoever made it.
    pub program: Program,
    /// Per state: the rows or groups that it is expected to hold. A guess, which decides layouts and never answers; `None`,
    /// or nothing for a state, where nobody has one.
    pub expected_rows: Vec<Option<f64>>,
    /// The tables, by the numbers that the program gives them.
    pub tables: Vec<QueryTable>,
    /// The columns of the result; their Arrow types say how the collected values are shown.
    pub schema: SchemaRef,
    /// Per column of the result: the dictionary whose ids it holds.
    pub dictionaries: Vec<Option<DictionaryId>>,
    /// Whoever reads the result takes only these of its rows: others may be left out.
    pub first: Option<TopK>,
}

impl Query {
    /// The rows that a state is expected to have.
    fn expected_rows(&self, state: StateId) -> Option<f64> {
        self.expected_rows.get(state.0 as usize).copied().flatten()
    }
}

/// A table of a query.
#[derive(Debug)]
pub struct QueryTable {
    /// The table.
    pub table: Arc<TableSnapshot>,
    /// What rows must pass besides the source's tests: what neither codes nor the IR can answer.
    pub filters: Vec<Arc<dyn FilterSource>>,
    /// What scanning it costs.
    pub metrics: Arc<Metrics>,
    /// How many of its rows go on; a guess, which decides what is read early, and never answers.
    pub expected: Option<ExpectedRows>,
    /// What facts about its blocks told.
    pub facts: FactReports,
    /// The copies of its rows that it was chosen among, if there were any.
    pub copies: Option<CopyChoice>,
    /// Columns that whoever reads the result fetches by the places of its rows.
    pub fetched: Vec<usize>,
}

/// What facts about a table's blocks ruled out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FactReport {
    /// The blocks that have no row that the query needs.
    pub blocks: usize,
    /// The columns whose values told, with their tables.
    pub by: Vec<String>,
}

/// What facts about a table's blocks told so far.
#[derive(Debug, Default)]
pub struct FactReports(Mutex<FactReport>);

impl FactReports {
    /// What they told before any row was looked at. A scan that is made anew is told the same.
    pub(crate) fn begin(&self, report: FactReport) {
        *self.lock() = report;
    }

    /// They told more, by these columns.
    pub(crate) fn add(&self, blocks: usize, by: Vec<String>) {
        let mut report = self.lock();
        report.blocks += blocks;
        let new: Vec<String> = by.into_iter().filter(|name| !report.by.contains(name)).collect();
        report.by.extend(new);
    }

    /// All of it.
    pub fn told(&self) -> FactReport {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, FactReport> {
        // Whatever a panicking holder left is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many rows of a table are expected to go on in a pipeline that scans it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExpectedRows {
    /// Those that pass the scan's own tests and filters.
    pub tested: f64,
    /// Of these, those that no join behind the scan leaves out.
    pub kept: f64,
}

/// Makes a row filter for each worker.
pub trait FilterSource: fmt::Debug + Send + Sync {
    /// A filter of its own for one worker; columns are positions in the table's list.
    fn filter(&self) -> Result<Box<dyn RowFilter>>;
}

/// What executes pipelines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Execution {
    /// The IR's interpreter, on one thread: the oracle.
    Interpreter,
    /// Machine code.
    #[default]
    Compiled,
}

/// How to run a query.
#[derive(Debug, Clone)]
pub struct QueryOptions {
    /// Workers, at least one.
    pub threads: usize,
    /// What executes pipelines.
    pub execution: Execution,
    /// What runs pipelines besides the CPU; the interpreter runs on the CPU.
    pub device: DeviceChoice,
    /// How tables are scanned.
    pub scan: ScanSettings,
    /// Most bytes that the query's states may take together, if the account has as many; what is more goes to disk, and what cannot
    /// is [`forebay_base::ErrorKind::OutOfMemory`].
    pub memory_bytes: usize,
    /// The account of the statement that it is a part of; `None` where it is none.
    pub account: Option<Client>,
    /// The rows that leave each step are counted, for [`PipelineReport::steps`].
    pub counted: bool,
    /// Where it is noted when the query did what.
    pub timeline: Option<Arc<Recorder>>,
}

/// What a query gave.
#[derive(Debug)]
pub struct QueryOutput {
    /// The rows, in no order.
    pub batches: Vec<RecordBatch>,
    /// More of them, which did not fit the memory.
    pub on_disk: Option<RowsOnDisk>,
    /// One per pipeline.
    pub reports: Vec<PipelineReport>,
    /// What it takes of the memory, as long as somebody has it.
    pub held: Option<HeldRows>,
}

/// Memory that the rows of an answer take.
#[derive(Debug)]
pub struct HeldRows {
    engine: Arc<Engine>,
    memory: Option<Arc<RunMemory>>,
}

impl Drop for HeldRows {
    fn drop(&mut self) {
        self.memory = None;
        self.engine.memory().given_back();
    }
}

/// Runs `query` to its end. Errors: those of reading, [`forebay_base::ErrorKind::Overflow`] and other faults of its
/// arithmetic, [`forebay_base::ErrorKind::OutOfMemory`], [`forebay_base::ErrorKind::Cancelled`].
pub fn run(engine: &Arc<Engine>, query: &Query, options: &QueryOptions, cancel: &CancelToken) -> Result<QueryOutput> {
    let started = Instant::now();
    let mut output = match options.execution {
        Execution::Interpreter => interpreted::run(engine, query, options, cancel),
        Execution::Compiled => {
            let account = options.account.clone().unwrap_or_else(|| engine.open_account("a query"));
            let memory = RunMemory::new(account.part(Tier::Operator, "joins and groups"), options.memory_bytes);
            let options = QueryOptions { memory_bytes: memory.limit_bytes(), ..options.clone() };
            let mut held = HeldRows { engine: Arc::clone(engine), memory: None };
            let memory = held.memory.insert(Arc::new(memory));
            let mut output = runner::Runner::new(engine, query, &options, cancel, Arc::clone(memory))?.run()?;
            memory.end(output.batches.iter().map(RecordBatch::get_array_memory_size).sum());
            output.held = Some(held);
            Ok(output)
        }
    }?;
    noted::note(engine, query, options.threads, &mut output.reports, started.elapsed());
    Ok(output)
}
