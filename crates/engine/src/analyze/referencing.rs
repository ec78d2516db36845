//! What the blocks of a table have of the rows that refer to theirs, as orders have of their line items.
//!
//! The other table is the larger one: its rows are read once, in any order, and each adds its bins to the blocks that hold its key.
//! Memory: the keys of the table itself, and per worker and column a set of bins for every block.
//!
//! Invariant: the facts are those that [partners](super::partners) would be found to have if the other table's rows were held by key.

use std::sync::Arc;

use forebay_base::{ColumnId, Error, Result};
use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::pool;
use forebay_cpu::vector::Vector;
use forebay_pipeline::ir::{SourceColumn, TableSource};
use forebay_prune::bins::{BinSet, Binning};
use forebay_store::TableSnapshot;

use super::build::{BlockSets, Builder, collected, row_count};
use super::columns::{ColumnBins, check_key, dictionaries_of, integers_of, source_of};
use super::keys::RowsByKey;
use crate::facts::{BinSets, Hop};
use crate::query::source::{EqualRows, VectorLoader};
use crate::{Morsel, Scan};

/// Blocks of the other table from which it is told which of its columns are worth a look at all rows.
const SAMPLED_BLOCKS: usize = 16;

/// A column tells blocks apart where they lack, on average, so large a part of the bins that equally many rows from anywhere have.
const LEAST_LACKING: f64 = 0.1;

/// The blocks of a table by the key of their rows.
struct BlocksByKey {
    rows: RowsByKey,
    /// By row, the place of its block in `blocks`.
    of_rows: Vec<u32>,
    /// Segment, row group and block.
    blocks: Vec<(usize, usize, usize)>,
}

/// What one worker, and at last all of them, found of a column.
struct Found {
    bins: ColumnBins,
    /// By block.
    sets: Vec<BinSet>,
    /// By block, the rows that were looked at.
    rows: Vec<u64>,
}

