//! Runs programs with the device doing what it can, pipeline by pipeline, and the interpreter the rest.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use crate::columns::{value_at, value_bytes};
use crate::device::{Address, Buffer, Device, Function, Grid, Memory, Stream};
use crate::emit::{GroupPlace, Kernel, NAME, StatePlaces, emit};
use crate::groups::DeviceGroupTable;
use crate::kernels::{THREADS, TILE};
use crate::parameters::{Build, Column, Parameters, Payload};
use forebay_base::{Error, ErrorKind, PhysicalType, Result};
use forebay_block::header::SECTION_ALIGN;
use forebay_block::{Access, EncodedBlock, Encoding, RunEnds};
use forebay_pipeline::case::Case;
use forebay_pipeline::ir::*;
use forebay_pipeline::{Fault, Scalar, register_types};

use super::table::{encode, translate};

/// A device with what was compiled for it.
pub(crate) struct Bench {
    device: Arc<dyn Device>,
    copies: Stream,
    kernels: Stream,
    functions: RefCell<HashMap<String, Function>>,
}

/// How a program is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Execution {
    /// Rows of a block.
    pub(crate) block_rows: usize,
    /// Chooses encodings and how tests are said.
    pub(crate) salt: u64,
    /// Groups are counted in device memory, even if they are few.
    pub(crate) global: bool,
}

/// What the device did.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Pipelines that ran on it.
    pub(crate) pipelines: usize,
    /// Why others did not.
    pub(crate) reasons: Vec<String>,
}

/// A build side on the device.
struct OnDevice {
    build: Build,
    is_unique: bool,
    _buffers: Vec<Buffer>,
}

/// One run of a program.
struct Run<'a> {
    bench: &'a Bench,
    case: &'a Case,
    execution: Execution,
    builds: Vec<Option<OnDevice>>,
}

/// What a pipeline left.
enum Left {
    Build,
    Rows(Vec<Vec<Scalar>>),
}

impl Bench {
    pub(crate) fn new(device: &Arc<dyn Device>) -> Result<Self> {
        let (copies, kernels) = (device.stream()?, device.stream()?);
        Ok(Self { device: Arc::clone(device), copies, kernels, functions: RefCell::default() })
    }

    /// The rows of the result, in ascending order.
    pub(crate) fn run(&self, case: &Case, execution: Execution) -> (Result<Vec<Vec<Scalar>>>, Done) {
        let mut run = Run { bench: self, case, execution, builds: case.program.states.iter().map(|_| None).collect() };
        let mut done = Done::default();
        let mut rest = Case { name: case.name.clone(), expect: Ok(Vec::new()), ..case.clone() };
        let mut kept = Vec::new();
        for (number, pipeline) in case.program.pipelines.iter().enumerate() {
            match run.pipeline(number) {
                Ok(Left::Build) => {
                    done.pipelines += 1;
                    kept.push(number);
                }
                Ok(Left::Rows(mut rows)) => {
                    done.pipelines += 1;
                    let Sink::Aggregate { state, .. } = &pipeline.sink else {
                        rows.sort();
                        return (Ok(rows), done);
                    };
                    read_from_table(&mut rest, *state, rows);
                }
                Err(error) if error.kind() == ErrorKind::Unsupported => {
                    done.reasons.push(error.to_string());
                    kept.push(number);
                }
                Err(error) => return (Err(error), done),
            }
        }
        rest.program.pipelines = kept.into_iter().map(|number| rest.program.pipelines[number].clone()).collect();
        (rest.interpret(), done)
    }

    fn function(&self, kernel: &Kernel) -> Result<Function> {
        if let Some(function) = self.functions.borrow().get(&kernel.text) {
            return Ok(*function);
        }
        let image = self.device.compile(&kernel.text)?;
        let function = self.device.load(&image, NAME)?;
        self.functions.borrow_mut().insert(kernel.text.clone(), function);
        Ok(function)
    }

