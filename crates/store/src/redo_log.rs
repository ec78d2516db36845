//! The redo log: what commits since the last checkpoint have changed of the manifest, in files beside it (`docs/format.md`, "Redo log").
//!
//! A file is written by one process, from its start to its end, in *frames*: what one write brought, which is one commit or several that
//! were waiting. A frame says which ones before it were durable when it was written. So a reader tells what a power loss leaves, frames at
//! the end that nobody was promised, from damage.
//! Invariants: a file's header and name are durable before its first frame is written; bytes of a failed write are cut off, durably, before
//! anything else happens. Must not know: what records say.

use std::sync::Arc;

use forebay_base::checksum::crc32c;
use forebay_base::{Context, Error, ErrorKind, Result};
use forebay_disk::{Disk, DiskFile, OpenMode};

use crate::outcome::Outcome;
use crate::serial::{Reader, Writer, numbered};
use crate::volume::Volume;

/// First bytes of a file.
pub(crate) const REDO_MAGIC: [u8; 8] = *b"FBAYREDO";
/// Layout of the file.
pub(crate) const REDO_VERSION: u32 = 2;
/// The oldest one that is read.
pub(crate) const REDO_VERSION_OLDEST: u32 = 1;
/// Bytes of the header: magic, version, number, checksum.
const REDO_FIELDS_BYTES: usize = 24;
/// Where the first frame begins.
pub(crate) const REDO_HEADER_BYTES: u64 = 4096;
/// First bytes of a frame.
pub(crate) const REDO_FRAME_MAGIC: [u8; 4] = *b"FBRF";
/// Bytes in front of a frame's records: magic, checksum, length, zero, number of the log, sequence, durable frames.
pub(crate) const REDO_FRAME_BYTES: usize = 40;
/// Frames begin at multiples of this.
pub(crate) const REDO_FRAME_ALIGN: usize = 8;

/// The file is filled with zeros ahead of its frames in steps as long as it is, between these: a sync of bytes within a file is one write
/// less than that of a longer file.
const FILLED_BYTES_LEAST: u64 = 16 << 10;
const FILLED_BYTES_MOST: u64 = 1 << 20;
/// A longer file is not believed.
const FILE_MAX_BYTES: u64 = 4 << 30;

/// Beginning and end of the names of files.
const NAME_PREFIX: &str = "redo-";
const NAME_SUFFIX: &str = ".log";

/// The name of the file of this number.
pub(crate) fn redo_path(number: u64) -> String {
    format!("{NAME_PREFIX}{number:010}{NAME_SUFFIX}")
}

/// Whether this is the name of a file of the log.
pub(crate) fn is_redo_log(name: &str) -> bool {
    number_in(name).is_some()
}

fn number_in(name: &str) -> Option<u64> {
    let digits = name.strip_prefix(NAME_PREFIX)?.strip_suffix(NAME_SUFFIX)?;
    digits.parse().ok().filter(|number| redo_path(*number) == *name)
}

/// Numbers of the files in the folder of a database, ascending.
fn numbers(disk: &dyn Disk) -> Result<Vec<u64>> {
    let mut numbers: Vec<u64> = disk.list("")?.iter().filter_map(|name| number_in(name)).collect();
    numbers.sort_unstable();
    Ok(numbers)
}

/// A file that takes frames.
#[derive(Debug)]
pub(crate) struct RedoLog {
    file: Arc<dyn DiskFile>,
    number: u64,
    /// Where the next frame goes.
    end: u64,
    /// Where the zeros behind it end.
    filled: u64,
    frames: u64,
    durable_frames: u64,
}

impl RedoLog {
    /// Makes the file, which must not exist; it and its name are durable. Where making it fails, no commit is in doubt.
    pub(crate) fn create(volume: &Volume, number: u64) -> Result<Self> {
        let path = redo_path(number);
        let file = volume.disk.open(&path, OpenMode::Create)?;
        let filled = REDO_HEADER_BYTES + FILLED_BYTES_LEAST;
        let mut bytes = header(number);
        bytes.resize(filled as usize, 0);
        if let Err(error) = file.write_at(0, &bytes) {
            let _empty_files_are_passed_over = volume.disk.remove(&path);
            return Err(error);
        }
        let synced = file.sync().and_then(|()| volume.disk.sync_directory(""));
        synced.inspect_err(|error| volume.fail(error))?;
        Ok(Self { file, number, end: REDO_HEADER_BYTES, filled, frames: 0, durable_frames: 0 })
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.end
    }

    /// The file, for who makes it durable as far as it is, beside others.
    pub(crate) fn file(&self) -> Arc<dyn DiskFile> {
        Arc::clone(&self.file)
    }

    /// The file's name.
    pub(crate) fn path(&self) -> String {
        redo_path(self.number)
    }

