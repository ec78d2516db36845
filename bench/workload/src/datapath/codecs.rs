//! HippogriffDB §3, scheme by scheme: what each leaves of a column, and how fast one core inflates it.

use std::io::Write;

use forebay::{Database, Error, Result};

use super::{Size, cold, make_table, ssb};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all, geometric_mean};

/// Values of `SET compression`: single schemes of frames, then what loads choose by.
const SCHEMES: [&str; 9] =
    ["lz4", "zstd", "bit_packed", "patched", "delta", "run_length", "rans", "balanced", "best_ratio"];

/// Columns that SSB's queries read, with one of text, and their queries.
const COLUMNS: [(&str, &str); 11] = [
    ("lo_orderkey", "sum(lo_orderkey)"),
    ("lo_custkey", "sum(lo_custkey)"),
    ("lo_partkey", "sum(lo_partkey)"),
    ("lo_suppkey", "sum(lo_suppkey)"),
    ("lo_orderdate", "sum(lo_orderdate)"),
    ("lo_quantity", "sum(lo_quantity)"),
    ("lo_discount", "sum(lo_discount)"),
    ("lo_extendedprice", "sum(lo_extendedprice)"),
    ("lo_revenue", "sum(lo_revenue)"),
    ("lo_supplycost", "sum(lo_supplycost)"),
    ("lo_shipmode", "count(DISTINCT lo_shipmode)"),
];

/// A column by a scheme.
struct Stored {
    /// Stored over plain bytes.
    share: f64,
    /// Inflated bytes per second and core, verified and checked.
    inflate: f64,
}

fn measure_one(bench: &Bench<'_>, database: &Database, table: &str, (column, query): (&str, &str)) -> Result<Stored> {
    let session = database.session();
    // Workers that share a core, or its caches, inflate more slowly than one alone.
    all(&session, &["SET threads = 1"])?;
    let size = Size::of(database, table, &[column])?;
    let scan = cold(bench, database, &session, &format!("SELECT {query} FROM {table}"))?;
    let seconds = scan.metrics.inflate.as_secs_f64();
    if seconds <= 0.0 {
        return Err(Error::internal(format!("a scan of {column} inflated nothing")));
    }
    Ok(Stored { share: size.share(), inflate: size.encoded_bytes as f64 / seconds })
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let columns: Vec<&str> = COLUMNS.iter().map(|(column, _)| *column).collect();
    let select = format!("SELECT {} FROM lineorder", columns.join(", "));
    let mut all_stored: Vec<Vec<Stored>> = Vec::new();
    for scheme in SCHEMES {
        let table = format!("by_{scheme}");
        make_table(&database, &table, &[&format!("SET compression = {scheme}")], &select)?;
        let stored = COLUMNS.iter().map(|column| measure_one(bench, &database, &table, *column));
        all_stored.push(stored.collect::<Result<_>>()?);
    }
    let cell = |stored: &Stored| format!("{:.2}, {:.1}", stored.share, stored.inflate / 1e9);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, column) in columns.iter().enumerate() {
        let cells = all_stored.iter().map(|stored| cell(&stored[number]));
        rows.push(std::iter::once((*column).to_owned()).chain(cells).collect());
    }
    let mean = |of: fn(&Stored) -> f64, stored: &[Stored]| geometric_mean(&stored.iter().map(of).collect::<Vec<_>>());
    let means: Vec<Stored> = all_stored
        .iter()
        .map(|stored| Stored { share: mean(|s| s.share, stored), inflate: mean(|s| s.inflate, stored) })
        .collect();
    rows.push(std::iter::once("geomean".to_owned()).chain(means.iter().map(cell)).collect());
    Ok(Figure {
        title: format!(
            "Schemes of frames, SSB, scale factor {}: stored over plain bytes, and GB/s that one core inflates (what a scheme \
             cannot hold, or does not make smaller, lies as it is)",
            bench.options.scale_factor
        ),
        paper: "HippogriffDB §3.1-3.2: RLE, DICT, DELTA and Huffman; the plan with the fewest bytes may decode more slowly \
                than the drive reads, and the balanced one never does. GOLAP: Deflate, Snappy, LZ4 and others of nvcomp",
        headings: std::iter::once("column").chain(SCHEMES).map(str::to_owned).collect(),
        rows,
        axes: ("stored over plain bytes", "GB/s that one core inflates"),
        ticks: Vec::new(),
        series: SCHEMES
            .iter()
            .zip(&means)
            .map(|(scheme, mean)| ((*scheme).to_owned(), vec![(mean.share, mean.inflate / 1e9)]))
            .collect(),
    })
}
