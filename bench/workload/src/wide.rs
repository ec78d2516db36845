//! The wide table: one row per page view, 100 columns, as web analytics keeps them (the kind of table of ClickBench).
//!
//! What makes such a table hard is kept: few users, pages and phrases make most of the rows, and most of them make few;
//! texts are long and mostly different, or mostly empty; many columns are constant or nearly so; some are NULL; columns of
//! one user or one page go together; time grows with the row, but not strictly. Every value is a function of seed, column
//! and row number, in integers, so any thread can make any range on any machine.

mod columns;
mod text;
mod values;

use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::{Field, Schema, SchemaRef};

use crate::random::{RowRandom, Stream, scaled};
use crate::table_source::{PART_ROWS, RangeTable, TableSource};
use columns::COLUMNS;
pub(crate) use text::{agent, letters, url};

/// Rows at scale factor 1.
pub(crate) const ROWS: f64 = 1_000_000.0;

/// Seconds that the table covers, from [`FIRST_SECOND`]: 31 days.
const SECONDS: u64 = 31 * 86_400;

/// 2013-07-01 00:00:00, in seconds since 1970-01-01.
const FIRST_SECOND: i64 = 1_372_636_800;

/// Rows come at most so many seconds after their turn.
const LATENESS_SECONDS: u64 = 600;

/// Places of a row's numbers that are no columns.
const USER_PLACE: u64 = 1_000;
const PAGE_PLACE: u64 = 1_001;
const REFERER_PLACE: u64 = 1_002;
const LATENESS_PLACE: u64 = 1_003;

/// The table at this scale factor.
pub(crate) fn table(scale_factor: f64, seed: u64) -> Box<dyn TableSource> {
    let rows = ((ROWS * scale_factor).round() as u64).max(1);
    let schema = schema();
    let make_schema = Arc::clone(&schema);
    Box::new(RangeTable {
        name: "hits",
        schema,
        units: rows,
        part_units: PART_ROWS,
        expected_rows: rows,
        make_rows: Arc::new(move |range| values::rows(&make_schema, &views(seed, rows, range))),
    })
}

fn schema() -> SchemaRef {
    let field = |column: &columns::Column| Field::new(column.name, column.kind.data_type(), column.nulls > 0);
    Arc::new(Schema::new(COLUMNS.iter().map(field).collect::<Vec<_>>()))
}

/// What a row's columns are made of.
struct View {
    /// Numbers of its own.
    own: RowRandom,
    /// Those of its user, equal in all rows of the user.
    user: RowRandom,
    /// Those of its page.
    page: RowRandom,
    /// Those of the page that it came from.
    referer: RowRandom,
    /// Seconds since 1970-01-01.
    second: i64,
}

/// The rows of `range` of a table of so many rows.
fn views(seed: u64, rows: u64, range: Range<u64>) -> Vec<View> {
    // Most users come several times; half of all views are of pages that are seen a few times at most.
    let most = rows.max(2).ilog2();
    let (users, pages) = (most.saturating_sub(3).max(1), most.max(1));
    let view = |row: u64| {
        let own = RowRandom::new(seed, Stream::Hit, row);
        let user = rank(own.at(USER_PLACE), users / 2..users);
        let page = rank(own.at(PAGE_PLACE), 0..pages);
        let referer = rank(own.at(REFERER_PLACE), 0..pages);
        let turn = (u128::from(row) * u128::from(SECONDS - LATENESS_SECONDS) / u128::from(rows)) as u64;
        let second = FIRST_SECOND + (turn + scaled(own.at(LATENESS_PLACE), LATENESS_SECONDS)) as i64;
        View {
            user: RowRandom::new(seed, Stream::User, user),
            page: RowRandom::new(seed, Stream::Page, page),
            referer: RowRandom::new(seed, Stream::Page, referer),
            own,
            second,
        }
    };
    range.map(view).collect()
}

/// A rank from 2^`levels.start` on, by Zipf's law in steps: every doubling of ranks is drawn as often as any other, and
/// the ranks of one doubling alike.
pub(crate) fn rank(number: u64, levels: Range<u32>) -> u64 {
    let level = levels.start + scaled(number, u64::from(levels.end - levels.start).max(1)) as u32;
    // The low half is as good as new: the level took the high bits.
    let within = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20;
    (1 << level) + within % (1 << level)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use arrow::array::{Array, AsArray, RecordBatch};
    use arrow::datatypes::{Int32Type, Int64Type, TimestampMicrosecondType};

    use super::*;

    fn rows(count: u64) -> RecordBatch {
        values::rows(&schema(), &views(42, count, 0..count)).expect("rows")
    }

    fn counts<'a>(batch: &'a RecordBatch, name: &str) -> HashMap<&'a str, u32> {
        let mut counts = HashMap::new();
        for value in batch.column_by_name(name).expect("a column").as_string::<i32>().iter().flatten() {
            *counts.entry(value).or_default() += 1;
        }
        counts
    }

    #[test]
    fn there_are_100_columns_with_names_of_their_own() {
        let names: std::collections::BTreeSet<_> = COLUMNS.iter().map(|column| column.name).collect();
        assert_eq!((COLUMNS.len(), names.len()), (100, 100));
    }

    #[test]
    fn a_range_has_the_rows_of_the_whole() {
        let whole = rows(5_000);
        let part = values::rows(&schema(), &views(42, 5_000, 1_234..1_300)).expect("rows");
        assert_eq!(whole.slice(1_234, 66), part);
    }

    #[test]
    fn texts_are_skewed_long_and_often_empty() {
        let batch = rows(100_000);
        let urls = counts(&batch, "url");
        assert!((15_000..60_000).contains(&urls.len()), "{}", urls.len());
        let most = urls.values().max().expect("rows");
        assert!((3_000..12_000).contains(most), "{most}");
        let bytes: usize = urls.keys().map(|url| url.len()).sum::<usize>() / urls.len();
        assert!((40..120).contains(&bytes), "{bytes}");
        let phrases = counts(&batch, "search_phrase");
        assert!((75_000..85_000).contains(&phrases[""]), "{}", phrases[""]);
        assert!((4_000..15_000).contains(&phrases.len()), "{}", phrases.len());
        let google = urls.iter().filter(|(url, _)| url.contains("google")).map(|(_, rows)| rows).sum::<u32>();
        assert!((20..5_000).contains(&google), "{google}");
    }

    #[test]
    fn columns_of_a_user_go_together_and_time_grows() {
        let batch = rows(20_000);
        let users = batch.column_by_name("user_id").expect("a column").as_primitive::<Int64Type>();
        let regions = batch.column_by_name("region_id").expect("a column").as_primitive::<Int32Type>();
        let mut region_of = HashMap::new();
        for (user, region) in users.values().iter().zip(regions.values()) {
            assert_eq!(region_of.entry(user).or_insert(region), &region);
        }
        assert!((500..6_000).contains(&region_of.len()), "{}", region_of.len());
        let times = batch.column_by_name("event_time").expect("a column").as_primitive::<TimestampMicrosecondType>();
        assert!(times.values().windows(1_000).all(|window| window[0] < window[999]));
        assert!(times.values().windows(2).any(|pair| pair[0] > pair[1]), "not strictly");
        let nullable = batch.columns().iter().filter(|column| column.null_count() > 0).count();
        assert!(nullable >= 8, "{nullable}");
    }
}
