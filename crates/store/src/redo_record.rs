//! What one commit changes, as a record of the redo log: rows of the manifest, and the small files that these name.
//!
//! Invariant: a record follows exactly the commit that it names, so that one which is missing is noticed. Must not know: what rows
//! mean, but for which of them name files.

use std::collections::BTreeMap;

use forebay_base::{DirectoryId, Error, Result, SegmentId, TableId};
use forebay_hot::RowId;

use crate::hot::{ChangedRows, FoundHotRows, HOT_COLUMNS, HOT_GONE, HOT_WHOLE, HotRecord, HotRowId, with_columns};
use crate::rows::{self, KEY_BYTES, Key, ROW_HOT, ROW_SEGMENT, RowChanges, Rows, key};
use crate::serial::{Reader, Writer};
use crate::small_file::SmallFile;
use crate::volume::FilePlace;

/// What a record says.
#[derive(Debug)]
pub(crate) struct Record {
    pub(crate) commit: u64,
    /// The commit before it.
    pub(crate) previous: u64,
    changes: RowChanges,
    hot: Vec<(HotRowId, HotChange)>,
    files: Vec<(FilePlace, SmallFile)>,
}

/// What becomes of a hot row.
#[derive(Debug)]
enum HotChange {
    Gone,
    Row(Vec<u8>),
    /// Other values of some columns.
    Columns(Vec<u8>),
}

/// The bytes of a record.
pub(crate) fn encode<'f>(
    (commit, previous): (u64, u64),
    changes: &RowChanges,
    hot: &HotRecord,
    files: impl ExactSizeIterator<Item = (FilePlace, &'f SmallFile)>,
) -> Vec<u8> {
    /// Room for the numbers around rows, and for a row of the manifest that is always there.
    const OTHER_BYTES: usize = 128;
    let rows = changes.iter().map(|(_, row)| row.as_ref().map_or(0, Vec::len) + KEY_BYTES + size_of::<u64>());
    let mut record = Writer::with_capacity(hot.bytes.len() + rows.sum::<usize>() + OTHER_BYTES);
    record.u64(commit);
    record.u64(previous);
    record.count(changes.len() + hot.count);
    record.bytes.extend_from_slice(&hot.bytes);
    for (key, row) in changes {
        record.bytes.extend_from_slice(key);
        record.u8(u8::from(row.is_some()));
        if let Some(row) = row {
            record.blob(row);
        }
    }
    record.count(files.len());
    for (place, file) in files {
        record.u32(place.directory.0);
        record.u64(place.number);
        file.encode(&mut record);
    }
    record.bytes
}

/// Takes the next record from those of a frame.
pub(crate) fn decode(reader: &mut Reader<'_>) -> Result<Record> {
    let (commit, previous) = (reader.u64()?, reader.u64()?);
    let (mut changes, mut hot) = (RowChanges::new(), Vec::new());
    for _ in 0..reader.count(KEY_BYTES + 1)? {
        let key: Key = reader.take(KEY_BYTES)?.try_into().map_err(|_| reader.wrong("a key is cut"))?;
        let row = if reader.flag()? { Some(reader.blob()?) } else { None };
        match row {
            Some(change) if key[0] == ROW_HOT => {
                let mut change = Reader::new(change, "a change of a hot row");
                let row = (TableId(change.u64()?), RowId(change.u64()?));
                let becomes = match change.u8()? {
                    HOT_GONE => HotChange::Gone,
                    HOT_WHOLE => HotChange::Row(change.rest().to_vec()),
                    HOT_COLUMNS => HotChange::Columns(change.rest().to_vec()),
                    _ => return Err(change.wrong("it is of an unknown kind")),
                };
                hot.push((row, becomes));
            }
            row => changes.push((key, row.map(<[u8]>::to_vec))),
        }
    }
    let mut files = Vec::new();
    for _ in 0..reader.count(size_of::<u32>())? {
        let (directory, id) = (DirectoryId(reader.u32()?), SegmentId(reader.u64()?));
        let place = FilePlace::of_segment(directory, id);
        files.push((place, SmallFile::decode(reader, place.path())?));
    }
    match previous < commit {
        true => Ok(Record { commit, previous, changes, hot, files }),
        false => Err(reader.wrong("a commit comes before itself")),
    }
}

/// What replaying has made so far.
#[derive(Debug)]
pub(crate) struct Replay {
    pub(crate) rows: Rows,
    /// The commit that they are of.
    pub(crate) commit: u64,
    /// Hot rows, and those of them that have changed or are gone.
    pub(crate) hot: FoundHotRows,
    pub(crate) hot_changed: ChangedRows,
    /// Small files that are named, and others that were.
    pub(crate) files: BTreeMap<FilePlace, SmallFile>,
    /// Commits that were replayed.
    pub(crate) commits: u64,
}

impl Replay {
    /// Applies a record, unless the rows have it already.
    ///
    /// # Errors
    /// `Corrupt` where a commit before it is missing.
    pub(crate) fn apply(&mut self, record: Record) -> Result<()> {
        let Record { commit, previous, changes, hot, files } = record;
        if commit <= self.commit {
            return Ok(());
        }
        if previous != self.commit {
            let message = format!("commit {commit} follows {previous}, but {} is the last one before it", self.commit);
            return Err(Error::corrupt(message).hint("Files of the database are missing; restore it from a backup"));
        }
        rows::apply(&changes, &mut self.rows);
        for (row, change) in hot {
            match change {
                HotChange::Gone => drop(self.hot.remove(&row)),
                HotChange::Row(bytes) => drop(self.hot.insert(row, bytes)),
                HotChange::Columns(columns) => {
                    let missing =
                        || Error::corrupt(format!("commit {commit} changes hot {}, which is not there", row.1));
                    let known = self.hot.get_mut(&row).ok_or_else(missing)?;
                    *known = with_columns(known, &columns)?;
                }
            }
            self.hot_changed.add(&[row]);
        }
        self.files.extend(files);
        self.commit = commit;
        self.commits += 1;
        Ok(())
    }

    /// Forgets files that no row names any more.
    pub(crate) fn keep_named_files(&mut self) {
        self.files.retain(|place, _| self.rows.contains_key(&key(ROW_SEGMENT, place.number)));
    }
}
