//! Eight sessions beside each other within one budget of memory: SSB's queries, TPC-H's largest joins and groups, and a load. All
//! answers must be those of one session alone; what the process has of memory is watched meanwhile, beside what the database's
//! account says.
//!
//! Data are made by an earlier run, if need be: what generators leave to the allocator would be watched, too. Must not know: command
//! lines.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use arrow::util::display::array_value_to_string;
use forebay::process_memory::resident_bytes;
use forebay::units::format_bytes;
use forebay::{Database, Error, Options, Result, Session};

use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::load::{Wanted, prepare};
use crate::measure::run_sql;
use crate::queries::queries;

/// Statements of a session that works in the schema of SSB's tables: the other ones have some of their names.
pub(crate) const IN_SSB: [&str; 2] = ["CREATE SCHEMA IF NOT EXISTS ssb", "USE ssb"];

/// The folder of the database with both benchmarks.
pub(crate) const FOLDER: &str = "sessions";

/// TPC-H's queries with the largest states.
const LARGE: [&str; 3] = ["q9", "q18", "q21"];

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(5);

/// Memory where none is asked for.
const MEMORY_BYTES: u64 = 512 << 20;

/// What a session does over and over.
struct Stream {
    name: String,
    in_ssb: bool,
    statements: Vec<String>,
}

/// What was seen of memory.
#[derive(Debug, Clone, Copy, Default)]
struct Seen {
    /// The most anonymous memory that was resident.
    peak_bytes: u64,
    /// The most that the account had.
    account_bytes: u64,
    /// What was resident when the account was at its peak.
    beside_bytes: u64,
}

/// Makes the tables of both benchmarks, if need be: SSB's in a schema of their own.
pub(crate) fn prepare_both(bench: &Bench<'_>, options: &Options, out: &mut dyn Write) -> Result<()> {
    let directory = bench.options.directory.join(FOLDER);
    // A name that a schema does not have is found in main: its own tables come first.
    for (benchmark, settings) in [(Benchmark::Ssb, &IN_SSB[..]), (Benchmark::Tpch, &[][..])] {
        let (scale_factor, options) = (bench.options.scale_factor, options.clone());
        drop(prepare(
            &Wanted { benchmark, scale_factor, database: &directory, options, keep_files: false, settings },
            out,
        )?);
    }
    Ok(())
}

/// Runs the sessions, each its stream as often as there are runs.
pub(crate) fn sessions(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let budget_bytes = bench.options.memory_bytes.unwrap_or(MEMORY_BYTES);
    let options = Options { memory_bytes: Some(budget_bytes), ..bench.open_options() };
    prepare_both(bench, &options, out)?;
    let streams = streams(bench.options.scale_factor);
    let database = Database::open(&bench.options.directory.join(FOLDER), &options)?;
    let expected = expected(&database, &streams)?;
    let before_bytes = resident_bytes();
    let (is_over, started) = (AtomicBool::new(false), Instant::now());
    let (seconds, seen) = thread::scope(|scope| {
        let (database, runs) = (&database, bench.options.runs);
        let watcher = scope.spawn(|| watch(database, &is_over));
        let workers = streams.iter().zip(&expected);
        let workers: Vec<_> = workers
            .map(|(stream, expected)| scope.spawn(move || run(&database.session(), stream, expected, runs)))
            .collect();
        let panicked = || Error::internal("a session panicked");
        let seconds: Result<Vec<f64>> =
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(|_| Err(panicked()))).collect();
        is_over.store(true, Ordering::Relaxed);
        let seen = watcher.join().unwrap_or_else(|_| Err(panicked()));
        Ok::<_, Error>((seconds?, seen?))
    })?;
    let elapsed = started.elapsed().as_secs_f64();
    let mut rows: Vec<Vec<String>> = streams
        .iter()
        .zip(&seconds)
        .map(|(stream, seconds)| vec![stream.name.clone(), format!("{seconds:.2} s")])
        .collect();
    let shown = |name: &str, bytes: u64| vec![name.to_owned(), format_bytes(bytes)];
    rows.push(vec!["all of them".to_owned(), format!("{elapsed:.2} s")]);
    rows.push(shown("budget", budget_bytes));
    rows.push(shown("most resident", seen.peak_bytes));
    rows.push(shown("most in the account", seen.account_bytes));
    rows.push(shown("resident then", seen.beside_bytes));
    rows.push(shown("resident before", before_bytes));
    let point = |name: &str, bytes: u64| (name.to_owned(), vec![(0.0, bytes as f64)]);
    Ok(Figure {
        title: format!(
            "Eight sessions in {}, scale factor {}, {} rounds",
            format_bytes(budget_bytes),
            bench.options.scale_factor,
            bench.options.runs
        ),
        paper: "none: what the house asks is at most 1.1 times the budget, without the program's text",
        headings: vec!["session".to_owned(), "took".to_owned()],
        rows,
        axes: ("", "bytes"),
        ticks: Vec::new(),
        series: vec![
            point("budget", budget_bytes),
            point("resident", seen.peak_bytes),
            point("account", seen.account_bytes),
            point("resident at the account's peak", seen.beside_bytes),
            point("resident before", before_bytes),
        ],
    })
}

