//! Where rows end: appended to a build side or a result, or added to the accumulators of their group.
//!
//! The accumulators of the one group without keys are variables of the function, stored when it ends; all others are words
//! of the group's row, which is found by the key's numbers or in a directory.

use std::collections::BTreeMap;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use cranelift_frontend::Variable;
use forebay_pipeline::Fault;
use forebay_pipeline::ir::{AggregateFunction, Comparison, Register, Sink, StateId, ValueType};

use super::collected;
use super::context::{CURSOR, GROUP_ROWS, LIMIT};
use super::function::Function;
use super::lower::{Cell, Lowering, MUTABLE, offset, word_type};
use super::ops::words_of;
use crate::groups::GroupLayout;
use crate::layout::{self, Accumulator, GroupRow, RowLayout, WORD};

/// The variables of the group without keys, by the word that they stand for; none for other sinks.
pub(super) struct Accumulators(BTreeMap<usize, (Variable, Type)>);

/// Where the accumulators of a row's group are.
pub(super) enum AccumulatorPlace<'a> {
    /// In variables.
    Variables(&'a Accumulators),
    /// In the row at this address, whose first word is this one of the layout.
    Row(Value, usize),
    /// In the new row at this address: all of its words are still to be written, and count as 0.
    NewRow(Value),
}

impl Lowering<'_, '_> {
    /// What is done before the first row.
    pub(super) fn begin_sink(&mut self) -> Accumulators {
        let mut variables = BTreeMap::new();
        if let Sink::Aggregate { state, keys, .. } = &self.pipeline.sink
            && keys.is_empty()
        {
            let group_row = GroupRow::new(self.aggregate_state(*state));
            let row = self.load_mutable(GROUP_ROWS);
            let words = group_row.accumulators.iter().flat_map(|accumulator| {
                let high = (layout::words(accumulator.value) == 2).then_some((accumulator.word + 1, types::I64));
                let seen = accumulator.seen.map(|word| (word, types::I64));
                [Some((accumulator.word, word_type(accumulator.value))), high, seen]
            });
            for (word, type_) in words.flatten().collect::<Vec<_>>() {
                let variable = self.builder.declare_var(type_);
                let value = self.builder.ins().load(type_, MUTABLE, row, offset(word - group_row.key.words));
                self.builder.def_var(variable, value);
                variables.insert(word, (variable, type_));
            }
        }
        Accumulators(variables)
    }

    /// What is done after the last row.
    pub(super) fn end_sink(&mut self, accumulators: &Accumulators) {
        if let (Sink::Aggregate { state, .. }, false) = (&self.pipeline.sink, accumulators.0.is_empty()) {
            let first = GroupRow::new(self.aggregate_state(*state)).key.words;
            let row = self.load_mutable(GROUP_ROWS);
            for (word, (variable, _)) in &accumulators.0 {
                let value = self.builder.use_var(*variable);
                self.write(&AccumulatorPlace::Row(row, first), *word, value);
            }
        }
    }

    /// Appends a row to a build side.
    pub(super) fn build_row(&mut self, state: StateId, keys: &[Register], payload: &[Register]) {
        self.need(keys);
        let join = self.join_state(state);
        let next = self.next;
        let key_cells: Vec<Cell> = keys.iter().map(|key| self.cell(*key)).collect();
        if !join.keeps_all {
            for valid in key_cells.iter().filter_map(|cell| cell.valid) {
                let on = self.block();
                self.branch(valid, on, next);
                self.builder.switch_to_block(on);
            }
        }
        self.need(payload);
        let cells: Vec<Cell> = keys.iter().chain(payload).map(|register| self.cell(*register)).collect();
        let hash = self.hash(&key_cells);
        let row_layout = layout::build_row(join);
        let row = self.append(row_layout.words);
        let none = self.int(0);
        self.builder.ins().store(MUTABLE, none, row, 0);
        self.builder.ins().store(MUTABLE, hash, row, offset(1));
        self.write_values(row, &row_layout, &cells);
    }

