//! Plain files in memory, for databases without a path.
//!
//! Must not know: durability; everything here ends with the last handle.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use parking_lot::{Mutex, RwLock};

use crate::locks::LockTable;
use crate::namespace::Namespace;
use crate::path::normalize;
use crate::subtree::Subtree;
use crate::{Disk, DiskDirectory, DiskFile, LockKind, OpenMode, check_writable, too_short};

type Bytes = Arc<RwLock<Vec<u8>>>;

/// A directory tree in memory. Clones share it.
#[derive(Debug, Clone)]
pub struct MemoryDisk {
    names: Arc<Mutex<Namespace<Bytes>>>,
    locks: LockTable,
}

impl MemoryDisk {
    /// An empty tree.
    pub fn new() -> Self {
        Self { names: Arc::new(Mutex::new(Namespace::new())), locks: LockTable::default() }
    }
}

impl Default for MemoryDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl Disk for MemoryDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        let name = normalize(path)?;
        let mut names = self.names.lock();
        if mode == OpenMode::Create {
            names.create(&name, Bytes::default())?;
        }
        let bytes = Arc::clone(names.file(&name)?);
        Ok(Arc::new(MemoryFile { path: path.to_owned(), mode, bytes }))
    }

    fn exists(&self, path: &str) -> Result<bool> {
        Ok(self.names.lock().contains(&normalize(path)?))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        self.names.lock().list(&normalize(directory)?)
    }

    fn create_directory(&self, path: &str) -> Result<()> {
        self.names.lock().create_directory(&normalize(path)?).map(drop)
    }

    fn remove(&self, path: &str) -> Result<()> {
        self.names.lock().remove(&normalize(path)?)
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.names.lock().rename(&normalize(from)?, &normalize(to)?).map(drop)
    }

    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>> {
        self.names.lock().check_directory(&normalize(path)?, "open directory")?;
        Ok(Box::new(MemoryDirectory))
    }

    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        self.locks.lock(&normalize(path)?, kind, holder)
    }

    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>> {
        Subtree::open(Arc::new(self.clone()), path)
    }

    fn canonical_path(&self) -> Result<String> {
        Ok("/".to_owned())
    }

    fn describe(&self) -> String {
        "memory".to_owned()
    }
}

#[derive(Debug)]
struct MemoryDirectory;

impl DiskDirectory for MemoryDirectory {
    fn sync(&self) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct MemoryFile {
    path: String,
    mode: OpenMode,
    bytes: Bytes,
}

impl DiskFile for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        read_slice(&self.bytes.read(), &self.path, offset, buffer)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_writable(&self.path, self.mode)?;
        write_slice(&mut self.bytes.write(), &self.path, offset, bytes)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.bytes.read().len() as u64)
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        check_writable(&self.path, self.mode)?;
        resize(&mut self.bytes.write(), &self.path, bytes)
    }

    fn path(&self) -> &str {
        &self.path
    }
}

/// Fills `buffer` from `content[offset..]`.
pub(crate) fn read_slice(content: &[u8], path: &str, offset: u64, buffer: &mut [u8]) -> Result<()> {
    // Nothing is there everywhere, as on the machine's disks.
    if buffer.is_empty() {
        return Ok(());
    }
    let start = usize::try_from(offset).ok();
    let found = start.and_then(|start| content.get(start..start.checked_add(buffer.len())?));
    let found = found.ok_or_else(|| too_short(path, offset, buffer.len(), content.len() as u64))?;
    buffer.copy_from_slice(found);
    Ok(())
}

/// Writes `bytes` to `content[offset..]`, which grows as needed.
pub(crate) fn write_slice(content: &mut Vec<u8>, path: &str, offset: u64, bytes: &[u8]) -> Result<()> {
    if bytes.is_empty() {
        return Ok(());
    }
    let end = offset.saturating_add(bytes.len() as u64);
    if end > content.len() as u64 {
        resize(content, path, end)?;
    }
    let end = end as usize;
    content[end - bytes.len()..end].copy_from_slice(bytes);
    Ok(())
}

/// Cuts or extends `content` to `len` bytes.
pub(crate) fn resize(content: &mut Vec<u8>, path: &str, len: u64) -> Result<()> {
    let no_memory = || Error::new(ErrorKind::OutOfMemory, format!("no memory for {len} bytes of {path}"));
    let len = usize::try_from(len).map_err(|_| no_memory())?;
    content.try_reserve(len.saturating_sub(content.len())).map_err(|_| no_memory())?;
    content.resize(len, 0);
    Ok(())
}
