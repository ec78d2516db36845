//! The blocks of a table as a kernel finds them: chunks as they lie in memory, and descriptors of columns and tests.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use forebay_base::{Error, PhysicalType, Result, Value};
use forebay_block::{Access, EncodedBlock, InflatedChunk, RunEnds, ValueRef, Values};
use forebay_cpu::dictionary::Dictionary;
use forebay_gpu::device::{Address, Buffer};
use forebay_gpu::emit::{ColumnInput, Kernel};
use forebay_gpu::parameters::{Column, Form, Parameters, Predicate as DevicePredicate};
use forebay_gpu::processor::Turn;
use forebay_pipeline::ir::TableSource;

use super::predicates::device_test;
use super::{DevicePipeline, unsupported};
use crate::run::{MorselRows, Stored};
use crate::{AdaptivePredicate, ChunkKey, Scan};

/// What lies together on the device begins at a multiple of so many bytes.
const ALIGN: usize = 16;

/// The blocks of a table that zones did not rule out, piece by piece.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    source: &'a TableSource,
    inputs: Vec<ColumnInput>,
    scan: Arc<Scan>,
    tests: Vec<AdaptivePredicate>,
}

/// Some of them.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    rows: Vec<u32>,
    /// By block and column.
    columns: Vec<Described>,
    /// By block and test, each with the place of its words among `words`.
    tests: Vec<(DevicePredicate, usize)>,
    words: Vec<u8>,
    /// Ids of strings, as 4-byte numbers.
    ids: Vec<u8>,
    /// Chunks that the kernel reads, whatever becomes of the cache.
    chunks: HashMap<ChunkKey, Arc<Buffer>>,
}

/// A column of a block, whose values may be ids that are not on the device yet.
#[derive(Debug)]
struct Described {
    column: Column,
    ids: Option<Ids>,
}

/// Ids of a block's strings.
#[derive(Debug, Clone, Copy)]
enum Ids {
    /// The same in all rows.
    Constant(u32),
    /// From here on among [`Blocks::ids`].
    At(usize),
}

impl<'a> Reader<'a> {
    /// Will read what a kernel needs of a table.
    pub(super) fn new(run: &DevicePipeline<'_>, source: &'a TableSource, kernel: &Kernel) -> Result<Self> {
        let runner = run.runner;
        let bound = &runner.query.tables[source.table];
        let columns = kernel.columns.iter().map(|input| input.column).collect();
        let (table, metrics) = (Arc::clone(&bound.table), Arc::clone(&bound.metrics));
        let scan = Scan::new(Arc::clone(runner.engine), table, columns, metrics, runner.cancel.clone())?;
        // What is on the device is kept there by chunk.
        let scan = scan.with_settings(runner.options.scan).of_whole_chunks();
        let scan = Arc::new(scan.with_timeline(runner.timeline.clone()));
        let tests = source.tests.iter().map(|test| AdaptivePredicate::new(test.clone(), false)).collect();
        Ok(Self { source, inputs: kernel.columns.clone(), scan, tests })
    }

    /// Reads the next blocks and puts their chunks on their way, all of them or until a kernel is worth to be launched behind
    /// them. At the end there are none.
    pub(super) fn next(&mut self, run: &mut DevicePipeline<'_>, all: bool) -> Result<Option<Blocks>> {
        let mut blocks = Blocks::default();
        while (all || blocks.count() == 0 || !run.turn.is_worth_launching())
            && let Some(morsel) = self.scan.next_morsel()
        {
            run.runner.cancel.check()?;
            let rows = self.scan.run_whole(morsel, &self.tests)?;
            for (block, count) in rows.whole_blocks() {
                self.add(&mut blocks, run, &rows, (block, count))?;
            }
        }
        Ok(Some(blocks).filter(|blocks| blocks.count() > 0))
    }

    /// Adds a block of so many rows.
    fn add(
        &self,
        blocks: &mut Blocks,
        run: &mut DevicePipeline<'_>,
        rows: &MorselRows,
        (block, count): (usize, u32),
    ) -> Result<()> {
        blocks.rows.push(count);
        for input in &self.inputs {
            let described = blocks.describe(run, self.source, rows, block, *input)?;
            blocks.columns.push(described);
        }
        for test in &self.source.tests {
            let test = match rows.stored(test.column, block)? {
                Stored::Missing(_) => DevicePredicate::Always,
                Stored::Places(_) => return Err(Error::internal("a test asks for the places of rows")),
                Stored::Block(chunk, index) => device_test(&chunk.block(index), &test.test, rows.settings().simd)?,
            };
            let table = test.table();
            let at = blocks.words.len();
            blocks.words.extend(table.iter().flat_map(|word| word.to_le_bytes()));
            blocks.tests.push((test, at));
        }
        Ok(())
    }
}