    /// Appends a row to the result.
    pub(super) fn collect(&mut self, columns: &[Register]) {
        self.need(columns);
        let cells: Vec<Cell> = columns.iter().map(|register| self.cell(*register)).collect();
        let row_layout = collected(self.program, self.pipeline);
        let row = self.append(row_layout.words);
        self.write_values(row, &row_layout, &cells);
    }

    /// The address of a new row.
    fn append(&mut self, words: usize) -> Value {
        let bytes = (words.max(1) * WORD) as i64;
        let (full, room) = (self.block(), self.block());
        let row = self.builder.append_block_param(room, types::I64);
        let cursor = self.load_mutable(CURSOR);
        let end = self.builder.ins().iadd_imm_s(cursor, bytes);
        let limit = self.load_mutable(LIMIT);
        let beyond = self.builder.ins().icmp(IntCC::UnsignedGreaterThan, end, limit);
        self.branch_with(beyond, full, &[], room, &[cursor]);
        self.builder.switch_to_block(full);
        self.builder.set_cold_block(full);
        self.call(Function::Grow, &[self.context]);
        let cursor = self.load_mutable(CURSOR);
        self.jump(room, &[cursor]);
        self.builder.switch_to_block(room);
        let end = self.builder.ins().iadd_imm_s(row, bytes);
        self.set(CURSOR, end);
        row
    }

    /// Writes the values of a row, and which of them are valid.
    fn write_values(&mut self, row: Value, row_layout: &RowLayout, cells: &[Cell]) {
        for (word, value) in self.key_words(row_layout, cells) {
            self.builder.ins().store(MUTABLE, value, row, offset(word));
        }
        for (place, cell) in row_layout.places.iter().zip(cells) {
            if cell.value == ValueType::Bytes {
                let kept = self.keep_text(cell);
                self.builder.ins().store(MUTABLE, kept, row, offset(place.word));
            }
        }
    }

    /// The address of a copy of bytes in the sink's own memory; 0 for NULL.
    pub(super) fn keep_text(&mut self, cell: &Cell) -> Value {
        let (address, length) = words_of(cell);
        let kept = self.call(Function::KeepBytes, &[self.context, address, length])[0];
        self.zero_unless(cell.valid, kept)
    }

    /// The word where it is valid, else 0.
    pub(super) fn zero_unless(&mut self, valid: Option<Value>, word: Value) -> Value {
        let Some(valid) = valid else { return word };
        let zero = self.int(0);
        self.builder.ins().select(valid, word, zero)
    }

    /// The validity word and the values' words of a row, without the addresses of bytes.
    pub(super) fn key_words(&mut self, row_layout: &RowLayout, cells: &[Cell]) -> Vec<(usize, Value)> {
        let mut words = Vec::new();
        if let Some(word) = row_layout.validity {
            let mut always = 0i64;
            let mut bits = Vec::new();
            for (place, cell) in row_layout.places.iter().zip(cells) {
                match (place.bit, cell.valid) {
                    (Some(bit), Some(valid)) => bits.push((bit, valid)),
                    (Some(bit), None) => always |= 1 << bit,
                    (None, _) => {}
                }
            }
            let mut validity = self.int(always);
            for (bit, valid) in bits {
                let wide = self.builder.ins().uextend(types::I64, valid);
                let placed = self.builder.ins().ishl_imm_u(wide, i64::from(bit));
                validity = self.builder.ins().bor(validity, placed);
            }
            words.push((word, validity));
        }
        for (place, cell) in row_layout.places.iter().zip(cells) {
            let bytes = cell.value == ValueType::Bytes;
            for (number, word) in self.row_words(cell).into_iter().enumerate() {
                if !bytes || number > 0 {
                    words.push((place.word + number, self.zero_unless(cell.valid, word)));
                }
            }
        }
        words
    }

