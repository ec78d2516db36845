//! The loops of a pipeline. A pipeline is one loop over its rows, unless it pays to do a chunk of rows step by step:
//!
//! - cheap filters at its head are evaluated without branches into a list of the rows that pass;
//! - before a table of hashed rows is looked at, be it probed or filled, the hashes of a chunk are computed and what they
//!   lead to is loaded in loops of their own, where many loads are under way at once. The same is done for dense groups that
//!   fit no near cache, by the numbers of their slots.
//!
//! Each such part is a *stage*. Between stages, what later ones read of a row is kept in columns of words; values of the
//! source are loaded again by the row's number, constants are made again.
//! Invariants: a stage gives at most one row for each that it gets, so that a chunk of rows fits the columns.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use forebay_pipeline::ir::{Compute, Condition, Op, ProbeKind, Register, Sink, Step, ValueType};

use super::ahead::Ahead;
use super::context::{ROWS, STAGES};
use super::lower::{Cell, Lowering, MUTABLE, RegisterState, word_type};
use super::probe::{Match, Payload};
use super::sink::Accumulators;
use crate::groups::GroupLayout;
use crate::join::JoinLayout;
use crate::layout::WORD;

/// Rows that go from stage to stage at once: their columns stay in the second-level cache.
pub(super) const CHUNK: usize = 1024;
/// The same where texts are loaded ahead, which take a line or two of the cache for each row besides.
const TEXT_CHUNK: usize = 256;

/// A part of a pipeline that runs as a loop of its own.
struct Stage {
    steps: Range<usize>,
    /// Its filters are evaluated without branches.
    branchless: bool,
    /// What is looked up first, and is loaded ahead.
    ahead: Option<Ahead>,
}

/// A column of words between stages, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StageColumn(usize);

/// A value that an earlier stage kept.
#[derive(Debug, Clone, Copy)]
pub(super) struct Staged {
    value: ValueType,
    bits: u32,
    low: StageColumn,
    high: Option<StageColumn>,
    valid: Option<StageColumn>,
}

/// The rows that a stage goes through.
pub(super) struct Input {
    pub(super) count: Value,
    /// The number of the first row, or the column with the numbers.
    rows: Rows,
}

enum Rows {
    From(Value),
    In(StageColumn),
}

/// A loop while it is filled.
pub(super) struct Loop {
    body: Block,
    pub(super) advance: Block,
    after: Block,
    count: Value,
    pub(super) position: Value,
}

impl<'a, 'f> Lowering<'a, 'f> {
    /// The whole function behind its entry. Also gives the words that its stages need.
    pub(super) fn rows(mut self) -> (FunctionBuilder<'f>, usize) {
        let stages = self.stages();
        let chunked = stages.len() > 1 || stages[0].ahead.is_some();
        let (chunk, done) = (self.block(), self.block());
        let accumulators = self.begin_sink();
        let rows = self.load_invariant(ROWS);
        let zero = self.int(0);
        let from = self.builder.append_block_param(chunk, types::I64);
        self.branch_with(rows, chunk, &[zero], done, &[]);

        self.builder.switch_to_block(chunk);
        self.bind_source();
        let mut count = self.builder.ins().isub(rows, from);
        if chunked {
            let loads_texts = stages.iter().filter_map(|stage| stage.ahead).any(|ahead| self.key_text(ahead).is_some());
            let most = self.int(if loads_texts { TEXT_CHUNK } else { CHUNK } as i64);
            count = self.builder.ins().umin(count, most);
        }
        let mut input = Input { count, rows: Rows::From(from) };
        for (number, stage) in stages.iter().enumerate() {
            let following = stages.get(number + 1);
            match self.stage(stage, &input, following, &accumulators) {
                Some(output) => input = output,
                None => break,
            }
        }
        let end = self.builder.ins().iadd(from, count);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, end, rows);
        self.branch_with(more, chunk, &[end], done, &[]);

