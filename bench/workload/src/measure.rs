//! One run of one statement, measured from its text to its last row.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use forebay::{QueryMetrics, Result, Session};

/// What one run of a query took and did.
#[derive(Debug, Clone)]
pub(crate) struct Measured {
    /// Wall time from the text of the statement to its last row, parsing included.
    pub(crate) elapsed: Duration,
    /// Rows of the result.
    pub(crate) rows: u64,
    pub(crate) metrics: QueryMetrics,
}

impl Measured {
    pub(crate) fn seconds(&self) -> f64 {
        self.elapsed.as_secs_f64()
    }
}

/// Runs every statement of `sql`; the figures are those of the last one, the batches those of all.
pub(crate) fn run_sql(session: &Session, sql: &str) -> Result<(Measured, Vec<RecordBatch>)> {
    let started = Instant::now();
    let mut batches = Vec::new();
    let mut metrics = QueryMetrics::default();
    for statement in session.statements(sql)? {
        let mut result = session.execute(&statement)?;
        while let Some(batch) = result.next_batch()? {
            batches.push(batch);
        }
        metrics = result.metrics();
    }
    let elapsed = started.elapsed();
    let rows = batches.iter().map(|batch| batch.num_rows() as u64).sum();
    Ok((Measured { elapsed, rows, metrics }, batches))
}
