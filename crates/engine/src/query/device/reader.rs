//! The blocks of a table on their way to a kernel: chunks as they lie in memory cross the link unless they are there, columns
//! and tests are described. Several threads do that, each for the row groups that it takes.
//!
//! Invariants: a chunk crosses once, however many threads need it; a column that was described before is read neither from the
//! disk nor from the host's cache, unless its chunks are needed for tests or ids.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use forebay_base::{Error, PhysicalType, Result, Value};
use forebay_block::{Access, InflatedChunk, RunEnds};
use forebay_cache::{ChunkCache, UnitKey};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::pool;
use forebay_gpu::device::{Address, Buffer};
use forebay_gpu::emit::{ColumnInput, Kernel};
use forebay_gpu::parameters::{Column, Form, Predicate as DevicePredicate};
use forebay_gpu::processor::Uploader;
use forebay_pipeline::ColumnPredicate;
use forebay_pipeline::ir::TableSource;
use forebay_store::Segment;

use super::blocks::{ALIGN, Blocks, Ids};
use super::predicates::device_test;
use super::{DevicePipeline, unsupported};
use crate::chunks::Cache;
use crate::described::{DescribedBlock, DescribedColumn, DescribedGroup};
use crate::run::{MorselRows, Stored};
use crate::{AdaptivePredicate, CancelToken, ChunkKey, Scan};

/// The blocks of a table that zones did not rule out, piece by piece. Several threads describe them and bring them there.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    source: &'a TableSource,
    inputs: Vec<Input>,
    scan: Arc<Scan>,
    tests: Vec<AdaptivePredicate>,
    /// By test: the number of its column among the inputs.
    tested: Vec<usize>,
    /// Chunks that threads bring to the device: several may come upon one at a time, of which one brings it.
    placed: Mutex<HashMap<ChunkKey, PlacedChunk>>,
}

/// A chunk that one thread brings to the device while others wait.
type PlacedChunk = Arc<Mutex<Weak<Buffer>>>;

/// A column that a kernel reads.
#[derive(Debug)]
struct Input {
    column: ColumnInput,
    /// The ids of its strings, where it is read as ids.
    dictionary: Option<Arc<Dictionary>>,
    /// The host's chunks are needed: for ids, or to translate tests.
    needs_host: bool,
    /// By segment: what is known of its blocks; none where the segment is older than the column.
    described: Vec<Option<Arc<DescribedColumn>>>,
}

/// What a thread needs to describe blocks.
#[derive(Clone, Copy)]
struct Describer<'a> {
    reader: &'a Reader<'a>,
    cache: &'a ChunkCache<ChunkKey, Buffer>,
    host: &'a Cache,
    uploader: Uploader<'a>,
    cancel: &'a CancelToken,
    /// Uses are told to these caches: they are so full that it matters which chunks were used last.
    tells: (bool, bool),
}

/// A block that was described before, with what it lies in.
struct Known<'a> {
    block: &'a DescribedBlock,
    buffer: Arc<Buffer>,
    chunk: Option<Arc<InflatedChunk>>,
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
        let described = &run.accelerator.described;
        let input = |column: &ColumnInput| -> Result<Input> {
            let own = source.columns.iter().filter(|own| own.column == column.column);
            let dictionary = own.filter_map(|own| own.dictionary).next();
            let dictionary = dictionary.map(|id| Arc::clone(&runner.dictionaries[id.0 as usize]));
            let is_tested = source.tests.iter().any(|test| test.column == column.column);
            let (needs_host, table) = (dictionary.is_some() || is_tested, scan.table());
            let id = table.columns[column.column].id;
            let of_segment = |segment: &Arc<Segment>| -> Result<Option<Arc<DescribedColumn>>> {
                let has_it = segment.column_index(id).is_some();
                let groups = segment.groups()?.len();
                Ok(has_it.then(|| described.of((table.id, segment.id(), id), groups)))
            };
            let described = table.segments.iter().map(of_segment).collect::<Result<_>>()?;
            Ok(Input { column: *column, dictionary, needs_host, described })
        };
        let inputs = kernel.columns.iter().map(input).collect::<Result<_>>()?;
        let number = |column: usize| kernel.columns.iter().position(|input| input.column == column);
        let tested = source.tests.iter().map(|test| number(test.column)).collect::<Option<_>>();
        let tested = tested.ok_or_else(|| Error::internal("a kernel tests a column that it does not read"))?;
        Ok(Self { source, inputs, scan, tests, tested, placed: Mutex::default() })
    }

    /// Reads the next blocks and puts their chunks on their way, all of them or until a kernel is worth to be launched behind
    /// them. At the end there are none.
    pub(super) fn next(&mut self, run: &DevicePipeline<'_>, all: bool) -> Result<Option<Blocks>> {
        let (cache, host) = (&run.accelerator.chunks, run.runner.engine.cache());
        let describer = Describer {
            reader: self,
            cache,
            host,
            uploader: run.turn.uploader(),
            cancel: run.runner.cancel,
            tells: (is_rather_full(cache), is_rather_full(host)),
        };
        let threads = run.runner.options.threads.min(self.scan.morsels_left()).max(1);
        let mut blocks = Blocks::default();
        for described in pool::run(threads, || describer.describe(all)) {
            blocks.append(described.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?);
        }
        Ok(Some(blocks).filter(|blocks| blocks.count() > 0))
    }
}

