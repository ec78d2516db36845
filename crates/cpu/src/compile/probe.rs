//! Looking up build sides: in bitmaps, in arrays by key, in rows chained by hash; and what becomes of the probing row.
//!
//! Matches of a table of hashed rows that is not unique are a loop around all later steps: such a step's `next` is the
//! block that looks for the next match. Payload columns are loaded where the first later step needs them.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Type, Value, types};
use cranelift_frontend::Variable;
use forebay_pipeline::ir::{Condition, Probe, ProbeKind, Register, StateId, Typed, ValueType};

use super::context::JoinWord;
use super::function::Function;
use super::lower::{Cell, Lowering, RegisterState, STEADY, offset};
use super::ops::words_of;
use crate::join::JoinLayout;
use crate::layout::{self, RowLayout, WORD};

/// Where a match lies.
#[derive(Debug, Clone, Copy)]
pub(super) enum Match {
    /// At this number in the arrays of the dense layout.
    Number(Value),
    /// At this address in the rows of the hashed layout.
    Row(Value),
}

/// A payload column of a match.
#[derive(Debug, Clone, Copy)]
pub(super) struct Payload {
    pub(super) state: StateId,
    pub(super) column: usize,
    pub(super) found: Match,
}

impl Payload {
    /// The same column of the match at this number or address.
    pub(super) fn at(self, place: Value) -> Self {
        let found = match self.found {
            Match::Number(_) => Match::Number(place),
            Match::Row(_) => Match::Row(place),
        };
        Self { found, ..self }
    }
}

/// The blocks between which a look-up runs.
struct Search {
    /// Where rows without another match go.
    none: Block,
    /// Looks at the next row of the chain, whose number is its parameter; only where a key may have several rows.
    head: Option<Block>,
}

/// A block that goes on from a row to the next one of its chain.
pub(super) struct Chain {
    again: Block,
    head: Block,
    row: Value,
}

impl Lowering<'_, '_> {
    /// One probe; goes on in the block where later steps run.
    pub(super) fn probe(&mut self, probe: &Probe) {
        self.need(&probe.keys);
        self.need_outer(probe.condition.as_ref());
        match probe.kind {
            ProbeKind::Inner => self.inner(probe),
            ProbeKind::Left => self.left(probe),
            ProbeKind::Semi => {
                let (on, next) = (self.block(), self.next);
                self.exists(probe, (on, &[]), (next, &[]));
                self.builder.switch_to_block(on);
            }
            ProbeKind::Anti => {
                let (on, next) = (self.block(), self.next);
                self.exists(probe, (next, &[]), (on, &[]));
                self.builder.switch_to_block(on);
            }
            ProbeKind::Mark(to) => {
                let on = self.block();
                let found = self.builder.append_block_param(on, types::I8);
                let [yes, no] = [1, 0].map(|value| self.builder.ins().iconst(types::I8, value));
                self.exists(probe, (on, &[yes]), (on, &[no]));
                self.builder.switch_to_block(on);
                self.hold(to, RegisterState::Ready(Cell::new(ValueType::Bool, found)));
            }
        }
    }

    /// Loads what a condition reads of the probing row.
    fn need_outer(&mut self, condition: Option<&Condition>) {
        if let Some(condition) = condition {
            for compute in &condition.computes {
                self.need(&compute.op.operands());
                self.need(compute.guard.as_slice());
            }
            self.need(&[condition.passes]);
        }
    }

    fn inner(&mut self, probe: &Probe) {
        let next = self.next;
        let (found, search) = self.search(probe.state, &probe.keys, next);
        let again = self.advance(&search, found);
        self.matched(probe.state, &probe.columns, probe.condition.as_ref(), found, again);
        self.next = again;
    }

    /// The block that looks for the next match after `found`.
    fn advance(&mut self, search: &Search, found: Match) -> Block {
        let (Some(head), Match::Row(row)) = (search.head, found) else { return search.none };
        let again = self.block();
        self.chains.push(Chain { again, head, row });
        again
    }

    /// Fills the blocks that follow chains of rows.
    pub(super) fn emit_chains(&mut self) {
        for chain in std::mem::take(&mut self.chains) {
            self.builder.switch_to_block(chain.again);
            self.stop_if_asked();
            let following = self.builder.ins().load(types::I64, STEADY, chain.row, 0);
            self.jump(chain.head, &[following]);
        }
    }

    /// Holds the payload of a match and goes on only where the condition is true, else to `fails`.
    fn matched(
        &mut self,
        state: StateId,
        columns: &[(usize, Register)],
        condition: Option<&Condition>,
        found: Match,
        fails: Block,
    ) {
        for (column, to) in columns {
            self.hold(*to, RegisterState::Payload(Payload { state, column: *column, found }));
        }
        if let Some(condition) = condition {
            for compute in &condition.computes {
                self.compute(compute);
            }
            self.need(&[condition.passes]);
            let passes = self.truth(condition.passes);
            let on = self.block();
            self.branch(passes, on, fails);
            self.builder.switch_to_block(on);
        }
    }

