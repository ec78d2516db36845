//! The public API: open a database, make a session, run SQL, read Arrow batches and true figures of the work done.
//!
//! Invariants: the one facade; programs use nothing below it. Must not know: terminals, wire protocols.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

pub use arrow;
pub use forebay_base::{Error, ErrorKind, Position, Result, units};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;

/// How to open a database.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Refuse every change; several processes may hold a database read-only.
    pub read_only: bool,
    /// Memory budget in bytes; by default three quarters of the machine's memory.
    pub memory_bytes: Option<u64>,
    /// Worker threads; by default one per core.
    pub threads: Option<usize>,
}

/// An open database. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {}

impl Database {
    /// Opens the database directory at `path`, or makes it.
    pub fn open(_path: &Path, _options: &Options) -> Result<Self> {
        Err(Error::unsupported("not there yet"))
    }

    /// A database that lives as long as this handle.
    pub fn in_memory(_options: &Options) -> Result<Self> {
        Err(Error::unsupported("not there yet"))
    }

    /// A new session with default settings.
    pub fn session(&self) -> Session {
        Session {}
    }
}

/// Settings and the running statement of one user.
#[derive(Debug)]
pub struct Session {}

/// One parsed statement with its source text.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The statement's own text.
    pub text: String,
}

/// Cancels whatever its session runs; usable from a signal handler thread.
#[derive(Debug, Clone)]
pub struct Canceller {}

impl Canceller {
    /// The running statement ends with [`ErrorKind::Cancelled`]; the session stays usable.
    pub fn cancel(&self) {}
}

/// How far the running statement is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What is being done, for example `loading lineorder`.
    pub activity: String,
    /// 0 to 1.
    pub fraction: f64,
}

/// Names that complete what a user types.
#[derive(Debug, Clone, Default)]
pub struct Names {
    /// Tables and views.
    pub tables: Vec<String>,
    /// Columns of all tables.
    pub columns: Vec<String>,
    /// Functions.
    pub functions: Vec<String>,
}

impl Session {
    /// Splits and parses a script. The error of a syntax error carries its [`Position`] in `sql`.
    pub fn statements(&self, _sql: &str) -> Result<Vec<Statement>> {
        Err(Error::unsupported("not there yet"))
    }

    /// Runs one statement. Rows come from [`QueryResult::next_batch`] while the query runs. Positions in errors count
    /// in [`Statement::text`].
    pub fn execute(&self, _statement: &Statement) -> Result<QueryResult> {
        Err(Error::unsupported("not there yet"))
    }

    /// Whether `sql` ends outside of strings, comments and parentheses, with a semicolon: what a prompt needs to know.
    pub fn is_complete(_sql: &str) -> bool {
        true
    }

    /// A handle that cancels this session's running statement.
    pub fn canceller(&self) -> Canceller {
        Canceller {}
    }

    /// How far the running statement is; `None` where that is unknown or nothing runs. Callable from another thread
    /// through [`Session::watcher`].
    pub fn watcher(&self) -> Watcher {
        Watcher {}
    }

    /// Names for completion.
    pub fn names(&self) -> Names {
        Names::default()
    }
}

/// Watches the running statement of a session from another thread.
#[derive(Debug, Clone)]
pub struct Watcher {}

impl Watcher {
    /// How far the running statement is; `None` where that is unknown or nothing runs.
    pub fn progress(&self) -> Option<Progress> {
        None
    }
}

/// What kind of result a statement has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResultKind {
    /// Rows, read with [`QueryResult::next_batch`].
    Rows,
    /// A change of this many rows (INSERT, COPY, CREATE TABLE AS).
    Changed(u64),
    /// Done, nothing to count; the text says what (`CREATE TABLE`).
    Done(String),
}

/// A running or finished statement.
#[derive(Debug)]
pub struct QueryResult {}

impl QueryResult {
    /// What kind of result this is.
    pub fn kind(&self) -> &ResultKind {
        &ResultKind::Rows
    }

    /// Columns of the rows.
    pub fn schema(&self) -> SchemaRef {
        SchemaRef::new(arrow::datatypes::Schema::empty())
    }

    /// The next rows, `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        Ok(None)
    }

    /// Figures of the work done so far; final after the last batch.
    pub fn metrics(&self) -> QueryMetrics {
        QueryMetrics::default()
    }
}

/// What a statement cost, all measured, none estimated.
#[derive(Debug, Clone, Default)]
pub struct QueryMetrics {
    /// Wall time from the call of [`Session::execute`] to the last batch.
    pub elapsed: Duration,
    /// Rows returned or changed.
    pub rows: u64,
    /// Bytes read from disk (not from the cache).
    pub read_bytes: u64,
    /// Bytes of encoded chunks that the scans looked at, from cache or disk.
    pub scanned_bytes: u64,
    /// Plain (uncompressed, unencoded) bytes of the touched columns of all rows of the scanned tables: the numerator of
    /// effective bandwidth.
    pub plain_bytes: u64,
    /// Chunks of the touched columns.
    pub chunks: u64,
    /// Chunks of the touched columns that were never needed.
    pub chunks_pruned: u64,
}