/// Whether what was used last matters: little more fits.
fn is_rather_full<K: UnitKey, V, S>(cache: &ChunkCache<K, V, S>) -> bool {
    cache.held_bytes() > cache.budget_bytes() / 4 * 3
}

impl Describer<'_> {
    /// Describes blocks until there are no more, or until a kernel is worth to be launched behind what is on its way.
    fn describe(&self, all: bool) -> Result<Blocks> {
        let scan = &self.reader.scan;
        let mut blocks = Blocks::default();
        while let Some(morsel) = scan.next_morsel() {
            self.cancel.check()?;
            self.morsel(&mut blocks, scan.prune_whole(morsel, &self.reader.tests)?)?;
            if !all && self.uploader.is_worth_launching() {
                break;
            }
        }
        Ok(blocks)
    }

    /// Adds the blocks of a morsel. Columns that were described before are not loaded.
    fn morsel(&self, blocks: &mut Blocks, mut rows: MorselRows) -> Result<()> {
        let inputs = &self.reader.inputs;
        let (segment, group) = rows.row_group();
        let groups = inputs.iter().map(|input| input.described[segment].as_ref().map(|column| column.group(group)));
        let groups: Vec<_> = groups.collect();
        let known = inputs.iter().zip(&groups).map(|(input, group)| known(input, group.as_deref()?, &rows));
        let known: Vec<Option<Vec<Known<'_>>>> = known.collect();
        let is_unknown =
            |(input, known): &(&Input, &Option<Vec<Known<'_>>>)| known.is_none() && input.described[segment].is_some();
        let unknown = inputs.iter().zip(&known).filter(is_unknown).map(|(input, _)| input.column.column);
        let unknown: Vec<usize> = unknown.collect();
        if !unknown.is_empty() {
            rows.load_whole(&unknown, &self.reader.tests)?;
        }
        let (mut code_bytes, mut fresh) = (0, Vec::new());
        for (number, (block, count)) in rows.whole_blocks().enumerate() {
            blocks.block(count);
            for (at, (input, known)) in inputs.iter().zip(&known).enumerate() {
                let described = match known.as_ref().map(|known| &known[number]) {
                    Some(known) => {
                        code_bytes += known.block.row_bytes * count as usize;
                        self.tell(&rows, block, input);
                        known.add_to(blocks, input)?;
                        continue;
                    }
                    None => self.column(blocks, &rows, block, input)?,
                };
                code_bytes += described.as_ref().map_or(0, |own| own.row_bytes * count as usize);
                fresh.extend(described.map(|described| (at, block, described)));
            }
            for (test, at) in self.reader.source.tests.iter().zip(&self.reader.tested) {
                let known = known[*at].as_ref().map(|known| &known[number]);
                blocks.test(&self.test(&rows, block, test, known)?);
            }
        }
        rows.account_whole(code_bytes as u64);
        drop(known);
        drop(groups);
        for (at, block, described) in fresh {
            if let Some(column) = &inputs[at].described[segment] {
                column.keep(group, block, described);
            }
        }
        Ok(())
    }

    /// A test in the terms of a block.
    fn test(
        &self,
        rows: &MorselRows,
        block: usize,
        test: &ColumnPredicate,
        known: Option<&Known<'_>>,
    ) -> Result<DevicePredicate> {
        let simd = rows.settings().simd;
        if let Some((chunk, known)) = known.and_then(|known| Some((known.chunk.as_ref()?, known))) {
            return device_test(&chunk.block(known.block.index), &test.test, simd);
        }
        match rows.stored(test.column, block)? {
            Stored::Missing(_) => Ok(DevicePredicate::Always),
            Stored::Places(_) => Err(Error::internal("a test asks for the places of rows")),
            Stored::Block(chunk, index) => device_test(&chunk.block(index), &test.test, simd),
        }
    }

    /// Tells caches that are rather full that a chunk is used.
    fn tell(&self, rows: &MorselRows, block: usize, input: &Input) {
        let (device, host) = (self.tells.0, self.tells.1 && input.needs_host);
        if let Some(key) = rows.chunk_key(input.column.column, block).filter(|_| device || host) {
            drop(device.then(|| self.cache.get(&key)));
            drop(host.then(|| self.host.get(&key)));
        }
    }

    /// Adds a column of a block that was loaded; gives how it lies on the device, if it is stored.
    fn column(
        &self,
        blocks: &mut Blocks,
        rows: &MorselRows,
        block: usize,
        input: &Input,
    ) -> Result<Option<DescribedBlock>> {
        let column = input.column.column;
        match rows.stored(column, block)? {
            Stored::Missing(value) => {
                let (column, ids) = missing(value, input)?;
                blocks.column(&column, ids);
                Ok(None)
            }
            Stored::Places(_) => Err(Error::internal("a device is asked for the places of rows")),
            Stored::Block(chunk, index) => {
                let key = rows.chunk_key(column, block).ok_or_else(|| Error::internal("a chunk without a key"))?;
                let buffer = self.chunk(key, chunk)?;
                let at = buffer.address();
                let view = chunk.block(index);
                let mut column = Column::of_block(&view, chunk.as_bytes(), at);
                if let Some((numbers, number_bytes)) = runs_at(chunk, index) {
                    column = column.with_runs(at.offset(numbers as u64), number_bytes);
                }
                let ids = input.dictionary.as_ref().map(|dictionary| blocks.ids_of(&view, dictionary)).transpose()?;
                blocks.column(&column, ids);
                let (row_bytes, chunk) = (view.row_bytes(), Arc::downgrade(chunk));
                let described = DescribedBlock { column, row_bytes, index, buffer: Arc::downgrade(&buffer), chunk };
                blocks.hold(buffer);
                Ok(Some(described))
            }
        }
    }

    /// A chunk on the device: it crosses the link unless it is there.
    fn chunk(&self, key: ChunkKey, chunk: &InflatedChunk) -> Result<Arc<Buffer>> {
        if let Some(known) = self.cache.get(&key) {
            return Ok(known);
        }
        let placed = {
            let mut placed = self.reader.placed.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(placed.entry(key).or_default())
        };
        let mut placed = placed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = placed.upgrade() {
            return Ok(known);
        }
        let bytes = with_runs(chunk);
        let buffer = Arc::new(self.uploader.place(&bytes)?);
        *placed = Arc::downgrade(&buffer);
        self.cache.insert(key, Arc::clone(&buffer), bytes.len());
        Ok(buffer)
    }
}

