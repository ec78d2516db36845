//! A pipeline on a device beside the CPU: blocks and states are brought there, one kernel runs over them, and only the result
//! comes back (GOLAP §3).
//!
//! Reading order: [`Runner::on_device`], then `reader` (a table's chunks on their way) and `blocks` (its descriptors), `predicates`
//! (tests in the terms of a block), `builds` (build sides that are made there), `states` (build sides as they are looked up) and `results`; `places`
//! says for EXPLAIN where pipelines will run.
//! Invariants: what a pipeline leaves is what it would leave on the CPU. Whatever the device cannot do, and a pipeline whose
//! arithmetic failed there, runs on the CPU, over the same snapshot; nothing is left of the attempt but strings in
//! dictionaries. Must not know: which device it is.

mod blocks;
mod builds;
mod places;
mod predicates;
mod reader;
mod results;
mod states;

use std::sync::Arc;
use std::time::Instant;

use forebay_base::{ColumnId, Error, ErrorKind, Result, units};
use forebay_cpu::compile::Finished;
use forebay_cpu::rows::RowBuffer;
use forebay_gpu::DeviceChoice;
use forebay_gpu::device::{Address, Function};
use forebay_gpu::emit::{GroupPlace, StatePlaces, emit};
use forebay_gpu::kernels::TILE;
use forebay_gpu::parameters::Parameters;
use forebay_gpu::processor::{Turn, is_lost};
use forebay_pipeline::ir::{Pipeline, Register, Sink, Source, SourceColumn, StateId, TableSource, Typed};
use forebay_pipeline::{Fault, register_types};

use super::runner::Runner;
use super::{PipelineReport, Query};
use crate::accelerator::Accelerator;
use blocks::Blocks;
use builds::{MadeWhere, made_where};
use reader::Reader;

pub(super) use builds::DeviceBuild;
pub use places::places;
pub(super) use places::{Place, arranged};

/// Rows of a table whose build side is not worth a device: one block.
const SMALL_TABLE_ROWS: u64 = forebay_base::limits::BLOCK_ROWS as u64;

/// Room for a result is made for one in so many rows at first.
const FIRST_ROOM_SHARE: u64 = 8;

/// Groups or rows that may come back from a device that was not asked for.
const MOST_ROWS_BACK: f64 = 65_536.0;

/// The share of a device's memory that chunks of a pipeline take beside those in the cache, before the first of them go.
const HELD_SHARE: u64 = 8;

/// Tiles of a block.
const TILES_PER_BLOCK: u64 = forebay_base::limits::BLOCK_ROWS as u64 / TILE as u64;

/// What a pipeline left.
pub(super) enum Left {
    /// A state, finished.
    State(StateId, Box<Finished>),
    /// A build side that stays on the device.
    Build(StateId, Arc<DeviceBuild>),
    /// Rows of the result.
    Rows(Vec<RowBuffer>),
}

/// What became of a pipeline.
pub(super) enum Attempt {
    /// It ran on the device.
    Done(Left),
    /// It runs on the CPU, for this reason if a device was asked for.
    Cpu(Option<String>),
}

/// A pipeline that runs on a device.
struct DevicePipeline<'a> {
    runner: &'a Runner<'a>,
    accelerator: &'a Arc<Accelerator>,
    index: usize,
    turn: Turn<'a>,
}

/// What stops a query whose device was asked for: not of a kind that has somebody else run it.
fn refused(choice: DeviceChoice, error: &Error) -> Error {
    let message = format!("SET device = {choice} cannot be kept: {error}");
    Error::new(ErrorKind::Io, message).hint("SET device = auto or cpu")
}

fn unsupported(reason: impl Into<String>) -> Error {
    Error::unsupported(reason)
}

