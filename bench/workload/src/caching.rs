//! `forebay bench cache`: what stays in memory by every policy, side by side (HPCache, DaMoN 2022, §5): SSB under budgets (Figure 9)
//! and two queries of disjoint columns in turn (Figure 8); SSB, TPC-H and point queries mixed, which drift; the forms that chunks
//! stay in; what the model predicts; and eight sessions within one budget.
//!
//! A budget is what the cache may keep (`SET cache_size`), as a part of the fact table's encoded bytes. Every policy begins with a
//! database that was opened anew. Must not know: command lines.

mod forms;
mod goals;
mod mixed;
mod prediction;

use std::io::Write;

use arrow::array::AsArray;
use arrow::datatypes::Float64Type;
use forebay::units::format_bytes;
use forebay::{Database, Options, Result, Session};

use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, Experiment, ExperimentOptions, all, median, run_suite};
use crate::load::{Wanted, prepare};
use crate::measure::run_sql;
use crate::queries::queries;
use crate::sessions::sessions;
use forms::forms;
use goals::goals;
use mixed::mixed;
use prediction::prediction;

const EXPERIMENTS: [Experiment; 7] = [
    ("prediction", prediction),
    ("budgets", budgets),
    ("alternating", alternating),
    ("mixed", mixed),
    ("forms", forms),
    ("goals", goals),
    ("sessions", sessions),
];

/// `SET cache_policy`, `SET cache_forms`.
type Policy = (&'static str, &'static str);

const POLICIES: [Policy; 13] = [
    ("lru", "inflated"),
    ("mru", "inflated"),
    ("two_q", "inflated"),
    ("s3_fifo", "inflated"),
    ("w_tiny_lfu", "inflated"),
    ("pbm", "inflated"),
    ("lru", "both"),
    ("mru", "both"),
    ("two_q", "both"),
    ("s3_fifo", "both"),
    ("w_tiny_lfu", "both"),
    ("pbm", "both"),
    ("proportional", "automatic"),
];

fn shown((policy, forms): Policy) -> String {
    if forms == "both" { format!("{policy}, both forms") } else { policy.to_owned() }
}

/// Budgets as percent of the fact table's encoded bytes.
const PERCENTS: [u64; 5] = [10, 25, 50, 75, 100];

/// Rounds before those that are measured: what is read again is kept, and shares are found.
const WARMING_ROUNDS: usize = 3;

/// Two queries of the fact table that have no column in common.
const DISJOINT: [&str; 2] = [
    "SELECT sum(lo_extendedprice * lo_discount), max(lo_quantity) FROM lineorder",
    "SELECT sum(lo_revenue - lo_supplycost), max(lo_tax) FROM lineorder",
];

/// Runs the experiments of the suite.
///
/// Errors: unknown experiments, unusable folders or files, and whatever the database reports.
pub fn bench_cache(options: &ExperimentOptions, out: &mut dyn Write) -> Result<()> {
    run_suite("cache", &EXPERIMENTS, options, out)
}

/// Seconds of a stream of queries, and bytes that they read.
#[derive(Debug, Clone, Copy)]
struct Round {
    seconds: f64,
    read_bytes: u64,
}

impl Round {
    /// The medians of some rounds.
    fn median(rounds: &[Self]) -> Self {
        let of = |part: fn(&Self) -> f64| median(&mut rounds.iter().map(part).collect::<Vec<_>>());
        Self { seconds: of(|round| round.seconds), read_bytes: of(|round| round.read_bytes as f64) as u64 }
    }
}

fn round(session: &Session, stream: &[String]) -> Result<Round> {
    let mut round = Round { seconds: 0.0, read_bytes: 0 };
    for sql in stream {
        let (measured, _) = run_sql(session, sql)?;
        round.seconds += measured.seconds();
        round.read_bytes += measured.metrics.read_bytes;
    }
    Ok(round)
}

/// The database in a folder of the experiments', opened anew, whose cache keeps chunks so.
fn opened(bench: &Bench<'_>, folder: &str, (policy, forms): Policy, budget_bytes: u64) -> Result<Database> {
    let options = Options { read_bytes_per_second: bench.options.read_bytes_per_second, ..bench.open_options() };
    let database = Database::open(&bench.options.directory.join(folder), &options)?;
    let settings = [
        format!("SET cache_policy = {policy}"),
        format!("SET cache_forms = {forms}"),
        format!("SET cache_size = '{budget_bytes}B'"),
    ];
    all(&database.session(), &settings.each_ref().map(String::as_str))?;
    Ok(database)
}

