//! Build sides that are made on the device and stay there: a bitmap of the keys and arrays by key (Crystal; GOLAP §3), for
//! pipelines that run there, too.
//!
//! Invariants: only what scans a table and looks nothing up makes one, so that the CPU can make the same build side from
//! nothing but the table, where a pipeline needs it there after all ([`Runner::bring_to_cpu`]).

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_cpu::join::{counts_matches, entry_bytes};
use forebay_gpu::device::{Address, Buffer};
use forebay_gpu::emit::{StatePlaces, emit};
use forebay_gpu::parameters::{Build, Parameters, Payload};
use forebay_pipeline::ir::{
    JoinState, Pipeline, Register, Sink, SourceColumn, State, StateId, Step, TableSource, Typed, ValueType,
};

use super::reader::Reader;
use super::{DevicePipeline, Launch, Left, Pieces, check_faults, source, unsupported, word};
use crate::accelerator::Accelerator;
use crate::query::Query;
use crate::query::runner::Runner;

/// Keys of a build side may lie so far apart: places for each row of the table, and some for small ones.
const SPAN_PER_ROW: u64 = 32;
const SMALL_SPAN: u64 = 1 << 20;

/// Two rows have one key (`device.cuh`).
const DUPLICATE: u64 = 8;

/// A build side on a device.
#[derive(Debug)]
pub(in crate::query) struct DeviceBuild {
    /// The device that it is on.
    accelerator: Arc<Accelerator>,
    pub(super) build: Build,
    /// No two rows have one key.
    pub(super) is_unique: bool,
    /// By payload column: its least and greatest value, where they are known.
    pub(super) ranges: Vec<Option<(i64, i64)>>,
    /// Rows, or keys where several rows have the same.
    rows: u64,
    _buffers: Vec<Buffer>,
}

impl DeviceBuild {
    pub(super) fn is_on(&self, accelerator: &Accelerator) -> bool {
        std::ptr::eq(&*self.accelerator, accelerator)
    }

    pub(in crate::query) fn rows(&self) -> u64 {
        self.rows
    }
}

/// Where a build side is made of what a device finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MadeWhere {
    /// On the device, where it stays.
    Device,
    /// On the CPU, of the rows that come back: those of which other build sides have left few.
    Cpu,
}

/// Where a build side is made of what this pipeline, which runs on a device, finds.
pub(super) fn made_where(pipeline: &Pipeline) -> MadeWhere {
    match pipeline.steps.iter().any(|step| matches!(step, Step::Probe(_))) {
        true => MadeWhere::Cpu,
        false => MadeWhere::Device,
    }
}

/// The least key, and how many keys there is room for.
pub(super) fn key_range(query: &Query, source: &TableSource, keys: &[Register]) -> Result<(i64, u64)> {
    let table = &query.tables[source.table].table;
    let own = keys.first().and_then(|key| own_column(source, *key)).filter(|own| own.dictionary.is_none());
    let Some((low, high)) = own.and_then(|own| table.integers(own.column)) else {
        return Err(unsupported("a key of a build side whose range is not known"));
    };
    let span = u64::try_from(high - low).unwrap_or(u64::MAX).saturating_add(1);
    let low = i64::try_from(low).map_err(|_| unsupported("a key of a build side of more than 8 bytes"))?;
    match span <= (table.rows() * SPAN_PER_ROW).max(SMALL_SPAN) && span <= u64::from(u32::MAX) {
        true => Ok((low, span)),
        false => Err(unsupported("keys of a build side lie too far apart")),
    }
}

fn own_column(source: &TableSource, register: Register) -> Option<&SourceColumn> {
    source.columns.iter().find(|own| own.to == register)
}