impl Runner<'_> {
    /// Runs a pipeline on the device that the query asks for, if that can.
    pub(super) fn on_device(&mut self, index: usize) -> Result<Attempt> {
        let choice = self.options.device;
        match self.places.get(index) {
            None => return Ok(Attempt::Cpu(None)),
            Some(Place::Cpu(reason)) => return Ok(Attempt::Cpu(Some(reason.clone()))),
            Some(Place::Device) => {}
        }
        let accelerator = self.engine.accelerators().get(choice).map_err(|error| refused(choice, &error))?;
        let Some(accelerator) = accelerator else { return Ok(Attempt::Cpu(None)) };
        let mut outcome = self.attempt(&accelerator, index);
        let is_full = |error: &Error| error.kind() == ErrorKind::OutOfMemory;
        if outcome.as_ref().is_err_and(is_full) && accelerator.chunks.held_bytes() > 0 {
            // Chunks give way to what a query needs besides.
            accelerator.chunks.clear();
            outcome = self.attempt(&accelerator, index);
        }
        match outcome {
            Ok((left, report)) => {
                self.reports.push(report);
                Ok(Attempt::Done(left))
            }
            Err(error) => self.without_device(error, &accelerator, choice),
        }
    }

    /// What comes after an error on the device.
    fn without_device(&self, error: Error, accelerator: &Arc<Accelerator>, choice: DeviceChoice) -> Result<Attempt> {
        match error.kind() {
            ErrorKind::Cancelled | ErrorKind::Corrupt | ErrorKind::NotFound => return Err(error),
            ErrorKind::Unsupported => return Ok(Attempt::Cpu(Some(error.to_string()))),
            // Whether it fails there, too, depends on the order of rows and steps, of which there is one on the CPU.
            ErrorKind::Overflow | ErrorKind::Input => {
                return Ok(Attempt::Cpu(Some(format!("it failed there: {error}"))));
            }
            _ => {}
        }
        if is_lost(error.kind()) {
            self.engine.accelerators().forget(accelerator);
        }
        match choice {
            DeviceChoice::Auto => Ok(Attempt::Cpu(Some(format!("the device failed: {error}")))),
            _ => Err(refused(choice, &error)),
        }
    }

    fn attempt(&self, accelerator: &Arc<Accelerator>, index: usize) -> Result<(Left, PipelineReport)> {
        let pipeline = &self.program.pipelines[index];
        if let Sink::Build { state, .. } = &pipeline.sink
            && self.between.contains_key(&(state.0 as usize))
        {
            return Err(unsupported("its rows look up what is on disk"));
        }
        let started = Instant::now();
        let turn = accelerator.processor.turn()?;
        let mut run = DevicePipeline { runner: self, accelerator, index, turn };
        let (left, rows_in) = run.run(pipeline)?;
        let cost = run.turn.cost();
        let name = &accelerator.processor.device().limits().name;
        let (to, back) = (units::format_bytes(cost.to_device_bytes), units::format_bytes(cost.to_host_bytes));
        let elapsed_ns = (started.elapsed().as_nanos() as u64).saturating_sub(cost.compile_ns);
        Ok((
            left,
            PipelineReport {
                rows_in,
                elapsed_ns,
                compile_ns: cost.compile_ns,
                threads: 1,
                notes: vec![format!(
                    "on the {name}: {to} over the link, {back} back, copies {:.3} ms, kernels {:.3} ms",
                    cost.copy_ns as f64 / 1e6,
                    cost.kernel_ns as f64 / 1e6
                )],
                ..PipelineReport::default()
            },
        ))
    }
}

/// Whether devices run pipelines of this kind.
fn check_kind(query: &Query, pipeline: &Pipeline) -> Result<()> {
    let Source::Table(source) = &pipeline.source else {
        return Err(unsupported("a state is read on the CPU"));
    };
    let bound = &query.tables[source.table];
    if bound.table.has_deleted_rows() {
        return Err(unsupported("rows of the table are deleted, which the CPU leaves out"));
    }
    let is_place = |column: &SourceColumn| bound.table.columns[column.column].id == ColumnId::PLACES;
    if source.columns.iter().any(is_place) {
        return Err(unsupported("the places of rows are known to the CPU"));
    }
    match &pipeline.sink {
        Sink::Build { .. } if bound.table.rows() <= SMALL_TABLE_ROWS => {
            return Err(unsupported("build sides of small tables are made on the CPU"));
        }
        Sink::Mark { .. } => return Err(unsupported("rows of a build side are marked on the CPU")),
        Sink::Aggregate { .. } | Sink::Collect { .. } | Sink::Build { .. } => {}
    }
    match bound.filters.is_empty() {
        true => Ok(()),
        false => Err(unsupported("the scan tests a condition that only its expressions answer")),
    }
}

