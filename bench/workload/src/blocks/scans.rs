//! Tables 2 and 4: TPC-H by type of scan, from values as they are and tests in the pipelines to blocks with SMAs and PSMAs.

use std::io::Write;

use forebay::Result;

use super::{SCAN_TYPES, tpch};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all, geometric_mean};
use crate::queries::queries;

/// Geometric means of Table 2 in seconds, in the order of the scan types; "blocks + SARG" without SMA is not in it.
const PAPER: [&str; 6] = ["0.583 s", "0.577 s", "0.555 s", "", "0.466 s", "0.463 s"];

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let queries = queries(Benchmark::Tpch, bench.options.scale_factor);
    let mut seconds: Vec<Vec<f64>> = Vec::new();
    for uncompressed in [true, false] {
        let database = tpch(bench, uncompressed, out)?;
        for scan in SCAN_TYPES.iter().filter(|scan| scan.uncompressed == uncompressed) {
            let session = database.session();
            all(&session, scan.settings)?;
            let times = queries.iter().map(|query| bench.median(&session, &query.sql));
            seconds.push(times.collect::<Result<_>>()?);
        }
    }
    let milliseconds = |seconds: f64| format!("{:.2}", seconds * 1e3);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, query) in queries.iter().enumerate() {
        let cells = seconds.iter().map(|times| milliseconds(times[number]));
        rows.push(std::iter::once(query.name.to_owned()).chain(cells).collect());
    }
    let means: Vec<f64> = seconds.iter().map(|times| geometric_mean(times)).collect();
    let line = |name: &str, cell: &dyn Fn(usize) -> String| {
        std::iter::once(name.to_owned()).chain((0..seconds.len()).map(cell)).collect::<Vec<String>>()
    };
    rows.push(line("sum", &|scan| milliseconds(seconds[scan].iter().sum())));
    rows.push(line("geomean", &|scan| milliseconds(means[scan])));
    rows.push(line("speed-up", &|scan| format!("{:.2}", means[0] / means[scan])));
    rows.push(line("paper", &|scan| PAPER[scan].to_owned()));
    let names: Vec<String> = SCAN_TYPES.iter().map(|scan| scan.name.to_owned()).collect();
    let points = means.iter().enumerate().map(|(scan, mean)| (scan as f64, mean * 1e3));
    Ok(Figure {
        title: format!("TPC-H, scale factor {}: milliseconds by type of scan", bench.options.scale_factor),
        paper: "Table 2 (scale factor 100, 64 threads): geometric mean from 0.583 s to 0.463 s, 1.27 times as fast as its \
                JIT scan of uncompressed data; SARG and SMA only together",
        headings: std::iter::once("query".to_owned()).chain(names.iter().cloned()).collect(),
        rows,
        axes: ("type of scan", "geometric mean, ms"),
        ticks: names,
        series: vec![("22 queries".to_owned(), points.collect())],
    })
}