    /// Goes to `found` if there is a match, else to `missing`.
    fn exists(&mut self, probe: &Probe, found: (Block, &[Value]), missing: (Block, &[Value])) {
        let none = self.block();
        let (place, search) = self.search(probe.state, &probe.keys, none);
        // Without a condition the first match is enough.
        let fails = if probe.condition.is_some() { self.advance(&search, place) } else { none };
        self.matched(probe.state, &probe.columns, probe.condition.as_ref(), place, fails);
        self.jump(found.0, found.1);
        self.builder.switch_to_block(none);
        self.jump(missing.0, missing.1);
    }

    /// A left join: matches and the row without any go on from one block, which gets the payload as parameters.
    fn left(&mut self, probe: &Probe) {
        let (none, on) = (self.block(), self.block());
        let next = self.next;
        let any = self.variable(types::I8, 0);
        let chain = self.variable(types::I64, 0);
        let (found, search) = self.search(probe.state, &probe.keys, none);
        let again = self.advance(&search, found);
        self.matched(probe.state, &probe.columns, probe.condition.as_ref(), found, again);
        self.assign(any, types::I8, 1);
        if let (Some(_), Match::Row(row)) = (search.head, found) {
            let following = self.builder.ins().load(types::I64, STEADY, row, 0);
            self.builder.def_var(chain, following);
        }
        let mut arguments = Vec::new();
        let mut cells = Vec::new();
        for (_, to) in &probe.columns {
            self.need(&[*to]);
            let cell = self.cell(*to);
            let valid = cell.valid.unwrap_or_else(|| self.builder.ins().iconst(types::I8, 1));
            let cell = Cell { valid: Some(valid), ..cell };
            arguments.extend(Self::parts(&cell));
            cells.push(cell);
        }
        self.jump(on, &arguments);

        // No more match: the row goes on alone unless it had one.
        self.builder.switch_to_block(none);
        if search.head.is_some() || probe.condition.is_some() {
            let alone = self.block();
            let had = self.builder.use_var(any);
            self.branch(had, next, alone);
            self.builder.switch_to_block(alone);
        }
        self.assign(any, types::I8, 1);
        self.assign(chain, types::I64, 0);
        let mut empty = Vec::new();
        for cell in &cells {
            let null = self.null(Typed::nullable(cell.value));
            empty.extend(Self::parts(&null));
        }
        self.jump(on, &empty);

        for ((_, to), cell) in probe.columns.iter().zip(&cells) {
            let cell = self.parameters(on, cell);
            self.hold(*to, RegisterState::Ready(cell));
        }
        if let Some(head) = search.head {
            let again = self.block();
            self.builder.switch_to_block(again);
            self.stop_if_asked();
            let following = self.builder.use_var(chain);
            self.jump(head, &[following]);
            self.next = again;
        }
        self.builder.switch_to_block(on);
    }

    /// Marks the rows of a build side that match this one.
    pub(super) fn mark_rows(
        &mut self,
        state: StateId,
        keys: &[Register],
        columns: &[(usize, Register)],
        condition: Option<&Condition>,
    ) {
        self.need(keys);
        self.need_outer(condition);
        let next = self.next;
        let (found, search) = self.search(state, keys, next);
        let again = self.advance(&search, found);
        self.matched(state, columns, condition, found, again);
        if let Match::Row(row) = found {
            let words = layout::build_row(self.join_state(state)).words;
            let rows = self.join_word(state, JoinWord::Rows);
            let behind = self.builder.ins().isub(row, rows);
            let size = self.int((words * WORD) as i64);
            let number = self.builder.ins().udiv(behind, size);
            let matched = self.join_word(state, JoinWord::Matched);
            let address = self.element(matched, number, 0);
            let one = self.builder.ins().iconst(types::I8, 1);
            self.builder.ins().store(super::lower::MUTABLE, one, address, 0);
        }
        self.next = again;
    }

    /// Looks a key up: goes on in a block for each match and in `none` where there is none or no more.
    fn search(&mut self, state: StateId, keys: &[Register], none: Block) -> (Match, Search) {
        let cells: Vec<Cell> = keys.iter().map(|key| self.cell(*key)).collect();
        let layouts = self.layouts;
        match layouts.join(state) {
            JoinLayout::Set | JoinLayout::Dense { .. } => {
                self.drop_nulls(&cells, none);
                let number = self.search_bits(state, &cells[0], none);
                (Match::Number(number), Search { none, head: None })
            }
            JoinLayout::Hash { unique } => {
                let (row, head) = self.search_rows(state, &cells, none);
                (Match::Row(row), Search { none, head: (!unique).then_some(head) })
            }
        }
    }

    /// NULL keys match nothing.
    fn drop_nulls(&mut self, keys: &[Cell], none: Block) {
        for valid in keys.iter().filter_map(|key| key.valid) {
            let on = self.block();
            self.branch(valid, on, none);
            self.builder.switch_to_block(on);
        }
    }

