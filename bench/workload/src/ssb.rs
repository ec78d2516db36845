//! The Star Schema Benchmark's data (O'Neil, O'Neil, Chen: Star Schema Benchmark, revision 3).
//!
//! Every row is a function of seed, table and row (or order) number, so any thread can make any range. Where the
//! specification leaves the distribution open, dbgen's is used: order dates end on 1998-08-02 so that commit dates stay
//! inside the calendar, and order keys are sparse (8 of 32). Money is whole cents.

mod dates;
mod dimensions;
mod lineorder;
#[cfg(test)]
mod tests;
mod words;

use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array};
use arrow::datatypes::DataType;

use crate::table_source::{MakeRows, PART_ROWS, RangeTable, TableSource};

/// Lineorder has 4 rows an order.
const PART_ORDERS: u64 = PART_ROWS / 4;

/// From this scale factor on, sparse order keys need 64 bits.
pub(crate) const WIDE_ORDER_KEY_SCALE_FACTOR: f64 = 300.0;

/// Number of rows of every table, and what follows from it.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Sizes {
    customers: u64,
    suppliers: u64,
    parts: u64,
    orders: u64,
    wide_order_keys: bool,
}

impl Sizes {
    /// SSB rev. 3, section 2; below scale factor 1 the number of parts shrinks with the rest.
    fn at(scale_factor: f64) -> Self {
        let scaled = |base: f64| ((base * scale_factor).round() as u64).max(1);
        let parts =
            if scale_factor < 1.0 { scaled(200_000.0) } else { 200_000 * (1 + scale_factor.log2().floor() as u64) };
        Self {
            customers: scaled(30_000.0),
            suppliers: scaled(2_000.0),
            parts,
            orders: scaled(1_500_000.0),
            wide_order_keys: wide_order_keys(scale_factor),
        }
    }
}

/// Whether lo_orderkey is BIGINT at this scale factor.
pub(crate) fn wide_order_keys(scale_factor: f64) -> bool {
    scale_factor > WIDE_ORDER_KEY_SCALE_FACTOR
}

/// Whether customer keys are BIGINT at this scale factor.
pub(crate) fn wide_customer_keys(scale_factor: f64) -> bool {
    is_wide(Sizes::at(scale_factor).customers)
}

/// The five tables, referenced ones first.
pub(crate) fn tables(scale_factor: f64, seed: u64) -> Vec<Box<dyn TableSource>> {
    tables_of(Sizes::at(scale_factor), seed)
}

fn tables_of(sizes: Sizes, seed: u64) -> Vec<Box<dyn TableSource>> {
    let table = |name, units, part_units, expected_rows, schema, make_rows: Arc<MakeRows>| -> Box<dyn TableSource> {
        Box::new(RangeTable { name, schema, units, part_units, expected_rows, make_rows })
    };
    let dimension = |name, rows, schema, make_rows| table(name, rows, PART_ROWS, rows, schema, make_rows);
    let Sizes { customers, suppliers, parts, orders, .. } = sizes;
    vec![
        dimension("date", dates::DAYS as u64, dates::schema(), Arc::new(dates::rows)),
        dimension(
            "customer",
            customers,
            dimensions::customer_schema(customers),
            Arc::new(move |range| dimensions::customers(seed, customers, range)),
        ),
        dimension(
            "supplier",
            suppliers,
            dimensions::supplier_schema(),
            Arc::new(move |range| dimensions::suppliers(seed, range)),
        ),
        dimension("part", parts, dimensions::part_schema(), Arc::new(move |range| dimensions::parts(seed, range))),
        table(
            "lineorder",
            orders,
            PART_ORDERS,
            orders * 4,
            lineorder::schema(&sizes),
            Arc::new(move |range| lineorder::rows(seed, &sizes, range)),
        ),
    ]
}

/// Whether keys 1 to `count` need 64 bits.
fn is_wide(count: u64) -> bool {
    count > i32::MAX as u64
}

fn key_type(wide: bool) -> DataType {
    if wide { DataType::Int64 } else { DataType::Int32 }
}

/// Keys as an array of [`key_type`].
fn key_array(keys: impl Iterator<Item = u64>, wide: bool) -> ArrayRef {
    if wide {
        Arc::new(Int64Array::from_iter_values(keys.map(|key| key as i64)))
    } else {
        Arc::new(Int32Array::from_iter_values(keys.map(|key| key as i32)))
    }
}

fn ints(values: impl Iterator<Item = i32>) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(values))
}

fn texts<S: AsRef<str>>(values: impl Iterator<Item = S>) -> ArrayRef {
    Arc::new(arrow::array::StringArray::from_iter_values(values))
}
