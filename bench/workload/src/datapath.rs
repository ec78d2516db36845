//! `forebay bench datapath`: the way of bytes from a drive to a query, measured as GOLAP (SIGMOD 2024), HippogriffDB (VLDB
//! 2016) and the Berkeley Big Data Benchmark do, as far as a host without a GPU can repeat that.
//!
//! Here is what the experiments share: databases, copies of the fact table by how they are stored, and cold and warm runs;
//! then one module for each experiment. *Cold*: no chunk is in memory, and the page cache was dropped where that is permitted.
//! Must not know: command lines.

mod bigdata;
mod chunks;
mod codecs;
mod columns;
mod compression;
mod costs;
mod decisions;
mod gap;
mod hippogriff;
mod memory;
mod overlap;
mod plans;
mod pruning;
mod ratios;
mod reads;
mod sampling;
mod scaling;

use std::io::Write;
use std::time::Duration;

use forebay::machine::{DriveProbe, Reader};
use forebay::{Database, QueryMetrics, Result, Session};

use crate::benchmark::{Benchmark, SCALE_FACTOR_MIN};
use crate::experiments::{Bench, Experiment, ExperimentOptions, all, median, run_suite};
use crate::load::{Wanted, prepare};
use crate::measure::run_sql;
use crate::run::machine::drop_page_cache;

const EXPERIMENTS: [Experiment; 19] = [
    ("reads", reads::measure),
    ("columns", columns::measure),
    ("chunks", chunks::measure),
    ("overlap", overlap::measure),
    ("compression", compression::measure),
    ("pruning", pruning::bandwidths),
    ("techniques", pruning::ratios),
    ("runtimes", costs::runtimes),
    ("prices", costs::prices),
    ("decisions", decisions::measure),
    ("sampling", sampling::measure),
    ("plans", plans::measure),
    ("codecs", codecs::measure),
    ("ratios", ratios::measure),
    ("scaling", scaling::measure),
    ("hippogriff", hippogriff::measure),
    ("gap", gap::measure),
    ("memory", memory::measure),
    ("bigdata", bigdata::measure),
];

/// Bytes of the file that drives are measured with, at scale factor 1 and above.
const PROBE_BYTES: f64 = 256.0 * 1024.0 * 1024.0;

/// Scale factors of the experiments that vary it, as shares of the suite's.
const SCALES: [f64; 4] = [0.125, 0.25, 0.5, 1.0];

/// Unmeasured runs until the cache holds what a query needs: it keeps a chunk when that is read again.
const WARMING_RUNS: usize = 2;

/// A way to store tables: a name, and the settings that loads do it by.
#[derive(Debug, Clone, Copy)]
struct Storage {
    name: &'static str,
    settings: &'static [&'static str],
}

/// Values and frames as they are.
const UNCOMPRESSED: Storage =
    Storage { name: "uncompressed", settings: &["SET force_encoding = uncompressed", "SET compression = plain"] };

/// Ordered dictionaries for each block, and nothing more.
const DICTIONARY: Storage =
    Storage { name: "dictionary", settings: &["SET force_encoding = dictionary", "SET compression = plain"] };

/// What loads do unasked.
const BALANCED: Storage = Storage { name: "balanced", settings: &[] };

/// Fewest bytes.
const BEST_RATIO: Storage = Storage { name: "best_ratio", settings: &["SET compression = best_ratio"] };

/// Runs the experiments of the suite.
///
/// Errors: unknown experiments, unusable folders or files, and whatever the database reports.
pub fn bench_datapath(options: &ExperimentOptions, out: &mut dyn Write) -> Result<()> {
    run_suite("datapath", &EXPERIMENTS, options, out)
}

/// The scale factors of [`SCALES`].
fn scale_factors(bench: &Bench<'_>) -> Vec<f64> {
    SCALES.iter().map(|share| (bench.options.scale_factor * share).max(SCALE_FACTOR_MIN)).collect()
}

/// SSB as loads store it.
fn ssb(bench: &Bench<'_>, scale_factor: f64, out: &mut dyn Write) -> Result<Database> {
    let is_own = scale_factor == bench.options.scale_factor;
    let folder = if is_own { "ssb".to_owned() } else { format!("ssb-{scale_factor}") };
    let path = bench.options.directory.join(folder);
    let wanted = Wanted {
        benchmark: Benchmark::Ssb,
        scale_factor,
        database: &path,
        options: bench.open_options(),
        keep_files: false,
        settings: &[],
    };
    prepare(&wanted, out)
}

