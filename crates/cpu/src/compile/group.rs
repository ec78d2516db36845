//! Where the accumulators of a row's group are: by the numbers of its key, in a directory, or in a new row of a partition.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, InstBuilder, Value, types};
use forebay_pipeline::ir::ValueType;

use super::KEY_OUT_OF_RANGE;
use super::context::{GROUP_CURSORS, GROUP_DIRECTORY, GROUP_ROWS, GROUP_SHIFT, GROUP_TOUCHED};
use super::function::Function;
use super::lower::{Cell, Lowering, MUTABLE, offset};
use super::ops::words_of;
use super::sink::AccumulatorPlace;
use crate::groups::PARTITION_BITS;
use crate::layout::{GroupRow, SLOT_ROW_BITS, WORD};

impl Lowering<'_, '_> {
    /// The group whose number the keys make.
    pub(super) fn dense_group(&mut self, keys: &[Cell], group_row: &GroupRow) -> AccumulatorPlace<'static> {
        let (index, outside) = self.dense_slot(keys);
        self.fault_if(outside, KEY_OUT_OF_RANGE);
        let touched = self.load_mutable(GROUP_TOUCHED);
        let address = self.element(touched, index, 0);
        let one = self.builder.ins().iconst(types::I8, 1);
        self.builder.ins().store(MUTABLE, one, address, 0);
        let first = group_row.key.words;
        let rows = self.load_mutable(GROUP_ROWS);
        let behind = self.builder.ins().imul_imm_s(index, ((group_row.words - first) * WORD) as i64);
        AccumulatorPlace::Row(self.builder.ins().iadd(rows, behind), first)
    }

    /// The number of the slot of dense groups, and whether a part of the key is out of its range, so that it is none.
    pub(super) fn dense_slot(&mut self, keys: &[Cell]) -> (Value, Value) {
        let mut index = self.int(0);
        let mut any_outside = self.builder.ins().iconst(types::I8, 0);
        for (number, key) in keys.iter().enumerate() {
            let word = self.layout.dense_key(number);
            let (low, span, stride) =
                (self.load_invariant(word), self.load_invariant(word + 1), self.load_invariant(word + 2));
            let value = match key.value {
                ValueType::Bool => self.builder.ins().uextend(types::I64, key.low),
                _ => key.low,
            };
            let slot = self.builder.ins().isub(value, low);
            let outside = self.builder.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, slot, span);
            let (slot, outside) = match key.valid {
                // The slot of NULL is the last one.
                Some(valid) => (self.builder.ins().select(valid, slot, span), self.builder.ins().band(outside, valid)),
                None => (slot, outside),
            };
            any_outside = self.builder.ins().bor(any_outside, outside);
            let part = self.builder.ins().imul(slot, stride);
            index = self.builder.ins().iadd(index, part);
        }
        (index, any_outside)
    }

    /// The group of a key in the directory, which is made where it is new.
    pub(super) fn hashed_group(&mut self, keys: &[Cell], group_row: &GroupRow) -> AccumulatorPlace<'static> {
        let (head, taken, other, miss, found) = (self.block(), self.block(), self.block(), self.block(), self.block());
        let slot = self.builder.append_block_param(head, types::I64);
        let row = self.builder.append_block_param(found, types::I64);
        let hash = match self.hashed.take() {
            Some(hashes) => self.load_staged(hashes, types::I64),
            None => self.hash(keys),
        };
        let words = self.key_words(&group_row.key, keys);
        let shift = self.load_mutable(GROUP_SHIFT);
        let first = self.builder.ins().ushr(hash, shift);
        self.jump(head, &[first]);

        self.builder.switch_to_block(head);
        let directory = self.load_mutable(GROUP_DIRECTORY);
        let address = self.element(directory, slot, 3);
        let entry = self.builder.ins().load(types::I64, MUTABLE, address, 0);
        self.branch(entry, taken, miss);

        self.builder.switch_to_block(taken);
        // Where the tags are equal, nothing is left of their bits.
        let tag = self.builder.ins().ishl_imm_u(hash, 32);
        let differing = self.builder.ins().bxor(entry, tag);
        let differing = self.builder.ins().ushr_imm_u(differing, i64::from(SLOT_ROW_BITS));
        let tagged = self.block();
        self.branch(differing, other, tagged);
        self.builder.switch_to_block(tagged);
        let rows = self.load_mutable(GROUP_ROWS);
        let number = self.row_number(entry);
        let candidate = self.row_address(rows, number, group_row.words);
        self.compare_group(candidate, hash, keys, &words, group_row, other);
        self.jump(found, &[candidate]);

        self.builder.switch_to_block(other);
        let following = self.builder.ins().iadd_imm_s(slot, 1);
        let ones = self.int(-1);
        let mask = self.builder.ins().ushr(ones, shift);
        let following = self.builder.ins().band(following, mask);
        self.jump(head, &[following]);

        self.builder.switch_to_block(miss);
        let row_of_new = self.new_group(hash, keys, &words, group_row);
        self.jump(found, &[row_of_new]);
        self.builder.switch_to_block(found);
        AccumulatorPlace::Row(row, 0)
    }

    /// A new row in the partition of its key's hash.
    pub(super) fn partitioned_row(&mut self, keys: &[Cell], group_row: &GroupRow) -> AccumulatorPlace<'static> {
        let (full, room) = (self.block(), self.block());
        let row = self.builder.append_block_param(room, types::I64);
        let hash = self.hash(keys);
        let words = self.key_words(&group_row.key, keys);
        let partition = self.builder.ins().ushr_imm_u(hash, i64::from(u64::BITS - PARTITION_BITS));
        let cursors = self.load_mutable(GROUP_CURSORS);
        let place = self.element(cursors, partition, 4);
        let cursor = self.builder.ins().load(types::I64, MUTABLE, place, 0);
        let end = self.builder.ins().load(types::I64, MUTABLE, place, offset(1));
        let is_full = self.builder.ins().icmp(IntCC::Equal, cursor, end);
        self.branch_with(is_full, full, &[], room, &[cursor]);

        self.builder.switch_to_block(full);
        self.builder.set_cold_block(full);
        let fault = self.call(Function::GrowPartition, &[self.context, partition])[0];
        self.fault_with(fault);
        let cursor = self.builder.ins().load(types::I64, MUTABLE, place, 0);
        self.jump(room, &[cursor]);

        self.builder.switch_to_block(room);
        let behind = self.builder.ins().iadd_imm_s(row, (group_row.words * WORD) as i64);
        self.builder.ins().store(MUTABLE, behind, place, 0);
        self.builder.ins().store(MUTABLE, hash, row, 0);
        for (word, value) in words {
            self.builder.ins().store(MUTABLE, value, row, offset(word));
        }
        AccumulatorPlace::NewRow(row)
    }

    /// Goes on only where a group's row has this key, else to `other`.
    fn compare_group(
        &mut self,
        row: Value,
        hash: Value,
        keys: &[Cell],
        words: &[(usize, Value)],
        group_row: &GroupRow,
        other: Block,
    ) {
        let texts = || keys.iter().zip(&group_row.key.places).filter(|(key, _)| key.value == ValueType::Bytes);
        let hashes = texts().next().map(|_| (0, hash));
        for (word, value) in hashes.iter().chain(words) {
            let kept = self.builder.ins().load(types::I64, MUTABLE, row, offset(*word));
            self.unless_equal(kept, *value, other);
        }
        for (key, place) in texts() {
            let (address, length) = words_of(key);
            let length = self.zero_unless(key.valid, length);
            let kept = self.builder.ins().load(types::I64, MUTABLE, row, offset(place.word));
            let same = self.call(Function::EqualBytes, &[kept, address, length])[0];
            let on = self.block();
            self.branch(same, on, other);
            self.builder.switch_to_block(on);
        }
    }

    /// The row of a new group.
    fn new_group(&mut self, hash: Value, keys: &[Cell], words: &[(usize, Value)], group_row: &GroupRow) -> Value {
        let first = self.layout.new_key();
        for (word, value) in words {
            self.set(first + word, *value);
        }
        for (key, place) in keys.iter().zip(&group_row.key.places) {
            if key.value == ValueType::Bytes {
                let kept = self.keep_text(key);
                self.set(first + place.word, kept);
            }
        }
        let key = self.builder.ins().iadd_imm_s(self.context, i64::from(offset(first + 1)));
        let count = self.int(group_row.key.words as i64 - 1);
        self.call(Function::NewGroup, &[self.context, hash, key, count])[0]
    }
}
