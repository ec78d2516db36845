//! GOLAP, Figure 9: SSB from the drive, uncompressed and compressed, with and without pruning, on a fact table in the order of
//! dates.

use std::io::Write;

use forebay::Result;

use super::{BALANCED, BEST_RATIO, Size, Storage, UNCOMPRESSED, cold, drive_bandwidth, over, rate, ssb, stored};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all, geometric_mean};
use crate::queries::queries;

const STORED: [Storage; 3] = [UNCOMPRESSED, BALANCED, BEST_RATIO];

const PRUNING: [(&str, &str); 2] = [("", "SET pruning = none"), (" + pruning", "SET pruning = all")];

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let drive = drive_bandwidth(bench)?;
    let sorted = super::sorted_by_date(&database)?;
    let queries = queries(Benchmark::Ssb, bench.options.scale_factor);
    let mut rates: Vec<(String, Vec<f64>)> = Vec::new();
    let mut compressions = Vec::new();
    for storage in &STORED {
        let table = stored(&database, sorted, storage)?;
        all(&database.session(), &[&format!("ANALYZE {table}")])?;
        compressions.push(format!("{} {:.1}", storage.name, Size::of(&database, &table, &[])?.compression()));
        for (suffix, setting) in PRUNING {
            let session = database.session();
            all(&session, &[setting])?;
            let run = |sql: &str| cold(bench, &database, &session, &over(sql, &table)).map(|timed| timed.effective());
            let measured = queries.iter().map(|query| run(&query.sql)).collect::<Result<_>>()?;
            rates.push((format!("{}{suffix}", storage.name), measured));
        }
    }
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, query) in queries.iter().enumerate() {
        let cells = rates.iter().map(|(_, rates)| rate(rates[number]));
        rows.push(std::iter::once(query.name.to_owned()).chain(cells).collect());
    }
    let means: Vec<f64> = rates.iter().map(|(_, rates)| geometric_mean(rates)).collect();
    rows.push(std::iter::once("geomean".to_owned()).chain(means.iter().map(|mean| rate(*mean))).collect());
    let factors = means.iter().map(|mean| format!("{:.1} ×", mean / means[0]));
    rows.push(std::iter::once("of the first".to_owned()).chain(factors).collect());
    Ok(Figure {
        title: format!(
            "SSB cold, scale factor {}, lineorder by date: effective bandwidth; the drive gives {}; plain over stored bytes: {}",
            bench.options.scale_factor,
            rate(drive),
            compressions.join(", ")
        ),
        paper: "GOLAP, Figure 9 (SSB flight 1, scale factor 200): uncompressed as fast as the drives; pruning 3 to 8 times \
                that, compression (2.8) more than 2.5 times, both about 8 times",
        headings: std::iter::once("query".to_owned()).chain(rates.iter().map(|(name, _)| name.clone())).collect(),
        rows,
        axes: ("query", "GB/s of plain values"),
        ticks: queries.iter().map(|query| query.name.to_owned()).collect(),
        series: rates
            .into_iter()
            .map(|(name, rates)| (name, super::numbered(rates.into_iter().map(|rate| rate / 1e9))))
            .collect(),
    })
}