    /// The number of a key in a bitmap that has it.
    fn search_bits(&mut self, state: StateId, key: &Cell, none: Block) -> Value {
        let (near, found) = (self.block(), self.block());
        let low = self.join_word(state, JoinWord::Low);
        let number = self.builder.ins().isub(key.low, low);
        let span = self.join_word(state, JoinWord::Span);
        let within = self.builder.ins().icmp(IntCC::UnsignedLessThan, number, span);
        self.branch(within, near, none);
        self.builder.switch_to_block(near);
        let bits = self.join_word(state, JoinWord::Bits);
        let word = self.builder.ins().ushr_imm_u(number, 6);
        let address = self.element(bits, word, 3);
        let word = self.builder.ins().load(types::I64, STEADY, address, 0);
        let one = self.int(1);
        let mask = self.builder.ins().ishl(one, number);
        let bit = self.builder.ins().band(word, mask);
        self.branch(bit, found, none);
        self.builder.switch_to_block(found);
        number
    }

    /// The address of a row with this key, and the block that looks at the rows of a chain.
    fn search_rows(&mut self, state: StateId, keys: &[Cell], none: Block) -> (Value, Block) {
        let row_layout = layout::build_row(self.join_state(state));
        let (tagged, head, present, found) = (self.block(), self.block(), self.block(), self.block());
        // What the loop over rows reads is made before the first way to `none`, from which a left join may come back to it.
        let hash = match self.hashed.take() {
            Some(hashes) => self.load_staged(hashes, types::I64),
            None => self.hash(keys),
        };
        self.drop_nulls(keys, none);
        let directory = self.join_word(state, JoinWord::Directory);
        let shift = self.join_word(state, JoinWord::Shift);
        let slot = self.builder.ins().ushr(hash, shift);
        let address = self.element(directory, slot, 3);
        let slot = self.builder.ins().load(types::I64, STEADY, address, 0);
        let tag = self.tagged(hash, slot);
        self.branch(tag, tagged, none);
        self.builder.switch_to_block(tagged);
        let first = self.row_number(slot);
        self.jump(head, &[first]);

        let number = self.builder.append_block_param(head, types::I64);
        self.builder.switch_to_block(head);
        self.branch(number, present, none);
        self.builder.switch_to_block(present);
        let rows = self.join_word(state, JoinWord::Rows);
        let row = self.row_address(rows, number, row_layout.words);
        let other = self.block();
        self.compare_hash(row, hash, keys, other);
        self.compare_key(row, keys, &row_layout, other);
        self.jump(found, &[]);
        self.builder.switch_to_block(other);
        self.stop_if_asked();
        let following = self.builder.ins().load(types::I64, STEADY, row, 0);
        self.jump(head, &[following]);
        self.builder.switch_to_block(found);
        (row, head)
    }

    /// Rows whose hash differs go to `other`; fixed-size keys are compared themselves.
    fn compare_hash(&mut self, row: Value, hash: Value, keys: &[Cell], other: Block) {
        if keys.iter().any(|key| key.value == ValueType::Bytes) {
            let kept = self.builder.ins().load(types::I64, STEADY, row, offset(1));
            self.unless_equal(kept, hash, other);
        }
    }

    /// Goes on only where both are equal.
    pub(super) fn unless_equal(&mut self, a: Value, b: Value, other: Block) {
        let equal = self.builder.ins().icmp(IntCC::Equal, a, b);
        let on = self.block();
        self.branch(equal, on, other);
        self.builder.switch_to_block(on);
    }

    /// Rows whose key differs go to `other`; those with NULL in it hang on no chain. What is quick to compare comes first.
    fn compare_key(&mut self, row: Value, keys: &[Cell], row_layout: &RowLayout, other: Block) {
        let places = || keys.iter().zip(&row_layout.places);
        for (key, place) in places() {
            let words = self.row_words(key);
            let compared = if key.value == ValueType::Bytes { &words[1..] } else { &words[..] };
            let skipped = words.len() - compared.len();
            for (number, word) in compared.iter().enumerate() {
                let at = offset(place.word + skipped + number);
                let kept = self.builder.ins().load(types::I64, STEADY, row, at);
                self.unless_equal(kept, *word, other);
            }
        }
        for (key, place) in places().filter(|(key, _)| key.value == ValueType::Bytes) {
            let (address, length) = words_of(key);
            let kept = self.builder.ins().load(types::I64, STEADY, row, offset(place.word));
            let same = self.call(Function::EqualBytes, &[kept, address, length])[0];
            let on = self.block();
            self.branch(same, on, other);
            self.builder.switch_to_block(on);
        }
    }

    pub(super) fn join_word(&mut self, state: StateId, word: JoinWord) -> Value {
        let word = self.layout.join(state, word);
        self.load_invariant(word)
    }

    /// A variable with a first value.
    pub(super) fn variable(&mut self, type_: Type, value: i64) -> Variable {
        let variable = self.builder.declare_var(type_);
        self.assign(variable, type_, value);
        variable
    }

    fn assign(&mut self, variable: Variable, type_: Type, value: i64) {
        let value = self.builder.ins().iconst(type_, value);
        self.builder.def_var(variable, value);
    }
}
