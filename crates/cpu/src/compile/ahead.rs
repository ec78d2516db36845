//! Loading ahead: what the hashes of a chunk of rows lead to is brought into the caches by loops that do nothing else.

use std::collections::BTreeSet;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use forebay_pipeline::ir::{Register, Sink, StateId, Step};

use super::context::{GROUP_DIRECTORY, GROUP_ROWS, GROUP_SHIFT, JoinWord, RESULT};
use super::lower::{Cell, Lowering, MUTABLE, offset};
use super::stages::{CHUNK, Input, StageColumn};
use crate::layout::{self, GroupRow};

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

impl Lowering<'_, '_> {
    /// Computes the hashes of all rows into a column, and loads what they lead to where that is far away.
    pub(super) fn load_ahead(&mut self, ahead: Ahead, input: &Input) -> StageColumn {
        let hashes = self.stage_column();
        let before = self.registers.clone();
        let rows = self.begin_rows(input);
        let keys = self.keys_ahead(ahead);
        self.need(&keys);
        let cells: Vec<Cell> = keys.iter().map(|key| self.cell(*key)).collect();
        let hash = self.hash(&cells);
        self.keep_word(hashes, rows.position, hash);
        self.jump(rows.advance, &[]);
        self.end_loop(&rows);
        self.registers = before;

        let (large, done) = (self.block(), self.block());
        let (directory, shift) = self.directory_ahead(ahead);
        let is_large = self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThanOrEqual, shift, LARGE_SHIFT);
        self.branch(is_large, large, done);
        self.builder.switch_to_block(large);
        self.touch(input.count, hashes, 1, |lowering, hash| {
            let slot = lowering.builder.ins().ushr(hash, shift);
            lowering.element(directory, slot, 3)
        });
        let (memory, words) = match ahead {
            Ahead::Probe(step) => {
                let state = self.probed(step);
                (self.join_word(state, JoinWord::Rows), layout::build_row(self.join_state(state)).words)
            }
            Ahead::Groups => (self.load_mutable(GROUP_ROWS), self.group_row().words),
        };
        let zero = self.int(0);
        let hashes_at = self.staged_address(hashes, zero);
        self.touch(input.count, hashes, words, |lowering, hash| {
            let slot = lowering.builder.ins().ushr(hash, shift);
            let address = lowering.element(directory, slot, 3);
            let slot = lowering.builder.ins().load(types::I64, MUTABLE, address, 0);
            let likely = match ahead {
                Ahead::Probe(_) => lowering.tagged(hash, slot),
                Ahead::Groups => slot,
            };
            let number = lowering.row_number(slot);
            let row = lowering.row_address(memory, number, words);
            // Where there is no row, words that are there for certain.
            lowering.builder.ins().select(likely, row, hashes_at)
        });
        self.jump(done, &[]);
        self.builder.switch_to_block(done);
        hashes
    }

    /// Loads the first and the last of some words for each hash. The loop does nothing else, so that many loads are under
    /// way at once.
    fn touch(&mut self, count: Value, hashes: StageColumn, words: usize, address: impl Fn(&mut Self, Value) -> Value) {
        let touched = self.variable(types::I64, 0);
        let zero = self.int(0);
        let first = self.staged_address(hashes, zero);
        let rows = self.begin_loop(count);
        let hash = self.element(first, rows.position, 3);
        let hash = self.builder.ins().load(types::I64, MUTABLE, hash, 0);
        let address = address(self, hash);
        let mut all = self.builder.use_var(touched);
        for word in BTreeSet::from([0, (words - 1).min(CHUNK - 1)]) {
            let word = self.builder.ins().load(types::I64, MUTABLE, address, offset(word));
            all = self.builder.ins().bxor(all, word);
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