    fn upload(&self, bytes: &[u8]) -> Result<[Buffer; 2]> {
        let pinned = Buffer::new(&self.device, Memory::Pinned, bytes.len() as u64)?;
        let buffer = Buffer::new(&self.device, Memory::Device, bytes.len() as u64)?;
        self.device.pinned(pinned.address(), pinned.bytes(), &mut |to| to.copy_from_slice(bytes))?;
        self.device.copy(self.copies, buffer.address(), pinned.address(), buffer.bytes())?;
        Ok([buffer, pinned])
    }

    fn zeros(&self, bytes: u64) -> Result<Buffer> {
        let buffer = Buffer::new(&self.device, Memory::Device, bytes)?;
        self.device.fill(self.copies, buffer.address(), 0, bytes)?;
        Ok(buffer)
    }

    fn download(&self, from: &Buffer) -> Result<Vec<u8>> {
        let pinned = Buffer::new(&self.device, Memory::Pinned, from.bytes())?;
        self.device.copy(self.kernels, pinned.address(), from.address(), from.bytes())?;
        self.device.synchronize(self.kernels)?;
        let mut bytes = Vec::new();
        self.device.pinned(pinned.address(), pinned.bytes(), &mut |own| bytes = own.to_vec())?;
        Ok(bytes)
    }
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().expect("8 bytes"))).collect()
}

/// The run of every row, padded as sections of blocks are: threads read packs of rows.
fn numbers_of_runs(ends: RunEnds) -> Vec<u8> {
    let mut bytes = Vec::new();
    ends.append_numbers(&mut bytes);
    bytes.resize(bytes.len().next_multiple_of(SECTION_ALIGN), 0);
    bytes
}

fn bytes(words: impl IntoIterator<Item = u64>) -> Vec<u8> {
    words.into_iter().flat_map(u64::to_ne_bytes).collect()
}

/// Has pipelines read the rows of a state from a table.
fn read_from_table(rest: &mut Case, state: StateId, rows: Vec<Vec<Scalar>>) {
    let State::Aggregate(groups) = &rest.program.states[state.0 as usize] else { unreachable!() };
    let types: Vec<Typed> =
        groups.keys.iter().copied().chain(groups.aggregates.iter().map(Aggregate::result)).collect();
    let table = rest.tables.len();
    for pipeline in &mut rest.program.pipelines {
        let columns = match &pipeline.source {
            Source::Groups { state: own, columns } if *own == state => columns.clone(),
            _ => continue,
        };
        let column = |(number, (to, typed)): (usize, (Register, &Typed))| SourceColumn {
            column: number,
            name: "group".to_owned(),
            physical: match typed.value {
                ValueType::Bool => PhysicalType::U8,
                ValueType::I64 => PhysicalType::I64,
                ValueType::I128 => PhysicalType::I128,
                ValueType::F64 => PhysicalType::F64,
                ValueType::Bytes => PhysicalType::Bytes,
            },
            typed: *typed,
            dictionary: None,
            to,
        };
        let columns = columns.into_iter().zip(&types).enumerate().map(column).collect();
        pipeline.source = Source::Table(TableSource { table, name: "groups".to_owned(), columns, tests: Vec::new() });
    }
    rest.tables.push(rows);
}

