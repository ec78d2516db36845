//! Build sides as kernels look them up: those that were made on the device, and those of the CPU that lie in arrays by key,
//! which are copied there.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_cpu::compile::Finished;
use forebay_cpu::join::{DensePayload, JoinLayout, JoinTable};
use forebay_gpu::device::Address;
use forebay_gpu::emit::Kernel;
use forebay_gpu::parameters::{Build, Parameters, Payload};
use forebay_pipeline::ir::{State, StateId};

use super::builds::DeviceBuild;
use super::{DevicePipeline, unsupported};
use crate::accelerator::Accelerator;
use crate::query::runner::Runner;

/// Where a build side is.
pub(super) enum Joined<'a> {
    /// In the host's memory.
    Host(&'a JoinTable),
    /// On the device.
    Device(&'a Arc<DeviceBuild>),
}

impl Joined<'_> {
    /// Least and greatest value of a payload column, where they are known.
    pub(super) fn payload_range(&self, payload: usize) -> Option<(i64, i64)> {
        match self {
            Self::Host(table) if table.is_empty() => Some((0, 0)),
            Self::Host(table) => table.payload_range(payload),
            Self::Device(build) => build.ranges[payload],
        }
    }
}

impl Runner<'_> {
    /// A build side that pipelines on a device can look up.
    pub(super) fn joined(&self, state: StateId, accelerator: &Accelerator) -> Option<Joined<'_>> {
        let number = state.0 as usize;
        match (self.finished[number].as_deref(), &self.on_device[number]) {
            (Some(Finished::Join(table)), _) => Some(Joined::Host(table)),
            (_, Some(build)) if build.is_on(accelerator) => Some(Joined::Device(build)),
            _ => None,
        }
    }

    /// By state: it is such a build side.
    pub(super) fn joined_states(&self, accelerator: &Accelerator) -> Vec<bool> {
        let states = 0..self.finished.len() as u32;
        states.map(|state| self.joined(StateId(state), accelerator).is_some()).collect()
    }
}

impl DevicePipeline<'_> {
    fn build_side(&self, kernel: &Kernel, number: usize) -> Result<Joined<'_>> {
        let joined = self.runner.joined(kernel.builds[number].state, self.accelerator);
        joined.ok_or_else(|| Error::internal("a build side is looked up that is not in memory"))
    }

    /// Whether the build sides that a kernel looks up lie in a way that it can.
    pub(super) fn check_builds(&self, kernel: &Kernel) -> Result<()> {
        for (number, build) in kernel.builds.iter().enumerate() {
            let table = match self.build_side(kernel, number)? {
                Joined::Device(made) if made.is_unique || !build.is_unique => continue,
                Joined::Device(_) => return Err(unsupported("a build side has several rows of one key")),
                Joined::Host(table) => table,
            };
            let reads = kernel.payloads.iter().any(|(of, _)| *of == number);
            match table.layout() {
                _ if table.is_empty() => {}
                JoinLayout::Set | JoinLayout::Dense { .. } => {}
                JoinLayout::Hash { unique } if !reads && (unique || !build.is_unique) && table.key_set().is_some() => {}
                JoinLayout::Hash { .. } => return Err(unsupported("a build side lies in a hash table")),
            }
        }
        Ok(())
    }

    /// Brings the build sides of a kernel to the device that are not there; appends where they are.
    pub(super) fn place_builds(&mut self, kernel: &Kernel, parameters: &mut Parameters) -> Result<()> {
        for number in 0..kernel.builds.len() {
            let (keys, made) = match self.build_side(kernel, number)? {
                Joined::Device(made) => (None, Some(Arc::clone(made))),
                Joined::Host(table) => (table.key_set(), None),
            };
            match (made, keys) {
                (Some(made), _) => parameters.build(&made.build),
                (None, None) => {
                    parameters.build(&Build { present: Address(0), low: 0, span: 0, payload: Vec::new() });
                }
                (None, Some(keys)) => {
                    let bits: Vec<u8> = keys.words().iter().flat_map(|word| word.to_le_bytes()).collect();
                    let low = i64::try_from(keys.low()).map_err(|_| Error::internal("a key of more than 8 bytes"))?;
                    let span = (keys.high() - keys.low()) as u64 + 1;
                    let present = self.turn.place(&bits)?;
                    parameters.build(&Build { present, low, span, payload: Vec::new() });
                }
            }
        }
        for (number, column) in &kernel.payloads {
            parameters.payload(&self.payload(kernel, *number, *column)?);
        }
        Ok(())
    }

    /// Where a payload column lies, which is brought to the device if it is not there.
    fn payload(&mut self, kernel: &Kernel, number: usize, column: usize) -> Result<Payload> {
        let state = kernel.builds[number].state;
        let State::Join(join) = &self.runner.program.states[state.0 as usize] else {
            return Err(Error::internal("groups are looked up"));
        };
        let nullable = join.payload[column].nullable;
        if let Joined::Device(made) = self.build_side(kernel, number)? {
            return Ok(made.build.payload[column]);
        }
        let finished = self.runner.finished[state.0 as usize].clone();
        let Some(Finished::Join(table)) = finished.as_deref() else {
            return Err(Error::internal("a build side is looked up that is not in memory"));
        };
        let nowhere = Payload { values: Address(0), valid: Address(0), base: 0, entry_bytes: 8 };
        if table.is_empty() {
            return Ok(nowhere);
        }
        let by_key = table.payload_by_key(column);
        let by_key = by_key.ok_or_else(|| Error::internal("a payload that does not lie in arrays"))?;
        let DensePayload { entries, entry_bytes, base, validity } = by_key;
        let valid = if nullable { self.turn.place(&bits_of(validity))? } else { Address(0) };
        Ok(Payload { values: self.turn.place(entries)?, valid, base, entry_bytes: u64::from(entry_bytes) })
    }
}

/// A bit for each byte that is not 0, in 4-byte words.
fn bits_of(bytes: &[u8]) -> Vec<u8> {
    let byte = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits, byte| bits << 1 | u8::from(*byte != 0));
    let mut bits: Vec<u8> = bytes.chunks(8).map(byte).collect();
    bits.resize(bits.len().next_multiple_of(4), 0);
    bits
}

#[cfg(test)]
mod tests {
    use super::bits_of;

    #[test]
    fn bits_lie_in_whole_words() {
        assert_eq!(bits_of(&[]), [0u8; 0]);
        assert_eq!(bits_of(&[1]), [1, 0, 0, 0]);
        assert_eq!(bits_of(&[0, 1, 1, 0, 0, 0, 0, 2, 0, 1]), [0b1000_0110, 0b10, 0, 0]);
        assert_eq!(bits_of(&[1; 33]), [255, 255, 255, 255, 1, 0, 0, 0]);
    }
}
