//! Files on the machine's disks: io_uring and O_DIRECT where the system allows them, pread and the page cache where not.
//!
//! Invariants: the ring only speeds up; whatever it leaves undone (short reads, errors, all of it without a ring) is done
//! by pread, which is also where errors are told. A file has a buffered descriptor, and a direct one once it is needed.
//! Must not know: the environment; who reads what.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_base::limits::{READ_PIECE_BYTES, READ_THREAD_BYTES, READ_THREADS};
use forebay_base::{Error, Result};
use parking_lot::Mutex;

use crate::path::normalize;
use crate::sys::{Ring, raise_open_files};
use crate::{
    AlignedBuffer, Disk, DiskDirectory, DiskFile, LockKind, OpenMode, ReadRequest, check_aligned, check_writable,
    locked, named_temporary, too_short,
};

/// How direct reads reach the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoMode {
    /// io_uring where it works, else pread.
    #[default]
    Auto,
    /// io_uring; an error where it is forbidden.
    Uring,
    /// pread.
    Pread,
}

/// A directory of the machine. Clones share its rings.
#[derive(Debug, Clone)]
pub struct LocalDisk {
    root: PathBuf,
    paths: Arc<IoPaths>,
}

/// Which ways to the drive are open.
#[derive(Debug)]
struct IoPaths {
    rings: Option<IdleRings>,
    /// Whether the file system was seen to refuse O_DIRECT.
    direct_refused: AtomicBool,
    direct_probed: OnceLock<()>,
}

impl LocalDisk {
    /// The directory `root`, which need not exist yet: `create_directory("")` makes it. The process may then have as many
    /// open files as the system lets it.
    ///
    /// # Errors
    /// With [`IoMode::Uring`], if the system forbids io_uring.
    pub fn open(root: &Path, mode: IoMode) -> Result<Self> {
        let root =
            std::path::absolute(root).map_err(|error| Error::io(format_args!("open {}", root.display()), &error))?;
        raise_open_files();
        let rings = match (mode, IdleRings::open()) {
            (IoMode::Pread, _) | (IoMode::Auto, Err(_)) => None,
            (_, Ok(rings)) => Some(rings),
            (IoMode::Uring, Err(error)) => {
                let hint = "Allow the io_uring system calls (containers often forbid them), or choose pread";
                return Err(Error::unsupported(format!("io_uring does not work here: {error}")).hint(hint));
            }
        };
        let direct_refused = AtomicBool::new(false);
        let paths = IoPaths { rings, direct_refused, direct_probed: OnceLock::new() };
        Ok(Self { root, paths: Arc::new(paths) })
    }

    /// How direct reads are done: `io_uring, O_DIRECT`, `pread, O_DIRECT` or `pread, buffered`.
    pub fn io_description(&self) -> String {
        self.paths.direct_probed.get_or_init(|| self.probe_direct());
        let text = match (self.paths.direct_refused.load(Ordering::Relaxed), &self.paths.rings) {
            (true, _) => "pread, buffered",
            (false, Some(_)) => "io_uring, O_DIRECT",
            (false, None) => "pread, O_DIRECT",
        };
        text.to_owned()
    }

