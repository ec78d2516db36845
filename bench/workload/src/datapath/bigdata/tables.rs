//! The two tables that queries 1 and 2 read: pages with their ranks, and visits of them. Few pages have high ranks, few
//! visitors make most of the visits.
//!
//! Invariant: every value is a function of seed and row number, the same on every machine.

use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

use arrow::array::{ArrayRef, Date32Array, Float64Array, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use arrow::error::ArrowError;

use crate::random::{RowRandom, Stream, scaled};
use crate::table_source::{MakeRows, PART_ROWS, RangeTable, TableSource};
use crate::wide::{agent, letters, rank, url};

/// Visits at scale factor 1: about the 1.2 GB that HippogriffDB takes.
const VISITS: f64 = 6_000_000.0;

/// Pages for each visit, as in the benchmark (18 million of 155 million).
const PAGES_PER_VISIT: f64 = 18.0 / 155.0;

/// 2000-01-01 in days since 1970-01-01, and the days that visits are spread over.
const FIRST_DAY: i32 = 10_957;
const DAYS: u64 = 4_383;

const COUNTRIES: [&str; 16] =
    ["USA", "CHN", "IND", "BRA", "DEU", "JPN", "RUS", "GBR", "FRA", "ITA", "ESP", "MEX", "KOR", "CAN", "AUS", "EGY"];

const LANGUAGES: [&str; 8] = ["EN", "ZH", "ES", "DE", "PT", "FR", "RU", "AR"];

/// Rows of `uservisits`.
pub(super) fn visits(scale_factor: f64) -> u64 {
    ((VISITS * scale_factor).round() as u64).max(1)
}

/// Rows of `rankings`.
pub(super) fn pages(scale_factor: f64) -> u64 {
    ((VISITS * scale_factor * PAGES_PER_VISIT).round() as u64).max(1)
}

/// Both tables.
pub(super) fn all(scale_factor: f64, seed: u64) -> [Box<dyn TableSource>; 2] {
    let (pages, visits) = (pages(scale_factor), visits(scale_factor));
    let table = |name, schema: SchemaRef, rows, make_rows: Arc<MakeRows>| -> Box<dyn TableSource> {
        Box::new(RangeTable { name, schema, units: rows, part_units: PART_ROWS, expected_rows: rows, make_rows })
    };
    let rankings = table("rankings", rankings_schema(), pages, Arc::new(move |rows| rankings(seed, rows)));
    let uservisits =
        table("uservisits", visits_schema(), visits, Arc::new(move |rows| uservisits(seed, (pages, visits), rows)));
    [rankings, uservisits]
}

fn schema(columns: &[(&str, DataType)]) -> SchemaRef {
    let field = |(name, data_type): &(&str, DataType)| Field::new(*name, data_type.clone(), false);
    Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()))
}

fn rankings_schema() -> SchemaRef {
    schema(&[("page_url", DataType::Utf8), ("page_rank", DataType::Int32), ("avg_duration", DataType::Int32)])
}

fn visits_schema() -> SchemaRef {
    schema(&[
        ("source_ip", DataType::Utf8),
        ("dest_url", DataType::Utf8),
        ("visit_date", DataType::Date32),
        ("ad_revenue", DataType::Float64),
        ("user_agent", DataType::Utf8),
        ("country_code", DataType::Utf8),
        ("language_code", DataType::Utf8),
        ("search_word", DataType::Utf8),
        ("duration", DataType::Int32),
    ])
}

fn page(seed: u64, number: u64) -> RowRandom {
    RowRandom::new(seed, Stream::Ranking, number)
}

/// A rank of which (10 / x)^(4/3) of the pages have more than x: roots are exact on every machine, other powers are not.
fn page_rank(number: u64) -> i32 {
    let share = ((number >> 11) + 1) as f64 / (1u64 << 53) as f64;
    let root = share.sqrt();
    (10.0 / (root * root.sqrt())).min(f64::from(i32::MAX)) as i32
}

fn texts(rows: &[RowRandom], write: impl Fn(&RowRandom, &mut String)) -> ArrayRef {
    let text = |random: &RowRandom| {
        let mut text = String::new();
        write(random, &mut text);
        text
    };
    Arc::new(StringArray::from_iter_values(rows.iter().map(text)))
}

fn ints(rows: &[RowRandom], value: impl Fn(&RowRandom) -> i32) -> ArrayRef {
    Arc::new(Int32Array::from_iter_values(rows.iter().map(value)))
}

