//! Makes facts from rows: the bins that each block of a table has, of its own values or of those of the rows that it joins with.
//!
//! Joins are followed as the rows have them, not as anybody declares them: a row without a partner adds nothing to its block, one
//! with several adds all of them. Memory: the keys of the other tables, and a byte for each of their rows and columns.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_base::{ColumnId, Error, Result, TableId, Value, limits};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::pool;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{SourceColumn, TableSource};
use forebay_prune::bins::{BinSet, Binning, Bins, NO_BIN};
use forebay_store::{Catalog, FactDefinition, FactSource, SealedFact, TableSnapshot};

use super::SAMPLED_MORSELS;
use super::columns::{ColumnBins, LONGEST_VALUE_BYTES, check_key, dictionaries_of, integer, source_of, value};
use super::keys::RowsByKey;
use super::partners::{Partners, all_bins};
use crate::facts::{Attribute, BinSets, Hop, KIND};
use crate::query::source::{EqualRows, VectorLoader};
use crate::{CancelToken, Engine, Morsel, Scan};

/// Values that a sample has at most.
const SAMPLED_VALUES: usize = 1 << 16;

/// Facts that are to be made: of these columns at the end of some hops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The way to the table of the columns; none to those of the table itself.
    pub hops: Vec<Hop>,
    /// The columns.
    pub columns: Vec<ColumnId>,
}

/// Makes facts about a table, which nobody knows of before a transaction publishes them. Columns of which there is nothing to say
/// are left out.
///
/// # Errors
/// Those of reading, and `Input` where a hop leads nowhere or over a column that is no integer.
pub fn build(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    table: &Arc<TableSnapshot>,
    wanted: &[Wanted],
    (threads, cancel): (usize, &CancelToken),
) -> Result<Vec<SealedFact>> {
    let builder = Builder { engine, catalog, threads, cancel };
    let mut by_hop: BTreeMap<Hop, Vec<Wanted>> = BTreeMap::new();
    let mut made = Vec::new();
    for Wanted { hops, columns } in wanted {
        if hops.len() > limits::FACT_HOPS {
            return Err(Error::input(format!("a fact about rows that are {} joins away is not possible", hops.len())));
        }
        match hops.split_first() {
            Some((first, rest)) => {
                by_hop.entry(*first).or_default().push(Wanted { hops: rest.to_vec(), columns: columns.clone() });
            }
            None => {
                for column in columns {
                    made.extend(builder.own(table, *column)?);
                }
            }
        }
    }
    let (mut held, mut larger) = (Vec::new(), Vec::new());
    for (hop, rest) in by_hop {
        let is_larger = builder.table(hop.table)?.rows() > table.rows() && rest.iter().all(|w| w.hops.is_empty());
        if is_larger { &mut larger } else { &mut held }.push((hop, rest));
    }
    let dimensions = builder.each(&held, |(hop, rest)| builder.dimension(*hop, rest))?;
    for ((hop, _), dimension) in held.iter().zip(&dimensions) {
        made.extend(builder.of_partners(table, *hop, dimension)?);
    }
    for (hop, rest) in larger {
        let columns: Vec<ColumnId> = rest.into_iter().flat_map(|wanted| wanted.columns).collect();
        made.extend(builder.of_referencing(table, hop, &columns)?);
    }
    made.into_iter().map(|known| builder.seal(table, known)).collect()
}

/// What facts are made with.
pub(crate) struct Builder<'b> {
    pub(crate) engine: &'b Arc<Engine>,
    pub(crate) catalog: &'b Catalog,
    pub(crate) threads: usize,
    pub(crate) cancel: &'b CancelToken,
}

/// A table that others lead to.
pub(super) struct Dimension {
    pub(super) rows: RowsByKey,
    pub(super) attributes: Vec<RowBins>,
}

/// A column as bins.
pub(super) struct RowBins {
    /// From the table that has these rows.
    pub(super) hops: Vec<Hop>,
    pub(super) column: ColumnId,
    pub(super) bins: Bins,
    /// By row: [`NO_BIN`] where the row has no partner.
    pub(super) of_rows: Vec<u8>,
}

/// Looks at the rows of blocks. Each worker has one.
pub(super) trait BlockWatcher: Send {
    /// Adds what these rows of a block have.
    fn see(&mut self, vectors: &[Vector], rows: usize, dictionaries: &[Arc<Dictionary>], sets: &mut [BinSet]);

