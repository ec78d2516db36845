//! A pipeline while it is written: its registers, what they hold, and scalars as its steps.
//!
//! Invariants: equal scalars are computed once per pipeline. What can fail within a CASE is computed under a guard, and so
//! is everything between it and the CASE.

use std::collections::HashMap;

use forebay_pipeline::ir::{
    Compute, Condition, DictionaryId, Op, Register, Source, SourceColumn, Step, TableSource, Typed, ValueType,
};

use crate::carver::Carver;
use crate::facts::{Literal, Variable};
use crate::reason::Reason;
use crate::scalar::{Node, Scalar};
use forebay_tables::tree::Line;

/// A pipeline without its sink.
#[derive(Debug)]
pub struct Flow {
    /// Where its rows come from.
    pub source: Source,
    /// What is done with them.
    pub steps: Vec<Step>,
    /// For people: the source, then what is done.
    pub text: Vec<Line>,
    /// By register.
    types: Vec<Typed>,
    /// Registers that hold the columns of a table, by column and whether as ids of a dictionary.
    loaded: HashMap<(usize, Option<DictionaryId>), Register>,
    known: Known,
}

/// What registers hold.
#[derive(Debug, Clone, Default)]
struct Known {
    /// Variables, as values.
    values: HashMap<Variable, Register>,
    /// Variables, as ids of a dictionary.
    ids: HashMap<Variable, (Register, DictionaryId)>,
    /// Scalars, by the guard that they were computed under.
    scalars: HashMap<(Scalar, Option<Register>), Register>,
    constants: HashMap<(Literal, ValueType), Register>,
    /// 16-byte forms of 8-byte integers, by the guard that they were computed under.
    widened: HashMap<(Register, Option<Register>), Register>,
}

/// A register and, for ids, the dictionary that they are of.
pub type Carried = (Register, Option<DictionaryId>);

impl Flow {
    /// A pipeline that begins at `source`.
    pub fn new(source: Source, text: String) -> Self {
        Self {
            source,
            steps: Vec::new(),
            text: vec![Line::new(text, &[])],
            types: Vec::new(),
            loaded: HashMap::new(),
            known: Known::default(),
        }
    }

    /// Tells people what was done since this was called last.
    pub fn say(&mut self, text: String) {
        self.text.push(Line::new(text, &self.steps));
    }

    /// A new register.
    pub fn fresh(&mut self, typed: Typed) -> Register {
        self.types.push(typed);
        Register(self.types.len() as u32 - 1)
    }

    /// The type of a register.
    pub fn typed(&self, register: Register) -> Typed {
        self.types[register.0 as usize]
    }

    /// From here on the register holds the variable.
    pub fn bind(&mut self, variable: Variable, (register, dictionary): Carried) {
        match dictionary {
            None => {
                self.known.values.insert(variable, register);
            }
            Some(dictionary) => {
                self.known.ids.insert(variable, (register, dictionary));
            }
        }
    }

    /// Whether some register holds the variable.
    pub fn has(&self, variable: Variable) -> bool {
        self.known.values.contains_key(&variable) || self.known.ids.contains_key(&variable)
    }

    /// The table that it scans, by position in [`Carver::tables`].
    pub(crate) fn scanned(&self) -> Option<usize> {
        match &self.source {
            Source::Table(table) => Some(table.table),
            _ => None,
        }
    }

    pub(crate) fn compute(&mut self, op: Op, typed: Typed, guard: Option<Register>, fits: bool) -> Register {
        let to = self.fresh(typed);
        self.steps.push(Step::Compute(Compute { to, typed, op, guard, fits }));
        to
    }

    fn nullable(&self, registers: &[Register]) -> bool {
        registers.iter().any(|register| self.typed(*register).nullable)
    }

