//! Groups: the pipeline that makes them, and the one that reads them.

use std::collections::BTreeSet;

use forebay_pipeline::ir::{
    Aggregate as StateAggregate, AggregateState, Register, Sink, Source, State, StateId, Typed,
};

use crate::display::{list, state_name};
use crate::emit::Emitter;
use crate::emit::share::{KnownGroups, counted};
use crate::estimate::variables_of;
use crate::facts::Variable;
use crate::reason::Reason;
use crate::registers::Flow;
use crate::relation::Aggregate;
use crate::scalar::Scalar;

impl Emitter<'_, '_> {
    pub(super) fn aggregate(&mut self, aggregate: &Aggregate, needed: &BTreeSet<Variable>) -> Result<Flow, Reason> {
        let carver = self.carver;
        let keys: Vec<Scalar> = aggregate.keys.iter().map(|(_, key)| key.clone()).collect();
        // Sums and counts that nobody reads need not be made.
        let calls: Vec<_> = aggregate.calls.iter().filter(|call| needed.contains(&call.result)).collect();
        let below = variables_of(keys.iter().chain(calls.iter().filter_map(|call| call.argument.as_ref())));
        let restriction = self.restriction.take();
        let mut flow = self.flow(&aggregate.input, &below)?;
        if let Some(restriction) = restriction {
            self.restrict(&mut flow, aggregate, restriction)?;
        }
        self.bind_singles(&mut flow, keys.iter().chain(calls.iter().filter_map(|call| call.argument.as_ref())))?;
        let mut carried = Vec::with_capacity(keys.len());
        for key in &keys {
            carried.push(self.carried(&mut flow, key)?);
        }
        let mut arguments = Vec::with_capacity(calls.len());
        let mut aggregates = Vec::with_capacity(calls.len());
        for call in &calls {
            let argument = match &call.argument {
                Some(argument) => Some(flow.value(carver, argument, argument.facts().value)?),
                None => None,
            };
            let typed = argument.map(|register| flow.typed(register));
            aggregates.push(StateAggregate { function: call.function, argument: typed });
            arguments.push(argument);
        }
        let mut registers: Vec<Register> = carried.iter().map(|(register, _)| *register).collect();
        let results: Vec<Typed> = aggregates.iter().map(StateAggregate::result).collect();
        let before = self.grouped_before(&mut flow, &mut registers, &mut arguments, &mut aggregates);
        let known = before.unwrap_or_else(|| {
            let key_types: Vec<Typed> = registers.iter().map(|register| flow.typed(*register)).collect();
            let expected = carver.groups(keys.iter(), carver.rows(&aggregate.input));
            let state = self.state(State::Aggregate(AggregateState { keys: key_types, aggregates }), Some(expected));
            let by = if keys.is_empty() { String::new() } else { format!(" by {}", list(carver, &keys)) };
            let computed: Vec<String> = calls.iter().map(|call| crate::display::call(carver, call)).collect();
            let text = format!("aggregate {}{by}: {}", state_name(state), computed.join(", "));
            let (parts, results) = (registers.len(), arguments.len());
            self.finish(flow, Sink::Aggregate { state, keys: registers, arguments }, text);
            KnownGroups { state, keys: (0..parts).collect(), calls: (parts..parts + results).collect() }
        });
        // The groups.
        let state = known.state;
        let source = Source::Groups { state, columns: Vec::new() };
        let mut flow = Flow::new(source, format!("groups of {}", state_name(state)));
        let columns: Vec<Register> = self.group_types(state).into_iter().map(|typed| flow.fresh(typed)).collect();
        for (((variable, _), (_, dictionary)), at) in aggregate.keys.iter().zip(&carried).zip(known.keys) {
            flow.bind(*variable, (columns[at], *dictionary));
        }
        for ((call, at), expected) in calls.iter().zip(known.calls).zip(results) {
            let register = counted(&mut flow, columns[at], expected);
            flow.bind(call.result, (register, None));
        }
        flow.source = Source::Groups { state, columns };
        Ok(flow)
    }

    /// The types of a state's keys and results.
    fn group_types(&self, state: StateId) -> Vec<Typed> {
        let State::Aggregate(groups) = &self.program.states[state.0 as usize] else { return Vec::new() };
        groups.keys.iter().copied().chain(groups.aggregates.iter().map(StateAggregate::result)).collect()
    }
}
