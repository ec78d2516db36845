//! Loading ahead: what the keys of a chunk of rows lead to, by their hashes or as numbers of slots, is brought into the caches by
//! loops that do nothing else.

use std::collections::BTreeSet;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use forebay_pipeline::ir::{Register, Sink, StateId, Step, ValueType};

use super::context::{GROUP_DIRECTORY, GROUP_ROWS, GROUP_SHIFT, GROUP_TOUCHED, JoinWord, RESULT};
use super::lower::{Cell, Lowering, MUTABLE, offset};
use super::stages::{CHUNK, Input, StageColumn};
use crate::layout::{self, GroupRow, WORD};

/// A directory with at least 2^64 / 2^this slots does not fit the second-level cache, so that its rows are loaded ahead.
const LARGE_SHIFT: i64 = 48;

/// Whose rows are loaded ahead.
#[derive(Clone, Copy)]
pub(super) enum Ahead {
    /// Those that this step probes.
    Probe(usize),
    /// The groups that the sink fills.
    Groups,
}

/// Where the rows lie that a hash leads to.
struct RowsAhead {
    /// The slots of their directory have tags.
    is_tagged: bool,
    directory: Value,
    shift: Value,
    memory: Value,
    words: usize,
    /// [`Lowering::key_text`].
    text: Option<usize>,
    /// The address of [`CHUNK`] words of this pipeline's own.
    near: Value,
}

impl Lowering<'_, '_> {
    /// Loads what all rows lead to, where that is far away. Gives a column of the rows' hashes where they lead by them.
    pub(super) fn load_ahead(&mut self, ahead: Ahead, input: &Input) -> Option<StageColumn> {
        if matches!(ahead, Ahead::Groups) && self.layouts.groups().is_dense() {
            self.load_slots_ahead(input);
            return None;
        }
        Some(self.load_hashed_ahead(ahead, input))
    }

    /// Loads the slots of dense groups that the rows add to.
    fn load_slots_ahead(&mut self, input: &Input) {
        let slots = self.each_ahead(Ahead::Groups, input, |lowering, keys| {
            let (slot, outside) = lowering.dense_slot(keys);
            let first = lowering.int(0);
            lowering.builder.ins().select(outside, first, slot)
        });
        let row = self.group_row();
        let bytes = (row.words - row.key.words) * WORD;
        for (word, bytes) in [(GROUP_ROWS, bytes), (GROUP_TOUCHED, 1)].into_iter().filter(|(_, bytes)| *bytes > 0) {
            let first = self.load_mutable(word);
            self.touch(input.count, slots, bytes - 1, |lowering, slot| {
                let behind = lowering.builder.ins().imul_imm_s(slot, bytes as i64);
                lowering.builder.ins().iadd(first, behind)
            });
        }
    }

    /// Keeps a word made of each row's key in a column.
    fn each_ahead(
        &mut self,
        ahead: Ahead,
        input: &Input,
        word: impl FnOnce(&mut Self, &[Cell]) -> Value,
    ) -> StageColumn {
        let column = self.stage_column();
        let before = self.registers.clone();
        let rows = self.begin_rows(input);
        let keys = self.keys_ahead(ahead);
        self.need(&keys);
        let cells: Vec<Cell> = keys.iter().map(|key| self.cell(*key)).collect();
        let word = word(self, &cells);
        self.keep_word(column, rows.position, word);
        self.jump(rows.advance, &[]);
        self.end_loop(&rows);
        self.registers = before;
        column
    }