    /// A variable as a value.
    fn variable(&mut self, carver: &Carver<'_>, variable: Variable) -> Result<Register, Reason> {
        if let Some(register) = self.known.values.get(&variable) {
            return Ok(*register);
        }
        if let Some(computed) = self.computed(carver, variable) {
            let register = self.value(carver, &computed, computed.facts().value)?;
            self.known.values.insert(variable, register);
            return Ok(register);
        }
        let loaded = self.load(carver, variable, None)?;
        let wanted = carver.info(variable).facts.value;
        let typed = self.typed(loaded);
        // Wide columns whose values are small go on in eight bytes.
        let register = match typed.value == wanted {
            true => loaded,
            false => self.compute(Op::Convert(loaded), Typed { value: wanted, ..typed }, None, true),
        };
        self.known.values.insert(variable, register);
        Ok(register)
    }

    /// What a variable is computed as in the pipeline that scans its table, which this must be.
    fn computed(&self, carver: &Carver<'_>, variable: Variable) -> Option<Scalar> {
        let table = &carver.tables[self.scanned()?];
        table.computed.iter().find(|(known, _)| *known == variable).map(|(_, scalar)| scalar.clone())
    }

    /// Loads a column of the scanned table.
    fn load(
        &mut self,
        carver: &Carver<'_>,
        variable: Variable,
        dictionary: Option<DictionaryId>,
    ) -> Result<Register, Reason> {
        let info = carver.info(variable);
        let scanned = self.scanned();
        let Some((table, column)) = info.column.filter(|(table, _)| Some(*table) == scanned) else {
            return Err(Reason::new(format!("column {} does not reach its use", info.name)));
        };
        if let Some(register) = self.loaded.get(&(column, dictionary)) {
            return Ok(*register);
        }
        let physical = carver.tables[table].physical(column);
        let value = match (dictionary, info.facts.value) {
            (Some(_), _) => ValueType::I64,
            (None, ValueType::Bool) => ValueType::Bool,
            (None, _) => SourceColumn::widened(physical),
        };
        let typed = Typed { value, nullable: info.facts.nullable };
        let to = self.fresh(typed);
        let name = carver.tables[table].table.columns[column].name.clone();
        if let Source::Table(TableSource { columns, .. }) = &mut self.source {
            columns.push(SourceColumn { column, name, physical, typed, dictionary, to });
        }
        self.loaded.insert((column, dictionary), to);
        Ok(to)
    }

    /// A scalar that is only carried: as ids where its variable has a dictionary.
    pub fn carried(
        &mut self,
        carver: &Carver<'_>,
        scalar: &Scalar,
        dictionary: Option<DictionaryId>,
    ) -> Result<Carried, Reason> {
        let (Some(variable), Some(dictionary)) = (scalar.as_variable(), dictionary) else {
            return Ok((self.value(carver, scalar, scalar.facts().value)?, None));
        };
        if let Some((register, dictionary)) = self.known.ids.get(&variable) {
            return Ok((*register, Some(*dictionary)));
        }
        let register = self.load(carver, variable, Some(dictionary))?;
        self.known.ids.insert(variable, (register, dictionary));
        Ok((register, Some(dictionary)))
    }

    /// A scalar as a value of this type.
    pub fn value(&mut self, carver: &Carver<'_>, scalar: &Scalar, value: ValueType) -> Result<Register, Reason> {
        self.guarded(carver, scalar, value, None)
    }

    fn guarded(
        &mut self,
        carver: &Carver<'_>,
        scalar: &Scalar,
        value: ValueType,
        guard: Option<Register>,
    ) -> Result<Register, Reason> {
        if let Some(literal) = scalar.as_constant() {
            return Ok(self.constant(literal, value));
        }
        let guard = guard.filter(|_| scalar.fallible());
        let register = self.own(carver, scalar, guard)?;
        let typed = self.typed(register);
        match (typed.value, value) {
            (have, want) if have == want => Ok(register),
            (ValueType::I64, ValueType::I128) => {
                if let Some(known) = self.known.widened.get(&(register, guard)) {
                    return Ok(*known);
                }
                let wide = self.compute(Op::Convert(register), Typed { value, ..typed }, guard, true);
                self.known.widened.insert((register, guard), wide);
                Ok(wide)
            }
            (have, want) => Err(Reason::new(format!("{have:?} where {want:?} is wanted"))),
        }
    }

