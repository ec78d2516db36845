//! Where the pipelines of a query will run, as far as that is known before they do: for EXPLAIN.
//!
//! Invariants: nothing is read, compiled or copied. What depends on the data (how a build side will lie, which strings there
//! are) is taken to be as devices need it.

use forebay_base::Result;
use forebay_gpu::DeviceChoice;
use forebay_gpu::emit::{GroupPlace, emit};
use forebay_gpu::groups::DeviceGroupTable;
use forebay_pipeline::ir::{Pipeline, Program, Register, Sink, Source, State, StateId, Step};
use forebay_pipeline::register_types;

use super::builds::made_where;
use super::{check_kind, refused, state_places, unsupported};
use crate::Engine;
use crate::query::Query;

/// By pipeline: the device, or the CPU and why. Nothing where no device is asked.
pub fn places(engine: &Engine, query: &Query, choice: DeviceChoice) -> Result<Vec<String>> {
    if choice == DeviceChoice::Auto {
        let rows = query.tables.iter().map(|bound| bound.table.rows()).max();
        engine.accelerators().open_for(rows.unwrap_or(0));
    }
    let accelerator = engine.accelerators().get(choice).map_err(|error| refused(choice, &error))?;
    let Some(accelerator) = accelerator else { return Ok(Vec::new()) };
    let name = &accelerator.processor.device().limits().name;
    let place = |index| match check(query, &query.program, index) {
        Ok(()) => format!("to run on the {name}"),
        Err(reason) => format!("to run on the CPU: {reason}"),
    };
    Ok((0..query.program.pipelines.len()).map(place).collect())
}

/// Whether a pipeline can run on a device; the error says why not.
fn check(query: &Query, program: &Program, index: usize) -> Result<()> {
    let pipeline = &program.pipelines[index];
    check_kind(query, pipeline)?;
    let builds = program.states.iter().map(|state| matches!(state, State::Join(_))).collect();
    let groups = match &pipeline.sink {
        Sink::Aggregate { keys, .. } if keys.is_empty() => Some(GroupPlace::One),
        Sink::Aggregate { state, keys, .. } => {
            check_keys(query, program, pipeline, *state, keys)?;
            Some(GroupPlace::Global)
        }
        _ => None,
    };
    emit(program, index, &state_places(builds, groups))?;
    match &pipeline.sink {
        Sink::Build { .. } => made_where(query, program, index).map(drop),
        _ => Ok(()),
    }
}

/// Whether all pipelines that look up what this one builds can run on a device, so that it may stay there.
pub(super) fn check_lookups(query: &Query, program: &Program, index: usize) -> Result<()> {
    let Sink::Build { state, .. } = &program.pipelines[index].sink else { return Ok(()) };
    let looks_up = |pipeline: &Pipeline| {
        pipeline.steps.iter().any(|step| matches!(step, Step::Probe(probe) if probe.state == *state))
    };
    let later = (index + 1..program.pipelines.len()).filter(|later| looks_up(&program.pipelines[*later]));
    for later in later {
        check(query, program, later).map_err(|error| unsupported(format!("it is looked up on the CPU: {error}")))?;
    }
    Ok(())
}

/// Whether the ranges of a group's keys are known, or will be; and its aggregates are such as devices keep.
fn check_keys(query: &Query, program: &Program, pipeline: &Pipeline, state: StateId, keys: &[Register]) -> Result<()> {
    let State::Aggregate(groups) = &program.states[state.0 as usize] else { return Ok(()) };
    let types = register_types(program, pipeline)?;
    let mut ranges = Vec::new();
    for key in keys {
        let of_table = match &pipeline.source {
            Source::Table(source) => source.columns.iter().find(|own| own.to == *key).map(|own| (source, own)),
            _ => None,
        };
        let is_payload =
            |step: &Step| matches!(step, Step::Probe(probe) if probe.columns.iter().any(|(_, to)| to == key));
        let range = match of_table {
            Some((_, own)) if own.dictionary.is_some() => Some((0, 0)),
            Some((source, own)) => query.tables[source.table]
                .table
                .integers(own.column)
                .and_then(|(low, high)| Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))),
            None if pipeline.steps.iter().any(is_payload) => Some((0, 0)),
            None => None,
        };
        let is_bool = types[key.0 as usize].is_some_and(|typed| typed.value == forebay_pipeline::ir::ValueType::Bool);
        let range = if is_bool { Some((0, 1)) } else { range };
        ranges.push(range.ok_or_else(|| unsupported("a key of groups whose range is not known"))?);
    }
    DeviceGroupTable::new(groups, &ranges).map(drop)
}
