//! `forebay bench blocks`: the experiments of Data Blocks (SIGMOD 2016) that a CPU can repeat.
//!
//! One module for each experiment. What runs SQL goes through the public API; [`matches`] and [`packed`] measure the kernels
//! below it, for which nothing of a query is needed. Must not know: command lines.

mod flights;
mod layouts;
mod matches;
mod packed;
mod scans;
mod sorted;
mod vectors;

use std::io::Write;

use forebay::{Database, Result};

use crate::benchmark::Benchmark;
use crate::experiments::{Bench, Experiment, ExperimentOptions, run_suite};
use crate::load::{Wanted, prepare};

const EXPERIMENTS: [Experiment; 8] = [
    ("scans", scans::measure),
    ("sorted", sorted::measure),
    ("flights", flights::measure),
    ("layouts", layouts::measure),
    ("find", matches::find),
    ("reduce", matches::reduce),
    ("packed", packed::measure),
    ("vectors", vectors::measure),
];

/// The scans of Tables 2 and 4: where they read from, and the settings that make them.
#[derive(Debug, Clone, Copy)]
struct ScanType {
    name: &'static str,
    uncompressed: bool,
    settings: &'static [&'static str],
}

const SCAN_TYPES: [ScanType; 6] = [
    ScanType {
        name: "uncompressed",
        uncompressed: true,
        settings: &["SET sargs = off", "SET sma = off", "SET psma = off"],
    },
    ScanType { name: "+ SARG", uncompressed: true, settings: &["SET sargs = on", "SET sma = off", "SET psma = off"] },
    ScanType { name: "blocks", uncompressed: false, settings: &["SET sargs = off", "SET sma = off", "SET psma = off"] },
    ScanType { name: "+ SARG", uncompressed: false, settings: &["SET sargs = on", "SET sma = off", "SET psma = off"] },
    ScanType { name: "+ SMA", uncompressed: false, settings: &["SET sargs = on", "SET sma = on", "SET psma = off"] },
    ScanType { name: "+ PSMA", uncompressed: false, settings: &["SET sargs = on", "SET sma = on", "SET psma = on"] },
];

/// Loads with this setting keep values as they are.
const UNCOMPRESSED: &str = "SET force_encoding = uncompressed";

/// TPC-H with blocks as they are chosen, or with values as they are.
fn tpch(bench: &Bench<'_>, uncompressed: bool, out: &mut dyn Write) -> Result<Database> {
    let folder = if uncompressed { "tpch-uncompressed" } else { "tpch-blocks" };
    let database = bench.options.directory.join(folder);
    let wanted = Wanted {
        benchmark: Benchmark::Tpch,
        scale_factor: bench.options.scale_factor,
        database: &database,
        options: bench.open_options(),
        keep_files: false,
        settings: if uncompressed { &[UNCOMPRESSED] } else { &[] },
    };
    prepare(&wanted, out)
}

/// Runs the experiments of the suite: those of the options, which take the scale factor for TPC-H and for the flights (12
/// million at 1).
///
/// Errors: unknown experiments, unusable folders or files, and whatever the database reports.
pub fn bench_blocks(options: &ExperimentOptions, out: &mut dyn Write) -> Result<()> {
    run_suite("blocks", &EXPERIMENTS, options, out)
}
