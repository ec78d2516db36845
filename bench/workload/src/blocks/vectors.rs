//! Figure 13: TPC-H by the number of rows that a scan gives to a pipeline at a time.

use std::io::Write;

use forebay::Result;

use super::tpch;
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all, geometric_mean};
use crate::queries::queries;

/// Rows of a vector; the last is what is used otherwise, and the most that there is room for.
const SIZES: [usize; 6] = [64, 256, 1024, 2048, 4096, 8192];

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = tpch(bench, false, out)?;
    let queries = queries(Benchmark::Tpch, bench.options.scale_factor);
    let mut means = Vec::new();
    for size in SIZES {
        let session = database.session();
        all(&session, &[&format!("SET vector_rows = {size}")])?;
        let times: Vec<f64> = queries.iter().map(|query| bench.median(&session, &query.sql)).collect::<Result<_>>()?;
        means.push(geometric_mean(&times) * 1e3);
    }
    Ok(Figure {
        title: format!("TPC-H, scale factor {}, by rows of a vector", bench.options.scale_factor),
        paper: "Figure 13 (scale factor 100): small vectors cost interpretation, those beyond the caches memory; 8,192 rows \
                are among the best",
        headings: ["rows of a vector", "geometric mean"].map(str::to_owned).to_vec(),
        rows: SIZES.iter().zip(&means).map(|(size, mean)| vec![size.to_string(), format!("{mean:.2} ms")]).collect(),
        axes: ("rows of a vector", "geometric mean, ms"),
        ticks: SIZES.map(|size| size.to_string()).to_vec(),
        series: vec![("22 queries".to_owned(), means.iter().enumerate().map(|(x, y)| (x as f64, *y)).collect())],
    })
}
