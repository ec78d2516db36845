//! Orders that a table is worth a projection in, for the queries so far (HippogriffDB §3.1, §3.2 and §4.2).
//!
//! A projection is sorted by a primary and a secondary key. As that paper proves (Theorem 1), plans that swap both differ little,
//! so that each column is tried as primary key once, with the secondary key that goes best with it. Of a primary key that the table
//! stores itself there are runs, of the secondary one steps; all other columns stay as they are stored now. Sizes are models, by
//! distinct values and bounds. MSC takes what is smallest of every column; GFC only what is decoded as fast as it is read. What
//! queries would read follows from both and from the blocks that bins of a sample in that order rule out.

use std::sync::Arc;

use forebay_base::{ColumnId, Result, limits};
use forebay_block::Scheme;
use forebay_block::choose::{Cost, balance_gfc};
use forebay_prune::bins::{BinSet, NO_BIN};
use forebay_store::{Catalog, TableSnapshot};

use super::build::Builder;
use super::codes::{MOST_KEYS, RowCodes, Unordered};
use super::order::{FEW_VALUES, Question, SAMPLED_ROWS, keys_of};
use super::worth::worth_making;
use crate::facts::{Asked, OrderKey};
use crate::plans::Environment;
use crate::{CancelToken, Engine};

/// Bytes of a run: its value and where it ends.
const RUN_BYTES: f64 = 12.0;

/// How plans of compression are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// The smallest of each column (HippogriffDB §3.1).
    Msc,
    /// Smaller ones as long as reading takes at least as long as decoding (HippogriffDB §3.2, Figure 6).
    Gfc,
}

/// An order that is worth a projection.
#[derive(Debug, Clone, PartialEq)]
pub struct Suggestion {
    /// How its columns would be stored.
    pub method: Method,
    /// The primary key, and the secondary one if there is any.
    pub order: Vec<OrderKey>,
    /// Bytes that the projection would take.
    pub stored_bytes: u64,
    /// Bytes that the queries so far would have read.
    pub read_bytes: u64,
    /// Seconds that this and decoding it would have taken.
    pub seconds: f64,
}

/// What the queries so far read of the table as it lies, as far as bins of its own and of joined columns tell, and orders for
/// projections, those that read the fewest bytes first. Without queries they are those of columns with few values, and of all
/// that is read everything.
///
/// # Errors
/// Those of reading.
pub fn suggest(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    table: &Arc<TableSnapshot>,
    (threads, cancel): (usize, &CancelToken),
) -> Result<(u64, Vec<Suggestion>)> {
    let asked = engine.query_log().with_earlier(engine.known_facts().asked(table.id), table.id);
    let keys = candidates(catalog, table, &asked);
    if keys.is_empty() || table.rows() == 0 {
        return Ok((0, Vec::new()));
    }
    // One worker finds rows in the order of the table.
    let builder = Builder { engine, catalog, threads: 1, cancel };
    let codes = RowCodes::new(&builder, table, &keys, Unordered::LeftOut)?;
    let sampled = codes.sample(&builder, table, SAMPLED_ROWS)?;
    let columns = Columns::of(table, Environment::kept(engine, threads));
    let mut reads: Vec<Read> = Vec::new();
    for question in &asked {
        let passing = Question::of(question, &keys, |key, test| codes.passing(key, test, &sampled.workers)).passing;
        let passing = passing.into_iter().filter(|(key, _)| codes.orders_by(*key)).collect();
        reads.push(Read { passing, columns: columns.read_by(question), times: question.times });
    }
    if reads.is_empty() {
        reads.push(Read { passing: Vec::new(), columns: (0..table.columns.len()).collect(), times: 1 });
    }
    let block_rows = (sampled.numbers.len() * limits::BLOCK_ROWS / table.rows().max(1) as usize).max(1);
    let blocks = |order: &[usize]| Blocks::of(&sampled.numbers, keys.len(), order, block_rows);
    let now = columns.all(&vec![0; table.columns.len()], &columns.now());
    let read_now = total(&reads, &blocks(&[]), &now).0;
    let mut found = Vec::new();
    for (place, key) in keys.iter().enumerate().filter(|(place, _)| codes.orders_by(*place)) {
        cancel.check()?;
        let distinct = distinct_of(catalog, table, key);
        let (secondary, costs) = columns.sorted_by(key, distinct);
        let second = secondary.map(|id| OrderKey { hops: Vec::new(), column: id });
        let second_place = second.as_ref().and_then(|second| keys.iter().position(|key| key == second));
        let order: Vec<usize> = std::iter::once(place).chain(second_place.filter(|second| *second != place)).collect();
        let blocks = blocks(&order);
        for method in [Method::Msc, Method::Gfc] {
            let chosen = match method {
                Method::Msc => costs.iter().map(|plans| plans.len() - 1).collect(),
                Method::Gfc => balance_gfc(&costs.iter().map(Vec::as_slice).collect::<Vec<_>>()).unwrap_or_default(),
            };
            let stored = columns.all(&chosen, &costs);
            let (read_bytes, seconds) = total(&reads, &blocks, &stored);
            let stored_bytes = stored.iter().map(|cost| cost.stored_bytes).sum();
            let order = std::iter::once(key.clone()).chain(second.clone()).collect();
            found.push(Suggestion { method, order, stored_bytes, read_bytes, seconds });
        }
    }
    found.sort_by(|a, b| a.read_bytes.cmp(&b.read_bytes).then(a.seconds.total_cmp(&b.seconds)));
    Ok((read_now, found))
}

