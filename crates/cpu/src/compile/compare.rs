//! Operations that give a truth: comparisons, Kleene's logic, LIKE and IN.

use std::sync::Arc;

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use forebay_pipeline::LikePattern;
use forebay_pipeline::ir::{Comparison, Constant, Register, ValueType};

use super::function::Function;
use super::lower::{Cell, Lowering};
use super::members::Members;
use super::ops::words_of;

/// Members of an IN list that are compared one by one.
const FEW: usize = 6;

impl Lowering<'_, '_> {
    pub(super) fn comparison(&mut self, comparison: Comparison, a: Register, b: Register) -> Cell {
        let (a, b) = (self.cell(a), self.cell(b));
        let valid = self.both_valid(&a, &b);
        let low = self.compare(comparison, &a, &b);
        Cell { valid, ..Cell::new(ValueType::Bool, low) }
    }

    /// Whether a comparison of two values that are not NULL holds.
    pub(super) fn compare(&mut self, comparison: Comparison, a: &Cell, b: &Cell) -> Value {
        match a.value {
            ValueType::Bool => self.builder.ins().icmp(unsigned(comparison), a.low, b.low),
            ValueType::I64 => self.builder.ins().icmp(signed(comparison), a.low, b.low),
            ValueType::I128 => {
                let (x, y) = (self.wide(a), self.wide(b));
                self.builder.ins().icmp(signed(comparison), x, y)
            }
            ValueType::F64 => self.compare_floats(comparison, a.low, b.low),
            ValueType::Bytes => match comparison {
                Comparison::Equal => self.equal_bytes(words_of(a), words_of(b)),
                Comparison::NotEqual => {
                    let equal = self.equal_bytes(words_of(a), words_of(b));
                    self.builder.ins().bxor_imm_u(equal, 1)
                }
                _ => {
                    let ((a, a_bytes), (b, b_bytes)) = (words_of(a), words_of(b));
                    let order = self.call(Function::CompareBytes, &[a, a_bytes, b, b_bytes])[0];
                    self.builder.ins().icmp_imm_s(signed(comparison), order, 0)
                }
            },
        }
    }

    /// Floats in canonical order: NaN equals itself and is above all others.
    pub(super) fn compare_floats(&mut self, comparison: Comparison, a: Value, b: Value) -> Value {
        match comparison {
            Comparison::Equal => {
                let ins = self.builder.ins();
                let equal = ins.fcmp(FloatCC::Equal, a, b);
                let [a_nan, b_nan] = [a, b].map(|x| self.builder.ins().fcmp(FloatCC::Unordered, x, x));
                let nans = self.builder.ins().band(a_nan, b_nan);
                self.builder.ins().bor(equal, nans)
            }
            Comparison::Less => {
                // Unordered is less, unless it is the first that is NaN.
                let less = self.builder.ins().fcmp(FloatCC::UnorderedOrLessThan, a, b);
                let ordinary = self.builder.ins().fcmp(FloatCC::Ordered, a, a);
                self.builder.ins().band(less, ordinary)
            }
            Comparison::Greater => self.compare_floats(Comparison::Less, b, a),
            Comparison::NotEqual | Comparison::LessOrEqual | Comparison::GreaterOrEqual => {
                let opposite = match comparison {
                    Comparison::NotEqual => self.compare_floats(Comparison::Equal, a, b),
                    Comparison::LessOrEqual => self.compare_floats(Comparison::Less, b, a),
                    _ => self.compare_floats(Comparison::Less, a, b),
                };
                self.builder.ins().bxor_imm_u(opposite, 1)
            }
        }
    }

    /// Whether bytes are equal: their lengths first.
    pub(super) fn equal_bytes(&mut self, a: (Value, Value), b: (Value, Value)) -> Value {
        let (same_length, done) = (self.block(), self.block());
        let equal = self.builder.append_block_param(done, types::I8);
        let lengths = self.builder.ins().icmp(IntCC::Equal, a.1, b.1);
        let no = self.builder.ins().iconst(types::I8, 0);
        self.branch_with(lengths, same_length, &[], done, &[no]);
        self.builder.switch_to_block(same_length);
        let same = self.call(Function::EqualBytes, &[a.0, b.0, a.1])[0];
        let same = self.builder.ins().ireduce(types::I8, same);
        self.jump(done, &[same]);
        self.builder.switch_to_block(done);
        equal
    }

    /// The registers' values where they are true, and whether both are not NULL.
    pub(super) fn truths(&mut self, a: Register, b: Register) -> ([Cell; 2], [Value; 2], Option<Value>) {
        let cells = [self.cell(a), self.cell(b)];
        let truths = [self.truth(a), self.truth(b)];
        (cells, truths, self.both_valid(&cells[0], &cells[1]))
    }

