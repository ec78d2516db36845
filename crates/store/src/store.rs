//! Opening a database directory, and what hangs off it: the current catalog, the writer's turn, segment writers.
//!
//! Invariants: nothing is written to a directory before it is known to be a sound database or empty; at most one process
//! writes, at most one transaction at a time commits.

mod making;
mod opening;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use forebay_base::budget::Client;
use forebay_base::{ColumnId, DirectoryId, Error, ErrorKind, FactId, PhysicalType, Result, SegmentId};
use forebay_disk::Disk;

use crate::catalog::Catalog;
use crate::checkpoint::checkpoint;
use crate::commit_log::{Line, Written};
use crate::data_directories::{DataDirectories, DataDirectory, DatabaseId, lock_home};
use crate::fact::{FactDefinition, SealedFact};
use crate::head::HEAD_PATH;
use crate::hot::HotTables;
use crate::log_limits::LogLimits;
use crate::maintenance::Maintenance;
use crate::manifest::Checkpointed;
use crate::record_log::RecordLog;
use crate::recovery::Recovery;
#[cfg(test)]
use crate::rows;
use crate::side_file::SideFile;
use crate::signal::Signal;
use crate::striped::StripedWriter;
use crate::syncer::Syncer;
use crate::transaction::Transaction;
use crate::volume::{FilePlace, LockedDirectory, Volume, locked};
use crate::writer::SegmentWriter;
use making::{check_absent, check_directory, create};

/// The file that is locked while the database is open.
pub(crate) const LOCK_PATH: &str = "LOCK";

/// What may be done with an open database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Read and write; nobody else has it open.
    ReadWrite,
    /// Read, beside other readers.
    ReadOnly,
}

/// An open database. Clones share it; the last one gives up the lock, unless a segment of it is still held.
#[derive(Debug, Clone)]
pub struct Store {
    /// `None` of one that the store uses itself. Before `inner`, which nobody else must have when it goes.
    _keeper: Option<Arc<Keeper>>,
    pub(crate) inner: Arc<Inner>,
}

/// What clones of a [`Store`] share that others were given. Where the last one goes, what is done beside them comes to its end before.
#[derive(Debug)]
struct Keeper {
    inner: Arc<Inner>,
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.inner.maintenance.stop();
    }
}

/// What clones of a [`Store`] share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Before `volume`, whose lock must outlive the last write.
    pub(crate) written: Arc<Mutex<Written>>,
    /// What the last checkpoint has written. Locked after the writer's turn, before `written`; by one checkpoint until its end.
    pub(crate) checkpointed: Mutex<Checkpointed>,
    pub(crate) maintenance: Maintenance,
    pub(crate) volume: Arc<Volume>,
    mode: OpenMode,
    /// Hot rows.
    pub(crate) hot: HotTables,
    /// Commits that are not written yet.
    pub(crate) line: Line,
    /// Makes those durable that were acknowledged before they were.
    pub(crate) syncer: Syncer,
    /// Bytes of the redo log.
    pub(crate) log_bytes: AtomicU64,
    recovery: Recovery,
    /// The last durable one.
    catalog: RwLock<Arc<Catalog>>,
    /// Id of the next segment or fact.
    pub(crate) next_file: AtomicU64,
    /// Id of the next schema, table, view, macro, sequence or type: transactions beside each other make different ones.
    pub(crate) next_object: AtomicU64,
    /// Whether somebody has the writer's turn.
    writing: Mutex<bool>,
    written_or_dropped: Signal,
    /// Shared with every [`crate::Held`].
    pub(crate) held: Arc<()>,
}

impl Store {
    pub(super) fn kept(inner: Arc<Inner>) -> Self {
        Self { _keeper: Some(Arc::new(Keeper { inner: Arc::clone(&inner) })), inner }
    }

    /// Has hot rows take their memory from `client`, as much as that may have. Above half of it they become segments, and beyond it new rows do
    /// at once.
    pub fn limit_hot_rows(&self, client: Client) {
        self.inner.hot.memory.take_from(client);
        self.inner.hot.measure();
    }

    /// One for the store's own use.
    pub(crate) fn internal(inner: &Arc<Inner>) -> Self {
        Self { _keeper: None, inner: Arc::clone(inner) }
    }

