//! Records that are worth keeping and of which none is needed, such as which queries were run: a file of its own beside the
//! manifest, and the one before it. `docs/format.md`, "Record log".
//!
//! Records are gathered in memory and written now and then, without a sync: a crash may cut off the last ones. When a file is full it
//! takes the place of the one before, so that the oldest go first. Invariants: nothing here ever fails who uses it, nor waits for
//! the disk; what a reader is given has the checksum that it was written with; a database that is open for reading only is not
//! written to. Must not know: what records say.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forebay_base::checksum::crc32c;
use forebay_base::{ErrorKind, Result, limits};
use forebay_disk::{Disk, DiskFile, OpenMode};

use crate::serial::{Reader, Writer};
use crate::volume::{Volume, locked};

/// The file that takes records.
pub(crate) const LOG_PATH: &str = "queries.log";
/// The one before it.
pub(crate) const LOG_OLD_PATH: &str = "queries.old.log";
/// First bytes of such a file.
pub(crate) const LOG_MAGIC: [u8; 8] = *b"FBAYRECS";
/// Layout of the file.
pub(crate) const LOG_VERSION: u32 = 1;
/// Bytes in front of the first record: magic, version, checksum of both.
pub(crate) const LOG_HEADER_BYTES: usize = 16;
/// First bytes of a record: who reads a damaged file finds the next one by them.
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"FBQR";
/// Bytes in front of a record's content: magic, length, checksum.
pub(crate) const RECORD_HEADER_BYTES: usize = 12;

/// Bytes that are gathered before they are written.
const GATHERED_BYTES: usize = 32 << 10;
/// How long a record waits for others.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The log of a database.
#[derive(Debug)]
pub struct RecordLog {
    /// Whose lock outlives the last write.
    volume: Arc<Volume>,
    is_written: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The file, once something was written to it, and its length.
    file: Option<(Arc<dyn DiskFile>, u64)>,
    /// Records that are not written yet.
    gathered: Vec<u8>,
    written: Instant,
}

impl RecordLog {
    /// The log in the directory of a database; of one that is open for reading only, what others wrote and what is added in memory.
    pub(crate) fn new(volume: Arc<Volume>, is_written: bool) -> Self {
        let state = State { file: None, gathered: Vec::new(), written: Instant::now() };
        Self { volume, is_written, state: Mutex::new(state) }
    }

    /// Adds a record. One of more than [`limits::LOG_RECORD_BYTES`] is left out.
    pub fn append(&self, content: &[u8]) {
        if content.len() > limits::LOG_RECORD_BYTES {
            return;
        }
        let mut state = locked(&self.state);
        state.gathered.extend_from_slice(&record(content));
        if state.gathered.len() >= GATHERED_BYTES || state.written.elapsed() >= LONGEST_WAIT {
            self.write(&mut state);
        }
    }

    /// Writes what was gathered.
    pub fn flush(&self) {
        self.write(&mut locked(&self.state));
    }

    /// All records that are whole, the oldest first.
    pub fn read(&self) -> Vec<Vec<u8>> {
        let mut state = locked(&self.state);
        self.write(&mut state);
        let mut records = Vec::new();
        for path in [LOG_OLD_PATH, LOG_PATH] {
            // What cannot be read is not there.
            if let Ok(bytes) = content_of(&*self.volume.disk, path) {
                add_records(&bytes, &mut records);
            }
        }
        add_records(&state.gathered, &mut records);
        records
    }

    fn write(&self, state: &mut State) {
        state.written = Instant::now();
        if !self.is_written {
            keep_last(&mut state.gathered);
            return;
        }
        if state.gathered.is_empty() {
            return;
        }
        let gathered = std::mem::take(&mut state.gathered);
        // Records that cannot be written are lost: nobody needs them. The file is looked at anew then.
        state.file = self.written(state.file.take(), &gathered).ok();
    }

    /// Writes records behind those of the file, or of the next one where that is full.
    fn written(&self, file: Option<(Arc<dyn DiskFile>, u64)>, records: &[u8]) -> Result<(Arc<dyn DiskFile>, u64)> {
        let disk = &*self.volume.disk;
        let (mut file, mut end) = match file {
            Some(open) => open,
            None => open(disk)?,
        };
        if end > LOG_HEADER_BYTES as u64 && end + records.len() as u64 > limits::LOG_FILE_BYTES as u64 {
            drop(file);
            disk.rename(LOG_PATH, LOG_OLD_PATH)?;
            (file, end) = create(disk)?;
        }
        file.write_at(end, records)?;
        Ok((file, end + records.len() as u64))
    }
}