    /// Kleene's and: false where one is false, whatever the other.
    pub(super) fn and(&mut self, a: Register, b: Register) -> Cell {
        let (cells, truths, both) = self.truths(a, b);
        let low = self.builder.ins().band(truths[0], truths[1]);
        let valid = both.map(|both| {
            let [a_false, b_false] = cells.map(|cell| {
                let not = self.builder.ins().bxor_imm_u(cell.low, 1);
                cell.valid.map_or(not, |valid| self.builder.ins().band(valid, not))
            });
            let one = self.builder.ins().bor(a_false, b_false);
            self.builder.ins().bor(both, one)
        });
        Cell { valid, ..Cell::new(ValueType::Bool, low) }
    }

    /// Kleene's or: true where one is true, whatever the other.
    pub(super) fn or(&mut self, a: Register, b: Register) -> Cell {
        let (_, truths, both) = self.truths(a, b);
        let low = self.builder.ins().bor(truths[0], truths[1]);
        let valid = both.map(|both| self.builder.ins().bor(both, low));
        Cell { valid, ..Cell::new(ValueType::Bool, low) }
    }

    pub(super) fn like(&mut self, value: Register, pattern: &[u8]) -> Cell {
        let text = self.cell(value);
        let pattern = Arc::new(LikePattern::new(pattern));
        let address = self.int(Arc::as_ptr(&pattern).expose_provenance() as i64);
        self.kept.patterns.push(pattern);
        let (start, bytes) = words_of(&text);
        let matches = self.call(Function::Like, &[address, start, bytes])[0];
        let low = self.builder.ins().ireduce(types::I8, matches);
        Cell { valid: text.valid, ..Cell::new(ValueType::Bool, low) }
    }

    pub(super) fn member(&mut self, value: Register, list: &[Constant]) -> Cell {
        let cell = self.cell(value);
        let low = match cell.value {
            ValueType::I64 => self.integer_member(cell.low, list),
            ValueType::Bool => {
                let [yes, no] = [true, false].map(|value| i64::from(list.contains(&Constant::Bool(value))));
                let [yes, no] = [yes, no].map(|held| self.builder.ins().iconst(types::I8, held));
                self.builder.ins().select(cell.low, yes, no)
            }
            _ => self.listed(&cell, list),
        };
        Cell { valid: cell.valid, ..Cell::new(ValueType::Bool, low) }
    }

    /// Whether an I64 is one of some constants: bits of a word where they lie close, comparisons where they are few.
    pub(super) fn integer_member(&mut self, value: Value, list: &[Constant]) -> Value {
        let integers = list.iter().filter_map(|constant| match constant {
            Constant::Int(value) => i64::try_from(*value).ok(),
            _ => None,
        });
        let integers: Vec<i64> = integers.collect();
        let (Some(low), Some(high)) = (integers.iter().min().copied(), integers.iter().max().copied()) else {
            return self.builder.ins().iconst(types::I8, 0);
        };
        if high.wrapping_sub(low) as u64 >= 64 {
            if integers.len() > FEW {
                return self.listed(&Cell::new(ValueType::I64, value), list);
            }
            let mut any = self.builder.ins().iconst(types::I8, 0);
            for integer in integers {
                let equal = self.builder.ins().icmp_imm_s(IntCC::Equal, value, integer);
                any = self.builder.ins().bor(any, equal);
            }
            return any;
        }
        let bits = integers.iter().fold(0u64, |bits, integer| bits | 1 << integer.wrapping_sub(low));
        let low = self.int(low);
        let number = self.builder.ins().isub(value, low);
        let near = self.builder.ins().icmp_imm_u(IntCC::UnsignedLessThan, number, 64);
        let bits = self.int(bits as i64);
        let shifted = self.builder.ins().ushr(bits, number);
        let shifted = self.builder.ins().ireduce(types::I8, shifted);
        self.builder.ins().band(shifted, near)
    }

    /// Whether a value is in a list, by a runtime function.
    pub(super) fn listed(&mut self, cell: &Cell, list: &[Constant]) -> Value {
        let members = Arc::new(Members::new(cell.value, list));
        let address = self.int(Arc::as_ptr(&members).expose_provenance() as i64);
        self.kept.members.push(members);
        let low = match cell.value {
            ValueType::F64 => self.canonical_bits(cell.low),
            _ => cell.low,
        };
        let high = cell.high.unwrap_or(low);
        let held = self.call(Function::Member, &[address, low, high])[0];
        self.builder.ins().ireduce(types::I8, held)
    }
}

fn signed(comparison: Comparison) -> IntCC {
    match comparison {
        Comparison::Equal => IntCC::Equal,
        Comparison::NotEqual => IntCC::NotEqual,
        Comparison::Less => IntCC::SignedLessThan,
        Comparison::LessOrEqual => IntCC::SignedLessThanOrEqual,
        Comparison::Greater => IntCC::SignedGreaterThan,
        Comparison::GreaterOrEqual => IntCC::SignedGreaterThanOrEqual,
    }
}

fn unsigned(comparison: Comparison) -> IntCC {
    signed(comparison).unsigned()
}
