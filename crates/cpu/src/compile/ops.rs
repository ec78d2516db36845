//! What each operation of the IR is in machine instructions. Integers are checked by flags where their widths do not prove
//! that the result fits; what is long or rare is a call of the function in `forebay_pipeline` that defines it.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, Value, types};
use forebay_pipeline::Fault;
use forebay_pipeline::ir::{Arithmetic, Compute, Op, Register, Typed, ValueType};

use super::context::RESULT;
use super::function::Function;
use super::lower::{Cell, Lowering};

impl Lowering<'_, '_> {
    /// What an operation gives; its operands hold their values.
    pub(super) fn operation(&mut self, compute: &Compute) -> Cell {
        match &compute.op {
            Op::Constant(constant) => self.constant(constant, compute.typed),
            Op::Arithmetic(arithmetic, a, b) => self.arithmetic(*arithmetic, *a, *b, compute),
            Op::Negate(a) => self.negate(*a, compute),
            Op::Compare(comparison, a, b) => self.comparison(*comparison, *a, *b),
            Op::And(a, b) => self.and(*a, *b),
            Op::Or(a, b) => self.or(*a, *b),
            Op::Not(a) => {
                let a = self.cell(*a);
                let low = self.builder.ins().bxor_imm_u(a.low, 1);
                Cell { low, ..a }
            }
            Op::IsNull(a) => {
                let low = match self.cell(*a).valid {
                    Some(valid) => self.builder.ins().bxor_imm_u(valid, 1),
                    None => self.builder.ins().iconst(types::I8, 0),
                };
                Cell::new(ValueType::Bool, low)
            }
            Op::Select { condition, then, otherwise } => {
                let condition = self.truth(*condition);
                let (then, otherwise) = (self.cell(*then), self.cell(*otherwise));
                self.select(condition, &then, &otherwise)
            }
            Op::Coalesce(a, b) => {
                let (a, b) = (self.cell(*a), self.cell(*b));
                let Some(valid) = a.valid else { return a };
                let chosen = self.select(valid, &Cell { valid: None, ..a }, &Cell { valid: None, ..b });
                let either = b.valid.map(|other| self.builder.ins().bor(valid, other));
                Cell { valid: either, ..chosen }
            }
            Op::Convert(a) => self.convert(*a, compute),
            Op::DatePart(part, a) => {
                let a = self.cell(*a);
                let part = self.int(*part as i64);
                let low = self.call(Function::DatePart, &[part, a.low])[0];
                Cell { valid: a.valid, ..Cell::new(ValueType::I64, low) }
            }
            Op::Length(text) => {
                let text = self.cell(*text);
                let (address, bytes) = words_of(&text);
                let low = self.call(Function::Length, &[address, bytes])[0];
                Cell { valid: text.valid, ..Cell::new(ValueType::I64, low) }
            }
            Op::Like { value, pattern } => self.like(*value, pattern),
            Op::In { value, list } => self.member(*value, list),
            Op::Substring { value, start, length } => {
                let text = self.cell(*value);
                let limited = self.int(i64::from(length.is_some()));
                let (start, length) = (self.int(*start), self.int(length.unwrap_or(0)));
                let (address, bytes) = words_of(&text);
                let part = self.call(Function::Substring, &[address, bytes, start, length, limited]);
                Cell { low: part[0], high: Some(part[1]), ..text }
            }
        }
    }

    /// `then` where `condition` is 1, else `otherwise`.
    pub(super) fn select(&mut self, condition: Value, then: &Cell, otherwise: &Cell) -> Cell {
        let low = self.builder.ins().select(condition, then.low, otherwise.low);
        let high = then.high.zip(otherwise.high).map(|(a, b)| self.builder.ins().select(condition, a, b));
        let valid = if then.valid.is_some() || otherwise.valid.is_some() {
            let [a, b] =
                [then, otherwise].map(|cell| cell.valid.unwrap_or_else(|| self.builder.ins().iconst(types::I8, 1)));
            Some(self.builder.ins().select(condition, a, b))
        } else {
            None
        };
        Cell { value: then.value, low, high, valid, known: None, bits: then.bits.max(otherwise.bits) }
    }