    /// Adds a row to its group.
    pub(super) fn aggregate(
        &mut self,
        state: StateId,
        keys: &[Register],
        arguments: &[Option<Register>],
        variables: &Accumulators,
    ) {
        self.need(keys);
        for argument in arguments {
            self.need(argument.as_slice());
        }
        let group_row = GroupRow::new(self.aggregate_state(state));
        let cells: Vec<Cell> = keys.iter().map(|key| self.cell(*key)).collect();
        let home = match self.layouts.groups() {
            _ if keys.is_empty() => AccumulatorPlace::Variables(variables),
            GroupLayout::Dense { .. } => self.dense_group(&cells, &group_row),
            GroupLayout::Hash => self.hashed_group(&cells, &group_row),
            GroupLayout::Partitioned => self.partitioned_row(&cells, &group_row),
        };
        for (accumulator, argument) in group_row.accumulators.iter().zip(arguments) {
            let argument = argument.map(|register| self.cell(register));
            self.accumulate(accumulator, argument.as_ref(), &home);
        }
    }

    /// Reads a word of the accumulators.
    fn read(&mut self, home: &AccumulatorPlace<'_>, word: usize, type_: Type) -> Value {
        match home {
            AccumulatorPlace::Variables(variables) => self.builder.use_var(variables.0[&word].0),
            AccumulatorPlace::Row(row, first) => self.builder.ins().load(type_, MUTABLE, *row, offset(word - first)),
            AccumulatorPlace::NewRow(_) if type_ == types::F64 => self.builder.ins().f64const(0.0),
            AccumulatorPlace::NewRow(_) => self.builder.ins().iconst(type_, 0),
        }
    }

    /// Writes a word of the accumulators.
    fn write(&mut self, home: &AccumulatorPlace<'_>, word: usize, value: Value) {
        match home {
            AccumulatorPlace::Variables(variables) => self.builder.def_var(variables.0[&word].0, value),
            AccumulatorPlace::Row(row, first) => {
                let bool = self.builder.func.dfg.value_type(value) == types::I8;
                let value = if bool { self.builder.ins().uextend(types::I64, value) } else { value };
                self.builder.ins().store(MUTABLE, value, *row, offset(word - first));
            }
            AccumulatorPlace::NewRow(row) => self.write(&AccumulatorPlace::Row(*row, 0), word, value),
        }
    }

    /// Adds an argument to an accumulator.
    fn accumulate(&mut self, accumulator: &Accumulator, argument: Option<&Cell>, home: &AccumulatorPlace<'_>) {
        match (accumulator.aggregate.function, argument) {
            (AggregateFunction::CountRows, _) | (AggregateFunction::Count, None) => {
                let one = self.int(1);
                let rows = self.multiplied(one);
                self.add_count(accumulator, rows, home);
            }
            (AggregateFunction::Count, Some(argument)) => {
                let one = match argument.valid {
                    Some(valid) => self.builder.ins().uextend(types::I64, valid),
                    None => self.int(1),
                };
                let rows = self.multiplied(one);
                self.add_count(accumulator, rows, home);
            }
            (AggregateFunction::Sum | AggregateFunction::SumWide | AggregateFunction::SumFitting, Some(argument)) => {
                self.add(accumulator, argument, home);
            }
            (function, Some(argument)) => self.choose(function, accumulator, argument, home),
            (function, None) => unreachable!("verified: {function:?} has an argument"),
        }
    }

    fn add_count(&mut self, accumulator: &Accumulator, addend: Value, home: &AccumulatorPlace<'_>) {
        let count = self.read(home, accumulator.word, types::I64);
        let count = self.builder.ins().iadd(count, addend);
        self.write(home, accumulator.word, count);
    }

    /// Notes that an accumulator has seen an argument.
    fn note_seen(&mut self, accumulator: &Accumulator, valid: Option<Value>, home: &AccumulatorPlace<'_>) {
        let Some(word) = accumulator.seen else { return };
        let seen = match valid {
            Some(valid) => {
                let before = self.read(home, word, types::I64);
                let valid = self.builder.ins().uextend(types::I64, valid);
                self.builder.ins().bor(before, valid)
            }
            None => self.int(1),
        };
        self.write(home, word, seen);
    }

