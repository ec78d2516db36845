//! Rows of states in registers: their words, hashes and addresses (`layout.rs`), and the values of a match.

use cranelift_codegen::ir::{InstBuilder, Type, Value, types};
use forebay_pipeline::ir::{Typed, ValueType};

use super::function::Function;
use super::lower::{Cell, Lowering, STEADY, offset, word_type};
use super::probe::{Match, Payload};
use crate::join::{DenseColumn, JoinLayout};
use crate::layout::{self, Place, SLOT_ROW_BITS, WORD};

impl Lowering<'_, '_> {
    /// The words of a value that is not NULL, as rows hold it.
    pub(super) fn row_words(&mut self, cell: &Cell) -> Vec<Value> {
        let low = match cell.value {
            ValueType::Bool => self.builder.ins().uextend(types::I64, cell.low),
            ValueType::F64 => self.canonical_bits(cell.low),
            _ => cell.low,
        };
        [Some(low), cell.high].into_iter().flatten().collect()
    }

    /// The hash of a key (layout.rs).
    pub(super) fn hash(&mut self, keys: &[Cell]) -> Value {
        let mut hash = self.int(layout::HASH_SEED as i64);
        for key in keys {
            let mut words = self.row_words(key);
            if key.value == ValueType::Bytes {
                words = self.call(Function::HashBytes, &words);
            }
            let mut step = |lowering: &mut Self, word| {
                let mixed = lowering.builder.ins().bxor(hash, word);
                let mixed = lowering.builder.ins().imul_imm_s(mixed, layout::HASH_FACTOR as i64);
                let folded = lowering.builder.ins().ushr_imm_u(mixed, 32);
                hash = lowering.builder.ins().bxor(mixed, folded);
                hash
            };
            let Some(valid) = key.valid else {
                for word in words {
                    step(self, word);
                }
                continue;
            };
            // NULL gives one word, 0.
            let zero = self.int(0);
            let first = self.builder.ins().select(valid, words[0], zero);
            let mut whole = step(self, first);
            let null = whole;
            for word in &words[1..] {
                whole = step(self, *word);
            }
            if words.len() > 1 {
                hash = self.builder.ins().select(valid, whole, null);
            }
        }
        self.builder.ins().imul_imm_s(hash, layout::HASH_FACTOR as i64)
    }

    /// Not 0 where some row on the slot may have this hash: the slot's tag bits tell most keys that are not there without
    /// a look at their rows.
    pub(super) fn tagged(&mut self, hash: Value, slot: Value) -> Value {
        let chosen = self.builder.ins().ushr_imm_u(hash, 28);
        let chosen = self.builder.ins().band_imm_u(chosen, 15);
        let tags = self.builder.ins().ushr_imm_u(slot, i64::from(SLOT_ROW_BITS));
        let one = self.int(1);
        let mask = self.builder.ins().ishl(one, chosen);
        self.builder.ins().band(tags, mask)
    }

    /// The number of the row that a slot names, plus one.
    pub(super) fn row_number(&mut self, slot: Value) -> Value {
        self.builder.ins().band_imm_s(slot, (1 << SLOT_ROW_BITS) - 1)
    }

    /// The address of the row with this number, counted from 1.
    pub(super) fn row_address(&mut self, rows: Value, number: Value, words: usize) -> Value {
        let before = self.builder.ins().iadd_imm_s(number, -1);
        let behind = self.builder.ins().imul_imm_s(before, (words * WORD) as i64);
        self.builder.ins().iadd(rows, behind)
    }

    /// Loads a payload column of a match.
    pub(super) fn load_payload(&mut self, payload: &Payload) -> Cell {
        let join = self.join_state(payload.state);
        let mut cell = match payload.found {
            Match::Row(row) => {
                let row_layout = layout::build_row(join);
                let place = row_layout.places[join.keys.len() + payload.column];
                self.load_place(row, &place, row_layout.validity)
            }
            Match::Number(number) => {
                let layouts = self.layouts;
                let JoinLayout::Dense { payload: columns } = layouts.join(payload.state) else {
                    unreachable!("a set of keys has no payload")
                };
                let typed = join.payload[payload.column];
                let word = self.layout.join_column(payload.state, payload.column);
                self.load_dense(word, &columns[payload.column], typed, number)
            }
        };
        self.make_readable(&mut cell);
        cell
    }

    /// Loads a value of a row.
    fn load_place(&mut self, row: Value, place: &Place, validity: Option<usize>) -> Cell {
        let value = place.typed.value;
        let type_ = word_type(value);
        let low = self.builder.ins().load(type_, STEADY, row, offset(place.word));
        let high = (layout::words(value) == 2)
            .then(|| self.builder.ins().load(types::I64, STEADY, row, offset(place.word + 1)));
        let valid = place.bit.zip(validity).map(|(bit, word)| {
            let at = offset(word) + (bit / 8) as i32;
            let bits = self.builder.ins().load(types::I8, STEADY, row, at);
            let bit = self.builder.ins().ushr_imm_u(bits, i64::from(bit % 8));
            self.builder.ins().band_imm_u(bit, 1)
        });
        Cell { high, valid, ..Cell::new(value, low) }
    }

    /// Loads an entry of a payload column in the dense layout.
    fn load_dense(&mut self, word: usize, column: &DenseColumn, typed: Typed, number: Value) -> Cell {
        let data = self.load_invariant(word);
        let address = self.element(data, number, i64::from(column.bytes.trailing_zeros()));
        let load = |lowering: &mut Self, type_: Type, at: usize| {
            lowering.builder.ins().load(type_, STEADY, address, offset(at))
        };
        let (low, high) = match typed.value {
            ValueType::I64 => {
                let ins = self.builder.ins();
                let entry = match column.bytes {
                    1 => ins.uload8(types::I64, STEADY, address, 0),
                    2 => ins.uload16(types::I64, STEADY, address, 0),
                    4 => ins.uload32(STEADY, address, 0),
                    _ => ins.load(types::I64, STEADY, address, 0),
                };
                let base = self.load_invariant(word + 2);
                (self.builder.ins().iadd(base, entry), None)
            }
            ValueType::Bool => (load(self, types::I8, 0), None),
            ValueType::F64 => (load(self, types::F64, 0), None),
            ValueType::I128 | ValueType::Bytes => (load(self, types::I64, 0), Some(load(self, types::I64, 1))),
        };
        let valid = column.validity.then(|| {
            let validity = self.load_invariant(word + 1);
            let address = self.element(validity, number, 0);
            self.builder.ins().load(types::I8, STEADY, address, 0)
        });
        Cell { high, valid, ..Cell::new(typed.value, low) }
    }
}
