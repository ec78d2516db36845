//! GOLAP, Table 1: a scheme for each column chosen by trying all of them on a sample, against the best one for the whole.
//!
//! The *time* of a column by a scheme is the longer of reading it at the drive's bandwidth and inflating it on all cores, as
//! both go on at once. Chunks are as long as loads make them: schemes work on frames, so that their length changes nothing.

use std::io::Write;

use forebay::{Database, Result};

use super::codecs::{COLUMNS, Column, Stored, by_scheme, inflated, selection};
use super::{drive_bandwidth, make_table, numbered, owned, ssb};
use crate::experiments::Bench;
use crate::experiments::figure::Figure;

/// What may be chosen.
const SCHEMES: [&str; 7] = ["lz4", "zstd", "bit_packed", "patched", "delta", "run_length", "rans"];

/// Shares of the rows that are tried, in percent.
const PERCENTS: [u64; 3] = [1, 5, 10];

/// Keys of orders at scale factor 1: a quarter of them is used, each for four rows on average.
const ORDER_KEYS: f64 = 6_000_000.0;

/// Keys of a window: about as many rows, which are about a block.
const WINDOW_KEYS: u64 = 1 << 16;

/// So many windows at least.
const LEAST_WINDOWS: u64 = 20;

/// Numbers of the windows of a sample, one at least, that look random; smaller samples are parts of larger ones.
fn sample(windows: u64, percent: u64) -> Vec<u64> {
    let mut all: Vec<u64> = (0..windows).collect();
    all.sort_by_key(|window| {
        (window + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29).wrapping_mul(0xbf58_476d)
    });
    all.truncate(((windows * percent).div_ceil(100)).max(1) as usize);
    all
}

/// The table of a sample that is stored by a scheme.
fn sampled(bench: &Bench<'_>, database: &Database, scheme: &str, percent: u64) -> Result<String> {
    let keys = (ORDER_KEYS * bench.options.scale_factor) as u64;
    let window_keys = WINDOW_KEYS.min(keys / LEAST_WINDOWS).max(1);
    let windows: Vec<String> = sample(keys / window_keys, percent).iter().map(u64::to_string).collect();
    let condition = format!("WHERE lo_orderkey // {window_keys} IN ({})", windows.join(", "));
    let table = format!("sample_{percent}_{scheme}");
    make_table(database, &table, &[&format!("SET compression = {scheme}")], &selection(&condition))?;
    Ok(table)
}

/// What is to be as small as possible.
type Objective<'a> = &'a dyn Fn(&Stored) -> f64;

/// Place of the smallest of at least one number.
fn least(numbers: &[f64]) -> usize {
    (0..numbers.len()).min_by(|a, b| numbers[*a].total_cmp(&numbers[*b])).unwrap_or(0)
}

/// How many times the best of `whole` the one is that is best in `sample`.
fn deviation(sample: &[f64], whole: &[f64]) -> f64 {
    whole[least(sample)] / whole[least(whole)]
}

/// Each column by each scheme, in one list per column.
fn by_column(bench: &Bench<'_>, database: &Database, tables: &[String]) -> Result<Vec<Vec<Stored>>> {
    let one =
        |column: &Column| tables.iter().map(|table| inflated(bench, database, table, column)).collect::<Result<_>>();
    COLUMNS.iter().map(one).collect()
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let (drive, cores) = (drive_bandwidth(bench)?, database.threads() as f64);
    let time = |stored: &Stored| (stored.size.stored_bytes as f64 / drive).max(stored.inflate_seconds / cores);
    let bytes = |stored: &Stored| stored.size.stored_bytes as f64;
    let objectives: [(&str, Objective<'_>); 2] = [("time", &time), ("ratio", &bytes)];
    let tables: Vec<String> = SCHEMES.iter().map(|scheme| by_scheme(&database, scheme)).collect::<Result<_>>()?;
    let whole = by_column(bench, &database, &tables)?;
    let mut samples = Vec::new();
    for percent in PERCENTS {
        let tables = SCHEMES.iter().map(|scheme| sampled(bench, &database, scheme, percent));
        samples.push(by_column(bench, &database, &tables.collect::<Result<Vec<_>>>()?)?);
    }
    // By objective, then sample, then column.
    let mut deviations: Vec<Vec<f64>> = Vec::new();
    let mut best: Vec<Vec<&str>> = Vec::new();
    for (_, objective) in objectives {
        let values = |stored: &[Stored]| stored.iter().map(objective).collect::<Vec<f64>>();
        best.push(whole.iter().map(|column| SCHEMES[least(&values(column))]).collect());
        for sample in &samples {
            let columns = sample.iter().zip(&whole);
            deviations.push(columns.map(|(sample, whole)| deviation(&values(sample), &values(whole))).collect());
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, (column, _)) in COLUMNS.iter().enumerate() {
        let names = [*column, best[0][number], best[1][number]].map(str::to_owned);
        let cells = deviations.iter().map(|deviations| format!("{:.2}", deviations[number]));
        rows.push(names.into_iter().chain(cells).collect());
    }
    let mean = |numbers: &[f64]| numbers.iter().sum::<f64>() / numbers.len() as f64;
    let most = |numbers: &[f64]| numbers.iter().copied().fold(1.0, f64::max);
    let mut summarise = |name: &str, of: &dyn Fn(&[f64]) -> f64| {
        let names = [name, "", ""].map(str::to_owned);
        rows.push(names.into_iter().chain(deviations.iter().map(|numbers| format!("{:.2}", of(numbers)))).collect());
    };
    summarise("AVG", &mean);
    summarise("MAX", &most);
    let mut headings = owned(["column", "best for time", "best for ratio"]);
    for (name, _) in objectives {
        headings.extend(PERCENTS.map(|percent| format!("{name}, {percent} %")));
    }
    let series = objectives.iter().zip(deviations.chunks(PERCENTS.len())).map(|((name, _), deviations)| {
        (format!("{name}, AVG"), numbered(deviations.iter().map(|numbers| mean(numbers))))
    });
    Ok(Figure {
        title: format!(
            "Schemes chosen on samples, SSB, scale factor {}: times the best of the whole column (1.00 is the best)",
            bench.options.scale_factor
        ),
        paper: "GOLAP, Table 1 (SSB; samples of 1, 5, 10 %): time AVG 1.26, 1.13, 1.06, MAX 2.4, 1.43, 1.26; ratio AVG 1.01, \
                1.0, 1.0, MAX 1.01, 1.0, 1.0",
        headings,
        rows,
        axes: ("sample", "times the best"),
        ticks: PERCENTS.map(|percent| format!("{percent} %")).to_vec(),
        series: series.collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_grow_and_are_spread() {
        assert_eq!([1, 5, 10].map(|percent| sample(92, percent).len()), [1, 5, 10]);
        assert_eq!(sample(20, 1).len(), 1);
        let ten = sample(1000, 10);
        assert_eq!(sample(1000, 1), ten[..10]);
        let halves = ten.iter().filter(|window| **window < 500).count();
        assert!((30..70).contains(&halves), "{halves}");
        assert!(ten.windows(2).any(|pair| pair[0] > pair[1] + 1));
    }

    #[test]
    fn a_wrong_choice_costs_its_share() {
        assert_eq!(deviation(&[3.0, 1.0, 2.0], &[30.0, 10.0, 20.0]), 1.0);
        assert_eq!(deviation(&[1.0, 3.0], &[15.0, 10.0]), 1.5);
    }
}
