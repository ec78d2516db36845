//! The fact table: orders of one to seven lines, in the order of their keys, with random dates.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::dates::DATE_KEYS;
use super::words::{PRIORITIES, SHIP_MODES};
use super::{Sizes, ints, is_wide, key_array, key_type, texts};
use crate::random::{RowRandom, Stream};

/// Days on which orders are placed: 1992-01-01 to 1998-08-02, as in dbgen. The last commit date is 90 days later.
pub(super) const ORDER_DAYS: u64 = 2406;

pub(super) fn schema(sizes: &Sizes) -> SchemaRef {
    let text = |name| Field::new(name, DataType::Utf8, false);
    let int = |name| Field::new(name, DataType::Int32, false);
    Arc::new(Schema::new(vec![
        Field::new("lo_orderkey", key_type(sizes.wide_order_keys), false),
        int("lo_linenumber"),
        Field::new("lo_custkey", key_type(is_wide(sizes.customers)), false),
        int("lo_partkey"),
        int("lo_suppkey"),
        int("lo_orderdate"),
        text("lo_orderpriority"),
        int("lo_shippriority"),
        int("lo_quantity"),
        int("lo_extendedprice"),
        int("lo_ordtotalprice"),
        int("lo_discount"),
        int("lo_revenue"),
        int("lo_supplycost"),
        int("lo_tax"),
        int("lo_commitdate"),
        text("lo_shipmode"),
    ]))
}

struct Line {
    order_key: u64,
    line_number: i32,
    customer: u64,
    part: i32,
    supplier: i32,
    order_day: usize,
    priority: &'static str,
    quantity: i32,
    extended_price: i32,
    order_total: i32,
    discount: i32,
    supply_cost: i32,
    tax: i32,
    commit_day: usize,
    ship_mode: &'static str,
}

impl Line {
    fn revenue(&self) -> i32 {
        discounted(self.extended_price, self.discount) as i32
    }
}

/// Price in cents after a discount in percent.
fn discounted(price: i32, discount: i32) -> i64 {
    i64::from(price) * i64::from(100 - discount) / 100
}

/// Retail price in cents of a part (TPC-H 4.2.3, P_RETAILPRICE).
fn part_price(part: i32) -> i32 {
    90_000 + part / 10 % 20_001 + part % 1000 * 100
}

/// The key of order `number` (from 0): only the first 8 of every 32 keys are used (TPC-H 4.2.3, O_ORDERKEY).
fn sparse_key(number: u64) -> u64 {
    let position = number + 1;
    (position >> 3 << 5) | (position & 7)
}

fn append_order(seed: u64, sizes: &Sizes, number: u64, lines: &mut Vec<Line>) {
    let mut random = RowRandom::new(seed, Stream::Order, number);
    let first = lines.len();
    let order_key = sparse_key(number);
    let line_count = random.range(1, 7);
    let customer = random.below(sizes.customers) + 1;
    let order_day = random.below(ORDER_DAYS) as usize;
    let priority = random.choose(&PRIORITIES);
    let mut total = 0;
    for line_number in 1..=line_count {
        let part = random.below(sizes.parts) as i32 + 1;
        let supplier = random.below(sizes.suppliers) as i32 + 1;
        let quantity = random.range(1, 50);
        let discount = random.range(0, 10);
        let tax = random.range(0, 8);
        let commit_day = order_day + random.range(30, 90) as usize;
        let ship_mode = random.choose(&SHIP_MODES);
        let price = part_price(part);
        let extended_price = quantity * price;
        total += discounted(extended_price, discount) * i64::from(100 + tax) / 100;
        lines.push(Line {
            order_key,
            line_number,
            customer,
            part,
            supplier,
            order_day,
            priority,
            quantity,
            extended_price,
            order_total: 0,
            discount,
            supply_cost: 6 * price / 10,
            tax,
            commit_day,
            ship_mode,
        });
    }
    for line in &mut lines[first..] {
        line.order_total = total as i32;
    }
}

/// The lines of the orders of `range`, counted from 0.
pub(super) fn rows(seed: u64, sizes: &Sizes, range: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let mut lines = Vec::with_capacity((range.end - range.start) as usize * 9 / 2);
    for number in range {
        append_order(seed, sizes, number, &mut lines);
    }
    let lines = &lines;
    let int = |value: fn(&Line) -> i32| ints(lines.iter().map(value));
    let columns = vec![
        key_array(lines.iter().map(|l| l.order_key), sizes.wide_order_keys),
        int(|l| l.line_number),
        key_array(lines.iter().map(|l| l.customer), is_wide(sizes.customers)),
        int(|l| l.part),
        int(|l| l.supplier),
        int(|l| DATE_KEYS[l.order_day]),
        texts(lines.iter().map(|l| l.priority)),
        int(|_| 0),
        int(|l| l.quantity),
        int(|l| l.extended_price),
        int(|l| l.order_total),
        int(|l| l.discount),
        int(Line::revenue),
        int(|l| l.supply_cost),
        int(|l| l.tax),
        int(|l| DATE_KEYS[l.commit_day]),
        texts(lines.iter().map(|l| l.ship_mode)),
    ];
    RecordBatch::try_new(schema(sizes), columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_keys_are_those_of_dbgen() {
        let keys: Vec<_> = (0..10).map(sparse_key).collect();
        assert_eq!(keys, [1, 2, 3, 4, 5, 6, 7, 32, 33, 34]);
        assert!(sparse_key(300 * 1_500_000) < i32::MAX as u64, "keys fit 32 bits up to scale factor 300");
    }

    #[test]
    fn prices_fit_32_bits() {
        let dearest = (1..=4_000_000).map(part_price).max().expect("parts");
        assert!(i64::from(dearest) * 50 * 7 * 108 / 100 < i64::from(i32::MAX));
        assert_eq!(part_price(1), 90_100);
    }
}
