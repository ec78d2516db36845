//! Compiled pipelines: the lowering of the IR to machine code with Cranelift, and its workers (Data Blocks §4).
//!
//! A pipeline becomes one function: a loop over the rows of a set of vectors with all steps fused, a row at a time, its
//! values in registers. States lie as `layout.rs` says; what the code depends on of them is in [`StateLayouts`].
//! Invariants: code is made of verified programs only; every execution gives what `forebay_pipeline::Machine` gives.
//! Must not know: tables, files, chunks, threads.

mod ahead;
mod cache;
mod compare;
mod context;
mod emit;
mod function;
mod group;
mod lower;
mod members;
mod multiplicity;
mod ops;
mod probe;
mod row;
#[allow(unsafe_code)]
mod run;
mod sink;
mod sink_state;
mod stages;

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use cranelift_codegen::ir::{AbiParam, types};
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_codegen::settings::{self, Configurable};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{Linkage, Module, default_libcall_names};
use forebay_base::{Error, PhysicalType, Result};
use forebay_pipeline::ir::{Aggregate, AggregateState, Pipeline, Program, Sink, Source, State, StateId, Typed};
use forebay_pipeline::{register_types, verify};

use crate::groups::{GroupLayout, GroupPart, GroupPlan, GroupTable};
use crate::join::{JoinKind, JoinLayout, JoinOptions, JoinTable, counts_matches};
use crate::layout::{RowLayout, build_row};
use crate::rows::{RowBuffer, RowSet};
use crate::runs::{Partitions, RunLayout, WriteRun};
use crate::vector::{physical_of, physical_of_column};
use context::Context;
use lower::{Kept, Lowering};

pub use cache::CompileCache;
pub use multiplicity::can_count_duplicates;
pub use run::Worker;

/// What compiled code returns where a group's key is not in the range that its layout was picked for.
const KEY_OUT_OF_RANGE: u64 = 1 << 32;

/// What it returns where it was stopped.
const STOPPED: u64 = 1 << 33;

/// What compiled code depends on besides its pipeline: how the states lie that it probes and fills, and whether it counts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct StateLayouts {
    /// By state: the layout of finished build sides.
    pub joins: Vec<Option<JoinLayout>>,
    /// The layout of the groups that the pipeline fills, if it does.
    pub groups: Option<GroupLayout>,
    /// The rows that leave each step are counted ([`Worker::step_rows`]). Code that does not count pays nothing for it.
    pub counted: bool,
    /// Each row may stand for several equal ones ([`Worker::run_duplicates`]); only where [`can_count_duplicates`] says so.
    pub counts_duplicates: bool,
}

impl StateLayouts {
    fn join(&self, state: StateId) -> &JoinLayout {
        self.joins[state.0 as usize].as_ref().expect("checked before lowering: probed states have a layout")
    }

    fn groups(&self) -> GroupLayout {
        self.groups.expect("checked before lowering: groups have a layout")
    }
}

/// Machine code of a pipeline, with what its workers need to know.
pub struct Compiled {
    code: run::Code,
    /// Constants that the code refers to by address.
    _kept: Kept,
    context: Context,
    /// Words that a worker has for what goes from stage to stage.
    stage_words: usize,
    layouts: StateLayouts,
    /// How the source's columns must lie in their vectors, and whether they may have NULLs.
    columns: Vec<(PhysicalType, bool)>,
    sink: SinkKind,
    compile_ns: u64,
    /// The function in Cranelift's IR and as machine code; tests and examples ask for it.
    text: Option<String>,
}

/// Where a pipeline ends.
enum SinkKind {
    /// In rows of so many words.
    Build(usize),
    Mark,
    Aggregate(AggregateState),
    /// In rows of so many words.
    Collect(usize),
}

impl Compiled {
    /// What it took to compile.
    pub fn compile_ns(&self) -> u64 {
        self.compile_ns
    }