    /// Opens the database in the root of `disk`; with [`OpenMode::ReadWrite`] an empty directory becomes one, and files
    /// that a crash left unpublished are removed. `holder` says who we are to those whom the lock turns away.
    ///
    /// # Errors
    /// `NotFound` where there is nothing to read or a data directory is missing, `Input` for a directory of other files,
    /// `Locked`, `Version`, `Corrupt`.
    pub fn open(disk: Arc<dyn Disk>, mode: OpenMode, holder: &str) -> Result<Self> {
        Self::open_limited(disk, mode, holder, LogLimits::default())
    }

    /// The same with other limits of the redo log.
    ///
    /// # Errors
    /// As [`Store::open`].
    pub fn open_limited(disk: Arc<dyn Disk>, mode: OpenMode, holder: &str, limits: LogLimits) -> Result<Self> {
        Self::open_with(disk, mode, holder, limits, |_| Ok(()))
    }

    /// Whether there is a database in the root of `disk`.
    pub fn is_at(disk: &dyn Disk) -> Result<bool> {
        disk.exists(HEAD_PATH)
    }

    /// Makes an empty database in the root of `disk`, whose segments lie in data directories at these absolute paths; in
    /// the root as well where there are none. `database` is a new random number. It is opened with [`OpenMode::ReadWrite`].
    ///
    /// # Errors
    /// `AlreadyExists` where there is a database, `Input` where one of the directories has other files in it or belongs to
    /// a database. Nothing is written then. Where making it fails later, it can be made again.
    pub fn create(disk: Arc<dyn Disk>, database: DatabaseId, paths: &[String], holder: &str) -> Result<Self> {
        check_absent(&*disk)?;
        check_directory(&*disk, OpenMode::ReadWrite)?;
        let home = lock_home(disk, OpenMode::ReadWrite, holder)?;
        // Nobody else made it meanwhile.
        check_absent(&*home.disk)?;
        let mut directories = DataDirectories { database, paths: Vec::new() };
        let locks = directories.claim(&*home.disk, paths, holder)?;
        create(&home.disk, directories)?;
        home.disk.sync_directory("")?;
        let LockedDirectory { disk, lock } = home;
        drop((lock, locks));
        Self::open(disk, OpenMode::ReadWrite, holder)
    }

    /// Opens the database in the root of `disk` for writing, with some data directories at other absolute paths than before,
    /// and keeps that.
    ///
    /// # Errors
    /// As [`Store::open`], and `Input` for a directory that the database does not have.
    pub fn open_moved(disk: Arc<dyn Disk>, moved: &[(DirectoryId, String)], holder: &str) -> Result<Self> {
        let mut now = DataDirectories::default();
        let limits = LogLimits::default();
        let store = Self::open_with(disk, OpenMode::ReadWrite, holder, limits, |directories| {
            let count = directories.paths.len();
            for (id, path) in moved {
                let Some(place) = (id.0 as usize).checked_sub(1).and_then(|at| directories.paths.get_mut(at)) else {
                    let message =
                        format!("the database has no data directory {id}: they are numbered from 1 to {count}");
                    return Err(match count {
                        0 => Error::input("the database has no data directories: its tables lie in its own one"),
                        _ => Error::input(message),
                    });
                };
                place.clone_from(path);
            }
            now = directories.clone();
            Ok(())
        })?;
        let mut transaction = store.begin()?;
        transaction.set_data_directories(now);
        transaction.commit()?;
        store.checkpoint()?;
        Ok(store)
    }

    /// Makes data directories of these absolute paths. They take segments, beside those that there are, from when the
    /// database is opened next; `database` is a new random number, for one that has no data directories yet.
    ///
    /// # Errors
    /// `Input` where one of the directories has other files in it or belongs to a database.
    pub fn add_data_directories(&self, database: DatabaseId, paths: &[String], holder: &str) -> Result<()> {
        let mut transaction = self.begin()?;
        let mut directories = DataDirectories::clone(&transaction.catalog().objects.directories);
        if directories.paths.is_empty() {
            directories.database = database;
        }
        let _locks = directories.claim(&*self.volume().disk, paths, holder)?;
        transaction.set_data_directories(directories);
        transaction.commit()?;
        self.checkpoint()
    }

    /// What the redo log had when the database was opened.
    pub fn recovery(&self) -> &Recovery {
        &self.inner.recovery
    }

