//! Hot rows as of the last checkpoint, in files beside the manifest, which names those that count (`docs/format.md`, "Hot rows").
//!
//! A checkpoint writes the rows that have changed since the one before, and which are gone, to a file of its own. Whoever reads takes the
//! files in the order of the manifest: the last word of a row counts. Where they say much more than there are rows, a checkpoint writes all rows to
//! one file, and the others go. So a checkpoint costs what has changed, and reading twice what is there, about.
//!
//! Invariants: a file and its name are durable before a manifest names it, and nothing is written to it afterwards; no file goes before a
//! manifest that does not name it is durable. Must not know: what rows mean, when a checkpoint is made.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::checksum::crc32c;
use forebay_base::{Context, Error, ErrorKind, Result, TableId};
use forebay_disk::{Disk, DiskFile, OpenMode};
use forebay_hot::RowId;

use crate::serial::{Reader, Writer, numbered};
use crate::volume::Volume;

/// First bytes of a file.
pub(crate) const HOT_FILE_MAGIC: [u8; 8] = *b"FBAYHOTR";
/// Layout of the file.
pub(crate) const HOT_FILE_VERSION: u32 = 1;
/// Where the first batch begins: behind magic, version, number, checksum.
pub(crate) const HOT_FILE_HEADER_BYTES: usize = 24;
/// Bytes in front of a batch's records: checksum, number of the file, place in the file, length.
pub(crate) const HOT_BATCH_BYTES: usize = 24;
/// Instead of the length of a row's values: the row is gone.
pub(crate) const HOT_ROW_GONE: u32 = u32::MAX;

/// A batch is written when it has grown so long.
const BATCH_BYTES: usize = 1 << 20;

/// Beginning and end of the names of files.
const NAME_PREFIX: &str = "hot-";
const NAME_SUFFIX: &str = ".rows";

/// A hot row, by its table and its number.
pub(crate) type HotRowId = (TableId, RowId);

/// Hot rows as they are found when a database is opened (`row_bytes.rs`).
pub(crate) type FoundHotRows = BTreeMap<HotRowId, Vec<u8>>;

/// A file that a manifest names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HotFile {
    pub(crate) number: u64,
    /// Its bytes that count.
    pub(crate) bytes: u64,
    /// How many rows it says something of.
    pub(crate) records: u64,
}

impl HotFile {
    /// The file's name.
    pub(crate) fn path(&self) -> String {
        hot_file_path(self.number)
    }
}

/// The name of the file of this number.
fn hot_file_path(number: u64) -> String {
    format!("{NAME_PREFIX}{number:010}{NAME_SUFFIX}")
}

/// Whether this is the name of a file of hot rows.
pub(crate) fn is_hot_file(name: &str) -> bool {
    let digits = name.strip_prefix(NAME_PREFIX).and_then(|rest| rest.strip_suffix(NAME_SUFFIX));
    digits.and_then(|digits| digits.parse().ok()).is_some_and(|number| hot_file_path(number) == *name)
}

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct NewHotFile<'v> {
    volume: &'v Volume,
    file: Arc<dyn DiskFile>,
    written: HotFile,
    /// A batch behind its checksum.
    batch: Writer,
}

impl<'v> NewHotFile<'v> {
    /// Makes the file, which no manifest names.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn create(volume: &'v Volume, number: u64) -> Result<Self> {
        let path = hot_file_path(number);
        // A checkpoint that did not get to its end may have left it.
        if volume.disk.exists(&path)? {
            volume.disk.remove(&path)?;
        }
        let file = volume.disk.open(&path, OpenMode::Create)?;
        let written = HotFile { number, bytes: HOT_FILE_HEADER_BYTES as u64, records: 0 };
        let mut new = Self { volume, file, written, batch: Writer::default() };
        match new.file.write_at(0, &header(number)) {
            Ok(()) => new.begin_batch(),
            Err(error) => {
                remove(volume, &new.written);
                return Err(error);
            }
        }
        Ok(new)
    }

    /// Adds a row: `push` adds the bytes of its values, or says that it is gone.
    ///
    /// # Errors
    /// Those of writing.
    pub(crate) fn row(&mut self, (table, row): HotRowId, push: impl FnOnce(&mut Writer) -> bool) -> Result<()> {
        self.batch.u64(table.0);
        self.batch.u64(row.0);
        let length_at = self.batch.bytes.len();
        self.batch.u32(HOT_ROW_GONE);
        let start = self.batch.bytes.len();
        if push(&mut self.batch) {
            let length = (self.batch.bytes.len() - start) as u32;
            self.batch.bytes[length_at..start].copy_from_slice(&length.to_le_bytes());
        }
        self.written.records += 1;
        match self.batch.bytes.len() {
            ..BATCH_BYTES => Ok(()),
            _ => self.write_batch(),
        }
    }

    /// Makes the file and its name durable; where that fails there is no file.
    ///
    /// # Errors
    /// Those of writing; after a sync that failed nothing more is written to the database.
    pub(crate) fn finish(mut self) -> Result<HotFile> {
        match self.write_batch().and_then(|()| self.sync()) {
            Ok(()) => Ok(self.written),
            Err(error) => {
                self.remove();
                Err(error)
            }
        }
    }

    fn sync(&self) -> Result<()> {
        self.volume.sync(&*self.file)?;
        self.volume.disk.sync_directory("").inspect_err(|error| self.volume.fail(error))
    }

    /// Lets go of the file, which came to nothing.
    pub(crate) fn remove(self) {
        remove(self.volume, &self.written);
    }

    fn begin_batch(&mut self) {
        self.batch.bytes.clear();
        self.batch.u64(self.written.number);
        self.batch.u64(self.written.bytes);
        self.batch.u32(0);
    }

    fn write_batch(&mut self) -> Result<()> {
        const CRC_BYTES: usize = size_of::<u32>();
        let head_bytes = HOT_BATCH_BYTES - CRC_BYTES;
        let length = self.batch.bytes.len() - head_bytes;
        if length == 0 {
            return Ok(());
        }
        let length_at = head_bytes - size_of::<u32>();
        self.batch.bytes[length_at..head_bytes].copy_from_slice(&(length as u32).to_le_bytes());
        let crc = crc32c(&self.batch.bytes).to_le_bytes();
        self.file.write_at(self.written.bytes, &crc)?;
        self.file.write_at(self.written.bytes + CRC_BYTES as u64, &self.batch.bytes)?;
        self.written.bytes += (HOT_BATCH_BYTES + length) as u64;
        self.begin_batch();
        Ok(())
    }
}

