//! From a pipeline to a function: the steps that a row takes, fused and with its values in registers.
//!
//! Invariants: a NULL value's words hold anything, except that bytes are always readable (their length is 0 then); Bools
//! are 0 or 1 in 8 bits. Columns and payloads are loaded where the first step needs them, in a block that dominates every
//! later use: [`Lowering::need`] is called on the straight way only, never inside a branch.

use std::collections::BTreeMap;
use std::sync::Arc;

use cranelift_codegen::ir::{Block, InstBuilder, MemFlagsData, SigRef, Type, Value, types};
use cranelift_codegen::isa::CallConv;
use cranelift_frontend::FunctionBuilder;
use forebay_base::{PhysicalType, Result};
use forebay_pipeline::ir::{
    Compute, Op, Pipeline, Program, Register, Sink, Source, State, StateId, Step, Typed, ValueType,
};
use forebay_pipeline::{LikePattern, register_types};

use super::context::Context;
use super::members::Members;
use super::probe::{Chain, Payload};
use super::stages::{StageColumn, Staged};
use super::{StateLayouts, state_columns};
use crate::layout::WORD;
use crate::vector::{physical_of, physical_of_column};

/// Loads and stores of the rows that this function writes, and of the context's words that change.
pub(super) const MUTABLE: MemFlagsData = MemFlagsData::trusted();
/// Loads of what no one writes while the function runs; not to be moved above the test that allows them.
pub(super) const STEADY: MemFlagsData = MemFlagsData::trusted().with_readonly();

/// Steady words of the context that stay in registers throughout the loops of a pipeline: more than these would be spilled,
/// and reloaded on every way back to a loop's head, so that they are loaded wherever they are used.
const WORDS_IN_REGISTERS: usize = 8;

/// A value in registers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cell {
    /// Its type.
    pub(super) value: ValueType,
    /// The value, or the low or first word of two.
    pub(super) low: Value,
    /// The high word of an I128, the length of bytes.
    pub(super) high: Option<Value>,
    /// Whether it is not NULL; `None` where it never is.
    pub(super) valid: Option<Value>,
    /// The integer that it always is.
    pub(super) known: Option<i128>,
    /// An integer fits so many bits, its sign included; floats and bytes do not look at it.
    pub(super) bits: u32,
}

impl Cell {
    /// A value of one word that is never NULL.
    pub(super) fn new(value: ValueType, low: Value) -> Self {
        Self { value, low, high: None, valid: None, known: None, bits: width(value) }
    }
}

/// What a register holds while the function is built.
#[derive(Debug, Clone, Copy)]
pub(super) enum RegisterState<'a> {
    /// Nothing yet.
    Absent,
    /// A value.
    Ready(Cell),
    /// A column of the source that nobody needed yet.
    Column(usize),
    /// A payload column of a join's match that nobody needed yet.
    Payload(Payload),
    /// A constant that nobody needed yet.
    Constant(&'a Compute),
    /// A value that an earlier stage kept.
    Staged(Staged),
    /// A payload column of a join's match, whose place an earlier stage kept.
    StagedPayload(Payload, StageColumn),
}

/// Constants that compiled code refers to by address.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Text.
    pub(super) bytes: Vec<Arc<[u8]>>,
    /// Patterns of LIKE.
    pub(super) patterns: Vec<Arc<LikePattern>>,
    /// Lists of IN.
    pub(super) members: Vec<Arc<Members>>,
}

/// A function while it is built.
pub(super) struct Lowering<'a, 'f> {
    pub(super) builder: FunctionBuilder<'f>,
    pub(super) program: &'a Program,
    pub(super) pipeline: &'a Pipeline,
    pub(super) layouts: &'a StateLayouts,
    pub(super) layout: Context,
    pub(super) kept: &'a mut Kept,
    /// How steady words of the context are loaded.
    pub(super) steady_flags: MemFlagsData,
    /// The address of the context.
    pub(super) context: Value,
    /// The number of the row in its vectors.
    pub(super) row: Value,
    /// Where a row goes that is dropped or done.
    pub(super) next: Block,
    pub(super) registers: Vec<RegisterState<'a>>,
    pub(super) types: Vec<Option<Typed>>,
    /// The position of the row in the columns between stages.
    pub(super) position: Value,
    /// The column of hashes that were computed ahead for the next look-up.
    pub(super) hashed: Option<StageColumn>,
    /// Number of columns between stages.
    pub(super) stage_columns: usize,
    pub(super) faults: BTreeMap<u64, Block>,
    pub(super) chains: Vec<Chain>,
    pub(super) signatures: BTreeMap<(usize, usize), SigRef>,
    pub(super) call_conv: CallConv,
}

