//! The benchmark runner: every query several times, warm or cold, with figures for people and for programs.

mod bound;
pub(crate) mod machine;
mod record;
mod roof;

use std::fs;
use std::io::Write;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay::units::{format_bytes, format_count, format_seconds};
use forebay::{Database, Error, Options, QueryMetrics, Result, Session};

use crate::benchmark::Benchmark;
use crate::load::{Wanted, prepare};
use crate::measure::{Measured, explain_sql, run_sql};
use crate::queries::{Query, queries};
use crate::report::{Columns, bandwidth, line, percent};
use bound::Bound;
use roof::Roof;

/// Names and widths of the report's columns.
const HEADINGS: [(&str, usize); 9] = [
    ("query", 7),
    ("rows", 8),
    ("min", 9),
    ("median", 9),
    ("max", 9),
    ("plan", 9),
    ("compile", 9),
    ("read", 10),
    ("pruned", 6),
];

/// Those behind them in a benchmark whose data is in memory.
const WARM_HEADINGS: [(&str, usize); 3] = [("effective", 10), ("codes", 10), ("× floor", 7)];

/// Those behind them in a cold benchmark.
const COLD_HEADINGS: [(&str, usize); 5] =
    [("from disk", 10), ("reads", 9), ("warm", 9), ("inflate", 9), ("× bound", 7)];

/// Runs before those that count, until the cache holds what a query needs: it keeps a chunk when that is read again.
const WARMING_RUNS: usize = 2;

/// What to measure, and how.
#[derive(Debug, Clone)]
pub struct BenchOptions {
    /// Whose queries.
    pub benchmark: Benchmark,
    /// Scale factor of the data.
    pub scale_factor: f64,
    /// Directory of the database; generated and loaded when missing.
    pub database: PathBuf,
    /// Measured runs of each query; at least 1. Warm benchmarks run each query [`WARMING_RUNS`] times before,
    /// unmeasured.
    pub runs: usize,
    /// Empty Forebay's cache, and the system's where that is permitted, before every run.
    pub cold: bool,
    /// Read so many bytes in a second from disk, at most.
    pub read_bytes_per_second: Option<NonZeroU64>,
    /// File for everything that was measured.
    pub json: Option<PathBuf>,
    /// Show for each query, after its runs, what `EXPLAIN ANALYZE` says of one more.
    pub explain: bool,
    /// Names of the queries to run (`q1.1`, `q22`); empty means all.
    pub queries: Vec<String>,
    /// Settings under which queries run, each `name=value`.
    pub settings: Vec<String>,
    /// What runs pipelines besides the CPU: a value of `SET device`. Floors are then those of the device.
    pub device: Option<String>,
    /// Threads; by default one per core.
    pub threads: Option<usize>,
    /// Memory budget in bytes; by default that of [`forebay::Options`].
    pub memory_bytes: Option<u64>,
}

/// All runs of one query.
pub(crate) struct QueryRuns {
    pub(crate) name: &'static str,
    /// Times of the runs that planned it, measured or not: the first one, or all where no plans are kept.
    pub(crate) plans: Vec<Duration>,
    /// Time that its pipelines took to compile in its first run, measured or not.
    pub(crate) compile: Duration,
    /// In the order they ran; not empty.
    pub(crate) runs: Vec<Measured>,
    /// What a cold query could not be faster than.
    pub(crate) bound: Option<Bound>,
}

impl QueryRuns {
    /// Seconds of its runs.
    pub(crate) fn spread(&self) -> Spread {
        Spread::of(self.runs.iter().map(Measured::seconds).collect())
    }

    /// Seconds of planning it.
    pub(crate) fn planning(&self) -> Spread {
        match self.plans.as_slice() {
            // Another benchmark of this session left its plan.
            [] => Spread { min: 0.0, median: 0.0, max: 0.0 },
            plans => Spread::of(plans.iter().map(Duration::as_secs_f64).collect()),
        }
    }

    fn last(&self) -> &Measured {
        self.runs.last().expect("a query has at least one run")
    }
}

/// Seconds of the fastest, the middle and the slowest run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of these seconds, at least one of them.
    fn of(mut seconds: Vec<f64>) -> Self {
        seconds.sort_by(f64::total_cmp);
        let middle = seconds.len() / 2;
        let median =
            if seconds.len() % 2 == 1 { seconds[middle] } else { f64::midpoint(seconds[middle - 1], seconds[middle]) };
        Self { min: seconds[0], median, max: seconds[seconds.len() - 1] }
    }
}

