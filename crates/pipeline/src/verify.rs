//! Which programs have a meaning: types of every operand, registers written once and before they are read, states filled
//! once and before they are used.
//!
//! Invariants: a program that passes can be run by every execution without one of them checking again. What does not pass
//! is a bug of whoever made the program: the error is internal and shows the line.

use std::collections::{BTreeMap, BTreeSet};

use forebay_base::{Error, PhysicalType, Result};

use crate::ir::*;
use crate::names::Named;
use crate::semantics::compare_constants;
use crate::{ColumnPredicate, Predicate, Scalar};

/// Checks a whole program.
pub fn verify(program: &Program) -> Result<()> {
    for state in &program.states {
        check_state(state).map_err(|message| Error::internal(format!("{message}: {state}")))?;
    }
    let mut filled = vec![false; program.states.len()];
    for (number, pipeline) in program.pipelines.iter().enumerate() {
        let is_last = number + 1 == program.pipelines.len();
        let outcome = Scope::check(program, &filled, pipeline).and_then(|_| {
            let fills = fill(&pipeline.sink, is_last, &mut filled);
            fills.map_err(|message| Error::internal(format!("{message}: {}", pipeline.sink)))
        });
        outcome.map_err(|error| error.context(format!("pipeline {number}")))?;
    }
    if program.pipelines.is_empty() {
        return Err(Error::internal("a program without pipelines"));
    }
    match filled.iter().position(|filled| !filled) {
        Some(state) => Err(Error::internal(format!("state {state} is never filled: {}", program.states[state]))),
        None => Ok(()),
    }
}

/// Notes what a checked sink fills.
fn fill(sink: &Sink, is_last: bool, filled: &mut [bool]) -> Check {
    match sink {
        Sink::Build { state, .. } | Sink::Aggregate { state, .. } => {
            let before = std::mem::replace(&mut filled[state.0 as usize], true);
            ensure(!before, "a state is filled twice")?;
        }
        Sink::Mark { .. } => {}
        Sink::Collect { .. } => return ensure(is_last, "only the last pipeline collects"),
    }
    ensure(!is_last, "the last pipeline must collect")
}

/// The types of a pipeline's registers, by number, as its steps see them: `None` for numbers that nothing writes. The
/// columns of a left probe are NULL where nothing matches, so that they are nullable here, though not for its condition.
pub fn register_types(program: &Program, pipeline: &Pipeline) -> Result<Vec<Option<Typed>>> {
    let written = Scope::check(program, &vec![true; program.states.len()], pipeline)?;
    let count = written.keys().next_back().map_or(0, |last| last.0 as usize + 1);
    let mut types = vec![None; count];
    for (register, typed) in written {
        types[register.0 as usize] = Some(typed);
    }
    Ok(types)
}

/// Registers of a pipeline; executions number theirs by it.
const REGISTER_LIMIT: u32 = 1 << 16;

/// A check of one line; the message says what is wrong with it.
type Check<T = ()> = std::result::Result<T, String>;

fn ensure(holds: bool, message: &str) -> Check {
    ensure_or(holds, || message.to_owned())
}

fn ensure_or(holds: bool, message: impl FnOnce() -> String) -> Check {
    if holds { Ok(()) } else { Err(message()) }
}

fn check_state(state: &State) -> Check {
    match state {
        State::Join(join) => ensure(!join.keys.is_empty(), "a join state needs a key"),
        State::Aggregate(groups) => groups.aggregates.iter().try_for_each(|aggregate| {
            let argument = aggregate.argument.map(|argument| argument.value);
            let fits = match aggregate.function {
                AggregateFunction::CountRows => argument.is_none(),
                AggregateFunction::Count
                | AggregateFunction::Min
                | AggregateFunction::Max
                | AggregateFunction::First => argument.is_some(),
                AggregateFunction::Sum => argument.is_some_and(is_number),
                AggregateFunction::SumWide | AggregateFunction::SumFitting => argument == Some(ValueType::I64),
            };
            ensure_or(fits, || format!("{aggregate} has no such argument"))
        }),
    }
}

fn is_number(value: ValueType) -> bool {
    is_integer(value) || value == ValueType::F64
}

fn is_integer(value: ValueType) -> bool {
    matches!(value, ValueType::I64 | ValueType::I128)
}

