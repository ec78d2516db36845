//! Files on the machine's disks: io_uring and O_DIRECT where the system allows them, pread and the page cache where not.
//!
//! Invariants: the ring only speeds up; whatever it leaves undone (short reads, errors, all of it without a ring) is done
//! by pread, which is also where errors are told. A file has a buffered descriptor, and a direct one once it is needed.
//! Must not know: the environment; who reads what.

/// Files, and tickets for their reads.
mod file;

/// The two descriptors of a file, and how pread goes through them.
mod descriptors;

/// Batches of pieces that are on their way.
mod batches;

/// Reads through the ring that all threads share.
mod ring_reads;

/// Reads by standing threads, where there is no ring.
mod thread_reads;

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_base::{Error, Result};

use crate::path::normalize;
use crate::sys::raise_open_files;
use crate::{Disk, DiskDirectory, DiskFile, LockKind, OpenMode, locked, named_temporary};
use descriptors::Descriptors;
use file::{LocalFile, ReadQueue};
use ring_reads::RingReads;
use thread_reads::ThreadReads;

/// How direct reads reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMode {
    /// io_uring where it works, else pread.
    #[default]
    Auto,
    /// io_uring; an error where it is forbidden.
    Uring,
    /// The same, where the kernel is not told which memory is read into over and over: to measure what that gains.
    UringUnregistered,
    /// pread.
    Pread,
}

/// A directory of the machine. Clones share its ring or reading threads, and so do its files and their tickets; when the
/// last of them is dropped nothing is in flight any more.
#[derive(Debug, Clone)]
pub struct LocalDisk {
    root: PathBuf,
    reads: ReadQueue,
    /// Whether the file system was seen to refuse O_DIRECT.
    direct_refused: Arc<AtomicBool>,
    direct_probed: Arc<OnceLock<()>>,
}

impl LocalDisk {
    /// The directory `root`, which need not exist yet: `create_directory("")` makes it. The process may then have as many
    /// open files as the system lets it.
    ///
    /// # Errors
    /// With [`IoMode::Uring`] and [`IoMode::UringUnregistered`], if the system forbids io_uring.
    pub fn open(root: &Path, mode: IoMode) -> Result<Self> {
        let root =
            std::path::absolute(root).map_err(|error| Error::io(format_args!("open {}", root.display()), &error))?;
        raise_open_files();
        let registers = mode != IoMode::UringUnregistered;
        let ring = if mode == IoMode::Pread { None } else { Some(RingReads::open(registers)) };
        let reads = match (mode, ring) {
            (_, Some(Ok(ring))) => ReadQueue::Ring(Arc::new(ring)),
            (IoMode::Uring | IoMode::UringUnregistered, Some(Err(error))) => {
                let hint = "Allow the io_uring system calls (containers often forbid them), or choose pread";
                return Err(Error::unsupported(format!("io_uring does not work here: {error}")).hint(hint));
            }
            _ => ReadQueue::Threads(Arc::new(ThreadReads::new())),
        };
        Ok(Self { root, reads, direct_refused: Arc::default(), direct_probed: Arc::default() })
    }

    /// How direct reads are done: `io_uring` or `pread`, and `O_DIRECT` or `buffered`.
    pub fn io_description(&self) -> String {
        self.direct_probed.get_or_init(|| self.probe_direct());
        let call = match self.reads {
            ReadQueue::Ring(_) => "io_uring",
            ReadQueue::Threads(_) => "pread",
        };
        let access = if self.direct_refused.load(Ordering::Relaxed) { "buffered" } else { "O_DIRECT" };
        format!("{call}, {access}")
    }

    /// Bytes of memory that the kernel was told of, because they are read into over and over.
    pub fn registered_bytes(&self) -> usize {
        match &self.reads {
            ReadQueue::Ring(ring) => ring.registered_bytes(),
            ReadQueue::Threads(_) => 0,
        }
    }

