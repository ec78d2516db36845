//! The order of a table that serves the queries best which the database has run, since it was opened and, as far as the query log
//! has them, before.
//!
//! Columns that they tested are taken in the order of their different values, the fewest first (GOLAP §4.4), as many as tell blocks
//! apart. Which of these goes in front of which is tried on a sample: it is put into each order, and what the queries would
//! have read is counted.

use std::sync::Arc;

use forebay_base::{Result, limits};
use forebay_prune::bins::{BinSet, NO_BIN};
use forebay_store::{Catalog, TableSnapshot};

use super::build::{Builder, Wanted};
use super::codes::{MOST_KEYS, RowCodes, Unordered};
use super::worth::{hops_of, worth_making};
use crate::facts::{Asked, OrderKey};
use crate::{CancelToken, Engine};

/// Columns with at most so many different values are taken to be what rows are grouped and filtered by, where nobody has asked yet.
pub(super) const FEW_VALUES: f64 = 64.0;

/// Columns whose orders are all tried. Behind them come the others as they are.
const TRIED_KEYS: usize = 5;

/// Rows that orders are tried on.
pub(super) const SAMPLED_ROWS: usize = 1 << 17;

/// An order of a table for the queries so far; without any, by columns with few values. No columns where none tells rows apart.
///
/// # Errors
/// Those of reading.
pub fn order_of_queries(
    engine: &Arc<Engine>,
    catalog: &Catalog,
    table: &Arc<TableSnapshot>,
    (threads, cancel): (usize, &CancelToken),
) -> Result<Vec<OrderKey>> {
    let asked = engine.query_log().with_earlier(engine.known_facts().asked(table.id), table.id);
    let mut tested: Vec<OrderKey> = Vec::new();
    for (key, _) in asked.iter().flat_map(|question| &question.tests) {
        if !tested.contains(key) && goes_by_foreign_keys(catalog, table, key) {
            tested.push(key.clone());
        }
    }
    let is_asked = !tested.is_empty();
    let keys = if is_asked {
        telling(catalog, table, tested, f64::MAX)
    } else {
        telling(catalog, table, worth_making(catalog, table, false).into_iter().flat_map(keys_of).collect(), FEW_VALUES)
    };
    if keys.is_empty() {
        return Ok(keys);
    }
    let builder = Builder { engine, catalog, threads, cancel };
    let codes = RowCodes::new(&builder, table, &keys, Unordered::LeftOut)?;
    let chosen = |order: Vec<usize>| -> Vec<OrderKey> {
        order.into_iter().filter(|key| codes.orders_by(*key)).map(|key| keys[key].clone()).collect()
    };
    if !is_asked || keys.len() < 2 {
        return Ok(chosen((0..keys.len()).collect()));
    }
    let sampled = codes.sample(&builder, table, SAMPLED_ROWS)?;
    let questions = asked
        .iter()
        .map(|question| Question::of(question, &keys, |key, test| codes.passing(key, test, &sampled.workers)));
    let questions: Vec<Question> = questions.collect();
    let block_rows = (sampled.numbers.len() * limits::BLOCK_ROWS / table.rows().max(1) as usize).max(1);
    let mut best: Option<(u64, Vec<usize>)> = None;
    for order in orders(keys.len()) {
        cancel.check()?;
        let cost = cost(&sampled.numbers, &order, block_rows, &questions);
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, order));
        }
    }
    Ok(chosen(best.map(|(_, order)| order).unwrap_or_default()))
}

/// Whether a key is in the table itself, or behind declared foreign keys, so that an order can name it. Queries also join otherwise.
fn goes_by_foreign_keys(catalog: &Catalog, table: &TableSnapshot, key: &OrderKey) -> bool {
    let mut at = table;
    key.hops.iter().enumerate().all(|(number, hop)| {
        let is_new = key.hops[..number].iter().all(|known| known.table != hop.table);
        let declared = hops_of(catalog, at).into_iter().find(|(known, _)| known == hop);
        declared.inspect(|(_, partner)| at = partner).is_some() && is_new
    })
}

pub(super) fn keys_of(wanted: Wanted) -> Vec<OrderKey> {
    let Wanted { hops, columns } = wanted;
    columns.into_iter().map(|column| OrderKey { hops: hops.clone(), column }).collect()
}