    /// Whether both are not NULL.
    pub(super) fn both_valid(&mut self, a: &Cell, b: &Cell) -> Option<Value> {
        match (a.valid, b.valid) {
            (Some(a), Some(b)) => Some(self.builder.ins().band(a, b)),
            (one, other) => one.or(other),
        }
    }

    /// A condition for faults, which NULL operands do not raise.
    fn fault_where(&mut self, condition: Value, valid: Option<Value>, fault: Fault) {
        let raised = match valid {
            Some(valid) => self.builder.ins().band(condition, valid),
            None => condition,
        };
        self.fault_if(raised, fault.code());
    }

    fn arithmetic(&mut self, arithmetic: Arithmetic, a: Register, b: Register, compute: &Compute) -> Cell {
        let (a, b) = (self.cell(a), self.cell(b));
        let valid = self.both_valid(&a, &b);
        let cell = match compute.typed.value {
            ValueType::F64 => self.float_arithmetic(arithmetic, a.low, b.low),
            ValueType::I64 => self.narrow_arithmetic(arithmetic, &a, &b, valid, compute.fits),
            _ => self.wide_arithmetic(arithmetic, &a, &b, valid, compute.fits),
        };
        Cell { valid, ..cell }
    }

    fn float_arithmetic(&mut self, arithmetic: Arithmetic, a: Value, b: Value) -> Cell {
        let ins = self.builder.ins();
        let low = match arithmetic {
            // Neither gives -0 from operands that are not.
            Arithmetic::Add => ins.fadd(a, b),
            Arithmetic::Subtract => ins.fsub(a, b),
            Arithmetic::Multiply => {
                let product = ins.fmul(a, b);
                self.without_negative_zero(product)
            }
            Arithmetic::Divide => {
                let quotient = ins.fdiv(a, b);
                self.without_negative_zero(quotient)
            }
            Arithmetic::Remainder | Arithmetic::DivideRounded => unreachable!("verified: floats divide by Divide"),
        };
        Cell::new(ValueType::F64, low)
    }

    /// -0 as 0; all else as it is.
    pub(super) fn without_negative_zero(&mut self, float: Value) -> Value {
        let zero = self.builder.ins().f64const(0.0);
        self.builder.ins().fadd(float, zero)
    }

    /// The canonical bits of a float.
    pub(super) fn canonical_bits(&mut self, float: Value) -> Value {
        let nan = self.builder.ins().f64const(f64::NAN);
        let ordered = self.builder.ins().fcmp(FloatCC::Ordered, float, float);
        let canonical = self.builder.ins().select(ordered, float, nan);
        self.builder.ins().bitcast(types::I64, cranelift_codegen::ir::MemFlagsData::new(), canonical)
    }

    fn narrow_arithmetic(
        &mut self,
        arithmetic: Arithmetic,
        a: &Cell,
        b: &Cell,
        valid: Option<Value>,
        fits: bool,
    ) -> Cell {
        let bits = result_bits(arithmetic, a.bits, b.bits);
        let fits = fits || bits <= 64;
        let (x, y) = (a.low, b.low);
        let low = match arithmetic {
            Arithmetic::Add if fits => self.builder.ins().iadd(x, y),
            Arithmetic::Subtract if fits => self.builder.ins().isub(x, y),
            Arithmetic::Multiply if fits => self.builder.ins().imul(x, y),
            Arithmetic::Add | Arithmetic::Subtract | Arithmetic::Multiply => {
                let ins = self.builder.ins();
                let (low, overflow) = match arithmetic {
                    Arithmetic::Add => ins.sadd_overflow(x, y),
                    Arithmetic::Subtract => ins.ssub_overflow(x, y),
                    _ => ins.smul_overflow(x, y),
                };
                self.fault_where(overflow, valid, Fault::Overflow);
                low
            }
            Arithmetic::Divide | Arithmetic::Remainder => self.divide(arithmetic, a, b, valid),
            Arithmetic::DivideRounded => {
                let number = self.int(arithmetic as i64);
                let fault = self.call(Function::Arithmetic64, &[self.context, number, x, y])[0];
                self.fault_of_call(fault, valid);
                self.load_mutable(RESULT)
            }
        };
        Cell { bits: bits.min(64), ..Cell::new(ValueType::I64, low) }
    }

