//! CHECKPOINT: runs of small segments, as small INSERTs leave them, become one.

use std::sync::Arc;

use forebay_base::{Result, SegmentId, limits};
use forebay_store::{SealedSegment, Table};

use crate::{CancelToken, Engine, LoadTarget, Loader, Metrics, Scan};

/// A segment with fewer rows is worth merging with its neighbours.
const SMALL_ROWS: u64 = (limits::BLOCK_ROWS * limits::GROUP_BLOCKS) as u64;

/// Old segments and the one that takes their place.
pub type Merged = (Vec<SegmentId>, SealedSegment);

/// Rewrites every run of two or more small segments of `table`. Nothing is published.
pub fn merge_small(engine: &Arc<Engine>, table: &Table, cancel: &CancelToken) -> Result<Vec<Merged>> {
    let mut merged = Vec::new();
    let mut start = 0;
    while start < table.segments.len() {
        let small = table.segments[start..].iter().take_while(|segment| segment.rows() < SMALL_ROWS).count();
        if small >= 2 {
            let run = &table.segments[start..start + small];
            let ids = run.iter().map(|segment| segment.id()).collect();
            let mut part = table.clone();
            part.segments = run.to_vec();
            if let Some(sealed) = rewrite(engine, part, cancel)? {
                merged.push((ids, sealed));
            }
        }
        start += small.max(1);
    }
    Ok(merged)
}

fn rewrite(engine: &Arc<Engine>, part: Table, cancel: &CancelToken) -> Result<Option<SealedSegment>> {
    let target = LoadTarget::new(engine.store(), &part.columns)?;
    let mut loader = Loader::new(Arc::clone(&target), 0);
    let columns = (0..part.columns.len()).collect();
    let metrics = Arc::new(Metrics::default());
    let scan = Arc::new(Scan::new(Arc::clone(engine), Arc::new(part), columns, metrics, cancel.clone())?);
    while let Some(morsel) = scan.next_morsel() {
        let mut rows = scan.run(morsel, &mut [], &mut [])?;
        while let Some(batches) = rows.next_block()? {
            for batch in batches {
                loader.push(&batch)?;
            }
        }
    }
    loader.finish()?;
    match Arc::into_inner(target) {
        Some(target) => target.finish(),
        None => Ok(None),
    }
}
