//! One run of one statement, measured from its text to its last row.

use std::time::{Duration, Instant};

use arrow::array::RecordBatch;
use arrow::util::display::array_value_to_string;
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

/// Runs every statement of `sql`, and gives what `EXPLAIN ANALYZE` says of its queries.
pub(crate) fn explain_sql(session: &Session, sql: &str) -> Result<String> {
    let mut text = String::new();
    for statement in session.statements(sql)? {
        let word = statement.text.split_whitespace().next().unwrap_or_default().to_ascii_lowercase();
        if !matches!(word.as_str(), "select" | "with") {
            run_sql(session, &statement.text)?;
            continue;
        }
        for batch in run_sql(session, &format!("EXPLAIN ANALYZE {}", statement.text))?.1 {
            let shown = batch.columns().last().expect("EXPLAIN has columns");
            for row in 0..batch.num_rows() {
                text.push_str(&array_value_to_string(shown, row).expect("plans are text"));
                text.push('\n');
            }
        }
    }
    Ok(text)
}
