//! The public API: open a database, make a session, run SQL, read Arrow batches and true figures of the work done.
//!
//! ```
//! use forebay::{Database, Options, Params, Statement};
//!
//! # fn main() -> forebay::Result<()> {
//! let database = Database::in_memory(&Options { threads: Some(1), ..Options::default() })?;
//! let session = database.session();
//! for statement in session.statements("CREATE TABLE t (k INTEGER, v VARCHAR); INSERT INTO t VALUES (1, 'one'), (2, 'two')")? {
//!     session.execute(&statement)?;
//! }
//! let prepared = session.prepare("SELECT v FROM t WHERE k = $1")?;
//! assert_eq!(prepared.columns().expect("a query").field(0).name(), "v");
//! let mut result = session.execute_prepared(&prepared, &Params::new().push(2))?;
//! while let Some(batch) = result.next_batch()? {
//!     assert_eq!(batch.num_rows(), 1);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Calls wait for what they ask for, on the calling thread: from a task of an asynchronous program, too, where
//! `spawn_blocking` keeps other tasks going.
//!
//! Invariants: the one facade; programs use nothing below it. Must not know: terminals, wire protocols.
#![forbid(unsafe_code)]

mod cores;
pub mod directories;
pub mod keyed;
pub mod machine;
mod machine_memory;
mod metrics;
mod params;
pub mod process_memory;
mod rates;
mod resources;
mod rows;
pub mod storage;
pub mod timeline;

use std::num::NonZeroU64;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub use arrow;
pub use cores::Cores;
pub use forebay_base::Durability;
pub use forebay_base::{Error, ErrorKind, Position, Result, units};
pub use forebay_disk::{begin_without_huge_pages, end_without_huge_pages};
pub use forebay_render as render;
pub use forebay_sql::{Parameter, Prepared, ResultKind, hide_caught as hide_caught_panics};
pub use metrics::QueryMetrics;
pub use params::{Params, Value};
pub use rows::{Decimal, FromValue, Rows};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use forebay_base::Budget;
use forebay_disk::{Disk, IoMode, LocalDisk, MemoryDisk, ThrottledDisk};
use forebay_engine::{Engine, KeptRates, MemoryShares, ReadPath};
use forebay_sql::{Shared, Workers};
use forebay_store::{OpenMode, Store};

use crate::resources::Resources;

/// How to open a database.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Refuse every change; several processes may hold a database read-only.
    pub read_only: bool,
    /// Memory budget in bytes; by default three quarters of the machine's memory.
    pub memory_bytes: Option<u64>,
    /// Worker threads; by default one per core.
    pub threads: Option<usize>,
    /// Bytes that are read from disk in a second, at most: to measure how a slower drive would do. By default as many as
    /// the drive gives. Not for a database in memory.
    pub read_bytes_per_second: Option<NonZeroU64>,
    /// The process does nothing beside this database: what it has of memory is measured while it runs, and counts against the budget
    /// as a whole. By default the budget knows only what the database asks for: chunks, joins, groups, sorts, results and loads,
    /// which is almost all of it.
    pub owns_process: bool,
}

impl Options {
    fn resources(&self) -> Result<Resources> {
        Resources::of(self.memory_bytes, self.threads, self.owns_process)
    }
}

/// An open database. Clones share it.
#[derive(Debug, Clone)]
pub struct Database {
    shared: Shared,
    /// Tables that transactions over rows by key know.
    keyed: Arc<forebay_keyed::KnownTables>,
}

/// What one column takes, in all its rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnStorage {
    /// Schema of the table.
    pub schema: String,
    /// Table.
    pub table: String,
    /// Column.
    pub column: String,
    /// Rows.
    pub rows: u64,
    /// Bytes of the plain values: their width, or the strings and four bytes each.
    pub plain_bytes: u64,
    /// Bytes of the encoded blocks, as a warm scan reads them.
    pub encoded_bytes: u64,
    /// Bytes of the chunks on disk.
    pub stored_bytes: u64,
    /// Chunks.
    pub chunks: u64,
}

/// What it takes to read the chunks of queries and do nothing else with them, and to inflate them and nothing else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadFloors {
    /// Chunks.
    pub chunks: u64,
    /// Their bytes on disk.
    pub bytes: u64,
    /// Time to read them past the page cache, with as many reads in flight as scans have.
    pub read: Duration,
    /// Time to inflate them from memory, on all threads.
    pub inflate: Duration,
}