/// Sum and geometric mean of the queries, for each figure of the spread; and the spreads of their times to plan and to
/// compile.
pub(crate) struct Summary {
    pub(crate) total: Spread,
    pub(crate) geometric_mean: Spread,
    pub(crate) plan: Spread,
    pub(crate) compile: Spread,
}

/// Whether the page cache was dropped in a cold benchmark; `None` in a warm one.
pub(crate) type PageCacheDropped = Option<bool>;

/// Runs the benchmark, reports on `out`, and writes the JSON file if one is asked for.
///
/// Errors: unknown queries, an unusable database directory or JSON path, and whatever the database reports.
pub fn bench(options: &BenchOptions, out: &mut dyn Write) -> Result<()> {
    if options.runs == 0 {
        return Err(Error::input("a benchmark needs at least one run").hint("Use --runs 1 or more"));
    }
    let chosen = chosen_queries(options)?;
    let device = options.device.iter().map(|device| format!("device={device}"));
    let settings = options.settings.iter().cloned().chain(device);
    let settings = settings.map(|setting| set_statement(&setting)).collect::<Result<Vec<_>>>()?;
    if let Some(path) = &options.json {
        // An unwritable file should be known before an hour of measuring; what it holds stays until there is something new.
        let opened = fs::OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|e| Error::io(format!("write {}", path.display()), &e))?;
    }
    let wanted = Wanted {
        benchmark: options.benchmark,
        scale_factor: options.scale_factor,
        database: &options.database,
        options: Options {
            read_only: false,
            memory_bytes: options.memory_bytes,
            threads: options.threads,
            read_bytes_per_second: options.read_bytes_per_second,
            owns_process: true,
        },
        keep_files: false,
        settings: &[],
    };
    let database = prepare(&wanted, out)?;
    let dropped = options.cold.then(|| machine::drop_page_cache().is_ok());
    introduce(options, dropped, out)?;
    let roof = Roof::measure(database.threads(), options.device.as_deref(), options.cold)?;
    let behind = if options.cold { &COLD_HEADINGS[..] } else { &WARM_HEADINGS[..] };
    let (names, widths): (Vec<_>, Vec<_>) = HEADINGS.iter().chain(behind).copied().unzip();
    let columns = Columns::new(&widths);
    line(out, &columns.row(&names))?;
    line(out, &columns.rule())?;
    let session = database.session();
    for setting in &settings {
        run_sql(&session, setting)?;
    }
    let mut all = Vec::with_capacity(chosen.len());
    for query in &chosen {
        let runs = measure(options, &database, &session, query)
            .map_err(|e| e.context(format!("{} query {}", options.benchmark, query.name)))?;
        line(out, &row_of(&columns, &runs, &roof))?;
        if options.explain {
            empty_caches(options, &database);
            line(out, &explain_sql(&session, &query.sql)?)?;
        }
        all.push(runs);
    }
    line(out, &columns.rule())?;
    let summary = summarize(&all);
    conclude(&columns, &all, &summary, options.cold, out)?;
    let explanation = if options.cold { bound::EXPLANATION.to_owned() } else { roof.explain() };
    line(out, &explanation)?;
    if let Some(path) = &options.json {
        write_json(path, options, dropped, &all, &summary, &roof)?;
        line(out, &format!("\nEverything measured is in {}", path.display()))?;
    }
    Ok(())
}

/// The rows below those of the queries.
fn conclude(columns: &Columns, all: &[QueryRuns], summary: &Summary, cold: bool, out: &mut dyn Write) -> Result<()> {
    for (name, spread) in [("total", summary.total), ("geomean", summary.geometric_mean)] {
        let [min, median, max] = [spread.min, spread.median, spread.max].map(format_seconds);
        let mut cells = vec![name.to_owned(), String::new(), min, median, max];
        if cold && name == "total" {
            let read_bytes = all.iter().map(|runs| runs.last().metrics.read_bytes).sum();
            cells.extend([
                String::new(),
                String::new(),
                format_bytes(read_bytes),
                String::new(),
                bandwidth(read_bytes, spread.median),
            ]);
            cells.extend(Bound::total(all));
        }
        line(out, &columns.row(&cells.iter().map(String::as_str).collect::<Vec<_>>()))?;
    }
    let [plan, compile] = [summary.plan, summary.compile].map(|spread| format_seconds(spread.median));
    line(out, &columns.row(&["middle", "", "", "", "", &plan, &compile]))?;
    line(out, "")
}

