//! Runs programs by compiled code over rows of scalars, in every way that an engine may: vectors of any length, several
//! workers, each layout of build sides and groups.

use std::sync::Arc;

use forebay_base::{Error, Result};
use forebay_cpu::compile::{
    Compiled, Finished, Part, StateLayouts, Worker, can_count_duplicates, collect, compile_with_text, finish_as,
};
use forebay_cpu::groups::GroupPlan;
use forebay_cpu::join::JoinKind;
use forebay_cpu::vector::{Vector, physical_of, physical_of_column};
use forebay_pipeline::ir::*;
use forebay_pipeline::{Scalar, register_types};

/// How a program is run.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Execution {
    /// Rows of a vector at most.
    pub(crate) vector_rows: usize,
    /// Workers that take vectors in turn.
    pub(crate) workers: usize,
    /// The layout of build sides, where it is possible.
    pub(crate) joins: Option<JoinKind>,
    /// The layout of groups, where it is possible.
    pub(crate) groups: Groups,
    /// The rows that leave each step are counted.
    pub(crate) counted: bool,
    /// Equal rows of a table run as one, where the pipeline can do with that; rows come in ascending order then.
    pub(crate) counts_duplicates: bool,
}

/// How groups lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Groups {
    Hashed,
    Dense,
    /// As if they did not fit a near cache.
    LargeDense,
    Partitioned,
}

impl Groups {
    pub(crate) const ALL: [Self; 4] = [Self::Hashed, Self::Dense, Self::LargeDense, Self::Partitioned];
}

/// What a program gave.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Rows of the result, in ascending order.
    pub(crate) rows: Vec<Vec<Scalar>>,
    /// Per pipeline: rows that left each step, where they were counted.
    pub(crate) passed: Option<Vec<Vec<u64>>>,
}

/// Rows of a source.
struct Batch {
    vectors: Vec<Vector>,
    rows: usize,
    /// How many equal rows of the source each row stands for, if not for itself.
    multiplicities: Option<Vec<u64>>,
}

/// Runs a program.
pub(crate) fn run(
    program: &Program,
    rows: &dyn Fn(&TableSource) -> Vec<Vec<Scalar>>,
    execution: &Execution,
) -> Result<Outcome> {
    let mut passed = Vec::new();
    let mut finished: Vec<Option<Arc<Finished>>> = program.states.iter().map(|_| None).collect();
    for (number, pipeline) in program.pipelines.iter().enumerate() {
        let counts_duplicates = execution.counts_duplicates && can_count_duplicates(program, number);
        let batches = batches(pipeline, rows, &finished, execution.vector_rows, counts_duplicates)?;
        let mut groups = None;
        if let Sink::Aggregate { state, .. } = &pipeline.sink {
            let State::Aggregate(aggregate) = &program.states[state.0 as usize] else { unreachable!() };
            let hashed = GroupPlan::pick(aggregate, &vec![None; aggregate.keys.len()], 0, 0);
            if aggregate.keys.is_empty() || execution.groups == Groups::Hashed {
                groups = Some(hashed);
            } else if execution.groups == Groups::Partitioned {
                groups = Some(GroupPlan::partitioned(aggregate));
            } else {
                // A first run tells the ranges of the keys.
                let alone = Execution { workers: 1, ..*execution };
                let (parts, _) = run_pipeline(program, number, &finished, Some(&hashed), &batches, &alone)?;
                let table = finish_as(program, *state, parts, 1, None)?;
                let dense = GroupPlan::pick(aggregate, &key_ranges(aggregate, &table), 0, 0);
                groups = Some(if execution.groups == Groups::LargeDense { dense.as_if_large() } else { dense });
            }
        }
        let (parts, rows) = run_pipeline(program, number, &finished, groups.as_ref(), &batches, execution)?;
        passed.push(rows);
        match &pipeline.sink {
            Sink::Build { state, .. } | Sink::Aggregate { state, .. } => {
                let done = finish_as(program, *state, parts, execution.workers, execution.joins)?;
                finished[state.0 as usize] = Some(Arc::new(done));
            }
            Sink::Mark { .. } => {}
            Sink::Collect { columns } => {
                let types = register_types(program, pipeline)?;
                let types: Vec<Typed> =
                    columns.iter().map(|column| types[column.0 as usize].expect("it was written")).collect();
                let set = collect(program, pipeline, parts)?;
                let mut result = Vec::new();
                for from in (0..set.len()).step_by(100) {
                    let mut vectors = Vec::new();
                    set.read(from..set.len().min(from + 100), &mut vectors);
                    result.extend(scalars(&vectors, &types, set.len().min(from + 100) - from));
                }
                result.sort();
                return Ok(Outcome { rows: result, passed: execution.counted.then_some(passed) });
            }
        }
    }
    Err(Error::internal("nothing was collected"))
}