impl Known<'_> {
    /// Adds the column's descriptor.
    fn add_to(&self, blocks: &mut Blocks, input: &Input) -> Result<()> {
        let ids = match (&input.dictionary, &self.chunk) {
            (Some(dictionary), Some(chunk)) => Some(blocks.ids_of(&chunk.block(self.block.index), dictionary)?),
            _ => None,
        };
        blocks.column(&self.block.column, ids);
        blocks.hold(Arc::clone(&self.buffer));
        Ok(())
    }
}

/// The blocks of a morsel that have rows, of a column of which all of them were described before and what they lie in is still there.
fn known<'a>(input: &Input, group: &'a DescribedGroup, rows: &MorselRows) -> Option<Vec<Known<'a>>> {
    let known = |(block, _): (usize, u32)| {
        let block = group.get(block)?.as_ref()?;
        let chunk = if input.needs_host { Some(block.chunk.upgrade()?) } else { None };
        Some(Known { block, buffer: block.buffer.upgrade()?, chunk })
    };
    rows.whole_blocks().map(known).collect()
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
fn missing(value: Option<&Value>, input: &Input) -> Result<(Column, Option<Ids>)> {
    let (nowhere, dictionary) = (Address(0), input.dictionary.as_deref());
    let physical = input.column.loaded_as.unwrap_or(PhysicalType::I64);
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
        (Some(Value::Bytes(_)), None) if input.column.loaded_as.is_some() => {
            return Err(unsupported("text is read on the device"));
        }
        (Some(Value::Int(number)), _) => column.base = *number,
        (Some(Value::Float(number)), _) if physical == PhysicalType::F32 => {
            column.base = (*number as f32).to_bits().into();
        }
        (Some(Value::Float(number)), _) => column.base = number.to_bits().into(),
        _ => {}
    }
    Ok((column, None))
}