    /// The catalog as of the last commit. It never changes, and its segments stay readable while it is held.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog()
    }

    /// Starts a transaction on the catalog of now that nothing comes in between; waits while there is another such one (so a thread must
    /// not begin a second one itself), and commits of others wait for it.
    pub fn begin(&self) -> Result<Transaction> {
        self.check_writable()?;
        let turn = WriterTurn::take(&self.inner);
        if !self.inner.line.hot_changed_since(self.inner.catalog().commit).is_empty() {
            // It sees hot rows of commits that are visible, and is to see those of all others.
            self.wait_for_commits();
        }
        // The transaction that we waited for may have failed for good.
        self.check_writable()?;
        Ok(Transaction::alone(turn))
    }

    /// Starts a transaction that sees `catalog`, which is one of this store, and that others do not wait for. What they have committed
    /// since then meets its changes when it commits.
    pub fn begin_on(&self, catalog: Arc<Catalog>) -> Result<Transaction> {
        self.check_writable()?;
        Ok(Transaction::beside_others(Arc::clone(&self.inner), catalog))
    }

    /// Waits until what others have committed so far is durable, or has failed: until then it may be in the way of a transaction that does
    /// not see it.
    pub fn wait_for_commits(&self) {
        let (newest, failures) = self.inner.line.newest();
        let _durable_or_failed = self.inner.line.wait_for(&self.inner, newest.commit_number(), failures);
    }

    /// Starts a segment file with these columns, in the directory with the fewest bytes. Independent of transactions; several may write at once.
    pub fn segment_writer(&self, columns: Vec<(ColumnId, PhysicalType)>) -> Result<SegmentWriter> {
        let directory = self.emptiest_first()[0];
        self.segment_writer_in(directory, columns)
    }

    /// Starts segment files with these columns, in as many directories as there are, and in `most` at most.
    pub fn striped_writer(&self, columns: Vec<(ColumnId, PhysicalType)>, most: usize) -> Result<StripedWriter> {
        self.check_writable()?;
        let mut directories = self.emptiest_first();
        directories.truncate(most.max(1));
        Ok(StripedWriter::new(self.clone(), columns, directories))
    }

    pub(crate) fn segment_writer_in(
        &self,
        directory: DirectoryId,
        columns: Vec<(ColumnId, PhysicalType)>,
    ) -> Result<SegmentWriter> {
        self.check_writable()?;
        let id = SegmentId(self.inner.next_file.fetch_add(1, Ordering::Relaxed));
        SegmentWriter::create(Arc::clone(&self.inner.volume), FilePlace::of_segment(directory, id), columns)
    }

    /// Writes a fact file in the directory with the fewest bytes that has room for it. Independent of transactions.
    ///
    /// # Errors
    /// `OutOfSpace` if no directory has room. `Internal` where the definition names no tables or a column twice, and `Version`
    /// where this program could not read it again: it would refuse the database.
    pub fn write_fact(&self, definition: FactDefinition, content: &[u8]) -> Result<SealedFact> {
        self.check_writable()?;
        let volume = &self.inner.volume;
        let write = |directory: &DirectoryId| {
            let id = FactId(self.inner.next_file.fetch_add(1, Ordering::Relaxed));
            SealedFact::write(volume, FilePlace::of_fact(*directory, id), definition.clone(), content)
        };
        let directories = self.emptiest_first();
        let is_full =
            |written: &Result<SealedFact>| written.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfSpace);
        let mut written = write(&directories[0]);
        for directory in &directories[1..] {
            if !is_full(&written) {
                break;
            }
            written = write(directory);
        }
        written
    }

    /// All directories of the database with what the current catalog has in them, the database's own first.
    pub fn directories(&self) -> Vec<DataDirectory> {
        let catalog = self.catalog();
        let place = |(id, disk): (DirectoryId, &Arc<dyn Disk>)| {
            let inside = || catalog.segments().filter(|segment| segment.data_directory() == id);
            DataDirectory {
                id,
                path: disk.describe(),
                segments: inside().count() as u64,
                file_bytes: inside().map(|segment| segment.file_bytes()).sum(),
            }
        };
        self.inner.volume.directories().map(place).collect()
    }

    /// Bytes that may still be written to the directories of new segments; `None` where that is not known of one of them.
    pub fn free_bytes(&self) -> Option<u64> {
        let volume = &self.inner.volume;
        let free = |id: DirectoryId| volume.directory(id)?.free_bytes();
        volume.segment_directories().map(free).sum()
    }

    /// Where new segments go, for messages: their directories, separated by commas.
    pub fn describe_segments(&self) -> String {
        let volume = &self.inner.volume;
        let places: Vec<String> =
            volume.segment_directories().filter_map(|id| Some(volume.directory(id)?.describe())).collect();
        places.join(", ")
    }

    /// The directories for new segments, that with the fewest bytes of this database first.
    fn emptiest_first(&self) -> Vec<DirectoryId> {
        let catalog = self.catalog();
        let bytes = |id: DirectoryId| -> u64 {
            catalog
                .segments()
                .filter(|segment| segment.data_directory() == id)
                .map(|segment| segment.file_bytes())
                .sum()
        };
        let mut directories: Vec<DirectoryId> = self.inner.volume.segment_directories().collect();
        if directories.len() > 1 {
            directories.sort_by_cached_key(|id| (bytes(*id), *id));
        }
        directories
    }

    /// The log of this database. There must not be two at once.
    pub fn record_log(&self) -> RecordLog {
        RecordLog::new(Arc::clone(&self.inner.volume), !self.is_read_only())
    }

    /// The small file of this database whose content may be lost.
    pub fn side_file(&self) -> SideFile {
        SideFile::new(&self.inner.volume, !self.is_read_only())
    }

    /// Whether the database was opened read-only.
    pub fn is_read_only(&self) -> bool {
        self.inner.mode == OpenMode::ReadOnly
    }

    /// Where the database is, for messages.
    pub fn path_description(&self) -> String {
        self.inner.volume.disk.describe()
    }

    pub(crate) fn volume(&self) -> &Arc<Volume> {
        &self.inner.volume
    }

    /// Takes the writer's turn without a transaction, so that the files stand still.
    pub(crate) fn pause_writers(&self) -> WriterTurn {
        let turn = WriterTurn::take(&self.inner);
        // A checkpoint that is being made beside others comes to its end, and none begins.
        drop(locked(&self.inner.checkpointed));
        turn
    }

    /// An error where nothing may be written: the database is read-only, or a write has failed for good.
    pub fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            let message = format!("database {} is open read-only", self.path_description());
            return Err(Error::new(ErrorKind::Locked, message).hint("Open it without read-only to change it"));
        }
        self.inner.volume.check_writable()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.syncer.stop();
        if self.mode == OpenMode::ReadWrite {
            // The next open replays what this cannot write.
            let _still_in_the_log = checkpoint(self);
        }
    }
}