    /// Asks the file system with a file that never gets a name. Where that cannot be made, files find out on their own.
    fn probe_direct(&self) {
        let unnamed =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE | libc::O_DIRECT).open(&self.root);
        if unnamed.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            self.direct_refused.store(true, Ordering::Relaxed);
        }
    }

    fn open_file(&self, path: &str, mode: OpenMode) -> Result<LocalFile> {
        let full = self.full(path)?;
        let mut options = OpenOptions::new();
        options.read(true).write(mode != OpenMode::Read).create_new(mode == OpenMode::Create);
        let verb = if mode == OpenMode::Create { "create" } else { "open" };
        let buffered =
            options.open(&full).map_err(|error| Error::io(format_args!("{verb} {}", full.display()), &error))?;
        Ok(self.file(path, full.display().to_string(), mode, buffered))
    }

    fn file(&self, path: &str, place: String, mode: OpenMode, buffered: File) -> LocalFile {
        let descriptors = Descriptors::new(place, mode, buffered, Arc::clone(&self.direct_refused));
        LocalFile::new(path.to_owned(), Arc::new(descriptors), self.reads.clone())
    }

    fn full(&self, path: &str) -> Result<PathBuf> {
        Ok(self.root.join(normalize(path)?))
    }
}

impl Disk for LocalDisk {
    fn open(&self, path: &str, mode: OpenMode) -> Result<Arc<dyn DiskFile>> {
        Ok(Arc::new(self.open_file(path, mode)?))
    }

    fn exists(&self, path: &str) -> Result<bool> {
        let full = self.full(path)?;
        full.try_exists().map_err(|error| Error::io(format_args!("look for {}", full.display()), &error))
    }

    fn list(&self, directory: &str) -> Result<Vec<String>> {
        let full = self.full(directory)?;
        let failed = |error| Error::io(format_args!("list {}", full.display()), &error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&full).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let is_directory = entry.file_type().map_err(failed)?.is_dir();
            names.push(entry.file_name().to_string_lossy().into_owned() + if is_directory { "/" } else { "" });
        }
        names.sort_unstable();
        Ok(names)
    }

    /// The names that are made here are durable afterwards: no path names the directories above the root.
    fn create_directory(&self, path: &str) -> Result<()> {
        let full = self.full(path)?;
        let parents = parents_of_missing(&full);
        fs::create_dir_all(&full)
            .map_err(|error| Error::io(format_args!("create directory {}", full.display()), &error))?;
        parents.into_iter().try_for_each(|parent| LocalDirectory::open(parent.to_owned())?.sync())
    }

    fn free_bytes(&self) -> Option<u64> {
        crate::sys::free_bytes(&self.root)
    }

    fn remove(&self, path: &str) -> Result<()> {
        let full = self.full(path)?;
        fs::remove_file(&full).map_err(|error| Error::io(format_args!("remove {}", full.display()), &error))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        let (from, to) = (self.full(from)?, self.full(to)?);
        fs::rename(&from, &to)
            .map_err(|error| Error::io(format_args!("rename {} to {}", from.display(), to.display()), &error))
    }

    fn open_directory(&self, path: &str) -> Result<Box<dyn DiskDirectory>> {
        Ok(Box::new(LocalDirectory::open(self.full(path)?)?))
    }

    fn lock(&self, path: &str, kind: LockKind, holder: &str) -> Result<Box<dyn Send + Sync>> {
        let full = self.full(path)?;
        let failed = |error| Error::io(format_args!("lock {}", full.display()), &error);
        let (mut file, is_writable) = open_lock(&full, kind).map_err(failed)?;
        let outcome = match kind {
            LockKind::Shared => file.try_lock_shared(),
            LockKind::Exclusive => file.try_lock(),
        };
        match outcome {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut found = Vec::new();
                file.read_to_end(&mut found).map_err(failed)?;
                return Err(locked(&full.display().to_string(), &String::from_utf8_lossy(&found)));
            }
            Err(TryLockError::Error(error)) => return Err(failed(error)),
        }
        // A text that is found now is that of a holder who ended without dropping the lock.
        if is_writable {
            file.set_len(0).map_err(failed)?;
        }
        if kind == LockKind::Exclusive {
            match file.write_all(holder.as_bytes()) {
                // The text is for others' messages; a full disk is no reason not to read a database.
                Err(error) if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => {}
                written => written.map_err(failed)?,
            }
        }
        Ok(Box::new(FileLock { file, kind }))
    }

    fn temporary(&self) -> Result<Arc<dyn DiskFile>> {
        let mut options = OpenOptions::new();
        match options.read(true).write(true).custom_flags(libc::O_TMPFILE).open(&self.root) {
            Ok(unnamed) => {
                let place = format!("a temporary file in {}", self.root.display());
                Ok(Arc::new(self.file("", place, OpenMode::Create, unnamed)))
            }
            // Not every file system has files without a name.
            Err(_) => named_temporary(&|path| self.open(path, OpenMode::Create), &|path| self.remove(path)),
        }
    }

    /// A ring or threads of its own: drives do not wait for each other.
    fn elsewhere(&self, path: &str) -> Result<Arc<dyn Disk>> {
        if !path.starts_with('/') {
            return Err(Error::internal(format!("path {path:?} is not absolute")));
        }
        let mode = match &self.reads {
            ReadQueue::Ring(ring) if !ring.registers() => IoMode::UringUnregistered,
            ReadQueue::Ring(_) => IoMode::Auto,
            ReadQueue::Threads(_) => IoMode::Pread,
        };
        Ok(Arc::new(Self::open(Path::new(path), mode)?))
    }

    fn canonical_path(&self) -> Result<String> {
        let found = fs::canonicalize(&self.root)
            .map_err(|error| Error::io(format_args!("find {}", self.root.display()), &error))?;
        let text = found.to_str().map(str::to_owned);
        text.ok_or_else(|| Error::unsupported(format!("the path {} is not UTF-8", found.display())))
    }

    fn describe(&self) -> String {
        self.root.display().to_string()
    }
}

