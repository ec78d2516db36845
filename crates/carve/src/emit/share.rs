//! What several parts of a query compute alike is computed once: a state that a pipeline would fill with the same rows as one
//! before is that one, and groups by fewer keys are made of those by more.

use std::collections::BTreeSet;
use std::sync::Arc;

use forebay_pipeline::ir::{
    Aggregate as StateAggregate, AggregateState, JoinState, Op, Register, Source, State, StateId, Typed,
};
use forebay_pipeline::numbering::{NumberedRows, Numbering, ValueNumber};

use crate::carver::Carver;
use crate::display::state_name;
use crate::emit::Emitter;
use crate::registers::Flow;

/// The states that were filled so far, and what with.
#[derive(Default)]
pub(crate) struct FilledStates {
    numbering: Numbering,
    states: Vec<Filled>,
    /// Nothing is computed twice where no table is read twice.
    is_of_use: bool,
}

/// A state and what it was filled with: its keys, then payload or arguments.
struct Filled {
    state: StateId,
    rows: NumberedRows,
    keys: Vec<ValueNumber>,
    values: Vec<Option<ValueNumber>>,
}

/// Groups by at least some keys, with at least some results.
pub(crate) struct KnownGroups {
    /// Who has them.
    pub(crate) state: StateId,
    /// The keys, by their positions among the state's columns.
    pub(crate) keys: Vec<usize>,
    /// The results, likewise.
    pub(crate) calls: Vec<usize>,
}

/// Groups are read instead of a table with so many times as many rows.
const FEWER_SHARE: f64 = 0.25;

impl FilledStates {
    /// No state of the query is filled yet.
    pub(crate) fn of(carver: &Carver<'_>) -> Self {
        let is_of_use = (0..carver.tables.len()).any(|table| first_scan(carver, table) != table);
        Self { is_of_use, ..Self::default() }
    }
}

/// The first scan of the query that has the same rows to read.
pub(crate) fn first_scan(carver: &Carver<'_>, table: usize) -> usize {
    let (own, all) = (&carver.tables[table], &carver.tables);
    let is_same = |other: &usize| {
        let other = &all[*other];
        Arc::ptr_eq(&other.table, &own.table) && other.residual.is_empty() && own.residual.is_empty()
    };
    (0..table).find(is_same).unwrap_or(table)
}

impl Emitter<'_, '_> {
    /// What a state is filled with from the rows of `flow`; `None` where that is of no use.
    fn filled(
        &mut self,
        flow: &Flow,
        keys: &[Register],
        values: impl IntoIterator<Item = Option<Register>>,
    ) -> Option<Filled> {
        if !self.filled.is_of_use {
            return None;
        }
        let mut source = flow.source.clone();
        if let Source::Table(source) = &mut source {
            if !self.carver.tables[source.table].residual.is_empty() {
                return None;
            }
            source.table = first_scan(self.carver, source.table);
        }
        let rows = self.filled.numbering.number(&source, &flow.steps)?;
        let keys = rows.numbers(keys)?;
        let number = |value: Option<Register>| match value {
            Some(register) => Some(Some(rows.numbers([&register])?[0])),
            None => Some(None),
        };
        let values = values.into_iter().map(number).collect::<Option<_>>()?;
        Some(Filled { state: StateId(self.program.states.len() as u32), rows, keys, values })
    }

    /// The state before that has the rows which this build side would have; else this one is remembered, with the number that
    /// the next state gets.
    pub(crate) fn built_before(
        &mut self,
        flow: &Flow,
        keys: &[Register],
        payload: &[Register],
        state: &JoinState,
    ) -> Option<StateId> {
        // Rows that are marked are changed by it.
        if state.keeps_all {
            return None;
        }
        let filled = self.filled(flow, keys, payload.iter().copied().map(Some))?;
        let is_same = |before: &&Filled| {
            let known = &self.program.states[before.state.0 as usize];
            before.rows.are_those_of(&filled.rows)
                && (&before.keys, &before.values) == (&filled.keys, &filled.values)
                && matches!(known, State::Join(known) if known == state)
        };
        let before = self.filled.states.iter().find(is_same).map(|before| before.state);
        if before.is_none() {
            self.filled.states.push(filled);
        }
        before
    }

