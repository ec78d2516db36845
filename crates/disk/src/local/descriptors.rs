//! The two descriptors of a file, and how pread and pwrite go through them.
//!
//! Invariant: what the file system refuses to do directly is done through the page cache, and is not asked for again.
//! Must not know: the disk, and what keeps reads in flight.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use forebay_base::{Error, Result};

use crate::sys::Piece;
use crate::{AlignedBuffer, OpenMode, ReadPath, check_aligned, check_writable, too_short};

/// An open file.
#[derive(Debug)]
pub(super) struct Descriptors {
    /// The full path, for messages.
    place: String,
    mode: OpenMode,
    buffered: Arc<File>,
    direct: OnceLock<Option<Arc<File>>>,
    /// Whether a direct transfer was refused, perhaps after the descriptor was granted.
    direct_refused: AtomicBool,
    /// Whether that was seen with any file of the disk.
    disk_refused: Arc<AtomicBool>,
}

impl Descriptors {
    pub(super) fn new(place: String, mode: OpenMode, buffered: File, disk_refused: Arc<AtomicBool>) -> Self {
        let direct_refused = AtomicBool::new(false);
        Self { place, mode, buffered: Arc::new(buffered), direct: OnceLock::new(), direct_refused, disk_refused }
    }

    pub(super) fn place(&self) -> &str {
        &self.place
    }

    pub(super) fn buffered(&self) -> &Arc<File> {
        &self.buffered
    }

    /// The descriptor for direct transfers; `None` where the file system refuses them. It is opened through the buffered
    /// one: the file may have been renamed or removed meanwhile.
    pub(super) fn direct(&self) -> Result<Option<&Arc<File>>> {
        if self.direct_refused.load(Ordering::Relaxed) {
            return Ok(None);
        }
        if let Some(direct) = self.direct.get() {
            return Ok(direct.as_ref());
        }
        let mut options = OpenOptions::new();
        options.read(true).write(self.mode != OpenMode::Read).custom_flags(libc::O_DIRECT);
        let opened = match options.open(format!("/proc/self/fd/{}", self.buffered.as_raw_fd())) {
            Ok(direct) => Some(Arc::new(direct)),
            // EINVAL: no O_DIRECT on this file system. ENOENT: no /proc.
            Err(error) if matches!(error.raw_os_error(), Some(libc::EINVAL | libc::ENOENT)) => {
                self.refuse_direct();
                None
            }
            Err(error) => return Err(Error::io(format_args!("open {} for direct access", self.place), &error)),
        };
        Ok(self.direct.get_or_init(|| opened).as_ref())
    }

    pub(super) fn refuse_direct(&self) {
        self.direct_refused.store(true, Ordering::Relaxed);
        self.disk_refused.store(true, Ordering::Relaxed);
    }

    pub(super) fn len(&self) -> Result<u64> {
        let metadata = self.buffered.metadata();
        Ok(metadata.map_err(|error| Error::io(format_args!("find the length of {}", self.place), &error))?.len())
    }

    pub(super) fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        match self.buffered.read_exact_at(buffer, offset) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(too_short(&self.place, offset, buffer.len(), self.len()?))
            }
            outcome => outcome.map_err(|error| self.failed("read", buffer.len(), offset, &error)),
        }
    }

    /// Fills all of `piece` with one read by `path`; what that leaves, for example the unaligned rest before the end of
    /// the file, is read buffered.
    pub(super) fn read_piece(&self, piece: &mut Piece, path: ReadPath) -> Result<()> {
        let (offset, len) = (piece.offset(), piece.len());
        if path == ReadPath::Direct
            && check_aligned(&self.place, offset, len).is_ok()
            && let Some(direct) = self.direct()?
        {
            match direct.read_at(piece.bytes_mut(), offset) {
                Ok(read_bytes) => piece.advance(read_bytes),
                Err(error) if error.raw_os_error() == Some(libc::EINVAL) => self.refuse_direct(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.failed("read", len, offset, &error)),
            }
        }
        self.read_at(piece.offset(), piece.bytes_mut())?;
        piece.advance(piece.len());
        Ok(())
    }

    pub(super) fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        check_writable(&self.place, self.mode)?;
        self.buffered.write_all_at(bytes, offset).map_err(|error| self.failed("write", bytes.len(), offset, &error))
    }

    pub(super) fn write_direct(&self, offset: u64, buffer: &AlignedBuffer) -> Result<()> {
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

    pub(super) fn sync(&self) -> Result<()> {
        self.buffered.sync_data().map_err(|error| Error::io(format_args!("sync {}", self.place), &error))
    }

    pub(super) fn set_len(&self, bytes: u64) -> Result<()> {
        check_writable(&self.place, self.mode)?;
        let changed = self.buffered.set_len(bytes);
        changed.map_err(|error| Error::io(format_args!("set the length of {} to {bytes}", self.place), &error))
    }

    fn failed(&self, verb: &str, len: usize, offset: u64, error: &io::Error) -> Error {
        Error::io(format_args!("{verb} {len} bytes at {offset} of {}", self.place), error)
    }
}
