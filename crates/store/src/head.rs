//! `HEAD`: the format version, and the number of the last acknowledged commit.
//!
//! redb falls back to its previous commit when the newest one does not verify. After a crash that is right; after a
//! flipped bit it would silently serve old rows. So every commit has a number, and `HEAD` remembers the last one that
//! was acknowledged: a manifest that is older than `HEAD` is damaged.
//!
//! Commits are noted without a sync, behind the redo log that has them. So `HEAD` may be behind a few commits after a power loss, and
//! is not behind after a program was killed.
//!
//! Invariants: two records in sectors of their own, and the durable one is not overwritten before the other one is durable, so that
//! a torn write leaves one valid; a number gets here only after its commit is durable, so `HEAD` is never ahead of the truth.
//!
//! Records are written in the newest format, and what older programs must not see comes after a durable one. So a manifest
//! of that format, or a redo log, is always behind a `HEAD` that older programs refuse; `HEAD` itself says nothing of the manifest's format,
//! which may still be an older one.

use std::sync::Arc;

use forebay_base::checksum::crc32c;
use forebay_base::{Context, Error, ErrorKind, Result};
use forebay_disk::{Disk, DiskFile, OpenMode};

use crate::serial::{Reader, numbered};

/// The format of a database directory that this program writes.
pub const FORMAT_VERSION: u32 = 5;
/// The oldest format that it reads; the first commit makes [`FORMAT_VERSION`] of it.
pub const FORMAT_VERSION_OLDEST: u32 = 2;

/// The file's name.
pub(crate) const HEAD_PATH: &str = "HEAD";
/// The file's name until its first content is durable.
pub(crate) const HEAD_DRAFT_PATH: &str = "HEAD.tmp";
/// First bytes of a record.
pub(crate) const HEAD_MAGIC: [u8; 8] = *b"FBAYHEAD";
/// Bytes of a record: magic, format version, commit number, CRC-32C.
pub(crate) const HEAD_RECORD_BYTES: usize = 24;
/// Distance between the two records.
pub(crate) const HEAD_RECORD_STRIDE: u64 = 4096;
/// Bytes of the file.
pub(crate) const HEAD_BYTES: u64 = 2 * HEAD_RECORD_STRIDE;

/// The open file and what it says.
#[derive(Debug)]
pub(crate) struct Head {
    file: Arc<dyn DiskFile>,
    commit: u64,
    /// Which record says so.
    slot: u64,
    /// The record that survives for certain. `None` while nothing is known of that: an earlier program's sync may have failed.
    durable_slot: Option<u64>,
}

fn record(commit: u64) -> Vec<u8> {
    numbered(&HEAD_MAGIC, FORMAT_VERSION, commit)
}

/// Format version and commit number of a record, if it is one.
fn parse(bytes: &[u8]) -> Result<(u32, u64)> {
    let mut reader = Reader::new(bytes, "a record of HEAD");
    let magic = reader.take(HEAD_MAGIC.len())?;
    let (version, commit, crc) = (reader.u32()?, reader.u64()?, reader.u32()?);
    if magic != HEAD_MAGIC || crc != crc32c(&bytes[..bytes.len() - size_of::<u32>()]) {
        return Err(reader.wrong("magic or checksum do not match"));
    }
    Ok((version, commit))
}

/// Format version and commit number of each record.
fn read_records(file: &dyn DiskFile) -> [Result<(u32, u64)>; 2] {
    [0, 1].map(|slot| {
        let mut bytes = [0; HEAD_RECORD_BYTES];
        file.read_at(slot * HEAD_RECORD_STRIDE, &mut bytes)?;
        parse(&bytes)
    })
}

impl Head {
    /// Writes the file of a new database: commit `commit` in both records, durable but for the directory entry.
    pub(crate) fn create(disk: &dyn Disk, commit: u64) -> Result<()> {
        let file = disk.open(HEAD_DRAFT_PATH, OpenMode::Create)?;
        file.set_len(HEAD_BYTES)?;
        for slot in 0..2 {
            file.write_at(slot * HEAD_RECORD_STRIDE, &record(commit))?;
        }
        file.sync()?;
        drop(file);
        disk.rename(HEAD_DRAFT_PATH, HEAD_PATH)
    }

    /// Reads the file; `mode` must allow writing where [`Head::note`] will be called.
    pub(crate) fn open(disk: &dyn Disk, mode: OpenMode) -> Result<Self> {
        let file = disk.open(HEAD_PATH, mode)?;
        let mut newest = None;
        for (slot, record) in (0..).zip(read_records(&*file)) {
            match record {
                Ok((version, commit)) => newest = newest.max(Some((commit, version, slot))),
                Err(error) if error.kind() == ErrorKind::Corrupt => {}
                Err(error) => return Err(error),
            }
        }
        let Some((commit, version, slot)) = newest else {
            return Err(Error::corrupt("neither record of HEAD is valid")
                .context(disk.describe())
                .hint("Restore the directory from a backup; the table data in segments/ may be intact"));
        };
        check_version(version).context(|| disk.describe())?;
        Ok(Self { file, commit, slot, durable_slot: None })
    }

    /// Why each record that cannot be read cannot; opening is content with one that can.
    pub(crate) fn check(disk: &dyn Disk) -> Result<Vec<Error>> {
        let file = disk.open(HEAD_PATH, OpenMode::Read)?;
        let errors = read_records(&*file).into_iter().filter_map(Result::err);
        Ok(errors.map(|error| error.context(format!("file {HEAD_PATH}"))).collect())
    }

    /// The last commit that was acknowledged, or one before it.
    pub(crate) fn commit(&self) -> u64 {
        self.commit
    }

    /// Writes the newest record again, in the newest format, unless it is durable so. Itself not durable before [`Head::sync`].
    pub(crate) fn refresh(&mut self) -> Result<()> {
        match self.durable_slot {
            None => self.write(self.slot, self.commit),
            Some(_) => Ok(()),
        }
    }

    /// Notes that `commit` is durable, in the record that need not survive. Itself not durable before [`Head::sync`].
    pub(crate) fn note(&mut self, commit: u64) -> Result<()> {
        let durable = self.durable_slot.ok_or_else(|| Error::internal("no record of HEAD is known to be durable"))?;
        self.write(1 - durable, commit)?;
        (self.commit, self.slot) = (commit, 1 - durable);
        Ok(())
    }

    /// Makes what was noted durable.
    pub(crate) fn sync(&mut self) -> Result<()> {
        if self.durable_slot != Some(self.slot) {
            self.file.sync()?;
            self.durable_slot = Some(self.slot);
        }
        Ok(())
    }

    fn write(&self, slot: u64, commit: u64) -> Result<()> {
        self.file.write_at(slot * HEAD_RECORD_STRIDE, &record(commit))
    }
}

/// An error unless this program reads databases of format `version`.
pub(crate) fn check_version(version: u32) -> Result<()> {
    let (age, hint) = match version {
        FORMAT_VERSION_OLDEST..=FORMAT_VERSION => return Ok(()),
        0..FORMAT_VERSION_OLDEST => ("an older", "Export its tables with that Forebay and load them with this one"),
        _ => ("a newer", "Upgrade Forebay"),
    };
    let reads = format!("this program reads {FORMAT_VERSION_OLDEST} to {FORMAT_VERSION}");
    let message = format!("the database was written by {age} Forebay (format {version}, {reads})");
    Err(Error::new(ErrorKind::Version, message).hint(hint))
}
