//! Segments that are written anew: commits and CHECKPOINT make one of runs of small ones, as small INSERTs leave them, OPTIMIZE TABLE one
//! of all of a table, or one in each data directory, in the format of today.
//!
//! Invariant: rows keep the order in which scans read them. Nothing is published here.

use std::sync::Arc;

use forebay_base::budget::Tier;
use forebay_base::{Error, Result, limits};
use forebay_block::choose::Objective;
use forebay_store::{SealedSegment, Segment, SegmentVersion, Table};

use crate::load::StoreAs;
use crate::plans::{Sample, Share, choose};
use crate::{CancelToken, Engine, Goal, LoadOptions, LoadTarget, Loader, Metrics, Morsel, Scan};

/// A segment with fewer rows is worth merging with its neighbours.
const SMALL_ROWS: u64 = (limits::BLOCK_ROWS * limits::GROUP_BLOCKS) as u64;

/// So many small segments of about one size are merged when they have gathered; the sizes are its powers.
const GATHERED: u64 = 32;

/// A segment is written anew when one in so many of its rows is deleted: scans read them still.
const WORN: u64 = 4;

/// Which small segments are merged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merging {
    /// All that have a small neighbour, and those many of whose rows are deleted.
    All,
    /// Those of which many of about one size have gathered, so that a row is written anew about once for each size, and a table has few
    /// small segments at any time (as levels of a log-structured merge-tree).
    Gathered,
}

/// Old segments and those that take their place.
pub type Merged = (Vec<SegmentVersion>, Vec<SealedSegment>);

/// The runs of neighbouring segments of `table` that are to be written anew, each as one.
pub fn small_runs(table: &Table, merging: Merging) -> Vec<&[Arc<Segment>]> {
    let runs_below = |rows: u64| {
        // Hot rows become a segment when they are frozen.
        let is_small = move |segment: &Arc<Segment>| !segment.is_hot() && segment.rows() < rows;
        table.segments.chunk_by(move |a, b| is_small(a) && is_small(b)).filter(|run| run.len() >= 2)
    };
    match merging {
        Merging::All => {
            let is_worn = |run: &&[Arc<Segment>]| {
                let [segment] = run else { return false };
                segment.rows() >= SMALL_ROWS && segment.deleted().count() * WORN >= segment.stored_rows()
            };
            runs_below(SMALL_ROWS).chain(table.segments.chunks(1).filter(is_worn)).collect()
        }
        Merging::Gathered => {
            let next = |rows: &u64| (*rows < SMALL_ROWS).then(|| (rows * GATHERED).min(SMALL_ROWS));
            let gathered = |rows: u64| {
                let is_of_size = move |segment: &&Arc<Segment>| segment.rows() >= rows / GATHERED;
                let have_gathered = move |run: &&[_]| run.iter().filter(is_of_size).count() as u64 >= GATHERED;
                runs_below(rows).filter(have_gathered).collect::<Vec<_>>()
            };
            let sizes = std::iter::successors(Some(GATHERED), next);
            sizes.map(gathered).find(|runs| !runs.is_empty()).unwrap_or_default()
        }
    }
}

/// Rewrites runs of small segments of `table`, into several only where these are not small themselves.
/// Nothing is published.
pub fn merge_small(engine: &Arc<Engine>, table: &Table, merging: Merging, cancel: &CancelToken) -> Result<Vec<Merged>> {
    let goals = Goal::of_columns(&table.options, &table.columns, Goal::default())?;
    let store_as: Vec<StoreAs> = goals.into_iter().map(|goal| StoreAs::Frames(goal.compression())).collect();
    let mut merged = Vec::new();
    for run in small_runs(table, merging) {
        let ids = run.iter().map(|segment| segment.as_version()).collect();
        let part = table.with_rows(run.iter().cloned());
        let most_segments = (part.rows() / (2 * SMALL_ROWS)) as usize;
        let target =
            LoadTarget::with_columns(engine.store(), &part.columns, LoadOptions::default(), &store_as, most_segments)?;
        let columns = (0..part.columns.len()).collect();
        let sealed = rewrite(engine, part, columns, target, 1, cancel)?;
        if !sealed.is_empty() {
            merged.push((ids, sealed));
        }
    }
    Ok(merged)
}