/// The medians of some rounds of a stream under a policy and a budget.
fn rounds(bench: &Bench<'_>, stream: &[String], policy: Policy, budget_bytes: u64) -> Result<Round> {
    let database = opened(bench, "ssb", policy, budget_bytes)?;
    let session = database.session();
    (0..WARMING_ROUNDS).try_for_each(|_| round(&session, stream).map(drop))?;
    let rounds: Vec<Round> = (0..bench.options.runs).map(|_| round(&session, stream)).collect::<Result<_>>()?;
    Ok(Round::median(&rounds))
}

/// The sum of a column of `forebay.cache`: bytes that chunks take, or that the shares of all columns are to take.
fn bytes_of(session: &Session, column: &str) -> Result<u64> {
    let (_, batches) = run_sql(session, &format!("SELECT CAST(sum({column}) AS DOUBLE) FROM forebay.cache"))?;
    let found = batches.iter().find_map(|batch| batch.columns().first()?.as_primitive_opt::<Float64Type>().cloned());
    Ok(found.filter(|column| !column.is_empty()).map_or(0, |column| column.value(0) as u64))
}

/// Loads the tables if they are not there.
fn prepared(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Database> {
    let wanted = Wanted {
        benchmark: Benchmark::Ssb,
        scale_factor: bench.options.scale_factor,
        database: &bench.options.directory.join("ssb"),
        options: bench.open_options(),
        keep_files: false,
        settings: &[],
    };
    prepare(&wanted, out)
}

/// The encoded bytes of the fact table, which is loaded if it is not there.
fn fact_bytes(bench: &Bench<'_>, out: &mut dyn Write) -> Result<u64> {
    let storage = prepared(bench, out)?.storage()?;
    Ok(storage.iter().filter(|column| column.table == "lineorder").map(|column| column.encoded_bytes).sum())
}

/// The scale factor, and the limit of the disk where there is one.
fn conditions(bench: &Bench<'_>) -> String {
    let limit = bench.options.read_bytes_per_second;
    let limit = limit.map_or(String::new(), |rate| format!(", {} a second from disk", format_bytes(rate.get())));
    format!("scale factor {}{limit}", bench.options.scale_factor)
}

/// A stream under all policies and budgets.
fn side_by_side(
    bench: &Bench<'_>,
    out: &mut dyn Write,
    (what, paper): (&str, &'static str),
    stream: &[String],
) -> Result<Figure> {
    let fact_bytes = fact_bytes(bench, out)?;
    let mut rows = Vec::new();
    let mut series: Vec<_> = POLICIES.into_iter().map(|policy| (shown(policy), Vec::new())).collect();
    for percent in PERCENTS {
        let budget_bytes = fact_bytes * percent / 100;
        let mut row = vec![format!("{percent} % ({})", format_bytes(budget_bytes))];
        for (policy, (_, points)) in POLICIES.iter().zip(&mut series) {
            let Round { seconds, read_bytes } = rounds(bench, stream, *policy, budget_bytes)?;
            row.push(format!("{seconds:.3} s, {}", format_bytes(read_bytes)));
            points.push((percent as f64, seconds));
        }
        rows.push(row);
    }
    Ok(Figure {
        title: format!("{what}, {}: seconds and bytes read", conditions(bench)),
        paper,
        headings: std::iter::once("budget".to_owned()).chain(POLICIES.map(shown)).collect(),
        rows,
        axes: ("budget, percent of lineorder's encoded bytes", "seconds"),
        ticks: Vec::new(),
        series,
    })
}

/// The texts of SSB's queries.
fn ssb(scale_factor: f64) -> Vec<String> {
    queries(Benchmark::Ssb, scale_factor).into_iter().map(|query| query.sql.into_owned()).collect()
}

fn budgets(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let stream = ssb(bench.options.scale_factor);
    let paper = "HPCache Figure 9: SSB at SF 1000, each query once in order from a cold cache; at 20 GB as fast as MRU at 80 GB, \
                 up to 12 % faster in between, equal from 160 GB on";
    side_by_side(bench, out, ("SSB's 13 queries over and over", paper), &stream)
}

fn alternating(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let stream: Vec<String> =
        DISJOINT.iter().flat_map(|sql| [(*sql).to_owned(), (*sql).to_owned(), (*sql).to_owned()]).collect();
    let paper = "HPCache Figure 8: two queries of 96 GB each, three times in turn; at 100 GB 15.6 % faster than MRU";
    side_by_side(bench, out, ("Two queries of disjoint columns, three times each in turn", paper), &stream)
}
