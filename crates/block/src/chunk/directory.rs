//! The directory of a chunk: the headers of its blocks, and how each frame is stored. It lies apart from the frames, so
//! that blocks are known, tests translated and frames inflated one by one. `docs/format.md`, "Chunk and frames".
//!
//! Invariants: [`Directory::read`] gives nothing that does not fit together: sizes within limits, as many frames as the
//! sections of the blocks need. Must not know: where the frames are on disk.

use forebay_base::limits::{CHUNK_MAX_BYTES, FRAME_BYTES};
use forebay_base::{Context, Error, PhysicalType, Result};

use super::FRAME_ALIGN;
use crate::frame::{Elements, Kind, Scheme, Stored, planes};
use crate::header::{BLOCK_HEADER_BYTES, Header, Section};

/// Bytes of a directory before its tables: the numbers of blocks and frames.
pub const DIRECTORY_FIXED_BYTES: usize = 8;
/// Bytes of a frame in a directory.
pub const DIRECTORY_FRAME_BYTES: usize = 12;

/// A frame as a directory describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Frame {
    /// Bytes in the chunk, without padding.
    pub(crate) stored_bytes: usize,
    /// CRC-32C of those.
    pub(crate) checksum: u32,
    pub(crate) form: Stored,
}

/// A directory that was read.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) headers: Vec<Header>,
    pub(crate) frames: Vec<Frame>,
}

/// A section of a block as frames are cut from it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FramedSection {
    pub(crate) section: Section,
    pub(crate) elements: Elements,
}

impl FramedSection {
    /// Number of frames.
    pub(crate) fn frames(&self) -> usize {
        self.section.bytes.div_ceil(FRAME_BYTES)
    }

    /// Bytes of its frames in memory, in their order.
    fn plain_bytes(self) -> impl Iterator<Item = usize> {
        (0..self.frames()).map(move |frame| (self.section.bytes - frame * FRAME_BYTES).min(FRAME_BYTES))
    }
}

/// The sections of a block in their order.
pub(crate) fn sections(header: &Header) -> [FramedSection; 4] {
    let layout = header.layout();
    let elements = |bytes: usize, kind: Kind| Elements { bytes, kind };
    let (value_bytes, values) = match (header.physical, header.physical.width()) {
        (PhysicalType::F32 | PhysicalType::F64, Some(width)) => (width, Kind::Floats),
        (PhysicalType::I128, Some(width)) => (width, Kind::Wide),
        (_, Some(width)) => (width, Kind::Integers),
        // Offsets of strings.
        (_, None) => (size_of::<u32>(), Kind::Integers),
    };
    let code_bytes = usize::from(header.code_bytes.max(1));
    [
        FramedSection { section: layout.validity, elements: elements(1, Kind::Integers) },
        FramedSection { section: layout.codes, elements: elements(code_bytes, Kind::Integers) },
        FramedSection { section: layout.values, elements: elements(value_bytes, values) },
        FramedSection { section: layout.strings, elements: elements(1, Kind::Text) },
    ]
}

/// Number of frames of a block.
pub(crate) fn frame_count(header: &Header) -> usize {
    sections(header).iter().map(FramedSection::frames).sum()
}

/// A directory as bytes.
pub(crate) fn encode(headers: &[Header], frames: &[Frame]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(
        DIRECTORY_FIXED_BYTES + headers.len() * BLOCK_HEADER_BYTES + frames.len() * DIRECTORY_FRAME_BYTES,
    );
    bytes.extend_from_slice(&(headers.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&(frames.len() as u32).to_le_bytes());
    for header in headers {
        bytes.extend_from_slice(&header.to_bytes());
    }
    for frame in frames {
        bytes.extend_from_slice(&(frame.stored_bytes as u32).to_le_bytes());
        bytes.extend_from_slice(&frame.checksum.to_le_bytes());
        bytes.extend_from_slice(&[frame.form.scheme as u8, frame.form.stride, 0, 0]);
    }
    bytes
}

impl Frame {
    /// Bytes from its start to that of the next one.
    pub(crate) fn padded_bytes(&self) -> usize {
        self.stored_bytes.next_multiple_of(FRAME_ALIGN)
    }
}

impl Directory {
    /// Bytes of all frames in memory, in their order.
    pub(crate) fn plain_bytes(&self) -> impl Iterator<Item = usize> {
        self.headers.iter().flat_map(sections).flat_map(FramedSection::plain_bytes)
    }

    /// Reads a directory, whose blocks must have the type `physical`.
    pub(crate) fn read(bytes: &[u8], physical: PhysicalType) -> Result<Self> {
        let wrong = |what: &str| Error::corrupt(format!("directory of a chunk: {what}"));
        let (counts, tables) = bytes.split_at_checked(DIRECTORY_FIXED_BYTES).ok_or_else(|| wrong("it is cut off"))?;
        let word = |bytes: &[u8], at: usize| bytes[at..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let (blocks, frames) = (word(counts, 0) as usize, word(counts, 4) as usize);
        let table_bytes = blocks
            .checked_mul(BLOCK_HEADER_BYTES)
            .zip(frames.checked_mul(DIRECTORY_FRAME_BYTES))
            .and_then(|(blocks, frames)| blocks.checked_add(frames));
        if blocks == 0 || table_bytes != Some(tables.len()) {
            return Err(wrong("its length does not fit its numbers of blocks and frames"));
        }
        let (headers, entries) = tables.split_at(blocks * BLOCK_HEADER_BYTES);
        let headers = headers.as_chunks::<BLOCK_HEADER_BYTES>().0.iter().enumerate();
        let headers = headers
            .map(|(index, header)| {
                let header = Header::read_head(header)?;
                match header.physical == physical {
                    true => Ok(header),
                    false => Err(Error::corrupt(format!("it holds {:?} instead of {physical:?}", header.physical))),
                }
                .context(|| format!("block {index} of a chunk"))
            })
            .collect::<Result<Vec<_>>>()?;
        let encoded_bytes = headers.iter().map(|header| header.layout().end).sum::<usize>();
        let promised: usize = headers.iter().map(frame_count).sum();
        if encoded_bytes > CHUNK_MAX_BYTES || promised != frames {
            return Err(wrong("its blocks are too large, or have other frames"));
        }
        let frames = entries.as_chunks::<DIRECTORY_FRAME_BYTES>().0.iter().map(|entry| {
            let scheme = Scheme::from_code(entry[8]).ok_or_else(|| wrong("unknown scheme"))?;
            let stride = entry[9];
            if !planes::STRIDES.contains(&stride) || entry[10..] != [0, 0] {
                return Err(wrong("a frame's entry is wrong"));
            }
            let form = Stored { scheme, stride };
            Ok(Frame { stored_bytes: word(entry, 0) as usize, checksum: word(entry, 4), form })
        });
        let frames = frames.collect::<Result<_>>()?;
        Ok(Self { headers, frames })
    }
}
