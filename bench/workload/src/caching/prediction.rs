//! What the model of pipelines' times says of partial caching, beside what is measured (HPCache §5, Figures 5 to 7): every query of
//! SSB by itself, with a part of its columns in memory.
//!
//! The shares of the columns are those that the proportional policy settles on within the part. A prediction is made of pipelines
//! that read a megabyte or more, from what of their columns is in memory and from their work when they ran before; planning,
//! compiling and other pipelines are in neither time.

use std::io::Write;

use forebay::units::format_bytes;
use forebay::{Database, Options, Result, Session};

use super::{conditions, prepared};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all, median};
use crate::measure::run_sql;
use crate::queries::queries;

/// Memory as percent of the bytes that a query reads, inflated.
const PERCENTS: [u64; 5] = [0, 25, 50, 75, 100];

/// Runs before those that are measured: shares settle.
const SETTLING_RUNS: usize = 5;

/// The least that may be kept: what cannot be 0.
const LEAST_BYTES: u64 = 1 << 20;

/// Seconds that pipelines were predicted to take, and took.
#[derive(Debug, Clone, Copy)]
struct Prediction {
    predicted: f64,
    took: f64,
    read_bytes: u64,
}

impl Prediction {
    /// How far it is from what was measured, as a part of that; above 0 where it is too long.
    fn error(&self) -> f64 {
        self.predicted / self.took - 1.0
    }
}

/// The medians of some runs of a query with so much memory.
fn predict(session: &Session, sql: &str, bytes: u64, runs: usize) -> Result<Option<Prediction>> {
    let size = format!("SET cache_size = '{}B'", bytes.max(LEAST_BYTES));
    // Nothing of what another size left.
    all(session, &["SET cache_policy = lru", "SET cache_size = '1MiB'", "SET cache_policy = proportional", &size])?;
    (0..SETTLING_RUNS).try_for_each(|_| run_sql(session, sql).map(drop))?;
    let mut found = Vec::new();
    for _ in 0..runs {
        let metrics = run_sql(session, sql)?.0.metrics;
        if !metrics.expected_of.is_zero() {
            let (predicted, took) = (metrics.expected.as_secs_f64(), metrics.expected_of.as_secs_f64());
            found.push(Prediction { predicted, took, read_bytes: metrics.read_bytes });
        }
    }
    if found.is_empty() {
        return Ok(None);
    }
    let of = |part: fn(&Prediction) -> f64| median(&mut found.iter().map(part).collect::<Vec<_>>());
    Ok(Some(Prediction {
        predicted: of(|one| one.predicted),
        took: of(|one| one.took),
        read_bytes: of(|one| one.read_bytes as f64) as u64,
    }))
}

/// All queries with all parts.
pub(super) fn prediction(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    prepared(bench, out)?;
    let options = Options { read_bytes_per_second: bench.options.read_bytes_per_second, ..bench.open_options() };
    let database = Database::open(&bench.options.directory.join("ssb"), &options)?;
    let session = database.session();
    let (mut rows, mut errors) = (Vec::new(), Vec::new());
    let (mut predicted, mut took) = (Vec::new(), Vec::new());
    for query in queries(Benchmark::Ssb, bench.options.scale_factor) {
        let all_bytes = run_sql(&session, &query.sql)?.0.metrics.scanned_bytes;
        let mut row = vec![query.name.to_owned(), format_bytes(all_bytes)];
        for percent in PERCENTS {
            let found = predict(&session, &query.sql, all_bytes * percent / 100, bench.options.runs)?;
            let Some(found) = found else {
                row.push("too short".to_owned());
                continue;
            };
            row.push(format!(
                "{:.1} ms, {:+.0} %, {}",
                found.took * 1e3,
                found.error() * 100.0,
                format_bytes(found.read_bytes)
            ));
            errors.push(found.error().abs());
            predicted.push((errors.len() as f64, found.predicted));
            took.push((errors.len() as f64, found.took));
        }
        rows.push(row);
    }
    let mean = errors.iter().sum::<f64>() / errors.len().max(1) as f64;
    let worst = errors.iter().copied().fold(0.0, f64::max);
    rows.push(vec![format!("mean error {:.1} %", mean * 100.0), format!("worst {:.1} %", worst * 100.0)]);
    Ok(Figure {
        title: format!(
            "SSB's queries by themselves, parts of their columns in memory, {}: time of pipelines, error of the prediction, bytes read",
            conditions(bench)
        ),
        paper: "HPCache Figures 5 to 7: time falls with the part in memory until computing bounds it; predictions within a few percent",
        headings: ["query".to_owned(), "bytes".to_owned()]
            .into_iter()
            .chain(PERCENTS.map(|percent| format!("{percent} %")))
            .collect(),
        rows,
        axes: ("query and part, in order", "seconds"),
        ticks: Vec::new(),
        series: vec![("predicted".to_owned(), predicted), ("measured".to_owned(), took)],
    })
}
