//! A copy of rows without some of them: they are looked for by what they are, and the segments that have them are written anew.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use forebay_base::{Error, LogicalType, PhysicalType, Result, Value};
use forebay_cpu::pool;
use forebay_pipeline::predicate::{ColumnPredicate, Predicate};
use forebay_store::{Replaced, SealedSegment, Segment, SegmentVersion, TableSnapshot};

use crate::cluster::Sorter;
use crate::cluster::carried::{Carried, Rows};
use crate::cluster::sorted::{Dictionaries, SortedLoad};
use crate::query::source::{EqualRows, VectorLoader};
use crate::{AdaptivePredicate, LoadTarget, Loader, Morsel, Scan};

/// Columns whose bounds are asked for, at most.
const MOST_TESTS: usize = 8;

/// A copy of a table's rows, and what it is looked at with.
pub(super) struct Copy<'c> {
    pub(super) sorter: &'c Sorter<'c>,
    pub(super) table: &'c TableSnapshot,
    /// The positions of its columns in the table's list.
    pub(super) positions: &'c [usize],
    pub(super) carried: &'c Carried,
}

/// A row group, a block of it and a row of that.
type Place = (usize, usize, usize);

impl Copy<'_> {
    /// The copy without rows: `gone` has the place of each of them in `counts`, by its bytes, and `counts` how many of them there are.
    /// `bounds` rule out rows that are none of them. `None` where it lacks one of them.
    pub(super) fn without(
        &self,
        gone: &HashMap<Vec<u8>, usize>,
        mut counts: Vec<u64>,
        bounds: &[ColumnPredicate],
    ) -> Result<Option<Replaced>> {
        let mut found = self.find(gone, &counts, bounds)?;
        found.sort_unstable();
        // In as few segments as they are in, whichever of equal rows these are.
        let mut by_segment: BTreeMap<usize, Vec<Place>> = BTreeMap::new();
        for (segment, place, number) in found {
            if counts[number] > 0 {
                counts[number] -= 1;
                by_segment.entry(segment).or_default().push(place);
            }
        }
        if counts.iter().any(|count| *count > 0) {
            return Ok(None);
        }
        let (mut old, mut new): (Vec<SegmentVersion>, Vec<SealedSegment>) = (Vec::new(), Vec::new());
        for (segment, places) in by_segment {
            let segment = &self.table.segments[segment];
            old.push(segment.as_version());
            if segment.rows() > places.len() as u64 {
                new.extend(self.rewritten(segment, &places)?);
            }
        }
        Ok(Some((old, new)))
    }

    fn scan(&self, table: TableSnapshot) -> Result<Arc<Scan>> {
        let Sorter { engine, metrics, cancel, .. } = self.sorter;
        let (columns, cancel) = (self.positions.to_vec(), (*cancel).clone());
        Ok(Arc::new(Scan::new(Arc::clone(engine), Arc::new(table), columns, Arc::clone(metrics), cancel)?))
    }

    /// Rows like those that go: segment, place and number of each. Of equal ones each worker gives no more than go.
    fn find(
        &self,
        gone: &HashMap<Vec<u8>, usize>,
        counts: &[u64],
        bounds: &[ColumnPredicate],
    ) -> Result<Vec<(usize, Place, usize)>> {
        let scan = self.scan(self.table.clone())?;
        let columns: Vec<usize> = (0..self.positions.len()).collect();
        let work = || -> Result<Vec<(usize, Place, usize)>> {
            let mut tests: Vec<_> = bounds.iter().map(|test| AdaptivePredicate::new(test.clone(), true)).collect();
            let mut loader = VectorLoader::new(&self.carried.source, &self.carried.dictionaries);
            let (mut rows, mut key, mut left, mut found) =
                (self.carried.no_rows(), Vec::new(), counts.to_vec(), Vec::new());
            while let Some(morsel) = scan.next_morsel() {
                let selected = scan.run(morsel, &mut tests, &mut [])?;
                let blocks = selected.selections().iter().enumerate();
                let mut places = blocks.flat_map(|(block, rows)| rows.rows().map(move |row| (block, row)));
                while let Some(loaded) = loader.next(&selected, EqualRows::Ignored)? {
                    rows.clear();
                    rows.add(loaded.vectors, None);
                    for (row, (block, place)) in (0..rows.len()).zip(&mut places) {
                        key.clear();
                        rows.append_key(&columns, row, &mut key);
                        if let Some(number) = gone.get(&key).copied()
                            && left[number] > 0
                        {
                            left[number] -= 1;
                            found.push((morsel.segment, (morsel.group, block, place), number));
                        }
                    }
                }
            }
            Ok(found)
        };
        let panicked = |_| Err(Error::internal("a worker that looked for rows panicked"));
        let mut all = Vec::new();
        for found in pool::run(self.sorter.threads, work) {
            all.extend(found.unwrap_or_else(panicked)?);
        }
        Ok(all)
    }

    /// The rows of a segment but those at these places, in their order.
    fn rewritten(&self, segment: &Arc<Segment>, gone: &[Place]) -> Result<Vec<SealedSegment>> {
        let Sorter { engine, options, threads, .. } = self.sorter;
        let part = self.table.with_rows([Arc::clone(segment)]);
        let target = LoadTarget::of_columns(engine.store(), &part, self.positions, *options)?;
        let scan = self.scan(part.into())?;
        let morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel()).collect();
        // Whether a dictionary has all texts is not known here.
        let carried = Carried::without_dictionaries(self.table, self.positions);
        let dictionaries = Dictionaries::of(&carried);
        let (scan, carried, dictionaries) = (&scan, &carried, &dictionaries);
        std::thread::scope(|scope| {
            let share = morsels.len().div_ceil(*threads).max(1);
            let start = |(number, share): (usize, &[Morsel])| {
                let loader = Loader::new(Arc::clone(&target), number as u32);
                let share = share.to_vec();
                scope.spawn(move || {
                    let load = SortedLoad::new(loader, carried, dictionaries);
                    self.load_others((scan, carried), &share, gone, load)
                })
            };
            let workers: Vec<_> = morsels.chunks(share).enumerate().map(start).collect();
            let panicked = |_| Err(Error::internal("a worker that wrote rows anew panicked"));
            workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(panicked))
        })?;
        match Arc::into_inner(target) {
            Some(target) => target.finish(),
            None => Err(Error::internal("a loader is left over")),
        }
    }

    fn load_others(
        &self,
        (scan, carried): (&Arc<Scan>, &Carried),
        morsels: &[Morsel],
        gone: &[Place],
        mut load: SortedLoad<'_>,
    ) -> Result<()> {
        let mut loader = VectorLoader::new(&carried.source, &carried.dictionaries);
        let mut rows: Rows = carried.no_rows();
        for morsel in morsels {
            self.sorter.cancel.check()?;
            let all = scan.run(*morsel, &mut [], &mut [])?;
            let mut next = (usize::MAX, 0);
            while let Some((block, loaded)) = loader.next_of_block(&all)? {
                let first = if next.0 == block { next.1 } else { 0 };
                next = (block, first + loaded.rows);
                rows.clear();
                rows.add(loaded.vectors, None);
                let below = |row: usize| gone.partition_point(|place| *place < (morsel.group, block, row));
                let mut here = gone[below(first)..below(next.1)].iter().map(|(_, _, row)| row - first).peekable();
                let is_kept = |row: &u32| here.next_if_eq(&(*row as usize)).is_none();
                let kept: Vec<u32> = (0..rows.len() as u32).filter(is_kept).collect();
                load.add_rows(&rows, &kept)?;
            }
        }
        load.finish()
    }
}

/// Bounds of the integers of these rows, whose columns are at these positions of a table's list.
pub(super) fn bounds(table: &TableSnapshot, positions: &[usize], rows: &Rows) -> Vec<ColumnPredicate> {
    let bounds = |position: &usize| {
        let (logical, column) = (&table.columns[*position].logical, &rows.columns[*position]);
        let is_integer = !matches!(logical.physical(), PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes)
            && !matches!(logical, LogicalType::Bool | LogicalType::Interval);
        if !is_integer || column.validity.contains(&0) {
            return None;
        }
        let (low, high) = column.integer_bounds(logical.physical())?;
        let [low, high] = [low, high].map(|bound| Bound::Included(Value::Int(bound)));
        Some(ColumnPredicate { column: *position, test: Predicate::Range { low, high } })
    };
    positions.iter().filter_map(bounds).take(MOST_TESTS).collect()
}
