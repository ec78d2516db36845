//! What every part of the lowering says with Cranelift: constants, words of the context, jumps, faults, calls.

use std::sync::Arc;

use cranelift_codegen::ir::{AbiParam, Block, BlockArg, InstBuilder, Signature, Value, types};
use forebay_base::canonical_f64;
use forebay_pipeline::ir::{Constant, Typed, ValueType};

use super::context::STOP;
use super::function::Function;
use super::lower::{Cell, Lowering, MUTABLE, offset};

impl Lowering<'_, '_> {
    /// A new block.
    pub(super) fn block(&mut self) -> Block {
        self.builder.create_block()
    }

    /// An integer constant of 64 bits.
    pub(super) fn int(&mut self, value: i64) -> Value {
        self.builder.ins().iconst(types::I64, value)
    }

    /// `base + index * 2^shift`.
    pub(super) fn element(&mut self, base: Value, index: Value, shift: i64) -> Value {
        let offset = if shift == 0 { index } else { self.builder.ins().ishl_imm_u(index, shift) };
        self.builder.ins().iadd(base, offset)
    }

    /// A word of the context that does not change during a run.
    pub(super) fn load_invariant(&mut self, word: usize) -> Value {
        self.builder.ins().load(types::I64, self.steady_flags, self.context, offset(word))
    }

    /// A word of the context that runtime functions and this one change.
    pub(super) fn load_mutable(&mut self, word: usize) -> Value {
        self.builder.ins().load(types::I64, MUTABLE, self.context, offset(word))
    }

    /// Writes a word of the context.
    pub(super) fn set(&mut self, word: usize, value: Value) {
        self.builder.ins().store(MUTABLE, value, self.context, offset(word));
    }

    pub(super) fn jump(&mut self, to: Block, arguments: &[Value]) {
        let arguments: Vec<BlockArg> = arguments.iter().map(|value| BlockArg::Value(*value)).collect();
        self.builder.ins().jump(to, &arguments);
    }

    pub(super) fn branch(&mut self, condition: Value, yes: Block, no: Block) {
        self.branch_with(condition, yes, &[], no, &[]);
    }

    pub(super) fn branch_with(&mut self, condition: Value, yes: Block, with: &[Value], no: Block, or_with: &[Value]) {
        let [with, or_with] =
            [with, or_with].map(|values| values.iter().map(|value| BlockArg::Value(*value)).collect::<Vec<_>>());
        self.builder.ins().brif(condition, yes, &with, no, &or_with);
    }

    /// Leaves the function with a fault where `condition` is not 0.
    pub(super) fn fault_if(&mut self, condition: Value, code: u64) {
        let (fault, fine) = (self.fault(code), self.block());
        self.branch(condition, fault, fine);
        self.builder.switch_to_block(fine);
    }

    /// Leaves the function if it should stop. For every way back to the next row of a chain: chains may be long.
    pub(super) fn stop_if_asked(&mut self) {
        let address = self.load_invariant(STOP);
        // Another thread writes it, so that no earlier load is as good.
        let asked = self.builder.ins().atomic_load(types::I8, MUTABLE, address);
        self.fault_if(asked, super::STOPPED);
    }

    /// Leaves the function with the code that a runtime function gave, unless it is 0.
    pub(super) fn fault_with(&mut self, code: Value) {
        let (fault, fine) = (self.block(), self.block());
        self.branch(code, fault, fine);
        self.builder.switch_to_block(fault);
        self.builder.set_cold_block(fault);
        self.builder.ins().return_(&[code]);
        self.builder.switch_to_block(fine);
    }

    /// The block that returns `code`.
    fn fault(&mut self, code: u64) -> Block {
        if let Some(block) = self.faults.get(&code) {
            return *block;
        }
        let block = self.block();
        self.builder.set_cold_block(block);
        self.faults.insert(code, block);
        block
    }

    pub(super) fn emit_faults(&mut self) {
        for (code, block) in std::mem::take(&mut self.faults) {
            self.builder.switch_to_block(block);
            let code = self.int(code as i64);
            self.builder.ins().return_(&[code]);
        }
    }

    /// Calls a runtime function and gives its results. All parameters and results are words.
    pub(super) fn call(&mut self, function: Function, arguments: &[Value]) -> Vec<Value> {
        let shape = (arguments.len(), function.results());
        let call_conv = self.call_conv;
        let builder = &mut self.builder;
        let signature = *self.signatures.entry(shape).or_insert_with(|| {
            let words = |count| vec![AbiParam::new(types::I64); count];
            builder.import_signature(Signature { params: words(shape.0), returns: words(shape.1), call_conv })
        });
        let callee = self.int(function.address() as i64);
        let call = self.builder.ins().call_indirect(signature, callee, arguments);
        self.builder.inst_results(call).to_vec()
    }

    /// A constant in registers.
    pub(super) fn constant(&mut self, constant: &Constant, typed: Typed) -> Cell {
        match constant {
            Constant::Null => self.null(Typed::nullable(typed.value)),
            Constant::Bool(value) => {
                let low = self.builder.ins().iconst(types::I8, i64::from(*value));
                Cell::new(ValueType::Bool, low)
            }
            Constant::Int(value) => {
                let low = self.int(*value as i64);
                let wide = typed.value == ValueType::I128;
                let high = wide.then(|| self.int((*value >> 64) as i64));
                let bits = 129 - if *value < 0 { !*value } else { *value }.leading_zeros();
                Cell { high, bits, known: Some(*value), ..Cell::new(typed.value, low) }
            }
            Constant::Float(value) => {
                let low = self.builder.ins().f64const(canonical_f64(*value));
                Cell::new(ValueType::F64, low)
            }
            Constant::Bytes(bytes) => {
                let (low, high) = self.keep(bytes);
                Cell { high: Some(high), ..Cell::new(ValueType::Bytes, low) }
            }
        }
    }

    /// The address and length of constant bytes, which live as long as the code.
    pub(super) fn keep(&mut self, bytes: &Arc<[u8]>) -> (Value, Value) {
        self.kept.bytes.push(Arc::clone(bytes));
        let address = self.int(bytes.as_ptr().expose_provenance() as i64);
        (address, self.int(bytes.len() as i64))
    }
}
