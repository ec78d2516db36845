//! Groups that nobody asks for are not made: what a join's build side tells the aggregation that probes it.

use forebay_pipeline::ir::{Probe, ProbeKind, StateId, Step, ValueType};

use super::{Emitter, state_name};
use crate::carve::Reason;
use crate::carve::registers::{Flow, wider};
use crate::carve::relation::{Aggregate, Join, Relation};
use crate::carve::scalar::Scalar;
use crate::carve::shape::Variable;

/// Groups that are not in a state are of no use: their rows can be left out before they are grouped.
pub(super) struct Restriction {
    state: StateId,
    /// The group's keys that the state is looked up by, and the types of its keys.
    keys: Vec<(Variable, ValueType)>,
}

/// A state with more rows than this share of the groups does not restrict them.
const RESTRICTING_SHARE: f64 = 0.5;

impl Emitter<'_, '_> {
    /// What a join's build side tells the aggregation that probes it.
    pub(super) fn restriction(&self, join: &Join, state: StateId) -> Option<Restriction> {
        let mut probe = &*join.probe;
        while let Relation::Filter { input, .. } = probe {
            probe = input;
        }
        let Relation::Aggregate(aggregate) = probe else { return None };
        let key = |(probe, build): &(Scalar, Scalar)| {
            let variable = probe.as_variable()?;
            let (_, grouped) = aggregate.keys.iter().find(|(key, _)| *key == variable)?;
            (!grouped.fallible()).then(|| (variable, wider(probe.shape().value, build.shape().value)))
        };
        let keys = join.keys.iter().map(key).collect::<Option<Vec<_>>>()?;
        let pays = self.carver.rows(&join.build) < RESTRICTING_SHARE * self.carver.rows(probe);
        pays.then_some(Restriction { state, keys })
    }

    /// Leaves out the rows of groups that nobody asks for.
    pub(super) fn restrict(
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
        flow.text.push(format!("only groups of {}", state_name(state)));
        Ok(())
    }
}