        self.builder.switch_to_block(done);
        self.end_sink(&accumulators);
        let fine = self.int(0);
        self.builder.ins().return_(&[fine]);
        self.emit_chains();
        self.emit_faults();
        self.builder.seal_all_blocks();
        (self.builder, self.stage_columns * CHUNK)
    }

    /// How the pipeline is cut.
    fn stages(&self) -> Vec<Stage> {
        let steps = &self.pipeline.steps;
        let mut stages = Vec::new();
        let filters = self.cheap_filters();
        if filters > 0 {
            stages.push(Stage { steps: 0..filters, branchless: true, ahead: None });
        }
        let mut current = Stage { steps: filters..filters, branchless: false, ahead: None };
        let mut cut = |current: &mut Stage, at: usize, ahead: Ahead| {
            if current.steps.start < at || current.ahead.is_some() {
                current.steps.end = at;
                stages.push(std::mem::replace(current, Stage { steps: at..at, branchless: false, ahead: None }));
            }
            current.ahead = Some(ahead);
        };
        // A row that goes on several times would not fit the columns.
        let mut multiplied = false;
        for (number, step) in steps.iter().enumerate().skip(filters) {
            let Step::Probe(probe) = step else { continue };
            if let JoinLayout::Hash { unique } = self.layouts.join(probe.state) {
                if !multiplied {
                    cut(&mut current, number, Ahead::Probe(number));
                }
                multiplied |= !unique && matches!(probe.kind, ProbeKind::Inner | ProbeKind::Left);
            }
        }
        if let Sink::Aggregate { keys, .. } = &self.pipeline.sink
            && !keys.is_empty()
            && self.are_groups_far()
            && !multiplied
        {
            cut(&mut current, steps.len(), Ahead::Groups);
        }
        current.steps.end = steps.len();
        stages.push(current);
        stages
    }

    /// Whether it pays to load groups ahead. Slots of dense ones are loaded by the processor itself, many at once, unless it
    /// cannot know which rows come so far.
    fn are_groups_far(&self) -> bool {
        let drops = |kind: ProbeKind| matches!(kind, ProbeKind::Inner | ProbeKind::Semi | ProbeKind::Anti);
        let may_drop = |step: &Step| matches!(step, Step::Probe(probe) if drops(probe.kind));
        match self.layouts.groups() {
            GroupLayout::Hash => true,
            GroupLayout::Dense { is_large } => is_large && self.pipeline.steps.iter().any(may_drop),
            GroupLayout::Partitioned => false,
        }
    }

    /// The number of steps at the head, up to a filter, that are cheap enough to be done for all rows without branches.
    fn cheap_filters(&self) -> usize {
        let mut filters = 0;
        for (number, step) in self.pipeline.steps.iter().enumerate() {
            match step {
                Step::Filter(_) => filters = number + 1,
                Step::Compute(compute) if self.is_cheap(compute) => {}
                _ => break,
            }
        }
        filters
    }

    /// Whether it is a few instructions that never fail.
    fn is_cheap(&self, compute: &Compute) -> bool {
        let of_bytes = |register: &Register| self.may_be_bytes(*register);
        !compute.can_fail()
            && match &compute.op {
                Op::Arithmetic(..) | Op::Convert(_) => compute.typed.value != ValueType::I128,
                Op::Compare(_, a, b) => !of_bytes(a) && !of_bytes(b),
                Op::In { value, list } => !of_bytes(value) && list.len() <= 6,
                Op::Constant(_)
                | Op::Negate(_)
                | Op::And(..)
                | Op::Or(..)
                | Op::Not(_)
                | Op::IsNull(_)
                | Op::Select { .. }
                | Op::Coalesce(..) => true,
                Op::DatePart(..) | Op::Length(_) | Op::Like { .. } | Op::Substring { .. } => false,
            }
    }

    fn may_be_bytes(&self, register: Register) -> bool {
        let typed = self.types.get(register.0 as usize).copied().flatten();
        typed.is_none_or(|typed| typed.value == ValueType::Bytes)
    }

    /// One loop, with those that load ahead of it. Gives the rows of the following stage, if there is one.
    fn stage(
        &mut self,
        stage: &Stage,
        input: &Input,
        following: Option<&Stage>,
        accumulators: &Accumulators,
    ) -> Option<Input> {
        let hashes = stage.ahead.and_then(|ahead| self.load_ahead(ahead, input));
        let passed = self.variable(types::I64, 0);
        let rows = self.begin_rows(input);
        self.next = rows.advance;
        self.hashed = hashes;
        let mut passes = stage.branchless.then(|| self.builder.ins().iconst(types::I8, 1));
        let pipeline = self.pipeline;
        for number in stage.steps.clone() {
            let step = &pipeline.steps[number];
            match (step, &mut passes) {
                (Step::Filter(register), Some(passes)) => {
                    self.need(&[*register]);
                    let truth = self.truth(*register);
                    *passes = self.builder.ins().band(*passes, truth);
                    if self.layouts.counted {
                        let rows = self.builder.ins().uextend(types::I64, *passes);
                        self.count(number, rows);
                    }
                }
                _ => self.step(number, step),
            }
        }
        let numbers = match following {
            Some(following) => {
                let numbers = self.keep_rows(following, passed);
                let kept = self.builder.use_var(passed);
                let kept = match passes {
                    Some(passes) => {
                        let one = self.builder.ins().uextend(types::I64, passes);
                        self.builder.ins().iadd(kept, one)
                    }
                    None => self.builder.ins().iadd_imm_s(kept, 1),
                };
                self.builder.def_var(passed, kept);
                Some(numbers)
            }
            None => {
                self.sink(accumulators);
                None
            }
        };
        let next = self.next;
        self.jump(next, &[]);
        self.end_loop(&rows);
        let numbers = numbers?;
        Some(Input { count: self.builder.use_var(passed), rows: Rows::In(numbers) })
    }

    /// Keeps what later stages read of this row at the position `passed`; gives the column of its number. The registers
    /// then hold what the following stage finds.
    fn keep_rows(&mut self, following: &Stage, passed: Variable) -> StageColumn {
        let at = self.builder.use_var(passed);
        let mut matches = BTreeMap::new();
        self.constants_again();
        for register in self.read_from(following.steps.start) {
            let kept = match self.held(register) {
                RegisterState::Staged(_) => {
                    self.need(&[register]);
                    self.keep_cell(&self.cell(register), at)
                }
                RegisterState::Ready(cell) => self.keep_cell(&cell, at),
                RegisterState::Payload(payload) => self.keep_match(payload, at, &mut matches),
                RegisterState::StagedPayload(payload, column) => {
                    let found = self.load_staged(column, types::I64);
                    self.keep_match(payload.at(found), at, &mut matches)
                }
                held @ (RegisterState::Absent | RegisterState::Column(_) | RegisterState::Constant(_)) => held,
            };
            self.hold(register, kept);
        }
        let numbers = self.stage_column();
        self.keep_word(numbers, at, self.row);
        numbers
    }

    fn keep_cell(&mut self, cell: &Cell, at: Value) -> RegisterState<'a> {
        let mut keep = |word| {
            let column = self.stage_column();
            self.keep_word(column, at, word);
            column
        };
        let (low, high, valid) = (keep(cell.low), cell.high.map(&mut keep), cell.valid.map(&mut keep));
        RegisterState::Staged(Staged { value: cell.value, bits: cell.bits, low, high, valid })
    }

    /// Keeps where a match lies, once for all of its columns.
    fn keep_match(
        &mut self,
        payload: Payload,
        at: Value,
        matches: &mut BTreeMap<Value, StageColumn>,
    ) -> RegisterState<'a> {
        let (Match::Number(found) | Match::Row(found)) = payload.found;
        let column = match matches.get(&found) {
            Some(column) => *column,
            None => {
                let column = self.stage_column();
                self.keep_word(column, at, found);
                matches.insert(found, column);
                column
            }
        };
        RegisterState::StagedPayload(payload, column)
    }

    /// Loads a value that an earlier stage kept.
    pub(super) fn load_staged_cell(&mut self, staged: &Staged) -> Cell {
        let low = self.load_staged(staged.low, word_type(staged.value));
        let high = staged.high.map(|column| self.load_staged(column, types::I64));
        let valid = staged.valid.map(|column| self.load_staged(column, types::I8));
        Cell { high, valid, bits: staged.bits, ..Cell::new(staged.value, low) }
    }

    /// Loads a word that an earlier stage, or a loop that loads ahead, kept for the row at this position.
    pub(super) fn load_staged(&mut self, column: StageColumn, type_: cranelift_codegen::ir::Type) -> Value {
        let address = self.staged_address(column, self.position);
        self.builder.ins().load(type_, MUTABLE, address, 0)
    }

    pub(super) fn keep_word(&mut self, column: StageColumn, at: Value, word: Value) {
        let address = self.staged_address(column, at);
        self.builder.ins().store(MUTABLE, word, address, 0);
    }

    pub(super) fn staged_address(&mut self, column: StageColumn, at: Value) -> Value {
        let base = self.load_invariant(STAGES);
        let first = self.builder.ins().iadd_imm_s(base, (column.0 * CHUNK * WORD) as i64);
        self.element(first, at, 3)
    }

    pub(super) fn stage_column(&mut self) -> StageColumn {
        self.stage_columns += 1;
        StageColumn(self.stage_columns - 1)
    }

    /// Begins a loop over rows, each with its number.
    pub(super) fn begin_rows(&mut self, input: &Input) -> Loop {
        let rows = self.begin_loop(input.count);
        self.position = rows.position;
        self.row = match input.rows {
            Rows::From(first) => self.builder.ins().iadd(first, rows.position),
            Rows::In(column) => self.load_staged(column, types::I64),
        };
        rows
    }

    pub(super) fn begin_loop(&mut self, count: Value) -> Loop {
        let (body, advance, after) = (self.block(), self.block(), self.block());
        let position = self.builder.append_block_param(body, types::I64);
        let zero = self.int(0);
        self.branch_with(count, body, &[zero], after, &[]);
        self.builder.switch_to_block(body);
        Loop { body, advance, after, count, position }
    }

    pub(super) fn end_loop(&mut self, rows: &Loop) {
        self.builder.switch_to_block(rows.advance);
        let following = self.builder.ins().iadd_imm_s(rows.position, 1);
        let more = self.builder.ins().icmp(IntCC::UnsignedLessThan, following, rows.count);
        self.branch_with(more, rows.body, &[following], rows.after, &[]);
        self.builder.switch_to_block(rows.after);
    }

    /// The registers that steps from this one on read, and the sink.
    fn read_from(&self, first: usize) -> BTreeSet<Register> {
        let mut read = BTreeSet::new();
        let of_compute = |read: &mut BTreeSet<Register>, compute: &Compute| {
            read.extend(compute.op.operands());
            read.extend(compute.guard);
        };
        let of_condition = |read: &mut BTreeSet<Register>, condition: Option<&Condition>| {
            if let Some(condition) = condition {
                condition.computes.iter().for_each(|compute| of_compute(read, compute));
                read.insert(condition.passes);
            }
        };
        for step in &self.pipeline.steps[first..] {
            match step {
                Step::Compute(compute) => of_compute(&mut read, compute),
                Step::Filter(register) => read.extend([*register]),
                Step::Probe(probe) => {
                    read.extend(&probe.keys);
                    of_condition(&mut read, probe.condition.as_ref());
                }
            }
        }
        match &self.pipeline.sink {
            Sink::Build { keys, payload, .. } => read.extend(keys.iter().chain(payload)),
            Sink::Aggregate { keys, arguments, .. } => read.extend(keys.iter().chain(arguments.iter().flatten())),
            Sink::Collect { columns } => read.extend(columns),
            Sink::Mark { keys, condition, .. } => {
                read.extend(keys);
                of_condition(&mut read, condition.as_ref());
            }
        }
        read
    }
}
