//! GOLAP, Figure 12, and HippogriffDB, Figure 18, on the host: reading while workers inflate and compute, or not.

use std::io::Write;

use forebay::Result;
use forebay::units::format_bytes;

use super::chunks::commit_dates;
use super::{UNCOMPRESSED, cold, milliseconds, numbered, over, owned, ssb, stored};
use crate::benchmark::Benchmark;
use crate::experiments::figure::Figure;
use crate::experiments::{Bench, all};
use crate::queries::queries;

/// Blocks of the chunks of the column that is scanned.
const BLOCKS: [u64; 3] = [1, 4, 16];

/// Those of HippogriffDB's figure.
const QUERIES: [&str; 2] = ["q1.1", "q4.1"];

pub(super) fn measure(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    let database = ssb(bench, bench.options.scale_factor, out)?;
    let mut workloads = Vec::new();
    for blocks in BLOCKS {
        let (table, size) = commit_dates(&database, blocks)?;
        let chunk = format_bytes(size.stored_bytes / size.chunks.max(1));
        let sql = format!("SELECT sum(lo_commitdate) FROM {table}");
        workloads.push((format!("lo_commitdate, chunks of {chunk}"), format!("commitdate × {blocks}"), sql));
    }
    let all_queries = queries(Benchmark::Ssb, bench.options.scale_factor);
    let uncompressed = stored(&database, "lineorder", &UNCOMPRESSED)?;
    for (storage, table) in [("balanced", "lineorder"), ("uncompressed", uncompressed.as_str())] {
        for query in all_queries.iter().filter(|query| QUERIES.contains(&query.name)) {
            let name = format!("{}, {storage}", query.name);
            workloads.push((name.clone(), name, over(&query.sql, table)));
        }
    }
    let session = database.session();
    let (mut rows, mut gains, mut ticks) = (Vec::new(), Vec::new(), Vec::new());
    for (name, tick, sql) in workloads {
        let mut timed = Vec::new();
        for setting in ["SET read_ahead = off", "SET read_ahead = on"] {
            all(&session, &[setting])?;
            timed.push(cold(bench, &database, &session, &sql)?);
        }
        let waited = |at: usize| timed[at].share(timed[at].metrics.read_wait, database.threads());
        rows.push(vec![
            name,
            milliseconds(timed[0].seconds),
            milliseconds(timed[1].seconds),
            format!("{:.2} ×", timed[0].seconds / timed[1].seconds),
            waited(0),
            waited(1),
        ]);
        gains.push(timed[0].seconds / timed[1].seconds);
        ticks.push(tick);
    }
    Ok(Figure {
        title: format!(
            "Reading ahead off and on, cold, SSB, scale factor {}, {} threads",
            bench.options.scale_factor,
            database.threads()
        ),
        paper: "GOLAP, Figure 12: with overlap few pipelines reach the bandwidth that else takes large chunks or more than \
                four. HippogriffDB, Figure 18 (SSD): double buffering takes 3 % off Q1.1 and 5 % off Q4.1",
        headings: owned(["scan", "off", "on", "speed-up", "waited, off", "waited, on"]),
        rows,
        axes: ("scan", "speed-up by reading ahead"),
        ticks,
        series: vec![("speed-up".to_owned(), numbered(gains))],
    })
}
