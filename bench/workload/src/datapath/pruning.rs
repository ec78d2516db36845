//! GOLAP, Figures 13 and 14: flight 1 of SSB by the size of chunks, on a fact table in the order of what the flight asks for: how
//! fast it is uncompressed and compressed, with and without pruning, and how many of the chunks each way to prune leaves out.

use std::io::Write;

use forebay::{Database, Result, Session};

use super::chunks::BLOCKS;
use super::{BALANCED, Storage, Timed, UNCOMPRESSED, cold, drive_bandwidth, numbered, over, rate, ssb};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::queries::{Query, queries};

/// Ways to store the fact table, with and without pruning.
const SETTINGS: [(Storage, &str); 4] =
    [(UNCOMPRESSED, "none"), (BALANCED, "none"), (UNCOMPRESSED, "all"), (BALANCED, "all")];

/// Ways to prune, with what they go by.
const TECHNIQUES: [(&str, &str); 4] = [
    ("minmax", "min and max"),
    ("bloom", "and Bloom filters"),
    ("histogram", "and bins of own columns"),
    ("all", "all, and bins of the dimension's"),
];

/// The columns that the flight reads, in chunks of so many blocks, in the order of what it asks for, with facts, Bloom filters of
/// what it asks for among them; made if it is not there.
fn flight_table(database: &Database, storage: &Storage, blocks: u64) -> Result<String> {
    let name = format!("filtered1_{}_{blocks}", storage.name);
    let session = database.session();
    if session.names().tables.contains(&name) {
        return Ok(name);
    }
    all(&session, storage.settings)?;
    let making = [
        format!("SET chunk_blocks = {blocks}"),
        format!(
            "CREATE TABLE {name} (lo_orderdate INTEGER, lo_discount INTEGER, lo_quantity INTEGER, lo_extendedprice INTEGER, \
             FOREIGN KEY (lo_orderdate) REFERENCES date (d_datekey))"
        ),
        format!("INSERT INTO {name} SELECT lo_orderdate, lo_discount, lo_quantity, lo_extendedprice FROM lineorder"),
        format!("ALTER TABLE {name} CLUSTER BY (lo_orderdate.d_year, lo_discount, lo_quantity)"),
    ];
    let filters = ["lo_orderdate", "lo_discount", "lo_quantity"]
        .map(|column| format!("ALTER TABLE {name} ALTER COLUMN {column} SET (bloom_filter = on)"));
    let making = making.into_iter().chain(filters).chain([format!("ANALYZE {name}")]);
    making.into_iter().try_for_each(|sql| all(&session, &[&sql]))?;
    Ok(name)
}

fn flight(bench: &Bench<'_>) -> Vec<Query> {
    let all = queries(Benchmark::Ssb, bench.options.scale_factor).into_iter();
    all.filter(|query| query.name.starts_with("q1")).collect()
}

/// Cold runs of the flight over a table.
fn measured(
    bench: &Bench<'_>,
    (database, session): (&Database, &Session),
    table: &str,
    pruning: &str,
) -> Result<Vec<Timed>> {
    all(session, &[&format!("SET pruning = {pruning}")])?;
    flight(bench).iter().map(|query| cold(bench, database, session, &over(&query.sql, table))).collect()
}

fn mean(numbers: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = numbers.len().max(1) as f64;
    numbers.sum::<f64>() / count
}

/// Figure 13.
pub(super) fn bandwidths(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let drive = drive_bandwidth(bench)?;
    let session = database.session();
    let name = |(storage, pruning): &(Storage, &str)| match *pruning {
        "none" => storage.name.to_owned(),
        _ => format!("{} + pruning", storage.name),
    };
    let mut series: Vec<(String, Vec<f64>)> = SETTINGS.iter().map(|setting| (name(setting), Vec::new())).collect();
    let mut rows = Vec::new();
    for blocks in BLOCKS {
        let mut row = vec![blocks.to_string()];
        for ((storage, pruning), (_, points)) in SETTINGS.iter().zip(&mut series) {
            let table = flight_table(&database, storage, blocks)?;
            let runs = measured(bench, (&database, &session), &table, pruning)?;
            let effective = mean(runs.iter().map(Timed::effective));
            row.push(rate(effective));
            points.push(effective / 1e9);
        }
        rows.push(row);
    }
    Ok(Figure {
        title: format!(
            "SSB flight 1 cold by blocks of a chunk, scale factor {}, clustered by d_year, lo_discount, lo_quantity: mean \
             effective bandwidth; the drive gives {}",
            bench.options.scale_factor,
            rate(drive)
        ),
        paper: "GOLAP, Figure 13 (scale factor 200): uncompressed never passes the drives; compression gains with larger \
                chunks, pruning with smaller ones; both together do best in between",
        headings: std::iter::once("blocks".to_owned()).chain(series.iter().map(|(name, _)| name.clone())).collect(),
        rows,
        axes: ("blocks of a chunk", "GB/s of plain values"),
        ticks: BLOCKS.map(|blocks| blocks.to_string()).to_vec(),
        series: series.into_iter().map(|(name, points)| (name, numbered(points))).collect(),
    })
}

/// Figure 14.
pub(super) fn ratios(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let session = database.session();
    let mut series: Vec<(String, Vec<f64>)> = TECHNIQUES.map(|(_, name)| (name.to_owned(), Vec::new())).to_vec();
    let mut rows = Vec::new();
    for blocks in BLOCKS {
        let table = flight_table(&database, &BALANCED, blocks)?;
        let mut row = vec![blocks.to_string()];
        for ((pruning, _), (_, points)) in TECHNIQUES.iter().zip(&mut series) {
            let runs = measured(bench, (&database, &session), &table, pruning)?;
            let share = mean(runs.iter().map(pruned_share));
            row.push(format!("{:.1} %", 100.0 * share));
            points.push(100.0 * share);
        }
        rows.push(row);
    }
    Ok(Figure {
        title: format!(
            "SSB flight 1 by blocks of a chunk, scale factor {}, clustered by d_year, lo_discount, lo_quantity: mean share of \
             the touched columns' chunks that were not needed",
            bench.options.scale_factor
        ),
        paper: "GOLAP, Figure 14 (scale factor 200; min and max, Bloom filters of 1 KiB, histograms of 256 bins): histograms \
                prune the most at every size of chunks; all prune less of larger ones",
        headings: std::iter::once("blocks").chain(TECHNIQUES.map(|(_, name)| name)).map(str::to_owned).collect(),
        rows,
        axes: ("blocks of a chunk", "% of chunks not read"),
        ticks: BLOCKS.map(|blocks| blocks.to_string()).to_vec(),
        series: series.into_iter().map(|(name, points)| (name, numbered(points))).collect(),
    })
}

fn pruned_share(timed: &Timed) -> f64 {
    timed.metrics.chunks_pruned as f64 / timed.metrics.chunks.max(1) as f64
}

#[cfg(test)]
mod tests {
    use forebay::QueryMetrics;

    use super::*;

    #[test]
    fn shares_are_of_the_touched_chunks() {
        let metrics = QueryMetrics { chunks: 8, chunks_pruned: 6, ..QueryMetrics::default() };
        assert_eq!(pruned_share(&Timed { seconds: 1.0, metrics }), 0.75);
        assert_eq!(pruned_share(&Timed { seconds: 1.0, metrics: QueryMetrics::default() }), 0.0);
        assert_eq!(mean([1.0, 3.0].into_iter()), 2.0);
    }
}
