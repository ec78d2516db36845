//! The rows of another table that those of a block join with.
//!
//! Of a row only its partner's key is noted; what the different partners of a block have is looked up when the block ends, one
//! attribute after the other.

use std::sync::Arc;

use forebay_cpu::dictionary::Dictionary;
use forebay_cpu::vector::Vector;
use forebay_prune::bins::{BinSet, NO_BIN};

use super::build::{BlockWatcher, Dimension, RowBins};
use super::columns::each_integer;

/// Partners that are looked at before it is asked whether more can tell anything.
const PARTNERS_AT_ONCE: usize = 1 << 12;

/// Collects the partners of a block.
pub(super) struct Partners<'d> {
    dimension: &'d Dimension,
    /// By attribute, all bins that it has.
    all_bins: &'d [BinSet],
    /// By place of a key: whether a row of the block has it. One byte each, so that it is set without a look at others.
    seen: Vec<u8>,
    /// The places of these keys, each once, and room for more.
    places: Vec<usize>,
    count: usize,
    /// The rows of the other table with these keys.
    rows: Vec<u32>,
}

impl<'d> Partners<'d> {
    /// Of a block of which nothing is known yet; `all_bins` are the [`all_bins`] of its attributes.
    pub(super) fn new(dimension: &'d Dimension, all_bins: &'d [BinSet]) -> Self {
        let seen = vec![0; dimension.rows.places()];
        Self { dimension, all_bins, seen, places: Vec::new(), count: 0, rows: Vec::new() }
    }
}

/// By attribute, all bins that rows have.
pub(super) fn all_bins(dimension: &Dimension) -> Vec<BinSet> {
    let all = |attribute: &RowBins| bins_of(&attribute.of_rows, None);
    dimension.attributes.iter().map(all).collect()
}

/// The bins of these rows; all that they may have are known where `all` is there.
fn bins_of<'r>(bins: impl IntoIterator<Item = &'r u8>, all: Option<&BinSet>) -> BinSet {
    let mut bins = bins.into_iter();
    let mut has = [false; 1 << u8::BITS];
    loop {
        let mut looked_at = 0;
        for bin in bins.by_ref().take(PARTNERS_AT_ONCE) {
            has[usize::from(*bin)] = true;
            looked_at += 1;
        }
        let mut set = BinSet::default();
        let known = (0..=u8::MAX).filter(|bin| *bin != NO_BIN && has[usize::from(*bin)]);
        known.for_each(|bin| set.insert(bin));
        if looked_at < PARTNERS_AT_ONCE || all == Some(&set) {
            return set;
        }
    }
}

impl BlockWatcher for Partners<'_> {
    fn see(&mut self, vectors: &[Vector], rows: usize, _: &[Arc<Dictionary>], _: &mut [BinSet]) {
        let Self { dimension, seen, places, count, .. } = self;
        // Every row writes its place; the next one overwrites it unless it is new.
        places.resize(*count + rows + 1, 0);
        each_integer(&vectors[0], rows, |key| {
            let Some(place) = dimension.rows.place(key) else { return };
            places[*count] = place;
            *count += usize::from(seen[place] == 0);
            seen[place] = 1;
        });
    }

    fn end(&mut self, sets: &mut [BinSet]) {
        let Self { dimension, all_bins, seen, places, count, rows } = self;
        let places = &places[..std::mem::take(count)];
        rows.clear();
        rows.extend(places.iter().flat_map(|place| dimension.rows.rows_at(*place)).map(|row| row as u32));
        places.iter().for_each(|place| seen[*place] = 0);
        for ((attribute, all), set) in dimension.attributes.iter().zip(*all_bins).zip(sets) {
            *set = bins_of(rows.iter().map(|row| &attribute.of_rows[*row as usize]), Some(all));
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::{ColumnId, PhysicalType, Value};
    use forebay_cpu::vector::VECTOR_ROWS;
    use forebay_prune::bins::{Bins, NULL_BIN};

    use super::super::keys::RowsByKey;
    use super::*;

    fn attribute(rows: usize, bin: impl Fn(usize) -> u8) -> RowBins {
        let of_rows = (0..rows).map(bin).collect();
        RowBins { hops: Vec::new(), column: ColumnId(0), bins: Bins::default(), of_rows }
    }

    /// The sets of a block with these keys, as they are collected and as they should be.
    fn sets(partners: &mut Partners<'_>, keys: &[Option<i64>]) -> (Vec<BinSet>, Vec<BinSet>) {
        let dimension = partners.dimension;
        let mut found = vec![BinSet::default(); dimension.attributes.len()];
        for some in keys.chunks(VECTOR_ROWS) {
            let values: Vec<Option<Value>> = some.iter().map(|key| key.map(|key| Value::Int(key.into()))).collect();
            let mut vector = Vector::default();
            vector.load_values(PhysicalType::I64, &values.iter().map(Option::as_ref).collect::<Vec<_>>());
            partners.see(&[vector], some.len(), &[], &mut found);
        }
        partners.end(&mut found);
        let mut wanted = vec![BinSet::default(); dimension.attributes.len()];
        for row in keys.iter().flatten().flat_map(|key| dimension.rows.rows(*key)) {
            for (attribute, set) in dimension.attributes.iter().zip(&mut wanted) {
                match attribute.of_rows[row] {
                    NO_BIN => {}
                    bin => set.insert(bin),
                }
            }
        }
        (found, wanted)
    }

    /// More than 65,535 partners, no two of which have the same bins of all attributes; keys in a range and far apart, with several rows
    /// and with none.
    #[test]
    fn blocks_have_what_their_partners_have() {
        const ROWS: usize = 70_000;
        let keys: [fn(i64) -> Option<i64>; 3] = [
            |row| (row % 1000 != 1).then_some(row - 5),
            |row| Some(row.wrapping_mul(1 << 40)),
            |row| Some(row / 3 * 2),
        ];
        for key in keys {
            let keys: Vec<Option<i64>> = (0..ROWS as i64).map(key).collect();
            let attributes = vec![
                attribute(ROWS, |row| (row % 250) as u8),
                attribute(ROWS, |row| (row / 250 % 250) as u8),
                attribute(ROWS, |row| if row % 3 == 0 { NULL_BIN } else { (row / 62_500) as u8 }),
                attribute(ROWS, |row| if row % 2 == 0 { NO_BIN } else { 7 }),
                attribute(ROWS, |_| NO_BIN),
            ];
            let dimension = Dimension { rows: RowsByKey::new(&keys), attributes };
            let all_bins = all_bins(&dimension);
            let mut partners = Partners::new(&dimension, &all_bins);
            let of_block = |start: usize, count: usize, step: usize| -> Vec<Option<i64>> {
                (0..count).map(|row| keys[(start + row * step) % ROWS]).collect()
            };
            let blocks = [
                of_block(0, ROWS, 1),
                of_block(3, 100, 250),
                vec![None, Some(-77), Some(i64::MAX)],
                Vec::new(),
                of_block(17, 20_000, 7),
                vec![keys[9]; 9000],
                vec![keys[0]],
            ];
            for (number, block) in blocks.iter().enumerate() {
                let (found, wanted) = sets(&mut partners, block);
                assert!(found == wanted, "block {number}");
            }
        }
    }
}