    /// Adds what was not added yet of a block, whose last rows it has seen.
    fn end(&mut self, _: &mut [BinSet]) {}
}

/// What a block of a table has: segment, row group and block, and a set for each attribute.
pub(super) type BlockSets = ((usize, usize, usize), Vec<BinSet>);

impl Builder<'_> {
    pub(super) fn table(&self, id: TableId) -> Result<&Arc<TableSnapshot>> {
        self.catalog.table_by_id(id).ok_or_else(|| Error::input(format!("there is no table number {id}")))
    }

    fn seal(&self, table: &TableSnapshot, known: BinSets) -> Result<SealedFact> {
        let mut sources = vec![FactSource { table: table.id, version: table.version }];
        for hop in &known.hops {
            sources.push(FactSource { table: hop.table, version: self.table(hop.table)?.version });
        }
        sources.sort_by_key(|source| source.table);
        sources.dedup();
        let columns = match known.hops.first() {
            Some(hop) => vec![hop.column],
            None => known.attributes.iter().map(|attribute| attribute.column).collect(),
        };
        let (kind, version) = KIND;
        let definition = FactDefinition { kind, version, optional: true, table: table.id, columns, sources };
        self.engine.store().write_fact(definition, &known.to_bytes())
    }

    /// The bins of a column of the table itself; none where it has no values.
    fn own(&self, table: &Arc<TableSnapshot>, column: ColumnId) -> Result<Option<BinSets>> {
        let source = source_of(table, &[column])?;
        let Some(sampled) = self.samples(table, &source)?.pop().flatten() else { return Ok(None) };
        let new = || OwnValues { bins: ColumnBins::new(sampled.empty()), column: source.columns[0].clone() };
        let (sets, watchers) = self.blocks(table, &source, 1, new)?;
        let mut binning = sampled.empty();
        watchers.iter().for_each(|watcher| binning.add(&watcher.bins.binning));
        let (bins, numbers) = binning.finish();
        let known = vec![(column, bins)];
        Ok(Some(collected(table, (Vec::new(), column), known, sets, |set| set.renumbered(&numbers))))
    }

    /// What blocks have of the rows that a hop leads to, and of those further on.
    fn of_partners(&self, table: &Arc<TableSnapshot>, hop: Hop, dimension: &Dimension) -> Result<Vec<BinSets>> {
        let source = source_of(table, &[hop.column])?;
        check_key(&source.columns[0], table)?;
        let all_bins = all_bins(dimension);
        let new = || Partners::new(dimension, &all_bins);
        let (sets, _) = self.blocks(table, &source, dimension.attributes.len(), new)?;
        let mut facts: BTreeMap<&[Hop], Vec<usize>> = BTreeMap::new();
        for (index, attribute) in dimension.attributes.iter().enumerate() {
            facts.entry(&attribute.hops).or_default().push(index);
        }
        let fact = |(hops, of_fact): (&[Hop], Vec<usize>)| {
            let hops: Vec<Hop> = std::iter::once(hop).chain(hops.iter().copied()).collect();
            let known = of_fact.iter().map(|index| &dimension.attributes[*index]);
            let known = known.map(|attribute| (attribute.column, attribute.bins.clone())).collect();
            let mine = |(place, sets): &BlockSets| (*place, of_fact.iter().map(|index| sets[*index]).collect());
            collected(table, (hops, hop.column), known, sets.iter().map(mine).collect(), |set| *set)
        };
        Ok(facts.into_iter().map(fact).collect())
    }

    /// The rows of the table that a hop leads to, with the bins of the columns that are wanted.
    pub(super) fn dimension(&self, hop: Hop, wanted: &[Wanted]) -> Result<Dimension> {
        let table = self.table(hop.table)?;
        let row_count = row_count(table)?;
        let own: Vec<ColumnId> =
            wanted.iter().filter(|wanted| wanted.hops.is_empty()).flat_map(|w| w.columns.clone()).collect();
        let mut further: BTreeMap<Hop, Vec<Wanted>> = BTreeMap::new();
        for Wanted { hops, columns } in wanted {
            if let Some((first, rest)) = hops.split_first() {
                further.entry(*first).or_default().push(Wanted { hops: rest.to_vec(), columns: columns.clone() });
            }
        }
        let mut columns = vec![hop.key];
        columns.extend(&own);
        columns.extend(further.keys().map(|hop| hop.column));
        let source = source_of(table, &columns)?;
        check_key(&source.columns[0], table)?;
        let samples = self.samples(table, &source)?;
        let mut keys: Vec<Vec<Option<i64>>> = (0..1 + further.len()).map(|_| Vec::with_capacity(row_count)).collect();
        let mut binned: Vec<(ColumnBins, Vec<u8>)> = samples[1..1 + own.len()]
            .iter()
            .map(|sample| {
                (
                    ColumnBins::new(sample.as_ref().map_or_else(|| Binning::of_sample(Vec::new()), Binning::empty)),
                    Vec::with_capacity(row_count),
                )
            })
            .collect();
        self.rows(table, &source, |_, vectors, rows, dictionaries| {
            let (key, rest) = (&vectors[0], &vectors[1..]);
            let further = rest[own.len()..].iter();
            for (keys, vector) in keys.iter_mut().zip(std::iter::once(key).chain(further)) {
                keys.extend((0..rows).map(|row| integer(vector, row)));
            }
            for (index, (bins, of_rows)) in binned.iter_mut().enumerate() {
                let (vector, column) = (&rest[index], &source.columns[1 + index]);
                of_rows.extend((0..rows).map(|row| bins.bin(vector, row, column, dictionaries)));
            }
        })?;
        let mut attributes = Vec::new();
        for (column, (bins, mut of_rows)) in own.iter().zip(binned) {
            let (bins, numbers) = bins.binning.finish();
            of_rows.iter_mut().filter(|bin| **bin < NO_BIN).for_each(|bin| *bin = numbers[usize::from(*bin)]);
            attributes.push(RowBins { hops: Vec::new(), column: *column, bins, of_rows });
        }
        let mut keys = keys.into_iter();
        let rows = RowsByKey::new(&keys.next().unwrap_or_default());
        for ((hop, rest), of_hop) in further.into_iter().zip(keys) {
            check_key(
                source.columns.iter().find(|c| table.columns[c.column].id == hop.column).unwrap_or(&source.columns[0]),
                table,
            )?;
            let beyond = self.dimension(hop, &rest)?;
            attributes.extend(beyond.seen_from(hop, &of_hop));
        }
        Ok(Dimension { rows, attributes })
    }

    /// What `work` gives for each of these, which workers take one after the other.
    pub(super) fn each<I: Sync, R: Send>(&self, items: &[I], work: impl Fn(&I) -> Result<R> + Sync) -> Result<Vec<R>> {
        let next = AtomicUsize::new(0);
        let take = || -> Result<Vec<(usize, R)>> {
            let mut done = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(number) else { return Ok(done) };
                done.push((number, work(item)?));
            }
        };
        let panicked = |_| Err(Error::internal("a worker that looked at tables panicked"));
        let mut all = Vec::with_capacity(items.len());
        for done in pool::run(self.threads, take) {
            all.extend(done.unwrap_or_else(panicked)?);
        }
        all.sort_by_key(|(number, _)| *number);
        Ok(all.into_iter().map(|(_, result)| result).collect())
    }

    /// Calls `see` with all rows of a table, in their order, and the segment, row group and block that they are of.
    pub(super) fn rows(
        &self,
        table: &Arc<TableSnapshot>,
        source: &TableSource,
        mut see: impl FnMut((usize, usize, usize), &[Vector], usize, &[Arc<Dictionary>]),
    ) -> Result<()> {
        let (scan, dictionaries) = (self.scan(table, source)?, dictionaries_of(source));
        let mut loader = VectorLoader::new(source, &dictionaries);
        while let Some(morsel) = scan.next_morsel() {
            self.cancel.check()?;
            let rows = scan.run(morsel, &mut [], &mut [])?;
            while let Some((block, loaded)) = loader.next_of_block(&rows)? {
                see((morsel.segment, morsel.group, block), loaded.vectors, loaded.rows, &dictionaries);
            }
        }
        Ok(())
    }

    /// Has workers look at all blocks that have the columns of `source`.
    fn blocks<W: BlockWatcher>(
        &self,
        table: &Arc<TableSnapshot>,
        source: &TableSource,
        attributes: usize,
        new: impl Fn() -> W + Sync,
    ) -> Result<(Vec<BlockSets>, Vec<W>)> {
        let (scan, dictionaries) = (self.scan(table, source)?, dictionaries_of(source));
        let has_all = |morsel: &Morsel| {
            let segment = &table.segments[morsel.segment];
            source.columns.iter().all(|column| segment.column_index(table.columns[column.column].id).is_some())
        };
        let ended = |watcher: &mut W, block: Option<BlockSets>| {
            block.map(|(place, mut sets)| {
                watcher.end(&mut sets);
                (place, sets)
            })
        };
        let work = || -> Result<(Vec<BlockSets>, W)> {
            let (mut watcher, mut all) = (new(), Vec::new());
            let mut loader = VectorLoader::new(source, &dictionaries);
            while let Some(morsel) = scan.next_morsel() {
                if !has_all(&morsel) {
                    continue;
                }
                let rows = scan.run(morsel, &mut [], &mut [])?;
                let mut current: Option<BlockSets> = None;
                while let Some((block, loaded)) = loader.next_of_block(&rows)? {
                    let place = (morsel.segment, morsel.group, block);
                    if current.as_ref().is_none_or(|(known, _)| *known != place) {
                        all.extend(ended(&mut watcher, current.replace((place, vec![BinSet::default(); attributes]))));
                    }
                    if let Some((_, sets)) = &mut current {
                        watcher.see(loaded.vectors, loaded.rows, &dictionaries, sets);
                    }
                }
                all.extend(ended(&mut watcher, current));
            }
            Ok((all, watcher))
        };
        let panicked = |_| Err(Error::internal("a worker that made a fact panicked"));
        let (mut sets, mut watchers) = (Vec::new(), Vec::new());
        for end in pool::run(self.threads, work) {
            let (more, watcher) = end.unwrap_or_else(panicked)?;
            sets.extend(more);
            watchers.push(watcher);
        }
        sets.sort_unstable_by_key(|(place, _)| *place);
        Ok((sets, watchers))
    }

    pub(super) fn scan(&self, table: &Arc<TableSnapshot>, source: &TableSource) -> Result<Arc<Scan>> {
        self.new_scan(table, source).map(Arc::new)
    }

    /// A scan of some morsels only.
    pub(super) fn scan_of(
        &self,
        table: &Arc<TableSnapshot>,
        source: &TableSource,
        morsels: Vec<Morsel>,
    ) -> Result<Arc<Scan>> {
        Ok(Arc::new(self.new_scan(table, source)?.of_morsels(morsels)))
    }

    fn new_scan(&self, table: &Arc<TableSnapshot>, source: &TableSource) -> Result<Scan> {
        let columns = source.columns.iter().map(|column| column.column).collect();
        Scan::new(Arc::clone(self.engine), Arc::clone(table), columns, Arc::default(), self.cancel.clone())
    }

    /// Has workers `see` the columns of `source` in these morsels, vectors of so many rows at a time; what each of them has made
    /// of it, from a `first` of its own.
    pub(super) fn sampled<S: Send>(
        &self,
        (scan, source, dictionaries): (&Arc<Scan>, &TableSource, &[Arc<Dictionary>]),
        morsels: &[Morsel],
        first: impl Fn() -> S + Sync,
        see: impl Fn(&mut S, &[Vector], usize) + Sync,
    ) -> Result<Vec<S>> {
        let next = AtomicUsize::new(0);
        let work = || -> Result<S> {
            let (mut made, mut loader) = (first(), VectorLoader::new(source, dictionaries));
            while let Some(morsel) = morsels.get(next.fetch_add(1, Ordering::Relaxed)) {
                let rows = scan.run(*morsel, &mut [], &mut [])?;
                while let Some(loaded) = loader.next(&rows, EqualRows::Ignored)? {
                    see(&mut made, loaded.vectors, loaded.rows);
                }
            }
            Ok(made)
        };
        let panicked = |_| Err(Error::internal("a worker that sampled a table panicked"));
        pool::run(self.threads, work).into_iter().map(|end| end.unwrap_or_else(panicked)).collect()
    }

    /// For each column, bins by some of its values; `None` where it is not worth any.
    pub(super) fn samples(&self, table: &Arc<TableSnapshot>, source: &TableSource) -> Result<Vec<Option<Binning>>> {
        let (scan, dictionaries) = (self.scan(table, source)?, dictionaries_of(source));
        let morsels: Vec<Morsel> = std::iter::from_fn(|| scan.next_morsel()).collect();
        let step = morsels.len().div_ceil(SAMPLED_MORSELS).max(1);
        let sampled_rows: usize = morsels.len().div_ceil(step).max(1) * table.rows() as usize / morsels.len().max(1);
        let every = sampled_rows.div_ceil(SAMPLED_VALUES).max(1);
        let taken: Vec<Morsel> = morsels.into_iter().step_by(step).collect();
        let nothing = || vec![Vec::new(); source.columns.len()];
        let of_workers = self.sampled((&scan, source, &dictionaries), &taken, nothing, |samples, vectors, rows| {
            for ((vector, column), sample) in vectors.iter().zip(&source.columns).zip(samples) {
                let values = (0..rows).step_by(every);
                sample.extend(values.filter_map(|row| value(vector, row, column, &dictionaries)));
            }
        })?;
        let mut samples: Vec<Vec<Value>> = nothing();
        for of_worker in of_workers {
            samples.iter_mut().zip(of_worker).for_each(|(all, values)| all.extend(values));
        }
        let is_short = |value: &Value| !matches!(value, Value::Bytes(bytes) if bytes.len() > LONGEST_VALUE_BYTES);
        let of = |sample: Vec<Value>| sample.iter().all(is_short).then(|| Binning::of_sample(sample));
        Ok(samples.into_iter().map(of).collect())
    }
}

