//! Relations as a program: one pipeline for each build side, aggregation and result, in the order in which they run.
//!
//! Only what is used above a pipeline breaker is carried over it. Strings that are nowhere computed with are carried as ids
//! of a dictionary where their column has few different ones.

mod groups;
pub mod reduce;
mod share;

use std::collections::{BTreeSet, HashMap};

use forebay_pipeline::ir::{
    DictionaryId, JoinState, Pipeline, Probe, ProbeKind, Program, Register, Sink, Source, State, StateId, Step,
    TableSource, Typed, ValueType,
};

use crate::carver::Carver;
use crate::dictionaries;
use crate::display::{join_text, list, shown, state_name};
use crate::emit::reduce::Restriction;
use crate::emit::share::{FilledStates, first_scan};
use crate::estimate::{ExpectedScans, expect, variables_of};
use crate::facts::Variable;
use crate::reason::Reason;
use crate::registers::{Carried, Flow, wider};
use crate::relation::{Join, JoinKind, Relation};
use crate::scalar::Scalar;
use forebay_tables::tree::Line;

/// A program and how it reads.
#[derive(Debug)]
pub struct Emitted {
    /// The program.
    pub program: Program,
    /// Per pipeline: its source, its steps, its sink.
    pub text: Vec<Vec<Line>>,
    /// Per state: the rows or groups that it is expected to hold.
    pub expected_rows: Vec<Option<f64>>,
    /// Per table that a pipeline scans: the rows that are expected to go on.
    pub expected_scans: ExpectedScans,
    /// Per column of the result: the dictionary whose ids it holds.
    pub dictionaries: Vec<Option<DictionaryId>>,
}

/// Writes the program that gives `columns` of `relation`.
pub fn emit(carver: &Carver<'_>, relation: &Relation, columns: &[Scalar]) -> Result<Emitted, Reason> {
    let computed = dictionaries::computed_with(carver, relation, columns);
    let mut emitter = Emitter {
        carver,
        program: Program::default(),
        text: Vec::new(),
        expected_rows: Vec::new(),
        expected_scans: ExpectedScans::new(),
        computed,
        dictionaries: HashMap::new(),
        one_row_relations: vec![None; carver.one_row_relations.len()],
        restriction: None,
        key_states: HashMap::new(),
        filled: FilledStates::of(carver),
    };
    let mut flow = emitter.flow(relation, &variables_of(columns))?;
    emitter.bind_singles(&mut flow, columns)?;
    let carried = columns.iter().map(|column| emitter.carried(&mut flow, column)).collect::<Result<Vec<_>, _>>()?;
    let (columns, dictionaries) = carried.into_iter().unzip();
    emitter.finish(flow, Sink::Collect { columns }, "collect".to_owned());
    let Emitter { program, text, expected_rows, expected_scans, .. } = emitter;
    Ok(Emitted { program, text, expected_rows, expected_scans, dictionaries })
}

/// Writes pipelines, the build sides before what probes them.
pub(crate) struct Emitter<'a, 'b> {
    pub(crate) carver: &'a Carver<'b>,
    pub(crate) program: Program,
    pub(crate) text: Vec<Vec<Line>>,
    /// Per state.
    pub(crate) expected_rows: Vec<Option<f64>>,
    /// Per table that a pipeline scans.
    pub(crate) expected_scans: ExpectedScans,
    /// Columns of strings whose values are needed somewhere else than where they are scanned.
    pub(crate) computed: BTreeSet<Variable>,
    /// By the first scan of the table and its column.
    pub(crate) dictionaries: HashMap<(usize, usize), DictionaryId>,
    /// The states of relations of one row, once they are built.
    pub(crate) one_row_relations: Vec<Option<StateId>>,
    /// For the aggregation that comes next.
    pub(crate) restriction: Option<Restriction>,
    /// States that hold every value of a variable as their only key, with their rows.
    pub(crate) key_states: HashMap<Variable, (StateId, f64)>,
    /// What states were filled with.
    filled: FilledStates,
}

/// Variables that are carried with what they are made of; and those that are a part of a join's key, and which.
type Wanted = (Vec<(Variable, Scalar)>, Vec<(Variable, usize)>);

impl Emitter<'_, '_> {
    fn state(&mut self, state: State, expected_rows: Option<f64>) -> StateId {
        self.program.states.push(state);
        self.expected_rows.push(expected_rows);
        StateId(self.program.states.len() as u32 - 1)
    }