    fn constant(&mut self, literal: &Literal, value: ValueType) -> Register {
        let key = (literal.clone(), value);
        if let Some(register) = self.known.constants.get(&key) {
            return *register;
        }
        let typed = Typed { value, nullable: *literal == Literal::Null };
        let register = self.compute(Op::Constant(literal.constant()), typed, None, true);
        self.known.constants.insert(key, register);
        register
    }

    /// A scalar in the type of its shape.
    fn own(&mut self, carver: &Carver<'_>, scalar: &Scalar, guard: Option<Register>) -> Result<Register, Reason> {
        for guard in [None, guard] {
            if let Some(register) = self.known.scalars.get(&(scalar.clone(), guard)) {
                return Ok(*register);
            }
        }
        let register = self.node(carver, scalar, guard)?;
        self.known.scalars.insert((scalar.clone(), guard), register);
        Ok(register)
    }

    fn node(&mut self, carver: &Carver<'_>, scalar: &Scalar, guard: Option<Register>) -> Result<Register, Reason> {
        let facts = scalar.facts();
        let own = facts.value;
        let op = match scalar.node() {
            Node::Variable(variable) => return self.variable(carver, *variable),
            Node::Constant(literal) => return Ok(self.constant(literal, own)),
            Node::Case { branches, otherwise } => return self.case(carver, branches, otherwise, own, guard),
            Node::Arithmetic(op, a, b) => {
                Op::Arithmetic(*op, self.guarded(carver, a, own, guard)?, self.guarded(carver, b, own, guard)?)
            }
            Node::Negate(a) => Op::Negate(self.guarded(carver, a, own, guard)?),
            Node::Compare(op, a, b) => {
                let common = wider(a.facts().value, b.facts().value);
                Op::Compare(*op, self.guarded(carver, a, common, guard)?, self.guarded(carver, b, common, guard)?)
            }
            Node::And(a, b) => Op::And(self.guarded(carver, a, own, guard)?, self.guarded(carver, b, own, guard)?),
            Node::Or(a, b) => Op::Or(self.guarded(carver, a, own, guard)?, self.guarded(carver, b, own, guard)?),
            Node::Not(a) => Op::Not(self.guarded(carver, a, own, guard)?),
            Node::IsNull(a) => Op::IsNull(self.guarded(carver, a, a.facts().value, guard)?),
            Node::Coalesce(a, b) => {
                Op::Coalesce(self.guarded(carver, a, own, guard)?, self.guarded(carver, b, own, guard)?)
            }
            Node::Convert(a) => Op::Convert(self.guarded(carver, a, a.facts().value, guard)?),
            Node::DatePart(part, a) => Op::DatePart(*part, self.guarded(carver, a, a.facts().value, guard)?),
            Node::Length(a) => Op::Length(self.guarded(carver, a, ValueType::Bytes, guard)?),
            Node::Like(a, pattern) => {
                Op::Like { value: self.guarded(carver, a, a.facts().value, guard)?, pattern: pattern.clone() }
            }
            Node::In(a, list) => Op::In {
                value: self.guarded(carver, a, a.facts().value, guard)?,
                list: list.iter().map(Literal::constant).collect(),
            },
            Node::Substring { value, start, length } => Op::Substring {
                value: self.guarded(carver, value, ValueType::Bytes, guard)?,
                start: *start,
                length: *length,
            },
        };
        let nullable = match &op {
            Op::IsNull(_) => false,
            Op::Coalesce(a, b) => self.nullable(&[*a]) && self.nullable(&[*b]),
            op => self.nullable(&op.operands()),
        };
        Ok(self.compute(op, Typed { value: own, nullable }, guard, scalar.fits()))
    }