    /// Groups before that have all of these. Where there are only finer ones, `flow` reads them from here on, and keys, arguments
    /// and aggregates are what is to be computed of them.
    pub(crate) fn grouped_before(
        &mut self,
        flow: &mut Flow,
        keys: &mut Vec<Register>,
        arguments: &mut Vec<Option<Register>>,
        aggregates: &mut Vec<StateAggregate>,
    ) -> Option<KnownGroups> {
        let mut filled = self.filled(flow, keys, arguments.iter().copied())?;
        if let Some(known) = self.groups_with(&filled, aggregates) {
            let State::Aggregate(groups) = &self.program.states[known.state.0 as usize] else { return None };
            let groups = groups.clone();
            let parts: BTreeSet<usize> = known.keys.iter().copied().collect();
            if parts.len() == groups.keys.len() {
                return Some(known);
            }
            if self.is_worth_reading(&known, flow) {
                self.read_groups(flow, &groups, &known, (keys, arguments, aggregates));
                filled = self.filled(flow, keys, arguments.iter().copied())?;
            }
        }
        self.filled.states.push(filled);
        None
    }

    /// Whether groups are far fewer than the rows that `flow` would read once more.
    fn is_worth_reading(&self, known: &KnownGroups, flow: &Flow) -> bool {
        let groups = self.expected_rows[known.state.0 as usize].unwrap_or(f64::INFINITY);
        match flow.scanned() {
            Some(table) => groups <= FEWER_SHARE * self.carver.tables[table].table.rows() as f64,
            None => true,
        }
    }

    /// Groups before by at least the same keys, with results that those of `filled` can be computed from.
    fn groups_with(&self, filled: &Filled, aggregates: &[StateAggregate]) -> Option<KnownGroups> {
        self.filled.states.iter().find_map(|before| {
            let State::Aggregate(groups) = &self.program.states[before.state.0 as usize] else { return None };
            if !before.rows.are_those_of(&filled.rows) {
                return None;
            }
            let part = |key: &ValueNumber| before.keys.iter().position(|known| known == key);
            let keys = filled.keys.iter().map(part).collect::<Option<Vec<_>>>()?;
            let call = |(aggregate, value): (&StateAggregate, &Option<ValueNumber>)| {
                aggregate.function.over_groups()?;
                let known = groups.aggregates.iter().zip(&before.values);
                let at = known.into_iter().position(|known| known == (aggregate, value))?;
                Some(groups.keys.len() + at)
            };
            let calls = aggregates.iter().zip(&filled.values).map(call).collect::<Option<Vec<_>>>()?;
            Some(KnownGroups { state: before.state, keys, calls })
        })
    }

    /// Has `flow` read finer groups.
    fn read_groups(
        &self,
        flow: &mut Flow,
        groups: &AggregateState,
        finer: &KnownGroups,
        (keys, arguments, aggregates): (&mut Vec<Register>, &mut Vec<Option<Register>>, &mut Vec<StateAggregate>),
    ) {
        let rows = self.expected_rows[finer.state.0 as usize].unwrap_or_default();
        let text = format!("groups of {} (~{rows:.0} rows)", state_name(finer.state));
        *flow = Flow::new(Source::Groups { state: finer.state, columns: Vec::new() }, text);
        let results = groups.aggregates.iter().map(StateAggregate::result);
        let columns: Vec<Register> =
            groups.keys.iter().copied().chain(results).map(|typed| flow.fresh(typed)).collect();
        *keys = finer.keys.iter().map(|part| columns[*part]).collect();
        *arguments = finer.calls.iter().map(|at| Some(columns[*at])).collect();
        for (aggregate, at) in aggregates.iter_mut().zip(&finer.calls) {
            let function = aggregate.function.over_groups().unwrap_or(aggregate.function);
            *aggregate = StateAggregate { function, argument: Some(flow.typed(columns[*at])) };
        }
        flow.source = Source::Groups { state: finer.state, columns };
    }
}

/// Counts over no group at all are 0, where the sum of counts is NULL: what `register` says instead of that.
pub(crate) fn counted(flow: &mut Flow, register: Register, expected: Typed) -> Register {
    if flow.typed(register) == expected || expected.nullable {
        return register;
    }
    let zero = flow.compute(Op::Constant(forebay_pipeline::ir::Constant::Int(0)), expected, None, false);
    flow.compute(Op::Coalesce(register, zero), expected, None, false)
}
