//! What was measured, for people and for a file.

use std::io::Write;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use forebay::units::format_count;
use forebay::{Error, Result, Session};
use serde_json::{Value, json};

use super::ChbenchOptions;
use super::freshness::Freshness;
use super::streams::Times;
use crate::measure::run_sql;
use crate::queries::Query;
use crate::report::{Columns, line};
use crate::tpcc::{Outcome, counted};

/// Hot rows are shown as segments that no file has; their ids begin at 2^39.
const HOT_ROWS: &str = "SELECT CAST(coalesce(sum(rows) FILTER (WHERE segment_id >= 549755813888), 0) AS BIGINT),
    CAST(sum(rows) AS BIGINT) FROM forebay.segments WHERE projection_name IS NULL";

/// Everything that was measured.
#[derive(Debug)]
pub(super) struct Figures {
    /// Terminals alone, before.
    pub(super) before: Outcome,
    /// Terminals beside queries.
    pub(super) beside: Outcome,
    /// Terminals alone, after.
    pub(super) after: Outcome,
    /// Queries beside terminals.
    pub(super) times: Times,
    /// Queries without terminals, each over rows that these have just changed.
    pub(super) changed: Times,
    /// Queries without terminals, over what these left.
    pub(super) snapshot: Times,
    /// The same when all rows are frozen.
    pub(super) frozen: Times,
    pub(super) freshness: Freshness,
    /// When terminals and queries had worked beside each other.
    pub(super) hot_rows: HotRows,
}

impl Figures {
    /// Which share of their rate terminals keep beside queries.
    fn kept(&self) -> f64 {
        self.beside.rate() / f64::midpoint(self.before.rate(), self.after.rate())
    }

    /// Median seconds of each query: beside terminals, over rows just changed, on the snapshot, and frozen.
    fn medians(&self) -> [Vec<f64>; 4] {
        [&self.times, &self.changed, &self.snapshot, &self.frozen].map(Times::medians)
    }
}

/// How many rows are hot.
#[derive(Debug, Clone, Copy)]
pub(super) struct HotRows {
    hot: u64,
    all: u64,
}

impl HotRows {
    pub(super) fn count(session: &Session) -> Result<Self> {
        let (_, batches) = run_sql(session, HOT_ROWS)?;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0);
        let value = |column: usize| {
            let column = batch.and_then(|batch| batch.column(column).as_primitive_opt::<Int64Type>());
            let column = column.filter(|column| column.is_valid(0));
            column.map(|column| column.value(0) as u64).ok_or_else(|| Error::internal("no count of hot rows"))
        };
        Ok(Self { hot: value(0)?, all: value(1)? })
    }

    fn share(self) -> f64 {
        self.hot as f64 / self.all.max(1) as f64
    }
}

/// Writes the tables.
pub(super) fn report(
    queries: &[Query],
    options: &ChbenchOptions,
    figures: &Figures,
    out: &mut dyn Write,
) -> Result<()> {
    let terminals = counted(options.terminals.clients as u64, "terminal");
    let warehouses = counted(options.terminals.warehouses.get().into(), "warehouse");
    let streams = counted(options.streams as u64, "stream");
    line(out, &format!("{terminals} over {warehouses}, {streams} of {} queries:", queries.len()))?;
    line(out, "")?;
    let columns = Columns::new(&[16, 12]);
    line(out, &columns.row(&["terminals", "tx/s"]))?;
    line(out, &columns.rule())?;
    for (when, outcome) in [("alone", &figures.before), ("beside queries", &figures.beside), ("alone", &figures.after)]
    {
        line(out, &columns.row(&[when, &format!("{:.1}", outcome.rate())]))?;
    }
    line(out, "")?;
    report_queries(queries, figures, out)?;
    line(out, "")?;
    line(out, &format!("Transactions beside queries: {:.1} % of those alone, unaudited", 100.0 * figures.kept()))?;
    let HotRows { hot, all } = figures.hot_rows;
    let share = 100.0 * figures.hot_rows.share();
    line(out, &format!("Hot rows: {} of {} ({share:.1} %)", format_count(hot), format_count(all)))?;
    let Freshness { missed, ages_ms } = &figures.freshness;
    line(
        out,
        &format!(
            "Freshness: the newest order was {:.1} ms old (median of {}), at most {:.1} ms; {} committed before were missed",
            figures.freshness.age_ms(0.5),
            counted(ages_ms.len() as u64, "look"),
            figures.freshness.age_ms(1.0),
            format_count(*missed)
        ),
    )
}

/// Medians of each query, and their sums.
fn report_queries(queries: &[Query], figures: &Figures, out: &mut dyn Write) -> Result<()> {
    let columns = Columns::new(&[6, 10, 11, 12, 10, 8, 9, 10]);
    let headings = ["query", "beside ms", "changed ms", "snapshot ms", "frozen ms", "beside/", "changed/", "snapshot/"];
    line(out, &columns.row(&headings))?;
    line(out, &columns.rule())?;
    // Ratios are those to frozen rows.
    let row = |name: &str, [beside, changed, snapshot, frozen]: [f64; 4]| {
        let ms = |seconds: f64| format!("{:.2}", seconds * 1e3);
        let ratio = |seconds: f64| format!("{:.2}", seconds / frozen);
        let ratios = [ratio(beside), ratio(changed), ratio(snapshot)];
        let times = [ms(beside), ms(changed), ms(snapshot), ms(frozen)];
        let cells = times.iter().chain(&ratios).map(String::as_str);
        columns.row(&[name].into_iter().chain(cells).collect::<Vec<_>>())
    };
    let medians = figures.medians();
    for (place, query) in queries.iter().enumerate() {
        line(out, &row(query.name, medians.each_ref().map(|medians| medians[place])))?;
    }
    line(out, &columns.rule())?;
    line(out, &row("all", medians.each_ref().map(|medians| medians.iter().sum())))?;
    let [beside, changed, snapshot, frozen] = &medians;
    let mean = |medians: &[f64]| format!("{:.2}", geometric_mean(medians) / geometric_mean(frozen));
    line(out, &columns.row(&["mean", "", "", "", "", &mean(beside), &mean(changed), &mean(snapshot)]))
}

/// The geometric mean.
fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64).exp()
}

/// Everything for a file.
pub(super) fn record(queries: &[Query], options: &ChbenchOptions, figures: &Figures) -> Value {
    let medians = figures.medians();
    let query = |(place, query): (usize, &Query)| {
        let [beside, changed, snapshot, frozen] = medians.each_ref().map(|medians| medians[place]);
        json!({
            "name": query.name,
            "beside_s": beside,
            "changed_s": changed,
            "snapshot_s": snapshot,
            "frozen_s": frozen,
        })
    };
    let terminals = |outcome: &Outcome| json!({ "transactions_per_second": outcome.rate(), "transactions": outcome.transactions() });
    json!({
        "benchmark": "chbench",
        "warehouses": options.terminals.warehouses,
        "clients": options.terminals.clients,
        "streams": options.streams,
        "settings": options.terminals.settings,
        "runs": options.runs,
        "runs_beside": figures.times.runs(),
        "alone_before": terminals(&figures.before),
        "beside_queries": terminals(&figures.beside),
        "alone_after": terminals(&figures.after),
        "kept": figures.kept(),
        "hot_rows": figures.hot_rows.hot,
        "rows": figures.hot_rows.all,
        "newest_order_ms": { "median": figures.freshness.age_ms(0.5), "max": figures.freshness.age_ms(1.0) },
        "missed_orders": figures.freshness.missed,
        "queries": queries.iter().enumerate().map(query).collect::<Vec<_>>(),
    })
}
