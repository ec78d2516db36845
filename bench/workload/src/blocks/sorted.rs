//! Figure 11: TPC-H Q6 on lineitem in generated order, sorted by ship date within each block, and sorted as a whole.

use std::io::Write;

use forebay::Result;

use super::{SCAN_TYPES, UNCOMPRESSED, tpch};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::measure::run_sql;

const COLUMNS: &str = "l_shipdate, l_discount, l_quantity, l_extendedprice";

/// Tables by the order of their rows. One thread loads them, so that blocks hold the rows in that order.
const ORDERS: [(&str, &str, &str); 3] = [
    ("generated", "lineitem_generated", ""),
    ("sorted in blocks", "lineitem_in_blocks", "ORDER BY position // 65536, l_shipdate"),
    ("sorted as a whole", "lineitem_sorted", "ORDER BY l_shipdate"),
];

/// Makes the tables that are missing; `suffix` tells those apart whose values are as they are.
fn make(bench: &Bench<'_>, suffix: &str, out: &mut dyn Write) -> Result<forebay::Database> {
    let database = tpch(bench, false, out)?;
    let session = database.session();
    let known = session.names().tables;
    all(&session, &["SET threads = 1"])?;
    if !suffix.is_empty() {
        all(&session, &[UNCOMPRESSED])?;
    }
    for (_, table, order) in ORDERS {
        let name = format!("{table}{suffix}");
        if !known.contains(&name) {
            let numbered = format!("(SELECT {COLUMNS}, row_number() OVER () - 1 AS position FROM lineitem)");
            run_sql(&session, &format!("CREATE TABLE {name} AS SELECT {COLUMNS} FROM {numbered} AS numbered {order}"))?;
        }
    }
    Ok(database)
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let mut rows = Vec::new();
    let mut series = Vec::new();
    drop(make(bench, "", out)?);
    let database = make(bench, "_uncompressed", out)?;
    for (order, table, _) in ORDERS {
        let mut times = Vec::new();
        for scan in &SCAN_TYPES {
            let session = database.session();
            all(&session, scan.settings)?;
            let suffix = if scan.uncompressed { "_uncompressed" } else { "" };
            let sql = format!(
                "SELECT sum(l_extendedprice * l_discount) AS revenue FROM {table}{suffix} \
                 WHERE l_shipdate >= DATE '1994-01-01' AND l_shipdate < DATE '1995-01-01' \
                 AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24"
            );
            times.push(bench.median(&session, &sql)?);
        }
        let cells = times.iter().map(|seconds| format!("{:.2} ms ({:.1} ×)", seconds * 1e3, times[0] / seconds));
        rows.push(std::iter::once(order.to_owned()).chain(cells).collect());
        let points = times.iter().enumerate().map(|(scan, seconds)| (scan as f64, times[0] / seconds));
        series.push((order.to_owned(), points.collect()));
    }
    let names: Vec<String> = SCAN_TYPES.iter().map(|scan| scan.name.to_owned()).collect();
    Ok(Figure {
        title: format!("TPC-H Q6, scale factor {}, by order of the rows", bench.options.scale_factor),
        paper: "Figure 11 (scale factor 100): on data sorted by ship date within blocks PSMAs add a significant speed-up to \
                that of blocks (Table 4, generated order: 6.7 times its JIT scan with and without PSMAs)",
        headings: std::iter::once("rows".to_owned()).chain(names.iter().cloned()).collect(),
        rows,
        axes: ("type of scan", "speed-up over uncompressed"),
        ticks: names,
        series,
    })
}
