//! A file of a small segment that is in memory, and in the redo log once it is committed, until a checkpoint writes it.
//!
//! It is kept and logged as pieces without the zeros that pad chunks to pages: a segment of one row has some hundred bytes then
//! instead of five pages. Invariant: it reads exactly as the file that a checkpoint makes of it. Must not know: what is in it.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use forebay_base::{Error, Result};
use forebay_disk::DiskFile;

use crate::serial::{Reader, Writer};

/// Zeros that are not worth a piece of their own.
const SHORT_GAP_BYTES: usize = 16;
/// Bytes that telling of a piece takes: offset and length.
const PIECE_BYTES: usize = 8;
/// A longer file is not believed: offsets have four bytes.
const LENGTH_MAX: u64 = u32::MAX as u64;

/// A file in memory.
#[derive(Debug)]
pub(crate) struct SmallFile {
    path: String,
    content: RwLock<Content>,
}

/// What is in it: pieces by offset, which do not overlap, and zeros.
#[derive(Debug, Default)]
struct Content {
    length: u64,
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl SmallFile {
    /// An empty file.
    pub(crate) fn new(path: String) -> Self {
        Self { path, content: RwLock::default() }
    }

    /// Bytes that it takes in memory and in a record, about.
    pub(crate) fn stored_bytes(&self) -> u64 {
        self.read(|content| content.pieces.values().map(|piece| (piece.len() + PIECE_BYTES) as u64).sum())
    }

    /// Writes all of it to a file that is empty.
    pub(crate) fn write_to(&self, file: &dyn DiskFile) -> Result<()> {
        self.read(|content| {
            file.set_len(content.length)?;
            content.pieces.iter().try_for_each(|(offset, piece)| file.write_at(*offset, piece))
        })
    }

    /// Appends it to a record.
    pub(crate) fn encode(&self, record: &mut Writer) {
        self.read(|content| {
            record.u64(content.length);
            record.count(content.pieces.len());
            for (offset, piece) in &content.pieces {
                record.u32(u32::try_from(*offset).expect("a small file is written below the greatest length"));
                record.blob(piece);
            }
        });
    }

    /// The file of a record.
    pub(crate) fn decode(record: &mut Reader<'_>, path: String) -> Result<Self> {
        let mut content = Content { length: record.u64()?, pieces: BTreeMap::new() };
        let mut end = 0;
        for _ in 0..record.count(PIECE_BYTES)? {
            let (offset, piece) = (u64::from(record.u32()?), record.blob()?);
            if offset < end {
                return Err(record.wrong("pieces of a file overlap"));
            }
            end = offset + piece.len() as u64;
            content.pieces.insert(offset, piece.to_vec());
        }
        match end <= content.length && content.length <= LENGTH_MAX {
            true => Ok(Self { path, content: RwLock::new(content) }),
            false => Err(record.wrong("a file is longer than it says")),
        }
    }

    fn read<T>(&self, look: impl FnOnce(&Content) -> T) -> T {
        look(&self.content.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, change: impl FnOnce(&mut Content) -> T) -> T {
        change(&mut self.content.write().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The parts of `bytes` that are worth keeping, with where they begin.
fn pieces(bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += bytes[at..].iter().position(|byte| *byte != 0)?;
        let (first, mut end, mut zeros) = (at, at, 0);
        while at < bytes.len() && zeros < SHORT_GAP_BYTES {
            zeros = if bytes[at] == 0 { zeros + 1 } else { 0 };
            at += 1;
            end = if zeros == 0 { at } else { end };
        }
        Some((first, &bytes[first..end]))
    })
}

/// Bytes that [`SmallFile::stored_bytes`] grows by where these are written.
pub(crate) fn stored_bytes_of(bytes: &[u8]) -> u64 {
    pieces(bytes).map(|(_, piece)| (piece.len() + PIECE_BYTES) as u64).sum()
}

impl Content {
    /// Makes `offset..end` zeros.
    fn clear(&mut self, offset: u64, end: u64) {
        let before = self.pieces.range(..offset).next_back().map(|(start, _)| *start).unwrap_or(offset);
        let hit: Vec<u64> = self.pieces.range(before..end).map(|(start, _)| *start).collect();
        for start in hit {
            let piece = self.pieces.remove(&start).expect("it was just found");
            let stop = start + piece.len() as u64;
            if start < offset {
                let kept = (offset - start).min(piece.len() as u64) as usize;
                self.pieces.insert(start, piece[..kept].to_vec());
            }
            if stop > end {
                let from = end.max(start);
                self.pieces.insert(from, piece[(from - start) as usize..].to_vec());
            }
        }
    }
}

impl DiskFile for SmallFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(|content| {
            let end = offset + buffer.len() as u64;
            if end > content.length {
                let (path, bytes, length) = (&self.path, buffer.len(), content.length);
                let message = format!("cannot read {bytes} bytes at {offset} of {path}, which has {length} bytes");
                return Err(Error::corrupt(format!("file is shorter than expected: {message}")));
            }
            buffer.fill(0);
            let before = content.pieces.range(..=offset).next_back().map(|(start, _)| *start).unwrap_or(offset);
            for (start, piece) in content.pieces.range(before..end.max(before)) {
                let stop = start + piece.len() as u64;
                let (from, to) = (offset.max(*start), end.min(stop));
                if from < to {
                    let part = &piece[(from - start) as usize..(to - start) as usize];
                    buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
                }
            }
            Ok(())
        })
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let end = offset + bytes.len() as u64;
        if end > LENGTH_MAX {
            return Err(Error::internal(format!("small file {} would have {end} bytes", self.path)));
        }
        self.write(|content| {
            content.clear(offset, end);
            let written = pieces(bytes).map(|(at, piece)| (offset + at as u64, piece.to_vec()));
            content.pieces.extend(written);
            content.length = content.length.max(end);
        });
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn len(&self) -> Result<u64> {
        Ok(self.read(|content| content.length))
    }

    fn set_len(&self, bytes: u64) -> Result<()> {
        self.write(|content| {
            content.clear(bytes, u64::MAX);
            content.length = bytes;
        });
        Ok(())
    }

    fn path(&self) -> &str {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever is written where, it reads as a plain file does, also when it comes from a record.
        #[test]
        fn it_reads_as_a_plain_file(
            writes in prop::collection::vec((0..600_usize, prop::collection::vec(prop_oneof![3 => Just(0_u8), 1 => any::<u8>()], 0..200)), 0..12),
            cut in prop::option::of(0..700_usize),
        ) {
            let small = SmallFile::new("f".to_owned());
            let mut plain = Vec::new();
            for (offset, bytes) in writes {
                small.write_at(offset as u64, &bytes).expect("memory");
                plain.resize(plain.len().max(offset + bytes.len()), 0);
                plain[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            if let Some(cut) = cut {
                small.set_len(cut as u64).expect("memory");
                plain.resize(cut, 0);
            }
            let mut record = Writer::default();
            small.encode(&mut record);
            let again = SmallFile::decode(&mut Reader::new(&record.bytes, "a record"), "f".to_owned()).expect("own bytes");
            for file in [&small, &again] {
                prop_assert_eq!(file.len().expect("known"), plain.len() as u64);
                for start in (0..=plain.len()).step_by(37) {
                    for end in (start..=plain.len()).step_by(41) {
                        let mut read = vec![7; end - start];
                        file.read_at(start as u64, &mut read).expect("inside");
                        prop_assert_eq!(&read, &plain[start..end]);
                    }
                }
                prop_assert!(file.read_at(plain.len() as u64, &mut [0]).is_err());
            }
        }
    }

    #[test]
    fn padding_takes_no_room() {
        let small = SmallFile::new("f".to_owned());
        let mut page = vec![0; 4096];
        page[..3].copy_from_slice(b"abc");
        (0..5).for_each(|number| small.write_at(number * 4096, &page).expect("memory"));
        assert_eq!((small.len().expect("known"), small.stored_bytes()), (5 * 4096, 5 * 11));
        assert_eq!(stored_bytes_of(&page), 11);
    }
}
