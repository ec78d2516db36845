//! Rows that are equal in every column: one of them runs for all, and what it adds to its group counts as often (eager
//! aggregation; Data Blocks, Appendix E; `fold.rs`). What fails or is dropped does so for each of them alike.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use forebay_pipeline::ir::{AggregateFunction, Program, Sink, State, ValueType};

use super::context::MULTIPLICITIES;
use super::lower::{Lowering, STEADY};

/// Whether all aggregates of a pipeline follow from one of several equal rows and their number. Sums of floating-point
/// numbers do not: they depend on each rounding; those of 128 bits may leave their type on the way.
pub fn can_count_duplicates(program: &Program, pipeline: usize) -> bool {
    let Some(Sink::Aggregate { state, .. }) = program.pipelines.get(pipeline).map(|pipeline| &pipeline.sink) else {
        return false;
    };
    let Some(State::Aggregate(state)) = program.states.get(state.0 as usize) else { return false };
    state.aggregates.iter().all(|aggregate| match aggregate.function {
        AggregateFunction::Sum | AggregateFunction::SumWide | AggregateFunction::SumFitting => {
            aggregate.argument.is_some_and(|argument| argument.value == ValueType::I64)
        }
        AggregateFunction::CountRows
        | AggregateFunction::Count
        | AggregateFunction::Min
        | AggregateFunction::Max
        | AggregateFunction::First => true,
    })
}

impl Lowering<'_, '_> {
    /// What each of the equal rows adds to a word, from all of them.
    pub(super) fn multiplied(&mut self, addend: Value) -> Value {
        if !self.layouts.counts_duplicates {
            return addend;
        }
        let multiplicity = self.multiplicity();
        self.builder.ins().imul(addend, multiplicity)
    }

    /// The low and the high word of what an integer of 64 bits adds to a sum of 128.
    pub(super) fn multiplied_wide(&mut self, addend: Value) -> (Value, Value) {
        if !self.layouts.counts_duplicates {
            return (addend, self.builder.ins().sshr_imm_u(addend, 63));
        }
        let multiplicity = self.multiplicity();
        (self.builder.ins().imul(addend, multiplicity), self.builder.ins().smulhi(addend, multiplicity))
    }

    /// How many rows this one stands for.
    fn multiplicity(&mut self) -> Value {
        let multiplicities = self.load_invariant(MULTIPLICITIES);
        let address = self.element(multiplicities, self.row, 3);
        self.builder.ins().load(types::I64, STEADY, address, 0)
    }
}
