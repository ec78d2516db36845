//! Opening a database directory, and what hangs off it: the current catalog, the writer's turn, segment writers.
//!
//! Invariants: nothing is written to a directory before it is known to be a sound database or empty; at most one process
//! writes, at most one transaction at a time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use forebay_base::{ColumnId, Context, Error, ErrorKind, PhysicalType, Result, SegmentId};
use forebay_disk::{Disk, LockKind};

use crate::catalog::{Catalog, DEFAULT_SCHEMA, Schema, fold};
use crate::head::{HEAD_DRAFT_PATH, HEAD_PATH, Head};
use crate::manifest::{self, MANIFEST_PATH, Manifest};
use crate::rows::{self, Rows};
use crate::transaction::Transaction;
use crate::volume::{SEGMENTS_DIRECTORY, Volume, locked, segment_path};
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
    inner: Arc<Inner>,
}

/// What clones of a [`Store`] share.
#[derive(Debug)]
pub(crate) struct Inner {
    /// Before `volume`, whose lock must outlive the last write.
    pub(crate) written: Mutex<Written>,
    pub(crate) volume: Arc<Volume>,
    mode: OpenMode,
    catalog: RwLock<Arc<Catalog>>,
    pub(crate) next_segment: AtomicU64,
    /// Whether a transaction is open.
    writing: Mutex<bool>,
    written_or_dropped: Condvar,
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
    /// `NotFound` where there is nothing to read, `Input` for a directory of other files, `Locked`, `Version`,
    /// `Corrupt`.
    pub fn open(disk: Arc<dyn Disk>, mode: OpenMode, holder: &str) -> Result<Self> {
        check_directory(&*disk, mode)?;
        let kind = match mode {
            OpenMode::ReadWrite => LockKind::Exclusive,
            OpenMode::ReadOnly => LockKind::Shared,
        };
        let lock = disk.lock(LOCK_PATH, kind, holder)?;
        let volume = Arc::new(Volume::new(disk, lock));
        let disk = &*volume.disk;
        if mode == OpenMode::ReadWrite {
            if !disk.exists(HEAD_PATH)? {
                create(&volume)?;
            }
            // Also for whoever made the database and failed or was killed just before this.
            disk.sync_directory("")?;
        }
        let head = Head::open(disk, file_mode(mode))?;
        let rows = match mode {
            OpenMode::ReadWrite => manifest::load_durable(disk)?,
            OpenMode::ReadOnly => manifest::load(disk)?,
        };
        let (root, catalog) = load_catalog(&rows, &volume).context(|| format!("file {MANIFEST_PATH}"))?;
        if root.commit < head.commit() {
            let message = format!("the manifest is of commit {} though {} was the last", root.commit, head.commit());
            return Err(Error::corrupt(message).context(format!("file {MANIFEST_PATH} of {}", disk.describe())));
        }
        if mode == OpenMode::ReadWrite {
            remove_leftovers(disk, &catalog)?;
        }
        let written = Mutex::new(Written { manifest: Manifest::new(Arc::clone(&volume.disk)), head, rows });
        let inner = Inner {
            written,
            volume,
            mode,
            catalog: RwLock::new(Arc::new(catalog)),
            next_segment: AtomicU64::new(root.next_segment),
            writing: Mutex::new(false),
            written_or_dropped: Condvar::new(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// The catalog as of the last commit. It never changes, and its segments stay readable while it is held.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.inner.catalog()
    }

    /// Starts a transaction; waits while there is another one (so a thread must not begin a second one itself).
    pub fn begin(&self) -> Result<Transaction> {
        self.check_writable()?;
        let turn = WriterTurn::take(&self.inner);
        // The transaction that we waited for may have failed for good.
        self.check_writable()?;
        Ok(Transaction::new(turn, self.catalog()))
    }

    /// Starts a segment file with these columns. Independent of transactions; several may write at once.
    pub fn segment_writer(&self, columns: Vec<(ColumnId, PhysicalType)>) -> Result<SegmentWriter> {
        self.check_writable()?;
        let id = SegmentId(self.inner.next_segment.fetch_add(1, Ordering::Relaxed));
        SegmentWriter::create(Arc::clone(&self.inner.volume), id, columns)
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

    fn check_writable(&self) -> Result<()> {
        if self.is_read_only() {
            let message = format!("database {} is open read-only", self.path_description());
            return Err(Error::new(ErrorKind::Locked, message).hint("Open it without read-only to change it"));
        }
        self.inner.volume.check_writable()
    }
}

impl Inner {
    fn catalog(&self) -> Arc<Catalog> {
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
    fn take(inner: &Arc<Inner>) -> Self {
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

/// Refuses a directory that is not a database and cannot become one, before anything in it is touched.
fn check_directory(disk: &dyn Disk, mode: OpenMode) -> Result<()> {
    if disk.exists(HEAD_PATH)? {
        return Ok(());
    }
    let segments = format!("{SEGMENTS_DIRECTORY}/");
    let ours = [LOCK_PATH, MANIFEST_PATH, HEAD_DRAFT_PATH, &segments];
    let names = disk.list("")?;
    let has = |path: &str| names.iter().any(|name| name == path);
    let place = disk.describe();
    if let Some(foreign) = names.iter().find(|name| !ours.contains(&name.as_str())) {
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
fn create(volume: &Volume) -> Result<()> {
    let disk = &*volume.disk;
    for leftover in [MANIFEST_PATH, HEAD_DRAFT_PATH] {
        if disk.exists(leftover)? {
            disk.remove(leftover)?;
        }
    }
    disk.create_directory(SEGMENTS_DIRECTORY)?;
    let main = Schema { id: 0, name: DEFAULT_SCHEMA.to_owned() };
    let mut catalog = Catalog { next_object: 1, ..Catalog::default() };
    catalog.schemas.insert(fold(&main.name), Arc::new(main));
    let mut manifest = Manifest::new(Arc::clone(&volume.disk));
    manifest.create(&rows::encode(&catalog, 1))?;
    // Closed, so that whoever opens it next finds nothing to repair.
    drop(manifest);
    disk.sync_directory("")?;
    Head::create(disk, catalog.commit)
}

/// Removes files that the manifest does not name: writers that crashed, drops that were not finished.
fn remove_leftovers(disk: &dyn Disk, catalog: &Catalog) -> Result<()> {
    let mut removed = false;
    for path in leftovers(disk, catalog)? {
        disk.remove(&path)?;
        removed = true;
    }
    if disk.exists(HEAD_DRAFT_PATH)? {
        disk.remove(HEAD_DRAFT_PATH)?;
        disk.sync_directory("")?;
    }
    for name in disk.list("")?.iter().filter(|name| forebay_disk::is_temporary(name)) {
        disk.remove(name)?;
    }
    if removed {
        // Their names are about to be used again.
        disk.sync_directory(SEGMENTS_DIRECTORY)?;
    }
    Ok(())
}

/// Paths of the files in the segments folder that `catalog` does not name.
pub(crate) fn leftovers(disk: &dyn Disk, catalog: &Catalog) -> Result<Vec<String>> {
    let named: std::collections::BTreeSet<String> =
        catalog.segments().map(|segment| segment_path(segment.id())).collect();
    let files = disk.list(SEGMENTS_DIRECTORY)?;
    let ours = files.into_iter().filter(|file| file.ends_with(".seg") || file.ends_with(".tmp"));
    let paths = ours.map(|file| format!("{SEGMENTS_DIRECTORY}/{file}"));
    Ok(paths.filter(|path| !named.contains(path)).collect())
}
