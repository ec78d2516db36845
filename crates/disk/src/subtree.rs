//! A directory of a disk in memory, as a disk of its own.
//!
//! Invariant: nothing outside of the directory is touched, but for the names of the directories above it when it is made.
//! Must not know: which disk it is of.

use std::sync::Arc;

use forebay_base::Result;

use crate::path::{normalize, normalize_absolute, parent};
use crate::{Disk, DiskDirectory, DiskFile, LockKind, OpenMode};

/// What lies below one directory of `disk`.
#[derive(Debug)]
pub(crate) struct Subtree {
    disk: Arc<dyn Disk>,
    /// Normalized path of the directory.
    root: String,
}

impl Subtree {
    /// The directory at the absolute `path` of `disk`.
    pub(crate) fn open(disk: Arc<dyn Disk>, path: &str) -> Result<Arc<dyn Disk>> {
        Ok(Arc::new(Self { disk, root: normalize_absolute(path)? }))
    }

    fn inside(&self, path: &str) -> Result<String> {
        let name = normalize(path)?;
        Ok(match (self.root.is_empty(), name.is_empty()) {
            (true, _) => name,
            (false, true) => self.root.clone(),
            (false, false) => format!("{}/{name}", self.root),
        })
    }
}

impl Disk for Subtree {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        self.disk.open(&self.inside(path)?, mode)
    }

    fn free_bytes(&self) -> Option<u64> {
        self.disk.free_bytes()
    }

    fn exists(&self, path: &str) -> Result<bool> {
        self.disk.exists(&self.inside(path)?)
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.disk.list(&self.inside(directory)?)
    }

    /// The names above the root are durable afterwards, as those of the machine's disks are.
    fn create_directory(&self, path: &str) -> Result<()> {
        self.disk.create_directory(&self.inside(path)?)?;
        std::iter::successors(parent(&self.root), |above| parent(above))
            .try_for_each(|above| self.disk.sync_directory(above))
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.disk.remove(&self.inside(path)?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.disk.rename(&self.inside(from)?, &self.inside(to)?)
    }

    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>> {
        self.disk.open_directory(&self.inside(path)?)
    }

    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        self.disk.lock(&self.inside(path)?, kind, holder)
    }

    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>> {
        self.disk.elsewhere(path)
    }

    fn canonical_path(&self) -> Result<String> {
        Ok(format!("/{}", self.root))
    }

    fn describe(&self) -> String {
        format!("/{}", self.root)
    }
}