impl<'a, 'f> Lowering<'a, 'f> {
    /// Builds the whole function. Also gives the words that its stages need.
    pub(super) fn build(
        mut builder: FunctionBuilder<'f>,
        program: &'a Program,
        pipeline: &'a Pipeline,
        layouts: &'a StateLayouts,
        kept: &'a mut Kept,
    ) -> Result<(FunctionBuilder<'f>, usize)> {
        let types = register_types(program, pipeline)?;
        let entry = builder.create_block();
        builder.append_block_params_for_function_params(entry);
        builder.switch_to_block(entry);
        let context = builder.block_params(entry)[0];
        let call_conv = builder.func.signature.call_conv;
        let layout = Context::new(program, pipeline, layouts.counted);
        let few = layout.steady_words(layouts) <= WORDS_IN_REGISTERS;
        let lowering = Self {
            program,
            pipeline,
            layouts,
            layout,
            steady_flags: if few { STEADY.with_can_move() } else { STEADY },
            kept,
            context,
            row: context,
            next: entry,
            registers: Vec::new(),
            types,
            position: context,
            hashed: None,
            stage_columns: 0,
            faults: BTreeMap::new(),
            chains: Vec::new(),
            signatures: BTreeMap::new(),
            call_conv,
            builder,
        };
        Ok(lowering.rows())
    }

    pub(super) fn bind_source(&mut self) {
        let pipeline = self.pipeline;
        match &pipeline.source {
            Source::Table(table) => {
                for (number, column) in table.columns.iter().enumerate() {
                    self.hold(column.to, RegisterState::Column(number));
                }
            }
            Source::Groups { columns, .. } | Source::BuildRows { columns, .. } => {
                for (number, to) in columns.iter().enumerate() {
                    self.hold(*to, RegisterState::Column(number));
                }
            }
        }
    }

    /// A step, by its number; behind it the row is where later steps run.
    pub(super) fn step(&mut self, number: usize, step: &'a Step) {
        match step {
            Step::Compute(compute) if matches!(compute.op, Op::Constant(_)) => {
                self.hold(compute.to, RegisterState::Constant(compute));
            }
            Step::Compute(compute) => self.compute(compute),
            Step::Filter(register) => {
                self.need(&[*register]);
                let passes = self.truth(*register);
                let (on, next) = (self.block(), self.next);
                self.branch(passes, on, next);
                self.builder.switch_to_block(on);
            }
            Step::Probe(probe) => self.probe(probe),
        }
        if self.layouts.counted && !matches!(step, Step::Compute(_)) {
            let one = self.int(1);
            self.count(number, one);
        }
    }

    /// So many more rows have left a step; only where they are counted.
    pub(super) fn count(&mut self, step: usize, rows: Value) {
        let rows = self.multiplied(rows);
        let word = self.layout.counts().start + step;
        let before = self.load_mutable(word);
        let after = self.builder.ins().iadd(before, rows);
        self.set(word, after);
    }

    /// One computation; what it needs is loaded before its guard is looked at.
    pub(super) fn compute(&mut self, compute: &Compute) {
        let mut needed = compute.op.operands();
        needed.extend(compute.guard);
        self.need(&needed);
        let cell = match compute.guard {
            Some(guard) if compute.can_fail() => self.guarded(guard, compute),
            _ => self.operation(compute),
        };
        self.hold(compute.to, RegisterState::Ready(cell));
    }

    /// Computes where `guard` is true, and gives zeros elsewhere.
    fn guarded(&mut self, guard: Register, compute: &Compute) -> Cell {
        let (taken, skipped, merged) = (self.block(), self.block(), self.block());
        let condition = self.truth(guard);
        self.branch(condition, taken, skipped);
        self.builder.switch_to_block(taken);
        let computed = self.operation(compute);
        let arguments = Self::parts(&computed);
        self.jump(merged, &arguments);
        self.builder.switch_to_block(skipped);
        let empty = self.null(Typed { value: computed.value, nullable: computed.valid.is_some() });
        let arguments = Self::parts(&empty);
        self.jump(merged, &arguments);
        let cell = self.parameters(merged, &computed);
        self.builder.switch_to_block(merged);
        cell
    }

    /// The words of a cell in a fixed order, for the arguments of a block.
    pub(super) fn parts(cell: &Cell) -> Vec<Value> {
        [Some(cell.low), cell.high, cell.valid].into_iter().flatten().collect()
    }

