//! A file of a segment or fact as its owner holds it: it goes away with the owner, unless the manifest names it.
//!
//! Must not know: what is in the file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_base::{DirectoryId, Result};
use forebay_disk::DiskFile;

use crate::volume::{FilePlace, Volume};

/// A file that exists.
#[derive(Debug)]
pub(crate) struct DataFile {
    volume: Arc<Volume>,
    place: FilePlace,
    remove_on_drop: AtomicBool,
}

impl DataFile {
    /// A file that the manifest names.
    pub(crate) fn named(volume: Arc<Volume>, place: FilePlace) -> Self {
        Self { volume, place, remove_on_drop: AtomicBool::new(false) }
    }

    /// A file that [`Volume::create_file`] made and that nobody names yet.
    pub(crate) fn unnamed(volume: Arc<Volume>, place: FilePlace) -> Self {
        Self { volume, place, remove_on_drop: AtomicBool::new(true) }
    }

    pub(crate) fn place(&self) -> FilePlace {
        self.place
    }

    /// The directory that it is in, and so the drive.
    pub(crate) fn directory(&self) -> DirectoryId {
        self.place.directory
    }

    /// Its path: in the database directory, or from the root where it is in another data directory.
    pub(crate) fn path(&self) -> String {
        self.volume.path_of(self.place)
    }

    /// Opens it for reading.
    pub(crate) fn open(&self) -> Result<Arc<dyn DiskFile>> {
        self.volume.open_file(self.place)
    }

    /// It must go when this is dropped, or must not.
    pub(crate) fn set_remove_on_drop(&self, remove: bool) {
        self.remove_on_drop.store(remove, Ordering::Release);
        match remove {
            true => self.volume.note_unnamed(self.place),
            false => self.volume.forget_unnamed(self.place),
        }
    }
}

impl Drop for DataFile {
    fn drop(&mut self) {
        if *self.remove_on_drop.get_mut() {
            self.volume.remove_file(self.place);
        }
    }
}