/// Whether a value of one type can be stored as the other.
fn stores(slot: Typed, typed: Typed) -> bool {
    slot.value == typed.value && (slot.nullable || !typed.nullable)
}

/// What is known while a pipeline is read from top to bottom.
struct Scope<'a> {
    program: &'a Program,
    filled: &'a [bool],
    written: BTreeMap<Register, Typed>,
    /// Written, but read only by a condition that is over.
    hidden: BTreeSet<Register>,
}

impl<'a> Scope<'a> {
    /// Checks a pipeline and gives the types of its registers.
    fn check(program: &'a Program, filled: &'a [bool], pipeline: &Pipeline) -> Result<BTreeMap<Register, Typed>> {
        let mut scope = Self { program, filled, written: BTreeMap::new(), hidden: BTreeSet::new() };
        let line = |message: String, line: &dyn std::fmt::Display| Error::internal(format!("{message}: {line}"));
        scope.source(&pipeline.source).map_err(|message| line(message, &pipeline.source))?;
        for step in &pipeline.steps {
            scope.step(step).map_err(|message| line(message, step))?;
        }
        scope.sink(&pipeline.sink).map_err(|message| line(message, &pipeline.sink))?;
        Ok(scope.written)
    }

    fn write(&mut self, register: Register, typed: Typed) -> Check {
        ensure_or(register.0 < REGISTER_LIMIT, || format!("registers are numbered below {REGISTER_LIMIT}"))?;
        match self.written.insert(register, typed) {
            Some(_) => Err(format!("{register} is written twice")),
            None => Ok(()),
        }
    }

    fn read(&self, register: Register) -> Check<Typed> {
        match self.written.get(&register) {
            Some(_) if self.hidden.contains(&register) => Err(format!("{register} is read outside of its condition")),
            Some(typed) => Ok(*typed),
            None => Err(format!("{register} is read before it is written")),
        }
    }

    /// Reads a register that must have this type, whether NULL or not.
    fn read_as(&self, register: Register, value: ValueType) -> Check<Typed> {
        let typed = self.read(register)?;
        ensure_or(typed.value == value, || format!("{register} is {}, not {}", typed.value.name(), value.name()))?;
        Ok(typed)
    }

    fn source(&mut self, source: &Source) -> Check {
        match source {
            Source::Table(table) => {
                table.tests.iter().try_for_each(check_test)?;
                table.columns.iter().try_for_each(|column| {
                    self.source_column(column)?;
                    self.write(column.to, column.typed)
                })
            }
            Source::Groups { state, columns } => {
                let groups = self.groups(*state, true)?;
                let types = groups.keys.iter().copied().chain(groups.aggregates.iter().map(Aggregate::result));
                self.write_all(columns, types.collect())
            }
            Source::BuildRows { state, columns, .. } => {
                let join = self.join(*state, true)?;
                ensure(join.keeps_all, "the state does not keep all rows")?;
                self.write_all(columns, join.keys.iter().chain(&join.payload).copied().collect())
            }
        }
    }

    fn write_all(&mut self, registers: &[Register], types: Vec<Typed>) -> Check {
        ensure_or(registers.len() == types.len(), || format!("the state has {} columns", types.len()))?;
        registers.iter().zip(types).try_for_each(|(register, typed)| self.write(*register, typed))
    }

    fn source_column(&self, column: &SourceColumn) -> Check {
        let loaded = match column.dictionary {
            Some(DictionaryId(dictionary)) => {
                ensure(dictionary < self.program.dictionaries, "there is no such dictionary")?;
                column.physical == PhysicalType::Bytes && column.typed.value == ValueType::I64
            }
            None => {
                let is_boolean = column.physical == PhysicalType::U8 && column.typed.value == ValueType::Bool;
                is_boolean || column.typed.value == SourceColumn::widened(column.physical)
            }
        };
        ensure_or(loaded, || format!("{} is not loaded as {}", column.physical.name(), column.typed.value.name()))
    }

