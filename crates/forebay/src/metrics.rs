//! Figures of the work of a statement.

use std::time::Duration;

use forebay_sql::Answer;

/// What a statement cost, all measured, none estimated.
#[derive(Debug, Clone, Default)]
pub struct QueryMetrics {
    /// Wall time from the call of [`Session::execute`] to the last batch.
    pub elapsed: Duration,
    /// Time until it was planned; none where its plan was there already.
    pub plan: Duration,
    /// Time that its pipelines took to compile, in all; none where their code was there already.
    pub compile: Duration,
    /// Rows returned or changed.
    pub rows: u64,
    /// Bytes read from disk (not from the cache).
    pub read_bytes: u64,
    /// Bytes of encoded chunks that the scans looked at, from cache or disk.
    pub scanned_bytes: u64,
    /// Bytes of the codes and plain values that the scans touched: of every row that a test looked at, and of the rows of
    /// the other columns that were loaded. What memory must deliver at least.
    pub code_bytes: u64,
    /// Plain (uncompressed, unencoded) bytes of the touched columns of all rows of the scanned tables: the numerator of
    /// effective bandwidth.
    pub plain_bytes: u64,
    /// Chunks of the touched columns.
    pub chunks: u64,
    /// Chunks of the touched columns that were never needed.
    pub chunks_pruned: u64,
    /// Time that workers waited for reads, summed over them.
    pub read_wait: Duration,
    /// Time that workers took to verify and inflate chunks, summed over them.
    pub inflate: Duration,
    /// Time that pipelines were expected to take by what was in memory, as far as enough was known (HPCache §4.1).
    pub expected: Duration,
    /// Time that these pipelines took.
    pub expected_of: Duration,
}

impl QueryMetrics {
    /// Those of an answer so far.
    pub(crate) fn of(answer: &Answer) -> Self {
        let figures = answer.figures();
        Self {
            elapsed: answer.elapsed(),
            plan: answer.plan_time(),
            compile: answer.compile_time(),
            rows: answer.rows(),
            read_bytes: figures.read_bytes,
            scanned_bytes: figures.scanned_bytes,
            code_bytes: figures.code_bytes,
            plain_bytes: figures.plain_bytes,
            chunks: figures.chunks,
            chunks_pruned: figures.chunks_pruned,
            read_wait: Duration::from_nanos(figures.read_ns),
            inflate: Duration::from_nanos(figures.inflate_ns),
            expected: Duration::from_nanos(figures.expected_ns),
            expected_of: Duration::from_nanos(figures.expected_of_ns),
        }
    }
}