impl DevicePipeline<'_> {
    /// A pipeline whose rows are a build side that stays on the device.
    pub(super) fn built(&mut self, pipeline: &Pipeline) -> Result<(Left, u64)> {
        let Sink::Build { state, keys, payload } = &pipeline.sink else {
            return Err(Error::internal("a build side of no build sink"));
        };
        let program = &self.runner.program;
        let State::Join(join) = &program.states[state.0 as usize] else {
            return Err(Error::internal("groups in a build side"));
        };
        let source = source(pipeline)?;
        let places = StatePlaces { builds: vec![false; program.states.len()], ..StatePlaces::default() };
        let kernel = emit(program, self.index, &places)?;
        let mut reader = Reader::new(self, source, &kernel)?;
        // How many strings there are is known when all blocks are.
        let is_string = |register: &Register| own_column(source, *register).is_some_and(|own| own.dictionary.is_some());
        let mut pieces = Pieces::default();
        pieces.held.extend(reader.next(self, payload.iter().any(is_string))?);
        let (low, span) = key_range(self.runner.query, source, keys)?;
        let ranges: Vec<_> = payload.iter().map(|register| self.source_range(source, *register)).collect();
        let (build, buffers) = self.room_for_build(join, (low, span), &ranges)?;
        let entered = self.turn.zeros(8)?;
        let mut behind = Parameters::default();
        behind.target(&build, entered);
        build.payload.iter().for_each(|payload| behind.payload(payload));
        let function = self.function(&kernel.text)?;
        let launch = Launch { function, shared_bytes: 0, faults: self.turn.zeros(8)?, behind };
        self.launch_all(&launch, &mut pieces, &mut reader)?;
        let fetched = self.turn.fetch(&[(launch.faults, 8), (entered, 8)])?;
        let (flags, rows) = (word(&fetched[0]), word(&fetched[1]));
        check_faults(flags & !DUPLICATE)?;
        let is_unique = flags & DUPLICATE == 0;
        if !is_unique && (!payload.is_empty() || counts_matches(program, *state)) {
            return Err(unsupported("a build side has several rows of one key"));
        }
        let accelerator = Arc::clone(self.accelerator);
        let made = DeviceBuild { accelerator, build, is_unique, ranges, rows, _buffers: buffers };
        Ok((Left::Build(*state, Arc::new(made)), pieces.rows))
    }

    /// Least and greatest value of a register that a column of the table is loaded to, whose blocks were read if it is one of
    /// strings.
    fn source_range(&self, source: &TableSource, register: Register) -> Option<(i64, i64)> {
        let own = own_column(source, register)?;
        if let Some(dictionary) = own.dictionary {
            let strings = self.runner.dictionaries[dictionary.0 as usize].len();
            return Some((0, strings.saturating_sub(1) as i64));
        }
        let (low, high) = self.runner.query.tables[source.table].table.integers(own.column)?;
        Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
    }

    /// Room for a build side, without keys.
    fn room_for_build(
        &self,
        join: &JoinState,
        (low, span): (i64, u64),
        ranges: &[Option<(i64, i64)>],
    ) -> Result<(Build, Vec<Buffer>)> {
        let bits = span.div_ceil(32) * 4;
        let entries: Vec<(i64, u64)> =
            join.payload.iter().zip(ranges).map(|(typed, range)| entry(*typed, *range)).collect();
        let nullable = join.payload.iter().filter(|typed| typed.nullable).count() as u64;
        let bytes = entries.iter().map(|(_, bytes)| bytes * span).sum::<u64>() + bits * (1 + nullable);
        if bytes > self.result_bytes() {
            return Err(unsupported("a build side takes too much of the device's memory"));
        }
        let mut buffers = vec![self.turn.keep_zeros(bits)?];
        let mut build = Build { present: buffers[0].address(), low, span, payload: Vec::new() };
        for ((base, entry_bytes), typed) in entries.into_iter().zip(&join.payload) {
            let values = self.turn.keep(span * entry_bytes)?;
            let values_at = values.address();
            buffers.push(values);
            let mut valid = Address(0);
            if typed.nullable {
                buffers.push(self.turn.keep_zeros(bits)?);
                valid = buffers[buffers.len() - 1].address();
            }
            build.payload.push(Payload { values: values_at, valid, base, entry_bytes });
        }
        Ok((build, buffers))
    }
}

/// Base and bytes of the entries of a payload column.
fn entry(typed: Typed, range: Option<(i64, i64)>) -> (i64, u64) {
    match (typed.value, range) {
        (ValueType::I64, Some(range)) => match entry_bytes(range) {
            8 => (0, 8),
            bytes => (range.0, bytes.into()),
        },
        (ValueType::Bool, _) => (0, 1),
        (ValueType::I128, _) => (0, 16),
        _ => (0, 8),
    }
}

impl Runner<'_> {
    /// Makes those build sides on the CPU that a pipeline looks up there and that lie on a device alone. Gives how many.
    pub(in crate::query) fn bring_to_cpu(&mut self, index: usize) -> Result<usize> {
        let is_on_device_alone = |state: &StateId| {
            let number = state.0 as usize;
            self.on_device[number].is_some() && self.finished[number].is_none() && self.spilled[number].is_none()
        };
        let probed = self.program.pipelines[index].steps.iter().filter_map(|step| match step {
            Step::Probe(probe) => Some(probe.state),
            Step::Compute(_) | Step::Filter(_) => None,
        });
        let mut states: Vec<StateId> = probed.filter(is_on_device_alone).collect();
        states.sort_unstable_by_key(|state| state.0);
        states.dedup();
        for state in &states {
            let maker = self.program.pipelines[..index].iter().position(|maker| maker.sink.fills() == Some(*state));
            let maker = maker.ok_or_else(|| Error::internal("a build side that no pipeline makes"))?;
            // The time is the pipeline's that needs it: what became of the maker is told already.
            let timeline = self.timeline.take();
            let (parts, overflow) = self.on_cpu(maker)?;
            self.finish(maker, *state, parts, overflow)?;
            self.reports.pop();
            self.timeline = timeline;
            self.on_device[state.0 as usize] = None;
        }
        Ok(states.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_as_wide_as_their_values_need() {
        let integer = Typed::required(ValueType::I64);
        for (range, expected) in [
            (None, (0, 8)),
            (Some((7, 7)), (7, 1)),
            (Some((-5, 250)), (-5, 1)),
            (Some((-5, 251)), (-5, 2)),
            (Some((0, 65_535)), (0, 2)),
            (Some((0, 65_536)), (0, 4)),
            (Some((i64::MIN, i64::MIN + 0xffff_ffff)), (i64::MIN, 4)),
            (Some((0, 1 << 32)), (0, 8)),
            (Some((i64::MIN, i64::MAX)), (0, 8)),
        ] {
            assert_eq!(entry(integer, range), expected, "{range:?}");
        }
        assert_eq!(entry(Typed::required(ValueType::Bool), Some((0, 1))), (0, 1));
        assert_eq!(entry(Typed::required(ValueType::F64), None), (0, 8));
        assert_eq!(entry(Typed::required(ValueType::I128), None), (0, 16));
    }
}
