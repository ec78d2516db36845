//! Where the pipelines of a query run, as far as that is known before they do: for the run itself, and for EXPLAIN.
//!
//! Invariants: nothing is read, compiled or copied. What depends on the data (how a build side will lie, which strings there
//! are) is taken to be as devices need it; a pipeline that finds it otherwise runs on the CPU after all.

use std::sync::Arc;

use forebay_base::Result;
use forebay_gpu::DeviceChoice;
use forebay_gpu::emit::{GroupPlace, emit};
use forebay_gpu::groups::DeviceGroupTable;
use forebay_pipeline::ir::{Pipeline, Program, Register, Sink, Source, State, StateId, Step};
use forebay_pipeline::register_types;

use super::builds::{MadeWhere, key_range, made_where};
use super::{check_few_come_back, check_kind, refused, source, state_places, unsupported};
use crate::Engine;
use crate::accelerator::Accelerator;
use crate::query::partitionwise::{Sectioned, sectioned};
use crate::query::{Query, QueryOptions};

/// Rows of a table that a device which was not asked for is worth: below, a CPU is done when the first kernel has begun. Not
/// for build sides that stay on the device.
const FEWEST_ROWS_UNASKED: u64 = 1 << 18;

/// Where a pipeline is to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::query) enum Place {
    /// On the device.
    Device,
    /// On the CPU, for this reason.
    Cpu(String),
}

/// The pipelines of a query that run range by range, and by pipeline of that program where it runs: nothing where there is no
/// device beside the CPU.
pub(in crate::query) fn arranged(
    engine: &Engine,
    query: &Query,
    options: &QueryOptions,
) -> Result<(Sectioned, Vec<Place>)> {
    let choice = options.device;
    let mut sectioned = sectioned(query, options);
    if accelerator(engine, query, choice)?.is_none() {
        return Ok((sectioned, Vec::new()));
    }
    let mut in_sections = vec![false; sectioned.program.pipelines.len()];
    let places = placed(query, &sectioned.program, choice, &in_sections);
    sectioned.sections.retain(|section| {
        let mut of_section = section.pipelines.clone();
        let is_there = |number: usize| places[number] == Place::Device;
        // What some of its pipelines gain on a device, the others would lose that are not run range by range then.
        match choice {
            DeviceChoice::Auto => !of_section.all(is_there),
            _ => !of_section.any(is_there),
        }
    });
    if sectioned.sections.is_empty() {
        return Ok((sectioned, places));
    }
    for section in &sectioned.sections {
        in_sections[section.pipelines.clone()].fill(true);
    }
    let places = placed(query, &sectioned.program, choice, &in_sections);
    Ok((sectioned, places))
}

/// The device beside the CPU, if there is one; opens one that nobody asked for where tables are worth it.
fn accelerator(engine: &Engine, query: &Query, choice: DeviceChoice) -> Result<Option<Arc<Accelerator>>> {
    if choice == DeviceChoice::Auto {
        let rows = query.tables.iter().map(|bound| bound.table.rows()).max();
        engine.accelerators().open_for(rows.unwrap_or(0));
    }
    engine.accelerators().get(choice).map_err(|error| refused(choice, &error))
}

/// By pipeline of the query: the device, or the CPU and why. Nothing where no device is asked.
pub fn places(engine: &Engine, query: &Query, options: &QueryOptions) -> Result<Vec<String>> {
    let Some(accelerator) = accelerator(engine, query, options.device)? else { return Ok(Vec::new()) };
    let (sectioned, places) = arranged(engine, query, options)?;
    let name = &accelerator.processor.device().limits().name;
    let mut shown: Vec<_> = sectioned.order.iter().zip(&places).collect();
    shown.sort_by_key(|(number, _)| **number);
    let show = |place: &Place| match place {
        Place::Device => format!("to run on the {name}"),
        Place::Cpu(reason) => format!("to run on the CPU: {reason}"),
    };
    Ok(shown.into_iter().map(|(_, place)| show(place)).collect())
}

/// By pipeline, where it runs; those that run range by range do so on the CPU.
fn placed(query: &Query, program: &Program, choice: DeviceChoice, in_sections: &[bool]) -> Vec<Place> {
    let mut places = vec![Place::Device; program.pipelines.len()];
    // Where a build side is made depends on where it is looked up.
    for index in (0..places.len()).rev() {
        let checked = match in_sections[index] {
            true => Err(unsupported("it runs range by range, with others")),
            false => check(query, program, choice, (index, &places)),
        };
        if let Err(reason) = checked {
            places[index] = Place::Cpu(reason.to_string());
        }
    }
    places
}