/// The statement for `name=value`.
fn set_statement(setting: &str) -> Result<String> {
    match setting.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok(format!("SET {} = '{}'", name.trim(), value.trim().replace('\'', "''")))
        }
        _ => {
            Err(Error::input(format!("{setting:?} is no setting"))
                .hint("Write it as name=value, for example threads=1"))
        }
    }
}

fn chosen_queries(options: &BenchOptions) -> Result<Vec<Query>> {
    let all = queries(options.benchmark, options.scale_factor);
    if options.queries.is_empty() {
        return Ok(all);
    }
    let bare = |name: &str| name.trim().to_ascii_lowercase().trim_start_matches('q').to_owned();
    options
        .queries
        .iter()
        .map(|wanted| {
            all.iter().find(|query| bare(query.name) == bare(wanted)).cloned().ok_or_else(|| {
                let names: Vec<_> = all.iter().map(|query| query.name).collect();
                Error::input(format!("{} has no query {wanted:?}", options.benchmark))
                    .hint(format!("Its queries are {}", names.join(", ")))
            })
        })
        .collect()
}

fn introduce(options: &BenchOptions, dropped: PageCacheDropped, out: &mut dyn Write) -> Result<()> {
    let how = match dropped {
        None => format!("warm, after {WARMING_RUNS} unmeasured runs"),
        Some(true) => "cold (page cache dropped too)".to_owned(),
        Some(false) => "cold (page cache kept: no permission)".to_owned(),
    };
    let how = match options.read_bytes_per_second {
        Some(bytes) => format!("{how}, from a disk that gives {}", bandwidth(bytes.get(), 1.0)),
        None => how,
    };
    let runs = if options.runs == 1 { "1 run".to_owned() } else { format!("{} runs", options.runs) };
    line(out, "")?;
    line(out, &format!("{} at scale factor {}, {runs} of each query, {how}", options.benchmark, options.scale_factor))?;
    if let Some(device) = &options.device {
        line(out, &format!("on device {device}"))?;
    }
    if !options.settings.is_empty() {
        line(out, &format!("with {}", options.settings.join(", ")))?;
    }
    line(out, "")
}

fn measure(options: &BenchOptions, database: &Database, session: &Session, query: &Query) -> Result<QueryRuns> {
    let mut compile = None;
    let mut plans = Vec::new();
    let mut note = |metrics: &QueryMetrics| {
        compile.get_or_insert(metrics.compile);
        plans.extend(Some(metrics.plan).filter(|plan| !plan.is_zero()));
    };
    if !options.cold {
        for _ in 0..WARMING_RUNS {
            let warming = run_sql(session, &query.sql)?.0;
            note(&warming.metrics);
        }
    }
    let mut runs: Vec<Measured> = Vec::with_capacity(options.runs);
    for _ in 0..options.runs {
        empty_caches(options, database);
        let (measured, _) = run_sql(session, &query.sql)?;
        note(&measured.metrics);
        runs.push(measured);
    }
    let bound = options.cold.then(|| Bound::measure(options.runs, database, session, query)).transpose()?;
    Ok(QueryRuns { name: query.name, plans, compile: compile.unwrap_or_default(), runs, bound })
}

/// In front of each run of a cold benchmark.
fn empty_caches(options: &BenchOptions, database: &Database) {
    if options.cold {
        database.clear_cache();
        // Whether this is permitted was found out and reported before the first run.
        drop(machine::drop_page_cache());
    }
}

fn row_of(columns: &Columns, runs: &QueryRuns, roof: &Roof) -> String {
    let spread = runs.spread();
    let [min, median, max] = [spread.min, spread.median, spread.max].map(format_seconds);
    let last = runs.last();
    let mut cells = vec![
        runs.name.to_owned(),
        format_count(last.rows),
        min,
        median,
        max,
        format_seconds(runs.planning().median),
        format_seconds(runs.compile.as_secs_f64()),
        format_bytes(last.metrics.read_bytes),
        percent(last.metrics.chunks_pruned, last.metrics.chunks),
    ];
    match &runs.bound {
        Some(bound) => {
            cells.push(bandwidth(last.metrics.read_bytes, spread.median));
            cells.extend(bound.cells(spread.median));
        }
        None => {
            let times = roof.times(last.metrics.code_bytes, spread.median);
            cells.extend([
                bandwidth(last.metrics.plain_bytes, spread.median),
                format_bytes(last.metrics.code_bytes),
                times.map_or_else(|| "–".to_owned(), |times| format!("{times:.1}")),
            ]);
        }
    }
    columns.row(&cells.iter().map(String::as_str).collect::<Vec<_>>())
}

