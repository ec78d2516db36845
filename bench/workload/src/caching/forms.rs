//! The forms in which chunks stay: inflated alone, stored alone, and as the proportional policy shares memory out between both.
//!
//! Two streams: queries of columns whose chunks inflate to more than twice their stored bytes, and SSB. Must not know: how shares
//! are found.

use std::io::Write;

use forebay::Result;
use forebay::units::format_bytes;

use super::{conditions, prepared, rounds, ssb};
use crate::experiments::Bench;
use crate::experiments::figure::Figure;
use crate::measure::run_sql;

/// `SET cache_forms`.
const FORMS: [&str; 3] = ["inflated", "stored", "automatic"];

/// Budgets as percent of the bytes that the columns of a stream take inflated.
const PERCENTS: [u64; 5] = [10, 25, 50, 75, 100];

/// Queries of columns that repeat their values, or ascend.
const COMPRESSIBLE: [&str; 4] = [
    "SELECT count(*) FROM lineorder WHERE lo_orderpriority = '2-HIGH' AND lo_shipmode <> 'MAIL'",
    "SELECT max(lo_ordtotalprice), sum(lo_orderkey) FROM lineorder WHERE lo_shipmode = 'AIR'",
    "SELECT min(lo_orderdate), max(lo_custkey) FROM lineorder WHERE lo_orderpriority <> '1-URGENT'",
    "SELECT sum(lo_custkey), max(lo_orderdate), sum(lo_ordtotalprice) FROM lineorder WHERE lo_linenumber < 7",
];

/// Both streams by form and budget.
pub(super) fn forms(bench: &Bench<'_>, out: &mut dyn Write) -> Result<Figure> {
    drop(prepared(bench, out)?);
    let compressible = COMPRESSIBLE.map(str::to_owned).to_vec();
    let streams = [("columns that compress well", compressible), ("SSB", ssb(bench.options.scale_factor))];
    let (mut rows, mut series) = (Vec::new(), Vec::new());
    for (name, stream) in streams {
        let all_bytes = inflated_bytes(bench, &stream)?;
        let mut points = FORMS.map(|form| (format!("{name}, {form}"), Vec::new()));
        for percent in PERCENTS {
            let budget_bytes = all_bytes * percent / 100;
            let mut row = vec![format!("{name}, {percent} % ({})", format_bytes(budget_bytes))];
            let mut seconds = Vec::new();
            for (form, (_, points)) in FORMS.into_iter().zip(&mut points) {
                let found = rounds(bench, &stream, ("proportional", form), budget_bytes)?;
                row.push(format!("{:.3} s, {}", found.seconds, format_bytes(found.read_bytes)));
                points.push((percent as f64, found.seconds));
                seconds.push(found.seconds);
            }
            let [inflated, stored, both] = seconds[..] else { continue };
            row.push(format!("{:.2}", inflated / both));
            row.push(format!("{:.2}", both / inflated.min(stored)));
            rows.push(row);
        }
        series.extend(points);
    }
    Ok(Figure {
        title: format!("Forms in which chunks stay, {}: seconds and bytes read", conditions(bench)),
        paper: "HPCache keeps one form of a column; that stored bytes may stay, too, is ours",
        headings: ["stream and budget", "inflated", "stored", "both", "inflated / both", "both / better form"]
            .map(str::to_owned)
            .to_vec(),
        rows,
        axes: ("budget, percent of the columns' inflated bytes", "seconds"),
        ticks: Vec::new(),
        series,
    })
}

/// Bytes that the columns of these queries take inflated, with nothing left out of any.
fn inflated_bytes(bench: &Bench<'_>, stream: &[String]) -> Result<u64> {
    let database = super::opened(bench, "ssb", ("lru", "inflated"), u64::from(u32::MAX) << 8)?;
    let session = database.session();
    for sql in stream.iter().chain(stream) {
        run_sql(&session, sql)?;
    }
    super::bytes_of(&session, "inflated_bytes")
}
