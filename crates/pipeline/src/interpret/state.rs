//! What pipelines leave behind: build sides and groups, as lists of rows with a map from key to row.

use std::collections::HashMap;

use forebay_base::{Error, Result};

use super::evaluate::Registers;
use crate::ir::*;
use crate::semantics::{arithmetic_f64, arithmetic_i128, narrow};
use crate::{Fault, Scalar};

/// A build side.
#[derive(Debug)]
pub(super) struct JoinRows {
    state: JoinState,
    /// Key parts, then payload.
    rows: Vec<Vec<Scalar>>,
    matched: Vec<bool>,
    by_key: HashMap<Vec<Scalar>, Vec<usize>>,
}

impl JoinRows {
    pub(super) fn new(state: &JoinState) -> Self {
        Self { state: state.clone(), rows: Vec::new(), matched: Vec::new(), by_key: HashMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn types(&self) -> Vec<Typed> {
        self.state.keys.iter().chain(&self.state.payload).copied().collect()
    }

    pub(super) fn payload_type(&self, column: usize) -> Typed {
        self.state.payload[column]
    }

    pub(super) fn push(&mut self, mut key: Vec<Scalar>, payload: Vec<Scalar>) {
        let is_null = key.iter().any(Scalar::is_null);
        if is_null && !self.state.keeps_all {
            return;
        }
        if !is_null {
            self.by_key.entry(key.clone()).or_default().push(self.rows.len());
        }
        key.extend(payload);
        self.rows.push(key);
        self.matched.push(false);
    }

    /// The rows with this key; none where a part is NULL.
    pub(super) fn find(&self, key: &[Scalar]) -> &[usize] {
        self.by_key.get(key).map_or(&[], Vec::as_slice)
    }

    /// Loads payload columns of a row.
    pub(super) fn load(&self, row: usize, columns: &[(usize, Register)], registers: &mut Registers) -> Result<()> {
        columns.iter().try_for_each(|(column, to)| {
            let value = self.rows[row][self.state.keys.len() + column].clone();
            registers.set(*to, self.state.payload[*column], Some(value))
        })
    }

    pub(super) fn mark(&mut self, marks: &[bool]) {
        for (matched, mark) in self.matched.iter_mut().zip(marks) {
            *matched |= mark;
        }
    }

    /// The rows that were met, or those that were not.
    pub(super) fn rows(&self, matched: bool) -> Vec<Vec<Scalar>> {
        let rows = self.rows.iter().zip(&self.matched);
        rows.filter(|(_, met)| **met == matched).map(|(row, _)| row.clone()).collect()
    }
}

/// Groups with their aggregates.
#[derive(Debug)]
pub(super) struct Groups {
    state: AggregateState,
    groups: Vec<(Vec<Scalar>, Vec<Accumulator>)>,
    by_key: HashMap<Vec<Scalar>, usize>,
}

/// One aggregate of one group.
#[derive(Debug, Clone)]
enum Accumulator {
    Count(i64),
    /// NULL over nothing; integers are summed in 16 bytes.
    Value(Scalar),
}

impl Groups {
    pub(super) fn new(state: &AggregateState) -> Self {
        let mut groups = Self { state: state.clone(), groups: Vec::new(), by_key: HashMap::new() };
        if state.keys.is_empty() {
            groups.group(Vec::new());
        }
        groups
    }

    pub(super) fn types(&self) -> Vec<Typed> {
        let results = self.state.aggregates.iter().map(Aggregate::result);
        self.state.keys.iter().copied().chain(results).collect()
    }

    /// The position of the group with this key, which is made where there is none.
    fn group(&mut self, key: Vec<Scalar>) -> usize {
        *self.by_key.entry(key).or_insert_with_key(|key| {
            let empty = |aggregate: &Aggregate| match aggregate.function {
                AggregateFunction::CountRows | AggregateFunction::Count => Accumulator::Count(0),
                _ => Accumulator::Value(Scalar::Null),
            };
            self.groups.push((key.clone(), self.state.aggregates.iter().map(empty).collect()));
            self.groups.len() - 1
        })
    }

    /// Adds a row; one argument per aggregate, none for the count of rows.
    pub(super) fn add(&mut self, key: Vec<Scalar>, arguments: &[Option<Scalar>]) -> Result<()> {
        let group = self.group(key);
        let accumulators = self.groups[group].1.iter_mut();
        for ((accumulator, aggregate), argument) in accumulators.zip(&self.state.aggregates).zip(arguments) {
            match (accumulator, argument) {
                (_, Some(Scalar::Null)) => {}
                (Accumulator::Count(count), _) => *count += 1,
                (Accumulator::Value(value), Some(argument)) => accumulate(aggregate.function, value, argument)?,
                (Accumulator::Value(_), None) => return Err(Error::internal(format!("{aggregate} has no argument"))),
            }
        }
        Ok(())
    }

    /// Keys, then results.
    pub(super) fn rows(&self) -> Result<Vec<Vec<Scalar>>> {
        let row = |(key, accumulators): &(Vec<Scalar>, Vec<Accumulator>)| {
            let results =
                accumulators.iter().zip(&self.state.aggregates).map(|(accumulator, aggregate)| match accumulator {
                    Accumulator::Count(count) => Ok(Scalar::I64(*count)),
                    Accumulator::Value(value) => result(aggregate, value),
                });
            key.iter().cloned().map(Ok).chain(results).collect()
        };
        self.groups.iter().map(row).collect()
    }
}

/// Adds an argument that is not NULL.
fn accumulate(function: AggregateFunction, value: &mut Scalar, argument: &Scalar) -> Result<()> {
    let replaces = match function {
        AggregateFunction::Min => argument < value || value.is_null(),
        AggregateFunction::Max => argument > value,
        AggregateFunction::First => value.is_null(),
        _ => {
            *value = sum(value, argument)?;
            return Ok(());
        }
    };
    if replaces {
        *value = argument.clone();
    }
    Ok(())
}

fn sum(value: &Scalar, argument: &Scalar) -> Result<Scalar> {
    let add = |a, b| arithmetic_i128(Arithmetic::Add, a, b);
    Ok(match (value, argument) {
        (Scalar::Null, Scalar::I64(argument)) => Scalar::I128(i128::from(*argument)),
        (Scalar::Null, Scalar::I128(_) | Scalar::F64(_)) => argument.clone(),
        (Scalar::I128(sum), Scalar::I64(argument)) => Scalar::I128(add(*sum, i128::from(*argument))?),
        (Scalar::I128(sum), Scalar::I128(argument)) => Scalar::I128(add(*sum, *argument)?),
        (Scalar::F64(sum), Scalar::F64(argument)) => Scalar::float(arithmetic_f64(Arithmetic::Add, *sum, *argument)),
        _ => return Err(Error::internal(format!("a sum of {value} and {argument}"))),
    })
}

/// What an aggregate that has a value gives.
fn result(aggregate: &Aggregate, value: &Scalar) -> Result<Scalar> {
    let argument = aggregate.argument.map(|argument| argument.value);
    match (aggregate.function, argument, value) {
        (AggregateFunction::Sum, Some(ValueType::I64), Scalar::I128(sum)) => Ok(Scalar::I64(narrow(*sum)?)),
        (AggregateFunction::SumFitting, _, Scalar::I128(sum)) => match narrow(*sum) {
            Ok(sum) => Ok(Scalar::I64(sum)),
            Err(Fault::Overflow | Fault::DivisionByZero) => {
                Err(Error::internal(format!("{aggregate} was said to fit, but is {sum}")))
            }
        },
        _ => Ok(value.clone()),
    }
}
