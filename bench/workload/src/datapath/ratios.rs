//! HippogriffDB, Table 3: what compression leaves of the columns of one query, in the order that suits it, in one that suits
//! another, and by dictionaries alone, by scale factor.

use std::io::Write;

use forebay::Result;

use super::{BALANCED, BEST_RATIO, DICTIONARY, Size, Storage, make_table, numbered, owned, scale_factors, ssb};
use crate::experiments::Bench;
use crate::experiments::figure::Figure;

/// Columns of the paper's Query 2.
const COLUMNS: &str = "lo_partkey, lo_suppkey, lo_orderdate, lo_revenue, lo_quantity";

/// Tables of those columns: name, order, how they are stored.
const VERSIONS: [(&str, &str, Storage); 5] = [
    ("for_query", "ORDER BY lo_partkey, lo_suppkey", BALANCED),
    ("for_query_best", "ORDER BY lo_partkey, lo_suppkey", BEST_RATIO),
    // The keys of the paper's other query, which this one does not read.
    ("for_other", "ORDER BY lo_custkey, lo_suppkey", BALANCED),
    ("as_generated", "", BALANCED),
    ("as_generated_dictionary", "", DICTIONARY),
];

/// The paper's rows: adaptive, insensitive, DICT, at scale factors 1, 10, 100, 1000.
const PAPER: &str = "HippogriffDB, Table 3 (scale factors 1, 10, 100, 1000): ordered for the query 0.28, 0.30, 0.31, 0.32; for \
                     another 0.42, 0.46, 0.48, 0.49; DICT 0.44, 0.48, 0.52, 0.55";

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let names =
        ["ordered for the query", "the same, best_ratio", "ordered for another", "as generated", "DICT, as generated"];
    let scales = scale_factors(bench);
    let (mut rows, mut shares) = (Vec::new(), vec![Vec::new(); VERSIONS.len()]);
    for scale in &scales {
        let database = ssb(bench, *scale, out)?;
        let mut row = vec![scale.to_string()];
        for ((table, order, storage), shares) in VERSIONS.iter().zip(&mut shares) {
            let select = format!("SELECT {COLUMNS} FROM lineorder {order}");
            make_table(&database, table, storage.settings, &select)?;
            let share = Size::of(&database, table, &[])?.share();
            row.push(format!("{share:.3}"));
            shares.push(share);
        }
        rows.push(row);
    }
    let mut headings = owned(["scale factor"]);
    headings.extend(owned(names));
    Ok(Figure {
        title: "Stored over plain bytes of the columns of HippogriffDB's Query 2, by scale factor".to_owned(),
        paper: PAPER,
        headings,
        rows,
        axes: ("scale factor", "stored over plain bytes"),
        ticks: scales.iter().map(f64::to_string).collect(),
        series: names.iter().zip(shares).map(|(name, shares)| ((*name).to_owned(), numbered(shares))).collect(),
    })
}
