//! Which statements were run, what they cost, and what they asked of tables: kept across restarts, so that orders and projections
//! can be chosen for what a database is used for.
//!
//! Invariants: no answer depends on it; a record that cannot be read is not there. Must not know: SQL, plans.

mod records;

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_base::{TableId, limits};
use forebay_store::RecordLog;

use crate::facts::{Asked, remember};

/// A statement that was run.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LoggedQuery {
    /// When it began, in microseconds since 1970.
    pub started_us: i64,
    /// How long it took, to its last row.
    pub elapsed_ns: u64,
    /// Its text, or as much as is kept of it.
    pub text: String,
    /// The text is longer.
    pub is_cut: bool,
    /// Rows that it gave or changed.
    pub rows: u64,
    /// Why it failed.
    pub error: Option<String>,
    /// What it read.
    pub figures: LoggedFigures,
    /// What its scans were asked.
    pub asked: Vec<Asked>,
}

/// What a statement read: see the counters of the same names in [`Metrics`](crate::Metrics).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct LoggedFigures {
    pub read_bytes: u64,
    pub scanned_bytes: u64,
    pub plain_bytes: u64,
    pub chunks: u64,
    pub chunks_pruned: u64,
    pub blocks: u64,
    pub blocks_pruned: u64,
}

/// The statements that a database has run.
#[derive(Debug)]
pub struct QueryLog {
    records: RecordLog,
    /// Who began before then was run by another process.
    opened_us: i64,
}

/// Microseconds since 1970.
pub fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

impl LoggedQuery {
    /// Takes as much of a text as is kept.
    pub fn with_text(mut self, text: &str) -> Self {
        self.is_cut = text.len() > limits::LOGGED_TEXT_BYTES;
        let kept = (0..=text.len().min(limits::LOGGED_TEXT_BYTES)).rev().find(|end| text.is_char_boundary(*end));
        text[..kept.unwrap_or(0)].clone_into(&mut self.text);
        self
    }
}

impl QueryLog {
    /// The log of a database that is being opened.
    pub(crate) fn new(records: RecordLog) -> Self {
        Self { records, opened_us: now_us() }
    }

    /// Adds a statement.
    pub fn append(&self, query: &LoggedQuery) {
        self.records.append(&records::to_bytes(query));
    }

    /// All statements that are there, the oldest first.
    pub fn read(&self) -> Vec<LoggedQuery> {
        self.records.read().iter().filter_map(|record| records::from_bytes(record).ok()).collect()
    }

    /// What scans of a table were asked by earlier processes, and then what they were asked by this one, `here`.
    pub(crate) fn with_earlier(&self, here: Vec<Asked>, table: TableId) -> Vec<Asked> {
        let mut all = VecDeque::new();
        let earlier = self.read().into_iter().filter(|query| query.started_us < self.opened_us);
        let asked = earlier.flat_map(|query| query.asked).filter(|asked| asked.table == table);
        asked.chain(here).for_each(|asked| remember(&mut all, asked));
        all.into()
    }
}