fn summarize(all: &[QueryRuns]) -> Summary {
    let spreads: Vec<_> = all.iter().map(QueryRuns::spread).collect();
    let total = |figure: fn(&Spread) -> f64| spreads.iter().map(figure).sum();
    let mean = |figure: fn(&Spread) -> f64| {
        let logarithms: f64 = spreads.iter().map(|spread| figure(spread).max(1e-9).ln()).sum();
        (logarithms / spreads.len().max(1) as f64).exp()
    };
    Summary {
        total: Spread { min: total(|s| s.min), median: total(|s| s.median), max: total(|s| s.max) },
        geometric_mean: Spread { min: mean(|s| s.min), median: mean(|s| s.median), max: mean(|s| s.max) },
        plan: Spread::of(all.iter().map(|runs| runs.planning().median).collect()),
        compile: Spread::of(all.iter().map(|runs| runs.compile.as_secs_f64()).collect()),
    }
}

fn write_json(
    path: &Path,
    options: &BenchOptions,
    dropped: PageCacheDropped,
    all: &[QueryRuns],
    summary: &Summary,
    roof: &Roof,
) -> Result<()> {
    let record = record::record(options, dropped, all, summary, roof);
    fs::write(path, format!("{record:#}\n")).map_err(|e| Error::io(format!("write {}", path.display()), &e))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(milliseconds: &[u64]) -> QueryRuns {
        let run =
            |&ms: &u64| Measured { elapsed: Duration::from_millis(ms), rows: 1, metrics: QueryMetrics::default() };
        let (plans, compile) = ([5, 4, 6].map(Duration::from_millis).to_vec(), Duration::from_millis(3));
        QueryRuns { name: "q1.1", plans, compile, runs: milliseconds.iter().map(run).collect(), bound: None }
    }

    fn options(queries: &[&str]) -> BenchOptions {
        BenchOptions {
            benchmark: Benchmark::Ssb,
            scale_factor: 1.0,
            database: PathBuf::from("unused"),
            runs: 1,
            cold: false,
            read_bytes_per_second: None,
            json: None,
            explain: false,
            queries: queries.iter().map(|&name| name.to_owned()).collect(),
            settings: Vec::new(),
            device: None,
            threads: None,
            memory_bytes: None,
        }
    }

    #[test]
    fn medians_of_odd_and_even_numbers_of_runs() {
        assert_eq!(runs(&[30, 10, 20]).spread(), Spread { min: 0.01, median: 0.02, max: 0.03 });
        assert!((runs(&[40, 10, 20, 30]).spread().median - 0.025).abs() < 1e-12);
    }

    #[test]
    fn settings_become_statements() {
        assert_eq!(set_statement("memory_limit=30MB").expect("it is one"), "SET memory_limit = '30MB'");
        assert_eq!(set_statement(" simd = it's ").expect("it is one"), "SET simd = 'it''s'");
        assert!(set_statement("memory_limit").is_err() && set_statement("=3").is_err());
    }

    #[test]
    fn sums_and_geometric_means() {
        let summary = summarize(&[runs(&[10]), runs(&[1000])]);
        assert!((summary.total.median - 1.01).abs() < 1e-12);
        assert!((summary.geometric_mean.median - 0.1).abs() < 1e-12);
        assert_eq!(summary.compile.median, 0.003);
        assert_eq!(summary.plan.median, 0.005);
    }

    #[test]
    fn queries_are_chosen_by_name() {
        let names = |wanted: &[&str]| -> Vec<_> {
            chosen_queries(&options(wanted)).expect("known").iter().map(|query| query.name).collect()
        };
        assert_eq!(names(&["4.3", "Q1.1"]), ["q4.3", "q1.1"]);
        assert_eq!(names(&[]).len(), 13);
        let unknown = chosen_queries(&options(&["q5.1"])).expect_err("unknown").to_string();
        assert!(unknown.contains("q5.1") && unknown.contains("q4.3"), "{unknown}");
    }

    #[test]
    fn json_holds_every_run() {
        let all = [runs(&[30, 10, 20])];
        let record = record::record(
            &options(&[]),
            Some(false),
            &all,
            &summarize(&all),
            &Roof { memory: 1e9, threads: 1, device: None },
        );
        assert_eq!(record["queries"][0]["runs"].as_array().map(Vec::len), Some(3));
        assert_eq!(record["queries"][0]["runs"][1]["elapsed_ns"], 10_000_000);
        assert_eq!(record["page_cache_dropped"], false);
        assert!(record["date"].as_str().is_some_and(|date| date.len() == 20 && date.ends_with('Z')));
    }
}
