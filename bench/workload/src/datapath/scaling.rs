//! HippogriffDB, Table 4: Q1.1 of SSB from the drive by scale factor, uncompressed as in the paper, and compressed.

use std::io::Write;

use forebay::Result;

use super::{
    BALANCED, Timed, UNCOMPRESSED, cold, milliseconds, numbered, over, owned, rate, scale_factors, ssb, stored,
};
use crate::benchmark::Benchmark;
use crate::experiments::Bench;
use crate::experiments::figure::Figure;
use crate::queries::queries;

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let scales = scale_factors(bench);
    let mut measured: Vec<[Timed; 2]> = Vec::new();
    for scale in &scales {
        let database = ssb(bench, *scale, out)?;
        let session = database.session();
        let query = &queries(Benchmark::Ssb, *scale)[0];
        let uncompressed = stored(&database, "lineorder", &UNCOMPRESSED)?;
        let balanced = stored(&database, "lineorder", &BALANCED)?;
        let run = |table: &str| cold(bench, &database, &session, &over(&query.sql, table));
        measured.push([run(&uncompressed)?, run(&balanced)?]);
    }
    let rows = scales.iter().zip(&measured).map(|(scale, timed)| {
        let cells = timed.iter().zip(&measured[0]).flat_map(|(timed, first)| {
            let times = format!("{:.2}", timed.seconds / first.seconds);
            [milliseconds(timed.seconds), times, rate(timed.effective())]
        });
        std::iter::once(scale.to_string()).chain(cells).collect()
    });
    let series = |at: usize| numbered(measured.iter().map(|timed| timed[at].effective() / 1e9));
    Ok(Figure {
        title: "SSB Q1.1 cold, by scale factor".to_owned(),
        paper: "HippogriffDB, Table 4 (uncompressed, scale factors 1 to 1000): times 1, 10.27, 93.60 and 938.0 of the first, so \
                at constant throughput",
        headings: owned([
            "scale factor",
            "uncompressed",
            "times the first",
            "effective",
            "balanced",
            "times the first",
            "effective",
        ]),
        rows: rows.collect(),
        axes: ("scale factor", "GB/s of plain values"),
        ticks: scales.iter().map(f64::to_string).collect(),
        series: vec![("uncompressed".to_owned(), series(0)), ("balanced".to_owned(), series(1))],
    })
}