/// Whether a pipeline can run on a device and, where nobody asked for one, is likely to gain by it; the error says why not.
/// `places` knows where later pipelines run.
fn check(query: &Query, program: &Program, choice: DeviceChoice, (index, places): (usize, &[Place])) -> Result<()> {
    let pipeline = &program.pipelines[index];
    check_kind(query, pipeline)?;
    let stays = match &pipeline.sink {
        Sink::Build { keys, .. } if made_where(pipeline) == MadeWhere::Device => {
            key_range(query, source(pipeline)?, keys)?;
            check_lookups(program, index, places)?;
            true
        }
        _ => false,
    };
    if !stays
        && choice == DeviceChoice::Auto
        && query.tables[source(pipeline)?.table].table.rows() < FEWEST_ROWS_UNASKED
    {
        return Err(unsupported("its table is too small for a device that was not asked for"));
    }
    let expected = pipeline.sink.fills().and_then(|state| query.expected_rows(state));
    let groups = match &pipeline.sink {
        Sink::Aggregate { keys, .. } if keys.is_empty() => Some(GroupPlace::One),
        Sink::Aggregate { state, keys, .. } => {
            if let Some(slots) = check_keys(query, program, pipeline, *state, keys)? {
                let most = slots as f64;
                check_few_come_back(choice, Some(expected.map_or(most, |rows| rows.min(most))))?;
            }
            Some(GroupPlace::Global)
        }
        _ if stays => None,
        _ => {
            check_few_come_back(choice, expected)?;
            None
        }
    };
    let builds = program.states.iter().map(|state| matches!(state, State::Join(_))).collect();
    emit(program, index, &state_places(builds, groups)).map(drop)
}

/// Whether all pipelines that look up what this one builds run on the device, so that it may stay there.
fn check_lookups(program: &Program, index: usize, places: &[Place]) -> Result<()> {
    let Sink::Build { state, .. } = &program.pipelines[index].sink else { return Ok(()) };
    let looks_up = |pipeline: &Pipeline| {
        pipeline.steps.iter().any(|step| matches!(step, Step::Probe(probe) if probe.state == *state))
    };
    let later = (index + 1..places.len()).filter(|later| looks_up(&program.pipelines[*later]));
    match later.map(|later| &places[later]).find(|place| **place != Place::Device) {
        Some(Place::Cpu(reason)) => Err(unsupported(format!("it is looked up on the CPU: {reason}"))),
        _ => Ok(()),
    }
}

/// Whether the ranges of a group's keys are known, or will be; and its aggregates are such as devices keep. Gives the number of
/// places for groups, where that is known by now.
fn check_keys(
    query: &Query,
    program: &Program,
    pipeline: &Pipeline,
    state: StateId,
    keys: &[Register],
) -> Result<Option<u64>> {
    let State::Aggregate(groups) = &program.states[state.0 as usize] else { return Ok(None) };
    let types = register_types(program, pipeline)?;
    let (mut ranges, mut are_known) = (Vec::new(), true);
    for key in keys {
        let of_table = match &pipeline.source {
            Source::Table(source) => source.columns.iter().find(|own| own.to == *key).map(|own| (source, own)),
            _ => None,
        };
        let is_payload =
            |step: &Step| matches!(step, Step::Probe(probe) if probe.columns.iter().any(|(_, to)| to == key));
        let is_bool = types[key.0 as usize].is_some_and(|typed| typed.value == forebay_pipeline::ir::ValueType::Bool);
        let known = match of_table {
            _ if is_bool => Some((0, 1)),
            Some((source, own)) if own.dictionary.is_none() => query.tables[source.table]
                .table
                .integers(own.column)
                .and_then(|(low, high)| Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))),
            _ => None,
        };
        are_known &= known.is_some();
        let will_be = of_table.is_some_and(|(_, own)| own.dictionary.is_some())
            || (of_table.is_none() && pipeline.steps.iter().any(is_payload));
        let range = known.or(will_be.then_some((0, 0)));
        ranges.push(range.ok_or_else(|| unsupported("a key of groups whose range is not known"))?);
    }
    let table = DeviceGroupTable::new(groups, &ranges)?;
    Ok(are_known.then_some(table.slots))
}
