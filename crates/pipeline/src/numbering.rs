//! Value numbering over the pipelines of a program: which of them take the same rows, and which of their registers hold the same
//! values, however they are numbered.
//!
//! Invariants: equal numbers stand for equal values of equal rows. Different numbers say nothing: sums in another order, for
//! example, are not told to be the same. Must not know: which of two equal pipelines is kept.

use std::collections::HashMap;

use crate::ColumnPredicate;
use crate::ir::{
    Compute, Condition, DictionaryId, Op, Probe, ProbeKind, Register, Source, StateId, Step, TableSource, Typed,
};

/// The number of a value; equal values of equal rows have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ValueNumber(u32);

/// The values of all pipelines that were numbered.
#[derive(Debug, Default)]
pub struct Numbering {
    values: Vec<Value>,
}

/// The rows that a pipeline brings to its sink, and the numbers of its registers.
#[derive(Debug)]
pub struct NumberedRows {
    rows: Vec<RowStep>,
    numbers: HashMap<Register, ValueNumber>,
}

/// What a value is, in numbers instead of registers.
#[derive(Debug, PartialEq)]
enum Value {
    Column {
        table: usize,
        column: usize,
        typed: Typed,
        dictionary: Option<DictionaryId>,
    },
    /// A column of the groups or the build side that rows come from.
    OfSource(StateId, usize),
    /// A payload column of a probe, which is the step of this number among those that change the rows.
    Payload(usize, usize),
    /// Whether a probe found a match.
    Mark(usize),
    /// `op` has the numbers of values for registers.
    Computed {
        op: Op,
        typed: Typed,
        guard: Option<ValueNumber>,
        fits: bool,
    },
}

/// What decides which rows there are.
#[derive(Debug, PartialEq)]
enum RowStep {
    Table { table: usize, tests: Vec<ColumnPredicate> },
    Groups(StateId),
    BuildRows(StateId, bool),
    Filter(ValueNumber),
    Probe { state: StateId, kind: ProbeKind, keys: Vec<ValueNumber>, condition: Option<ValueNumber> },
}

impl NumberedRows {
    /// Whether the rows are the same.
    pub fn are_those_of(&self, other: &Self) -> bool {
        self.rows == other.rows
    }

    /// The numbers of these registers; `None` where the pipeline does not write one.
    pub fn numbers<'r>(&self, registers: impl IntoIterator<Item = &'r Register>) -> Option<Vec<ValueNumber>> {
        registers.into_iter().map(|register| self.numbers.get(register).copied()).collect()
    }
}

impl Numbering {
    /// Numbers the values of a pipeline, whose tables have the same position where they have the same rows. `None` where it reads
    /// a register that it does not write.
    pub fn number(&mut self, source: &Source, steps: &[Step]) -> Option<NumberedRows> {
        let mut pipeline = NumberedRows { rows: Vec::new(), numbers: HashMap::new() };
        self.source(source, &mut pipeline);
        for step in steps {
            match step {
                Step::Compute(compute) => self.compute(compute, &mut pipeline)?,
                Step::Filter(register) => {
                    let number = *pipeline.numbers.get(register)?;
                    pipeline.rows.push(RowStep::Filter(number));
                }
                Step::Probe(probe) => self.probe(probe, &mut pipeline)?,
            }
        }
        Some(pipeline)
    }

    fn value(&mut self, value: Value) -> ValueNumber {
        let known = self.values.iter().position(|other| *other == value);
        let number = known.unwrap_or_else(|| {
            self.values.push(value);
            self.values.len() - 1
        });
        ValueNumber(number as u32)
    }

    fn source(&mut self, source: &Source, pipeline: &mut NumberedRows) {
        match source {
            Source::Table(TableSource { table, columns, tests, .. }) => {
                pipeline.rows.push(RowStep::Table { table: *table, tests: tests.clone() });
                for column in columns {
                    let (table, typed, dictionary) = (*table, column.typed, column.dictionary);
                    let value = self.value(Value::Column { table, column: column.column, typed, dictionary });
                    pipeline.numbers.insert(column.to, value);
                }
            }
            Source::Groups { state, columns } => {
                pipeline.rows.push(RowStep::Groups(*state));
                self.columns(*state, columns, pipeline);
            }
            Source::BuildRows { state, matched, columns } => {
                pipeline.rows.push(RowStep::BuildRows(*state, *matched));
                self.columns(*state, columns, pipeline);
            }
        }
    }

    fn columns(&mut self, state: StateId, columns: &[Register], pipeline: &mut NumberedRows) {
        for (index, register) in columns.iter().enumerate() {
            let value = self.value(Value::OfSource(state, index));
            pipeline.numbers.insert(*register, value);
        }
    }

