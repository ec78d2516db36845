//! How bytes move: files in a directory tree, on the machine's disks, in memory, or on a simulated disk that loses power.
//!
//! Invariants: bytes are either all read or the call fails; a message names the file, the offset and the length; nothing
//! is mapped into memory; unsafe code is in the module `sys` alone. Reads and writes named *direct* pass the page cache by
//! where the file system allows it.
//! Must not know: what the bytes mean (chunks, log records, checksums), and the environment: modes come in.
#![deny(unsafe_code)]

/// Paths relative to a disk's root.
mod path;

/// Aligned memory and the budget that it comes from.
mod buffer;

/// Reads on their way.
mod ticket;

/// The one place for unsafe code: aligned allocations and io_uring.
#[allow(unsafe_code)]
mod sys;

/// Files on the machine's disks.
mod local;

/// Names of files and directories, for disks that live in memory.
mod namespace;

/// Locks between handles of one process, for disks that live in memory.
mod locks;

/// Plain files in memory.
mod memory;

/// A directory of a disk in memory, as a disk of its own.
mod subtree;

// Numbers that a seed repeats.
mod random;

/// What survives of one simulated file.
mod content;

/// A disk that fails and loses power on request, replayed from a seed.
mod simulated;

/// A disk whose reads are as slow as wanted.
mod throttled;

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_base::{Error, ErrorKind, Result, limits};

pub use buffer::{AlignedBuffer, BufferPool, begin_without_huge_pages, end_without_huge_pages};
pub use local::{IoMode, LocalDisk};
pub use memory::MemoryDisk;
pub use simulated::{FaultKind, Faults, SimulatedDisk};
pub use throttled::ThrottledDisk;
pub use ticket::{ReadPath, ReadTicket};

/// How to open a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// An existing file, for reading.
    Read,
    /// An existing file, for reading and writing.
    Write,
    /// A new file, for reading and writing; [`ErrorKind::AlreadyExists`] if there is one.
    Create,
}

/// How a lock is shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockKind {
    /// Together with other shared holders.
    Shared,
    /// Alone.
    Exclusive,
}

/// One read of a batch: fills `buffer` from `offset` on. Offset and length are multiples of [`limits::IO_ALIGN`].
#[derive(Debug)]
pub struct ReadRequest {
    /// Where in the file, in bytes.
    pub offset: u64,
    /// What is filled.
    pub buffer: AlignedBuffer,
}

/// A directory tree. Paths are relative to its root and separated by `/`; the empty path is the root.
///
/// A name that was made, removed or renamed survives a power loss only after [`Disk::sync_directory`] on its directory.
pub trait Disk: Send + Sync + Debug {
    /// Opens or makes the file at `path`.
    fn open(&self, path: &str, mode: OpenMode) -> Result<Arc<dyn DiskFile>>;

    /// Whether there is a file or directory at `path`.
    fn exists(&self, path: &str) -> Result<bool>;

    /// Names of what is in `directory`, sorted; those of directories end in `/`. [`ErrorKind::NotFound`] if it is missing.
    fn list(&self, directory: &str) -> Result<Vec<String>>;

    /// Makes the directory `path` with its parents; fine if it exists.
    fn create_directory(&self, path: &str) -> Result<()>;

    /// Removes the file at `path`. Open handles stay usable.
    fn remove(&self, path: &str) -> Result<()>;

    /// Renames the file `from` to `to`, replacing a file that is there.
    fn rename(&self, from: &str, to: &str) -> Result<()>;

    /// Opens the directory `path`, to make the names in it durable. A failure here leaves no name in doubt.
    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>>;

    /// Opens and syncs the directory `path`.
    fn sync_directory(&self, path: &str) -> Result<()> {
        self.open_directory(path)?.sync()
    }

    /// Locks the name `path` until the result is dropped; never waits. On disk this is the lock of a file that is made
    /// if it is missing. An exclusive holder leaves the text `holder` there for others to read.
    ///
    /// # Errors
    /// [`ErrorKind::Locked`], quoting the holder's text, if another handle holds it.
    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>>;

    /// A new empty file in the root, for reading and writing, that ends with its last handle. It never has a name, or
    /// loses it at once: then a process that is killed in between leaves a file that [`is_temporary`] knows.
    fn temporary(&self) -> Result<Arc<dyn DiskFile>> {
        named_temporary(&|path| self.open(path, OpenMode::Create), &|path| self.remove(path))
    }

    /// Bytes that may still be written; `None` where that is not known.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// The directory at the absolute `path`, which need not exist yet, as a disk of its own: it is read the way this one is,
    /// at the same time.
    ///
    /// # Errors
    /// If `path` is not absolute.
    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>>;

    /// The absolute path of the root, which exists, without symbolic links: equal for two disks of the same directory.
    fn canonical_path(&self) -> Result<String>;

    /// Where the root is, for messages.
    fn describe(&self) -> String;
}