fn run_pipeline(
    program: &Program,
    number: usize,
    finished: &[Option<Arc<Finished>>],
    groups: Option<&GroupPlan>,
    batches: &[Batch],
    execution: &Execution,
) -> Result<(Vec<Part>, Vec<u64>)> {
    let joins = finished.iter().map(|finished| match finished.as_deref() {
        Some(Finished::Join(table)) => Some(table.layout()),
        _ => None,
    });
    let groups_lie = groups.map(GroupPlan::layout);
    let layouts = StateLayouts {
        joins: joins.collect(),
        groups: groups_lie,
        counted: execution.counted,
        counts_duplicates: false,
    };
    let compiled: Arc<Compiled> = compile_with_text(program, number, &layouts)?;
    let workers = (0..execution.workers).map(|_| Worker::new(&compiled, finished, groups));
    let mut workers = workers.collect::<Result<Vec<Worker>>>()?;
    if batches.iter().any(|batch| batch.multiplicities.is_some()) {
        let duplicates_code = compile_with_text(program, number, &StateLayouts { counts_duplicates: true, ..layouts })?;
        workers.iter_mut().try_for_each(|worker| worker.count_duplicates_with(&duplicates_code))?;
    }
    for (number, batch) in batches.iter().enumerate() {
        let turn = number % workers.len();
        match &batch.multiplicities {
            Some(multiplicities) => workers[turn].run_duplicates(&batch.vectors, multiplicities)?,
            None => workers[turn].run(&batch.vectors, batch.rows)?,
        }
    }
    let mut passed = vec![0; program.pipelines[number].steps.len()];
    for worker in &workers {
        passed.iter_mut().zip(worker.step_rows()).for_each(|(sum, rows)| *sum += rows);
    }
    Ok((workers.into_iter().map(Worker::finish).collect(), passed))
}

/// The source's rows as vectors of at most so many rows; of equal rows of a table one, where it counts duplicates.
fn batches(
    pipeline: &Pipeline,
    rows: &dyn Fn(&TableSource) -> Vec<Vec<Scalar>>,
    finished: &[Option<Arc<Finished>>],
    vector_rows: usize,
    counts_duplicates: bool,
) -> Result<Vec<Batch>> {
    match &pipeline.source {
        Source::Table(table) => {
            let columns: Vec<_> = table.columns.iter().map(physical_of_column).collect();
            let mut rows = rows(table);
            if counts_duplicates {
                rows.sort();
                let (rows, multiplicities): (Vec<_>, Vec<_>) =
                    rows.chunk_by(|a, b| a == b).map(|run| (run[0].clone(), run.len() as u64)).unzip();
                let batch = |(rows, multiplicities): (&[Vec<Scalar>], &[u64])| Batch {
                    vectors: vectors(&columns, rows),
                    rows: rows.len(),
                    multiplicities: Some(multiplicities.to_vec()),
                };
                return Ok(rows.chunks(vector_rows).zip(multiplicities.chunks(vector_rows)).map(batch).collect());
            }
            // A vector of no rows is a run, too.
            let chunks = std::iter::once(&rows[..0]).chain(rows.chunks(vector_rows));
            let batch = |rows: &[_]| Batch { vectors: vectors(&columns, rows), rows: rows.len(), multiplicities: None };
            Ok(chunks.map(batch).collect())
        }
        Source::Groups { state, .. } | Source::BuildRows { state, .. } => {
            let mut batches = Vec::new();
            let table = finished[state.0 as usize].as_deref().ok_or_else(|| Error::internal("not finished"))?;
            let len = match table {
                Finished::Join(table) => table.len(),
                Finished::Groups(table) => table.len(),
            };
            for from in (0..len).step_by(vector_rows) {
                let range = from..len.min(from + vector_rows);
                let mut vectors = Vec::new();
                let rows = match (table, &pipeline.source) {
                    (Finished::Join(table), Source::BuildRows { matched, .. }) => {
                        table.read(range, *matched, &mut vectors)
                    }
                    (Finished::Groups(table), _) => {
                        table.rows().read(range.clone(), &mut vectors);
                        range.len()
                    }
                    _ => return Err(Error::internal("a source of another kind")),
                };
                batches.push(Batch { vectors, rows, multiplicities: None });
            }
            Ok(batches)
        }
    }
}

fn vectors(columns: &[forebay_base::PhysicalType], rows: &[Vec<Scalar>]) -> Vec<Vector> {
    let vector = |(number, physical): (usize, &forebay_base::PhysicalType)| {
        let values: Vec<_> = rows.iter().map(|row| row[number].to_value()).collect();
        let mut vector = Vector::default();
        vector.load_values(*physical, &values.iter().map(Option::as_ref).collect::<Vec<_>>());
        vector
    };
    columns.iter().enumerate().map(vector).collect()
}

fn scalars(vectors: &[Vector], types: &[Typed], rows: usize) -> Vec<Vec<Scalar>> {
    let row = |row| {
        let values = vectors.iter().zip(types);
        let read = |(vector, typed): (&Vector, &Typed)| {
            assert_eq!(vector.physical(), physical_of(typed.value));
            vector.scalar(row, typed.value)
        };
        values.map(read).collect()
    };
    (0..rows).map(row).collect()
}

fn key_ranges(state: &AggregateState, table: &Finished) -> Vec<Option<(i64, i64)>> {
    let Finished::Groups(table) = table else { return Vec::new() };
    let mut vectors = Vec::new();
    let mut ranges = vec![None; state.keys.len()];
    for from in (0..table.len()).step_by(1000) {
        let range = from..table.len().min(from + 1000);
        table.rows().read(range.clone(), &mut vectors);
        for row in scalars(&vectors[..state.keys.len()], &state.keys, range.len()) {
            for (range, value) in ranges.iter_mut().zip(row) {
                let number = match value {
                    Scalar::I64(number) => number,
                    Scalar::Bool(value) => i64::from(value),
                    _ => continue,
                };
                let (low, high) = range.unwrap_or((number, number));
                *range = Some((number.min(low), number.max(high)));
            }
        }
    }
    ranges
}