impl Database {
    /// Opens the database directory at `path`, or makes it.
    pub fn open(path: &Path, options: &Options) -> Result<Self> {
        let resources = options.resources()?;
        let exists = path.try_exists();
        let exists = exists.map_err(|error| Error::io(format_args!("look for {}", path.display()), &error))?;
        if !exists && options.read_only {
            let message = format!("database {} does not exist", path.display());
            return Err(Error::new(ErrorKind::NotFound, message).hint("Open it without read-only to make it"));
        }
        directories::check_directory(path)?;
        let disk = LocalDisk::open(path, IoMode::Auto)?;
        if !exists {
            disk.create_directory("")?;
        }
        // Readers may have no right to write where the database lies.
        let temporary = if options.read_only { temporary_folder()? } else { Arc::new(disk.clone()) };
        let outside = Arc::new(disk.clone());
        let disk: Arc<dyn Disk> = match options.read_bytes_per_second {
            Some(bytes_per_second) => Arc::new(ThrottledDisk::new(Arc::new(disk), bytes_per_second)),
            None => Arc::new(disk),
        };
        // A drive that is slowed down is not the machine's.
        let kept_rates = match options.read_bytes_per_second {
            Some(_) => KeptRates::default(),
            None => rates::kept_rates(Some(path)),
        };
        Self::on_disk(disk, (temporary, outside), options.read_only, resources, kept_rates)
    }

    /// A database that lives as long as this handle.
    pub fn in_memory(options: &Options) -> Result<Self> {
        let resources = options.resources()?;
        let kept_rates = rates::kept_rates(None);
        let outside = temporary_folder()?;
        Self::on_disk(Arc::new(MemoryDisk::new()), (Arc::clone(&outside), outside), false, resources, kept_rates)
    }

    /// Opens the database that lies on `disk`, or makes it: one in memory, say, or a [`forebay_disk::SimulatedDisk`] that loses power.
    /// `read_bytes_per_second` of the options is not for it.
    pub fn open_on(disk: Arc<dyn Disk>, options: &Options) -> Result<Self> {
        let resources = options.resources()?;
        let outside = Arc::clone(&disk);
        let temporary = temporary_folder()?;
        Self::on_disk(disk, (temporary, outside), options.read_only, resources, KeptRates::default())
    }

    fn on_disk(
        disk: Arc<dyn Disk>,
        (temporary, outside): (Arc<dyn Disk>, Arc<dyn Disk>),
        read_only: bool,
        resources: Resources,
        kept_rates: KeptRates,
    ) -> Result<Self> {
        let Resources { memory_bytes, threads, owns_process } = resources;
        let mode = if read_only { OpenMode::ReadOnly } else { OpenMode::ReadWrite };
        let holder = format!("process {}", std::process::id());
        let store = Store::open(disk, mode, &holder)?;
        if !read_only {
            forebay_sql::drop_temporary(&store)?;
        }
        let memory_bytes = usize::try_from(memory_bytes).unwrap_or(usize::MAX);
        let runtime = resources::worker_threads(threads)?;
        let shares = MemoryShares::new(Budget::new(memory_bytes));
        let engine = Arc::new(Engine::new(store, shares, temporary).keeping_rates(kept_rates).reaching(outside));
        let environment = forebay_sql::environment(&engine)?;
        if owns_process {
            process_memory::watch(engine.process_counter());
        }
        let (runtime, plans, background) =
            (Arc::new(Workers::new(runtime)), Arc::default(), Arc::new(engine.background()));
        let (sessions, merges) = (Arc::default(), Arc::default());
        let shared = Shared { engine, runtime, environment, threads, plans, sessions, merges, background };
        Ok(Self { shared, keyed: Arc::default() })
    }

    /// A new session with default settings.
    pub fn session(&self) -> Session {
        Session { inner: forebay_sql::Session::new(self.shared.clone()) }
    }

    /// A new transaction over single rows by their keys.
    ///
    /// # Errors
    /// `Locked` in a database that is open read-only.
    pub fn transaction(&self) -> Result<keyed::Transaction> {
        keyed::Transaction::begin(&self.shared.engine, &self.keyed)
    }

    /// What was cut off the redo log when the database was opened, which a power loss may leave behind the last commit; `None` where all of
    /// it was whole.
    pub fn cut_when_opened(&self) -> Option<String> {
        let recovery = self.shared.engine.store().recovery();
        let part = |cut: &forebay_store::CutTail| format!("{} bytes at {} of {}", cut.bytes, cut.offset, cut.file);
        let parts: Vec<String> = recovery.cut.iter().map(part).collect();
        let (parts, last) = (parts.join(", "), recovery.last_commit);
        let tell = || {
            format!(
                "the redo log ended with {parts} that are no whole commit, and are left out; the last commit is number {last}"
            )
        };
        (!parts.is_empty()).then(tell)
    }