impl Blocks {
    /// Number of blocks.
    pub(super) fn count(&self) -> u64 {
        self.rows.len() as u64
    }

    /// Bytes of the chunks that they lie in.
    pub(super) fn chunk_bytes(&self) -> u64 {
        self.chunks.values().map(|chunk| chunk.bytes()).sum()
    }

    /// Number of rows.
    pub(super) fn rows(&self) -> u64 {
        self.rows.iter().map(|rows| u64::from(*rows)).sum()
    }

    /// Brings the descriptors to the device; gives the parameters that begin with them.
    pub(super) fn place(&self, turn: &mut Turn<'_>, tiles: u64, faults: Address) -> Result<Parameters> {
        let (ids, words) = (turn.place(&self.ids)?, turn.place(&self.words)?);
        let column = |described: &Described| match described.ids {
            None => described.column.words(),
            Some(Ids::Constant(id)) => described.column.with_ids(Address(0), id).words(),
            Some(Ids::At(at)) => described.column.with_ids(ids.offset(at as u64), 0).words(),
        };
        let bytes = |words: &mut dyn Iterator<Item = u64>| words.flat_map(u64::to_le_bytes).collect::<Vec<u8>>();
        let columns = turn.place(&bytes(&mut self.columns.iter().flat_map(column)))?;
        let test = |(test, at): &(DevicePredicate, usize)| test.words(words.offset(*at as u64));
        let tests = turn.place(&bytes(&mut self.tests.iter().flat_map(test)))?;
        let rows: Vec<u8> = self.rows.iter().flat_map(|rows| rows.to_le_bytes()).collect();
        Ok(Parameters::new(tiles, turn.place(&rows)?, columns, tests, faults))
    }

    fn describe(
        &mut self,
        run: &mut DevicePipeline<'_>,
        source: &TableSource,
        rows: &MorselRows,
        block: usize,
        input: ColumnInput,
    ) -> Result<Described> {
        let own = |column: &&forebay_pipeline::ir::SourceColumn| column.column == input.column;
        let dictionary = source.columns.iter().filter(own).find_map(|column| column.dictionary);
        let dictionary = dictionary.map(|id| &*run.runner.dictionaries[id.0 as usize]);
        match rows.stored(input.column, block)? {
            Stored::Missing(value) => missing(value, input, dictionary),
            Stored::Places(_) => Err(Error::internal("a device is asked for the places of rows")),
            Stored::Block(chunk, index) => {
                let key =
                    rows.chunk_key(input.column, block).ok_or_else(|| Error::internal("a chunk without a key"))?;
                let at = self.chunk(run, key, chunk)?;
                let view = chunk.block(index);
                let mut column = Column::of_block(&view, chunk.as_bytes(), at);
                if let Some((numbers, number_bytes)) = runs_at(chunk, index) {
                    column = column.with_runs(at.offset(numbers as u64), number_bytes);
                }
                let ids = dictionary.map(|dictionary| self.ids_of(&view, dictionary)).transpose()?;
                Ok(Described { column, ids })
            }
        }
    }

    /// Where a chunk lies on the device: it crosses the link unless it is there.
    fn chunk(&mut self, run: &mut DevicePipeline<'_>, key: ChunkKey, chunk: &InflatedChunk) -> Result<Address> {
        if let Some(known) = self.chunks.get(&key) {
            return Ok(known.address());
        }
        let cache = &run.accelerator.chunks;
        let chunk = match cache.get(&key) {
            Some(known) => known,
            None => {
                let bytes = with_runs(chunk);
                let placed = Arc::new(run.turn.place_kept(&bytes)?);
                cache.insert(key, Arc::clone(&placed), bytes.len());
                placed
            }
        };
        let at = chunk.address();
        self.chunks.insert(key, chunk);
        Ok(at)
    }

