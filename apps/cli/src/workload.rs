//! The subcommands that generate data and measure: `gen`, `demo`, `bench`.
//!
//! Invariants: the work itself is the workload crate's; here are only options, progress and the summary. Must not know: what
//! a benchmark consists of.

use std::io::{self, Write};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use forebay::units::{format_bytes, format_count};
use forebay::{Error, Result};
use forebay_workload::blocks::bench_blocks;
use forebay_workload::caching::bench_cache;
use forebay_workload::chbench::{ChbenchOptions, bench_chbench};
use forebay_workload::datapath::bench_datapath;
use forebay_workload::demo::{DemoOptions, demo};
use forebay_workload::experiments::ExperimentOptions;
use forebay_workload::generate::{Format, GenerateOptions, GeneratedFile, Progress, generate};
use forebay_workload::run::{BenchOptions, bench};
use forebay_workload::tpcc::{TerminalOptions, TpccOptions, bench_tpcc};

use crate::args::{Bench, Demo, FileFormat, Gen, Measured};
use crate::progress::Ticker;
use crate::terminal::width;

/// Stdout that remembers whether its reader went away.
struct Stdout {
    inner: io::Stdout,
    closed: bool,
}

impl Write for Stdout {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes);
        self.closed |= written.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Runs `work` with stdout; a reader that went away is no error.
fn with_stdout(work: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut stdout = Stdout { inner: io::stdout(), closed: false };
    let outcome = work(&mut stdout);
    if stdout.closed { Ok(()) } else { outcome }
}

pub(crate) fn run_gen(gen_args: Gen) -> Result<()> {
    let scale_factor = match gen_args.rows {
        Some(rows) => gen_args.benchmark.scale_factor_of_rows(rows)?,
        None => gen_args.scale_factor,
    };
    let options = GenerateOptions {
        scale_factor,
        out: gen_args.out,
        format: match gen_args.format {
            FileFormat::Parquet => Format::Parquet,
            FileFormat::Tbl => Format::Tbl,
        },
        threads: gen_args.threads.unwrap_or(0),
        seed: gen_args.seed,
        tables: gen_args.tables,
    };
    let latest: Arc<Mutex<Option<(&'static str, f64)>>> = Arc::default();
    let shown = Arc::clone(&latest);
    let ticker = Ticker::start(move || {
        let now = *shown.lock().unwrap_or_else(PoisonError::into_inner);
        now.map(|(table, fraction)| (format!("generating {table}"), fraction))
    });
    let files = generate(gen_args.benchmark, &options, &|now: Progress| {
        *latest.lock().unwrap_or_else(PoisonError::into_inner) = Some((now.table, now.fraction));
    })?;
    drop(ticker);
    with_stdout(|out| {
        out.write_all(summary(&files).as_bytes()).map_err(|error| Error::io("write to standard output", &error))
    })
}

/// One line per file, numbers aligned.
fn summary(files: &[GeneratedFile]) -> String {
    let lines: Vec<[String; 3]> = files
        .iter()
        .map(|file| [file.path.display().to_string(), format_count(file.rows), format_bytes(file.bytes)])
        .collect();
    let widest = |at: usize| lines.iter().map(|line| width(&line[at])).max().unwrap_or(0);
    let (path_width, rows_width, bytes_width) = (widest(0), widest(1), widest(2));
    lines
        .iter()
        .map(|[path, rows, bytes]| format!("{path:path_width$}  {rows:>rows_width$} rows  {bytes:>bytes_width$}\n"))
        .collect()
}

/// This program as the user called it, by its path or by a name that the shell finds.
fn program() -> String {
    let called = std::env::args_os().next().filter(|name| !name.is_empty());
    called.map_or_else(|| "forebay".to_owned(), |name| name.to_string_lossy().into_owned())
}

pub(crate) fn run_demo(demo_args: Demo) -> Result<()> {
    let options = DemoOptions {
        scale_factor: demo_args.scale_factor,
        database: demo_args.directory,
        threads: demo_args.threads,
        memory_bytes: demo_args.memory,
        program: program(),
    };
    with_stdout(|out| demo(&options, out))
}

pub(crate) fn run_bench(bench_args: Bench) -> Result<()> {
    let (scale_factor, runs) = (bench_args.scale_factor(), bench_args.runs());
    match bench_args.benchmark {
        Measured::Queries(benchmark) => {
            let options = BenchOptions {
                benchmark,
                scale_factor,
                database: bench_args.directory,
                runs,
                cold: bench_args.cold,
                read_bytes_per_second: bench_args.throttle,
                json: bench_args.json,
                explain: bench_args.explain,
                queries: bench_args.queries,
                settings: bench_args.settings,
                device: bench_args.device,
                threads: bench_args.threads,
                memory_bytes: bench_args.memory,
            };
            with_stdout(|out| bench(&options, out))
        }
        Measured::Blocks => with_stdout(|out| bench_blocks(&experiment_options(bench_args), out)),
        Measured::Cache => with_stdout(|out| bench_cache(&experiment_options(bench_args), out)),
        Measured::Datapath => with_stdout(|out| bench_datapath(&experiment_options(bench_args), out)),
        Measured::Tpcc => {
            let procedures = bench_args.procedures;
            let options = TpccOptions { terminals: terminal_options(bench_args), procedures };
            with_stdout(|out| bench_tpcc(&options, out))
        }
        Measured::Chbench => {
            let (streams, queries) = (bench_args.streams.unwrap_or(1), bench_args.queries.clone());
            let transaction_cores = bench_args.transaction_cores;
            let terminals = terminal_options(bench_args);
            let options = ChbenchOptions { terminals, streams, runs, queries, transaction_cores };
            with_stdout(|out| bench_chbench(&options, out))
        }
    }
}

fn terminal_options(bench_args: Bench) -> TerminalOptions {
    TerminalOptions {
        warehouses: bench_args.warehouses.unwrap_or(NonZeroU32::MIN),
        database: bench_args.directory,
        clients: bench_args.clients.unwrap_or(1),
        duration: Duration::from_secs(bench_args.seconds.map_or(10, NonZeroU32::get).into()),
        settings: bench_args.settings,
        json: bench_args.json,
        threads: bench_args.threads,
        memory_bytes: bench_args.memory,
    }
}

fn experiment_options(bench_args: Bench) -> ExperimentOptions {
    ExperimentOptions {
        scale_factor: bench_args.scale_factor(),
        runs: bench_args.runs(),
        directory: bench_args.directory,
        experiments: bench_args.experiments,
        json: bench_args.json,
        plots: bench_args.plots,
        threads: bench_args.threads,
        memory_bytes: bench_args.memory,
        read_bytes_per_second: bench_args.throttle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_aligned() {
        let file = |path: &str, rows, bytes| GeneratedFile { table: String::new(), path: path.into(), rows, bytes };
        assert_eq!(
            summary(&[file("out/date.tbl", 2557, 1536), file("out/lineorder.tbl", 6_000_000, 12)]),
            "out/date.tbl           2,557 rows  1.50 KiB\nout/lineorder.tbl  6,000,000 rows      12 B\n"
        );
    }
}