/// Writes the rows of `table` into new segments with the columns at these positions of its list, in their order. Nothing is published.
///
/// # Errors
/// Those of reading and writing.
pub fn copy_rows(
    engine: &Arc<Engine>,
    table: &Table,
    columns: &[usize],
    options: LoadOptions,
    cancel: &CancelToken,
) -> Result<Vec<SealedSegment>> {
    let target = LoadTarget::of_columns(engine.store(), table, columns, options)?;
    rewrite(engine, table.clone(), columns.to_vec(), target, 1, cancel)
}

/// Rewrites all segments of `table` into one, or one per data directory, with so many workers. A column that an objective is
/// asked of, by its options or else by `options`, is stored by the plan that a sample of it chooses. `None` where the table
/// has no rows.
pub fn rewrite_all(
    engine: &Arc<Engine>,
    table: &Table,
    options: LoadOptions,
    threads: usize,
    cancel: &CancelToken,
) -> Result<Option<Merged>> {
    let ids = table.segments.versions();
    let store_as = planned(engine, table, options, threads, cancel)?;
    let target = LoadTarget::with_columns(engine.store(), &table.columns, options, &store_as, usize::MAX)?;
    let sealed = rewrite(engine, table.clone(), (0..table.columns.len()).collect(), target, threads, cancel)?;
    Ok((!sealed.is_empty()).then_some((ids, sealed)))
}

/// How every column of `table` is stored when there is time to try plans. An objective is weighed over the columns that have
/// it.
fn planned(
    engine: &Arc<Engine>,
    table: &Table,
    options: LoadOptions,
    threads: usize,
    cancel: &CancelToken,
) -> Result<Vec<StoreAs>> {
    let goals = Goal::of_columns(&table.options, &table.columns, options.goal)?;
    let mut store_as: Vec<StoreAs> = goals.iter().map(|goal| StoreAs::Frames(goal.compression())).collect();
    if goals.iter().all(|goal| matches!(goal, Goal::Scheme(_))) {
        return Ok(store_as);
    }
    let sample = Sample::take(engine, table, Share::default(), threads, cancel)?;
    let costs = sample.costs(&sample.environment(options.rates)?, cancel)?;
    for objective in Objective::ALL {
        let columns: Vec<usize> =
            (0..goals.len()).filter(|index| goals[*index] == Goal::Objective(objective)).collect();
        let of_columns: Vec<_> = columns.iter().map(|index| costs[*index].as_slice()).collect();
        for (index, plan) in columns.iter().zip(choose(objective, &of_columns)) {
            store_as[*index] = StoreAs::Plan(plan);
        }
    }
    Ok(store_as)
}

fn rewrite(
    engine: &Arc<Engine>,
    part: Table,
    columns: Vec<usize>,
    target: Arc<LoadTarget>,
    threads: usize,
    cancel: &CancelToken,
) -> Result<Vec<SealedSegment>> {
    let account = engine.open_account("writing a table anew").part(Tier::Operator, "row groups");
    let metrics = Arc::new(Metrics::default());
    let scan = Arc::new(Scan::new(Arc::clone(engine), Arc::new(part.into()), columns, metrics, cancel.clone())?);
    let morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel()).collect();
    // Workers take neighbouring morsels, since their loaders' rows lie one after the other.
    let shares: Vec<&[Morsel]> = morsels.chunks(morsels.len().div_ceil(threads.max(1)).max(1)).collect();
    std::thread::scope(|scope| {
        let workers: Vec<_> = shares
            .iter()
            .enumerate()
            .map(|(number, share)| {
                let loader = Loader::new(Arc::clone(&target), number as u32).within(&account);
                let scan = &scan;
                scope.spawn(move || load_morsels(scan, share, loader))
            })
            .collect();
        let panicked = |_| Err(Error::internal("a worker that rewrote a table panicked"));
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(panicked))
    })?;
    match Arc::into_inner(target) {
        Some(target) => target.finish(),
        None => Ok(Vec::new()),
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