/// The columns that queries tested, or those with few values where none did: the ones with the fewest in front.
fn candidates(catalog: &Catalog, table: &TableSnapshot, asked: &[Asked]) -> Vec<OrderKey> {
    let mut keys: Vec<OrderKey> = Vec::new();
    for (key, _) in asked.iter().flat_map(|question| &question.tests) {
        if !keys.contains(key) {
            keys.push(key.clone());
        }
    }
    let most = if keys.is_empty() { FEW_VALUES } else { f64::MAX };
    if keys.is_empty() {
        keys = worth_making(catalog, table, false).into_iter().flat_map(keys_of).collect();
    }
    let mut known: Vec<(f64, OrderKey)> =
        keys.into_iter().map(|key| (distinct_of(catalog, table, &key), key)).collect();
    known.retain(|(distinct, _)| *distinct > 1.0 && *distinct <= most);
    known.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    known.into_iter().map(|(_, key)| key).take(MOST_KEYS).collect()
}

/// The different values of a key; 0 where they are not known.
fn distinct_of(catalog: &Catalog, table: &TableSnapshot, key: &OrderKey) -> f64 {
    let of = key.hops.last().map_or(Some(table), |hop| catalog.table_by_id(hop.table).map(|table| &**table));
    let distinct = of.and_then(|of| Some(of.distribution(of.column_by_id(key.column)?.0)?.distinct));
    distinct.unwrap_or(0.0)
}

/// What scans with one question read.
struct Read {
    /// By key: the bins with rows that may pass.
    passing: Vec<(usize, BinSet)>,
    /// Positions of columns in the table's list.
    columns: Vec<usize>,
    times: u64,
}

/// The columns of a table, and what they take.
struct Columns<'t> {
    table: &'t TableSnapshot,
    environment: Environment,
    /// Of each: bytes on disk and in memory.
    bytes: Vec<(u64, u64)>,
}

impl<'t> Columns<'t> {
    fn of(table: &'t TableSnapshot, environment: Environment) -> Self {
        let bytes = |id: ColumnId| {
            let chunks = table.segments.iter().filter_map(|segment| {
                let (index, groups) = (segment.column_index(id)?, segment.groups().ok()?);
                Some(groups.iter().flat_map(move |group| &group.columns[index].chunks))
            });
            chunks
                .flatten()
                .fold((0, 0), |(stored, encoded), chunk| (stored + chunk.stored_bytes, encoded + chunk.encoded_bytes))
        };
        Self { table, environment, bytes: table.columns.iter().map(|column| bytes(column.id)).collect() }
    }

    /// The columns that scans with a question read; all where that is not known.
    fn read_by(&self, asked: &Asked) -> Vec<usize> {
        let own = asked.tests.iter().map(|(key, _)| key.own_column());
        let ids: Vec<ColumnId> = asked.columns.iter().copied().chain(own).collect();
        let columns = self.table.columns.iter().enumerate();
        let is_read = |column: &forebay_store::Column| asked.columns.is_empty() || ids.contains(&column.id);
        columns.filter(|(_, column)| is_read(column)).map(|(position, _)| position).collect()
    }

    /// What a column takes in so many bytes that are decoded as `scheme` is.
    fn cost(&self, column: usize, stored_bytes: f64, scheme: Scheme) -> Cost {
        let Environment { rates, machine } = &self.environment;
        let (encoded, cores) = (self.bytes[column].1 as f64, machine.cores as f64);
        Cost {
            stored_bytes: stored_bytes as u64,
            chunks: 1,
            read_seconds: stored_bytes / machine.disk_bytes_per_s,
            decode_seconds: encoded / rates.of(scheme) / cores,
            scan_seconds: encoded / rates.scan() / cores,
        }
    }

    /// Every column as it is stored now.
    fn now(&self) -> Vec<Vec<Cost>> {
        let now = |column: usize| vec![self.cost(column, self.bytes[column].0 as f64, Scheme::BitPacked)];
        (0..self.bytes.len()).map(now).collect()
    }

