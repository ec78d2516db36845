//! Opening a database directory, and what hangs off it: the current catalog, the writer's turn, segment writers.
//!
//! Invariants: nothing is written to a directory before it is known to be a sound database or empty; at most one process
//! writes, at most one transaction at a time commits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use forebay_base::{ColumnId, Context, DirectoryId, Error, ErrorKind, FactId, PhysicalType, Result, SegmentId};
use forebay_disk::Disk;

use crate::catalog::{Catalog, DEFAULT_SCHEMA, Schema, fold};
use crate::data_directories::{DataDirectories, DataDirectory, DatabaseId, MARKER_PATH, lock_home};
use crate::fact::{FactDefinition, SealedFact};
use crate::head::{HEAD_DRAFT_PATH, HEAD_PATH, Head};
use crate::leftovers::remove_leftovers;
use crate::manifest::{self, MANIFEST_PATH, Manifest};
use crate::record_log::{LOG_OLD_PATH, LOG_PATH, RecordLog};
use crate::rows::{self, Rows};
use crate::side_file::{PLAN_DRAFT_PATH, PLAN_PATH, SideFile};
use crate::striped::StripedWriter;
use crate::transaction::Transaction;
use crate::volume::{FilePlace, LockedDirectory, SEGMENTS_DIRECTORY, Volume, locked};
use crate::writer::SegmentWriter;

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
    pub(crate) inner: Arc<Inner>,
}

/// What clones of a [`Store`] share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Before `volume`, whose lock must outlive the last write.
    pub(crate) written: Mutex<Written>,
    pub(crate) volume: Arc<Volume>,
    mode: OpenMode,
    catalog: RwLock<Arc<Catalog>>,
    /// Id of the next segment or fact.
    pub(crate) next_file: AtomicU64,
    /// Id of the next schema, table, view, macro, sequence or type: transactions beside each other make different ones.
    pub(crate) next_object: AtomicU64,
    /// Whether somebody has the writer's turn.
    writing: Mutex<bool>,
    written_or_dropped: Condvar,
    /// Shared with every [`crate::Held`].
    pub(crate) held: Arc<()>,
}

/// What is on disk besides segments, changed by commits only.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) manifest: Manifest,
    pub(crate) head: Head,
    pub(crate) rows: Rows,
}

