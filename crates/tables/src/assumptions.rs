//! What a plan takes for granted of the rows of a table: bounds of integers, which make arithmetic need no checks, columns without
//! NULLs, numbers of rows. A plan that is kept is bound to the rows of each statement that runs it, and runs as it is only if
//! these keep what it assumes.
//!
//! Invariant: whoever takes a fact of a table into a plan on which an answer depends states it here. Facts that answers do not
//! depend on are estimates: they may go stale, within [`GROWTH`].

use std::fmt;

use forebay_base::ColumnId;
use forebay_pipeline::interval::Interval;
use forebay_store::TableSnapshot;

/// Estimates hold until a table has so many times the rows that they were made for, or that part of them.
pub const GROWTH: u64 = 2;

/// Tables with fewer rows are as good as any other size below it.
const FEW_ROWS: u64 = 1 << 10;

/// What a plan assumes of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assumptions {
    /// The rows that its estimates are for.
    pub estimated_rows: u64,
    /// There are no more rows than these, where that matters to the answer.
    pub most_rows: Option<u64>,
    /// By column.
    pub columns: Vec<AssumedColumn>,
}

/// What a plan assumes of a column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssumedColumn {
    /// The column.
    pub column: ColumnId,
    /// All integers lie between these, both included.
    pub range: Option<Interval>,
    /// No row is NULL.
    pub is_never_null: bool,
}

/// The most rows that a table of so many may grow to while its plans are kept.
pub fn rows_to_come(rows: u64) -> u64 {
    rows.max(FEW_ROWS).saturating_mul(GROWTH)
}

impl Assumptions {
    /// What does not hold of `table`, as one reads it; `None` where all of it does.
    pub fn breach(&self, table: &TableSnapshot) -> Option<String> {
        let rows = table.rows();
        if rows > rows_to_come(self.estimated_rows) || self.estimated_rows > rows_to_come(rows) {
            return Some(format!("{} has {rows} rows instead of {}", table.name, self.estimated_rows));
        }
        if let Some(most) = self.most_rows.filter(|most| rows > *most) {
            return Some(format!("{} has {rows} rows, more than {most}", table.name));
        }
        // Of no row everything is true.
        let mut columns = self.columns.iter().filter(|_| rows > 0);
        columns
            .find(|assumed| !assumed.holds(table))
            .map(|assumed| format!("{} of {}", assumed.text(table), table.name))
    }

    /// What is assumed, as EXPLAIN VERBOSE shows it.
    pub fn text(&self, table: &TableSnapshot) -> String {
        let most = self.most_rows.map(|rows| format!("at most {rows} rows"));
        let columns = self.columns.iter().map(|assumed| assumed.text(table));
        let all: Vec<String> = most.into_iter().chain(columns).collect();
        if all.is_empty() { "nothing".to_owned() } else { all.join(", ") }
    }
}

impl AssumedColumn {
    fn holds(&self, table: &TableSnapshot) -> bool {
        let Some((column, _)) = table.column_by_id(self.column) else { return false };
        // What is not known may be anything.
        let Some(bounds) = table.bounds(column) else { return false };
        let is_within = |range: Interval| match bounds.integers() {
            Some((low, high)) => range.contains(Interval::new(low, high)),
            None => bounds.nulls == bounds.rows,
        };
        self.range.is_none_or(is_within) && !(self.is_never_null && bounds.nulls > 0)
    }

    fn text(&self, table: &TableSnapshot) -> String {
        let name = table.column_by_id(self.column).map_or("?", |(_, column)| column.name.as_str());
        let range = self.range.map(|range| format!("from {} to {}", range.low, range.high));
        let never_null = self.is_never_null.then(|| "never NULL".to_owned());
        let all: Vec<String> = range.into_iter().chain(never_null).collect();
        format!("{name} {}", all.join(" and "))
    }
}

/// A plan cannot be run on the rows of today: it has to be made anew.
#[derive(Debug)]
pub struct Breach(pub String);

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "what a plan assumed is no longer so: {}", self.0)
    }
}

impl std::error::Error for Breach {}