impl Run<'_> {
    fn pipeline(&mut self, number: usize) -> Result<Left> {
        let program = &self.case.program;
        let pipeline = &program.pipelines[number];
        let Source::Table(source) = &pipeline.source else {
            return Err(Error::unsupported("a state is read"));
        };
        let groups = match &pipeline.sink {
            Sink::Aggregate { state, keys, .. } => Some(self.group_table(number, *state, keys)?),
            _ => None,
        };
        let place = groups.as_ref().map(|groups| self.place_of(groups));
        let state_places =
            StatePlaces { builds: self.builds.iter().map(Option::is_some).collect(), groups: place, listed: false };
        let kernel = emit(program, number, &state_places)?;
        let is_unique = |state: StateId| self.builds[state.0 as usize].as_ref().is_some_and(|build| build.is_unique);
        if kernel.builds.iter().any(|build| build.is_unique && !is_unique(build.state)) {
            return Err(Error::unsupported("a build side has several rows of one key"));
        }
        let function = self.bench.function(&kernel)?;
        let mut buffers = Vec::new();
        let (mut parameters, faults, tiles) = self.task(source, &kernel, &mut buffers)?;
        for build in &kernel.builds {
            parameters.build(&self.builds[build.state.0 as usize].as_ref().expect("emitted: it is there").build);
        }
        for (build, column) in &kernel.payloads {
            let state = kernel.builds[*build].state;
            let of = self.builds[state.0 as usize].as_ref().expect("emitted: it is there");
            parameters.payload(&of.build.payload[*column]);
        }
        let bench = self.bench;
        let rows = self.case.tables[source.table].len() as u64;
        let types = register_types(program, pipeline)?;
        match &pipeline.sink {
            Sink::Aggregate { state, .. } => {
                let table = groups.expect("made above");
                table.keys.iter().for_each(|key| parameters.key(key));
                let memory = bench.zeros(table.bytes())?;
                parameters.groups(memory.address(), table.slots);
                let shared = if place == Some(GroupPlace::Shared) { table.bytes() as u32 } else { 0 };
                self.launch(function, tiles, shared, &parameters, &faults)?;
                let State::Aggregate(groups) = &program.states[state.0 as usize] else { unreachable!() };
                Ok(Left::Rows(table.rows(groups, &words(&bench.download(&memory)?))?))
            }
            Sink::Build { state, keys, payload } => {
                let State::Join(join) = &program.states[state.0 as usize] else { unreachable!() };
                let range = self.ranges(number, keys)?[0];
                let entries = self.entries(number, join, payload);
                let (build, memory) = build_side(bench, join, range, &entries)?;
                let entered = bench.zeros(8)?;
                parameters.target(&build, entered.address());
                build.payload.iter().for_each(|payload| parameters.payload(payload));
                let flags = self.launch(function, tiles, 0, &parameters, &faults)?;
                self.check_entered(&memory[0], &entered)?;
                let is_unique = flags & 8 == 0;
                self.builds[state.0 as usize] = Some(OnDevice { build, is_unique, _buffers: memory });
                Ok(Left::Build)
            }
            Sink::Collect { columns } => {
                let types: Vec<Typed> =
                    columns.iter().map(|column| types[column.0 as usize].expect("it was written")).collect();
                let room = Room::new(bench, &types, rows, &mut parameters)?;
                self.launch(function, tiles, 0, &parameters, &faults)?;
                Ok(Left::Rows(room.rows(bench, &types)?))
            }
            Sink::Mark { .. } => Err(Error::unsupported("marks")),
        }
    }

    /// Encodes and copies what the kernel reads.
    fn task(
        &self,
        source: &TableSource,
        kernel: &Kernel,
        buffers: &mut Vec<Buffer>,
    ) -> Result<(Parameters, Buffer, u64)> {
        let forced = [Encoding::Truncation, Encoding::Dictionary, Encoding::Uncompressed, Encoding::RunLength];
        let encodings = [None, Some(forced[0]), Some(forced[1]), Some(forced[2]), Some(forced[3])];
        let table = &self.case.tables[source.table];
        let (mut columns, mut tests, mut counts) = (Vec::new(), Vec::new(), Vec::new());
        for (block, rows) in table.chunks(self.execution.block_rows).enumerate() {
            let mut encoded = Vec::new();
            for (number, input) in kernel.columns.iter().enumerate() {
                let own = source.columns.iter().find(|own| own.column == input.column);
                let physical = input.loaded_as.unwrap_or_else(|| match own {
                    Some(own) if own.dictionary.is_some() => PhysicalType::U32,
                    Some(own) => own.physical,
                    None => stored(table, input.column),
                });
                let salt = (self.execution.salt as usize + block + number) % encodings.len();
                let force = if physical == PhysicalType::Bytes { Some(Encoding::Dictionary) } else { encodings[salt] };
                let bytes = encode(physical, rows, input.column, force)?;
                let [on_device, pinned] = self.bench.upload(&bytes)?;
                let at = on_device.address();
                let parsed = EncodedBlock::parse(&bytes)?;
                let mut column = Column::of_block(&parsed, &bytes, at);
                buffers.extend([on_device, pinned]);
                if let Access::RunLength { ends, .. } = parsed.access() {
                    let [on_device, pinned] = self.bench.upload(&numbers_of_runs(ends))?;
                    column = column.with_runs(on_device.address(), ends.number_bytes());
                    buffers.extend([on_device, pinned]);
                }
                columns.extend(column.words());
                encoded.push((input.column, bytes));
            }
            for (column, test) in kernel.tests.iter().zip(&source.tests) {
                let (_, bytes) = encoded.iter().find(|(own, _)| own == column).expect("tested columns are read");
                let block = EncodedBlock::parse(bytes)?;
                let test =
                    translate(&block, &test.test, rows, *column, self.execution.salt + u64::from(*column as u32))?;
                let list = test.table();
                let mut at = Address(0);
                if !list.is_empty() {
                    let [on_device, pinned] = self.bench.upload(&self::bytes(list))?;
                    at = on_device.address();
                    buffers.extend([on_device, pinned]);
                }
                tests.extend(test.words(at));
            }
            counts.extend((rows.len() as u32).to_ne_bytes());
        }
        let blocks = counts.len() as u64 / 4;
        let mut place = |bytes: &[u8]| -> Result<Address> {
            let [on_device, pinned] = self.bench.upload(bytes)?;
            let at = on_device.address();
            buffers.extend([on_device, pinned]);
            Ok(at)
        };
        let (rows, columns, tests) = (place(&counts)?, place(&bytes(columns))?, place(&bytes(tests))?);
        let faults = self.bench.zeros(8)?;
        let tiles = blocks * u64::from(65_536 / TILE);
        Ok((Parameters::new(tiles, rows, columns, tests, faults.address()), faults, tiles))
    }

    /// Runs a kernel behind the copies; what it left as faults, where it is none that ends a query.
    fn launch(
        &self,
        function: Function,
        tiles: u64,
        shared_bytes: u32,
        parameters: &Parameters,
        faults: &Buffer,
    ) -> Result<u64> {
        let Bench { device, copies, kernels, .. } = self.bench;
        let copied = device.event()?;
        device.record(copied, *copies)?;
        device.wait(*kernels, copied)?;
        let grid = Grid { blocks: tiles.clamp(1, 3) as u32, threads: THREADS, shared_bytes };
        device.launch(*kernels, function, grid, &parameters.bytes())?;
        let flags = words(&self.bench.download(faults)?)[0];
        if let Some(fault) = Fault::ALL.into_iter().find(|fault| flags & fault.code() != 0) {
            return Err(fault.into());
        }
        match flags & !8 {
            0 => Ok(flags),
            other => Err(Error::internal(format!("the kernel left faults {other}"))),
        }
    }

    fn place_of(&self, groups: &DeviceGroupTable) -> GroupPlace {
        match groups.keys.is_empty() {
            true => GroupPlace::One,
            false if groups.bytes() > 32 << 10 || self.execution.global => GroupPlace::Global,
            false => GroupPlace::Shared,
        }
    }

    /// Bases and bytes of the entries of a build side's payload: of integers as few as hold them, or more.
    fn entries(&self, number: usize, join: &JoinState, payload: &[Register]) -> Vec<(i64, u64)> {
        let entry = |(column, (register, typed)): (usize, (&Register, &Typed))| {
            let range = self.ranges(number, &[*register]).ok().filter(|_| typed.value == ValueType::I64);
            let Some([(low, high)]) = range.as_deref() else { return (0, value_bytes(typed.value)) };
            let span = (high - low) as u64;
            let widths: Vec<u64> =
                [1, 2, 4, 8].into_iter().filter(|bytes| *bytes == 8 || span >> (bytes * 8) == 0).collect();
            (*low, widths[(self.execution.salt as usize + column) % widths.len()])
        };
        payload.iter().zip(&join.payload).enumerate().map(entry).collect()
    }

    /// A build side has as many keys as its kernel has counted.
    fn check_entered(&self, present: &Buffer, entered: &Buffer) -> Result<()> {
        let keys: u32 = self.bench.download(present)?.iter().map(|byte| byte.count_ones()).sum();
        match words(&self.bench.download(entered)?)[0] == u64::from(keys) {
            true => Ok(()),
            false => Err(Error::internal("a build side has other keys than its kernel has counted")),
        }
    }

    fn group_table(&self, number: usize, state: StateId, keys: &[Register]) -> Result<DeviceGroupTable> {
        let State::Aggregate(groups) = &self.case.program.states[state.0 as usize] else { unreachable!() };
        if groups.keys.iter().any(|key| !matches!(key.value, ValueType::I64 | ValueType::Bool)) {
            return Err(Error::unsupported("keys of groups are no integers"));
        }
        DeviceGroupTable::new(groups, &self.ranges(number, keys)?)
    }

    /// The least and greatest of some registers where the rows of a pipeline arrive.
    fn ranges(&self, number: usize, keys: &[Register]) -> Result<Vec<(i64, i64)>> {
        let mut case = self.case.clone();
        case.program.pipelines.truncate(number + 1);
        case.program.pipelines[number].sink = Sink::Collect { columns: keys.to_vec() };
        let rows = case.interpret()?;
        let range = |key: usize| {
            let numbers = rows.iter().filter_map(|row| match row[key] {
                Scalar::I64(number) => Some(number),
                Scalar::Bool(value) => Some(i64::from(value)),
                _ => None,
            });
            let (low, high) = (numbers.clone().min().unwrap_or(0), numbers.max().unwrap_or(0));
            match high.checked_sub(low).is_some_and(|span| span < 1 << 16) {
                true => Ok((low, high)),
                false => Err(Error::unsupported("keys lie too far apart")),
            }
        };
        (0..keys.len()).map(range).collect()
    }
}