    /// The ids of a block's strings in a dictionary of the query.
    fn ids_of(&mut self, block: &EncodedBlock<'_>, dictionary: &Dictionary) -> Result<Ids> {
        match block.access() {
            Access::AllNull => Ok(Ids::Constant(0)),
            Access::Constant(ValueRef::Bytes(value)) => Ok(Ids::Constant(dictionary.intern(value)?)),
            Access::Dictionary { values: Values::Strings(strings), .. }
            | Access::Plain(Values::Strings(strings))
            | Access::RunLength { values: Values::Strings(strings), .. } => {
                let mut ids = vec![0; strings.len()];
                dictionary.intern_all((0..strings.len()).map(|number| strings.get(number)), &mut ids)?;
                let at = self.ids.len();
                self.ids.extend(ids.into_iter().flat_map(u32::to_le_bytes));
                // Threads read as many rows as they could have: the last ones, too.
                self.ids.resize(self.ids.len().next_multiple_of(ALIGN), 0);
                Ok(Ids::At(at))
            }
            Access::Constant(ValueRef::Int(_) | ValueRef::Float32(_) | ValueRef::Float64(_))
            | Access::FrameOfReference { .. }
            | Access::Dictionary { values: Values::Fixed(_), .. }
            | Access::Plain(Values::Fixed(_))
            | Access::RunLength { values: Values::Fixed(_), .. } => Err(Error::internal("a block of strings has none")),
        }
    }
}

/// What crosses the link of a chunk: its bytes, and behind them for each of its blocks of runs the number of every row's run,
/// which kernels read as the codes of a dictionary.
fn with_runs(chunk: &InflatedChunk) -> Cow<'_, [u8]> {
    let mut bytes = Cow::Borrowed(chunk.as_bytes());
    for ends in (0..chunk.blocks()).filter_map(|index| run_ends(chunk, index)) {
        let bytes = bytes.to_mut();
        let end = bytes.len() + numbers_bytes(ends);
        ends.append_numbers(bytes);
        bytes.resize(end, 0);
    }
    bytes
}

/// Where the numbers of a block's runs begin in [`with_runs`], and the bytes of each; `None` where it has none.
fn runs_at(chunk: &InflatedChunk, block: usize) -> Option<(usize, usize)> {
    let ends = run_ends(chunk, block)?;
    let before = (0..block).filter_map(|index| run_ends(chunk, index)).map(numbers_bytes);
    Some((chunk.as_bytes().len() + before.sum::<usize>(), ends.number_bytes()))
}

fn run_ends(chunk: &InflatedChunk, block: usize) -> Option<RunEnds<'_>> {
    match chunk.block(block).access() {
        Access::RunLength { ends, .. } => Some(ends),
        Access::AllNull
        | Access::Constant(_)
        | Access::FrameOfReference { .. }
        | Access::Dictionary { .. }
        | Access::Plain(_) => None,
    }
}

/// Bytes of the numbers of all rows' runs. Threads read as many rows as they could have: the last ones, too.
fn numbers_bytes(ends: RunEnds<'_>) -> usize {
    let rows = ends.rows(ends.len() - 1).end as usize;
    (rows * ends.number_bytes()).next_multiple_of(ALIGN)
}

/// A column that a segment does not have: the same value in all rows.
fn missing(value: Option<&Value>, input: ColumnInput, dictionary: Option<&Dictionary>) -> Result<Described> {
    let nowhere = Address(0);
    let physical = input.loaded_as.unwrap_or(PhysicalType::I64);
    let mut column = Column {
        codes: nowhere,
        values: nowhere,
        validity: nowhere,
        base: 0,
        form: if value.is_some() { Form::Constant } else { Form::AllNull },
        code_bytes: 0,
        physical,
    };
    match (value, dictionary) {
        (Some(Value::Bytes(text)), Some(dictionary)) => column.base = dictionary.intern(text)?.into(),
        (Some(Value::Bytes(_)), None) if input.loaded_as.is_some() => {
            return Err(unsupported("text is read on the device"));
        }
        (Some(Value::Int(number)), _) => column.base = *number,
        (Some(Value::Float(number)), _) if physical == PhysicalType::F32 => {
            column.base = (*number as f32).to_bits().into();
        }
        (Some(Value::Float(number)), _) => column.base = number.to_bits().into(),
        _ => {}
    }
    Ok(Described { column, ids: None })
}