    /// Asks the file system with a file that never gets a name. Where that cannot be made, files find out on their own.
    fn probe_direct(&self) {
        let unnamed =
            OpenOptions::new().read(true).write(true).custom_flags(libc::O_TMPFILE | libc::O_DIRECT).open(&self.root);
        if unnamed.is_err_and(|error| error.raw_os_error() == Some(libc::EINVAL)) {
            self.paths.direct_refused.store(true, Ordering::Relaxed);
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
        LocalFile {
            path: path.to_owned(),
            place,
            mode,
            buffered,
            direct: OnceLock::new(),
            direct_refused: AtomicBool::new(false),
            paths: Arc::clone(&self.paths),
        }
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

/// A file with its two descriptors.
#[derive(Debug)]
struct LocalFile {
    path: String,
    /// The full path, for messages.
    place: String,
    mode: OpenMode,
    buffered: File,
    direct: OnceLock<Option<File>>,
    /// Whether a direct transfer was refused after the descriptor was granted.
    direct_refused: AtomicBool,
    paths: Arc<IoPaths>,
}

impl DiskFile for LocalFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.buffered.read_exact_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(too_short(&self.place, offset, buffer.len(), self.len()?))
            }
            outcome => outcome.map_err(|error| self.failed("read", buffer.len(), offset, &error)),
        }
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_writable(&self.place, self.mode)?;
        self.buffered.write_all_at(bytes, offset).map_err(|error| self.failed("write", bytes.len(), offset, &error))
    }

    fn read_direct(&self, requests: &mut [ReadRequest]) -> Result<()> {
        for request in requests.iter() {
            check_aligned(&self.place, request.offset, request.buffer.len())?;
        }
        let mut read_bytes = match (&self.paths.rings, self.direct()?) {
            (Some(rings), Some(direct)) => rings.read(direct, requests).map_err(|error| {
                Error::io(format_args!("wait for {} reads of {}", requests.len(), self.place), &error)
            })?,
            _ => Vec::new(),
        }
        .into_iter();
        let mut missing = Vec::new();
        for request in requests.iter_mut() {
            let mut offset = request.offset;
            for piece in request.buffer.chunks_mut(READ_PIECE_BYTES) {
                let (len, done) = (piece.len(), read_bytes.next().unwrap_or(0));
                if done < len {
                    missing.push((offset + done as u64, &mut piece[done..]));
                }
                offset += len as u64;
            }
        }
        self.read_missing(missing)
    }

    fn write_direct(&self, offset: u64, buffer: &AlignedBuffer) -> Result<()> {
        check_writable(&self.place, self.mode)?;
        check_aligned(&self.place, offset, buffer.len())?;
        if let Some(direct) = self.direct()? {
            match direct.write_all_at(buffer, offset) {
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.refuse_direct(),
                outcome => return outcome.map_err(|error| self.failed("write", buffer.len(), offset, &error)),
            }
        }
        self.write_at(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        self.buffered.sync_data().map_err(|error| Error::io(format_args!("sync {}", self.place), &error))
    }

    fn len(&self) -> Result<u64> {
        let metadata = self.buffered.metadata();
        Ok(metadata.map_err(|error| Error::io(format_args!("find the length of {}", self.place), &error))?.len())
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        check_writable(&self.place, self.mode)?;
        let changed = self.buffered.set_len(bytes);
        changed.map_err(|error| Error::io(format_args!("set the length of {} to {bytes}", self.place), &error))
    }

    fn path(&self) -> &str {
        &self.path
    }
}

impl LocalFile {
    /// The descriptor for direct transfers; `None` where the file system refuses them. It is opened through the buffered
    /// one: the file may have been renamed or removed meanwhile.
    fn direct(&self) -> Result<Option<&File>> {
        if self.direct_refused.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(direct) = self.direct.get() {
            return Ok(direct.as_ref());
        }
        let mut options = OpenOptions::new();
        options.read(true).write(self.mode != OpenMode::Read).custom_flags(libc::O_DIRECT);
        let opened = match options.open(format!("/proc/self/fd/{}", self.buffered.as_raw_fd())) {
            Ok(direct) => Some(direct),
            // EINVAL: no O_DIRECT on this file system. ENOENT: no /proc.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                self.refuse_direct();
                None
            }
            Err(error) => return Err(Error::io(format_args!("open {} for direct access", self.place), &error)),
        };
        Ok(self.direct.get_or_init(|| opened).as_ref())
    }

    fn refuse_direct(&self) {
        self.direct_refused.store(true, Ordering::Relaxed);
        self.paths.direct_refused.store(true, Ordering::Relaxed);
    }

    /// Reads `(offset, piece)`s with pread, by several threads at once where there is enough to read.
    fn read_missing(&self, mut pieces: Vec<(u64, &mut [u8])>) -> Result<()> {
        let bytes: usize = pieces.iter().map(|(_, piece)| piece.len()).sum();
        let threads = (bytes / READ_THREAD_BYTES).min(READ_THREADS).min(pieces.len());
        if threads < 2 {
            return pieces.iter_mut().try_for_each(|(offset, piece)| self.read_piece(*offset, piece));
        }
        let queue = Mutex::new(pieces.into_iter());
        let drain = || {
            loop {
                let Some((offset, piece)) = queue.lock().next() else { return Ok(()) };
                self.read_piece(offset, piece)?;
            }
        };
        std::thread::scope(|scope| {
            let others: Vec<_> = (1..threads).map(|_| std::thread::Builder::new().spawn_scoped(scope, drain)).collect();
            let mut outcome = drain();
            // A thread that could not be started leaves its share to the others.
            for other in others.into_iter().flatten() {
                outcome = outcome.and(other.join().expect("reading does not panic"));
            }
            outcome
        })
    }

    /// One direct read; what it leaves, for example the unaligned rest before the end of the file, is read buffered.
    fn read_piece(&self, offset: u64, piece: &mut [u8]) -> Result<()> {
        let mut done = 0;
        if check_aligned(&self.place, offset, piece.len()).is_ok()
            && let Some(direct) = self.direct()?
        {
            match direct.read_at(piece, offset) {
                Ok(read_bytes) => done = read_bytes,
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.refuse_direct(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", piece.len(), offset, &error)),
            }
        }
        self.read_at(offset + done as u64, &mut piece[done..])
    }

    fn failed(&self, verb: &str, len: usize, offset: u64, error: &io::Error) -> Error {
        Error::io(format_args!("{verb} {len} bytes at {offset} of {}", self.place), error)
    }
}

