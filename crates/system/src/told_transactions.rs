//! `forebay.transactions`: the transactions of all sessions, and what they do.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_transactions::TransactionStatus;

use crate::columns::{Column, Of, known};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;

/// All transactions.
#[derive(Debug)]
pub(crate) struct ToldTransactions(pub(crate) Arc<dyn Seen>);

/// A transaction, and whether it is of the session that asks.
pub(crate) type Told = (TransactionStatus, bool);

/// Microseconds since 1970.
fn moment(time: SystemTime) -> Option<i64> {
    time.duration_since(UNIX_EPOCH).ok().and_then(|since| i64::try_from(since.as_micros()).ok())
}

/// Milliseconds since then.
fn since_ms(time: SystemTime) -> Option<f64> {
    time.elapsed().ok().map(|elapsed| elapsed.as_secs_f64() * 1e3)
}

fn statement(status: &TransactionStatus) -> Option<String> {
    Some(status.statement.trim().to_owned()).filter(|text| !text.is_empty())
}

impl Rows for ToldTransactions {
    type Row = Told;

    const COLUMNS: &'static [Column<Told>] = &[
        known("transaction_id", Of::Count(|(status, _)| Ok(Some(status.number)))),
        known("session_id", Of::Count(|(status, _)| Ok(Some(status.session)))),
        known("is_own", Of::Flag(|(_, is_own)| Ok(Some(*is_own)))),
        known("started_at", Of::Moment(|(status, _)| Ok(moment(status.started)))),
        known("age_ms", Of::Real(|(status, _)| Ok(since_ms(status.started)))),
        known("is_explicit", Of::Flag(|(status, _)| Ok(Some(status.is_explicit)))),
        known("isolation", Of::Text(|(status, _)| Ok(Some(status.isolation.name().to_owned())))),
        known("is_read_only", Of::Flag(|(status, _)| Ok(Some(status.is_read_only)))),
        known("state", Of::Text(|(status, _)| Ok(Some(status.state.name().to_owned())))),
        known("state_ms", Of::Real(|(status, _)| Ok(Some(status.since.elapsed().as_secs_f64() * 1e3)))),
        known("snapshot", Of::Count(|(status, _)| Ok(status.snapshot))),
        known("statement", Of::Text(|(status, _)| Ok(statement(status)))),
    ];

    fn batches(&self, _passes: Passes<Told>) -> Batches<Told> {
        Box::new(std::iter::once(Ok(self.0.transactions())))
    }
}