    /// Writes records behind the others, in one frame; durable after [`RedoLog::sync`].
    pub(crate) fn append<'r>(&mut self, records: impl Iterator<Item = &'r [u8]> + Clone) -> Outcome {
        let mut bytes = frame(self.number, self.frames, self.durable_frames, records);
        let (end, frame_bytes) = (self.end + bytes.len() as u64, bytes.len());
        if end > self.filled {
            let filled = end + end.clamp(FILLED_BYTES_LEAST, FILLED_BYTES_MOST);
            bytes.resize((filled - self.end) as usize, 0);
        }
        match self.write(&bytes) {
            // There may be room for the frame alone.
            Outcome::Failed(error) if error.kind() == ErrorKind::OutOfSpace && bytes.len() > frame_bytes => {
                bytes.truncate(frame_bytes);
                match self.write(&bytes) {
                    Outcome::Committed => {}
                    other => return other,
                }
            }
            Outcome::Committed => {}
            other => return other,
        }
        self.filled = self.filled.max(self.end + bytes.len() as u64);
        self.end = end;
        self.frames += 1;
        Outcome::Committed
    }

    /// Writes at the end. Where that fails, nothing of it is left.
    fn write(&mut self, bytes: &[u8]) -> Outcome {
        let Err(error) = self.file.write_at(self.end, bytes) else { return Outcome::Committed };
        // What of it has reached the file must not come to life later.
        let cut = self.file.set_len(self.end).and_then(|()| self.file.sync());
        self.filled = self.end;
        if cut.is_err() {
            return Outcome::Unknown(error);
        }
        self.durable_frames = self.frames;
        Outcome::Failed(error)
    }

    /// Whether there are frames that are not durable.
    pub(crate) fn has_unsynced(&self) -> bool {
        self.durable_frames < self.frames
    }

    /// Makes all frames durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        self.file.sync()?;
        self.durable_frames = self.frames;
        Ok(())
    }
}

fn header(number: u64) -> Vec<u8> {
    numbered(&REDO_MAGIC, REDO_VERSION, number)
}

/// A frame with these records.
pub(crate) fn frame<'r>(
    number: u64,
    sequence: u64,
    durable: u64,
    records: impl Iterator<Item = &'r [u8]> + Clone,
) -> Vec<u8> {
    /// Where the bytes begin that the checksum is of.
    const CHECKED: usize = REDO_FRAME_MAGIC.len() + size_of::<u32>();
    let length: usize = records.clone().map(<[u8]>::len).sum();
    let mut frame = Writer::with_capacity((REDO_FRAME_BYTES + length).next_multiple_of(REDO_FRAME_ALIGN));
    frame.bytes.extend_from_slice(&REDO_FRAME_MAGIC);
    frame.u32(0);
    frame.count(length);
    frame.u32(0);
    frame.u64(number);
    frame.u64(sequence);
    frame.u64(durable);
    records.for_each(|record| frame.bytes.extend_from_slice(record));
    let checksum = crc32c(&frame.bytes[CHECKED..]);
    frame.bytes[REDO_FRAME_MAGIC.len()..CHECKED].copy_from_slice(&checksum.to_le_bytes());
    frame.bytes.resize(frame.bytes.len().next_multiple_of(REDO_FRAME_ALIGN), 0);
    frame.bytes
}

/// What was cut off behind the last commit that is whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CutTail {
    /// Name of the file in the database's folder.
    pub file: String,
    /// Where it was cut.
    pub offset: u64,
    /// Bytes that are no part of a commit, up to the last one that is not zero.
    pub bytes: u64,
}

/// A file as it was found.
#[derive(Debug)]
pub(crate) struct FoundLog {
    pub(crate) path: String,
    /// Its bytes up to the end of the last frame that counts; no byte where not even the header is whole.
    pub(crate) bytes: Vec<u8>,
    /// The frames.
    pub(crate) frames: Vec<FoundFrame>,
    pub(crate) cut: Option<CutTail>,
}

/// A frame that was found.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FoundFrame {
    pub(crate) offset: usize,
    /// Bytes of its records.
    length: usize,
}

impl FoundLog {
    /// The records of a frame.
    pub(crate) fn records(&self, frame: FoundFrame) -> &[u8] {
        let first = frame.offset + REDO_FRAME_BYTES;
        &self.bytes[first..first + frame.length]
    }

    /// Writes what counts of the file again, and cuts what does not: a program that was killed, or whose sync failed, may have left what is
    /// in the page cache only, and a sync would not write that.
    pub(crate) fn make_durable(&self, disk: &dyn Disk) -> Result<()> {
        let file = disk.open(&self.path, OpenMode::Write)?;
        file.write_at(0, &self.bytes)?;
        file.set_len(self.bytes.len() as u64)?;
        file.sync()
    }
}

/// All files of the log, the oldest first.
///
/// # Errors
/// `Corrupt` with file and offset where something is damaged that was durable; `Version` for a log of a newer program.
pub(crate) fn read_logs(disk: &dyn Disk) -> Result<Vec<FoundLog>> {
    let read =
        |number: u64| read_log(disk, number).context(|| format!("file {} of {}", redo_path(number), disk.describe()));
    numbers(disk)?.into_iter().map(read).collect()
}

