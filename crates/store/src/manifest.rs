//! Where manifest rows are kept: one redb table in `forebay.redb`.
//!
//! Loading never touches the file: redb opens a copy in memory, repairs it there if the last writer crashed, and
//! verifies every page. So a read-only open needs no repair on disk, a damaged file is left as it was found, and what
//! redb does with hostile bytes stays inside [`guarded`]. The file itself is opened for the first commit.
//!
//! Must not know: what rows mean.

mod checkpointed;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_base::checksum::crc32c;
use forebay_base::{Context, Error, ErrorKind, Result, TableId};
use forebay_disk::{Disk, DiskFile, OpenMode};
use redb::backends::InMemoryBackend;
use redb::{Builder, Database, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, TableError};

use crate::hot::FoundHotRows;
use crate::hot_files::HotFile;
use crate::outcome::Outcome;
use crate::rows::{KEY_BYTES, Key, ROW_HOT, ROW_HOT_FILES, Rows};
use crate::serial::{Reader, Writer};
pub(crate) use checkpointed::{Checkpointed, ManifestContent};
use forebay_hot::RowId;

/// The file's name.
pub(crate) const MANIFEST_PATH: &str = "forebay.redb";

/// The one table in the file: key, row.
const MANIFEST_TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("manifest");

/// Memory of redb's page cache. The manifest of thousands of segments is a few megabytes.
const CACHE_BYTES: usize = 8 << 20;

/// A longer file is not believed. Ten million segments fit.
const FILE_MAX_BYTES: u64 = 4 << 30;

/// The file is copied to memory in pieces of this size.
const COPY_BYTES: usize = 1 << 20;

/// Where a redb 4 file says whether it was closed cleanly (redb's design.md, "god byte"), and the bit that says no.
const REDB_STATE_OFFSET: u64 = 9;
const REDB_RECOVERY_REQUIRED: u8 = 2;

/// Bytes of the key of a hot row: kind, table, row.
pub(crate) const HOT_KEY_BYTES: usize = 17;

/// Under which the files of hot rows are named.
const HOT_FILES_KEY: &[u8] = &[ROW_HOT_FILES];

/// Bytes of one of them: number, bytes, records.
const HOT_FILE_NAMED_BYTES: usize = 24;

/// What the file holds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct ManifestRows {
    pub(crate) rows: Rows,
    /// The files of hot rows, in the order in which they are read.
    pub(crate) hot_files: Vec<HotFile>,
    /// Hot rows in the manifest itself, where programs of format 4 and before had them: what is in files comes behind them.
    pub(crate) hot: FoundHotRows,
}

/// The manifest of an open database.
#[derive(Debug)]
pub(crate) struct Manifest {
    disk: Arc<dyn Disk>,
    live: Option<Live>,
    /// Whether a sync of the file ever failed: from then on nothing is known of it.
    sync_failed: Arc<AtomicBool>,
}

/// redb on the file itself. `None` only while it is dropped.
#[derive(Debug)]
struct Live(Option<Database>);

impl Manifest {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, live: None, sync_failed: Arc::default() }
    }

    /// Makes the file of a new database, with `rows` in it and the names of these files of hot rows; durable but for the directory entry.
    pub(crate) fn create(&mut self, rows: &Rows, hot: &[HotFile]) -> Result<()> {
        self.disk.open(MANIFEST_PATH, OpenMode::Create)?;
        match self.commit(&Rows::new(), rows, hot) {
            Outcome::Committed => Ok(()),
            Outcome::Failed(error) | Outcome::Unknown(error) => Err(error),
        }
    }

    /// Replaces the rows `old`, which are the file's, by `new`, and its hot rows by those of these files.
    pub(crate) fn commit(&mut self, old: &Rows, new: &Rows, hot: &[HotFile]) -> Outcome {
        let live = match self.live.take() {
            Some(live) => Ok(live),
            None => match self.disk.open(MANIFEST_PATH, OpenMode::Write) {
                Ok(file) => Live::new(FileBackend { file, sync_failed: Arc::clone(&self.sync_failed) }),
                // A file that cannot even be opened is as it was.
                Err(error) => return Outcome::Failed(error),
            },
        };
        let Err(error) = live.and_then(|live| self.live.insert(live).write(old, new, hot)) else {
            return Outcome::Committed;
        };
        // redb refuses everything after a failure, so it starts anew.
        self.live = None;
        if self.sync_failed.load(Ordering::Acquire) || error.kind() != ErrorKind::OutOfSpace {
            return Outcome::Unknown(error);
        }
        // On a full disk a write was refused and nothing is in doubt: the file says what happened.
        match load_durable(&*self.disk) {
            Ok(found) if found.rows == *new && found.hot_files == *hot => Outcome::Committed,
            Ok(found) if found.rows == *old => Outcome::Failed(error),
            Ok(_) | Err(_) => Outcome::Unknown(error),
        }
    }
}

