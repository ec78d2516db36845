//! Parts of a chunk's stored bytes: where the frames of its blocks lie, and taking them from what was read.
//!
//! Invariants: frames lie block by block, so those of a block are in one piece; no frame is used before its checksum was
//! verified. Must not know: how parts are read, and when that pays.

use std::ops::Range;

use forebay_base::checksum::crc32c;
use forebay_base::{Error, PhysicalType, Result};

use super::BlockSet;
use super::directory::{Directory, Frame, frame_count};
use crate::frame;
use crate::frame::bits::Unpack;

/// Bytes of a chunk as they are stored.
#[derive(Debug, Clone, Copy)]
pub struct ChunkPart<'a> {
    /// Where they begin in the chunk.
    pub start: usize,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// Where the frames of these blocks of a chunk lie, in bytes from its start: one range for each block that has frames,
/// ascending. The blocks must have the type `physical`; a chunk that describes itself has no directory and cannot be asked.
/// Errors have the kind `Corrupt`.
pub fn block_places(directory: &[u8], physical: PhysicalType, blocks: &BlockSet) -> Result<Vec<Range<usize>>> {
    let directory = Directory::read(directory, physical)?;
    let mut rest = directory.frames.as_slice();
    let mut start = 0;
    let mut places = Vec::with_capacity(blocks.len());
    for (index, header) in directory.headers.iter().enumerate() {
        let (frames, later) = rest.split_at(frame_count(header));
        let end = start + frames.iter().map(Frame::padded_bytes).sum::<usize>();
        if blocks.contains(index) && !frames.is_empty() {
            places.push(start..end);
        }
        (rest, start) = (later, end);
    }
    Ok(places)
}

/// Takes the frames of a chunk in order.
pub(super) struct FrameReader<'a> {
    with: &'a dyn Unpack,
    parts: &'a [ChunkPart<'a>],
    frames: &'a [Frame],
    /// Where the next one starts in the chunk.
    at: usize,
    /// Its number.
    index: usize,
}

impl<'a> FrameReader<'a> {
    pub(super) fn new(with: &'a dyn Unpack, parts: &'a [ChunkPart<'a>], frames: &'a [Frame]) -> Self {
        Self { with, parts, frames, at: 0, index: 0 }
    }

    /// Verifies the next frame and fills `plain` from it.
    pub(super) fn next_into(&mut self, plain: &mut [u8], element_bytes: usize) -> Result<()> {
        let (index, count) = (self.index, self.frames.len());
        let wrong = |what: &str| Error::corrupt(format!("frame {index} of {count} of a chunk: {what}"));
        let frame = self.frames[index];
        let stored = self.stored(frame.stored_bytes).ok_or_else(|| wrong("the chunk is cut off"))?;
        if crc32c(stored) != frame.checksum {
            return Err(wrong("checksum mismatch"));
        }
        frame::decode(self.with, stored, frame.form, element_bytes, plain).map_err(|error| wrong(&error))?;
        self.skip(1);
        Ok(())
    }

    /// Leaves out the next `count` frames.
    pub(super) fn skip(&mut self, count: usize) {
        let skipped = &self.frames[self.index..self.index + count];
        self.at += skipped.iter().map(Frame::padded_bytes).sum::<usize>();
        self.index += count;
    }

    /// The next so many bytes; `None` where no part has them all.
    fn stored(&self, bytes: usize) -> Option<&'a [u8]> {
        let inside = |part: &&ChunkPart<'_>| part.start <= self.at && self.at + bytes <= part.start + part.bytes.len();
        let part = self.parts.iter().find(inside)?;
        Some(&part.bytes[self.at - part.start..][..bytes])
    }
}