    /// Computes the hashes of all rows into a column, and loads what they lead to where that is far away.
    fn load_hashed_ahead(&mut self, ahead: Ahead, input: &Input) -> StageColumn {
        let hashes = self.each_ahead(ahead, input, Self::hash);
        let (large, done) = (self.block(), self.block());
        let (directory, shift) = self.directory_ahead(ahead);
        let is_large = self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, shift, LARGE_SHIFT);
        self.branch(is_large, large, done);
        self.builder.switch_to_block(large);
        self.touch(input.count, hashes, 0, |lowering, hash| {
            let slot = lowering.builder.ins().ushr(hash, shift);
            lowering.element(directory, slot, 3)
        });
        let rows = self.rows_ahead(ahead, hashes, (directory, shift));
        self.touch(input.count, hashes, (rows.words - 1).min(CHUNK - 1) * WORD, |lowering, hash| {
            lowering.row_ahead(&rows, hash).1
        });
        if let Some(text) = rows.text {
            self.touch(input.count, hashes, 0, |lowering, hash| {
                let (likely, row) = lowering.row_ahead(&rows, hash);
                let address = lowering.builder.ins().load(types::I64, MUTABLE, row, offset(text));
                let length = lowering.builder.ins().load(types::I64, MUTABLE, row, offset(text + 1));
                // An empty text lies nowhere.
                let address = lowering.builder.ins().select(length, address, rows.near);
                lowering.builder.ins().select(likely, address, rows.near)
            });
        }
        self.jump(done, &[]);
        self.builder.switch_to_block(done);
        hashes
    }

    fn rows_ahead(&mut self, ahead: Ahead, hashes: StageColumn, (directory, shift): (Value, Value)) -> RowsAhead {
        let (memory, words) = match ahead {
            Ahead::Probe(step) => {
                let state = self.probed(step);
                (self.join_word(state, JoinWord::Rows), layout::build_row(self.join_state(state)).words)
            }
            Ahead::Groups => (self.load_mutable(GROUP_ROWS), self.group_row().words),
        };
        let text = self.key_text(ahead);
        let zero = self.int(0);
        let near = self.staged_address(hashes, zero);
        RowsAhead { is_tagged: matches!(ahead, Ahead::Probe(_)), directory, shift, memory, words, text, near }
    }

    /// The word of the first text of the key of the rows that hashes lead to: its address; its length follows.
    pub(super) fn key_text(&self, ahead: Ahead) -> Option<usize> {
        let key = match ahead {
            Ahead::Probe(step) => {
                let join = self.join_state(self.probed(step));
                layout::build_row(join).places.into_iter().take(join.keys.len()).collect()
            }
            Ahead::Groups => self.group_row().key.places,
        };
        let text = key.iter().find(|place| place.typed.value == ValueType::Bytes).map(|place| place.word);
        text.filter(|word| word + 1 < CHUNK)
    }

    /// Whether a hash may lead to a row, and the row's address; without one the address of bytes that are there for certain.
    fn row_ahead(&mut self, rows: &RowsAhead, hash: Value) -> (Value, Value) {
        let slot = self.builder.ins().ushr(hash, rows.shift);
        let address = self.element(rows.directory, slot, 3);
        let slot = self.builder.ins().load(types::I64, MUTABLE, address, 0);
        let likely = if rows.is_tagged { self.tagged(hash, slot) } else { slot };
        let number = self.row_number(slot);
        let row = self.row_address(rows.memory, number, rows.words);
        (likely, self.builder.ins().select(likely, row, rows.near))
    }

    /// Loads the first and the `last` byte at an address for each row's word. The loop does nothing else, so that many loads
    /// are under way at once.
    fn touch(&mut self, count: Value, kept: StageColumn, last: usize, address: impl Fn(&mut Self, Value) -> Value) {
        let touched = self.variable(types::I64, 0);
        let zero = self.int(0);
        let first = self.staged_address(kept, zero);
        let rows = self.begin_loop(count);
        let word = self.element(first, rows.position, 3);
        let word = self.builder.ins().load(types::I64, MUTABLE, word, 0);
        let address = address(self, word);
        let mut all = self.builder.use_var(touched);
        for byte in BTreeSet::from([0, last]) {
            let byte = self.builder.ins().uload8(types::I64, MUTABLE, address, byte as i32);
            all = self.builder.ins().bxor(all, byte);
        }
        self.builder.def_var(touched, all);
        self.jump(rows.advance, &[]);
        self.end_loop(&rows);
        // Something must come of the loads, or they would not be done.
        let all = self.builder.use_var(touched);
        self.set(RESULT, all);
    }

    fn keys_ahead(&self, ahead: Ahead) -> Vec<Register> {
        match (ahead, &self.pipeline.sink) {
            (Ahead::Probe(step), _) => match &self.pipeline.steps[step] {
                Step::Probe(probe) => probe.keys.clone(),
                Step::Compute(_) | Step::Filter(_) => unreachable!("a stage was cut before a probe"),
            },
            (Ahead::Groups, Sink::Aggregate { keys, .. }) => keys.clone(),
            (Ahead::Groups, _) => unreachable!("a stage was cut before groups"),
        }
    }

    fn directory_ahead(&mut self, ahead: Ahead) -> (Value, Value) {
        match ahead {
            Ahead::Probe(step) => {
                let state = self.probed(step);
                (self.join_word(state, JoinWord::Directory), self.join_word(state, JoinWord::Shift))
            }
            Ahead::Groups => (self.load_mutable(GROUP_DIRECTORY), self.load_mutable(GROUP_SHIFT)),
        }
    }

    fn probed(&self, step: usize) -> StateId {
        match &self.pipeline.steps[step] {
            Step::Probe(probe) => probe.state,
            Step::Compute(_) | Step::Filter(_) => unreachable!("a stage was cut before a probe"),
        }
    }

    fn group_row(&self) -> GroupRow {
        match &self.pipeline.sink {
            Sink::Aggregate { state, .. } => GroupRow::new(self.aggregate_state(*state)),
            _ => unreachable!("a stage was cut before groups"),
        }
    }
}
