//! Rows that a later join will not want are left out early: finished build sides are looked up once more where that saves
//! groups, or lets a scan test keys on its codes.

use forebay_pipeline::ir::{Probe, ProbeKind, State, StateId, Step, ValueType};

use crate::display::{shown, state_name};
use crate::emit::Emitter;
use crate::facts::Variable;
use crate::reason::Reason;
use crate::registers::{Flow, wider};
use crate::relation::{Aggregate, Join, JoinKind, Relation};
use crate::scalar::Scalar;

/// Groups that are not in a state are of no use: their rows can be left out before they are grouped.
pub(crate) struct Restriction {
    state: StateId,
    /// The group's keys that the state is looked up by, and the types of its keys.
    keys: Vec<(Variable, ValueType)>,
}

/// A state with more rows than this share of the groups does not restrict them.
const RESTRICTING_SHARE: f64 = 0.5;
/// A build side of fewer rows is made as it is.
const REDUCED_ROWS: f64 = 10_000.0;

impl Emitter<'_, '_> {
    /// Remembers the state of an inner join by the variable that is its only key.
    pub(crate) fn keep_keys(&mut self, join: &Join, state: StateId) {
        if let ([(_, build)], JoinKind::Inner) = (join.keys.as_slice(), &join.kind)
            && let Some(variable) = build.as_variable()
        {
            self.key_states.insert(variable, (state, self.carver.rows(&join.build)));
        }
    }

    /// Before a key of several parts is looked up, each part is, where a state holds few of its values: a scan can test a
    /// single column on its codes.
    pub(crate) fn reduce(&mut self, flow: &mut Flow, join: &Join) -> Result<(), Reason> {
        if join.keys.len() < 2 {
            return Ok(());
        }
        for (probe, build) in &join.keys {
            let known = build.as_variable().and_then(|variable| self.key_states.get(&variable)).copied();
            let Some((state, rows)) = known else { continue };
            let State::Join(held) = &self.program.states[state.0 as usize] else { continue };
            let same = held.keys.first().is_some_and(|key| key.value == probe.facts().value);
            let distinct = self.carver.groups(std::iter::once(probe), f64::INFINITY);
            if !same || probe.as_variable().is_none() || rows > RESTRICTING_SHARE * distinct {
                continue;
            }
            self.only_keys_of(flow, state, probe)?;
        }
        Ok(())
    }

    /// Leaves out rows whose `key` is not the only key of a row of `state`.
    fn only_keys_of(&self, flow: &mut Flow, state: StateId, key: &Scalar) -> Result<(), Reason> {
        let keys = vec![flow.value(self.carver, key, key.facts().value)?];
        let (kind, columns, condition) = (ProbeKind::Semi, Vec::new(), None);
        flow.steps.push(Step::Probe(Probe { state, kind, keys, columns, condition }));
        flow.say(format!("only keys of {}: {}", state_name(state), shown(self.carver, key)));
        Ok(())
    }

    /// Whether [`Emitter::reduce_build`] leaves rows of the build side out, once the probing side's build sides are there.
    pub(crate) fn is_reduced_by_probe(&self, join: &Join) -> bool {
        self.carver.rows(&join.build) >= REDUCED_ROWS && !self.reducing(join).is_empty()
    }

    /// Rows of a build side that no row of the probing side can meet are left out before they become part of a state (predicate
    /// transfer, Yang et al., CIDR 2024): where the probing side was joined with few values of a key part before.
    pub(crate) fn reduce_build(&mut self, flow: &mut Flow, join: &Join) -> Result<(), Reason> {
        if !self.is_reduced_by_probe(join) {
            return Ok(());
        }
        for (key, variable) in self.reducing(join) {
            let Some((state, _)) = self.key_states.get(&variable).copied() else { continue };
            let State::Join(held) = &self.program.states[state.0 as usize] else { continue };
            if held.keys.first().is_some_and(|held| held.value == key.facts().value) {
                self.only_keys_of(flow, state, &key)?;
            }
        }
        Ok(())
    }