    /// The function in Cranelift's IR and its machine code, where [`compile_with_text`] made it.
    pub fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }
}

/// One worker's share of what a pipeline leaves.
#[derive(Debug)]
pub enum Part {
    /// Rows of a build side.
    Build(RowBuffer),
    /// Groups.
    Groups(Box<GroupPart>),
    /// Rows of the result.
    Collect(RowBuffer),
    /// Marks, which are in the build side already.
    Marked,
}

impl Part {
    /// Gives what is in it as runs.
    pub fn into_runs(self, layout: &RunLayout, partitions: &Partitions, write: &mut WriteRun<'_>) -> Result<()> {
        match self {
            Self::Build(mut buffer) | Self::Collect(mut buffer) => buffer.take_runs(layout, partitions, write),
            Self::Groups(mut part) => part.take_runs(layout, partitions, write),
            Self::Marked => Ok(()),
        }
    }

    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Build(buffer) | Self::Collect(buffer) => buffer.memory_bytes(),
            Self::Groups(part) => part.memory_bytes(),
            Self::Marked => 0,
        }
    }
}

/// A state that later pipelines read.
#[derive(Debug)]
pub enum Finished {
    /// A build side.
    Join(JoinTable),
    /// Groups.
    Groups(GroupTable),
}

impl Finished {
    /// Bytes of memory that it holds.
    pub fn memory_bytes(&self) -> usize {
        match self {
            Self::Join(table) => table.memory_bytes(),
            Self::Groups(table) => table.memory_bytes(),
        }
    }
}

/// What all workers of a pipeline left in `state`, with `threads` threads. A pipeline that marks leaves nothing new.
pub fn finish(program: &Program, state: StateId, parts: Vec<Part>, threads: usize) -> Result<Finished> {
    finish_as(program, state, parts, threads, None)
}

/// As [`finish`], with a build side of this layout where it is possible; for tests.
pub fn finish_as(
    program: &Program,
    state: StateId,
    parts: Vec<Part>,
    threads: usize,
    force: Option<JoinKind>,
) -> Result<Finished> {
    let foreign = || Error::internal("a state that was made of another sink's rows");
    match program.states.get(state.0 as usize).ok_or_else(|| Error::internal("there is no such state"))? {
        State::Join(join) => {
            let buffers = parts.into_iter().map(|part| match part {
                Part::Build(buffer) => Ok(buffer),
                _ => Err(foreign()),
            });
            let options = JoinOptions { counts_matches: counts_matches(program, state), force, threads };
            Ok(Finished::Join(JoinTable::finish(join, buffers.collect::<Result<_>>()?, &options)))
        }
        State::Aggregate(groups) => {
            let groups_of = parts.into_iter().map(|part| match part {
                Part::Groups(part) => Ok(*part),
                _ => Err(foreign()),
            });
            let parts = groups_of.collect::<Result<Vec<GroupPart>>>()?;
            let unknown = vec![None; groups.keys.len()];
            let plan =
                parts.first().map_or_else(|| GroupPlan::pick(groups, &unknown, 0, 0), |part| part.plan().clone());
            Ok(Finished::Groups(GroupTable::merge(groups, &plan, parts, threads)?))
        }
    }
}

/// What became of the rows of a state.
#[derive(Debug)]
pub enum Made {
    /// The state.
    State(Box<Finished>),
    /// It would take too much memory.
    TooLarge(Vec<Part>),
}

/// As [`finish`], but a build side takes at most so many bytes of memory.
pub fn finish_within(
    program: &Program,
    state: StateId,
    parts: Vec<Part>,
    threads: usize,
    memory_bytes: usize,
) -> Result<Made> {
    let is_build = parts.iter().all(|part| matches!(part, Part::Build(_)));
    let Some(State::Join(join)) = program.states.get(state.0 as usize).filter(|_| is_build) else {
        return finish(program, state, parts, threads).map(|done| Made::State(Box::new(done)));
    };
    let buffers = parts.into_iter().filter_map(|part| if let Part::Build(buffer) = part { Some(buffer) } else { None });
    let options = JoinOptions { counts_matches: counts_matches(program, state), force: None, threads };
    Ok(match JoinTable::finish_within(join, buffers.collect(), &options, memory_bytes) {
        Ok(table) => Made::State(Box::new(Finished::Join(table))),
        Err(buffers) => Made::TooLarge(buffers.into_iter().map(Part::Build).collect()),
    })
}