    fn state(&self, state: StateId, is_filled: bool) -> Check<&'a State> {
        let found = self.program.states.get(state.0 as usize).ok_or("there is no such state")?;
        ensure(!is_filled || self.filled[state.0 as usize], "the state is not filled yet")?;
        Ok(found)
    }

    fn join(&self, state: StateId, is_filled: bool) -> Check<&'a JoinState> {
        match self.state(state, is_filled)? {
            State::Join(join) => Ok(join),
            State::Aggregate(_) => Err("the state holds groups".to_owned()),
        }
    }

    fn groups(&self, state: StateId, is_filled: bool) -> Check<&'a AggregateState> {
        match self.state(state, is_filled)? {
            State::Aggregate(groups) => Ok(groups),
            State::Join(_) => Err("the state is a build side".to_owned()),
        }
    }

    fn step(&mut self, step: &Step) -> Check {
        match step {
            Step::Compute(compute) => self.compute(compute),
            Step::Filter(register) => self.read_as(*register, ValueType::Bool).map(drop),
            Step::Probe(probe) => {
                self.lookup(probe.state, &probe.keys, &probe.columns, probe.condition.as_ref())?;
                let columns = probe.columns.iter().map(|(_, register)| *register);
                match probe.kind {
                    ProbeKind::Inner => {}
                    ProbeKind::Left => {
                        for register in columns {
                            self.written.entry(register).and_modify(|typed| typed.nullable = true);
                        }
                    }
                    ProbeKind::Semi | ProbeKind::Anti => self.hidden.extend(columns),
                    ProbeKind::Mark(to) => {
                        self.hidden.extend(columns);
                        self.write(to, Typed::required(ValueType::Bool))?;
                    }
                }
                Ok(())
            }
        }
    }

    /// A join state is looked up, and the pair of rows tested.
    fn lookup(
        &mut self,
        state: StateId,
        keys: &[Register],
        columns: &[(usize, Register)],
        condition: Option<&Condition>,
    ) -> Check {
        let join = self.join(state, true)?;
        ensure_or(keys.len() == join.keys.len(), || format!("the key has {} parts", join.keys.len()))?;
        for (register, part) in keys.iter().zip(&join.keys) {
            self.read_as(*register, part.value)?;
        }
        for (column, to) in columns {
            let typed = join.payload.get(*column).ok_or(format!("the payload has no column {column}"))?;
            self.write(*to, *typed)?;
        }
        let Some(Condition { computes, passes }) = condition else { return Ok(()) };
        computes.iter().try_for_each(|compute| self.compute(compute))?;
        self.read_as(*passes, ValueType::Bool)?;
        self.hidden.extend(computes.iter().map(|compute| compute.to));
        Ok(())
    }

    fn compute(&mut self, compute: &Compute) -> Check {
        if let Some(guard) = compute.guard {
            self.read_as(guard, ValueType::Bool)?;
        }
        let nullable = self.op(&compute.op, compute.typed.value)?;
        ensure(compute.typed.nullable || !nullable, "the result may be NULL")?;
        self.write(compute.to, compute.typed)
    }

    /// Checks an operation that gives a `result`; returns whether that may be NULL.
    fn op(&self, op: &Op, result: ValueType) -> Check<bool> {
        let gives = |value| ensure_or(result == value, || format!("the result is {}", ValueType::name(value)));
        let null_of = |registers: &[(Register, ValueType)]| {
            registers.iter().try_fold(false, |nullable, (register, value)| {
                Ok::<_, String>(self.read_as(*register, *value)?.nullable | nullable)
            })
        };
        match op {
            Op::Constant(constant) => {
                ensure(Scalar::of_constant(constant, result).is_some(), "the constant is not of this type")?;
                Ok(*constant == Constant::Null)
            }
            Op::Arithmetic(arithmetic, a, b) => {
                let for_floats = !matches!(arithmetic, Arithmetic::Remainder | Arithmetic::DivideRounded);
                ensure(is_integer(result) || (for_floats && result == ValueType::F64), "there is no such arithmetic")?;
                null_of(&[(*a, result), (*b, result)])
            }
            Op::Negate(a) => {
                ensure(is_number(result), "only numbers have a sign")?;
                null_of(&[(*a, result)])
            }
            Op::Compare(_, a, b) => {
                gives(ValueType::Bool)?;
                let value = self.read(*a)?.value;
                null_of(&[(*a, value), (*b, value)])
            }
            Op::And(a, b) | Op::Or(a, b) => {
                gives(ValueType::Bool)?;
                null_of(&[(*a, ValueType::Bool), (*b, ValueType::Bool)])
            }
            Op::Not(a) => {
                gives(ValueType::Bool)?;
                null_of(&[(*a, ValueType::Bool)])
            }
            Op::IsNull(a) => {
                gives(ValueType::Bool)?;
                self.read(*a).map(|_| false)
            }
            Op::Select { condition, then, otherwise } => {
                self.read_as(*condition, ValueType::Bool)?;
                null_of(&[(*then, result), (*otherwise, result)])
            }
            Op::Coalesce(a, b) => Ok(null_of(&[(*a, result)])? & null_of(&[(*b, result)])?),
            Op::Convert(a) => {
                let from = self.read(*a)?;
                check_conversion(from.value, result)?;
                Ok(from.nullable)
            }
            Op::DatePart(_, a) | Op::Length(a) => {
                gives(ValueType::I64)?;
                let of = if matches!(op, Op::Length(_)) { ValueType::Bytes } else { ValueType::I64 };
                null_of(&[(*a, of)])
            }
            Op::Like { value, .. } => {
                gives(ValueType::Bool)?;
                null_of(&[(*value, ValueType::Bytes)])
            }
            Op::In { value, list } => {
                gives(ValueType::Bool)?;
                let typed = self.read(*value)?;
                check_list(list, typed.value)?;
                Ok(typed.nullable)
            }
            Op::Substring { value, length, .. } => {
                gives(ValueType::Bytes)?;
                ensure(length.is_none_or(|length| length >= 0), "the length is negative")?;
                null_of(&[(*value, ValueType::Bytes)])
            }
        }
    }

    fn sink(&mut self, sink: &Sink) -> Check {
        match sink {
            Sink::Build { state, keys, payload } => {
                let join = self.join(*state, false)?;
                // A NULL key has no place in the state and needs none where such rows are left out.
                let part = |part: &Typed| Typed { nullable: part.nullable || !join.keeps_all, ..*part };
                self.store("key", keys, &join.keys.iter().map(part).collect::<Vec<_>>())?;
                self.store("payload", payload, &join.payload)
            }
            Sink::Mark { state, keys, columns, condition } => {
                ensure(self.join(*state, true)?.keeps_all, "the state does not keep all rows")?;
                self.lookup(*state, keys, columns, condition.as_ref())
            }
            Sink::Aggregate { state, keys, arguments } => {
                let groups = self.groups(*state, false)?;
                self.store("key", keys, &groups.keys)?;
                let count = groups.aggregates.len();
                ensure_or(arguments.len() == count, || format!("the state has {count} aggregates"))?;
                for (argument, aggregate) in arguments.iter().zip(&groups.aggregates) {
                    match (argument, aggregate.argument) {
                        (None, None) => {}
                        (Some(register), Some(slot)) => self.store("argument", &[*register], &[slot])?,
                        _ => return Err(format!("{aggregate} has another number of arguments")),
                    }
                }
                Ok(())
            }
            Sink::Collect { columns } => columns.iter().try_for_each(|register| self.read(*register).map(drop)),
        }
    }

    fn store(&self, what: &str, registers: &[Register], slots: &[Typed]) -> Check {
        ensure_or(registers.len() == slots.len(), || format!("the {what} has {} parts", slots.len()))?;
        for (register, slot) in registers.iter().zip(slots) {
            let typed = self.read(*register)?;
            ensure_or(stores(*slot, typed), || format!("{register} is {typed}, but its place {slot}"))?;
        }
        Ok(())
    }
}

/// Checks that [`Op::Convert`] makes one type of another.
fn check_conversion(from: ValueType, to: ValueType) -> Check {
    let converts = match from {
        ValueType::F64 => to == ValueType::F64,
        ValueType::Bool | ValueType::I64 | ValueType::I128 => is_number(to),
        ValueType::Bytes => false,
    };
    ensure_or(converts, || format!("{} does not become {}", from.name(), to.name()))
}

/// Checks the list of an [`Op::In`].
fn check_list(list: &[Constant], value: ValueType) -> Check {
    let is_of = |constant| Scalar::of_constant(constant, value).is_some_and(|constant| !constant.is_null());
    ensure_or(list.iter().all(is_of), || format!("the list is not of {}", value.name()))?;
    ensure(list.is_sorted_by(|a, b| compare_constants(a, b).is_lt()), "the list is not in order")
}

fn check_test(test: &ColumnPredicate) -> Check {
    match &test.test {
        Predicate::In(values) | Predicate::NotIn(values) => {
            ensure(values.is_sorted_by(|a, b| a < b), "the list of a test is not in order")
        }
        _ => Ok(()),
    }
}