/// Makes a table of what `select` gives, in its order, if it is not there; stored as the settings say.
fn make_table(database: &Database, name: &str, settings: &[&str], select: &str) -> Result<()> {
    let session = database.session();
    if session.names().tables.iter().any(|known| known == name) {
        return Ok(());
    }
    all(&session, settings)?;
    // One thread loads rows in the order in which they come.
    all(&session, &["SET threads = 1"])?;
    run_sql(&session, &format!("CREATE TABLE {name} AS {select}")).map(drop)
}

/// The name of a table with the rows of `base`, stored in a way; made if it is not there.
fn stored(database: &Database, base: &str, storage: &Storage) -> Result<String> {
    let name = format!("{base}_{}", storage.name);
    make_table(database, &name, storage.settings, &format!("SELECT * FROM {base}"))?;
    Ok(name)
}

/// The fact table's rows by the date of their orders: what clusters SSB's queries (GOLAP §4.4).
fn sorted_by_date(database: &Database) -> Result<&'static str> {
    let select = "SELECT * FROM lineorder ORDER BY lo_orderdate, lo_discount, lo_quantity";
    make_table(database, "sorted", &[], select)?;
    Ok("sorted")
}

/// A query of SSB over another fact table.
fn over(sql: &str, table: &str) -> String {
    sql.replace("lineorder", table)
}

/// Plain and stored bytes, and chunks, of some columns of a table (of all where none is named).
#[derive(Debug, Clone, Copy, Default)]
struct Size {
    plain_bytes: u64,
    encoded_bytes: u64,
    stored_bytes: u64,
    chunks: u64,
}

impl Size {
    fn of(database: &Database, table: &str, columns: &[&str]) -> Result<Self> {
        let mut size = Self::default();
        let wanted = |column: &str| columns.is_empty() || columns.contains(&column);
        for column in database.storage()?.iter().filter(|column| column.table == table && wanted(&column.column)) {
            size.plain_bytes += column.plain_bytes;
            size.encoded_bytes += column.encoded_bytes;
            size.stored_bytes += column.stored_bytes;
            size.chunks += column.chunks;
        }
        Ok(size)
    }

    /// Plain over stored bytes.
    fn compression(&self) -> f64 {
        self.plain_bytes as f64 / self.stored_bytes.max(1) as f64
    }

    /// Stored over plain bytes.
    fn share(&self) -> f64 {
        self.stored_bytes as f64 / self.plain_bytes.max(1) as f64
    }
}

/// Some runs of a query.
#[derive(Debug, Clone)]
struct Timed {
    /// The median.
    seconds: f64,
    /// Of the last one.
    metrics: QueryMetrics,
}

impl Timed {
    /// Plain bytes of the touched columns per second.
    fn effective(&self) -> f64 {
        self.metrics.plain_bytes as f64 / self.seconds.max(f64::MIN_POSITIVE)
    }

    /// The share of so many workers' time that a part of the last run took, as a cell.
    fn share(&self, part: Duration, threads: usize) -> String {
        let all = self.metrics.elapsed.as_secs_f64() * threads as f64;
        format!("{:.0} %", 100.0 * part.as_secs_f64() / all.max(f64::MIN_POSITIVE))
    }
}

/// Runs a query from the drive, after one run that plans and compiles it.
fn cold(bench: &Bench<'_>, database: &Database, session: &Session, sql: &str) -> Result<Timed> {
    run_sql(session, sql)?;
    runs(bench, session, sql, &|| {
        database.clear_cache();
        // Reads of chunks pass by the page cache, unless an experiment asks for it: those find out for themselves.
        drop(drop_page_cache());
    })
}

/// Runs a query from memory.
fn warm(bench: &Bench<'_>, session: &Session, sql: &str) -> Result<Timed> {
    (0..WARMING_RUNS).try_for_each(|_| run_sql(session, sql).map(drop))?;
    runs(bench, session, sql, &|| ())
}