    /// A cell like `like` whose words are new parameters of `block`.
    pub(super) fn parameters(&mut self, block: Block, like: &Cell) -> Cell {
        let mut parameter = |type_| self.builder.append_block_param(block, type_);
        Cell {
            low: parameter(word_type(like.value)),
            high: like.high.map(|_| parameter(types::I64)),
            valid: like.valid.map(|_| parameter(types::I8)),
            known: None,
            bits: width(like.value),
            ..*like
        }
    }

    /// The NULL of a type, with zeros for words; not valid where the type is nullable.
    pub(super) fn null(&mut self, typed: Typed) -> Cell {
        let low = match typed.value {
            ValueType::Bool => self.builder.ins().iconst(types::I8, 0),
            ValueType::F64 => self.builder.ins().f64const(0.0),
            _ => self.int(0),
        };
        let high = matches!(typed.value, ValueType::I128 | ValueType::Bytes).then(|| self.int(0));
        let valid = typed.nullable.then(|| self.builder.ins().iconst(types::I8, 0));
        Cell { low, high, valid, ..Cell::new(typed.value, low) }
    }

    /// Sees to it that registers hold their values from here on.
    pub(super) fn need(&mut self, registers: &[Register]) {
        for register in registers {
            let cell = match self.held(*register) {
                RegisterState::Column(number) => self.load_column(number),
                RegisterState::Payload(payload) => self.load_payload(&payload),
                RegisterState::Constant(compute) => self.operation(compute),
                RegisterState::Staged(staged) => self.load_staged_cell(&staged),
                RegisterState::StagedPayload(payload, column) => {
                    let found = self.load_staged(column, types::I64);
                    self.load_payload(&payload.at(found))
                }
                RegisterState::Ready(_) | RegisterState::Absent => continue,
            };
            self.hold(*register, RegisterState::Ready(cell));
        }
    }

    /// The value of a register that was needed.
    pub(super) fn cell(&self, register: Register) -> Cell {
        match self.registers.get(register.0 as usize) {
            Some(RegisterState::Ready(cell)) => *cell,
            held => unreachable!("verified: {register:?} was written before it is read, it is {held:?}"),
        }
    }