    fn compute(&mut self, compute: &Compute, pipeline: &mut NumberedRows) -> Option<()> {
        let guard = match &compute.guard {
            Some(guard) => Some(*pipeline.numbers.get(guard)?),
            None => None,
        };
        let mut op = compute.op.clone();
        for operand in op.operands_mut() {
            *operand = Register(pipeline.numbers.get(operand)?.0);
        }
        let value = self.value(Value::Computed { op, typed: compute.typed, guard, fits: compute.fits });
        pipeline.numbers.insert(compute.to, value);
        Some(())
    }

    fn probe(&mut self, probe: &Probe, pipeline: &mut NumberedRows) -> Option<()> {
        let keys = pipeline.numbers(&probe.keys)?;
        let at = pipeline.rows.len();
        for (column, register) in &probe.columns {
            let value = self.value(Value::Payload(at, *column));
            pipeline.numbers.insert(*register, value);
        }
        let condition = match &probe.condition {
            Some(Condition { computes, passes }) => {
                computes.iter().try_for_each(|compute| self.compute(compute, pipeline))?;
                Some(*pipeline.numbers.get(passes)?)
            }
            None => None,
        };
        let mut kind = probe.kind;
        if let ProbeKind::Mark(register) = &mut kind {
            let value = self.value(Value::Mark(at));
            pipeline.numbers.insert(*register, value);
            *register = Register(value.0);
        }
        pipeline.rows.push(RowStep::Probe { state: probe.state, kind, keys, condition });
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::{Program, Sink};

    /// Of the first two pipelines, which group rows: whether the rows are the same, and the numbers of keys and arguments.
    fn both(first: &str, second: &str) -> (bool, [Vec<ValueNumber>; 2]) {
        let states = "state j0: join (i64) -> (i64)\nstate a1: aggregate (i64) { sum_wide(i64) }\n";
        let text = format!("program 0 dictionaries\n{states}pipeline\n{first}pipeline\n{second}");
        let program = Program::parse(&text).expect("a program");
        let mut numbering = Numbering::default();
        let mut numbered = program.pipelines.iter().map(|pipeline| {
            let rows = numbering.number(&pipeline.source, &pipeline.steps).expect("registers that are written");
            let Sink::Aggregate { keys, arguments, .. } = &pipeline.sink else { panic!("a pipeline without groups") };
            let numbers = rows.numbers(keys.iter().chain(arguments.iter().flatten())).expect("registers");
            (rows, numbers)
        });
        let [(first, own), (second, others)] = [numbered.next().expect("one"), numbered.next().expect("two")];
        (first.are_those_of(&second), [own, others])
    }

    const FIRST: &str = "  scan 0 t (r0: i64 = column 0 a i64, r1: i64 = column 1 b i64) where column 2 > 5\n  \
                         r2: bool = lt r0, r1\n  filter r2\n  probe inner j0 (r0) -> (0 r3)\n  \
                         r4: i64 = add r1, r3\n  aggregate a1 (r0) { r4 }\n";

    #[test]
    fn registers_may_be_numbered_otherwise() {
        let second = "  scan 0 t (r5: i64 = column 1 b i64, r1: i64 = column 0 a i64) where column 2 > 5\n  \
                      r2: bool = lt r1, r5\n  r7: i64 = const 3\n  filter r2\n  probe inner j0 (r1) -> (0 r0)\n  \
                      r4: i64 = add r5, r0\n  aggregate a1 (r1) { r4 }\n";
        let (same, [first, second]) = both(FIRST, second);
        assert!(same && first == second, "{first:?} {second:?}");
    }

    #[test]
    fn whatever_tells_other_rows_or_values_counts() {
        let replaced = |from: &str, to: &str| {
            assert!(FIRST.contains(from), "{from}");
            FIRST.replace(from, to)
        };
        let others =
            [("> 5", "> 6"), ("scan 0", "scan 1"), ("lt r0", "le r0"), ("inner", "left"), ("(r0) ->", "(r1) ->")];
        for (from, to) in others {
            assert!(!both(FIRST, &replaced(from, to)).0, "{from} as {to}");
        }
        let (same, [first, second]) = both(FIRST, &replaced("add r1, r3", "sub r1, r3"));
        assert!(same && first[0] == second[0] && first[1] != second[1]);
        let (same, [first, second]) = both(FIRST, &replaced("aggregate a1 (r0)", "aggregate a1 (r1)"));
        assert!(same && first[0] != second[0] && first[1] == second[1]);
    }
}