impl Dimension {
    /// The bins of the rows that lead here by these keys, for each attribute that every one has at most one bin of.
    fn seen_from(self, hop: Hop, keys: &[Option<i64>]) -> Vec<RowBins> {
        let Self { rows, attributes, .. } = self;
        let of_attribute = |attribute: RowBins| {
            let bin = |key: &Option<i64>| {
                let mut bins = key.iter().flat_map(|key| rows.rows(*key)).map(|row| attribute.of_rows[row]);
                let first = bins.next().unwrap_or(NO_BIN);
                bins.all(|other| other == first).then_some(first)
            };
            let of_rows: Vec<u8> = keys.iter().map(bin).collect::<Option<_>>()?;
            let hops = std::iter::once(hop).chain(attribute.hops).collect();
            Some(RowBins { hops, column: attribute.column, bins: attribute.bins, of_rows })
        };
        attributes.into_iter().filter_map(of_attribute).collect()
    }
}

/// The values of a block.
struct OwnValues {
    bins: ColumnBins,
    column: SourceColumn,
}

impl BlockWatcher for OwnValues {
    fn see(&mut self, vectors: &[Vector], rows: usize, dictionaries: &[Arc<Dictionary>], sets: &mut [BinSet]) {
        for row in 0..rows {
            sets[0].insert(self.bins.bin(&vectors[0], row, &self.column, dictionaries));
        }
    }
}

