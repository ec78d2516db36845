//! The directories of an open database: their disks, their locks, and the files of segments and facts in them that no manifest
//! names.
//!
//! A file of a small segment is in memory until a checkpoint writes it ([`SmallFile`]); who opens a file does not see the difference.
//!
//! Invariants: the lock is held as long as anything can still touch a file, so a file is only ever removed by the
//! process that may. Must not know: what is in the files.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use forebay_base::{DirectoryId, Error, ErrorKind, FactId, Result, SegmentId, limits};
use forebay_disk::{Disk, DiskFile, OpenMode};

use crate::log_limits::LogLimits;
use crate::small_file::SmallFile;

/// Folder of the files of segments and facts.
pub(crate) const SEGMENTS_DIRECTORY: &str = "segments";

/// Segments of hot rows in memory have ids from here on, which no file of a database has.
pub(crate) const FIRST_IMAGE: u64 = 1 << 39;

/// The directory of a database that holds its catalog, and segments where it has no data directories.
pub(crate) const DATABASE_DIRECTORY: DirectoryId = DirectoryId(0);

/// What a file holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Segment,
    Fact,
}

/// Ends of the names of files that a program may find in [`SEGMENTS_DIRECTORY`] and remove where the manifest does not name them.
const GARBAGE_SUFFIXES: [&str; 3] = [".seg", ".fact", ".tmp"];

/// Where a file of a segment or fact is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FilePlace {
    pub(crate) directory: DirectoryId,
    pub(crate) kind: FileKind,
    /// Its id: no two files have the same, whatever they hold.
    pub(crate) number: u64,
}

impl FilePlace {
    pub(crate) fn of_segment(directory: DirectoryId, id: SegmentId) -> Self {
        Self { directory, kind: FileKind::Segment, number: id.0 }
    }

    pub(crate) fn of_fact(directory: DirectoryId, id: FactId) -> Self {
        Self { directory, kind: FileKind::Fact, number: id.0 }
    }

    /// Path of the file in its directory.
    pub(crate) fn path(self) -> String {
        let suffix = match self.kind {
            FileKind::Segment => "seg",
            FileKind::Fact => "fact",
        };
        format!("{SEGMENTS_DIRECTORY}/{:010}.{suffix}", self.number)
    }
}

/// Whether the name of a file in [`SEGMENTS_DIRECTORY`] says that it is one of the database's.
pub(crate) fn is_data_file(name: &str) -> bool {
    GARBAGE_SUFFIXES.iter().any(|suffix| name.ends_with(suffix))
}

/// A directory that is locked as long as this lives.
pub(crate) struct LockedDirectory {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) lock: Box<dyn Send + Sync>,
}

/// Files that are in memory.
#[derive(Default)]
struct SmallFiles {
    /// Each with what it counts for: nothing while it is being written.
    files: BTreeMap<FilePlace, (Arc<SmallFile>, u64)>,
    /// What all count for.
    bytes: u64,
}

impl SmallFiles {
    fn insert(&mut self, place: FilePlace, file: Arc<SmallFile>) {
        self.files.insert(place, (file, 0));
    }

    fn count(&mut self, place: FilePlace) {
        if let Some((file, counted)) = self.files.get_mut(&place) {
            self.bytes -= std::mem::replace(counted, file.stored_bytes());
            self.bytes += *counted;
        }
    }

    fn remove(&mut self, place: FilePlace) -> bool {
        let removed = self.files.remove(&place);
        self.bytes -= removed.as_ref().map_or(0, |(_, counted)| *counted);
        removed.is_some()
    }
}

