//! Statements on their way into the query log: there when their last row was read, or when they failed.

use std::sync::Arc;
use std::time::Instant;

use datafusion::execution::SessionState;
use forebay_base::Error;
use forebay_engine::Engine;
use forebay_engine::query_log::{LoggedFigures, LoggedQuery, now_us};

use crate::settings::LogsQueries;
use crate::statement::StatementContext;

/// A statement that has begun.
#[derive(Debug)]
pub struct Logged {
    engine: Arc<Engine>,
    started: Instant,
    query: LoggedQuery,
}

impl Logged {
    /// A statement that begins; `None` where the session has its statements left out. EXECUTE is what it runs, which comes by itself.
    pub fn of(engine: &Arc<Engine>, state: &SessionState, text: &str, started: Instant) -> Option<Self> {
        let text = text.trim();
        let is_execute = text.split_whitespace().next().is_some_and(|first| first.eq_ignore_ascii_case("execute"));
        if is_execute || !LogsQueries::of(state.config()) {
            return None;
        }
        let query = LoggedQuery { started_us: now_us(), ..LoggedQuery::default() }.with_text(text);
        Some(Self { engine: Arc::clone(engine), started, query })
    }

    /// Takes note of a statement that failed: `statement` is what it did, if it was begun.
    pub fn failed(self, statement: Option<&StatementContext>, error: &Error) {
        match statement.filter(|statement| statement.started == self.started) {
            Some(statement) => self.end(statement, 0, Some(error)),
            None => self.end_after(0, Some(error)),
        }
    }

    /// Takes note of a statement that has ended.
    pub fn end(mut self, statement: &StatementContext, rows: u64, error: Option<&Error>) {
        let figures = statement.figures();
        self.query.figures = LoggedFigures {
            read_bytes: figures.read_bytes,
            scanned_bytes: figures.scanned_bytes,
            plain_bytes: figures.plain_bytes,
            chunks: figures.chunks,
            chunks_pruned: figures.chunks_pruned,
            blocks: figures.blocks,
            blocks_pruned: figures.blocks_pruned,
        };
        self.query.asked = statement.asked();
        self.end_after(rows, error);
    }

    fn end_after(mut self, rows: u64, error: Option<&Error>) {
        self.query.elapsed_ns = self.started.elapsed().as_nanos() as u64;
        self.query.rows = rows;
        self.query.error = error.map(ToString::to_string);
        self.engine.query_log().append(&self.query);
    }
}