/// The lock file, and whether it can be written: readers may have no right to.
fn open_lock(full: &Path, kind: LockKind) -> io::Result<(File, bool)> {
    let writable = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(full);
    match (writable, kind) {
        (Ok(file), _) => Ok((file, true)),
        (Err(error), LockKind::Exclusive) => Err(error),
        (Err(error), LockKind::Shared) => File::open(full).map(|file| (file, false)).map_err(|_| error),
    }
}

/// Holds a lock file; closing the descriptor unlocks it.
struct FileLock {
    file: File,
    kind: LockKind,
}

impl Drop for FileLock {
    fn drop(&mut self) {
        if self.kind == LockKind::Exclusive {
            // Only a courtesy to readers of the file: the lock itself goes with the descriptor.
            let _ = self.file.set_len(0);
        }
    }
}

/// The directories that get a new name when `full` is made with its parents, innermost first.
fn parents_of_missing(full: &Path) -> Vec<&Path> {
    full.ancestors().take_while(|path| !path.exists()).filter_map(Path::parent).collect()
}

/// A directory that is open for its sync.
#[derive(Debug)]
struct LocalDirectory {
    full: PathBuf,
    opened: File,
}

impl LocalDirectory {
    fn open(full: PathBuf) -> Result<Self> {
        let failed = |error| Error::io(format_args!("open directory {}", full.display()), &error);
        // Only a directory: a sync of a file would make no name durable.
        let opened = OpenOptions::new().read(true).custom_flags(libc::O_DIRECTORY).open(&full).map_err(failed)?;
        Ok(Self { full, opened })
    }
}