impl Drop for RecordLog {
    fn drop(&mut self) {
        self.flush();
    }
}

/// Leaves the last records of those in memory, as many as a file has.
fn keep_last(gathered: &mut Vec<u8>) {
    if gathered.len() > limits::LOG_FILE_BYTES {
        let mut first = gathered.len() - limits::LOG_FILE_BYTES / 2;
        while first < gathered.len() && !gathered[first..].starts_with(&RECORD_MAGIC) {
            first += 1;
        }
        gathered.drain(..first);
    }
}

fn header() -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&LOG_MAGIC);
    writer.u32(LOG_VERSION);
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes
}

fn record(content: &[u8]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&RECORD_MAGIC);
    writer.count(content.len());
    writer.u32(crc32c(content));
    writer.bytes.extend_from_slice(content);
    writer.bytes
}

/// The file, with its length. One that is none of ours, or of another layout, becomes the one before.
fn open(disk: &dyn Disk) -> Result<(Arc<dyn DiskFile>, u64)> {
    let file = match disk.open(LOG_PATH, OpenMode::Write) {
        Err(error) if error.kind() == ErrorKind::NotFound => return create(disk),
        opened => opened?,
    };
    let (end, expected) = (file.len()?, header());
    // Of a crash just behind its making.
    if end < expected.len() as u64 {
        file.write_at(0, &expected)?;
        return Ok((file, expected.len() as u64));
    }
    let mut first = vec![0; expected.len()];
    if file.read_at(0, &mut first).is_ok() && first == expected {
        return Ok((file, end));
    }
    drop(file);
    disk.rename(LOG_PATH, LOG_OLD_PATH)?;
    create(disk)
}

fn create(disk: &dyn Disk) -> Result<(Arc<dyn DiskFile>, u64)> {
    let (file, header) = (disk.open(LOG_PATH, OpenMode::Create)?, header());
    file.write_at(0, &header)?;
    Ok((file, header.len() as u64))
}

/// The bytes of a file behind its header.
fn content_of(disk: &dyn Disk, path: &str) -> Result<Vec<u8>> {
    let file = disk.open(path, OpenMode::Read)?;
    // One batch of records may go beyond the limit, and a foreign file may be of any length.
    let bytes = file.len()?.min(2 * limits::LOG_FILE_BYTES as u64) as usize;
    let (mut content, expected) = (vec![0; bytes], header());
    file.read_at(0, &mut content)?;
    Ok(content.strip_prefix(expected.as_slice()).map(<[u8]>::to_vec).unwrap_or_default())
}

/// Adds the records that are whole; what is damaged is passed over up to the next one.
fn add_records(bytes: &[u8], records: &mut Vec<Vec<u8>>) {
    let mut at = 0;
    while at < bytes.len() {
        match whole_record(&bytes[at..]) {
            Some(content) => {
                records.push(content.to_vec());
                at += RECORD_HEADER_BYTES + content.len();
            }
            None => {
                let next = bytes[at + 1..].windows(RECORD_MAGIC.len()).position(|four| four == RECORD_MAGIC);
                at = next.map_or(bytes.len(), |next| at + 1 + next);
            }
        }
    }
}

/// The content of the record that bytes begin with.
fn whole_record(bytes: &[u8]) -> Option<&[u8]> {
    let mut reader = Reader::new(bytes, "a record");
    let mut read = || -> Result<(bool, &[u8], u32)> {
        let is_ours = reader.take(RECORD_MAGIC.len())? == RECORD_MAGIC;
        let (length, crc) = (reader.u32()? as usize, reader.u32()?);
        Ok((is_ours, reader.take(length)?, crc))
    };
    let (is_ours, content, crc) = read().ok()?;
    (is_ours && crc32c(content) == crc).then_some(content)
}

#[cfg(test)]
mod tests {
    use forebay_disk::MemoryDisk;

    use super::*;
    use crate::{OpenMode as StoreMode, Store};

    fn store(disk: &Arc<MemoryDisk>, mode: StoreMode) -> Store {
        let disk: Arc<dyn Disk> = Arc::<MemoryDisk>::clone(disk);
        Store::open(disk, mode, "a test").expect("opens")
    }

    fn numbers(log: &RecordLog) -> Vec<u32> {
        let number = |record: Vec<u8>| u32::from_le_bytes(record[..4].try_into().expect("four bytes"));
        log.read().into_iter().map(number).collect()
    }

