//! What the pipelines of a query tell of their columns, for the shares of memory that these get: when the query ends, and every now
//! and then while it runs for long.
//!
//! Invariant: no answer depends on it. Must not know: how shares are chosen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_cache::ColumnKey;

use super::{PipelineReport, Query};
use crate::column_shares::Ran;
use crate::metrics::MetricsSnapshot;
use crate::traffic::Traffic;
use crate::{Engine, Metrics};

/// How often a query that runs tells.
const TELLING: Duration = Duration::from_millis(250);

/// Takes note of the pipelines of a query that ended, and writes into their reports what was expected of them.
pub(super) fn note(
    engine: &Arc<Engine>,
    query: &Query,
    threads: usize,
    reports: &mut [PipelineReport],
    elapsed: Duration,
) {
    let shares = engine.column_shares();
    let mut pipelines = Vec::new();
    for report in reports {
        let (elapsed, threads) = (Duration::from_nanos(report.elapsed_ns), report.threads.max(1));
        let Some(scan) = report.scan.as_mut().filter(|scan| !scan.traffic.is_empty()) else { continue };
        let mut ran = ran_of(scan.traffic.clone(), elapsed, threads, (scan.read_wait_ns, scan.inflate_ns));
        if !ran.tells() {
            continue;
        }
        ran.rows = (report.rows_in, report.rows_out);
        scan.expected_ns = shares.expected(&ran).map(|time| time.as_nanos() as u64);
        let table = scan.traffic.keys().next().and_then(|key| query.tables.iter().find(|at| at.table.id == key.table));
        if let (Some(table), Some(expected_ns)) = (table, scan.expected_ns) {
            table.metrics.expected_ns.add(expected_ns);
            table.metrics.expected_of_ns.add(report.elapsed_ns);
        }
        ran.sizes = scan.traffic.keys().filter_map(|key| Some((*key, sizes(query, key)?))).collect();
        pipelines.push(ran);
    }
    shares.note(pipelines, elapsed);
    shares.refresh(engine.cache(), || engine.kept_rates().known(threads).disk_bytes_per_s);
}

/// What is known of a pipeline of this traffic, whose workers waited and inflated for so long.
fn ran_of(traffic: Traffic, elapsed: Duration, threads: usize, (wait_ns, inflate_ns): (u64, u64)) -> Ran {
    // What is not waiting and not inflating is its work, on all threads alike.
    let waited = Duration::from_nanos(wait_ns);
    let work = (elapsed * threads as u32).saturating_sub(waited + Duration::from_nanos(inflate_ns));
    Ran { traffic, sizes: BTreeMap::new(), rows: (0, 0), elapsed, work, waited, threads }
}

/// A query that runs.
pub(super) struct Watch<'a> {
    engine: &'a Arc<Engine>,
    query: &'a Query,
    number: u64,
    started: Instant,
    /// When it tells next, in milliseconds from its start.
    due_ms: AtomicU64,
}

/// A pipeline over a table that runs.
pub(super) struct WatchedScan<'a> {
    /// Its number in the query.
    pub(super) pipeline: usize,
    pub(super) started: Instant,
    /// The scan's counters, and what they were when it began.
    pub(super) metrics: &'a Metrics,
    pub(super) before: &'a MetricsSnapshot,
    /// Morsels of the table.
    pub(super) morsels: usize,
    pub(super) threads: usize,
}

impl<'a> Watch<'a> {
    /// A query that begins.
    pub(super) fn new(engine: &'a Arc<Engine>, query: &'a Query) -> Self {
        let (number, due_ms) = (engine.column_shares().next_query(), AtomicU64::new(TELLING.as_millis() as u64));
        Self { engine, query, number, started: Instant::now(), due_ms }
    }

    /// Tells of a pipeline if it is time to; one of the workers does.
    pub(super) fn look(&self, scan: &WatchedScan<'_>) {
        let (elapsed, due_ms) = (self.started.elapsed(), self.due_ms.load(Ordering::Relaxed));
        let now_ms = elapsed.as_millis() as u64;
        let next_ms = now_ms + TELLING.as_millis() as u64;
        if now_ms < due_ms
            || self.due_ms.compare_exchange(due_ms, next_ms, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
            return;
        }
        let now = scan.metrics.snapshot();
        let done = (now.morsels_done - scan.before.morsels_done) as f64 / scan.morsels.max(1) as f64;
        let since = (now.read_ns - scan.before.read_ns, now.inflate_ns - scan.before.inflate_ns);
        let mut ran = ran_of(scan.metrics.traffic(), scan.started.elapsed(), scan.threads, since);
        if done == 0.0 || !ran.tells() {
            return;
        }
        ran.sizes = ran.traffic.keys().filter_map(|key| Some((*key, sizes(self.query, key)?))).collect();
        let shares = self.engine.column_shares();
        shares.note_running(self.number, scan.pipeline, ran.extrapolated(done.min(1.0)), elapsed);
        let threads = scan.threads;
        shares.refresh(self.engine.cache(), || self.engine.kept_rates().known(threads).disk_bytes_per_s);
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        self.engine.column_shares().forget_running(self.number);
    }
}

/// Bytes of a whole column, stored and inflated, in the copy of its table's rows that the query read.
fn sizes(query: &Query, key: &ColumnKey) -> Option<(u64, u64)> {
    let bound = query.tables.iter().find(|bound| bound.table.id == key.table)?;
    let mut sum = (0, 0);
    for segment in bound.table.segments.iter() {
        let Some(index) = segment.column_index(key.column) else { continue };
        for chunk in segment.groups().ok()?.iter().flat_map(|group| &group.columns[index].chunks) {
            sum = (sum.0 + chunk.stored_bytes, sum.1 + chunk.encoded_bytes);
        }
    }
    Some(sum)
}