fn header(number: u64) -> Vec<u8> {
    numbered(&HOT_FILE_MAGIC, HOT_FILE_VERSION, number)
}

/// Removes a file that no manifest names.
pub(crate) fn remove(volume: &Volume, file: &HotFile) {
    // Whoever opens the database for writing removes what is left.
    let _left_for_the_next_open = volume.disk.remove(&file.path());
}

/// The files of hot rows that a manifest does not name.
///
/// # Errors
/// Those of the disk.
pub(crate) fn others(disk: &dyn Disk, named: &[HotFile]) -> Result<Vec<String>> {
    let is_named = |name: &String| named.iter().any(|file| file.path() == *name);
    let files = disk.list("")?.into_iter();
    Ok(files.filter(|name| is_hot_file(name) && !is_named(name)).collect())
}

/// Removes the files that a manifest does not name.
///
/// # Errors
/// Those of the disk.
pub(crate) fn remove_others(disk: &dyn Disk, named: &[HotFile]) -> Result<()> {
    others(disk, named)?.iter().try_for_each(|name| disk.remove(name))
}

/// Takes what a file says of rows to those that the files before it gave.
///
/// # Errors
/// `Corrupt` with file and offset; those of reading.
pub(crate) fn read_into(disk: &dyn Disk, named: &HotFile, rows: &mut FoundHotRows) -> Result<()> {
    let path = named.path();
    let file = disk.open(&path, OpenMode::Read).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            let message = format!("the manifest names {path}, which is not in {}", disk.describe());
            Error::corrupt(message).hint("Restore the directory from a backup")
        }
        _ => error,
    })?;
    let place = |offset: u64| format!("file {path} at {offset} of {}", disk.describe());
    if file.len()? < named.bytes {
        let message =
            format!("a file of hot rows is damaged: it ends before byte {}, where its last row ends", named.bytes);
        return Err(Error::corrupt(message).context(place(file.len()?)));
    }
    let mut first = [0; HOT_FILE_HEADER_BYTES];
    file.read_at(0, &mut first)?;
    if first != *header(named.number) {
        return Err(Error::corrupt("the header of a file of hot rows is damaged").context(place(0)));
    }
    let mut offset = HOT_FILE_HEADER_BYTES as u64;
    let mut batch = Vec::new();
    while offset < named.bytes {
        let read = read_batch(&*file, named, offset, &mut batch).and_then(|bytes| {
            take_records(&batch, rows)?;
            Ok(bytes)
        });
        offset += read.context(|| place(offset))?;
    }
    Ok(())
}

/// Reads the records of the batch that begins there; the bytes that it takes in the file.
fn read_batch(file: &dyn DiskFile, named: &HotFile, offset: u64, batch: &mut Vec<u8>) -> Result<u64> {
    let wrong = || Error::corrupt("a batch of hot rows is damaged");
    let mut head = [0; HOT_BATCH_BYTES];
    if offset + head.len() as u64 > named.bytes {
        return Err(wrong());
    }
    file.read_at(offset, &mut head)?;
    let mut reader = Reader::new(&head, "a batch of hot rows");
    let (crc, number, place, length) = (reader.u32()?, reader.u64()?, reader.u64()?, reader.u32()?);
    let bytes = (HOT_BATCH_BYTES + length as usize) as u64;
    if number != named.number || place != offset || length == 0 || bytes > named.bytes - offset {
        return Err(wrong());
    }
    let checked = HOT_BATCH_BYTES - size_of::<u32>();
    batch.clear();
    batch.resize(checked + length as usize, 0);
    file.read_at(offset + size_of::<u32>() as u64, batch)?;
    if crc32c(batch) != crc {
        return Err(wrong());
    }
    batch.drain(..checked);
    Ok(bytes)
}