/// Room for a result on the device.
struct Room {
    counter: Buffer,
    /// By column, values and NULLs.
    columns: Vec<(Buffer, Buffer)>,
}

impl Room {
    fn new(bench: &Bench, types: &[Typed], rows: u64, parameters: &mut Parameters) -> Result<Self> {
        let counter = bench.zeros(8)?;
        parameters.room(counter.address(), rows);
        let mut columns = Vec::new();
        for typed in types {
            let values = bench.zeros(rows * value_bytes(typed.value))?;
            let nulls = bench.zeros(rows)?;
            parameters.output(values.address(), if typed.nullable { nulls.address() } else { Address(0) });
            columns.push((values, nulls));
        }
        Ok(Self { counter, columns })
    }

    /// What a kernel left there.
    fn rows(&self, bench: &Bench, types: &[Typed]) -> Result<Vec<Vec<Scalar>>> {
        let count = words(&bench.download(&self.counter)?)[0] as usize;
        let mut result = vec![Vec::new(); count];
        for ((values, nulls), typed) in self.columns.iter().zip(types) {
            let (values, nulls) = (bench.download(values)?, bench.download(nulls)?);
            for (row, result) in result.iter_mut().enumerate() {
                result.push(value_at(&values, &nulls, row, *typed));
            }
        }
        Ok(result)
    }
}