    /// A quotient or remainder; NULL operands are divided by 1.
    fn divide(&mut self, arithmetic: Arithmetic, a: &Cell, b: &Cell, valid: Option<Value>) -> Value {
        let one = self.int(1);
        let divisor = valid.map_or(b.low, |valid| self.builder.ins().select(valid, b.low, one));
        if b.known.is_none_or(|known| known == 0) {
            let zero = self.builder.ins().icmp_imm_s(IntCC::Equal, divisor, 0);
            self.fault_if(zero, Fault::DivisionByZero.code());
        }
        if arithmetic == Arithmetic::Remainder {
            return self.builder.ins().srem(a.low, divisor);
        }
        if a.bits >= 64 && b.known.is_none_or(|known| known == -1) {
            let least = self.builder.ins().icmp_imm_s(IntCC::Equal, a.low, i64::MIN);
            let minus = self.builder.ins().icmp_imm_s(IntCC::Equal, divisor, -1);
            let overflow = self.builder.ins().band(least, minus);
            self.fault_if(overflow, Fault::Overflow.code());
        }
        self.builder.ins().sdiv(a.low, divisor)
    }

    /// Leaves with the fault of a runtime function, unless an operand was NULL.
    fn fault_of_call(&mut self, fault: Value, valid: Option<Value>) {
        let raised = match valid {
            Some(valid) => {
                let none = self.int(0);
                self.builder.ins().select(valid, fault, none)
            }
            None => fault,
        };
        self.fault_with(raised);
    }

    fn wide_arithmetic(
        &mut self,
        arithmetic: Arithmetic,
        a: &Cell,
        b: &Cell,
        valid: Option<Value>,
        fits: bool,
    ) -> Cell {
        let bits = result_bits(arithmetic, a.bits, b.bits);
        let fits = fits || bits <= 128;
        let ((a_low, a_high), (b_low, b_high)) = (words_of(a), words_of(b));
        let (low, high) = match arithmetic {
            Arithmetic::Multiply if a.bits <= 64 && b.bits <= 64 => {
                (self.builder.ins().imul(a_low, b_low), self.builder.ins().smulhi(a_low, b_low))
            }
            Arithmetic::Add | Arithmetic::Subtract => {
                let (x, y) = (self.wide(a), self.wide(b));
                let ins = self.builder.ins();
                let sum = match (arithmetic, fits) {
                    (Arithmetic::Add, true) => ins.iadd(x, y),
                    (_, true) => ins.isub(x, y),
                    (_, false) => {
                        let (sum, overflow) = match arithmetic {
                            Arithmetic::Add => ins.sadd_overflow(x, y),
                            _ => ins.ssub_overflow(x, y),
                        };
                        self.fault_where(overflow, valid, Fault::Overflow);
                        sum
                    }
                };
                self.builder.ins().isplit(sum)
            }
            Arithmetic::Multiply if fits => {
                let (x, y) = (self.wide(a), self.wide(b));
                let product = self.builder.ins().imul(x, y);
                self.builder.ins().isplit(product)
            }
            _ => {
                let number = self.int(arithmetic as i64);
                let arguments = [self.context, number, a_low, a_high, b_low, b_high];
                let fault = self.call(Function::Arithmetic128, &arguments)[0];
                self.fault_of_call(fault, valid);
                (self.load_mutable(RESULT), self.load_mutable(RESULT + 1))
            }
        };
        Cell { high: Some(high), bits: bits.min(128), ..Cell::new(ValueType::I128, low) }
    }

    /// An I128 as one value.
    pub(super) fn wide(&mut self, cell: &Cell) -> Value {
        let (low, high) = words_of(cell);
        self.builder.ins().iconcat(low, high)
    }