    /// Forgets every chunk in memory, on devices too, so that the next query reads from disk.
    pub fn clear_cache(&self) {
        self.shared.engine.accelerators().clear_chunks();
        self.shared.engine.cache().clear();
    }

    /// Records from now on which chunks queries read from disk, for [`Database::read_floors`].
    pub fn record_reads(&self) {
        self.shared.engine.record_reads();
    }

    /// Reads and inflates once more, and by themselves, the chunks that were read since [`Database::record_reads`], which
    /// ends. The cache stays as it is.
    pub fn read_floors(&self) -> Result<ReadFloors> {
        let engine = &self.shared.engine;
        let reads = engine.recorded_reads();
        let (read, bytes) = reads.read(engine, ReadPath::Direct)?;
        let inflate = reads.inflate(engine, ReadPath::Direct, self.shared.threads)?;
        Ok(ReadFloors { chunks: reads.len() as u64, bytes, read, inflate })
    }

    /// Takes a device for the GPU of this database: how tests have one that fails as it is told.
    pub fn install_gpu(&self, device: Arc<dyn machine::Device>) -> Result<()> {
        self.shared.engine.accelerators().install(device)
    }

    /// Worker threads.
    pub fn threads(&self) -> usize {
        self.shared.threads
    }

    /// What every column of every table takes.
    pub fn storage(&self) -> Result<Vec<ColumnStorage>> {
        let mut all = Vec::new();
        for table in self.shared.engine.store().catalog().tables() {
            for column in &table.columns {
                let mut storage = ColumnStorage {
                    schema: table.schema.clone(),
                    table: table.name.clone(),
                    column: column.name.clone(),
                    rows: table.rows(),
                    plain_bytes: 0,
                    encoded_bytes: 0,
                    stored_bytes: 0,
                    chunks: 0,
                };
                for segment in &table.segments {
                    let Some(index) = segment.column_index(column.id) else { continue };
                    for group in segment.groups()? {
                        let layout = &group.columns[index];
                        storage.plain_bytes += layout.plain_bytes;
                        storage.encoded_bytes += layout.chunks.iter().map(|chunk| chunk.encoded_bytes).sum::<u64>();
                        storage.stored_bytes += layout.chunks.iter().map(|chunk| chunk.stored_bytes).sum::<u64>();
                        storage.chunks += layout.chunks.len() as u64;
                    }
                }
                all.push(storage);
            }
        }
        Ok(all)
    }
}

/// The system's folder for temporary files.
fn temporary_folder() -> Result<Arc<dyn Disk>> {
    Ok(Arc::new(LocalDisk::open(&std::env::temp_dir(), IoMode::Auto)?))
}

/// Settings and the running statement of one user.
#[derive(Debug)]
pub struct Session {
    inner: forebay_sql::Session,
}

/// One statement with its source text.
#[derive(Debug, Clone)]
pub struct Statement {
    /// The statement's own text.
    pub text: String,
}

/// Cancels whatever its session runs; usable from another thread.
#[derive(Debug, Clone)]
pub struct Canceller(forebay_sql::Canceller);

impl Canceller {
    /// The running statement ends with [`ErrorKind::Cancelled`]; the session stays usable.
    pub fn cancel(&self) {
        self.0.cancel();
    }
}

/// How far the running statement is.
#[derive(Debug, Clone)]
pub struct Progress {
    /// What is being done, for example `loading`.
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
    /// Splits a script into its statements. The error of an unreadable script carries its [`Position`] in `sql`.
    pub fn statements(&self, sql: &str) -> Result<Vec<Statement>> {
        Ok(forebay_sql::split(sql)?.into_iter().map(|text| Statement { text }).collect())
    }

    /// Runs one statement. Rows come from [`QueryResult::next_batch`] while the query runs. Positions in errors count
    /// in [`Statement::text`].
    pub fn execute(&self, statement: &Statement) -> Result<QueryResult> {
        Ok(QueryResult { answer: self.inner.execute(&statement.text)? })
    }

    /// Prepares one statement, which may have parameters: `?` or `$1`, or names as `$day`. What it is made of is known before it
    /// runs: [`Prepared::columns`], [`Prepared::parameters`]. It can be run as often as wanted, by this session or another
    /// one of the database, also after commits and after its tables were made anew.
    pub fn prepare(&self, sql: &str) -> Result<Prepared> {
        self.inner.prepare(sql)
    }

    /// Runs a prepared statement with a value for each of its parameters. Positions in errors count in the statement with the
    /// values in their places.
    ///
    /// Errors: too few values, too many, unknown names; and whatever [`Session::execute`] reports.
    pub fn execute_prepared(&self, prepared: &Prepared, params: &Params) -> Result<QueryResult> {
        let answer = self.inner.execute_prepared(prepared, params.values(), || params.arguments())?;
        Ok(QueryResult { answer })
    }