fn read_log(disk: &dyn Disk, number: u64) -> Result<FoundLog> {
    let path = redo_path(number);
    let file = disk.open(&path, OpenMode::Read)?;
    let length = file.len()?;
    if length > FILE_MAX_BYTES {
        return Err(Error::corrupt(format!("a redo log of {length} bytes is not credible")));
    }
    let mut bytes = vec![0; length as usize];
    file.read_at(0, &mut bytes)?;
    let mut frames = Vec::new();
    let mut end = 0;
    match check_header(&bytes, number) {
        Ok(()) => end = REDO_HEADER_BYTES as usize,
        Err(error) if error.kind() == ErrorKind::Version => return Err(error),
        // A power loss while the file was made leaves no frames in it.
        Err(error) if later_frame(&bytes, 0, number, None).is_some() => return Err(error),
        Err(_) => {}
    }
    while end > 0
        && let Some(found) = parse_frame(&bytes, end, number).filter(|found| found.sequence == frames.len() as u64)
    {
        frames.push(FoundFrame { offset: end, length: found.length });
        end = (end + REDO_FRAME_BYTES + found.length).next_multiple_of(REDO_FRAME_ALIGN).min(bytes.len());
    }
    if let Some(later) = later_frame(&bytes, end, number, Some(frames.len() as u64)) {
        let message = format!("the redo log is damaged at {end}: commits that were durable come behind, at {later}");
        return Err(Error::corrupt(message).hint("Restore the directory from a backup"));
    }
    let tail = bytes[end..].iter().rposition(|byte| *byte != 0).map(|last| last as u64 + 1);
    let cut = tail.map(|bytes| CutTail { file: path.clone(), offset: end as u64, bytes });
    bytes.truncate(end);
    Ok(FoundLog { path, bytes, frames, cut })
}

fn check_header(bytes: &[u8], number: u64) -> Result<()> {
    let head = bytes.get(..REDO_FIELDS_BYTES).unwrap_or_default();
    let mut reader = Reader::new(head, "the header of the redo log");
    let magic = reader.take(REDO_MAGIC.len())?;
    let (version, of_file, crc) = (reader.u32()?, reader.u64()?, reader.u32()?);
    if magic != REDO_MAGIC || crc != crc32c(&head[..REDO_FIELDS_BYTES - size_of::<u32>()]) {
        return Err(reader.wrong("magic or checksum do not match"));
    }
    if !(REDO_VERSION_OLDEST..=REDO_VERSION).contains(&version) {
        let message = format!(
            "the redo log was written by a newer Forebay (version {version}, this program reads {REDO_VERSION_OLDEST} to {REDO_VERSION})"
        );
        return Err(Error::new(ErrorKind::Version, message).hint("Upgrade Forebay"));
    }
    if of_file != number || (bytes.len() as u64) < REDO_HEADER_BYTES {
        return Err(reader.wrong("the file has another name than it says, or is cut"));
    }
    Ok(())
}

/// What the head of a frame says.
struct FrameHead {
    length: usize,
    sequence: u64,
    durable: u64,
}

/// The frame that begins there, if one does.
fn parse_frame(bytes: &[u8], at: usize, number: u64) -> Option<FrameHead> {
    let bytes = &bytes[at.min(bytes.len())..];
    let mut reader = Reader::new(bytes, "a frame");
    let is_frame = reader.take(REDO_FRAME_MAGIC.len()).ok()? == REDO_FRAME_MAGIC;
    let (crc, length, zero) = (reader.u32().ok()?, reader.u32().ok()? as usize, reader.u32().ok()?);
    let (of_log, sequence, durable) = (reader.u64().ok()?, reader.u64().ok()?, reader.u64().ok()?);
    reader.take(length).ok()?;
    let checked = &bytes[REDO_FRAME_MAGIC.len() + size_of::<u32>()..REDO_FRAME_BYTES + length];
    let is_sound = is_frame && zero == 0 && of_log == number && durable <= sequence && crc32c(checked) == crc;
    is_sound.then_some(FrameHead { length, sequence, durable })
}

/// Where a sound frame begins behind `at`, which says that the frame `missing` was durable; any sound frame where none is said to miss.
fn later_frame(bytes: &[u8], at: usize, number: u64, missing: Option<u64>) -> Option<usize> {
    let first = at.next_multiple_of(REDO_FRAME_ALIGN);
    let is_later = |place: &usize| {
        bytes[*place..].starts_with(&REDO_FRAME_MAGIC)
            && parse_frame(bytes, *place, number)
                .is_some_and(|found| missing.is_none_or(|missing| found.durable > missing && found.sequence > missing))
    };
    (first..bytes.len()).step_by(REDO_FRAME_ALIGN).find(is_later)
}
