//! Pipelines as EXPLAIN shows them, and the rows that EXPLAIN ANALYZE adds to each line.

use std::fmt;

use forebay_base::units::{format_bytes, format_count};
use forebay_engine::copies::CopyChoice;
use forebay_engine::query::{PipelineReport, Query, ScanReport, StepReport};
use forebay_engine::timeline::SourceTimeline;
use forebay_pipeline::ir::{Pipeline, Sink, Source, Step};

use crate::explain::test_text;
use crate::{origins, read_copy, scan_times};

/// A line about a part of a pipeline: its source, some of its steps, or its sink.
#[derive(Debug, Clone)]
pub struct Line {
    /// What is done there.
    pub text: String,
    /// The filters and probes of the pipeline up to here.
    steps: usize,
}

impl Line {
    /// A line about what follows the last one, up to the last of `steps`.
    pub fn new(text: String, steps: &[Step]) -> Self {
        Self { text, steps: steps.iter().filter(|step| !matches!(step, Step::Compute(_))).count() }
    }
}

/// Writes pipelines, each with what is known of its run, or with where it will run.
pub fn write(
    f: &mut fmt::Formatter<'_>,
    query: &Query,
    lines: &[Vec<Line>],
    reports: &[PipelineReport],
    places: &[String],
) -> fmt::Result {
    for (number, (lines, pipeline)) in lines.iter().zip(&query.program.pipelines).enumerate() {
        let report = reports.get(number);
        let mut rows = report.map_or(0, |report| report.rows_in);
        let mut steps = 0;
        for (at, line) in lines.iter().enumerate() {
            match at {
                0 => write!(f, "\n  {number}: {}", line.text)?,
                _ => write!(f, "\n     {}", line.text)?,
            }
            let copies = (at == 0).then(|| copies(query, pipeline)).flatten();
            if let (None, Some(copies)) = (report, copies) {
                write!(f, "\n     | {}", read_copy::text(copies))?;
            }
            let Some(report) = report else { continue };
            match at {
                0 => source(f, query, pipeline, report)?,
                // What comes between the last step and the sink computes.
                _ if at + 1 == lines.len() && matches!(pipeline.sink, Sink::Mark { .. }) => {
                    write!(f, "  {} rows", format_count(rows))?;
                }
                _ if at + 1 == lines.len() && report.steps.len() < steps => {
                    // Nobody counted what came.
                    write!(f, "  {} rows", format_count(report.rows_out))?;
                }
                _ if at + 1 == lines.len() => write!(f, "  {}", arrow(rows, report.rows_out))?,
                _ => {
                    let done = steps.min(report.steps.len())..line.steps.min(report.steps.len());
                    rows = passed(f, rows, &report.steps[done], report.scan.as_ref())?;
                    steps = line.steps;
                }
            }
        }
        match (report, places.get(number)) {
            (Some(report), _) => run(f, report)?,
            (None, Some(place)) => write!(f, "\n     = {place}")?,
            (None, None) => {}
        }
    }
    Ok(())
}

/// The copies that a source was chosen among.
fn copies<'q>(query: &'q Query, pipeline: &Pipeline) -> Option<&'q CopyChoice> {
    match &pipeline.source {
        Source::Table(source) => query.tables[source.table].copies.as_ref(),
        Source::Groups { .. } | Source::BuildRows { .. } => None,
    }
}

