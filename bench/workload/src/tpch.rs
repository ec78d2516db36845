//! TPC-H tables from the `tpchgen` crate, whose rows are those of the official dbgen, cut into parts of about half a
//! million rows.
//!
//! Decimals are DECIMAL(15,2), dates DATE, keys 64-bit. There is no seed: the specification fixes the data.

use arrow::datatypes::SchemaRef;
use arrow::error::ArrowError;
use forebay::{Error, Result};
use tpchgen::generators::{
    CustomerGenerator, LineItemGenerator, NationGenerator, OrderGenerator, PartGenerator, PartSuppGenerator,
    RegionGenerator, SupplierGenerator,
};
use tpchgen_arrow::{
    CustomerArrow, LineItemArrow, NationArrow, OrderArrow, PartArrow, PartSuppArrow, RegionArrow, SupplierArrow,
};

use crate::table_source::{Batches, TableSource};

/// Rows of a part, about; a part becomes one row group.
const PART_ROWS: f64 = 524_288.0;

#[derive(Clone, Copy)]
enum Table {
    Region,
    Nation,
    Supplier,
    Customer,
    Part,
    PartSupp,
    Orders,
    LineItem,
}

struct Source {
    table: Table,
    scale_factor: f64,
    parts: i32,
}

/// The eight tables, referenced ones first.
pub(crate) fn tables(scale_factor: f64) -> Result<Vec<Box<dyn TableSource>>> {
    use Table::{Customer, LineItem, Nation, Orders, Part, PartSupp, Region, Supplier};
    [Region, Nation, Supplier, Customer, Part, PartSupp, Orders, LineItem]
        .into_iter()
        .map(|table| {
            let parts = (rows(table, scale_factor) / PART_ROWS).ceil().max(1.0);
            if parts > f64::from(i32::MAX) {
                return Err(Error::input(format!("scale factor {scale_factor} is too large")));
            }
            let source: Box<dyn TableSource> = Box::new(Source { table, scale_factor, parts: parts as i32 });
            Ok(source)
        })
        .collect()
}

/// Rows of `table` (TPC-H 4.2.5.1); of lineitem the expected number.
fn rows(table: Table, scale_factor: f64) -> f64 {
    match table {
        Table::Region => 5.0,
        Table::Nation => 25.0,
        Table::Supplier => (10_000.0 * scale_factor).floor(),
        Table::Customer => (150_000.0 * scale_factor).floor(),
        Table::Part => (200_000.0 * scale_factor).floor(),
        Table::PartSupp => 4.0 * (200_000.0 * scale_factor).floor(),
        Table::Orders => (1_500_000.0 * scale_factor).floor(),
        Table::LineItem => 6_001_215.0 * scale_factor,
    }
}

fn batches<I>(batches: I) -> Batches
where
    I: Iterator<Item = std::result::Result<arrow::array::RecordBatch, ArrowError>> + 'static,
{
    Box::new(batches.map(|batch| batch.map_err(|e| Error::internal(format!("cannot generate TPC-H rows: {e}")))))
}

impl TableSource for Source {
    fn name(&self) -> &'static str {
        match self.table {
            Table::Region => "region",
            Table::Nation => "nation",
            Table::Supplier => "supplier",
            Table::Customer => "customer",
            Table::Part => "part",
            Table::PartSupp => "partsupp",
            Table::Orders => "orders",
            Table::LineItem => "lineitem",
        }
    }

    fn schema(&self) -> SchemaRef {
        match self.table {
            Table::Region => RegionArrow::schema_ref(),
            Table::Nation => NationArrow::schema_ref(),
            Table::Supplier => SupplierArrow::schema_ref(),
            Table::Customer => CustomerArrow::schema_ref(),
            Table::Part => PartArrow::schema_ref(),
            Table::PartSupp => PartSuppArrow::schema_ref(),
            Table::Orders => OrderArrow::schema_ref(),
            Table::LineItem => LineItemArrow::schema_ref(),
        }
    }

    fn parts(&self) -> usize {
        self.parts as usize
    }

    fn expected_rows(&self) -> u64 {
        rows(self.table, self.scale_factor) as u64
    }

    fn part(&self, index: usize) -> Batches {
        let (scale_factor, part, parts) = (self.scale_factor, index as i32 + 1, self.parts);
        match self.table {
            Table::Region => batches(RegionArrow::new(RegionGenerator::new(scale_factor, part, parts))),
            Table::Nation => batches(NationArrow::new(NationGenerator::new(scale_factor, part, parts))),
            Table::Supplier => batches(SupplierArrow::new(SupplierGenerator::new(scale_factor, part, parts))),
            Table::Customer => batches(CustomerArrow::new(CustomerGenerator::new(scale_factor, part, parts))),
            Table::Part => batches(PartArrow::new(PartGenerator::new(scale_factor, part, parts))),
            Table::PartSupp => batches(PartSuppArrow::new(PartSuppGenerator::new(scale_factor, part, parts))),
            Table::Orders => batches(OrderArrow::new(OrderGenerator::new(scale_factor, part, parts))),
            Table::LineItem => batches(LineItemArrow::new(LineItemGenerator::new(scale_factor, part, parts))),
        }
    }
}
