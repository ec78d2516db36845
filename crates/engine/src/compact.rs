//! Segments that are written anew: CHECKPOINT makes one of runs of small ones, as small INSERTs leave them, OPTIMIZE TABLE one
//! of all of a table, in the format of today.
//!
//! Invariant: rows keep their order. Nothing is published here.

use std::sync::Arc;

use forebay_base::{Error, Result, SegmentId, limits};
use forebay_block::Compression;
use forebay_block::choose::Plan;
use forebay_store::{SealedSegment, Table};

use crate::plans::{Sample, Share, choose};
use crate::{CancelToken, Engine, LoadOptions, LoadTarget, Loader, Metrics, Morsel, Scan};

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
            if let Some(sealed) = rewrite(engine, part, LoadOptions::default(), &[], 1, cancel)? {
                merged.push((ids, sealed));
            }
        }
        start += small.max(1);
    }
    Ok(merged)
}

/// Rewrites all segments of `table` into one, with so many workers, every column by the plan that a sample of it chooses for
/// the objective. `None` where it has no rows.
pub fn rewrite_all(
    engine: &Arc<Engine>,
    table: &Table,
    options: LoadOptions,
    threads: usize,
    cancel: &CancelToken,
) -> Result<Option<Merged>> {
    let ids = table.segments.iter().map(|segment| segment.id()).collect();
    let plans = match options.compression {
        Compression::Force(_) => Vec::new(),
        Compression::Balanced | Compression::BestRatio => {
            let sample = Sample::take(engine, table, Share::default(), threads, cancel)?;
            let environment = sample.environment(options.fixed_rates)?;
            choose(options.objective, &sample.costs(&environment, cancel)?)
        }
    };
    Ok(rewrite(engine, table.clone(), options, &plans, threads, cancel)?.map(|sealed| (ids, sealed)))
}

fn rewrite(
    engine: &Arc<Engine>,
    part: Table,
    options: LoadOptions,
    plans: &[Plan],
    threads: usize,
    cancel: &CancelToken,
) -> Result<Option<SealedSegment>> {
    let target = LoadTarget::with_plans(engine.store(), &part.columns, options, plans)?;
    let columns = (0..part.columns.len()).collect();
    let metrics = Arc::new(Metrics::default());
    let scan = Arc::new(Scan::new(Arc::clone(engine), Arc::new(part), columns, metrics, cancel.clone())?);
    let morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel()).collect();
    // Workers take neighbouring morsels, since their loaders' rows lie one after the other.
    let shares: Vec<&[Morsel]> = morsels.chunks(morsels.len().div_ceil(threads.max(1)).max(1)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .iter()
            .enumerate()
            .map(|(number, share)| {
                let loader = Loader::new(Arc::clone(&target), number as u32);
                let scan = &scan;
                scope.spawn(move || load_morsels(scan, share, loader))
            })
            .collect();
        let panicked = |_| Err(Error::internal("a worker that rewrote a table panicked"));
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(panicked))
    })?;
    match Arc::into_inner(target) {
        Some(target) => target.finish(),
        None => Ok(None),
    }
}

fn load_morsels(scan: &Arc<Scan>, morsels: &[Morsel], mut loader: Loader) -> Result<()> {
    for morsel in morsels {
        let mut rows = scan.run(*morsel, &mut [], &mut [])?;
        while let Some(batches) = rows.next_block()? {
            for batch in batches {
                loader.push(&batch)?;
            }
        }
    }
    loader.finish()
}