fn rankings(seed: u64, rows: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let pages: Vec<RowRandom> = rows.map(|row| page(seed, row)).collect();
    let columns = vec![
        texts(&pages, url),
        ints(&pages, |page| page_rank(page.at(0))),
        ints(&pages, |page| 1 + scaled(page.at(1), 100) as i32),
    ];
    RecordBatch::try_new(rankings_schema(), columns)
}

/// An address of four numbers.
fn address(visitor: &RowRandom, out: &mut String) {
    let part = |place| scaled(visitor.at(place), 255) + 1;
    write!(out, "{}.{}.{}.{}", part(0), part(1), part(2), part(3)).expect("memory takes text");
}

fn uservisits(seed: u64, (pages, visits): (u64, u64), rows: Range<u64>) -> Result<RecordBatch, ArrowError> {
    let rows: Vec<RowRandom> = rows.map(|row| RowRandom::new(seed, Stream::Visit, row)).collect();
    let (page_levels, visit_levels) = (pages.max(2).ilog2(), visits.max(2).ilog2());
    // Half of the levels, so that nobody makes a large share of all visits.
    let visitor =
        |row: &RowRandom| RowRandom::new(seed, Stream::Visitor, rank(row.at(0), visit_levels / 2..visit_levels));
    let visited = |row: &RowRandom| page(seed, rank(row.at(1), 0..page_levels).min(pages) - 1);
    let country = |visitor: &RowRandom| COUNTRIES[(rank(visitor.at(10), 0..4) - 1) as usize];
    let columns: Vec<ArrayRef> = vec![
        texts(&rows, |row, out| address(&visitor(row), out)),
        texts(&rows, |row, out| url(&visited(row), out)),
        Arc::new(Date32Array::from_iter_values(rows.iter().map(|row| FIRST_DAY + scaled(row.at(2), DAYS) as i32))),
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| scaled(row.at(3), 1_000_000) as f64 / 1e6))),
        texts(&rows, |row, out| agent(&visitor(row), out)),
        texts(&rows, |row, out| out.push_str(country(&visitor(row)))),
        texts(&rows, |row, out| {
            let visitor = visitor(row);
            let language = LANGUAGES[(rank(visitor.at(11), 0..3) - 1) as usize];
            write!(out, "{}-{language}", country(&visitor)).expect("memory takes text");
        }),
        texts(&rows, |row, out| {
            let word = RowRandom::new(seed, Stream::Phrase, rank(row.at(4), 0..12));
            letters(word.at(0), 4 + scaled(word.at(1), 8) as u32, out);
        }),
        ints(&rows, |row| 1 + scaled(row.at(5), 10) as i32),
    ];
    RecordBatch::try_new(visits_schema(), columns)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[test]
    fn ranks_fall_off_by_a_power() {
        let batch = rankings(42, 0..100_000).expect("rows");
        let ranks = batch.column(1).as_primitive::<Int32Type>();
        let above = |least: i32| ranks.values().iter().filter(|rank| **rank > least).count();
        assert!((85_000..91_000).contains(&above(10)), "{}", above(10));
        assert!((3_800..5_400).contains(&above(100)), "{}", above(100));
        assert!((120..320).contains(&above(1000)), "{}", above(1000));
        assert!(ranks.values().iter().all(|rank| *rank >= 10));
        assert_eq!([page_rank(0), page_rank(u64::MAX)], [i32::MAX, 10]);
    }

    #[test]
    fn visits_are_skewed_and_do_not_depend_on_ranges() {
        let sizes = (2_000, 50_000);
        let whole = uservisits(42, sizes, 0..50_000).expect("rows");
        assert_eq!(whole.slice(1_234, 66), uservisits(42, sizes, 1_234..1_300).expect("rows"));
        let mut counts: HashMap<&str, u32> = HashMap::new();
        for address in whole.column(0).as_string::<i32>().iter().flatten() {
            assert!((7..=15).contains(&address.len()), "{address}");
            *counts.entry(address).or_default() += 1;
        }
        assert!((5_000..30_000).contains(&counts.len()), "{}", counts.len());
        assert!(counts.values().max().is_some_and(|most| (20..200).contains(most)));
        let named = whole.column(5).as_string::<i32>().iter().flatten().filter(|country| *country == "USA");
        assert!(named.count() > 8_000);
    }
}