/// Of these columns those with at most `most` different values, the fewest first, as many as tell the blocks of a table apart.
fn telling(catalog: &Catalog, table: &TableSnapshot, keys: Vec<OrderKey>, most: f64) -> Vec<OrderKey> {
    let distinct = |key: &OrderKey| -> Option<f64> {
        let of = key.hops.last().map_or(Some(table), |hop| catalog.table_by_id(hop.table).map(|table| &**table))?;
        let (position, _) = of.column_by_id(key.column)?;
        of.distribution(position).map(|known| known.distinct).filter(|distinct| *distinct > 1.0 && *distinct <= most)
    };
    let mut known: Vec<(f64, OrderKey)> =
        keys.into_iter().filter_map(|key| distinct(&key).map(|distinct| (distinct, key))).collect();
    known.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let blocks = table.rows() as f64 / limits::BLOCK_ROWS as f64;
    let mut cells = 1.0;
    let mut chosen = Vec::new();
    for (distinct, key) in known {
        if cells >= blocks && !chosen.is_empty() || chosen.len() == MOST_KEYS {
            break;
        }
        cells *= distinct;
        chosen.push(key);
    }
    chosen
}

/// What scans were asked, in numbers.
pub(super) struct Question {
    /// By key: the bins with rows that may pass.
    pub(super) passing: Vec<(usize, BinSet)>,
    /// What each block costs that is not ruled out.
    weight: u64,
}

impl Question {
    pub(super) fn of(
        asked: &Asked,
        keys: &[OrderKey],
        passing: impl Fn(usize, &forebay_pipeline::Predicate) -> BinSet,
    ) -> Self {
        let known = asked.tests.iter().filter_map(|(key, test)| {
            let place = keys.iter().position(|other| other == key)?;
            Some((place, passing(place, test)))
        });
        Self { passing: known.collect(), weight: asked.columns.len().max(1) as u64 * asked.times }
    }
}

/// All orders of the first columns, of so many.
fn orders(keys: usize) -> Vec<Vec<usize>> {
    let tried = keys.min(TRIED_KEYS);
    let mut all: Vec<Vec<usize>> = vec![Vec::new()];
    for _ in 0..tried {
        let longer = |order: &Vec<usize>| {
            let others = (0..tried).filter(|key| !order.contains(key)).collect::<Vec<_>>();
            let order = order.clone();
            others.into_iter().map(move |key| order.iter().copied().chain([key]).collect())
        };
        all = all.iter().flat_map(longer).collect();
    }
    all.into_iter().map(|order| order.into_iter().chain(tried..keys).collect()).collect()
}

/// What queries read of rows with these numbers, in the order `order` of their bytes, whose blocks have so many rows.
fn cost(numbers: &[u64], order: &[usize], block_rows: usize, questions: &[Question]) -> u64 {
    let keys = order.len();
    let byte = |number: u64, key: usize| (number >> (8 * (keys - 1 - key))) as u8;
    let in_order = |number: &u64| order.iter().fold(0_u64, |all, key| all << 8 | u64::from(byte(*number, *key)));
    let mut sorted: Vec<u64> = numbers.iter().map(in_order).collect();
    sorted.sort_unstable();
    // By key, its place among the bytes of the sorted numbers.
    let place = |key: usize| order.iter().position(|other| *other == key).unwrap_or(0);
    let mut cost = 0;
    for block in sorted.chunks(block_rows) {
        let mut sets = vec![BinSet::default(); keys];
        for number in block {
            for (key, set) in sets.iter_mut().enumerate() {
                match byte(*number, place(key)) {
                    NO_BIN => {}
                    bin => set.insert(bin),
                }
            }
        }
        let is_read = |question: &&Question| question.passing.iter().all(|(key, passing)| sets[*key].meets(passing));
        cost += questions.iter().filter(is_read).map(|question| question.weight).sum::<u64>();
    }
    cost
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_order_is_tried_once() {
        assert_eq!(orders(1), [[0]]);
        let mut three = orders(3);
        three.sort();
        assert_eq!(three.len(), 6);
        assert_eq!((&three[0], &three[5]), (&vec![0, 1, 2], &vec![2, 1, 0]));
        assert!(orders(7).iter().all(|order| order[5..] == [5, 6]));
    }

    /// Two columns of ten values; queries ask for one value of the second.
    #[test]
    fn what_is_asked_for_goes_in_front() {
        let numbers: Vec<u64> = (0..10_000).map(|row| (row % 10) << 8 | (row / 10 % 10)).collect();
        let mut passing = BinSet::default();
        passing.insert(3);
        let questions = [Question { passing: vec![(1, passing)], weight: 2 }];
        assert_eq!(cost(&numbers, &[1, 0], 100, &questions), 2 * 10);
        assert_eq!(cost(&numbers, &[0, 1], 100, &questions), 2 * 10);
        assert_eq!(cost(&numbers, &[1, 0], 1000, &questions), 2);
        assert_eq!(cost(&numbers, &[0, 1], 1000, &questions), 2 * 10);
    }
}
