//! HippogriffDB §3, scheme by scheme: what each leaves of a column, and how fast one core inflates it.

use std::io::Write;

use forebay::{Database, Error, Result};

use super::{Size, cold, make_table, numbered, ssb};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all, geometric_mean};

/// Values of `SET compression`: single schemes of frames, then what loads choose by.
const SCHEMES: [&str; 9] =
    ["lz4", "zstd", "bit_packed", "patched", "delta", "run_length", "rans", "balanced", "best_ratio"];

/// A column, and the aggregate that reads all of it.
pub(super) type Column = (&'static str, &'static str);

/// Columns that SSB's queries read, and one of text.
pub(super) const COLUMNS: [Column; 11] = [
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
pub(super) struct Stored {
    pub(super) size: Size,
    /// Time in which one core inflates all of it, verified and checked.
    pub(super) inflate_seconds: f64,
}

impl Stored {
    /// Inflated bytes per second.
    fn rate(&self) -> f64 {
        self.size.encoded_bytes as f64 / self.inflate_seconds
    }
}

/// Measures a column of a table.
pub(super) fn inflated(bench: &Bench<'_>, database: &Database, table: &str, column: &Column) -> Result<Stored> {
    let session = database.session();
    // Workers that share a core, or its caches, inflate more slowly than one alone.
    all(&session, &["SET threads = 1"])?;
    let (name, query) = column;
    let scan = cold(bench, database, &session, &format!("SELECT {query} FROM {table}"))?;
    let inflate_seconds = scan.metrics.inflate.as_secs_f64();
    if inflate_seconds <= 0.0 {
        return Err(Error::internal(format!("a scan of {name} inflated nothing")));
    }
    Ok(Stored { size: Size::of(database, table, &[name])?, inflate_seconds })
}

/// The statement that gives the measured columns of the fact table's rows that pass a condition.
pub(super) fn selection(condition: &str) -> String {
    let columns: Vec<&str> = COLUMNS.iter().map(|(column, _)| *column).collect();
    format!("SELECT {} FROM lineorder {condition}", columns.join(", "))
}

/// The name of the table of all rows that is stored by a scheme; made if it is not there.
pub(super) fn by_scheme(database: &Database, scheme: &str) -> Result<String> {
    let table = format!("by_{scheme}");
    make_table(database, &table, &[&format!("SET compression = {scheme}")], &selection(""))?;
    Ok(table)
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let mut all_stored: Vec<Vec<Stored>> = Vec::new();
    for scheme in SCHEMES {
        let table = by_scheme(&database, scheme)?;
        let stored = COLUMNS.iter().map(|column| inflated(bench, &database, &table, column));
        all_stored.push(stored.collect::<Result<_>>()?);
    }
    let cell = |share: f64, rate: f64| format!("{share:.2}, {:.1}", rate / 1e9);
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (number, (column, _)) in COLUMNS.iter().enumerate() {
        let cells = all_stored.iter().map(|stored| cell(stored[number].size.share(), stored[number].rate()));
        rows.push(std::iter::once((*column).to_owned()).chain(cells).collect());
    }
    let mean = |of: fn(&Stored) -> f64, stored: &[Stored]| geometric_mean(&stored.iter().map(of).collect::<Vec<_>>());
    let means =
        all_stored.iter().map(|stored| (mean(|stored| stored.size.share(), stored), mean(Stored::rate, stored)));
    let means: Vec<(f64, f64)> = means.collect();
    let cells = means.iter().map(|(share, rate)| cell(*share, *rate));
    rows.push(std::iter::once("geomean".to_owned()).chain(cells).collect());
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
        axes: ("scheme", "geometric mean of the columns"),
        ticks: SCHEMES.map(str::to_owned).to_vec(),
        series: vec![
            ("GB/s of one core".to_owned(), numbered(means.iter().map(|(_, rate)| rate / 1e9))),
            ("plain over stored".to_owned(), numbered(means.iter().map(|(share, _)| 1.0 / share))),
        ],
    })
}