/// What the names of temporary files begin and end with.
const TEMPORARY_PREFIX: &str = "spill-";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Number of temporary files that this process has named.
static TEMPORARY_FILES: AtomicU64 = AtomicU64::new(0);

/// A file that is made and removed at once.
fn named_temporary(
    create: &dyn Fn(&str) -> Result<Arc<dyn DiskFile>>,
    remove: &dyn Fn(&str) -> Result<()>,
) -> Result<Arc<dyn DiskFile>> {
    loop {
        let number = TEMPORARY_FILES.fetch_add(1, Ordering::Relaxed);
        let path = format!("{TEMPORARY_PREFIX}{}-{number}{TEMPORARY_SUFFIX}", std::process::id());
        match create(&path) {
            // Of a process that had the same number and was killed.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
            Ok(file) => return remove(&path).map(|()| file),
        }
    }
}

/// Whether a name in the root of a disk is that of a file that [`Disk::temporary`] made.
pub fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX) && name.ends_with(TEMPORARY_SUFFIX)
}

/// An open directory.
pub trait DiskDirectory: Send + Sync + Debug {
    /// Makes every create, remove and rename in it durable. After a failure nothing is known of them.
    fn sync(&self) -> Result<()>;
}

/// An open file, usable from many threads at once.
///
/// What was written survives a power loss only after [`DiskFile::sync`]. After a failed sync nothing is known of the
/// writes since the last good one, and no later sync makes them good: the caller stops writing.
pub trait DiskFile: Send + Sync + Debug {
    /// Fills `buffer` from `offset` on, through the page cache: for logs and small metadata.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the file ends before.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Writes all of `bytes` at `offset`, through the page cache; the file grows as needed, gaps read as zero.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Starts these reads and returns without waiting for them; the ticket holds the buffers until they are filled. Disks
    /// in memory serve them here, in the order of the requests and up to the first that fails, and tell it by the ticket.
    ///
    /// # Errors
    /// If the reads could not be started; what goes wrong later [`ReadTicket::wait`] tells.
    fn submit_reads(self: Arc<Self>, mut requests: Vec<ReadRequest>, _path: ReadPath) -> Result<ReadTicket> {
        check_all_aligned(self.path(), &requests)?;
        Ok(ReadTicket::served(self.read_direct(&mut requests).map(|()| requests)))
    }

    /// Serves all `requests`, several in flight, past the page cache where possible: [`DiskFile::submit_reads`] and
    /// [`ReadTicket::wait`] in one. After an error the buffers hold anything, or nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`] if the file ends before a request does: writers pad to [`limits::IO_ALIGN`].
    fn read_direct(&self, requests: &mut [ReadRequest]) -> Result<()> {
        check_all_aligned(self.path(), requests)?;
        requests.iter_mut().try_for_each(|request| self.read_at(request.offset, &mut request.buffer))
    }

    /// Writes `buffer` at `offset`, past the page cache where possible; both are multiples of [`limits::IO_ALIGN`].
    fn write_direct(&self, offset: u64, buffer: &AlignedBuffer) -> Result<()> {
        check_aligned(self.path(), offset, buffer.len())?;
        self.write_at(offset, buffer)
    }

    /// Makes data and length durable.
    fn sync(&self) -> Result<()>;

    /// Length in bytes.
    fn len(&self) -> Result<u64>;

    /// Whether the file has no bytes.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Cuts the file to `bytes`, or extends it with zeros.
    fn set_len(&self, bytes: u64) -> Result<()>;

    /// The path that the file was opened with, relative to the disk's root; of a directory of a disk in memory, to the root of
    /// that one.
    fn path(&self) -> &str;
}

fn check_aligned(path: &str, offset: u64, len: usize) -> Result<()> {
    if offset.is_multiple_of(limits::IO_ALIGN as u64) && len.is_multiple_of(limits::IO_ALIGN) {
        return Ok(());
    }
    Err(Error::internal(format!("direct transfer of {len} bytes at {offset} of {path} is not aligned")))
}

fn check_all_aligned(path: &str, requests: &[ReadRequest]) -> Result<()> {
    requests.iter().try_for_each(|request| check_aligned(path, request.offset, request.buffer.len()))
}

fn check_writable(path: &str, mode: OpenMode) -> Result<()> {
    match mode {
        OpenMode::Read => Err(Error::internal(format!("cannot change {path}: it was opened for reading"))),
        OpenMode::Write | OpenMode::Create => Ok(()),
    }
}

fn too_short(path: &str, offset: u64, len: usize, file_len: u64) -> Error {
    Error::corrupt(format!(
        "file is shorter than expected: cannot read {len} bytes at {offset} of {path}, which has {file_len} bytes"
    ))
    .hint("The file was cut or replaced; restore it from a backup")
}

fn locked(place: &str, holder: &str) -> Error {
    let holder = match holder.trim() {
        "" => "another process",
        named => named,
    };
    Error::new(ErrorKind::Locked, format!("{place} is locked by {holder}"))
        .hint("Close the other process and try again")
}