    /// Keys of the build side, each with a variable that is the only key of a build side which all probing rows have met, and
    /// equals it: there are few of its values.
    fn reducing(&self, join: &Join) -> Vec<(Scalar, Variable)> {
        let mut reducing = Vec::new();
        if !matches!(join.kind, JoinKind::Inner | JoinKind::Semi | JoinKind::Left(_)) {
            return reducing;
        }
        let mut below = &*join.probe;
        loop {
            below = match below {
                Relation::Filter { input, .. } => input,
                Relation::Join(met) if !matches!(met.kind, JoinKind::Built { .. }) => {
                    reducing.extend(self.reduced_by(join, met));
                    &met.probe
                }
                _ => return reducing,
            };
        }
    }

    /// A key of the build side of `join` that equals the only key of an inner join before it, `met`, of few rows.
    fn reduced_by(&self, join: &Join, met: &Join) -> Option<(Scalar, Variable)> {
        let ([(probe, build)], JoinKind::Inner) = (met.keys.as_slice(), &met.kind) else { return None };
        let (probe, build) = (probe.as_variable()?, build.as_variable()?);
        let is_it = |(key, _): &&(Scalar, Scalar)| key.as_variable().is_some_and(|key| key == probe || key == build);
        let (_, key) = join.keys.iter().find(is_it)?;
        let distinct = self.carver.groups(std::iter::once(key), self.carver.rows(&join.build));
        (self.carver.rows(&met.build) <= RESTRICTING_SHARE * distinct).then(|| (key.clone(), build))
    }

    /// What a join's build side tells the aggregation that probes it.
    pub(crate) fn restriction(&self, join: &Join, state: StateId) -> Option<Restriction> {
        let mut probe = &*join.probe;
        while let Relation::Filter { input, .. } = probe {
            probe = input;
        }
        let Relation::Aggregate(aggregate) = probe else { return None };
        let key = |(probe, build): &(Scalar, Scalar)| {
            let variable = probe.as_variable()?;
            let (_, grouped) = aggregate.keys.iter().find(|(key, _)| *key == variable)?;
            (!grouped.fallible()).then(|| (variable, wider(probe.facts().value, build.facts().value)))
        };
        let groups = self.carver.rows(probe);
        if let Some(keys) = join.keys.iter().map(key).collect::<Option<Vec<_>>>() {
            let pays = self.carver.rows(&join.build) < RESTRICTING_SHARE * groups;
            return pays.then_some(Restriction { state, keys });
        }
        // Other parts are results of the aggregation; a state that the build side came from may hold few of a key.
        join.keys.iter().find_map(|pair| {
            let (variable, value) = key(pair)?;
            let (state, rows) = *self.key_states.get(&pair.1.as_variable()?)?;
            let State::Join(held) = &self.program.states[state.0 as usize] else { return None };
            let same = held.keys.first().is_some_and(|key| key.value == value);
            let distinct = self.carver.groups(std::iter::once(&pair.0), groups);
            (same && rows < RESTRICTING_SHARE * distinct).then(|| Restriction { state, keys: vec![(variable, value)] })
        })
    }

    /// Leaves out the rows of groups that nobody asks for.
    pub(crate) fn restrict(
        &mut self,
        flow: &mut Flow,
        aggregate: &Aggregate,
        restriction: Restriction,
    ) -> Result<(), Reason> {
        let mut keys = Vec::with_capacity(restriction.keys.len());
        for (variable, value) in &restriction.keys {
            let (_, key) = aggregate
                .keys
                .iter()
                .find(|(key, _)| key == variable)
                .ok_or_else(|| Reason::new("a restriction of other groups"))?;
            keys.push(flow.value(self.carver, key, *value)?);
        }
        let (state, columns) = (restriction.state, Vec::new());
        flow.steps.push(Step::Probe(Probe { state, kind: ProbeKind::Semi, keys, columns, condition: None }));
        flow.say(format!("only groups of {}", state_name(state)));
        Ok(())
    }
}