impl Live {
    fn new(backend: FileBackend) -> Result<Self> {
        let database = || Builder::new().set_cache_size(CACHE_BYTES).create_with_backend(backend);
        Ok(Self(Some(guarded(|| database().map_err(failure))?)))
    }

    /// One transaction with redb's immediate durability.
    fn write(&self, old: &Rows, new: &Rows, hot: &[HotFile]) -> Result<()> {
        guarded(|| self.replace_rows(old, new, hot))
    }

    fn replace_rows(&self, old: &Rows, new: &Rows, hot: &[HotFile]) -> Result<()> {
        let database = self.0.as_ref().expect("only drop takes it");
        let transaction = database.begin_write().map_err(failure)?;
        {
            let mut table = transaction.open_table(MANIFEST_TABLE).map_err(failure)?;
            for key in old.keys().filter(|key| !new.contains_key(*key)) {
                table.remove(key.as_slice()).map_err(failure)?;
            }
            for (key, row) in new.iter().filter(|(key, row)| old.get(*key) != Some(row)) {
                table.insert(key.as_slice(), row.as_slice()).map_err(failure)?;
            }
            match hot {
                [] => drop(table.remove(HOT_FILES_KEY).map_err(failure)?),
                files => drop(table.insert(HOT_FILES_KEY, encode_hot_files(files).as_slice()).map_err(failure)?),
            }
            // Programs before had them here.
            let (first, last) = (hot_key((TableId(0), RowId(0))), hot_key((TableId(u64::MAX), RowId(u64::MAX))));
            table.retain_in(first.as_slice()..=last.as_slice(), |_, _| false).map_err(failure)?;
        }
        transaction.commit().map_err(failure)
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // Closing writes; what it cannot write, the next open repairs.
        let _repaired_at_next_open = guarded(|| {
            drop(self.0.take());
            Ok(())
        });
    }
}

/// All rows of the file, with redb's checksums verified, whatever state a crash left it in.
pub(crate) fn load(disk: &dyn Disk) -> Result<ManifestRows> {
    let file = disk.open(MANIFEST_PATH, OpenMode::Read)?;
    load_file(&*file).context(|| place(disk))
}

/// As [`load`], and what was seen is durable.
///
/// A commit may have reached the page cache and no further, and where its sync failed, no later sync writes it (Rebello
/// et al. 2020). So a file that was not closed cleanly is written again, byte for byte, before it is believed.
pub(crate) fn load_durable(disk: &dyn Disk) -> Result<ManifestRows> {
    let file = disk.open(MANIFEST_PATH, OpenMode::Write)?;
    let load = || {
        let rows = load_file(&*file)?;
        let mut state = [0];
        file.read_at(REDB_STATE_OFFSET, &mut state)?;
        if state[0] & REDB_RECOVERY_REQUIRED != 0 {
            for_each_piece(&*file, |offset, piece| file.write_at(offset, piece))?;
        }
        file.sync()?;
        Ok(rows)
    };
    load().context(|| place(disk))
}

fn place(disk: &dyn Disk) -> String {
    format!("file {MANIFEST_PATH} of {}", disk.describe())
}

fn load_file(file: &dyn DiskFile) -> Result<ManifestRows> {
    let bytes = file.len()?;
    if bytes == 0 || bytes > FILE_MAX_BYTES {
        return Err(Error::corrupt(format!("a manifest of {bytes} bytes is not credible")));
    }
    let copy = InMemoryBackend::new();
    let no_copy = |error| Error::io("copy the manifest", &error);
    copy.set_len(bytes).map_err(no_copy)?;
    for_each_piece(file, |offset, piece| copy.write(offset, piece).map_err(no_copy))?;
    guarded(move || read_rows(copy))
}

/// Reads a file from its start to its end.
fn for_each_piece(file: &dyn DiskFile, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
    let mut buffer = vec![0; COPY_BYTES];
    let bytes = file.len()?;
    let mut offset = 0;
    while offset < bytes {
        let piece = &mut buffer[..usize::try_from(bytes - offset).map_or(COPY_BYTES, |rest| rest.min(COPY_BYTES))];
        file.read_at(offset, piece)?;
        take(offset, piece)?;
        offset += piece.len() as u64;
    }
    Ok(())
}

