//! Cutting a pipeline in two: what comes before a look-up puts its rows into a state of their own, and what follows takes
//! them from there. Executions do this where the state that is looked up does not fit their memory: then both sides are
//! taken partition by partition (Grace join, Kitsuregawa et al. 1983).
//!
//! Invariants: the program means what it meant before. The first half's rows are keyed as the look-up is, and kept even
//! if their key is NULL.

use std::collections::BTreeSet;

use forebay_base::{Error, Result};

use crate::ir::*;
use crate::verify::register_types;

/// The program with pipeline `number` cut in front of step `at`, a probe, or of its sink, a mark, where `at` is behind all
/// steps. The halves are pipelines `number` and `number + 1`; the state between them is the last one.
///
/// # Errors
/// Internal, where there is no look-up.
pub fn cut(program: &Program, number: usize, at: usize) -> Result<Program> {
    let pipeline = program.pipelines.get(number).ok_or_else(|| Error::internal("there is no such pipeline"))?;
    let keys = match (pipeline.steps.get(at), &pipeline.sink) {
        (Some(Step::Probe(probe)), _) => &probe.keys,
        (None, Sink::Mark { keys, .. }) => keys,
        _ => return Err(Error::internal("a pipeline is cut where it looks nothing up")),
    };
    let types = register_types(program, pipeline)?;
    let (before, after) = pipeline.steps.split_at(at);
    let (again, needed) = carried(pipeline, before, after);

    let mut fresh = types.len() as u32;
    let mut columns: Vec<Register> = Vec::new();
    for key in keys {
        let is_place = needed.contains(key) && !columns.contains(key);
        columns.push(if is_place { *key } else { Register(fresh) });
        fresh += u32::from(!is_place);
    }
    let payload: Vec<Register> = needed.into_iter().filter(|register| !columns.contains(register)).collect();
    columns.extend(&payload);

    let typed = |registers: &[Register]| -> Vec<Typed> {
        let of = |register: &Register| types[register.0 as usize].expect("verified: it is written before it is read");
        registers.iter().map(of).collect()
    };
    let mut cut = program.clone();
    let state = StateId(cut.states.len() as u32);
    cut.states.push(State::Join(JoinState { keys: typed(keys), payload: typed(&payload), keeps_all: true }));
    let steps = again.into_iter().map(Step::Compute).chain(after.iter().cloned()).collect();
    let second =
        Pipeline { source: Source::BuildRows { state, matched: false, columns }, steps, sink: pipeline.sink.clone() };
    let sink = Sink::Build { state, keys: keys.clone(), payload };
    let first = Pipeline { source: pipeline.source.clone(), steps: before.to_vec(), sink };
    cut.pipelines.splice(number..=number, [first, second]);
    Ok(cut)
}

/// What the second half does again instead of being told, and the registers that it is told. What was computed under a
/// guard holds anything where that is not true, so that it cannot be kept; constants need not be.
fn carried(pipeline: &Pipeline, before: &[Step], after: &[Step]) -> (Vec<Compute>, BTreeSet<Register>) {
    let mut written = source_registers(&pipeline.source);
    let mut doubtful = BTreeSet::new();
    for step in before {
        written.extend(step_writes(step));
        if let Step::Compute(compute) = step {
            let chooses = matches!(compute.op, Op::Select { .. });
            let from_doubtful = compute.op.operands().iter().any(|operand| doubtful.contains(operand));
            if compute.guard.is_some() || (from_doubtful && !chooses) {
                doubtful.insert(compute.to);
            }
        }
    }
    let reads = after.iter().flat_map(step_reads).chain(sink_reads(&pipeline.sink));
    let mut needed: BTreeSet<Register> = reads.filter(|register| written.contains(register)).collect();
    let mut again = Vec::new();
    for step in before.iter().rev() {
        let Step::Compute(compute) = step else { continue };
        let is_again = doubtful.contains(&compute.to) || matches!(compute.op, Op::Constant(_));
        if is_again && needed.remove(&compute.to) {
            needed.extend(compute_reads(compute));
            again.push(compute.clone());
        }
    }
    again.reverse();
    (again, needed)
}

fn source_registers(source: &Source) -> BTreeSet<Register> {
    match source {
        Source::Table(table) => table.columns.iter().map(|column| column.to).collect(),
        Source::Groups { columns, .. } | Source::BuildRows { columns, .. } => columns.iter().copied().collect(),
    }
}

/// What later steps can read of a step.
fn step_writes(step: &Step) -> Vec<Register> {
    match step {
        Step::Compute(compute) => vec![compute.to],
        Step::Filter(_) => Vec::new(),
        Step::Probe(probe) => match probe.kind {
            ProbeKind::Inner | ProbeKind::Left => probe.columns.iter().map(|(_, to)| *to).collect(),
            ProbeKind::Semi | ProbeKind::Anti => Vec::new(),
            ProbeKind::Mark(to) => vec![to],
        },
    }
}

fn step_reads(step: &Step) -> Vec<Register> {
    match step {
        Step::Compute(compute) => compute_reads(compute),
        Step::Filter(register) => vec![*register],
        Step::Probe(probe) => lookup_reads(&probe.keys, probe.condition.as_ref()),
    }
}

fn sink_reads(sink: &Sink) -> Vec<Register> {
    match sink {
        Sink::Build { keys, payload, .. } => keys.iter().chain(payload).copied().collect(),
        Sink::Mark { keys, condition, .. } => lookup_reads(keys, condition.as_ref()),
        Sink::Aggregate { keys, arguments, .. } => {
            keys.iter().copied().chain(arguments.iter().flatten().copied()).collect()
        }
        Sink::Collect { columns } => columns.clone(),
    }
}

/// Some of these may be written by the look-up itself.
fn lookup_reads(keys: &[Register], condition: Option<&Condition>) -> Vec<Register> {
    let mut reads = keys.to_vec();
    if let Some(condition) = condition {
        reads.extend(condition.computes.iter().flat_map(compute_reads));
        reads.push(condition.passes);
    }
    reads
}

fn compute_reads(compute: &Compute) -> Vec<Register> {
    compute.op.operands().into_iter().chain(compute.guard).collect()
}