/// Rings that no thread uses at the moment. There are as many as threads ever read at once.
struct IdleRings {
    idle: Mutex<Vec<Ring>>,
}

impl IdleRings {
    fn open() -> io::Result<Self> {
        Ok(Self { idle: Mutex::new(vec![Ring::new()?]) })
    }

    /// Bytes read per piece; empty if no further ring can be had, which leaves all to pread.
    fn read(&self, file: &File, requests: &mut [ReadRequest]) -> io::Result<Vec<usize>> {
        let idle = self.idle.lock().pop();
        let Some(mut ring) = idle.or_else(|| Ring::new().ok()) else { return Ok(Vec::new()) };
        let read_bytes = ring.read(file, requests)?;
        self.idle.lock().push(ring);
        Ok(read_bytes)
    }
}

impl std::fmt::Debug for IdleRings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("IdleRings").field("count", &self.idle.lock().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use forebay_base::ErrorKind;
    use forebay_base::limits::IO_ALIGN;

    use super::*;

    /// A file system that grants the direct descriptor, or not, and then refuses direct transfers.
    #[test]
    fn a_refused_direct_transfer_is_done_buffered() {
        let directory = tempfile::tempdir().expect("a directory");
        for mode in [IoMode::Auto, IoMode::Pread] {
            let disk = LocalDisk::open(&directory.path().join(format!("{mode:?}")), mode).expect("a disk");
            disk.create_directory("").expect("a root");
            let file = disk.open_file("f", OpenMode::Create).expect("a file");
            file.refuse_direct();
            assert!(file.direct().expect("no error").is_none());
            assert_eq!(disk.io_description(), "pread, buffered");
            let mut page = AlignedBuffer::zeroed(IO_ALIGN);
            page.fill(3);
            file.write_direct(IO_ALIGN as u64, &page).expect("written");
            let mut requests = [0, 1].map(|_| ReadRequest { offset: 4096, buffer: AlignedBuffer::zeroed(IO_ALIGN) });
            file.read_direct(&mut requests).expect("read");
            assert!(requests.iter().all(|request| request.buffer[..] == page[..]));
        }
    }

    #[test]
    fn what_a_ring_leaves_undone_is_told_by_pread() {
        let directory = tempfile::tempdir().expect("a directory");
        let disk = LocalDisk::open(directory.path(), IoMode::Auto).expect("a disk");
        let file = disk.open_file("f", OpenMode::Create).expect("a file");
        file.write_at(0, &vec![1; 3 * READ_PIECE_BYTES + 100]).expect("written");
        let mut requests = [ReadRequest { offset: 0, buffer: AlignedBuffer::zeroed(4 * READ_PIECE_BYTES) }];
        let error = file.read_direct(&mut requests).expect_err("past the end");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let name = directory.path().join("f").display().to_string();
        assert!(error.message().contains(&name) && error.message().contains("3145828 bytes"), "{error}");
        assert!(!file.direct_refused.load(Ordering::Relaxed), "an unaligned end is no refusal");
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
