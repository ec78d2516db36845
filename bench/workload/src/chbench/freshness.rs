//! Whether queries see what was committed last.

use std::sync::atomic::Ordering;

use arrow::array::{Array, AsArray};
use arrow::datatypes::Int64Type;
use forebay::{Error, Result, Session};

use crate::load::count;
use crate::measure::run_sql;
use crate::tpcc::Progress;

/// Orders, and the microseconds since the newest one was entered.
const NEWEST: &str = "SELECT CAST(count(*) AS BIGINT),
    CAST(epoch_us(CAST(now() AS TIMESTAMP)) - epoch_us(max(o_entry_d)) AS BIGINT) FROM orders";

/// What queries saw.
#[derive(Debug, Default)]
pub(super) struct Freshness {
    /// Milliseconds since the newest order that a query saw was entered, when the query began.
    pub(super) ages_ms: Vec<f64>,
    /// The most orders that were committed before a query began, and that it did not see.
    pub(super) missed: u64,
}

/// Orders that there are.
pub(super) fn orders(session: &Session) -> Result<u64> {
    count(session, "orders")
}

impl Freshness {
    /// Looks once; `orders` were there before the terminals began.
    pub(super) fn look(&mut self, session: &Session, orders: u64, progress: &Progress) -> Result<()> {
        let committed = orders + progress.new_orders.load(Ordering::Acquire);
        let (_, batches) = run_sql(session, NEWEST)?;
        let batch = batches.iter().find(|batch| batch.num_rows() > 0);
        let value = |column: usize| {
            let column = batch.and_then(|batch| batch.column(column).as_primitive_opt::<Int64Type>());
            let column = column.filter(|column| column.is_valid(0));
            column.map(|column| column.value(0)).ok_or_else(|| Error::internal("no newest order"))
        };
        self.missed = self.missed.max(committed.saturating_sub(value(0)? as u64));
        // A transaction that began behind the query's own time may have been faster than it.
        self.ages_ms.push(value(1)?.max(0) as f64 / 1e3);
        Ok(())
    }

    pub(super) fn add(&mut self, other: Self) {
        self.ages_ms.extend(other.ages_ms);
        self.missed = self.missed.max(other.missed);
    }

    /// The age that so many of all do not exceed.
    pub(super) fn age_ms(&self, share: f64) -> f64 {
        let mut sorted = self.ages_ms.clone();
        sorted.sort_by(f64::total_cmp);
        let last = sorted.len().saturating_sub(1);
        sorted.get((last as f64 * share).round() as usize).copied().unwrap_or(f64::NAN)
    }
}