impl DiskDirectory for LocalDirectory {
    fn sync(&self) -> Result<()> {
        let synced = self.opened.sync_all();
        synced.map_err(|error| Error::io(format_args!("sync directory {}", self.full.display()), &error))
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;
    use forebay_base::limits::{IO_ALIGN, READ_PIECE_BYTES};

    use super::*;
    use crate::{AlignedBuffer, ReadRequest};

    /// A file system that grants the direct descriptor, or not, and then refuses direct transfers.
    #[test]
    fn a_refused_direct_transfer_is_done_buffered() {
        let directory = tempfile::tempdir().expect("a directory");
        for mode in [IoMode::Auto, IoMode::Pread] {
            let disk = LocalDisk::open(&directory.path().join(format!("{mode:?}")), mode).expect("a disk");
            disk.create_directory("").expect("a root");
            let file = disk.open_file("f", OpenMode::Create).expect("a file");
            file.descriptors().refuse_direct();
            assert!(file.descriptors().direct().expect("no error").is_none());
            assert!(disk.io_description().ends_with(", buffered"));
            let mut page = AlignedBuffer::zeroed(IO_ALIGN);
            page.fill(3);
            file.write_direct(IO_ALIGN as u64, &page).expect("written");
            let mut requests = [0, 1].map(|_| ReadRequest { offset: 4096, buffer: AlignedBuffer::zeroed(IO_ALIGN) });
            file.read_direct(&mut requests).expect("read");
            assert!(requests.iter().all(|request| request.buffer[..] == page[..]));
        }
    }

    #[test]
    fn what_is_left_undone_is_told_by_pread() {
        for mode in [IoMode::Auto, IoMode::Pread] {
            let directory = tempfile::tempdir().expect("a directory");
            let disk = LocalDisk::open(directory.path(), mode).expect("a disk");
            let file = disk.open_file("f", OpenMode::Create).expect("a file");
            file.write_at(0, &vec![1; 3 * READ_PIECE_BYTES + 100]).expect("written");
            let mut requests = [ReadRequest { offset: 0, buffer: AlignedBuffer::zeroed(4 * READ_PIECE_BYTES) }];
            let before = disk.io_description();
            let error = file.read_direct(&mut requests).expect_err("past the end");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
            assert_eq!(disk.io_description(), before, "an unaligned end is no refusal");
            let name = directory.path().join("f").display().to_string();
            assert!(error.message().contains(&name) && error.message().contains("3145828 bytes"), "{error}");
        }
    }

    /// A power loss must not take the name of a directory that was made, however many were missing above it.
    #[test]
    fn every_new_name_above_a_directory_is_synced() {
        let directory = tempfile::tempdir().expect("a directory");
        let at = |path: &str| directory.path().join(path);
        assert_eq!(parents_of_missing(&at("a/b/c")), [at("a/b"), at("a"), directory.path().to_owned()]);
        let disk = LocalDisk::open(&at("a/b/c"), IoMode::Auto).expect("a disk");
        disk.create_directory("").expect("a root");
        assert!(at("a/b/c").is_dir() && parents_of_missing(&at("a/b/c")).is_empty());
        assert_eq!(parents_of_missing(&at("a/d")), [at("a")]);
        fs::write(at("a/file"), "").expect("a file");
        assert!(LocalDirectory::open(at("a/file")).is_err(), "only directories");
    }

    #[test]
    fn as_many_files_may_be_open_as_the_system_allows() {
        let directory = tempfile::tempdir().expect("a directory");
        LocalDisk::open(directory.path(), IoMode::Auto).expect("a disk");
        let limits = fs::read_to_string("/proc/self/limits").expect("told");
        let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("told");
        let numbers: Vec<_> = line.split_whitespace().skip(3).take(2).collect();
        assert_eq!(numbers[0], numbers[1], "{line}");
    }

    #[test]
    fn a_holder_that_died_is_not_blamed() {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = LocalDisk::open(directory.path(), IoMode::Auto).expect("a disk");
        fs::write(directory.path().join("LOCK"), "a process that was killed").expect("left behind");
        let reader = disk.lock("LOCK", LockKind::Shared, "").expect("nobody holds it");
        let message = disk.lock("LOCK", LockKind::Exclusive, "x").map(drop).expect_err("held").to_string();
        assert!(!message.contains("killed"), "{message}");
        drop(reader);
        fs::write(directory.path().join("LOCK"), "a process that was killed").expect("left behind");
        let _writer = disk.lock("LOCK", LockKind::Exclusive, "the writer").expect("nobody holds it");
        let error = disk.lock("LOCK", LockKind::Shared, "").map(drop).expect_err("held");
        let place = directory.path().join("LOCK").display().to_string();
        assert_eq!(error.message(), format!("{place} is locked by the writer"));
    }
}