/// One partition of a state, of its runs, on one thread. Build sides lie in hash tables.
pub fn finish_runs(program: &Program, state: StateId, runs: Vec<RowBuffer>) -> Result<Finished> {
    match program.states.get(state.0 as usize).ok_or_else(|| Error::internal("there is no such state"))? {
        State::Join(join) => {
            let counts_matches = counts_matches(program, state);
            let options = JoinOptions { counts_matches, force: Some(JoinKind::Hash), threads: 1 };
            Ok(Finished::Join(JoinTable::finish(join, runs, &options)))
        }
        State::Aggregate(groups) => Ok(Finished::Groups(GroupTable::of_runs(groups, runs)?)),
    }
}

/// How the rows of a state are written as runs.
pub fn run_layout(program: &Program, state: StateId) -> RunLayout {
    match &program.states[state.0 as usize] {
        State::Join(join) => RunLayout::of_build(join),
        State::Aggregate(groups) => RunLayout::of_groups(groups),
    }
}

/// How a row of the result of a pipeline that collects lies in memory.
pub fn collected(program: &Program, pipeline: &Pipeline) -> RowLayout {
    let Sink::Collect { columns } = &pipeline.sink else { return RowLayout::new(0, std::iter::empty()) };
    let types = register_types(program, pipeline).expect("checked before lowering: the program is verified");
    RowLayout::new(0, columns.iter().map(|column| types[column.0 as usize].expect("verified: it was written")))
}

/// The rows of the result.
pub fn collect(program: &Program, pipeline: &Pipeline, parts: Vec<Part>) -> Result<RowSet> {
    verify(program)?;
    let buffers = parts.into_iter().map(|part| match part {
        Part::Collect(buffer) => Ok(buffer),
        _ => Err(Error::internal("a result that was made of another sink's rows")),
    });
    Ok(RowSet::of_buffers(&collected(program, pipeline), buffers.collect::<Result<_>>()?))
}

/// Compiles a pipeline.
pub fn compile(program: &Program, pipeline: usize, layouts: &StateLayouts) -> Result<Arc<Compiled>> {
    build(program, pipeline, layouts, false).map(Arc::new)
}

/// Compiles a pipeline, has Cranelift verify it, and keeps its text for readers.
pub fn compile_with_text(program: &Program, pipeline: usize, layouts: &StateLayouts) -> Result<Arc<Compiled>> {
    build(program, pipeline, layouts, true).map(Arc::new)
}

fn build(program: &Program, number: usize, layouts: &StateLayouts, with_text: bool) -> Result<Compiled> {
    let start = Instant::now();
    verify(program)?;
    let pipeline = program.pipelines.get(number).ok_or_else(|| Error::internal("there is no such pipeline"))?;
    let context = Context::new(program, pipeline, layouts.counted);
    check_shapes(&context, pipeline, layouts)?;
    let mut module = JITModule::new(JITBuilder::with_isa(target()?, default_libcall_names()));
    let mut function = module.make_context();
    function.func.signature.params.push(AbiParam::new(types::I64));
    function.func.signature.returns.push(AbiParam::new(types::I64));
    function.set_disasm(with_text);
    let mut kept = Kept::default();
    let mut builders = FunctionBuilderContext::new();
    let frontend = module.target_config();
    let builder = FunctionBuilder::new(&mut function.func, &mut builders);
    let (builder, stage_words) = Lowering::build(builder, program, pipeline, layouts, &mut kept)?;
    builder.finalize(frontend);
    if with_text {
        cranelift_codegen::verify_function(&function.func, module.isa()).map_err(internal)?;
    }
    let mut text = with_text.then(|| function.func.display().to_string());
    let id = module.declare_function("pipeline", Linkage::Local, &function.func.signature).map_err(internal)?;
    module.define_function(id, &mut function).map_err(internal)?;
    if let (Some(text), Some(code)) = (&mut text, function.compiled_code().and_then(|code| code.vcode.as_deref())) {
        text.push_str(code);
    }
    module.finalize_definitions().map_err(internal)?;
    let address = module.get_finalized_function(id);
    Ok(Compiled {
        code: run::Code::new(module, address),
        _kept: kept,
        context,
        stage_words,
        layouts: layouts.clone(),
        columns: columns(program, pipeline),
        sink: sink_kind(program, pipeline),
        compile_ns: start.elapsed().as_nanos() as u64,
        text,
    })
}