fn take_records(batch: &[u8], rows: &mut FoundHotRows) -> Result<()> {
    let mut reader = Reader::new(batch, "a batch of hot rows");
    while !reader.is_empty() {
        let id = (TableId(reader.u64()?), RowId(reader.u64()?));
        match reader.u32()? {
            HOT_ROW_GONE => drop(rows.remove(&id)),
            length => drop(rows.insert(id, reader.take(length as usize)?.to_vec())),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use forebay_disk::MemoryDisk;

    use super::*;
    use crate::{OpenMode as StoreMode, Store};

    const WHERE: TableId = TableId(7);

    /// A file with these rows.
    fn written(store: &Store, number: u64, rows: &[(u64, Option<&[u8]>)]) -> HotFile {
        let mut file = NewHotFile::create(store.volume(), number).expect("a file");
        for (row, values) in rows {
            let push = |out: &mut Writer| values.inspect(|values| out.bytes.extend_from_slice(values)).is_some();
            file.row((WHERE, RowId(*row)), push).expect("a row");
        }
        file.finish().expect("durable")
    }

    fn store() -> (Arc<MemoryDisk>, Store) {
        let disk = Arc::new(MemoryDisk::new());
        let store = Store::open(Arc::<MemoryDisk>::clone(&disk), StoreMode::ReadWrite, "a test").expect("opens");
        (disk, store)
    }

    #[test]
    fn the_last_word_of_a_row_counts() {
        let (disk, store) = store();
        let long = vec![b'x'; BATCH_BYTES];
        let one = written(&store, 1, &[(1, Some(b"one")), (2, Some(&long)), (3, Some(b""))]);
        let two = written(&store, 2, &[(2, None), (3, Some(b"three")), (9, None)]);
        assert_eq!((one.records, two.records), (3, 3));
        let mut rows = FoundHotRows::new();
        read_into(&*disk, &one, &mut rows).expect("sound");
        assert_eq!(rows[&(WHERE, RowId(2))], long);
        read_into(&*disk, &two, &mut rows).expect("sound");
        let found: Vec<(u64, &[u8])> = rows.iter().map(|((_, row), values)| (row.0, &values[..])).collect();
        assert_eq!(found, [(1, &b"one"[..]), (3, b"three")]);
        // Without rows it is a header.
        let none = written(&store, 3, &[]);
        assert_eq!((none.bytes, none.records), (HOT_FILE_HEADER_BYTES as u64, 0));
        read_into(&*disk, &none, &mut rows).expect("sound");
        // None of them is named by the manifest.
        let report = store.check(&mut |_, _| Ok(())).expect("a check");
        assert_eq!((report.error_count, report.orphans), (0, vec![one.path(), two.path(), none.path()]));
        remove_others(&*disk, &[two]).expect("removed");
        let left = disk.list("").expect("there").into_iter().filter(|name| is_hot_file(name)).collect::<Vec<_>>();
        assert_eq!(left, [two.path()]);
    }

    #[test]
    fn damage_is_told_with_its_place() {
        let (disk, store) = store();
        let named = written(&store, 4, &[(1, Some(b"one")), (2, None), (3, Some(b"three"))]);
        let file = disk.open(&named.path(), OpenMode::Write).expect("there");
        for at in 0..named.bytes {
            for bit in 0..8 {
                let flip = || {
                    let mut byte = [0];
                    file.read_at(at, &mut byte).expect("inside");
                    file.write_at(at, &[byte[0] ^ 1 << bit]).expect("inside");
                };
                flip();
                let error = read_into(&*disk, &named, &mut FoundHotRows::new()).expect_err("damaged");
                assert_eq!(error.kind(), ErrorKind::Corrupt);
                assert!(error.to_string().contains(&named.path()), "{error}");
                flip();
            }
        }
        let damaged = |named: &HotFile| {
            let error = read_into(&*disk, named, &mut FoundHotRows::new()).expect_err("damaged");
            assert_eq!(error.kind(), ErrorKind::Corrupt);
        };
        damaged(&HotFile { bytes: named.bytes - 1, ..named });
        damaged(&HotFile { bytes: named.bytes + 1, ..named });
        damaged(&HotFile { number: 5, ..named });
        for bytes in (0..named.bytes).rev() {
            file.set_len(bytes).expect("cut");
            damaged(&named);
        }
    }
}