    fn finish(&mut self, mut flow: Flow, sink: Sink, text: String) {
        flow.say(text);
        self.text.push(flow.text);
        self.program.pipelines.push(Pipeline { source: flow.source, steps: flow.steps, sink });
    }

    /// The dictionary of a variable that is carried as its ids.
    fn dictionary(&mut self, variable: Variable) -> Option<DictionaryId> {
        let carver = self.carver;
        let origin = carver.origin(variable);
        let info = carver.info(origin);
        let (table, column) = info.column?;
        let wanted = info.facts.value == ValueType::Bytes
            && !self.computed.contains(&origin)
            && carver.tables[table].is_dictionary(column);
        if !wanted {
            return None;
        }
        let next = DictionaryId(self.dictionaries.len() as u32);
        let dictionary = *self.dictionaries.entry((first_scan(carver, table), column)).or_insert(next);
        self.program.dictionaries = self.dictionaries.len() as u32;
        Some(dictionary)
    }

    fn carried(&mut self, flow: &mut Flow, scalar: &Scalar) -> Result<Carried, Reason> {
        let dictionary = scalar.as_variable().and_then(|variable| self.dictionary(variable));
        flow.carried(self.carver, scalar, dictionary)
    }

    /// The rows of a relation; `needed` are the variables that are used above.
    fn flow(&mut self, relation: &Relation, needed: &BTreeSet<Variable>) -> Result<Flow, Reason> {
        let mut flow = self.flow_of(relation, needed)?;
        let rows = self.carver.rows(relation);
        flow.text.last_mut().into_iter().for_each(|last| last.text += &format!(" (~{rows:.0} rows)"));
        let rows_in = if let Relation::Join(join) = relation { self.carver.rows(&join.probe) } else { rows };
        flow.scanned().into_iter().for_each(|table| expect(&mut self.expected_scans, table, (rows_in, rows), relation));
        Ok(flow)
    }

    fn flow_of(&mut self, relation: &Relation, needed: &BTreeSet<Variable>) -> Result<Flow, Reason> {
        match relation {
            Relation::Scan(table) => Ok(self.scan(*table)),
            Relation::Filter { input, predicates } => {
                let mut below = needed.clone();
                below.extend(variables_of(predicates));
                let mut flow = self.flow(input, &below)?;
                self.filters(&mut flow, predicates)?;
                Ok(flow)
            }
            Relation::Join(join) => match &join.kind {
                JoinKind::Built { matched } => self.marked(join, *matched, needed),
                _ => self.probe(join, needed),
            },
            Relation::Aggregate(aggregate) => self.aggregate(aggregate, needed),
            Relation::Group(_) => Err(Reason::new("a join without an order")),
        }
    }

    fn scan(&mut self, table: usize) -> Flow {
        let scanned = &self.carver.tables[table];
        let mut text = format!("scan {}", scanned.table.full_name());
        if scanned.alias != scanned.table.name {
            text += &format!(" as {}", scanned.alias);
        }
        if !scanned.tests.is_empty() {
            let tests = scanned.tests.iter();
            let tests: Vec<String> = tests
                .map(|test| forebay_tables::explain::test_text(&scanned.table.columns[test.column], &test.test))
                .collect();
            text += &format!(", on codes: {}", tests.join(" AND "));
        }
        if !scanned.residual.is_empty() {
            let filters: Vec<String> = scanned.residual.iter().map(ToString::to_string).collect();
            text += &format!(", on rows: {}", filters.join(" AND "));
        }
        let source =
            TableSource { table, name: scanned.table.full_name(), columns: Vec::new(), tests: scanned.tests.clone() };
        Flow::new(Source::Table(source), text)
    }

    fn filters(&mut self, flow: &mut Flow, predicates: &[Scalar]) -> Result<(), Reason> {
        self.bind_singles(flow, predicates)?;
        for predicate in predicates {
            flow.filter(self.carver, predicate)?;
            flow.say(format!("filter {}", shown(self.carver, predicate)));
        }
        Ok(())
    }