/// The rows of a table, each of which gets a number.
///
/// # Errors
/// `Input` where they are too many for 4 bytes.
pub(super) fn row_count(table: &TableSnapshot) -> Result<usize> {
    let count = usize::try_from(table.rows()).ok().filter(|rows| *rows < u32::MAX as usize);
    count.ok_or_else(|| Error::input(format!("table {} has too many rows", table.name)))
}

/// A fact about the blocks of the segments that have the column.
pub(super) fn collected(
    table: &TableSnapshot,
    (hops, column): (Vec<Hop>, ColumnId),
    known: Vec<(ColumnId, Bins)>,
    sets: Vec<BlockSets>,
    final_set: impl Fn(&BinSet) -> BinSet,
) -> BinSets {
    let has_column = |segment: usize| table.segments[segment].column_index(column).is_some();
    let mut counts: BTreeMap<usize, u32> = BTreeMap::new();
    sets.iter().for_each(|((segment, ..), _)| *counts.entry(*segment).or_default() += 1);
    let segments = counts.into_iter().filter(|(segment, _)| has_column(*segment));
    let segments = segments.map(|(segment, blocks)| (table.segments[segment].id(), blocks)).collect();
    let attribute = |(index, (column, bins)): (usize, (ColumnId, Bins))| {
        let sets = sets.iter().map(|(_, sets)| final_set(&sets[index])).collect();
        Attribute { column, bins, sets }
    };
    BinSets { hops, segments, attributes: known.into_iter().enumerate().map(attribute).collect() }
}
