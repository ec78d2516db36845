//! The directory of an open database: its disk, its lock, and the files in it that no manifest names.
//!
//! Invariants: the lock is held as long as anything can still touch a file, so a file is only ever removed by the
//! process that may. Must not know: what is in the files.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_base::{Error, ErrorKind, Result, SegmentId, limits};
use forebay_disk::{Disk, DiskFile, OpenMode};

/// Folder of the segment files.
pub(crate) const SEGMENTS_DIRECTORY: &str = "segments";

/// An open database directory.
pub(crate) struct Volume {
    pub(crate) disk: Arc<dyn Disk>,
    /// Segment files that exist and that the manifest does not name: being written, sealed, or dropped but still read.
    unnamed: Mutex<BTreeSet<SegmentId>>,
    /// Segment files that are open for reading, the one opened last behind the others; at most [`limits::OPEN_SEGMENTS`].
    open_files: Mutex<VecDeque<(SegmentId, Arc<dyn DiskFile>)>>,
    /// Why nothing may be written any more.
    failure: Mutex<Option<Error>>,
    _lock: Box<dyn Send + Sync>,
}

/// A mutex's content. A panic while it was held left it as it was: every critical section here changes one thing.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Path of a segment's file.
pub(crate) fn segment_path(id: SegmentId) -> String {
    format!("{SEGMENTS_DIRECTORY}/{:010}.seg", id.0)
}

impl Volume {
    pub(crate) fn new(disk: Arc<dyn Disk>, lock: Box<dyn Send + Sync>) -> Self {
        let (unnamed, open_files, failure) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { disk, unnamed, open_files, failure, _lock: lock }
    }

    /// The file of segment `id`, for reading; opened if it is not open, and closed when many others were opened since.
    /// It can be opened again at any time: a file is removed when nobody can ask for it any more.
    pub(crate) fn segment_file(&self, id: SegmentId) -> Result<Arc<dyn DiskFile>> {
        let find = |files: &VecDeque<(SegmentId, Arc<dyn DiskFile>)>| {
            files.iter().find(|(open, _)| *open == id).map(|(_, file)| Arc::clone(file))
        };
        if let Some(file) = find(&locked(&self.open_files)) {
            return Ok(file);
        }
        let file = self.disk.open(&segment_path(id), OpenMode::Read)?;
        let mut files = locked(&self.open_files);
        if let Some(opened_meanwhile) = find(&files) {
            return Ok(opened_meanwhile);
        }
        if files.len() >= limits::OPEN_SEGMENTS {
            files.pop_front();
        }
        files.push_back((id, Arc::clone(&file)));
        Ok(file)
    }

    /// From here on every write is refused (a failed fsync leaves unknown what is on disk; Rebello et al. 2020).
    pub(crate) fn fail(&self, cause: &Error) {
        locked(&self.failure).get_or_insert_with(|| cause.clone());
    }

    /// An error if an earlier write failed for good.
    pub(crate) fn check_writable(&self) -> Result<()> {
        match &*locked(&self.failure) {
            None => Ok(()),
            Some(cause) => {
                let message = format!("the database is closed after a failed write ({})", cause.message());
                Err(Error::new(ErrorKind::Io, message).context(self.disk.describe()).hint("Reopen it"))
            }
        }
    }

    /// Notes that `id`'s file exists though the manifest does not name it.
    pub(crate) fn note_unnamed(&self, id: SegmentId) {
        locked(&self.unnamed).insert(id);
    }

    /// Notes that the manifest names `id`, or that nobody will remove its file.
    pub(crate) fn forget_unnamed(&self, id: SegmentId) {
        locked(&self.unnamed).remove(&id);
    }

    /// Whether `path` is the file of a segment that is noted here.
    pub(crate) fn is_unnamed_path(&self, path: &str) -> bool {
        locked(&self.unnamed).iter().any(|id| segment_path(*id) == path)
    }

    /// Closes and removes `id`'s file. A failure leaves garbage that the next open removes.
    pub(crate) fn remove_segment(&self, id: SegmentId) {
        locked(&self.open_files).retain(|(open, _)| *open != id);
        let _garbage_if_it_fails = self.disk.remove(&segment_path(id));
        self.forget_unnamed(id);
    }
}

impl std::fmt::Debug for Volume {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Volume").field("disk", &self.disk).finish_non_exhaustive()
    }
}