    /// Whether `sql` ends outside of strings, comments and parentheses, with a semicolon: what a prompt needs to know.
    pub fn is_complete(sql: &str) -> bool {
        forebay_sql::is_complete(sql)
    }

    /// When this session's commits are acknowledged: `SET durability`.
    pub fn durability(&self) -> Durability {
        self.inner.durability()
    }

    /// A handle that cancels this session's running statement.
    pub fn canceller(&self) -> Canceller {
        Canceller(self.inner.canceller())
    }

    /// A handle that watches this session's running statement from another thread.
    pub fn watcher(&self) -> Watcher {
        Watcher(self.inner.canceller())
    }

    /// Has statements from now on note when they read, inflated and computed, or no longer.
    pub fn record_timelines(&self, records: bool) {
        self.inner.record_timelines(records);
    }

    /// When the statement that was begun last did what; `None` where that was not noted.
    pub fn timeline(&self) -> Option<timeline::Timeline> {
        self.inner.timeline()
    }

    /// Names for completion.
    pub fn names(&self) -> Names {
        let (tables, columns, functions) = self.inner.names();
        Names { tables, columns, functions }
    }
}

/// Watches the running statement of a session from another thread.
#[derive(Debug, Clone)]
pub struct Watcher(forebay_sql::Canceller);

impl Watcher {
    /// How far the running statement is; `None` where that is unknown or nothing runs.
    pub fn progress(&self) -> Option<Progress> {
        self.0.progress().map(|(activity, fraction)| Progress { activity, fraction })
    }
}

/// A running or finished statement.
#[derive(Debug)]
pub struct QueryResult {
    answer: forebay_sql::Answer,
}

impl QueryResult {
    /// What kind of result this is.
    pub fn kind(&self) -> &ResultKind {
        self.answer.kind()
    }

    /// Columns of the rows.
    pub fn schema(&self) -> SchemaRef {
        self.answer.schema()
    }

    /// The next rows, `None` at the end.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        self.answer.next_batch()
    }

    /// The next rows, to be read value by value; `None` at the end. Of a statement that found its rows by key no arrays are made.
    pub fn next_rows(&mut self) -> Result<Option<Rows>> {
        Ok(self.answer.next_rows()?.map(Rows::new))
    }

    /// Figures of the work done so far; final after the last batch.
    pub fn metrics(&self) -> QueryMetrics {
        QueryMetrics::of(&self.answer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_options_make_nothing() {
        let place = std::env::temp_dir().join(format!("forebay-refused-{}", std::process::id()));
        for options in [
            Options { memory_bytes: Some(1 << 20), ..Options::default() },
            Options { threads: Some(2000), ..Options::default() },
        ] {
            assert_eq!(Database::open(&place, &options).expect_err("refused").kind(), ErrorKind::Input);
            assert!(!place.exists());
        }
    }

    #[test]
    fn temporary_tables_are_of_their_session() {
        let folder = tempfile::tempdir().expect("a folder");
        let place = folder.path().join("db");
        let open = || Database::open(&place, &Options::default()).expect("open");
        let rows = |session: &Session, sql: &str| -> Result<Option<RecordBatch>> {
            session.execute(&session.statements(sql)?[0])?.next_batch()
        };
        let schemas = |database: &Database| database.shared.engine.store().catalog().schemas().count();
        let made = "CREATE TEMP TABLE t AS SELECT 1 AS a";
        let database = open();
        let (one, other) = (database.session(), database.session());
        rows(&one, "CREATE TABLE t AS SELECT 'lasting' AS b").expect("made");
        rows(&other, "SELECT b FROM t").expect("the one that is no session's");
        rows(&one, made).expect("made");
        rows(&one, "SELECT a FROM t").expect("its own");
        rows(&other, "SELECT b FROM t").expect("the one that is no session's, still");
        rows(&other, "SELECT a FROM t").expect_err("another session's");
        rows(&other, made).expect("of the same name");
        let told = rows(&one, "SELECT * FROM information_schema.tables").expect("told").expect("rows");
        assert_eq!((told.num_rows(), schemas(&database)), (2, 3));
        drop(other);
        assert_eq!(schemas(&database), 2, "gone with its session");
        drop(one);
        // What a process leaves that is killed.
        let mut transaction = database.shared.engine.store().begin().expect("begun");
        transaction.create_schema("pg_temp_9").expect("made");
        transaction.commit().expect("committed");
        drop(database);
        assert_eq!(schemas(&open()), 1, "gone when the database is opened");
    }
}