/// Whether so many rows may come back from a device that was not asked for: the CPU has them in its caches at once. `None` where
/// nobody knows how many there are.
fn check_few_come_back(choice: DeviceChoice, rows: Option<f64>) -> Result<()> {
    match choice == DeviceChoice::Auto && rows.is_none_or(|rows| rows > MOST_ROWS_BACK) {
        true => Err(unsupported("too many rows are expected to come back")),
        false => Ok(()),
    }
}

impl DevicePipeline<'_> {
    /// Gives what the pipeline left, and the rows of the blocks that it looked at.
    fn run(&mut self, pipeline: &Pipeline) -> Result<(Left, u64)> {
        match &pipeline.sink {
            Sink::Aggregate { state, keys, .. } => self.grouped(pipeline, *state, keys),
            Sink::Collect { columns } => self.listed(pipeline, columns),
            Sink::Build { keys, payload, .. } => match made_where(pipeline) {
                MadeWhere::Device => self.built(pipeline),
                MadeWhere::Cpu => self.listed(pipeline, &[&keys[..], payload].concat()),
            },
            Sink::Mark { .. } => Err(Error::internal("a sink that devices do not have")),
        }
    }

    /// The kernel of a text. A device that was not asked for is not waited for while its kernels are compiled.
    fn function(&mut self, text: &str) -> Result<Function> {
        match self.runner.options.device == DeviceChoice::Auto && !self.turn.is_ready(text) {
            true => Err(unsupported("its kernel is being compiled")),
            false => self.turn.function(text),
        }
    }

    fn grouped(&mut self, pipeline: &Pipeline, state: StateId, keys: &[Register]) -> Result<(Left, u64)> {
        let source = source(pipeline)?;
        let program = &self.runner.program;
        let builds = self.runner.joined_states(self.accelerator);
        // The columns that a kernel reads do not depend on where it counts its groups.
        let first = if keys.is_empty() { GroupPlace::One } else { GroupPlace::Global };
        let mut kernel = emit(program, self.index, &state_places(builds.clone(), Some(first)))?;
        self.check_builds(&kernel)?;
        let mut reader = Reader::new(self, source, &kernel)?;
        // How many strings there are is known when all blocks are.
        let is_string = |key: &Register| source.columns.iter().any(|own| own.to == *key && own.dictionary.is_some());
        let mut pieces = Pieces::default();
        pieces.held.extend(reader.next(self, keys.iter().any(is_string))?);
        let table = self.group_table(pipeline, state, keys)?;
        let groups = self.runner.query.expected_rows(state).unwrap_or(f64::INFINITY).min(table.slots as f64);
        check_few_come_back(self.runner.options.device, Some(groups))?;
        let place = self.place_of(&table);
        if place != first {
            kernel = emit(program, self.index, &state_places(builds, Some(place)))?;
        }
        let mut behind = Parameters::default();
        self.place_builds(&kernel, &mut behind)?;
        let words = self.turn.zeros(table.bytes())?;
        table.keys.iter().for_each(|key| behind.key(key));
        behind.groups(words, table.slots);
        let launch = Launch {
            function: self.function(&kernel.text)?,
            shared_bytes: if place == GroupPlace::Shared { table.bytes() as u32 } else { 0 },
            faults: self.turn.zeros(8)?,
            behind,
        };
        self.launch_all(&launch, &mut pieces, &mut reader)?;
        let groups = self.fetch_groups(state, &table, words, launch.faults)?;
        Ok((groups, pieces.rows))
    }

    /// A pipeline whose rows come back with these columns.
    fn listed(&mut self, pipeline: &Pipeline, columns: &[Register]) -> Result<(Left, u64)> {
        let program = &self.runner.program;
        let types = register_types(program, pipeline)?;
        let typed = |column: &Register| types[column.0 as usize].ok_or_else(|| Error::internal("nothing is collected"));
        let types: Vec<Typed> = columns.iter().map(typed).collect::<Result<_>>()?;
        let source = source(pipeline)?;
        let joined = self.runner.joined_states(self.accelerator);
        let kernel = emit(program, self.index, &state_places(joined, None))?;
        self.check_builds(&kernel)?;
        let mut reader = Reader::new(self, source, &kernel)?;
        let mut pieces = Pieces::default();
        pieces.held.extend(reader.next(self, false)?);
        let function = self.function(&kernel.text)?;
        let mut builds = Parameters::default();
        self.place_builds(&kernel, &mut builds)?;
        let table_rows = self.runner.query.tables[source.table].table.rows();
        let mut capacity = (table_rows / FIRST_ROOM_SHARE).max(SMALL_TABLE_ROWS).min(table_rows);
        capacity = capacity.min(self.most_rows(&types));
        loop {
            let mut behind = builds.clone();
            let room = self.room(&types, capacity, &mut behind)?;
            let launch = Launch { function, shared_bytes: 0, faults: self.turn.zeros(8)?, behind };
            self.launch_all(&launch, &mut pieces, &mut reader)?;
            let fetched = self.turn.fetch(&[(launch.faults, 8), (room.rows, 8)])?;
            let (flags, rows) = (word(&fetched[0]), word(&fetched[1]));
            if flags == FULL && capacity < rows {
                capacity = rows;
                if !pieces.are_all_held {
                    (reader, pieces) = (Reader::new(self, source, &kernel)?, Pieces::default());
                }
                continue;
            }
            check_faults(flags)?;
            let rows = self.fetch_rows(&room, rows)?;
            return Ok((self.left(pipeline, &rows)?, pieces.rows));
        }
    }

    /// Runs a kernel over the pieces that were read, then over each further one as soon as it is on its way. Of a table that
    /// does not fit the device, earlier pieces make room for later ones.
    fn launch_all(&mut self, launch: &Launch, pieces: &mut Pieces, reader: &mut Reader<'_>) -> Result<()> {
        for blocks in &pieces.held {
            self.launch(launch, blocks)?;
        }
        pieces.rows = pieces.held.iter().map(Blocks::rows).sum();
        let most_bytes = self.accelerator.processor.device().limits().memory_bytes / HELD_SHARE;
        let mut held_bytes: u64 = pieces.held.iter().map(Blocks::chunk_bytes).sum();
        while let Some(blocks) = reader.next(self, false)? {
            self.launch(launch, &blocks)?;
            pieces.rows += blocks.rows();
            held_bytes += blocks.chunk_bytes();
            pieces.held.push(blocks);
            if held_bytes > most_bytes {
                // What the cache does not keep is given back, behind all work so far.
                pieces.held.clear();
                (pieces.are_all_held, held_bytes) = (false, 0);
            }
        }
        Ok(())
    }

    fn launch(&mut self, launch: &Launch, blocks: &Blocks) -> Result<()> {
        let tiles = blocks.count() * TILES_PER_BLOCK;
        let mut parameters = blocks.place(&mut self.turn, tiles, launch.faults)?;
        parameters.append(&launch.behind);
        self.turn.launch(launch.function, tiles, launch.shared_bytes, &parameters)
    }
}