fn streams(scale_factor: f64) -> Vec<Stream> {
    let texts = |benchmark: Benchmark, names: &[&str]| -> Vec<String> {
        let all = queries(benchmark, scale_factor).into_iter();
        all.filter(|query| names.is_empty() || names.contains(&query.name))
            .map(|query| query.sql.into_owned())
            .collect()
    };
    let stream =
        |name: &str, in_ssb: bool, statements: Vec<String>| Stream { name: name.to_owned(), in_ssb, statements };
    let ssb = texts(Benchmark::Ssb, &[]);
    let load = "CREATE OR REPLACE TABLE loaded AS SELECT * FROM lineitem;
                SELECT count(*), sum(l_extendedprice), max(l_comment) FROM loaded; DROP TABLE loaded";
    let mut streams = vec![
        stream("SSB", true, ssb.clone()),
        stream("SSB from the end", true, ssb.iter().rev().cloned().collect()),
        stream("SSB once more", true, ssb),
        stream("TPC-H q9, q18, q21", false, texts(Benchmark::Tpch, &LARGE)),
        stream("a load", false, vec![load.to_owned()]),
    ];
    streams.extend(LARGE.map(|name| stream(&format!("TPC-H {name}"), false, texts(Benchmark::Tpch, &[name]))));
    streams
}

/// The answers of all statements by a session alone.
fn expected(database: &Database, streams: &[Stream]) -> Result<Vec<Vec<Vec<String>>>> {
    streams
        .iter()
        .map(|stream| {
            let session = database.session();
            begin(&session, stream)?;
            answers(&session, stream)
        })
        .collect()
}

/// Has the session look for tables in the schema of the stream's.
fn begin(session: &Session, stream: &Stream) -> Result<()> {
    if stream.in_ssb { all(session, &IN_SSB) } else { Ok(()) }
}

fn answers(session: &Session, stream: &Stream) -> Result<Vec<Vec<String>>> {
    stream.statements.iter().map(|sql| Ok(sorted_rows(&run_sql(session, sql)?.1))).collect()
}

/// Rows as texts, in an order of their own: what is equal in a query's order may come in any.
fn sorted_rows(batches: &[RecordBatch]) -> Vec<String> {
    let mut rows = Vec::new();
    for batch in batches {
        let cell = |row: usize, column: usize| array_value_to_string(batch.column(column), row).unwrap_or_default();
        rows.extend(
            (0..batch.num_rows())
                .map(|row| (0..batch.num_columns()).map(|column| cell(row, column)).collect::<Vec<_>>().join("|")),
        );
    }
    rows.sort();
    rows
}

/// Runs a stream so often; gives the seconds that it took.
fn run(session: &Session, stream: &Stream, expected: &[Vec<String>], runs: usize) -> Result<f64> {
    begin(session, stream)?;
    let started = Instant::now();
    for _ in 0..runs {
        let found = answers(session, stream).map_err(|error| error.context(format!("session {}", stream.name)))?;
        if let Some(place) = (0..found.len()).find(|place| found[*place] != expected[*place]) {
            let sql = &stream.statements[place];
            return Err(Error::internal(format!("session {}: another answer than alone to {sql}", stream.name)));
        }
    }
    Ok(started.elapsed().as_secs_f64())
}

/// Looks at memory until it is over.
fn watch(database: &Database, is_over: &AtomicBool) -> Result<Seen> {
    const ACCOUNT: &str = "SELECT held_bytes FROM forebay.memory WHERE holder = 'all'";
    let (session, mut seen, mut looks) = (database.session(), Seen::default(), 0);
    while !is_over.load(Ordering::Relaxed) {
        seen.peak_bytes = seen.peak_bytes.max(resident_bytes());
        // To ask the account takes longer than to look.
        if looks % 8 == 0 {
            let (_, batches) = run_sql(&session, ACCOUNT)?;
            let column = batches.iter().find_map(|batch| batch.columns().first()?.as_primitive_opt::<Int64Type>());
            let account_bytes = column.map_or(0, |column| column.value(0) as u64);
            if account_bytes > seen.account_bytes {
                (seen.account_bytes, seen.beside_bytes) = (account_bytes, resident_bytes());
            }
        }
        looks += 1;
        thread::sleep(LOOK);
    }
    Ok(seen)
}