/// The rows of a source.
fn source(f: &mut fmt::Formatter<'_>, query: &Query, pipeline: &Pipeline, report: &PipelineReport) -> fmt::Result {
    let (Source::Table(source), Some(scan)) = (&pipeline.source, &report.scan) else {
        return write!(f, "  {} rows", format_count(report.rows_in));
    };
    write!(f, "  {}", arrow(scan.rows, report.rows_in))?;
    if let Some(copies) = copies(query, pipeline) {
        write!(f, "\n     | {}", read_copy::text(copies))?;
    }
    let times = scan.timeline.as_ref().map(SourceTimeline::times);
    let cost = scan_times::sentence((scan.read_bytes, scan.read_wait_ns, scan.inflate_ns), times.as_ref());
    if let Some(cost) = cost {
        write!(f, "\n     | {cost}")?;
    }
    if let Some(in_part) = scan_times::in_part(scan.chunks_in_part) {
        write!(f, "\n     | {in_part}")?;
    }
    if scan.blocks_pruned > 0 {
        let (blocks, pruned) = (format_count(scan.blocks), format_count(scan.blocks_pruned));
        write!(f, "\n     | zones left out {pruned} of {blocks} blocks: {}", arrow(scan.rows, scan.rows_in))?;
    }
    let facts = query.tables[source.table].facts.told();
    if facts.blocks > 0 {
        let (blocks, by) = (format_count(facts.blocks as u64), facts.by.join(", "));
        write!(f, "\n     | values of {by} left out {blocks} of these blocks")?;
    }
    if scan.psma_rows > 0 {
        write!(f, "\n     | PSMA left out {} rows", format_count(scan.psma_rows))?;
    }
    let columns = &query.tables[source.table].table.columns;
    for (number, test) in scan.tests.iter().enumerate() {
        let names: Vec<&str> = test.columns.iter().map(|column| columns[*column].name.as_ref()).collect();
        let text = match (&test.learned, source.tests.get(number)) {
            (None, Some(own)) => test_text(&columns[own.column], &own.test),
            (learned, _) => format!("{} {}", names.join(", "), learned.as_deref().unwrap_or_default()),
        };
        write!(f, "\n     | test {text}{}", tested(test.rows_in, test.rows_out))?;
    }
    if scan.rows_filtered > 0 {
        write!(f, "\n     | filters on rows  {}", arrow(scan.rows_filtered, report.rows_in))?;
    }
    scan_times::drawn(scan.timeline.as_ref()).iter().try_for_each(|lane| write!(f, "\n     | {lane}"))?;
    match origins::sentence(&scan.traffic, &query.tables[source.table].table, scan.expected_ns) {
        Some(origins) => write!(f, "\n     | {origins}"),
        None => Ok(()),
    }
}

/// The rows of some steps, of which `rows` came to the first; gives how many left the last.
fn passed(
    f: &mut fmt::Formatter<'_>,
    rows: u64,
    steps: &[StepReport],
    scan: Option<&ScanReport>,
) -> Result<u64, fmt::Error> {
    let mut left = rows;
    for step in steps {
        match (step, scan) {
            (StepReport::Ran(rows), _) => {
                write!(f, "  {}", arrow(left, *rows))?;
                left = *rows;
            }
            (StepReport::InScan(test), Some(scan)) => {
                let text = scan.tests.get(*test).map_or_else(String::new, |test| tested(test.rows_in, test.rows_out));
                write!(f, "  by a test of the scan{text}")?;
            }
            (StepReport::InScan(_), None) => {}
        }
    }
    Ok(left)
}

/// What the whole pipeline took.
fn run(f: &mut fmt::Formatter<'_>, report: &PipelineReport) -> fmt::Result {
    write!(
        f,
        "\n     = rows_in {}, rows_out {}, {:.3} ms, compiled in {:.3} ms, {} threads",
        report.rows_in,
        report.rows_out,
        report.elapsed_ns as f64 / 1e6,
        report.compile_ns as f64 / 1e6,
        report.threads
    )?;
    for note in &report.notes {
        write!(f, "\n     = {note}")?;
    }
    match report.spill_read_bytes {
        0 => Ok(()),
        bytes => write!(f, "\n     = {} read back from disk", format_bytes(bytes)),
    }
}

/// What a test on codes let pass; nothing came to it where zones decided or it was not worth its cost.
fn tested(rows_in: u64, rows_out: u64) -> String {
    match rows_in {
        0 => "  not looked at".to_owned(),
        _ => format!("  {}", arrow(rows_in, rows_out)),
    }
}

fn arrow(rows_in: u64, rows_out: u64) -> String {
    format!("{} → {}", format_count(rows_in), format_count(rows_out))
}