/// Pieces of a table that kernels were launched over, or will be.
struct Pieces {
    /// Those whose chunks stay on the device, whatever becomes of the cache.
    held: Vec<Blocks>,
    are_all_held: bool,
    /// Rows of all, held or not.
    rows: u64,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { held: Vec::new(), are_all_held: true, rows: 0 }
    }
}

/// What all launches of a pipeline have in common.
struct Launch {
    function: Function,
    shared_bytes: u32,
    faults: Address,
    /// The parameters behind those of the blocks.
    behind: Parameters,
}

/// What kernels do whose results come back.
fn state_places(builds: Vec<bool>, groups: Option<GroupPlace>) -> StatePlaces {
    StatePlaces { builds, groups, listed: true }
}

fn source(pipeline: &Pipeline) -> Result<&TableSource> {
    match &pipeline.source {
        Source::Table(source) => Ok(source),
        _ => Err(Error::internal("a pipeline without a table on a device")),
    }
}

/// There was not room for all rows (`device.cuh`).
const FULL: u64 = 16;

fn word(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[..8]);
    u64::from_le_bytes(word)
}

/// What a kernel could not do (`device.cuh`).
fn check_faults(flags: u64) -> Result<()> {
    if let Some(fault) = Fault::ALL.into_iter().find(|fault| flags & fault.code() != 0) {
        return Err(fault.into());
    }
    match flags {
        0 => Ok(()),
        _ => Err(unsupported(format!("the kernel met what its states were not laid out for ({flags})"))),
    }
}
