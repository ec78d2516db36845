//! Clients of queries: each runs all of them one after the other, and notes how long each took.

use std::sync::atomic::Ordering;
use std::time::Instant;

use forebay::{Result, Session};

use super::freshness::Freshness;
use crate::measure::run_sql;
use crate::queries::Query;
use crate::tpcc::Progress;

/// Seconds of each run of each query, in the order of the queries.
#[derive(Debug)]
pub(super) struct Times(Vec<Vec<f64>>);

impl Times {
    pub(super) fn of(queries: &[Query]) -> Self {
        Self(vec![Vec::new(); queries.len()])
    }

    /// Runs the query at this place.
    pub(super) fn run(&mut self, session: &Session, queries: &[Query], place: usize) -> Result<()> {
        let query = &queries[place];
        let measured = run_sql(session, &query.sql).map_err(|error| error.context(format!("query {}", query.name)))?;
        self.0[place].push(measured.0.seconds());
        Ok(())
    }

    pub(super) fn add(&mut self, other: Self) {
        for (own, other) in self.0.iter_mut().zip(other.0) {
            own.extend(other);
        }
    }

    /// Median seconds of each query, the lower one of two.
    pub(super) fn medians(&self) -> Vec<f64> {
        let median = |seconds: &Vec<f64>| {
            let mut sorted = seconds.clone();
            sorted.sort_by(f64::total_cmp);
            sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
        };
        self.0.iter().map(median).collect()
    }

    /// Runs of each query, those of the query with the fewest.
    pub(super) fn runs(&self) -> usize {
        self.0.iter().map(Vec::len).min().unwrap_or(0)
    }
}

/// Runs all queries so many times, with nothing beside them.
pub(super) fn passes(session: &Session, queries: &[Query], passes: usize) -> Result<Times> {
    let mut times = Times::of(queries);
    for _ in 0..passes {
        (0..queries.len()).try_for_each(|place| times.run(session, queries, place))?;
    }
    Ok(times)
}

/// Runs all queries at least once, and on until then, beside terminals that began with so many orders. Behind each query it looks how
/// fresh the rows are that a query sees. Ends early where terminals do.
pub(super) fn stream(
    session: &Session,
    queries: &[Query],
    until: Instant,
    orders: u64,
    progress: &Progress,
) -> Result<(Times, Freshness)> {
    let (mut times, mut freshness) = (Times::of(queries), Freshness::default());
    loop {
        for place in 0..queries.len() {
            times.run(session, queries, place)?;
            freshness.look(session, orders, progress)?;
            if progress.is_over.load(Ordering::Relaxed) {
                return Ok((times, freshness));
            }
        }
        if Instant::now() >= until {
            return Ok((times, freshness));
        }
    }
}