    #[test]
    fn records_are_there_at_once_and_after_opening() {
        let disk = Arc::new(MemoryDisk::new());
        let log = store(&disk, StoreMode::ReadWrite).record_log();
        assert_eq!(log.read(), Vec::<Vec<u8>>::new());
        (0..3_u32).for_each(|number| log.append(&number.to_le_bytes()));
        assert_eq!(numbers(&log), [0, 1, 2]);
        log.append(&3_u32.to_le_bytes());
        drop(log);
        let log = store(&disk, StoreMode::ReadWrite).record_log();
        assert_eq!(numbers(&log), [0, 1, 2, 3]);
        log.append(&vec![0; limits::LOG_RECORD_BYTES + 1]);
        assert_eq!(numbers(&log), [0, 1, 2, 3]);
    }

    #[test]
    fn readers_write_nothing() {
        let disk = Arc::new(MemoryDisk::new());
        store(&disk, StoreMode::ReadWrite).record_log().append(&7_u32.to_le_bytes());
        let log = store(&disk, StoreMode::ReadOnly).record_log();
        log.append(&8_u32.to_le_bytes());
        assert_eq!(numbers(&log), [7, 8]);
        let bytes = disk.open(LOG_PATH, OpenMode::Read).and_then(|file| file.len()).expect("there");
        drop(log);
        assert_eq!(disk.open(LOG_PATH, OpenMode::Read).and_then(|file| file.len()).expect("there"), bytes);
        // As many as a file has, and no more.
        let log = store(&disk, StoreMode::ReadOnly).record_log();
        let content = vec![9; limits::LOG_RECORD_BYTES];
        (0..3 * limits::LOG_FILE_BYTES / content.len()).for_each(|_| log.append(&content));
        let kept: usize = log.read().iter().map(Vec::len).sum();
        assert!((limits::LOG_FILE_BYTES / 4..2 * limits::LOG_FILE_BYTES).contains(&kept), "{kept}");
    }

    #[test]
    fn the_oldest_go_first_and_two_files_are_all() {
        let disk = Arc::new(MemoryDisk::new());
        let log = store(&disk, StoreMode::ReadWrite).record_log();
        let mut content = vec![0; 1000];
        let count = (3 * limits::LOG_FILE_BYTES / content.len()) as u32;
        for number in 0..count {
            content[..4].copy_from_slice(&number.to_le_bytes());
            log.append(&content);
        }
        let kept = numbers(&log);
        assert_eq!(kept.last(), Some(&(count - 1)));
        assert!(kept.is_sorted_by(|a, b| a + 1 == *b), "none is missing in between");
        let bytes = kept.len() * 1000;
        assert!((limits::LOG_FILE_BYTES * 9 / 10..2 * limits::LOG_FILE_BYTES).contains(&bytes), "{bytes}");
        assert_eq!(disk.list("").expect("there").iter().filter(|name| name.starts_with("queries")).count(), 2);
    }

    /// Whatever happens to the file, the others are read and nobody fails.
    #[test]
    fn damage_costs_what_it_hits() {
        let written = |change: &dyn Fn(&dyn DiskFile, u64)| {
            let disk = Arc::new(MemoryDisk::new());
            let log = store(&disk, StoreMode::ReadWrite).record_log();
            (0..3_u32).for_each(|number| log.append(&number.to_le_bytes()));
            drop(log);
            let file = disk.open(LOG_PATH, OpenMode::Write).expect("there");
            change(&*file, file.len().expect("known"));
            let log = store(&disk, StoreMode::ReadWrite).record_log();
            let before = numbers(&log);
            log.append(&9_u32.to_le_bytes());
            let after = numbers(&log);
            assert_eq!(after.last(), Some(&9));
            drop(log);
            assert_eq!(numbers(&store(&disk, StoreMode::ReadWrite).record_log()), after);
            before
        };
        let whole = written(&|_, _| {});
        assert_eq!(whole, [0, 1, 2]);
        let bytes = LOG_HEADER_BYTES + 3 * (RECORD_HEADER_BYTES + 4);
        for at in 0..bytes as u64 {
            let flipped = written(&|file, _| {
                let mut byte = [0];
                file.read_at(at, &mut byte).expect("inside");
                file.write_at(at, &[byte[0] ^ 0x55]).expect("inside");
            });
            let expect = if at < LOG_HEADER_BYTES as u64 { 0 } else { 2 };
            assert_eq!(flipped.len(), expect, "flipped at {at}");
            let cut = written(&|file, _| file.set_len(at).expect("shorter"));
            assert!(whole.starts_with(&cut) && cut.len() < 3, "cut at {at}");
        }
    }
}
