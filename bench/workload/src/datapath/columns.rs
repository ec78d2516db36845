//! GOLAP, Figure 10: scans of single columns from the drive. What a scan could reach is the drive's bandwidth times the
//! column's compression.

use std::io::Write;

use forebay::{Error, Result};

use super::{Size, cold, drive_bandwidth, milliseconds, numbered, owned, rate, ssb};
use crate::experiments::Bench;
use crate::experiments::figure::Figure;

/// Columns of text: they have no sum.
const TEXTS: [&str; 2] = ["lo_orderpriority", "lo_shipmode"];

/// Compression up to which columns are drawn: what better ones could reach would press the others to the ground.
const PLOTTED: f64 = 25.0;

/// A query that reads all of one column, and that no metadata answers.
fn query(column: &str) -> String {
    match TEXTS.contains(&column) {
        true => format!("SELECT count(DISTINCT {column}) FROM lineorder"),
        false => format!("SELECT sum({column}) FROM lineorder"),
    }
}

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let drive = drive_bandwidth(bench)?;
    let session = database.session();
    let columns = database.storage()?.into_iter().filter(|column| column.table == "lineorder");
    let columns: Vec<String> = columns.map(|column| column.column).collect();
    let (mut rows, mut reached, mut possible, mut ticks) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for column in &columns {
        let size = Size::of(&database, "lineorder", &[column])?;
        let scan = cold(bench, &database, &session, &query(column))?;
        if scan.metrics.read_bytes == 0 {
            return Err(Error::internal(format!("a scan of {column} read nothing")));
        }
        let optimum = drive * size.compression();
        if size.compression() <= PLOTTED {
            reached.push(scan.effective() / 1e9);
            possible.push(optimum / 1e9);
            ticks.push(column.trim_start_matches("lo_").to_owned());
        }
        rows.push(vec![
            column.clone(),
            format!("{:.1}", size.compression()),
            milliseconds(scan.seconds),
            rate(scan.effective()),
            rate(optimum),
            format!("{:.0} %", 100.0 * scan.effective() / optimum),
            rate(scan.metrics.read_bytes as f64 / scan.seconds),
            scan.share(scan.metrics.read_wait, database.threads()),
            scan.share(scan.metrics.inflate, database.threads()),
        ]);
    }
    Ok(Figure {
        title: format!(
            "Cold scans of single columns, SSB, scale factor {}; the drive gives {}",
            bench.options.scale_factor,
            rate(drive)
        ),
        paper: "GOLAP, Figure 10 (SSB and TPC-H at scale factor 200, Taxi): close to bandwidth times compression, until \
                decompression falls behind where columns take less than a tenth of their plain bytes",
        headings: owned([
            "column",
            "compression",
            "median",
            "effective",
            "drive × compression",
            "reached",
            "from disk",
            "waited",
            "inflated",
        ]),
        rows,
        axes: ("column", "GB/s of plain values"),
        ticks,
        series: vec![("scan".to_owned(), numbered(reached)), ("drive × compression".to_owned(), numbered(possible))],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_has_a_query() {
        assert_eq!(query("lo_tax"), "SELECT sum(lo_tax) FROM lineorder");
        assert_eq!(query("lo_shipmode"), "SELECT count(DISTINCT lo_shipmode) FROM lineorder");
    }
}