    fn negate(&mut self, a: Register, compute: &Compute) -> Cell {
        let a = self.cell(a);
        if a.value == ValueType::F64 {
            let low = self.builder.ins().fneg(a.low);
            let low = self.without_negative_zero(low);
            return Cell { low, known: None, ..a };
        }
        let zero = Cell { bits: 1, ..self.null(Typed::required(a.value)) };
        let cell = match a.value {
            ValueType::I64 => self.narrow_arithmetic(Arithmetic::Subtract, &zero, &a, a.valid, compute.fits),
            _ => self.wide_arithmetic(Arithmetic::Subtract, &zero, &a, a.valid, compute.fits),
        };
        Cell { valid: a.valid, ..cell }
    }

    fn convert(&mut self, a: Register, compute: &Compute) -> Cell {
        let a = self.cell(a);
        let to = compute.typed.value;
        let mut cell = match (a.value, to) {
            (from, to) if from == to => a,
            (ValueType::Bool, _) => {
                let low = self.builder.ins().uextend(types::I64, a.low);
                self.convert_integer(&Cell { bits: 2, ..Cell::new(ValueType::I64, low) }, a.valid, compute)
            }
            _ => self.convert_integer(&a, a.valid, compute),
        };
        cell.valid = a.valid;
        cell
    }

    /// An I64 or I128 as another type.
    fn convert_integer(&mut self, a: &Cell, valid: Option<Value>, compute: &Compute) -> Cell {
        let to = compute.typed.value;
        let known = a.known;
        match (a.value, to) {
            (ValueType::I64, ValueType::I64) => *a,
            (ValueType::I64, ValueType::I128) => {
                let high = self.builder.ins().sshr_imm_u(a.low, 63);
                Cell { high: Some(high), bits: a.bits, known, ..Cell::new(to, a.low) }
            }
            (ValueType::I64, ValueType::F64) => {
                let low = self.builder.ins().fcvt_from_sint(types::F64, a.low);
                Cell::new(to, low)
            }
            (ValueType::I128, ValueType::I64) => {
                if !compute.fits && a.bits > 64 {
                    let (low, high) = words_of(a);
                    let sign = self.builder.ins().sshr_imm_u(low, 63);
                    let cut = self.builder.ins().icmp(IntCC::NotEqual, sign, high);
                    self.fault_where(cut, valid, Fault::Overflow);
                }
                Cell { bits: a.bits.min(64), known, ..Cell::new(to, a.low) }
            }
            (ValueType::I128, ValueType::F64) => {
                let (low, high) = words_of(a);
                let bits = self.call(Function::FloatOf, &[low, high])[0];
                let none = cranelift_codegen::ir::MemFlagsData::new();
                let low = self.builder.ins().bitcast(types::F64, none, bits);
                Cell::new(to, low)
            }
            (_, ValueType::Bool) => {
                let (low, high) = (a.low, a.high);
                let all = high.map_or(low, |high| self.builder.ins().bor(low, high));
                let other = self.builder.ins().icmp_imm_u(IntCC::UnsignedGreaterThan, all, 1);
                self.fault_where(other, valid, Fault::Overflow);
                // What NULL leaves in the register is a Bool all the same.
                let low = self.builder.ins().icmp_imm_u(IntCC::NotEqual, low, 0);
                Cell::new(to, low)
            }
            (from, to) => unreachable!("verified: no conversion from {from:?} to {to:?}"),
        }
    }
}

/// The two words of an I128 or of bytes.
pub(super) fn words_of(cell: &Cell) -> (Value, Value) {
    (cell.low, cell.high.expect("values of 16 bytes have two words"))
}

/// Bits that hold any result of operands with so many bits.
fn result_bits(arithmetic: Arithmetic, a: u32, b: u32) -> u32 {
    match arithmetic {
        Arithmetic::Add | Arithmetic::Subtract => a.max(b) + 1,
        Arithmetic::Multiply => a + b,
        Arithmetic::Divide | Arithmetic::DivideRounded => a + 1,
        Arithmetic::Remainder => a.min(b),
    }
}