impl Inner {
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// A catalog that is about to be visible, with hot rows as they are now, of which some have changed or none.
    pub(crate) fn with_hot_rows(&self, catalog: &Arc<Catalog>, has_changed: bool) -> Arc<Catalog> {
        if !has_changed && self.hot.is_unused() {
            return Arc::clone(catalog);
        }
        let mut visible = Catalog::clone(catalog);
        self.hot.publish(&mut visible, &self.catalog(), has_changed);
        Arc::new(visible)
    }

    pub(crate) fn set_catalog(&self, catalog: Arc<Catalog>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
    }
}

/// The right to be the one writer, until dropped.
#[derive(Debug)]
pub(crate) struct WriterTurn {
    pub(crate) inner: Arc<Inner>,
}

impl WriterTurn {
    pub(crate) fn take(inner: &Arc<Inner>) -> Self {
        let mut writing = locked(&inner.writing);
        while *writing {
            writing = inner.written_or_dropped.wait(writing);
        }
        *writing = true;
        Self { inner: Arc::clone(inner) }
    }
}

impl Drop for WriterTurn {
    fn drop(&mut self) {
        *locked(&self.inner.writing) = false;
        self.inner.written_or_dropped.notify_one();
    }
}

/// Verifies rows and makes the catalog of them.
#[cfg(test)]
pub(crate) fn load_catalog(rows: &rows::Rows, volume: &Arc<Volume>) -> Result<(rows::Root, Catalog)> {
    let root = rows::verify(rows)?;
    Ok((root, rows::decode(rows, &root, volume)?))
}