    /// What a register holds.
    pub(super) fn held(&self, register: Register) -> RegisterState<'a> {
        self.registers.get(register.0 as usize).copied().unwrap_or(RegisterState::Absent)
    }

    /// Constants are made again where they are needed next.
    pub(super) fn constants_again(&mut self) {
        let pipeline = self.pipeline;
        for step in &pipeline.steps {
            if let Step::Compute(compute) = step
                && matches!(
                    (&compute.op, self.held(compute.to)),
                    (Op::Constant(_), RegisterState::Ready(_) | RegisterState::Staged(_))
                )
            {
                self.hold(compute.to, RegisterState::Constant(compute));
            }
        }
    }

    /// Says what a register holds.
    pub(super) fn hold(&mut self, register: Register, held: RegisterState<'a>) {
        let number = register.0 as usize;
        if self.registers.len() <= number {
            self.registers.resize(number + 1, RegisterState::Absent);
        }
        self.registers[number] = held;
    }

    /// Whether a Bool is true; NULL is not.
    pub(super) fn truth(&mut self, register: Register) -> Value {
        let cell = self.cell(register);
        match cell.valid {
            Some(valid) => self.builder.ins().band(cell.low, valid),
            None => cell.low,
        }
    }

    /// Loads a column of the source for this row.
    fn load_column(&mut self, number: usize) -> Cell {
        let (typed, physical) = self.source_column(number);
        let word = self.layout.column(number);
        let base = self.load_invariant(word);
        let shift = match physical {
            PhysicalType::I8 | PhysicalType::U8 => 0,
            PhysicalType::I16 | PhysicalType::U16 => 1,
            PhysicalType::I32 | PhysicalType::U32 | PhysicalType::F32 => 2,
            PhysicalType::I64 | PhysicalType::U64 | PhysicalType::F64 => 3,
            PhysicalType::I128 | PhysicalType::Bytes => 4,
        };
        let address = self.element(base, self.row, shift);
        let (low, high) = self.load_physical(physical, typed.value, address);
        let valid = typed.nullable.then(|| {
            let base = self.load_invariant(word + 1);
            let address = self.element(base, self.row, 0);
            self.builder.ins().load(types::I8, STEADY, address, 0)
        });
        let bits = match physical {
            PhysicalType::Bytes | PhysicalType::F32 | PhysicalType::F64 => width(typed.value),
            PhysicalType::U8 | PhysicalType::U16 | PhysicalType::U32 | PhysicalType::U64 => (8 << shift) + 1,
            _ => 8 << shift,
        };
        let mut cell = Cell { high, valid, bits, ..Cell::new(typed.value, low) };
        self.make_readable(&mut cell);
        cell
    }

    /// The length of NULL bytes is 0, whatever was loaded.
    pub(super) fn make_readable(&mut self, cell: &mut Cell) {
        if let (ValueType::Bytes, Some(valid), Some(length)) = (cell.value, cell.valid, cell.high) {
            let zero = self.int(0);
            cell.high = Some(self.builder.ins().select(valid, length, zero));
        }
    }

    fn load_physical(&mut self, physical: PhysicalType, value: ValueType, at: Value) -> (Value, Option<Value>) {
        let ins = self.builder.ins();
        match physical {
            PhysicalType::U8 if value == ValueType::Bool => (ins.load(types::I8, STEADY, at, 0), None),
            PhysicalType::I8 => (ins.sload8(types::I64, STEADY, at, 0), None),
            PhysicalType::I16 => (ins.sload16(types::I64, STEADY, at, 0), None),
            PhysicalType::I32 => (ins.sload32(STEADY, at, 0), None),
            PhysicalType::I64 => (ins.load(types::I64, STEADY, at, 0), None),
            PhysicalType::U8 => (ins.uload8(types::I64, STEADY, at, 0), None),
            PhysicalType::U16 => (ins.uload16(types::I64, STEADY, at, 0), None),
            PhysicalType::U32 => (ins.uload32(STEADY, at, 0), None),
            PhysicalType::U64 => {
                let low = ins.load(types::I64, STEADY, at, 0);
                (low, Some(self.int(0)))
            }
            PhysicalType::F32 => {
                let single = ins.load(types::F32, STEADY, at, 0);
                let double = self.builder.ins().fpromote(types::F64, single);
                (self.without_negative_zero(double), None)
            }
            PhysicalType::F64 => {
                let double = ins.load(types::F64, STEADY, at, 0);
                (self.without_negative_zero(double), None)
            }
            PhysicalType::I128 | PhysicalType::Bytes => {
                let low = ins.load(types::I64, STEADY, at, 0);
                (low, Some(self.builder.ins().load(types::I64, STEADY, at, WORD as i32)))
            }
        }
    }

    /// What a source's column is loaded as, and in which width its vector holds it.
    fn source_column(&self, number: usize) -> (Typed, PhysicalType) {
        match &self.pipeline.source {
            Source::Table(table) => {
                let column = &table.columns[number];
                (column.typed, physical_of_column(column))
            }
            Source::Groups { state, .. } | Source::BuildRows { state, .. } => {
                let typed = state_columns(self.state(*state))[number];
                (typed, physical_of(typed.value))
            }
        }
    }

    fn state(&self, state: StateId) -> &'a State {
        &self.program.states[state.0 as usize]
    }

    pub(super) fn join_state(&self, state: StateId) -> &'a forebay_pipeline::ir::JoinState {
        match self.state(state) {
            State::Join(join) => join,
            State::Aggregate(_) => unreachable!("verified: a probed state is a build side"),
        }
    }

    pub(super) fn aggregate_state(&self, state: StateId) -> &'a forebay_pipeline::ir::AggregateState {
        match self.state(state) {
            State::Aggregate(aggregate) => aggregate,
            State::Join(_) => unreachable!("verified: groups go into an aggregation"),
        }
    }

    pub(super) fn sink(&mut self, accumulators: &super::sink::Accumulators) {
        let pipeline = self.pipeline;
        match &pipeline.sink {
            Sink::Build { state, keys, payload } => self.build_row(*state, keys, payload),
            Sink::Mark { state, keys, columns, condition } => {
                self.mark_rows(*state, keys, columns, condition.as_ref());
            }
            Sink::Aggregate { state, keys, arguments } => self.aggregate(*state, keys, arguments, accumulators),
            Sink::Collect { columns } => self.collect(columns),
        }
    }
}

/// The type of a value's first word in a register.
pub(super) fn word_type(value: ValueType) -> Type {
    match value {
        ValueType::Bool => types::I8,
        ValueType::F64 => types::F64,
        ValueType::I64 | ValueType::I128 | ValueType::Bytes => types::I64,
    }
}

/// Bits of an integer type.
pub(super) fn width(value: ValueType) -> u32 {
    match value {
        ValueType::Bool => 2,
        ValueType::I64 | ValueType::F64 | ValueType::Bytes => 64,
        ValueType::I128 => 128,
    }
}

/// The offset of a word in bytes.
pub(super) fn offset(word: usize) -> i32 {
    (word * WORD) as i32
}