    /// Looks up the one row of every relation of one row that these scalars use.
    fn bind_singles<'s>(
        &mut self,
        flow: &mut Flow,
        scalars: impl IntoIterator<Item = &'s Scalar>,
    ) -> Result<(), Reason> {
        for variable in variables_of(scalars) {
            if flow.has(variable) {
                continue;
            }
            let Some(position) = self.carver.single_of(variable) else { continue };
            let state = self.single(position)?;
            let key = flow.value(self.carver, &Scalar::integer(1), ValueType::I64)?;
            let seen = self.payload_registers(flow, state, false, |_| true);
            let columns = seen.iter().enumerate().map(|(index, register)| (index, *register)).collect();
            flow.steps.push(Step::Probe(Probe {
                state,
                kind: ProbeKind::Inner,
                keys: vec![key],
                columns,
                condition: None,
            }));
            flow.say(format!("look up the row of {}", state_name(state)));
            let single = &self.carver.one_row_relations[position];
            for ((variable, _), register) in single.columns.iter().zip(seen) {
                let dictionary = self.dictionary(*variable);
                flow.bind(*variable, (register, dictionary));
            }
        }
        Ok(())
    }

    /// The state that holds a relation of one row.
    fn single(&mut self, position: usize) -> Result<StateId, Reason> {
        if let Some(state) = self.one_row_relations[position] {
            return Ok(state);
        }
        let carver = self.carver;
        let single = &carver.one_row_relations[position];
        let columns: Vec<Scalar> = single.columns.iter().map(|(_, scalar)| scalar.clone()).collect();
        let mut flow = self.flow(&single.relation, &variables_of(&columns))?;
        self.bind_singles(&mut flow, &columns)?;
        let key = flow.value(carver, &Scalar::integer(1), ValueType::I64)?;
        let payload = self.registers(&mut flow, &columns)?;
        let state = self.build(flow, vec![key], payload, false, (String::new(), 1.0));
        self.one_row_relations[position] = Some(state);
        Ok(state)
    }

    fn registers(&mut self, flow: &mut Flow, scalars: &[Scalar]) -> Result<Vec<Register>, Reason> {
        scalars.iter().map(|scalar| Ok(self.carried(flow, scalar)?.0)).collect()
    }

    /// Ends a pipeline in a build side of about so many rows.
    fn build(
        &mut self,
        flow: Flow,
        keys: Vec<Register>,
        payload: Vec<Register>,
        keeps_all: bool,
        (text, rows): (String, f64),
    ) -> StateId {
        let key_type = |register: &Register| {
            let typed = flow.typed(*register);
            // NULL keys are not kept, unless all rows are.
            Typed { nullable: typed.nullable && keeps_all, ..typed }
        };
        let state = JoinState {
            keys: keys.iter().map(key_type).collect(),
            payload: payload.iter().map(|register| flow.typed(*register)).collect(),
            keeps_all,
        };
        if let Some(before) = self.built_before(&flow, &keys, &payload, &state) {
            return before;
        }
        let state = self.state(State::Join(state), Some(rows));
        let text = format!("build {}{text}", state_name(state));
        self.finish(flow, Sink::Build { state, keys, payload }, text);
        state
    }

    /// Registers for the payload columns of a state that are wanted; all others are left out.
    fn payload_registers(
        &self,
        flow: &mut Flow,
        state: StateId,
        nullable: bool,
        wanted: impl Fn(usize) -> bool,
    ) -> Vec<Register> {
        let State::Join(state) = &self.program.states[state.0 as usize] else { return Vec::new() };
        let payload = state.payload.iter().enumerate().filter(|(index, _)| wanted(*index));
        payload.map(|(_, typed)| flow.fresh(Typed { nullable: typed.nullable || nullable, ..*typed })).collect()
    }

    /// What is read of a join's build side besides its keys; and for an inner join its keys by part that are variables:
    /// they are the probe's and need not be carried twice.
    fn wanted(&self, join: &Join, needed: &BTreeSet<Variable>, residual: &BTreeSet<Variable>) -> Wanted {
        let carver = self.carver;
        let mut owned = BTreeSet::new();
        join.build.variables(carver, &mut owned);
        let mut wanted: Vec<(Variable, Scalar)> = match &join.kind {
            JoinKind::Left(renamed) => renamed.iter().filter(|(seen, _)| needed.contains(seen)).cloned().collect(),
            JoinKind::Inner => needed.intersection(&owned).map(|v| (*v, carver.scalar(*v))).collect(),
            _ => Vec::new(),
        };
        for variable in residual.intersection(&owned) {
            if !wanted.iter().any(|(known, _)| known == variable) {
                wanted.push((*variable, carver.scalar(*variable)));
            }
        }
        let equal_keys: Vec<(Variable, usize)> = match join.kind {
            JoinKind::Inner => {
                (0..join.keys.len()).filter_map(|part| Some((self.equal_key(join, part)?, part))).collect()
            }
            _ => Vec::new(),
        };
        wanted.retain(|(variable, _)| !equal_keys.iter().any(|(equal_key, _)| equal_key == variable));
        (wanted, equal_keys)
    }

    /// A join whose probing rows go on.
    fn probe(&mut self, join: &Join, needed: &BTreeSet<Variable>) -> Result<Flow, Reason> {
        let carver = self.carver;
        let residual = variables_of(&join.residual);
        let is_inner = matches!(join.kind, JoinKind::Inner);
        let (wanted, equal_keys) = self.wanted(join, needed, &residual);
        let mut below = needed.clone();
        below.extend(&residual);
        below.extend(variables_of(join.keys.iter().map(|(key, _)| key)));
        // The build side comes first, unless build sides of the probing side tell which of its rows can be met at all.
        let (state, mut flow) = if self.is_reduced_by_probe(join) {
            let flow = self.flow(&join.probe, &below)?;
            (self.build_side(join, &wanted, false)?, flow)
        } else {
            let state = self.build_side(join, &wanted, false)?;
            if matches!(join.kind, JoinKind::Inner | JoinKind::Semi) {
                self.restriction = self.restriction(join, state);
            }
            (state, self.flow(&join.probe, &below)?)
        };
        self.keep_keys(join, state);
        self.bind_singles(&mut flow, join.keys.iter().map(|(key, _)| key).chain(&join.residual))?;
        let keys = self.key_registers(&mut flow, join, |(probe, _)| probe)?;
        if matches!(join.kind, JoinKind::Inner | JoinKind::Semi) {
            self.reduce(&mut flow, join)?;
        }
        let is_left = matches!(join.kind, JoinKind::Left(_));
        let registers = self.payload_registers(&mut flow, state, is_left, |_| true);
        let mut seen: Vec<(Variable, Carried)> = Vec::with_capacity(registers.len());
        for ((variable, _), register) in wanted.iter().zip(&registers) {
            seen.push((*variable, (*register, self.dictionary(*variable))));
        }
        let columns = registers.into_iter().enumerate().collect();
        if is_inner {
            for (variable, part) in equal_keys {
                let probe = &join.keys[part].0;
                let register = flow.value(carver, probe, probe.facts().value)?;
                flow.bind(variable, (register, None));
            }
        }
        let condition = if is_inner { None } else { flow.condition(carver, &join.residual, &seen)? };
        let (kind, name) = match &join.kind {
            JoinKind::Inner | JoinKind::Built { .. } => (ProbeKind::Inner, "join"),
            JoinKind::Left(_) => (ProbeKind::Left, "left join"),
            JoinKind::Semi => (ProbeKind::Semi, "semi join"),
            JoinKind::Anti => (ProbeKind::Anti, "anti join"),
            JoinKind::Mark(mark) => {
                let register = flow.fresh(Typed::required(ValueType::Bool));
                flow.bind(*mark, (register, None));
                (ProbeKind::Mark(register), "mark join")
            }
        };
        flow.steps.push(Step::Probe(Probe { state, kind, keys, columns, condition }));
        flow.say(join_text(carver, join, name, state));
        match &join.kind {
            JoinKind::Inner => {
                seen.into_iter().for_each(|(variable, carried)| flow.bind(variable, carried));
                self.filters(&mut flow, &join.residual)?;
            }
            JoinKind::Left(renamed) => {
                let is_seen = |variable: &Variable| renamed.iter().any(|(seen, _)| seen == variable);
                let above = seen.into_iter().filter(|(variable, _)| is_seen(variable));
                above.for_each(|(variable, carried)| flow.bind(variable, carried));
            }
            _ => {}
        }
        Ok(flow)
    }

    /// The build side's variable of a key part that has the values and the type of the probe's.
    fn equal_key(&self, join: &Join, part: usize) -> Option<Variable> {
        let (probe, build) = &join.keys[part];
        let same = probe.facts().value == build.facts().value && build.facts().value != ValueType::Bytes;
        build.as_variable().filter(|_| same)
    }

    fn build_side(&mut self, join: &Join, wanted: &[(Variable, Scalar)], keeps_all: bool) -> Result<StateId, Reason> {
        let mut below = variables_of(wanted.iter().map(|(_, scalar)| scalar));
        below.extend(variables_of(join.keys.iter().map(|(_, key)| key)));
        let mut flow = self.flow(&join.build, &below)?;
        let scalars: Vec<Scalar> = wanted.iter().map(|(_, scalar)| scalar.clone()).collect();
        self.bind_singles(&mut flow, scalars.iter().chain(join.keys.iter().map(|(_, key)| key)))?;
        self.reduce_build(&mut flow, join)?;
        let keys = self.key_registers(&mut flow, join, |(_, build)| build)?;
        let payload = self.registers(&mut flow, &scalars)?;
        let text = format!(" by {}", list(self.carver, join.keys.iter().map(|(_, key)| key)));
        Ok(self.build(flow, keys, payload, keeps_all, (text, self.carver.rows(&join.build))))
    }

    /// One side of a join's key, in the types that both sides have in common.
    fn key_registers(
        &mut self,
        flow: &mut Flow,
        join: &Join,
        side: impl Fn(&(Scalar, Scalar)) -> &Scalar,
    ) -> Result<Vec<Register>, Reason> {
        let part = |pair: &(Scalar, Scalar)| {
            let value = wider(pair.0.facts().value, pair.1.facts().value);
            flow.value(self.carver, side(pair), value)
        };
        join.keys.iter().map(part).collect()
    }

    /// A join whose build side's rows come out, by whether the probing side has marked them.
    fn marked(&mut self, join: &Join, matched: bool, needed: &BTreeSet<Variable>) -> Result<Flow, Reason> {
        let carver = self.carver;
        let mut owned = BTreeSet::new();
        join.build.variables(carver, &mut owned);
        let residual = variables_of(&join.residual);
        let wanted: BTreeSet<Variable> = needed.union(&residual).copied().collect();
        let wanted: Vec<(Variable, Scalar)> =
            wanted.intersection(&owned).map(|variable| (*variable, carver.scalar(*variable))).collect();
        let state = self.build_side(join, &wanted, true)?;
        self.restriction = self.restriction(join, state);
        let mut below = residual.clone();
        below.extend(variables_of(join.keys.iter().map(|(key, _)| key)));
        let mut flow = self.flow(&join.probe, &below)?;
        self.bind_singles(&mut flow, join.keys.iter().map(|(key, _)| key).chain(&join.residual))?;
        let keys = self.key_registers(&mut flow, join, |(probe, _)| probe)?;
        let is_read = |index: usize| residual.contains(&wanted[index].0);
        let registers = self.payload_registers(&mut flow, state, false, is_read);
        let read: Vec<usize> = (0..wanted.len()).filter(|index| is_read(*index)).collect();
        let mut seen = Vec::with_capacity(read.len());
        for (index, register) in read.iter().zip(&registers) {
            let variable = wanted[*index].0;
            seen.push((variable, (*register, self.dictionary(variable))));
        }
        let columns = read.into_iter().zip(registers).collect();
        let condition = flow.condition(carver, &join.residual, &seen)?;
        let text = join_text(carver, join, "mark", state);
        self.finish(flow, Sink::Mark { state, keys, columns, condition }, text);
        // The rows themselves.
        let types: Vec<Typed> = match &self.program.states[state.0 as usize] {
            State::Join(state) => state.keys.iter().chain(&state.payload).copied().collect(),
            State::Aggregate(_) => Vec::new(),
        };
        let what = if matched { "marked" } else { "unmarked" };
        let source = Source::BuildRows { state, matched, columns: Vec::new() };
        let mut flow = Flow::new(source, format!("{what} rows of {}", state_name(state)));
        let registers: Vec<Register> = types.into_iter().map(|typed| flow.fresh(typed)).collect();
        for ((variable, _), register) in wanted.iter().zip(&registers[join.keys.len()..]) {
            let dictionary = self.dictionary(*variable);
            flow.bind(*variable, (*register, dictionary));
        }
        flow.source = Source::BuildRows { state, matched, columns: registers };
        Ok(flow)
    }
}
