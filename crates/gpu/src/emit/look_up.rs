//! Look-ups in build sides that lie dense on the device.

use forebay_base::Result;
use forebay_pipeline::ir::{JoinState, Probe, ProbeKind, Register, State, StateId, ValueType};

use super::{BuildInput, Emitter, unsupported};

impl Emitter<'_> {
    /// The state of a build side that this kernel can look up or fill.
    pub(super) fn dense(&self, state: StateId) -> Result<&JoinState> {
        match &self.program.states[state.0 as usize] {
            State::Join(join) if join.keys.len() != 1 => Err(unsupported("a key of several parts is looked up")),
            State::Join(join) if join.keys[0].value != ValueType::I64 => {
                Err(unsupported("a key is looked up that is no integer of 8 bytes"))
            }
            State::Join(join) => Ok(join),
            State::Aggregate(_) => Err(forebay_base::Error::internal("groups are looked up")),
        }
    }

    fn build_input(&mut self, state: StateId, is_unique: bool) -> usize {
        let at = self.builds.iter().position(|known| known.state == state).unwrap_or_else(|| {
            self.builds.push(BuildInput { state, is_unique: false });
            self.builds.len() - 1
        });
        self.builds[at].is_unique |= is_unique;
        at
    }

    fn payload_input(&mut self, build: usize, column: usize) -> usize {
        let known = self.payloads.iter().position(|known| *known == (build, column));
        known.unwrap_or_else(|| {
            self.payloads.push((build, column));
            self.payloads.len() - 1
        })
    }

    pub(super) fn probe(&mut self, probe: &Probe) -> Result<()> {
        let payload = self.dense(probe.state)?.payload.clone();
        if self.state_places.builds.get(probe.state.0 as usize) != Some(&true) {
            return Err(unsupported("a build side is looked up that is not on the device"));
        }
        let goes_on_per_match = matches!(probe.kind, ProbeKind::Inner | ProbeKind::Left);
        let build = self.build_input(probe.state, goes_on_per_match || probe.condition.is_some());
        let key = probe.keys[0];
        self.need(&[key])?;
        let found = self.mask();
        let live = self.live("pass", &[key]);
        self.line(format!("Mask {found} = probe(p.builds[{build}], {key}, {live});"));
        let read = probe.condition.is_some() || goes_on_per_match;
        for (column, to) in probe.columns.iter().filter(|_| read) {
            let typed = payload[*column];
            let at = self.payload_input(build, *column);
            let arguments = format!("p.payloads[{at}], p.builds[{build}], {key}, {found}");
            if self.typed(*to).nullable {
                let nulls = if typed.nullable { format!("gather_nulls({arguments})") } else { "0".to_owned() };
                self.line(format!("Mask n{} = {nulls};", to.0));
            }
            if typed.value == ValueType::Bool {
                self.line(format!("Mask {to} = gather_truth({arguments});"));
            } else {
                self.declare(*to)?;
                self.line(format!("gather({arguments}, {to});"));
            }
        }
        if let Some(condition) = &probe.condition {
            // Columns that the condition reads first would be loaded for the matches alone.
            let read: Vec<Register> = condition.computes.iter().flat_map(|compute| compute.op.operands()).collect();
            self.need(&read)?;
            for compute in &condition.computes {
                self.compute(compute, &found)?;
            }
            let truth = self.truth(condition.passes);
            self.line(format!("{found} &= {truth};"));
        }
        match probe.kind {
            ProbeKind::Inner | ProbeKind::Semi => self.line(format!("pass &= {found};")),
            ProbeKind::Anti => self.line(format!("pass &= ~{found};")),
            ProbeKind::Mark(to) => self.line(format!("Mask {to} = {found};")),
            ProbeKind::Left => {
                for (_, to) in &probe.columns {
                    self.line(format!("n{} |= ~{found};", to.0));
                }
            }
        }
        Ok(())
    }
}
