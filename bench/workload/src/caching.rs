//! `forebay bench cache`: what stays in memory by every policy, side by side (HPCache, DaMoN 2022, §5): SSB under budgets (Figure 9)
//! and two queries of disjoint columns in turn (Figure 8); what the model predicts; and eight sessions within one budget.
//!
//! A budget is what the cache may keep (`SET cache_size`), as a part of the fact table's encoded bytes. Every policy begins with a
//! database that was opened anew. Must not know: command lines.

mod goals;
mod prediction;

use std::io::Write;

use forebay::units::format_bytes;
use forebay::{Database, Options, Result, Session};

use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, Experiment, ExperimentOptions, all, median, run_suite};
use crate::load::{Wanted, prepare};
use crate::measure::run_sql;
use crate::queries::queries;
use crate::sessions::sessions;
use goals::goals;
use prediction::prediction;

const EXPERIMENTS: [Experiment; 5] = [
    ("prediction", prediction),
    ("budgets", budgets),
    ("alternating", alternating),
    ("goals", goals),
    ("sessions", sessions),
];

/// `SET cache_policy`, and whether `SET cache_forms = both`: the last one has goals for both forms.
const POLICIES: [(&str, bool); 13] = [
    ("lru", false),
    ("mru", false),
    ("two_q", false),
    ("s3_fifo", false),
    ("w_tiny_lfu", false),
    ("pbm", false),
    ("lru", true),
    ("mru", true),
    ("two_q", true),
    ("s3_fifo", true),
    ("w_tiny_lfu", true),
    ("pbm", true),
    ("proportional", false),
];

fn shown((policy, both_forms): (&str, bool)) -> String {
    if both_forms { format!("{policy}, both forms") } else { policy.to_owned() }
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

fn round(session: &Session, stream: &[String]) -> Result<Round> {
    let mut round = Round { seconds: 0.0, read_bytes: 0 };
    for sql in stream {
        let (measured, _) = run_sql(session, sql)?;
        round.seconds += measured.seconds();
        round.read_bytes += measured.metrics.read_bytes;
    }
    Ok(round)
}

/// The medians of some rounds of a stream under a policy and a budget.
fn rounds(
    bench: &Bench<'_>,
    stream: &[String],
    (policy, both_forms): (&str, bool),
    budget_bytes: u64,
) -> Result<Round> {
    let options = Options { read_bytes_per_second: bench.options.read_bytes_per_second, ..bench.open_options() };
    let database = Database::open(&bench.options.directory.join("ssb"), &options)?;
    let session = database.session();
    let forms = if both_forms { "both" } else { "inflated" };
    let settings = [
        format!("SET cache_policy = {policy}"),
        format!("SET cache_forms = {forms}"),
        format!("SET cache_size = '{budget_bytes}B'"),
    ];
    all(&session, &settings.each_ref().map(String::as_str))?;
    (0..WARMING_ROUNDS).try_for_each(|_| round(&session, stream).map(drop))?;
    let rounds: Vec<Round> = (0..bench.options.runs).map(|_| round(&session, stream)).collect::<Result<_>>()?;
    let of = |part: fn(&Round) -> f64| median(&mut rounds.iter().map(part).collect::<Vec<_>>());
    Ok(Round { seconds: of(|round| round.seconds), read_bytes: of(|round| round.read_bytes as f64) as u64 })
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
    let limit = match bench.options.read_bytes_per_second {
        Some(rate) => format!(", {} a second from disk", format_bytes(rate.get())),
        None => String::new(),
    };
    Ok(Figure {
        title: format!("{what}, scale factor {}{limit}: seconds and bytes read", bench.options.scale_factor),
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