impl Builder<'_> {
    /// The bins of some columns of the table that a hop leads to, by the blocks of `table`; of those that tell blocks apart.
    pub(super) fn of_referencing(
        &self,
        table: &Arc<TableSnapshot>,
        hop: Hop,
        columns: &[ColumnId],
    ) -> Result<Option<BinSets>> {
        let other = self.table(hop.table)?;
        let by_key = self.blocks_by_key(table, hop.column)?;
        let with_key = |columns: &[ColumnId]| source_of(other, &[&[hop.key], columns].concat());
        let source = with_key(columns)?;
        check_key(&source.columns[0], other)?;
        let samples = self.samples(other, &source)?.into_iter().skip(1);
        let sampled: Vec<(ColumnId, Binning)> =
            columns.iter().zip(samples).filter_map(|(column, sample)| Some((*column, sample?))).collect();
        let told = |wanted: Vec<(ColumnId, Binning)>, all: bool| -> Result<Vec<(ColumnId, Binning, Found)>> {
            let source = with_key(&wanted.iter().map(|(column, _)| *column).collect::<Vec<_>>())?;
            let mut scan = self.scan(other, &source)?;
            if !all {
                let step = scan.morsels().div_ceil(SAMPLED_BLOCKS).max(1);
                let morsels = (0..scan.morsels()).step_by(step).map(|number| scan.morsel(number));
                let first_block = |morsel: Morsel| {
                    let first = morsel.blocks().start;
                    Morsel::new((morsel.segment, morsel.group), first..first + 1)
                };
                let blocks = morsels.map(first_block);
                scan = self.scan_of(other, &source, blocks.collect())?;
            }
            let found = self.referencing(&scan, &source, &wanted, &by_key)?;
            let found = wanted.into_iter().zip(found).filter(|(_, found)| found.tells_blocks_apart());
            Ok(found.map(|((column, binning), found)| (column, binning, found)).collect())
        };
        let worth: Vec<_> = told(sampled, false)?.into_iter().map(|(column, binning, _)| (column, binning)).collect();
        let found = if worth.is_empty() { Vec::new() } else { told(worth, true)? };
        if found.is_empty() {
            return Ok(None);
        }
        let (mut known, mut by_column) = (Vec::new(), Vec::new());
        for (column, _, found) in found {
            let (bins, numbers) = found.bins.binning.finish();
            known.push((column, bins));
            by_column.push(found.sets.iter().map(|set| set.renumbered(&numbers)).collect::<Vec<_>>());
        }
        let of_block = |(block, place): (usize, &(usize, usize, usize))| -> BlockSets {
            (*place, by_column.iter().map(|sets| sets[block]).collect())
        };
        let mut sets: Vec<BlockSets> = by_key.blocks.iter().enumerate().map(of_block).collect();
        sets.sort_unstable_by_key(|(place, _)| *place);
        Ok(Some(collected(table, (vec![hop], hop.column), known, sets, |set| *set)))
    }

    /// The blocks of a table, but for those of segments that lack the column, by its values.
    fn blocks_by_key(&self, table: &Arc<TableSnapshot>, column: ColumnId) -> Result<BlocksByKey> {
        let source = source_of(table, &[column])?;
        check_key(&source.columns[0], table)?;
        let row_count = row_count(table)?;
        let (mut keys, mut of_rows) = (Vec::with_capacity(row_count), Vec::with_capacity(row_count));
        let mut blocks = Vec::new();
        self.rows(table, &source, |place, vectors, rows, _| {
            if table.segments[place.0].column_index(column).is_none() {
                return;
            }
            if blocks.last() != Some(&place) {
                blocks.push(place);
            }
            let number = blocks.len() as u32 - 1;
            integers_of(&vectors[0], 0..rows, |_, key| keys.push(key));
            of_rows.resize(keys.len(), number);
        })?;
        Ok(BlocksByKey { rows: RowsByKey::new(&keys), of_rows, blocks })
    }

    /// What rows of a scan add to the blocks that hold their keys.
    fn referencing(
        &self,
        scan: &Arc<Scan>,
        source: &TableSource,
        wanted: &[(ColumnId, Binning)],
        by_key: &BlocksByKey,
    ) -> Result<Vec<Found>> {
        let dictionaries = dictionaries_of(source);
        let work = || -> Result<Vec<Found>> {
            let mut all: Vec<Found> = wanted.iter().map(|(_, bins)| Found::new(bins, by_key.blocks.len())).collect();
            let mut loader = VectorLoader::new(source, &dictionaries);
            let mut blocks = Vec::new();
            while let Some(morsel) = scan.next_morsel() {
                self.cancel.check()?;
                let rows = scan.run(morsel, &mut [], &mut [])?;
                while let Some(loaded) = loader.next(&rows, EqualRows::Ignored)? {
                    by_key.blocks_of(&loaded.vectors[0], loaded.rows, &mut blocks);
                    for ((found, vector), column) in all.iter_mut().zip(&loaded.vectors[1..]).zip(&source.columns[1..])
                    {
                        found.see(vector, &blocks, column, &dictionaries);
                    }
                }
            }
            Ok(all)
        };
        let panicked = |_| Err(Error::internal("a worker that made a fact panicked"));
        let mut all: Vec<Found> = wanted.iter().map(|(_, bins)| Found::new(bins, by_key.blocks.len())).collect();
        for end in pool::run(self.threads, work) {
            let of_worker = end.unwrap_or_else(panicked)?;
            all.iter_mut().zip(of_worker).for_each(|(all, found)| all.add(&found));
        }
        Ok(all)
    }
}

impl BlocksByKey {
    /// Of each row of a vector of keys, the places of the blocks that hold its key: pairs of both.
    fn blocks_of(&self, keys: &Vector, rows: usize, pairs: &mut Vec<(usize, u32)>) {
        pairs.clear();
        integers_of(keys, 0..rows, |row, key| {
            let Some(key) = key else { return };
            for block in self.rows.rows(key).map(|row| self.of_rows[row]) {
                if pairs.last() != Some(&(row, block)) {
                    pairs.push((row, block));
                }
            }
        });
    }
}

