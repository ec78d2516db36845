//! Appendix D: the average delay by carrier of flights to one airport, on data in the order of time.
//!
//! The flights are made up, in the shape of the airlines' reports: a file for each month, in it a carrier after the other, its
//! flight numbers, and the days. Carriers are skewed in size, airports in use, and no carrier flies everywhere.

use std::io::Write;

use forebay::{Database, Result};

use super::{SCAN_TYPES, UNCOMPRESSED};
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::measure::run_sql;

/// Flights at scale factor 1.
const FLIGHTS: f64 = 12_000_000.0;

/// Flights of a month: 16,000 flight numbers on 30 days.
const MONTH: u64 = 480_000;

const QUERY: &str = "SELECT uniquecarrier AS carrier, avg(arrdelay) AS avgdelay FROM flights \
                     WHERE year BETWEEN 1998 AND 2008 AND dest = 'SFO' GROUP BY uniquecarrier ORDER BY avgdelay DESC";

/// The rows by arithmetic on their number alone.
fn select(flights: u64) -> String {
    let months = flights.div_ceil(MONTH);
    // Months are spread over October 1987 to April 2008.
    format!(
        "SELECT CAST((1987 * 12 + 9 + month * 246 // {months}) // 12 AS SMALLINT) AS year, \
         CAST((9 + month * 246 // {months}) % 12 + 1 AS SMALLINT) AS month, \
         CAST(day + 1 AS SMALLINT) AS dayofmonth, \
         'C' || CAST(carrier AS VARCHAR) AS uniquecarrier, CAST(number AS INTEGER) AS flightnum, \
         CASE WHEN airport = 42 THEN 'SFO' ELSE 'A' || CAST(airport AS VARCHAR) END AS dest, \
         CAST((x * 7919 % 1009) * (x * 104729 % 61) // 300 - 20 AS INTEGER) AS arrdelay, \
         CAST(x * 31 % 2500 + 100 AS INTEGER) AS distance \
         FROM (SELECT x, month, day, number, carrier, \
         (carrier * 13 + (number * 2654435 % 61) * (number * 2654435 % 61) // 61 * 5) % 300 AS airport \
         FROM (SELECT x, month, day, number, number * number * 20 // (16000 * 16000) AS carrier \
         FROM (SELECT x, x // {MONTH} AS month, x % {MONTH} // 30 AS number, x % 30 AS day \
         FROM range({flights}) AS r(x)) AS a) AS b) AS c"
    )
}

/// The flights, in the order of time: one thread loads them.
fn make(bench: &Bench<'_>, uncompressed: bool) -> Result<Database> {
    let folder = if uncompressed { "flights-uncompressed" } else { "flights-blocks" };
    let database = Database::open(&bench.options.directory.join(folder), &bench.open_options())?;
    let session = database.session();
    if session.names().tables.is_empty() {
        if uncompressed {
            all(&session, &[UNCOMPRESSED])?;
        }
        let flights = (FLIGHTS * bench.options.scale_factor).max(1.0) as u64;
        all(&session, &["SET threads = 1"])?;
        run_sql(&session, &format!("CREATE TABLE flights AS {}", select(flights)))?;
    }
    Ok(database)
}

pub(super) fn measure(bench: &Bench<'_>, _out: &mut dyn Write) -> Result<Figure> {
    let mut times = Vec::new();
    for uncompressed in [true, false] {
        let database = make(bench, uncompressed)?;
        for scan in SCAN_TYPES.iter().filter(|scan| scan.uncompressed == uncompressed) {
            let session = database.session();
            all(&session, scan.settings)?;
            times.push(bench.median(&session, QUERY)?);
        }
    }
    let row = |(scan, seconds): (&super::ScanType, &f64)| {
        vec![scan.name.to_owned(), format!("{:.2} ms", seconds * 1e3), format!("{:.1}", times[0] / seconds)]
    };
    let points = times.iter().enumerate().map(|(scan, seconds)| (scan as f64, times[0] / seconds));
    Ok(Figure {
        title: format!("Flights to one airport, {} million", FLIGHTS * bench.options.scale_factor / 1e6),
        paper: "5.2 and Appendix D (123 million flights): more than 20 times as fast as its JIT scan of uncompressed data",
        headings: ["scan", "time", "speed-up"].map(str::to_owned).to_vec(),
        rows: SCAN_TYPES.iter().zip(&times).map(row).collect(),
        axes: ("type of scan", "speed-up over uncompressed"),
        ticks: SCAN_TYPES.iter().map(|scan| scan.name.to_owned()).collect(),
        series: vec![("flights".to_owned(), points.collect())],
    })
}