fn runs(bench: &Bench<'_>, session: &Session, sql: &str, before: &dyn Fn()) -> Result<Timed> {
    let (mut seconds, mut metrics) = (Vec::new(), QueryMetrics::default());
    for _ in 0..bench.options.runs {
        before();
        let (measured, _) = run_sql(session, sql)?;
        seconds.push(measured.seconds());
        metrics = measured.metrics;
    }
    Ok(Timed { seconds: median(&mut seconds), metrics })
}

/// A file on the databases' drive to read.
fn probe(bench: &Bench<'_>) -> Result<DriveProbe> {
    DriveProbe::new(&bench.options.directory, (PROBE_BYTES * bench.options.scale_factor.min(1.0)) as u64)
}

/// Bytes per second that the drive gives to reads like those of scans: a megabyte each, 16 in flight.
fn drive_bandwidth(bench: &Bench<'_>) -> Result<f64> {
    let probe = probe(bench)?;
    let one = || match probe.bandwidth(Reader::Ring, 1 << 20, 16)? {
        Some(rate) => Ok(rate),
        None => probe.bandwidth(Reader::Threads, 1 << 20, 16).map(Option::unwrap_or_default),
    };
    let mut rates: Vec<f64> = (0..bench.options.runs).map(|_| one()).collect::<Result<_>>()?;
    Ok(median(&mut rates))
}

/// Bytes per second as a cell.
fn rate(bytes_per_second: f64) -> String {
    crate::report::bandwidth(bytes_per_second as u64, 1.0)
}

/// Seconds as a cell.
fn milliseconds(seconds: f64) -> String {
    format!("{:.1} ms", seconds * 1e3)
}

/// Texts as cells or headings.
fn owned<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

/// Points over 0, 1, 2, …
fn numbered(values: impl IntoIterator<Item = f64>) -> Vec<(f64, f64)> {
    values.into_iter().enumerate().map(|(x, y)| (x as f64, y)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shares_of_plain_bytes() {
        let size = Size { plain_bytes: 400, encoded_bytes: 200, stored_bytes: 100, chunks: 1 };
        assert_eq!((size.compression(), size.share()), (4.0, 0.25));
        assert_eq!(Size::default().share(), 0.0);
    }

    #[test]
    fn tables_are_stored_as_asked_and_made_once() {
        let database = Database::in_memory(&forebay::Options::default()).expect("a database");
        let size = |name: &str, settings: &[&str]| {
            make_table(&database, name, settings, "SELECT x FROM range(300000) AS r(x)").expect("a table");
            Size::of(&database, name, &[]).expect("it is there")
        };
        // Five blocks, the last one not full.
        assert_eq!(size("in_twos", &["SET chunk_blocks = 2"]).chunks, 3);
        assert_eq!(size("in_ones", &["SET chunk_blocks = 1"]).chunks, 5);
        assert_eq!(size("as_usual", BALANCED.settings).chunks, 1);
        assert_eq!(size("in_ones", &["SET chunk_blocks = 4"]).chunks, 5);
        let [uncompressed, balanced] = [UNCOMPRESSED, BALANCED].map(|storage| size(storage.name, storage.settings));
        assert!(uncompressed.stored_bytes >= uncompressed.plain_bytes && balanced.compression() > 4.0);
        assert_eq!(Size::of(&database, "as_usual", &["y"]).expect("no column").chunks, 0);
    }

    #[test]
    fn queries_read_other_fact_tables() {
        assert_eq!(over("select lo_tax from lineorder, date", "sorted"), "select lo_tax from sorted, date");
    }

    #[test]
    fn effective_bandwidth_counts_plain_bytes() {
        let metrics = QueryMetrics { plain_bytes: 3_000_000_000, ..QueryMetrics::default() };
        assert_eq!(rate(Timed { seconds: 1.5, metrics }.effective()), "2.00 GB/s");
        let metrics = QueryMetrics { elapsed: Duration::from_millis(100), ..QueryMetrics::default() };
        assert_eq!(Timed { seconds: 0.1, metrics }.share(Duration::from_millis(50), 2), "25 %");
        assert_eq!(milliseconds(0.01234), "12.3 ms");
        assert_eq!(numbered([5.0, 7.0]), [(0.0, 5.0), (1.0, 7.0)]);
    }
}