    /// In an order by `key`, which has so many different values: the secondary key that saves the most, and of every column how it
    /// is stored now and, behind that, how it could be.
    fn sorted_by(&self, key: &OrderKey, distinct: f64) -> (Option<ColumnId>, Vec<Vec<Cost>>) {
        let (mut costs, rows) = (self.now(), self.table.rows() as f64);
        let primary = if key.hops.is_empty() { self.table.column_by_id(key.column) } else { None };
        let primary = primary.map(|(position, _)| position);
        let mut best: Option<(u64, usize, Cost)> = None;
        for (column, plans) in costs.iter_mut().enumerate() {
            let stored = plans[0].stored_bytes;
            if primary == Some(column) {
                let runs = self.cost(column, (distinct * RUN_BYTES).min(stored as f64), Scheme::RunLength);
                plans.push(runs);
                continue;
            }
            let Some((low, high)) = self.table.integers(column) else { continue };
            // Within a value of the primary key the values of the secondary one ascend over their whole range.
            let step = (high.saturating_sub(low) as f64 * distinct.max(1.0) / rows.max(1.0)).max(1.0);
            let steps = self.cost(column, rows * (step.log2() + 1.0) / 8.0, Scheme::Delta);
            let saved = stored.saturating_sub(steps.stored_bytes);
            if saved > best.as_ref().map_or(0, |(most, ..)| *most) {
                best = Some((saved, column, steps));
            }
        }
        let secondary = best.map(|(_, column, steps)| {
            costs[column].push(steps);
            self.table.columns[column].id
        });
        (secondary, costs)
    }

    /// The chosen cost of every column.
    fn all(&self, chosen: &[usize], costs: &[Vec<Cost>]) -> Vec<Cost> {
        costs.iter().zip(chosen).map(|(plans, chosen)| plans[*chosen]).collect()
    }
}

/// The bins that the blocks of a sample have, key by key.
struct Blocks(Vec<Vec<BinSet>>);

impl Blocks {
    /// Of rows with these numbers, of which a key is a byte, ordered by these of them.
    fn of(numbers: &[u64], keys: usize, order: &[usize], block_rows: usize) -> Self {
        let byte = |number: u64, key: usize| (number >> (8 * (keys - 1 - key))) as u8;
        let mut sorted = numbers.to_vec();
        sorted.sort_by_key(|number| order.iter().fold(0_u64, |all, key| all << 8 | u64::from(byte(*number, *key))));
        let of_block = |rows: &[u64]| {
            let mut sets = vec![BinSet::default(); keys];
            for (key, set) in sets.iter_mut().enumerate() {
                let bins = rows.iter().map(|number| byte(*number, key));
                bins.filter(|bin| *bin != NO_BIN).for_each(|bin| set.insert(bin));
            }
            sets
        };
        Self(sorted.chunks(block_rows).map(of_block).collect())
    }

    /// The part of the blocks that may have rows which pass.
    fn share(&self, passing: &[(usize, BinSet)]) -> f64 {
        let is_read = |sets: &&Vec<BinSet>| passing.iter().all(|(key, passing)| sets[*key].meets(passing));
        self.0.iter().filter(is_read).count() as f64 / self.0.len().max(1) as f64
    }
}

/// Bytes that are read of blocks, and the time that takes.
fn total(reads: &[Read], blocks: &Blocks, stored: &[Cost]) -> (u64, f64) {
    let (mut bytes, mut seconds) = (0.0, 0.0);
    for Read { passing, columns, times } in reads {
        let share = blocks.share(passing) * *times as f64;
        let sum = |of: fn(&Cost) -> f64| columns.iter().map(|column| of(&stored[*column])).sum::<f64>();
        bytes += share * sum(|cost| cost.stored_bytes as f64);
        seconds += share * sum(|cost| cost.read_seconds).max(sum(Cost::compute_seconds));
    }
    (bytes as u64, seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two columns of ten values each, the first one in the front byte.
    #[test]
    fn blocks_in_the_order_of_a_key_are_ruled_out_by_it() {
        let numbers: Vec<u64> = (0..10_000).map(|row| (row % 10) << 8 | (row / 10 % 10)).collect();
        let mut passing = BinSet::default();
        passing.insert(3);
        let share = |order: &[usize], key| Blocks::of(&numbers, 2, order, 1000).share(&[(key, passing)]);
        assert_eq!((share(&[], 0), share(&[], 1)), (1.0, 1.0));
        assert_eq!((share(&[0], 0), share(&[0], 1)), (0.1, 1.0));
        assert_eq!((share(&[1], 1), share(&[1, 0], 0)), (0.1, 1.0));
        assert_eq!(Blocks::of(&[], 2, &[], 10).share(&[]), 0.0);
    }

    #[test]
    fn times_and_bytes_are_added_up() {
        let cost = |stored_bytes, read_seconds, decode_seconds| Cost {
            stored_bytes,
            chunks: 1,
            read_seconds,
            decode_seconds,
            scan_seconds: 0.0,
        };
        let blocks = Blocks::of(&[0, 1, 2, 3], 1, &[], 1);
        let mut passing = BinSet::default();
        passing.insert(2);
        let reads = [
            Read { passing: vec![(0, passing)], columns: vec![0], times: 2 },
            Read { passing: Vec::new(), columns: vec![0, 1], times: 1 },
        ];
        let (bytes, seconds) = total(&reads, &blocks, &[cost(100, 1.0, 4.0), cost(20, 3.0, 0.5)]);
        assert_eq!((bytes, seconds), (50 + 120, 2.0 + 4.5));
    }
}
