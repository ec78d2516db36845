//! The demonstration: makes the Star Schema Benchmark, loads it, runs its queries from disk and from memory, and shows
//! what that cost. The first thing many people see of Forebay; it explains itself, in at most 100 columns.

use std::io::Write;
use std::path::PathBuf;

use forebay::units::{format_bytes, format_count, format_seconds};
use forebay::{ColumnStorage, Database, Options, Result};

use crate::benchmark::Benchmark;
use crate::load::{DATA_FOLDER, Wanted, prepare};
use crate::measure::{Measured, run_sql};
use crate::queries::{Query, queries};
use crate::report::{Columns, bandwidth, bar, line, percent, shell_word};
use crate::schema::fact_table;

/// What to demonstrate, and where.
#[derive(Debug, Clone)]
pub struct DemoOptions {
    /// Scale factor of SSB; 1 is 6 million rows of the fact table.
    pub scale_factor: f64,
    /// Directory of the database; made when missing, used again when there.
    pub database: PathBuf,
    /// Threads; by default one per core.
    pub threads: Option<usize>,
    /// Memory budget in bytes; by default that of [`forebay::Options`].
    pub memory_bytes: Option<u64>,
    /// How the user calls this program, for the commands that are suggested.
    pub program: String,
}

impl Default for DemoOptions {
    fn default() -> Self {
        Self {
            scale_factor: 1.0,
            database: PathBuf::from("forebay-demo"),
            threads: None,
            memory_bytes: None,
            program: "forebay".to_owned(),
        }
    }
}

/// Runs the demonstration and reports on `out`.
///
/// Errors: a directory that holds something else, a full disk, and whatever the database reports.
pub fn demo(options: &DemoOptions, out: &mut dyn Write) -> Result<()> {
    line(out, &format!("Forebay demo: the Star Schema Benchmark in {}", options.database.display()))?;
    line(out, "")?;
    let wanted = Wanted {
        benchmark: Benchmark::Ssb,
        scale_factor: options.scale_factor,
        database: &options.database,
        options: Options {
            read_only: false,
            memory_bytes: options.memory_bytes,
            threads: options.threads,
            ..Options::default()
        },
        keep_files: true,
        settings: &[],
    };
    let database = prepare(&wanted, out)?;
    line(out, "")?;
    show_queries(&database, options.scale_factor, out)?;
    line(out, "")?;
    show_storage(&database.storage()?, out)?;
    line(out, "")?;
    show_next_steps(options, out)
}

/// A query run from disk, then from memory.
struct Shown {
    query: Query,
    from_disk: Measured,
    from_memory: Measured,
}

fn show_queries(database: &Database, scale_factor: f64, out: &mut dyn Write) -> Result<()> {
    let session = database.session();
    let mut shown = Vec::new();
    for query in queries(Benchmark::Ssb, scale_factor) {
        database.clear_cache();
        let from_disk = run_sql(&session, &query.sql).map_err(|e| e.context(format!("query {}", query.name)))?.0;
        let from_memory = run_sql(&session, &query.sql).map_err(|e| e.context(format!("query {}", query.name)))?.0;
        shown.push(Shown { query, from_disk, from_memory });
    }
    let rate = |run: &Measured| run.metrics.plain_bytes as f64 / run.seconds().max(1e-9);
    let best = shown.iter().map(|s| rate(&s.from_memory)).fold(0.0, f64::max).max(1e-9);
    let columns = Columns::new(&[5, 6, 9, 10, 6, 9, 10]);
    line(out, "The 13 queries, from disk (empty cache) and again from memory:")?;
    line(out, "")?;
    line(out, &columns.row(&["query", "rows", "from disk", "read", "pruned", "in memory", "effective"]))?;
    line(out, &columns.rule())?;
    for Shown { query, from_disk, from_memory } in &shown {
        let cells = [
            query.name,
            &format_count(from_disk.rows),
            &format_seconds(from_disk.seconds()),
            &format_bytes(from_disk.metrics.read_bytes),
            &percent(from_disk.metrics.chunks_pruned, from_disk.metrics.chunks),
            &format_seconds(from_memory.seconds()),
            &bandwidth(from_memory.metrics.plain_bytes, from_memory.seconds()),
            &bar(rate(from_memory) / best),
        ];
        line(out, &columns.row(&cells))?;
    }
    line(out, &columns.rule())?;
    let sum = |figure: &dyn Fn(&Shown) -> u64| shown.iter().map(figure).sum::<u64>();
    let memory_seconds = shown.iter().map(|s| s.from_memory.seconds()).sum();
    let cells = [
        "total",
        &format_count(sum(&|s| s.from_disk.rows)),
        &format_seconds(shown.iter().map(|s| s.from_disk.seconds()).sum()),
        &format_bytes(sum(&|s| s.from_disk.metrics.read_bytes)),
        &percent(sum(&|s| s.from_disk.metrics.chunks_pruned), sum(&|s| s.from_disk.metrics.chunks)),
        &format_seconds(memory_seconds),
        &bandwidth(sum(&|s| s.from_memory.metrics.plain_bytes), memory_seconds),
    ];
    line(out, &columns.row(&cells))?;
    line(out, "")?;
    line(out, "pruned: chunks of the query's columns that were never read, since no row in them was needed.")?;
    line(out, "effective: plain bytes of the query's columns by the time in memory; the bars compare it.")
}

fn show_storage(storage: &[ColumnStorage], out: &mut dyn Write) -> Result<()> {
    let fact = fact_table(Benchmark::Ssb);
    let columns = Columns::new(&[18, 12, 12, 7]);
    line(out, &format!("How {fact} is stored:"))?;
    line(out, "")?;
    line(out, &columns.row(&["column", "raw", "stored", "ratio", "stored, by raw"]))?;
    line(out, &columns.rule())?;
    let row = |name: &str, plain_bytes: u64, stored_bytes: u64| {
        let share = stored_bytes as f64 / plain_bytes.max(1) as f64;
        let ratio = if stored_bytes == 0 { "–".to_owned() } else { format!("{:.1}×", 1.0 / share) };
        columns.row(&[name, &format_bytes(plain_bytes), &format_bytes(stored_bytes), &ratio, &bar(share)])
    };
    let of_fact = || storage.iter().filter(|column| column.table.eq_ignore_ascii_case(fact));
    for column in of_fact() {
        line(out, &row(&column.column, column.plain_bytes, column.stored_bytes))?;
    }
    line(out, &columns.rule())?;
    line(
        out,
        &row("total", of_fact().map(|c| c.plain_bytes).sum::<u64>(), of_fact().map(|c| c.stored_bytes).sum::<u64>()),
    )
}

fn show_next_steps(options: &DemoOptions, out: &mut dyn Write) -> Result<()> {
    let program = shell_word(&options.program);
    let directory = options.database.display().to_string();
    let file = options.database.join(DATA_FOLDER).join("lineorder.parquet").display().to_string();
    line(out, "What next:")?;
    line(out, &format!("  {program} {}", shell_word(&directory)))?;
    line(out, "      opens a prompt; try  SELECT lo_shipmode, sum(lo_revenue) FROM lineorder GROUP BY ALL;")?;
    let sql = format!("SELECT count(*) FROM '{}'", file.replace('\'', "''"));
    line(out, &format!("  {program} -c {}", shell_word(&sql)))?;
    line(out, "      queries a file without loading it.")
}
