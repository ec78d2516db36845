//! GOLAP, Figures 16 and 17, as far as one system goes: how long the query sets of SSB take from the drive by how the fact table
//! is stored, and how that compares with what the drive alone would take for the plain bytes. A machine costs the same per second
//! whatever it runs, so that prices compare as times do.

use std::io::Write;

use forebay::Result;

use super::{
    BALANCED, Storage, Timed, UNCOMPRESSED, cold, drive_bandwidth, milliseconds, numbered, over, rate, ssb, stored,
};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::queries::queries;

/// What is compared: how it is stored, and what leaves chunks out.
const SYSTEMS: [(&str, Storage, &str); 3] =
    [("uncompressed", UNCOMPRESSED, "none"), ("balanced", BALANCED, "none"), ("balanced + pruning", BALANCED, "all")];

const SETS: [&str; 4] = ["q1", "q2", "q3", "q4"];

/// Cold runs of all queries: by system, by set.
fn measured(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Vec<Vec<Vec<Timed>>>> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let sorted = super::sorted_by_date(&database)?;
    let queries = queries(Benchmark::Ssb, bench.options.scale_factor);
    let mut systems = Vec::new();
    for (_, storage, pruning) in &SYSTEMS {
        let table = stored(&database, sorted, storage)?;
        let session = database.session();
        all(&session, &[&format!("ANALYZE {table}"), &format!("SET pruning = {pruning}")])?;
        let of_set = |set: &&str| {
            let own = queries.iter().filter(|query| query.name.starts_with(set));
            own.map(|query| cold(bench, &database, &session, &over(&query.sql, &table))).collect::<Result<Vec<_>>>()
        };
        systems.push(SETS.iter().map(of_set).collect::<Result<Vec<_>>>()?);
    }
    Ok(systems)
}

fn seconds(runs: &[Timed]) -> f64 {
    runs.iter().map(|timed| timed.seconds).sum()
}

/// Figure 16.
pub(super) fn runtimes(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let systems = measured(bench, out)?;
    let rows = SETS.iter().enumerate().map(|(set, name)| {
        let cells = systems.iter().map(|sets| {
            let (own, first) = (seconds(&sets[set]), seconds(&systems[0][set]));
            format!("{} ({:.1} ×)", milliseconds(own), first / own.max(f64::MIN_POSITIVE))
        });
        std::iter::once((*name).to_owned()).chain(cells).collect()
    });
    Ok(Figure {
        title: format!(
            "SSB cold, scale factor {}, lineorder by date: sums of medians of the query sets, and speed-up over uncompressed",
            bench.options.scale_factor
        ),
        paper: "GOLAP, Figure 16 (GOLAP compressed, not pruned, against CPU systems): 4 to 23 times as fast; DuckDB over \
                Parquet gains less by compression than its ratio of 2.5. Other systems: bench/compare",
        headings: std::iter::once("set").chain(SYSTEMS.map(|(name, ..)| name)).map(str::to_owned).collect(),
        rows: rows.collect(),
        axes: ("query set", "milliseconds"),
        ticks: SETS.map(str::to_owned).to_vec(),
        series: SYSTEMS
            .iter()
            .zip(&systems)
            .map(|((name, ..), sets)| ((*name).to_owned(), numbered(sets.iter().map(|runs| seconds(runs) * 1e3))))
            .collect(),
    })
}

/// Figure 17.
pub(super) fn prices(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let drive = drive_bandwidth(bench)?;
    let systems = measured(bench, out)?;
    let least = |set: usize| -> f64 {
        systems[0][set].iter().map(|timed| timed.metrics.plain_bytes as f64 / drive.max(f64::MIN_POSITIVE)).sum()
    };
    let rows = SETS.iter().enumerate().map(|(set, name)| {
        let cells = systems.iter().map(|sets| {
            let own = seconds(&sets[set]);
            format!("{} ({:.2} of it)", milliseconds(own), own / least(set).max(f64::MIN_POSITIVE))
        });
        [(*name).to_owned(), milliseconds(least(set))].into_iter().chain(cells).collect()
    });
    let headings = ["set", "plain bytes from the drive"].into_iter().chain(SYSTEMS.map(|(name, ..)| name));
    Ok(Figure {
        title: format!(
            "SSB cold, scale factor {}, lineorder by date: machine time of the query sets, and its share of what reading their \
             plain bytes would take; the drive gives {}",
            bench.options.scale_factor,
            rate(drive)
        ),
        paper: "GOLAP, Figure 17 (SSB scale factor 100, without pruning): a query on compressed data costs well below the least \
                price of uncompressed data on a CPU instance, whose drives cost a third of the GPU instance's per IOPS",
        headings: headings.map(str::to_owned).collect(),
        rows: rows.collect(),
        axes: ("query set", "time over that of reading plain bytes"),
        ticks: SETS.map(str::to_owned).to_vec(),
        series: SYSTEMS
            .iter()
            .zip(&systems)
            .map(|((name, ..), sets)| {
                let shares =
                    sets.iter().enumerate().map(|(set, runs)| seconds(runs) / least(set).max(f64::MIN_POSITIVE));
                ((*name).to_owned(), numbered(shares))
            })
            .collect(),
    })
}