impl Store {
    /// Opens the database in the root of `disk`; with [`OpenMode::ReadWrite`] an empty directory becomes one, and files
    /// that a crash left unpublished are removed. `holder` says who we are to those whom the lock turns away.
    ///
    /// # Errors
    /// `NotFound` where there is nothing to read or a data directory is missing, `Input` for a directory of other files,
    /// `Locked`, `Version`, `Corrupt`.
    pub fn open(disk: Arc<dyn Disk>, mode: OpenMode, holder: &str) -> Result<Self> {
        Self::open_with(disk, mode, holder, |_| Ok(()))
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
        let store = Self::open_with(disk, OpenMode::ReadWrite, holder, |directories| {
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
        Ok(store)
    }

    /// Makes data directories of these absolute paths. They take segments, beside those that there are, from when the
    /// database is opened next; `database` is a new random number, for one that has no data directories yet.
    ///
    /// # Errors
    /// `Input` where one of the directories has other files in it or belongs to a database.
    pub fn add_data_directories(&self, database: DatabaseId, paths: &[String], holder: &str) -> Result<()> {
        let mut transaction = self.begin()?;
        let mut directories = DataDirectories::clone(&transaction.catalog().directories);
        if directories.paths.is_empty() {
            directories.database = database;
        }
        let _locks = directories.claim(&*self.volume().disk, paths, holder)?;
        transaction.set_data_directories(directories);
        transaction.commit()
    }

    /// Opens a database whose data directories are where `place` leaves them.
    fn open_with(
        disk: Arc<dyn Disk>,
        mode: OpenMode,
        holder: &str,
        place: impl FnOnce(&mut DataDirectories) -> Result<()>,
    ) -> Result<Self> {
        check_directory(&*disk, mode)?;
        let home = lock_home(disk, mode, holder)?;
        if mode == OpenMode::ReadWrite {
            if !home.disk.exists(HEAD_PATH)? {
                create(&home.disk, DataDirectories::default())?;
            }
            // Also for whoever made the database and failed or was killed just before this.
            home.disk.sync_directory("")?;
        }
        let head = Head::open(&*home.disk, file_mode(mode))?;
        let rows = match mode {
            OpenMode::ReadWrite => manifest::load_durable(&*home.disk)?,
            OpenMode::ReadOnly => manifest::load(&*home.disk)?,
        };
        let root = rows::verify(&rows).context(|| format!("file {MANIFEST_PATH}"))?;
        if root.commit < head.commit() {
            let message = format!("the manifest is of commit {} though {} was the last", root.commit, head.commit());
            return Err(Error::corrupt(message).context(format!("file {MANIFEST_PATH} of {}", home.disk.describe())));
        }
        let mut directories = rows::data_directories(&rows).context(|| format!("file {MANIFEST_PATH}"))?;
        place(&mut directories)?;
        let data = directories.open(&*home.disk, mode, holder)?;
        let volume = Arc::new(Volume::new(home, data));
        let catalog = rows::decode(&rows, &root, &volume).context(|| format!("file {MANIFEST_PATH}"))?;
        if mode == OpenMode::ReadWrite {
            volume.directories().try_for_each(|(id, disk)| remove_leftovers(&**disk, id, &catalog))?;
        }
        let written = Mutex::new(Written { manifest: Manifest::new(Arc::clone(&volume.disk)), head, rows });
        let inner = Inner {
            written,
            volume,
            mode,
            catalog: RwLock::new(Arc::new(catalog)),
            next_file: AtomicU64::new(root.next_file),
            next_object: AtomicU64::new(root.next_object),
            writing: Mutex::new(false),
            written_or_dropped: Condvar::new(),
            held: Arc::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
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
        // The transaction that we waited for may have failed for good.
        self.check_writable()?;
        Ok(Transaction::alone(turn, self.catalog()))
    }

    /// Starts a transaction that sees `catalog`, which is one of this store, and that others do not wait for. What they have committed
    /// since then meets its changes when it commits.
    pub fn begin_on(&self, catalog: Arc<Catalog>) -> Result<Transaction> {
        self.check_writable()?;
        Ok(Transaction::beside_others(Arc::clone(&self.inner), catalog))
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
        WriterTurn::take(&self.inner)
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

impl Inner {
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.catalog.read().unwrap_or_else(PoisonError::into_inner))
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
            writing = inner.written_or_dropped.wait(writing).unwrap_or_else(PoisonError::into_inner);
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

fn file_mode(mode: OpenMode) -> forebay_disk::OpenMode {
    match mode {
        OpenMode::ReadWrite => forebay_disk::OpenMode::Write,
        OpenMode::ReadOnly => forebay_disk::OpenMode::Read,
    }
}

/// Verifies rows and makes the catalog of them.
pub(crate) fn load_catalog(rows: &Rows, volume: &Arc<Volume>) -> Result<(rows::Root, Catalog)> {
    let root = rows::verify(rows)?;
    Ok((root, rows::decode(rows, &root, volume)?))
}

/// An error where there is a database.
fn check_absent(disk: &dyn Disk) -> Result<()> {
    if !disk.exists(HEAD_PATH)? {
        return Ok(());
    }
    let message = format!("there is a database in {} already", disk.describe());
    Err(Error::new(ErrorKind::AlreadyExists, message).hint("Name another directory, or remove that one first"))
}

/// Refuses a directory that is not a database and cannot become one, before anything in it is touched.
fn check_directory(disk: &dyn Disk, mode: OpenMode) -> Result<()> {
    if disk.exists(HEAD_PATH)? {
        return Ok(());
    }
    let segments = format!("{SEGMENTS_DIRECTORY}/");
    let side_files = [LOG_PATH, LOG_OLD_PATH, PLAN_PATH, PLAN_DRAFT_PATH];
    let ours = [LOCK_PATH, MANIFEST_PATH, HEAD_DRAFT_PATH, &segments];
    let names = disk.list("")?;
    let has = |path: &str| names.iter().any(|name| name == path);
    let place = disk.describe();
    if has(MARKER_PATH) {
        let message = format!("{place} is a data directory of a database, not a database: it has a file {MARKER_PATH}");
        return Err(Error::input(message).hint("Name the directory of the database itself"));
    }
    if let Some(foreign) = names.iter().find(|name| !ours.iter().chain(&side_files).any(|known| known == name)) {
        let message = format!("{place} is not a Forebay database: it has no file {HEAD_PATH}, but it has {foreign}");
        return Err(Error::input(message).hint("Name another directory; a new or empty one becomes a database"));
    }
    // A database is made HEAD last. Without HEAD there is nothing to lose, unless HEAD itself was lost.
    let has_segments = has(&segments) && !disk.list(SEGMENTS_DIRECTORY)?.is_empty();
    if has_segments || (has(MANIFEST_PATH) && has_history(disk)?) {
        let message = format!("the file {HEAD_PATH} of database {place} is missing");
        return Err(Error::corrupt(message).hint("Restore it from a backup of the directory"));
    }
    match mode {
        OpenMode::ReadWrite => Ok(()),
        OpenMode::ReadOnly => {
            let message = format!("there is no database at {place}");
            Err(Error::new(ErrorKind::NotFound, message).hint("Open it without read-only to make one"))
        }
    }
}

/// Whether the manifest has seen a commit after the one that made it. One that a crash left half made has not.
fn has_history(disk: &dyn Disk) -> Result<bool> {
    match manifest::load(disk).and_then(|rows| rows::verify(&rows)) {
        Ok(root) => Ok(root.commit > 0),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes an empty database where there is none, or where a crash interrupted this: `HEAD` comes last, and its name is
/// not yet durable.
fn create(disk: &Arc<dyn Disk>, directories: DataDirectories) -> Result<()> {
    for leftover in [MANIFEST_PATH, HEAD_DRAFT_PATH] {
        if disk.exists(leftover)? {
            disk.remove(leftover)?;
        }
    }
    disk.create_directory(SEGMENTS_DIRECTORY)?;
    let main = Schema { id: 0, name: DEFAULT_SCHEMA.to_owned() };
    let mut catalog = Catalog { next_object: 1, directories: Arc::new(directories), ..Catalog::default() };
    catalog.schemas.insert(fold(&main.name), Arc::new(main));
    let mut manifest = Manifest::new(Arc::clone(disk));
    manifest.create(&rows::encode(&catalog, 1))?;
    // Closed, so that whoever opens it next finds nothing to repair.
    drop(manifest);
    disk.sync_directory("")?;
    Head::create(&**disk, catalog.commit)
}