    fn add(&mut self, accumulator: &Accumulator, argument: &Cell, home: &AccumulatorPlace<'_>) {
        self.note_seen(accumulator, argument.valid, home);
        let word = accumulator.word;
        match accumulator.value {
            ValueType::F64 => {
                let zero = self.builder.ins().f64const(0.0);
                let addend =
                    argument.valid.map_or(argument.low, |valid| self.builder.ins().select(valid, argument.low, zero));
                let sum = self.read(home, word, types::F64);
                let sum = self.builder.ins().fadd(sum, addend);
                self.write(home, word, sum);
            }
            ValueType::I64 => {
                let addend = self.zero_unless(argument.valid, argument.low);
                let addend = self.multiplied(addend);
                self.add_count(accumulator, addend, home);
            }
            _ => {
                let low = self.zero_unless(argument.valid, argument.low);
                let (low, high) = match argument.high {
                    Some(high) => (low, self.zero_unless(argument.valid, high)),
                    None => self.multiplied_wide(low),
                };
                let addend = self.builder.ins().iconcat(low, high);
                let before = (self.read(home, word, types::I64), self.read(home, word + 1, types::I64));
                let before = self.builder.ins().iconcat(before.0, before.1);
                let sum = if argument.bits > 64 {
                    let (sum, overflow) = self.builder.ins().sadd_overflow(before, addend);
                    self.fault_if(overflow, Fault::Overflow.code());
                    sum
                } else {
                    // No table has the rows that it takes for 64-bit integers to leave 128 bits.
                    self.builder.ins().iadd(before, addend)
                };
                let (low, high) = self.builder.ins().isplit(sum);
                self.write(home, word, low);
                self.write(home, word + 1, high);
            }
        }
    }

    /// Keeps the least, greatest or first argument.
    fn choose(
        &mut self,
        function: AggregateFunction,
        accumulator: &Accumulator,
        argument: &Cell,
        home: &AccumulatorPlace<'_>,
    ) {
        let seen_word = accumulator.seen.expect("an accumulator that starts from its first argument knows it");
        let seen = self.read(home, seen_word, types::I64);
        let unseen = self.builder.ins().icmp_imm_u(IntCC::Equal, seen, 0);
        let type_ = word_type(accumulator.value);
        let low = self.read(home, accumulator.word, type_);
        let high = (layout::words(accumulator.value) == 2).then(|| self.read(home, accumulator.word + 1, types::I64));
        let kept = Cell { high, ..Cell::new(accumulator.value, low) };
        let comparison = match function {
            AggregateFunction::Min => Some(Comparison::Less),
            AggregateFunction::Max => Some(Comparison::Greater),
            _ => None,
        };
        let mut better = unseen;
        if let Some(comparison) = comparison {
            let beyond = self.compare(comparison, argument, &kept);
            better = self.builder.ins().bor(unseen, beyond);
        }
        if let Some(valid) = argument.valid {
            better = self.builder.ins().band(better, valid);
        }
        self.note_seen(accumulator, argument.valid, home);
        if accumulator.value == ValueType::Bytes {
            return self.replace_text(accumulator, argument, &kept, better, home);
        }
        let chosen = self.select(better, &Cell { valid: None, ..*argument }, &kept);
        self.write(home, accumulator.word, chosen.low);
        if let Some(high) = chosen.high {
            self.write(home, accumulator.word + 1, high);
        }
    }

    /// Keeps a copy of bytes where they are better than those kept before.
    fn replace_text(
        &mut self,
        accumulator: &Accumulator,
        argument: &Cell,
        kept: &Cell,
        better: Value,
        home: &AccumulatorPlace<'_>,
    ) {
        let (replace, done) = (self.block(), self.block());
        self.branch(better, replace, done);
        self.builder.switch_to_block(replace);
        let (address, length) = words_of(argument);
        let (old, old_length) = words_of(kept);
        let copy = self.call(Function::ReplaceBytes, &[self.context, old, old_length, address, length])[0];
        self.write(home, accumulator.word, copy);
        self.write(home, accumulator.word + 1, length);
        self.jump(done, &[]);
        self.builder.switch_to_block(done);
    }
}
