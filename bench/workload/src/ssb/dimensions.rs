//! Customers, suppliers and parts. Row `i` (from 0) has key `i + 1`.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use super::words::{ADDRESS_LETTERS, COLORS, CONTAINERS, NATIONS, REGIONS, SEGMENTS, TYPES};
use super::{ints, is_wide, key_array, key_type, texts};
use crate::random::{RowRandom, Stream};

/// Cities of a nation.
const CITIES: u64 = 10;

/// Characters of a city name before its digit; shorter nations are padded with spaces, longer ones cut.
const CITY_NATION_CHARS: usize = 9;

/// Where a customer or supplier is, and how to reach it.
struct Place {
    address: String,
    city: String,
    nation: &'static str,
    region: &'static str,
    phone: String,
}

impl Place {
    fn draw(random: &mut RowRandom) -> Self {
        let address_chars = random.range(10, 25);
        let address = (0..address_chars).map(|_| random.choose(ADDRESS_LETTERS) as char).collect();
        let nation_number = random.below(NATIONS.len() as u64) as usize;
        let (nation, region) = NATIONS[nation_number];
        let city = format!("{nation:<CITY_NATION_CHARS$.CITY_NATION_CHARS$}{}", random.below(CITIES));
        let phone = format!(
            "{}-{}-{}-{}",
            10 + nation_number,
            random.range(100, 999),
            random.range(100, 999),
            random.range(1000, 9999)
        );
        Self { address, city, nation, region: REGIONS[region], phone }
    }

    /// The columns address, city, nation, region, phone.
    fn columns(places: &[Self]) -> [ArrayRef; 5] {
        [
            texts(places.iter().map(|p| &p.address)),
            texts(places.iter().map(|p| &p.city)),
            texts(places.iter().map(|p| p.nation)),
            texts(places.iter().map(|p| p.region)),
            texts(places.iter().map(|p| &p.phone)),
        ]
    }
}

fn schema(key: (&str, DataType), text_columns: &[&str]) -> SchemaRef {
    let mut fields = vec![Field::new(key.0, key.1, false)];
    fields.extend(text_columns.iter().map(|name| {
        let data_type = if *name == "p_size" { DataType::Int32 } else { DataType::Utf8 };
        Field::new(*name, data_type, false)
    }));
    Arc::new(Schema::new(fields))
}

pub(super) fn customer_schema(customers: u64) -> SchemaRef {
    schema(
        ("c_custkey", key_type(is_wide(customers))),
        &["c_name", "c_address", "c_city", "c_nation", "c_region", "c_phone", "c_mktsegment"],
    )
}

pub(super) fn customers(seed: u64, customers: u64, range: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let keys = || range.clone().map(|row| row + 1);
    let (places, segments): (Vec<_>, Vec<_>) = range
        .clone()
        .map(|row| {
            let mut random = RowRandom::new(seed, Stream::Customer, row);
            (Place::draw(&mut random), random.choose(&SEGMENTS))
        })
        .unzip();
    let mut columns =
        vec![key_array(keys(), is_wide(customers)), texts(keys().map(|key| format!("Customer#{key:09}")))];
    columns.extend(Place::columns(&places));
    columns.push(texts(segments.into_iter()));
    RecordBatch::try_new(customer_schema(customers), columns)
}

pub(super) fn supplier_schema() -> SchemaRef {
    schema(("s_suppkey", DataType::Int32), &["s_name", "s_address", "s_city", "s_nation", "s_region", "s_phone"])
}

pub(super) fn suppliers(seed: u64, range: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let keys = || range.clone().map(|row| row + 1);
    let places: Vec<_> =
        range.clone().map(|row| Place::draw(&mut RowRandom::new(seed, Stream::Supplier, row))).collect();
    let mut columns = vec![key_array(keys(), false), texts(keys().map(|key| format!("Supplier#{key:09}")))];
    columns.extend(Place::columns(&places));
    RecordBatch::try_new(supplier_schema(), columns)
}

struct Part {
    name: String,
    manufacturer: i32,
    category: i32,
    brand: i32,
    color: &'static str,
    kind: String,
    size: i32,
    container: String,
}

impl Part {
    fn draw(random: &mut RowRandom) -> Self {
        let manufacturer = random.range(1, 5);
        let category = manufacturer * 10 + random.range(1, 5);
        let brand = random.range(1, 40);
        let color = random.choose(&COLORS);
        let mut other_color = |taken: &[&str]| {
            loop {
                let drawn = random.choose(&COLORS);
                if !taken.contains(&drawn) {
                    return drawn;
                }
            }
        };
        let first = other_color(&[color]);
        let second = other_color(&[color, first]);
        let kind = format!("{} {} {}", random.choose(&TYPES.0), random.choose(&TYPES.1), random.choose(&TYPES.2));
        let size = random.range(1, 50);
        let container = format!("{} {}", random.choose(&CONTAINERS.0), random.choose(&CONTAINERS.1));
        Self { name: format!("{first} {second}"), manufacturer, category, brand, color, kind, size, container }
    }
}

pub(super) fn part_schema() -> SchemaRef {
    schema(
        ("p_partkey", DataType::Int32),
        &["p_name", "p_mfgr", "p_category", "p_brand1", "p_color", "p_type", "p_size", "p_container"],
    )
}

pub(super) fn parts(seed: u64, range: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let parts: Vec<_> = range.clone().map(|row| Part::draw(&mut RowRandom::new(seed, Stream::Part, row))).collect();
    let columns = vec![
        key_array(range.map(|row| row + 1), false),
        texts(parts.iter().map(|p| &p.name)),
        texts(parts.iter().map(|p| format!("MFGR#{}", p.manufacturer))),
        texts(parts.iter().map(|p| format!("MFGR#{}", p.category))),
        // The number within the category is not padded: brand 1 of category 22 is MFGR#221, brand 21 is MFGR#2221.
        texts(parts.iter().map(|p| format!("MFGR#{}{}", p.category, p.brand))),
        texts(parts.iter().map(|p| p.color)),
        texts(parts.iter().map(|p| &p.kind)),
        ints(parts.iter().map(|p| p.size)),
        texts(parts.iter().map(|p| &p.container)),
    ];
    RecordBatch::try_new(part_schema(), columns)
}
