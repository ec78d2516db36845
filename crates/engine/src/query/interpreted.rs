//! A query on the interpreter: one thread, row by row. Slow and plain: what compiled code is compared with.

use std::sync::Arc;
use std::time::Instant;

use forebay_base::{Error, Result};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::Vector;
use forebay_pipeline::Scalar;
use forebay_pipeline::interpret::Machine;
use forebay_pipeline::ir::{Pipeline, Program, Sink, Source, Step, Typed};
use forebay_pipeline::verify::register_types;

use super::report::timeline_of;
use super::source::{EqualRows, VectorLoader};
use super::{PipelineReport, Query, QueryOptions, QueryOutput, ScanReport, StepReport, TestReport, output};
use crate::{AdaptivePredicate, CancelToken, Engine, Scan};

type Row = Vec<Scalar>;

/// Rows that are shown at a time.
const BATCH_ROWS: usize = forebay_base::limits::BATCH_ROWS;

/// Runs `query`.
pub(super) fn run(
    engine: &Arc<Engine>,
    query: &Query,
    options: &QueryOptions,
    cancel: &CancelToken,
) -> Result<QueryOutput> {
    let program = &query.program;
    let dictionaries: Vec<_> = (0..program.dictionaries).map(|_| Arc::new(Dictionary::default())).collect();
    let mut machine = Machine::new(program);
    let mut reports = Vec::new();
    for (index, pipeline) in program.pipelines.iter().enumerate() {
        cancel.check()?;
        let started = Instant::now();
        let Source::Table(source) = &pipeline.source else {
            machine.run_state(index)?;
            reports.push(report(&machine, pipeline, started));
            continue;
        };
        let bound = &query.tables[source.table];
        let columns = source.columns.iter().map(|column| column.column).collect();
        let metrics = Arc::clone(&bound.metrics);
        let before = metrics.snapshot();
        let scan = Scan::new(Arc::clone(engine), Arc::clone(&bound.table), columns, metrics, cancel.clone())?;
        let timeline = timeline_of(options, query, &pipeline.source);
        let scan = Arc::new(scan.with_settings(options.scan).with_timeline(timeline.clone()));
        let mut tests: Vec<_> = source.tests.iter().map(|test| AdaptivePredicate::new(test.clone(), false)).collect();
        let mut filters = bound.filters.iter().map(|filter| filter.filter()).collect::<Result<Vec<_>>>()?;
        let mut loader = VectorLoader::new(source, &dictionaries);
        let mut morsel = None;
        let mut next = || -> Result<Option<Vec<Row>>> {
            loop {
                if morsel.is_none() {
                    let Some(next) = scan.next_morsel() else { return Ok(None) };
                    morsel = Some(scan.run(next, &mut tests, &mut filters)?);
                }
                let Some(rows) = &morsel else { continue };
                if let Some(loaded) = loader.next(rows, EqualRows::Ignored)? {
                    cancel.check()?;
                    let columns = || loaded.vectors.iter().zip(&source.columns);
                    let row = |row| columns().map(|(vector, column)| vector.scalar(row, column.typed.value)).collect();
                    return Ok(Some((0..loaded.rows).map(row).collect()));
                }
                morsel = None;
            }
        };
        let batches = std::iter::from_fn(|| next().transpose());
        let mut rows = batches.flat_map(|batch| match batch {
            Ok(rows) => rows.into_iter().map(Ok).collect(),
            Err(error) => vec![Err(error)],
        });
        machine.run(index, &mut rows)?;
        drop(rows);
        let tested = |test: &AdaptivePredicate| {
            let mut report = TestReport::new(vec![test.test.column], None);
            report.add(test.rows());
            report
        };
        let scan = Some(ScanReport::new(bound, &before, tests.iter().map(tested).collect(), timeline));
        reports.push(PipelineReport { scan, ..report(&machine, pipeline, started) });
    }
    let types = result_types(program)?;
    let rows = machine.into_result();
    let shape = output::ResultSchema::of(query, &dictionaries);
    let mut batches = Vec::new();
    for rows in rows.chunks(BATCH_ROWS) {
        batches.push(shape.batch(&vectors(rows, &types), rows.len())?);
    }
    Ok(QueryOutput { batches, on_disk: None, reports, held: None })
}

/// What the pipeline that ran last did.
fn report(machine: &Machine, pipeline: &Pipeline, started: Instant) -> PipelineReport {
    let counts = machine.counts();
    let steps = pipeline.steps.iter().zip(&counts.steps);
    let steps = steps.filter(|(step, _)| !matches!(step, Step::Compute(_)));
    PipelineReport {
        rows_in: counts.came,
        rows_out: counts.filled,
        threads: 1,
        elapsed_ns: started.elapsed().as_nanos() as u64,
        steps: steps.map(|(_, rows)| StepReport::Ran(*rows)).collect(),
        ..PipelineReport::default()
    }
}

/// The types of the collected columns.
fn result_types(program: &Program) -> Result<Vec<Typed>> {
    let Some(last) = program.pipelines.last() else { return Err(Error::internal("a program has no pipeline")) };
    let Sink::Collect { columns } = &last.sink else {
        return Err(Error::internal("the last pipeline of a program does not collect"));
    };
    let types = register_types(program, last)?;
    let of = |register: &forebay_pipeline::ir::Register| types.get(register.0 as usize).copied().flatten();
    columns
        .iter()
        .map(|register| of(register).ok_or_else(|| Error::internal("a collected register has no type")))
        .collect()
}

fn vectors(rows: &[Vec<Scalar>], types: &[Typed]) -> Vec<Vector> {
    let column = |(index, typed): (usize, &Typed)| {
        let values: Vec<_> = rows.iter().map(|row| row[index].to_value()).collect();
        let mut vector = Vector::default();
        let values: Vec<_> = values.iter().map(Option::as_ref).collect();
        vector.load_values(forebay_cpu::vector::physical_of(typed.value), &values);
        vector
    };
    types.iter().enumerate().map(column).collect()
}