fn internal(error: impl std::fmt::Debug) -> Error {
    Error::internal(format!("a pipeline could not be compiled: {error:?}"))
}

/// This machine as Cranelift sees it, the same for all pipelines.
fn target() -> Result<OwnedTargetIsa> {
    static TARGET: OnceLock<std::result::Result<OwnedTargetIsa, String>> = OnceLock::new();
    let target = TARGET.get_or_init(|| {
        let mut flags = settings::builder();
        let list = [
            ("opt_level", "speed"),
            ("is_pic", "false"),
            ("use_colocated_libcalls", "false"),
            ("enable_verifier", "false"),
        ];
        for (name, value) in list {
            flags.set(name, value).map_err(|error| error.to_string())?;
        }
        let isa = cranelift_native::builder()?;
        isa.finish(settings::Flags::new(flags)).map_err(|error| error.to_string())
    });
    target.clone().map_err(internal)
}

fn check_shapes(context: &Context, pipeline: &Pipeline, layouts: &StateLayouts) -> Result<()> {
    let known = |state: StateId| layouts.joins.get(state.0 as usize).is_some_and(Option::is_some);
    if !context.joins().iter().all(|(state, _)| known(*state)) {
        return Err(Error::internal("a pipeline was compiled before the states that it probes were finished"));
    }
    match (&pipeline.sink, &layouts.groups) {
        (Sink::Aggregate { .. }, None) => Err(Error::internal("a pipeline was compiled without its groups' layout")),
        _ => Ok(()),
    }
}

fn columns(program: &Program, pipeline: &Pipeline) -> Vec<(PhysicalType, bool)> {
    match &pipeline.source {
        Source::Table(table) => {
            table.columns.iter().map(|column| (physical_of_column(column), column.typed.nullable)).collect()
        }
        Source::Groups { state, .. } | Source::BuildRows { state, .. } => {
            let types = state_columns(&program.states[state.0 as usize]);
            types.iter().map(|typed| (physical_of(typed.value), typed.nullable)).collect()
        }
    }
}

/// The types of the columns that a state has as a source.
fn state_columns(state: &State) -> Vec<Typed> {
    match state {
        State::Join(join) => join.keys.iter().chain(&join.payload).copied().collect(),
        State::Aggregate(groups) => {
            groups.keys.iter().copied().chain(groups.aggregates.iter().map(Aggregate::result)).collect()
        }
    }
}

fn sink_kind(program: &Program, pipeline: &Pipeline) -> SinkKind {
    match &pipeline.sink {
        Sink::Mark { .. } => SinkKind::Mark,
        Sink::Collect { .. } => SinkKind::Collect(collected(program, pipeline).words),
        Sink::Build { state, .. } | Sink::Aggregate { state, .. } => match &program.states[state.0 as usize] {
            State::Join(join) => SinkKind::Build(build_row(join).words),
            State::Aggregate(aggregate) => SinkKind::Aggregate(aggregate.clone()),
        },
    }
}
