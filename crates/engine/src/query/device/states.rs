//! Build sides on a device: those that lie in arrays by key are copied there as the kernel needs them.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_cpu::compile::Finished;
use forebay_cpu::join::{JoinLayout, JoinTable};
use forebay_gpu::device::Address;
use forebay_gpu::emit::Kernel;
use forebay_gpu::parameters::{Build, Parameters};
use forebay_pipeline::Scalar;
use forebay_pipeline::ir::{State, StateId, Typed, ValueType};

use super::{DevicePipeline, unsupported};
use crate::query::runner::Runner;

impl Runner<'_> {
    /// A build side in memory.
    pub(super) fn joined(&self, state: StateId) -> Option<&JoinTable> {
        match self.finished[state.0 as usize].as_deref() {
            Some(Finished::Join(table)) => Some(table),
            _ => None,
        }
    }

    /// By state: it is a build side in memory.
    pub(super) fn joined_states(&self) -> Vec<bool> {
        (0..self.finished.len() as u32).map(|state| self.joined(StateId(state)).is_some()).collect()
    }
}

impl DevicePipeline<'_> {
    fn build_side(&self, kernel: &Kernel, number: usize) -> Result<&JoinTable> {
        let joined = self.runner.joined(kernel.builds[number].state);
        joined.ok_or_else(|| Error::internal("a build side is looked up that is not in memory"))
    }

    /// Whether the build sides that a kernel looks up lie in a way that can be copied.
    pub(super) fn check_builds(&self, kernel: &Kernel) -> Result<()> {
        for (number, build) in kernel.builds.iter().enumerate() {
            let table = self.build_side(kernel, number)?;
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

    /// Brings the build sides of a kernel to the device; appends where they are.
    pub(super) fn place_builds(&mut self, kernel: &Kernel, parameters: &mut Parameters) -> Result<()> {
        let mut builds = Vec::with_capacity(kernel.builds.len());
        for number in 0..kernel.builds.len() {
            let keys = self.build_side(kernel, number)?.key_set();
            let build = match keys {
                None => Build { present: Address(0), low: 0, span: 0, payload: Vec::new() },
                Some(keys) => {
                    let bits: Vec<u8> = keys.words().iter().flat_map(|word| word.to_le_bytes()).collect();
                    let low = i64::try_from(keys.low()).map_err(|_| Error::internal("a key of more than 8 bytes"))?;
                    let span = (keys.high() - keys.low()) as u64 + 1;
                    Build { present: self.turn.place(&bits)?, low, span, payload: Vec::new() }
                }
            };
            parameters.build(&build);
            builds.push(build);
        }
        for (number, column) in &kernel.payloads {
            let build = &mut builds[*number];
            build.payload.resize((column + 1).max(build.payload.len()), (Address(0), Address(0)));
            if build.span > 0 {
                build.payload[*column] = self.payload(kernel, *number, *column)?;
            }
            parameters.payload(build, *column);
        }
        Ok(())
    }

    /// Values of a payload column by key, and which of them are not NULL.
    fn payload(&mut self, kernel: &Kernel, number: usize, column: usize) -> Result<(Address, Address)> {
        let state = kernel.builds[number].state;
        let State::Join(join) = &self.runner.program.states[state.0 as usize] else {
            return Err(Error::internal("groups are looked up"));
        };
        let typed = join.payload[column];
        let finished = self.runner.finished[state.0 as usize].clone();
        let Some(Finished::Join(table)) = finished.as_ref().map(Arc::as_ref) else {
            return Err(Error::internal("a build side is looked up that is not in memory"));
        };
        let by_key = table.payload_by_key(column, typed.value);
        let by_key = by_key.ok_or_else(|| Error::internal("a payload that does not lie in arrays"))?;
        let (values, valid) = arrays(by_key, typed);
        Ok((self.turn.place(&values)?, if typed.nullable { self.turn.place(&valid)? } else { Address(0) }))
    }
}

/// Values as a kernel gathers them, and a bit for each that is not NULL, in 4-byte words.
fn arrays(values: impl Iterator<Item = Scalar>, typed: Typed) -> (Vec<u8>, Vec<u8>) {
    let (mut bytes, mut valid) = (Vec::new(), Vec::<u8>::new());
    let width = match typed.value {
        ValueType::Bool => 1,
        ValueType::I128 => 16,
        _ => 8,
    };
    for (number, value) in values.enumerate() {
        if number % 32 == 0 {
            valid.extend([0; 4]);
        }
        if !value.is_null() {
            valid[number / 8] |= 1 << (number % 8);
        }
        match value {
            Scalar::Bool(value) => bytes.push(u8::from(value)),
            Scalar::I64(value) => bytes.extend(value.to_le_bytes()),
            Scalar::I128(value) => bytes.extend(value.to_le_bytes()),
            Scalar::F64(value) => bytes.extend(value.to_le_bytes()),
            Scalar::Null | Scalar::Bytes(_) => bytes.resize(bytes.len() + width, 0),
        }
    }
    (bytes, valid)
}
