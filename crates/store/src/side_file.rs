//! One small file beside the manifest whose content may be lost: what of the tables is to stay in memory. `docs/format.md`, "Plan of
//! shares".
//!
//! It is written as a whole under another name and put in the place of the one before, without a sync. Invariants: nothing here ever
//! fails who uses it; what is read has the checksum that it was written with; a database that is open for reading only is not
//! written to. Must not know: what the content says.

use std::sync::{Arc, Weak};

use forebay_base::checksum::crc32c;
use forebay_base::{Error, Result};
use forebay_disk::{Disk, OpenMode};

use crate::serial::{Reader, Writer};
use crate::volume::Volume;

/// The file.
pub(crate) const PLAN_PATH: &str = "cache.plan";
/// The file while it is written.
pub(crate) const PLAN_DRAFT_PATH: &str = "cache.plan.tmp";
/// First bytes of it.
pub(crate) const PLAN_MAGIC: [u8; 8] = *b"FBAYPLAN";
/// Layout of the file.
pub(crate) const PLAN_VERSION: u32 = 1;
/// Bytes in front of the content: magic, version, length and checksum of the content.
pub(crate) const PLAN_HEADER_BYTES: usize = 20;
/// Bytes of the longest content: some ten thousand columns.
pub(crate) const PLAN_BYTES: usize = 1 << 20;

/// The side file of a database.
#[derive(Debug)]
pub struct SideFile {
    /// What is open: who has the file for longer keeps nobody from opening the database again.
    volume: Weak<Volume>,
    is_written: bool,
}

impl SideFile {
    pub(crate) fn new(volume: &Arc<Volume>, is_written: bool) -> Self {
        Self { volume: Arc::downgrade(volume), is_written }
    }

    /// What was written last, if it is there and whole.
    pub fn read(&self) -> Option<Vec<u8>> {
        content(&*self.volume.upgrade()?.disk).ok()
    }

    /// Replaces the content, unless it is longer than [`PLAN_BYTES`].
    pub fn write(&self, content: &[u8]) {
        let volume = self.volume.upgrade().filter(|_| self.is_written && content.len() <= PLAN_BYTES);
        // A file that cannot be written is not there: nobody needs it.
        let _ = volume.map(|volume| replace(&*volume.disk, content));
    }
}

fn replace(disk: &dyn Disk, content: &[u8]) -> Result<()> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&PLAN_MAGIC);
    writer.u32(PLAN_VERSION);
    writer.count(content.len());
    writer.u32(crc32c(content));
    writer.bytes.extend_from_slice(content);
    // One that a crash left.
    let _ = disk.remove(PLAN_DRAFT_PATH);
    let file = disk.open(PLAN_DRAFT_PATH, OpenMode::Create)?;
    file.write_at(0, &writer.bytes)?;
    drop(file);
    disk.rename(PLAN_DRAFT_PATH, PLAN_PATH)
}

fn content(disk: &dyn Disk) -> Result<Vec<u8>> {
    let file = disk.open(PLAN_PATH, OpenMode::Read)?;
    // A foreign file may be of any length.
    let mut bytes = vec![0; file.len()?.min((PLAN_HEADER_BYTES + PLAN_BYTES) as u64) as usize];
    file.read_at(0, &mut bytes)?;
    let mut reader = Reader::new(&bytes, PLAN_PATH);
    let is_ours = reader.take(PLAN_MAGIC.len())? == PLAN_MAGIC && reader.u32()? == PLAN_VERSION;
    let (length, crc) = (reader.u32()? as usize, reader.u32()?);
    let content = reader.take(length)?;
    match is_ours && crc32c(content) == crc {
        true => Ok(content.to_vec()),
        false => Err(Error::corrupt(PLAN_PATH)),
    }
}

#[cfg(test)]
mod tests {
    use forebay_disk::MemoryDisk;

    use super::*;
    use crate::{OpenMode as StoreMode, Store};

    fn store(disk: &MemoryDisk, mode: StoreMode) -> Store {
        Store::open(Arc::new(disk.clone()), mode, "a test").expect("it opens")
    }

    #[test]
    fn the_last_content_is_read() {
        let disk = MemoryDisk::default();
        let open = store(&disk, StoreMode::ReadWrite);
        let file = open.side_file();
        assert_eq!(file.read(), None);
        for content in [&b"one"[..], b"", b"a longer one"] {
            file.write(content);
            assert_eq!(file.read().as_deref(), Some(content));
        }
        file.write(&vec![1; PLAN_BYTES + 1]);
        assert_eq!(file.read().as_deref(), Some(&b"a longer one"[..]), "too long");
        drop(open);
        assert_eq!(file.read(), None, "the database is closed");
        let open = store(&disk, StoreMode::ReadOnly);
        let file = open.side_file();
        file.write(b"by a reader");
        assert_eq!(file.read().as_deref(), Some(&b"a longer one"[..]));
    }

    #[test]
    fn what_is_damaged_is_not_there() {
        let disk = MemoryDisk::default();
        let open = store(&disk, StoreMode::ReadWrite);
        let file = open.side_file();
        file.write(b"content");
        let mut whole = vec![0; PLAN_HEADER_BYTES + 7];
        disk.open(PLAN_PATH, OpenMode::Read).expect("a file").read_at(0, &mut whole).expect("its bytes");
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 1;
            for bytes in [&flipped[..], &whole[..at]] {
                disk.remove(PLAN_PATH).expect("it is there");
                let written = disk.open(PLAN_PATH, OpenMode::Create).expect("a file");
                written.write_at(0, bytes).expect("written");
                assert_eq!(file.read(), None, "byte {at}");
            }
        }
    }
}
