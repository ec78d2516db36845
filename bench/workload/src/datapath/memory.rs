//! Data larger than memory (HippogriffDB §7.3.1; GOLAP §2.2): SSB's queries over and over with less and less memory for what
//! they read, up to a database that is read from the drive each time.

use std::io::Write;

use forebay::units::format_bytes;
use forebay::{Database, Options, Result};

use super::{Size, numbered, owned, rate, ssb};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, median};
use crate::measure::run_sql;
use crate::queries::queries;

/// Memory for chunks, as percent of the encoded bytes of the fact table: half of a database's. Reads and scans take their part
/// of it.
const PERCENTS: [u64; 6] = [200, 100, 75, 50, 25, 12];

/// A database takes no less memory.
const LEAST_BYTES: u64 = 64 << 20;

/// Seconds of all queries, one after the other, and bytes that they read and that they were about.
struct Round {
    seconds: f64,
    read_bytes: u64,
    plain_bytes: u64,
}

fn round(bench: &Bench<'_>, database: &Database) -> Result<Round> {
    let session = database.session();
    let mut round = Round { seconds: 0.0, read_bytes: 0, plain_bytes: 0 };
    for query in queries(Benchmark::Ssb, bench.options.scale_factor) {
        let (measured, _) = run_sql(&session, &query.sql)?;
        round.seconds += measured.seconds();
        round.read_bytes += measured.metrics.read_bytes;
        round.plain_bytes += measured.metrics.plain_bytes;
    }
    Ok(round)
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let encoded_bytes = Size::of(&ssb(bench, bench.options.scale_factor, out)?, "lineorder", &[])?.encoded_bytes;
    let path = bench.options.directory.join("ssb");
    let (mut rows, mut rates) = (Vec::new(), Vec::new());
    for percent in PERCENTS {
        let memory_bytes = (2 * encoded_bytes * percent / 100).max(LEAST_BYTES);
        let database = Database::open(&path, &Options { memory_bytes: Some(memory_bytes), ..bench.open_options() })?;
        // What is read again is kept: after three rounds the cache holds what it will.
        (0..3).try_for_each(|_| round(bench, &database).map(drop))?;
        let rounds: Vec<Round> = (0..bench.options.runs).map(|_| round(bench, &database)).collect::<Result<_>>()?;
        let seconds = median(&mut rounds.iter().map(|round| round.seconds).collect::<Vec<_>>());
        let read = median(&mut rounds.iter().map(|round| round.read_bytes as f64).collect::<Vec<_>>());
        let effective = rounds[0].plain_bytes as f64 / seconds;
        rows.push(vec![
            format_bytes(memory_bytes / 2),
            format!("{:.0} %", 50.0 * memory_bytes as f64 / encoded_bytes.max(1) as f64),
            format!("{seconds:.3} s"),
            format_bytes(read as u64),
            rate(effective),
        ]);
        rates.push(effective / 1e9);
    }
    Ok(Figure {
        title: format!(
            "SSB's 13 queries over and over, scale factor {}, by the memory that keeps chunks (lineorder: {})",
            bench.options.scale_factor,
            format_bytes(encoded_bytes)
        ),
        paper: "HippogriffDB §7.3.1: throughput is that of the drive however large the data are; GOLAP §6.1 reads all data in \
                every run. What memory adds in between is HPCache's question (SSB by memory budget)",
        headings: owned(["memory for chunks", "of lineorder", "13 queries", "read", "effective"]),
        rows,
        axes: ("memory for chunks, percent of lineorder", "GB/s of plain values"),
        ticks: PERCENTS.map(|percent| percent.to_string()).to_vec(),
        series: vec![("13 queries".to_owned(), numbered(rates))],
    })
}
