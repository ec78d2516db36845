//! Where the chunks of a scan came from, column by column, as EXPLAIN ANALYZE tells it.
//!
//! Must not know: where it stands in a plan.

use forebay_base::units::format_seconds;
use forebay_engine::{ColumnTraffic, Traffic};
use forebay_store::Table;

/// Of each column which share came from where, and what the pipeline was expected to take; `None` where nothing came.
pub(crate) fn sentence(traffic: &Traffic, table: &Table, expected_ns: Option<u64>) -> Option<String> {
    let name = |id| table.columns.iter().find(|column| column.id == id).map(|column| column.name.to_string());
    let named = traffic.iter().filter_map(|(key, column)| Some(format!("{} {}", name(key.column)?, shares(column))));
    let named: Vec<String> = named.collect();
    if named.is_empty() {
        return None;
    }
    let expected = expected_ns.map(|ns| format!(" (expected with that: {})", format_seconds(ns as f64 / 1e9)));
    Some(format!("columns: {}{}", named.join("; "), expected.unwrap_or_default()))
}

/// `40 % in memory, 20 % stored in memory, 40 % from disk`, without what is nothing.
fn shares(column: &ColumnTraffic) -> String {
    let names = ["in memory", "stored in memory", "from disk"];
    let parts = column.shares().into_iter().zip(names).filter(|(share, _)| *share > 0.0);
    // What is something is at least 1 %.
    let percent = |share: f64| (share * 100.0).round().max(1.0);
    parts.map(|(share, name)| format!("{:.0} % {name}", percent(share))).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use forebay_engine::traffic::Arrived;

    use super::*;

    #[test]
    fn shares_that_are_nothing_are_left_out() {
        let arrived = |inflated_bytes| Arrived { chunks: 1, stored_bytes: 1, inflated_bytes };
        let (inflated, stored) = (arrived(400), arrived(1));
        let all = ColumnTraffic { inflated, stored, disk: arrived(599), inflate_ns: 0 };
        assert_eq!(shares(&all), "40 % in memory, 1 % stored in memory, 60 % from disk");
        let warm = ColumnTraffic { inflated, ..ColumnTraffic::default() };
        assert_eq!(shares(&warm), "100 % in memory");
    }
}