/// The open directories of a database.
pub(crate) struct Volume {
    /// The database's own directory.
    pub(crate) disk: Arc<dyn Disk>,
    /// Data directories, from number 1 on.
    data: Vec<Arc<dyn Disk>>,
    /// Files that exist and that the manifest does not name: being written, sealed, or dropped but still read.
    unnamed: Mutex<BTreeSet<FilePlace>>,
    /// Files that are open for reading, the one opened last behind the others; at most [`limits::OPEN_SEGMENTS`].
    open_files: Mutex<VecDeque<(FilePlace, Arc<dyn DiskFile>)>>,
    /// Files that are in memory, and in no folder yet.
    small_files: Mutex<SmallFiles>,
    /// The id of the next segment of hot rows in memory.
    next_image: AtomicU64,
    pub(crate) limits: LogLimits,
    /// Why nothing may be written any more.
    failure: OnceLock<Error>,
    _locks: Vec<Box<dyn Send + Sync>>,
}

/// A mutex's content. A panic while it was held left it as it was: every critical section here changes one thing.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Volume {
    pub(crate) fn new(
        database: LockedDirectory,
        data: Vec<LockedDirectory>,
        small_files: BTreeMap<FilePlace, SmallFile>,
        limits: LogLimits,
    ) -> Self {
        let (unnamed, open_files, failure) = (Mutex::default(), Mutex::default(), OnceLock::new());
        let mut in_memory = SmallFiles::default();
        for (place, file) in small_files {
            in_memory.insert(place, Arc::new(file));
            in_memory.count(place);
        }
        let small_files = Mutex::new(in_memory);
        let LockedDirectory { disk, lock } = database;
        let (data, mut locks): (Vec<_>, Vec<_>) = data.into_iter().map(|open| (open.disk, open.lock)).unzip();
        locks.push(lock);
        let next_image = FIRST_IMAGE.into();
        Self { disk, data, unnamed, open_files, small_files, next_image, limits, failure, _locks: locks }
    }

    /// The disk of a directory; `None` where the database has none of that number.
    pub(crate) fn directory(&self, id: DirectoryId) -> Option<&Arc<dyn Disk>> {
        match id {
            DATABASE_DIRECTORY => Some(&self.disk),
            DirectoryId(number) => self.data.get(number as usize - 1),
        }
    }

    /// All directories, the database's own first.
    pub(crate) fn directories(&self) -> impl Iterator<Item = (DirectoryId, &Arc<dyn Disk>)> {
        (0..).map(DirectoryId).zip(std::iter::once(&self.disk).chain(&self.data))
    }

    /// The directories that take new files: data directories, or the database's own where there are none.
    pub(crate) fn segment_directories(&self) -> impl Iterator<Item = DirectoryId> {
        let first = u32::from(!self.data.is_empty());
        (first..=self.data.len() as u32).map(DirectoryId)
    }

    /// The disk that a file is on.
    pub(crate) fn disk_of(&self, place: FilePlace) -> &Arc<dyn Disk> {
        self.directory(place.directory).expect("a place is checked when it is read, and else made of what there is")
    }

    /// Path of a file for messages, which in the database's own directory is relative to it.
    pub(crate) fn path_of(&self, place: FilePlace) -> String {
        match place.directory {
            DATABASE_DIRECTORY => place.path(),
            _ => format!("{}/{}", self.disk_of(place).describe(), place.path()),
        }
    }

    /// Makes a file and notes that the manifest does not name it.
    pub(crate) fn create_file(&self, place: FilePlace) -> Result<Arc<dyn DiskFile>> {
        self.note_unnamed(place);
        let opened = self.disk_of(place).open(&place.path(), OpenMode::Create);
        opened.inspect_err(|_| self.forget_unnamed(place))
    }

    /// Makes a file in memory, for as long as it is small, and notes that the manifest does not name it; `None` where small files have enough
    /// memory already, or none counts as small.
    pub(crate) fn create_small_file(&self, place: FilePlace) -> Option<Arc<SmallFile>> {
        let mut small = locked(&self.small_files);
        if self.limits.small_bytes == 0 || small.bytes >= limits::SMALL_SEGMENTS_BYTES {
            return None;
        }
        let file = Arc::new(SmallFile::new(place.path()));
        small.insert(place, Arc::clone(&file));
        self.note_unnamed(place);
        Some(file)
    }

    /// The number of a segment in memory that never gets a file.
    pub(crate) fn new_image(&self) -> SegmentId {
        SegmentId(self.next_image.fetch_add(1, Ordering::Relaxed))
    }

    /// Counts what a file in memory takes, now that it is written.
    pub(crate) fn count_small_file(&self, place: FilePlace) {
        locked(&self.small_files).count(place);
    }

    /// The file in memory, where it is there.
    pub(crate) fn small_file(&self, place: FilePlace) -> Option<Arc<SmallFile>> {
        locked(&self.small_files).files.get(&place).map(|(file, _)| Arc::clone(file))
    }

    /// Takes a file from memory: it is in its folder now.
    pub(crate) fn forget_small_file(&self, place: FilePlace) {
        locked(&self.small_files).remove(place);
    }

    /// A file, for reading; opened if it is not open, and closed when many others were opened since.
    /// It can be opened again at any time: a file is removed when nobody can ask for it any more.
    pub(crate) fn open_file(&self, place: FilePlace) -> Result<Arc<dyn DiskFile>> {
        let find = |files: &VecDeque<(FilePlace, Arc<dyn DiskFile>)>| {
            files.iter().find(|(open, _)| *open == place).map(|(_, file)| Arc::clone(file))
        };
        if let Some(small) = self.small_file(place) {
            return Ok(small);
        }
        if let Some(file) = find(&locked(&self.open_files)) {
            return Ok(file);
        }
        let file = self.disk_of(place).open(&place.path(), OpenMode::Read)?;
        let mut files = locked(&self.open_files);
        if let Some(opened_meanwhile) = find(&files) {
            return Ok(opened_meanwhile);
        }
        if files.len() >= limits::OPEN_SEGMENTS {
            files.pop_front();
        }
        files.push_back((place, Arc::clone(&file)));
        Ok(file)
    }

    /// Makes a file durable. A full disk concerns this file alone; any other failed sync may have lost other files' writes too.
    pub(crate) fn sync(&self, file: &dyn DiskFile) -> Result<()> {
        file.sync().inspect_err(|error| {
            if error.kind() != ErrorKind::OutOfSpace {
                self.fail(error);
            }
        })
    }

    /// From here on every write is refused (a failed fsync leaves unknown what is on disk; Rebello et al. 2020).
    pub(crate) fn fail(&self, cause: &Error) {
        self.failure.get_or_init(|| cause.clone());
    }

    /// An error if an earlier write failed for good.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match self.failure.get() {
            None => Ok(()),
            Some(cause) => {
                let message = format!("the database is closed after a failed write ({})", cause.message());
                Err(Error::new(ErrorKind::Io, message).context(self.disk.describe()).hint("Reopen it"))
            }
        }
    }

    /// Notes that a file exists though the manifest does not name it.
    pub(crate) fn note_unnamed(&self, place: FilePlace) {
        locked(&self.unnamed).insert(place);
    }

    /// Notes that the manifest names a file, or that nobody will remove it.
    pub(crate) fn forget_unnamed(&self, place: FilePlace) {
        locked(&self.unnamed).remove(&place);
    }

    /// Whether `path` in a directory is a file that is noted here.
    pub(crate) fn is_unnamed_path(&self, directory: DirectoryId, path: &str) -> bool {
        locked(&self.unnamed).iter().any(|place| place.directory == directory && place.path() == path)
    }

    /// Closes and removes a file. A failure leaves garbage that the next open removes.
    pub(crate) fn remove_file(&self, place: FilePlace) {
        if locked(&self.small_files).remove(place) {
            self.forget_unnamed(place);
            return;
        }
        locked(&self.open_files).retain(|(open, _)| *open != place);
        let _garbage_if_it_fails = self.disk_of(place).remove(&place.path());
        self.forget_unnamed(place);
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("disk", &self.disk).field("data", &self.data).finish_non_exhaustive()
    }
}
