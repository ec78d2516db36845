//! HippogriffDB, Figure 13, on the host: SSB from the drive by what loads may compress with.

use std::io::Write;

use forebay::Result;

use super::{
    BALANCED, BEST_RATIO, DICTIONARY, Size, Storage, UNCOMPRESSED, cold, drive_bandwidth, milliseconds, numbered, over,
    rate, ssb, stored,
};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, geometric_mean};
use crate::queries::queries;

const STORED: [Storage; 4] = [UNCOMPRESSED, DICTIONARY, BALANCED, BEST_RATIO];

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let drive = drive_bandwidth(bench)?;
    let session = database.session();
    let queries = queries(Benchmark::Ssb, bench.options.scale_factor);
    let (mut seconds, mut shares): (Vec<Vec<f64>>, Vec<f64>) = (Vec::new(), Vec::new());
    for storage in &STORED {
        let table = stored(&database, "lineorder", storage)?;
        shares.push(Size::of(&database, &table, &[])?.share());
        let run = |sql: &str| cold(bench, &database, &session, &over(sql, &table)).map(|timed| timed.seconds);
        seconds.push(queries.iter().map(|query| run(&query.sql)).collect::<Result<_>>()?);
    }
    let speedup = |storage: usize, query: usize| seconds[0][query] / seconds[storage][query];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, query) in queries.iter().enumerate() {
        let cell = |storage: usize| match storage {
            0 => milliseconds(seconds[0][number]),
            _ => format!("{} ({:.1} ×)", milliseconds(seconds[storage][number]), speedup(storage, number)),
        };
        rows.push(std::iter::once(query.name.to_owned()).chain((0..STORED.len()).map(cell)).collect());
    }
    let means: Vec<f64> = seconds.iter().map(|seconds| geometric_mean(seconds)).collect();
    let cell = |storage: usize| format!("{} ({:.1} ×)", milliseconds(means[storage]), means[0] / means[storage]);
    rows.push(std::iter::once("geomean".to_owned()).chain((0..STORED.len()).map(cell)).collect());
    let cells = shares.iter().map(|share| format!("{share:.2}"));
    rows.push(std::iter::once("stored over plain".to_owned()).chain(cells).collect());
    Ok(Figure {
        title: format!(
            "SSB cold by compression, scale factor {}: medians, and speed-up over uncompressed; the drive gives {}",
            bench.options.scale_factor,
            rate(drive)
        ),
        paper: "HippogriffDB, Figure 13 (scale factor 10, drive to GPU): compression makes queries 2.8 to 4.9 times as fast, \
                Q1.1 most, since it reads one foreign key only",
        headings: std::iter::once("query").chain(STORED.map(|storage| storage.name)).map(str::to_owned).collect(),
        rows,
        axes: ("query", "speed-up over uncompressed"),
        ticks: queries.iter().map(|query| query.name.to_owned()).collect(),
        series: (1..STORED.len())
            .map(|at| (STORED[at].name.to_owned(), numbered((0..queries.len()).map(|query| speedup(at, query)))))
            .collect(),
    })
}