    fn case(
        &mut self,
        carver: &Carver<'_>,
        branches: &[(Scalar, Scalar)],
        otherwise: &Scalar,
        value: ValueType,
        guard: Option<Register>,
    ) -> Result<Register, Reason> {
        let mut arms = Vec::with_capacity(branches.len());
        // Whether no earlier condition was true.
        let mut open: Option<Register> = guard;
        let checks = |from: usize| {
            branches[from..].iter().any(|(when, then)| when.fallible() || then.fallible()) || otherwise.fallible()
        };
        for (index, (when, then)) in branches.iter().enumerate() {
            let condition = self.guarded(carver, when, ValueType::Bool, open)?;
            let taken = match then.fallible() || checks(index + 1) {
                true => Some(self.truth(condition, when.fallible().then_some(open).flatten())),
                false => None,
            };
            let branch_guard = match (open, taken) {
                (Some(open), Some(taken)) => Some(self.both(open, taken)),
                (None, taken) => taken,
                (open, None) => open,
            };
            let result = self.guarded(carver, then, value, branch_guard)?;
            arms.push((condition, result));
            if let Some(taken) = taken.filter(|_| checks(index + 1)) {
                let guard = when.fallible().then_some(open).flatten();
                let not = self.compute(Op::Not(taken), Typed::required(ValueType::Bool), guard, true);
                open = Some(match open {
                    Some(open) => self.both(open, not),
                    None => not,
                });
            }
        }
        let mut result = self.guarded(carver, otherwise, value, open)?;
        for (condition, then) in arms.into_iter().rev() {
            let nullable = self.nullable(&[then, result]);
            let op = Op::Select { condition, then, otherwise: result };
            result = self.compute(op, Typed { value, nullable }, guard, true);
        }
        Ok(result)
    }

    /// Whether a condition is true: never NULL.
    fn truth(&mut self, condition: Register, guard: Option<Register>) -> Register {
        if !self.typed(condition).nullable {
            return condition;
        }
        let no = self.constant(&Literal::Bool(false), ValueType::Bool);
        self.compute(Op::Coalesce(condition, no), Typed::required(ValueType::Bool), guard, true)
    }

    /// Both are true. Where the first is a guard of the second, the second holds anything where the first is false.
    fn both(&mut self, first: Register, second: Register) -> Register {
        let no = self.constant(&Literal::Bool(false), ValueType::Bool);
        let op = Op::Select { condition: first, then: second, otherwise: no };
        self.compute(op, Typed::required(ValueType::Bool), None, true)
    }

    /// Keeps the rows that pass.
    pub fn filter(&mut self, carver: &Carver<'_>, predicate: &Scalar) -> Result<(), Reason> {
        let register = self.value(carver, predicate, ValueType::Bool)?;
        self.steps.push(Step::Filter(register));
        Ok(())
    }

    /// What a pair of rows must pass; `seen` are the build side's columns.
    pub fn condition(
        &mut self,
        carver: &Carver<'_>,
        residual: &[Scalar],
        seen: &[(Variable, Carried)],
    ) -> Result<Option<Condition>, Reason> {
        let Some((first, rest)) = residual.split_first() else { return Ok(None) };
        let known = self.known.clone();
        let steps = std::mem::take(&mut self.steps);
        for (variable, carried) in seen {
            self.bind(*variable, *carried);
        }
        let all = rest.iter().try_fold(first.clone(), |all, next| Scalar::and(all, next.clone()))?;
        let passes = self.value(carver, &all, ValueType::Bool)?;
        self.known = known;
        let computes = std::mem::replace(&mut self.steps, steps).into_iter().map(|step| match step {
            Step::Compute(compute) => Ok(compute),
            _ => Err(Reason::new("a join condition with a subquery")),
        });
        Ok(Some(Condition { computes: computes.collect::<Result<_, _>>()?, passes }))
    }
}

/// The wider of two integer types.
pub fn wider(a: ValueType, b: ValueType) -> ValueType {
    match (a, b) {
        (ValueType::I64, ValueType::I128) => ValueType::I128,
        (a, _) => a,
    }
}