/// The type of a column that nothing loads.
fn stored(table: &[Vec<Scalar>], column: usize) -> PhysicalType {
    match table.iter().find_map(|row| row[column].value_type()) {
        Some(ValueType::Bytes) => PhysicalType::Bytes,
        Some(ValueType::F64) => PhysicalType::F64,
        Some(ValueType::Bool) => PhysicalType::U8,
        _ => PhysicalType::I64,
    }
}

/// A build side of keys of a range, with bases and bytes of its entries.
fn build_side(
    bench: &Bench,
    join: &JoinState,
    (low, high): (i64, i64),
    entries: &[(i64, u64)],
) -> Result<(Build, Vec<Buffer>)> {
    let span = (high - low + 1) as u64;
    let present = bench.zeros(span.div_ceil(32) * 4)?;
    let mut build = Build { present: present.address(), low, span, payload: Vec::new() };
    let mut buffers = vec![present];
    for (base, entry_bytes) in entries.iter().copied() {
        let values = Buffer::new(&bench.device, Memory::Device, span * entry_bytes)?;
        let valid = bench.zeros(span.div_ceil(32) * 4)?;
        let (values_at, valid_at) = (values.address(), valid.address());
        build.payload.push(Payload { values: values_at, valid: valid_at, base, entry_bytes });
        buffers.extend([values, valid]);
    }
    debug_assert_eq!(build.payload.len(), join.payload.len());
    Ok((build, buffers))
}