impl Found {
    fn new(binning: &Binning, blocks: usize) -> Self {
        Self { bins: ColumnBins::new(binning.empty()), sets: vec![BinSet::default(); blocks], rows: vec![0; blocks] }
    }

    fn see(&mut self, vector: &Vector, pairs: &[(usize, u32)], column: &SourceColumn, ids: &[Arc<Dictionary>]) {
        for (row, block) in pairs {
            let bin = self.bins.bin(vector, *row, column, ids);
            self.sets[*block as usize].insert(bin);
            self.rows[*block as usize] += 1;
        }
    }

    /// Takes in what another worker found with the same bins.
    fn add(&mut self, other: &Self) {
        self.bins.binning.add(&other.bins.binning);
        self.sets.iter_mut().zip(&other.sets).for_each(|(mine, set)| mine.add(set));
        self.rows.iter_mut().zip(&other.rows).for_each(|(mine, rows)| *mine += rows);
    }

    /// Whether blocks have clearly fewer bins than as many rows from anywhere in the other table would have, if each bin had equally
    /// many rows.
    fn tells_blocks_apart(&self) -> bool {
        let mut all = BinSet::default();
        self.sets.iter().for_each(|set| all.add(set));
        let bins = all.count() as f64;
        let (mut had, mut expected) = (0.0, 0.0);
        for (set, rows) in self.sets.iter().zip(&self.rows) {
            had += set.count() as f64;
            expected += bins * (1.0 - (1.0 - 1.0 / bins.max(1.0)).powf(*rows as f64));
        }
        had < (1.0 - LEAST_LACKING) * expected
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::{PhysicalType, Value};

    use super::*;

    const BLOCKS: usize = 20;

    /// What blocks have of 10,000 rows each, whose bins of 200 `bin` gives by block and row.
    fn found(bin: impl Fn(usize, usize) -> usize) -> Found {
        let values: Vec<Value> = (0..200).map(Value::Int).collect();
        let mut found = Found::new(&Binning::of_sample(values.clone()), BLOCKS);
        for (block, set) in found.sets.iter_mut().enumerate() {
            (0..10_000).for_each(|row| set.insert(found.bins.binning.bin_of(&values[bin(block, row)])));
        }
        found.rows.fill(10_000);
        found
    }

    #[test]
    fn columns_tell_blocks_apart_where_these_lack_values() {
        assert!(found(|block, row| block * 10 + row % 10).tells_blocks_apart());
        assert!(!found(|block, row| (block * 10 + row) % 200).tells_blocks_apart());
        assert!(!found(|_, row| row % 200).tells_blocks_apart());
        // Every block has one value, the same one.
        assert!(!found(|_, _| 7).tells_blocks_apart());
        // Few rows of many values lack most of them, wherever they lie.
        let mut few = found(|block, row| (block * 10 + row % 10) * 7 % 200);
        few.rows.fill(10);
        assert!(!few.tells_blocks_apart());
        let nothing = Found::new(&Binning::of_sample(Vec::new()), 0);
        assert!(!nothing.tells_blocks_apart());
    }

    /// Keys of no block, of one, of several rows of one and of rows of several; NULL.
    #[test]
    fn keys_lead_to_each_of_their_blocks_once() {
        let keys = [Some(5), Some(7), Some(5), Some(9), None, Some(5), Some(-3)];
        let of_rows = vec![0, 0, 0, 1, 1, 2, 2];
        let by_key = BlocksByKey { rows: RowsByKey::new(&keys), of_rows, blocks: Vec::new() };
        let asked = [Some(9), Some(5), None, Some(4), Some(-3), Some(7)];
        let values: Vec<Option<Value>> = asked.iter().map(|key| key.map(|key| Value::Int(key.into()))).collect();
        let mut vector = Vector::default();
        vector.load_values(PhysicalType::I64, &values.iter().map(Option::as_ref).collect::<Vec<_>>());
        let mut pairs = vec![(77, 77)];
        by_key.blocks_of(&vector, asked.len(), &mut pairs);
        pairs.sort_unstable();
        assert_eq!(pairs, [(0, 1), (1, 0), (1, 2), (4, 2), (5, 0)]);
    }
}