fn read_rows(backend: InMemoryBackend) -> Result<ManifestRows> {
    let database = Builder::new()
        .set_cache_size(CACHE_BYTES)
        .set_check_integrity_on_open(true)
        .create_with_backend(backend)
        .map_err(failure)?;
    let transaction = database.begin_read().map_err(failure)?;
    let table = match transaction.open_table(MANIFEST_TABLE) {
        Ok(table) => table,
        Err(TableError::TableDoesNotExist(_)) => {
            return Ok(ManifestRows::default());
        }
        Err(error) => return Err(failure(error)),
    };
    let mut found = ManifestRows::default();
    for entry in table.iter().map_err(failure)? {
        let (key, row) = entry.map_err(failure)?;
        if key.value() == HOT_FILES_KEY {
            found.hot_files = decode_hot_files(row.value())?;
            continue;
        }
        if let Some(id) = hot_row(key.value()) {
            found.hot.insert(id, unsealed(key.value(), row.value())?);
            continue;
        }
        let key: Key = key.value().try_into().map_err(|_| {
            Error::corrupt(format!("a manifest key has {} bytes instead of {KEY_BYTES}", key.value().len()))
        })?;
        found.rows.insert(key, row.value().to_vec());
    }
    Ok(found)
}

fn hot_key((table, row): (TableId, RowId)) -> [u8; HOT_KEY_BYTES] {
    let mut key = [ROW_HOT; HOT_KEY_BYTES];
    key[1..9].copy_from_slice(&table.0.to_be_bytes());
    key[9..].copy_from_slice(&row.0.to_be_bytes());
    key
}

/// The hot row that a key is of, if it is one.
fn hot_row(key: &[u8]) -> Option<(TableId, RowId)> {
    let key: &[u8; HOT_KEY_BYTES] = key.try_into().ok().filter(|key: &&[u8; HOT_KEY_BYTES]| key[0] == ROW_HOT)?;
    let (table, row) = (key[1..9].try_into().ok()?, key[9..].try_into().ok()?);
    Some((TableId(u64::from_be_bytes(table)), RowId(u64::from_be_bytes(row))))
}

fn encode_hot_files(files: &[HotFile]) -> Vec<u8> {
    let mut row = Writer::default();
    row.count(files.len());
    for HotFile { number, bytes, records } in files {
        [number, bytes, records].into_iter().for_each(|field| row.u64(*field));
    }
    sealed(HOT_FILES_KEY, &row.bytes)
}

fn decode_hot_files(row: &[u8]) -> Result<Vec<HotFile>> {
    let row = unsealed(HOT_FILES_KEY, row)?;
    let mut reader = Reader::new(&row, "the manifest's list of files of hot rows");
    let count = reader.count(HOT_FILE_NAMED_BYTES)?;
    let mut file = || Ok(HotFile { number: reader.u64()?, bytes: reader.u64()?, records: reader.u64()? });
    let files = (0..count).map(|_| file()).collect::<Result<_>>()?;
    reader.finish()?;
    Ok(files)
}

/// A row with its checksum.
fn sealed(key: &[u8], values: &[u8]) -> Vec<u8> {
    let crc = crc32c(&[key, values].concat());
    [values, &crc.to_le_bytes()].concat()
}

fn unsealed(key: &[u8], row: &[u8]) -> Result<Vec<u8>> {
    let wrong = || Error::corrupt(format!("checksum mismatch in row {key:02x?} of the manifest"));
    let (values, crc) = row.split_last_chunk::<4>().ok_or_else(wrong)?;
    match crc32c(&[key, values].concat()) == u32::from_le_bytes(*crc) {
        true => Ok(values.to_vec()),
        false => Err(wrong()),
    }
}

/// Runs redb: a panic in it, which damaged bytes can cause, is an error.
fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let message = panic.downcast_ref::<String>().map(String::as_str);
        let message = message.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        Err(Error::corrupt(format!("the manifest cannot be read: {message}")))
    })
}

/// An error of redb, or the disk's own that passed through it.
fn failure(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        redb::Error::Io(error) => match error.downcast::<Error>() {
            Ok(error) => error,
            // redb's own: the magic number, or a place outside the file.
            Err(error) => Error::corrupt(format!("the manifest is damaged: {error}")),
        },
        redb::Error::Corrupted(message) => Error::corrupt(format!("the manifest is damaged: {message}")),
        error => Error::corrupt(format!("the manifest cannot be used: {error}")),
    }
}

/// A file of a [`Disk`] under redb.
#[derive(Debug)]
struct FileBackend {
    file: Arc<dyn DiskFile>,
    sync_failed: Arc<AtomicBool>,
}

impl StorageBackend for FileBackend {
    fn len(&self) -> std::io::Result<u64> {
        self.file.len().map_err(std::io::Error::other)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> std::io::Result<()> {
        self.file.read_at(offset, out).map_err(std::io::Error::other)
    }

    fn set_len(&self, bytes: u64) -> std::io::Result<()> {
        self.file.set_len(bytes).map_err(std::io::Error::other)
    }

    fn sync_data(&self) -> std::io::Result<()> {
        self.file.sync().map_err(|error| {
            self.sync_failed.store(true, Ordering::Release);
            std::io::Error::other(error)
        })
    }

    fn write(&self, offset: u64, data: &[u8]) -> std::io::Result<()> {
        self.file.write_at(offset, data).map_err(std::io::Error::other)
    }
}
