//! What the pipelines of a query tell of their columns, for the shares of memory that these get.
//!
//! Invariant: no answer depends on it. Must not know: how shares are chosen.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forebay_cache::ColumnKey;

use super::{PipelineReport, Query};
use crate::Engine;
use crate::column_shares::Ran;

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
        // What is not waiting and not inflating is its work, on all threads alike.
        let busy = elapsed * threads as u32;
        let work = busy.saturating_sub(Duration::from_nanos(scan.read_wait_ns + scan.inflate_ns));
        let mut ran = Ran { traffic: scan.traffic.clone(), sizes: BTreeMap::new(), elapsed, work, threads };
        if !ran.tells() {
            continue;
        }
        scan.expected_ns = shares.expected(&ran).map(|time| time.as_nanos() as u64);
        ran.sizes = scan.traffic.keys().filter_map(|key| Some((*key, sizes(query, key)?))).collect();
        pipelines.push(ran);
    }
    shares.note(pipelines, elapsed);
    shares.refresh(engine.cache(), || engine.kept_rates().known(threads).disk_bytes_per_s);
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
