//! Chunks of format version 1, which describe themselves: a header with the starts of the blocks and the lengths and
//! checksums of the frames, and frames of 64 KiB cut through the blocks as they lie. Read, never written.
//! `docs/format.md`, "Chunks of version 1".
//!
//! Invariants: nothing is used before its checksum is verified; sizes are checked before memory is taken.

use forebay_base::checksum::crc32c;
use forebay_base::limits::{CHUNK_MAX_BYTES, FRAME_BYTES};
use forebay_base::{Context, Error, ErrorKind, PhysicalType, Result};

use super::{Inflate, InflatedChunk};
use crate::frame::{self, Scheme, Stored, planes};
use crate::header::SECTION_ALIGN;
use crate::parse::EncodedBlock;

/// First four bytes of a chunk: `FBCK`.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"FBCK");
/// The version in its header.
pub const CHUNK_VERSION: u16 = 1;
/// Bytes of a chunk header before its tables.
pub const CHUNK_FIXED_BYTES: usize = 32;
/// Bytes per block in a chunk header: its start.
pub const BLOCK_ENTRY_BYTES: usize = 4;
/// Bytes per frame in a chunk header: stored length and checksum.
pub const FRAME_ENTRY_BYTES: usize = 8;
/// Bytes of the header's checksum, its last ones.
const CHECKSUM_BYTES: usize = 4;

/// Verifies and inflates a chunk as read from disk (padding allowed behind it), and validates all its blocks, which must
/// have the type `physical`. Errors have the kind `Corrupt` and name the frame or block.
pub(super) fn inflate(stored: &[u8], physical: PhysicalType, how: &Inflate<'_>) -> Result<InflatedChunk> {
    let chunk = ChunkHeader::read(stored)?;
    let mut memory = (how.take)(chunk.encoded_bytes)?;
    let mut at = chunk.header_bytes;
    let frames = chunk.frames.len();
    for (index, [stored_bytes, checksum]) in chunk.frames.iter().enumerate() {
        let wrong = |what: &str| Error::corrupt(format!("frame {index} of {frames} of a chunk: {what}"));
        let start = index * FRAME_BYTES;
        let plain = &mut memory.bytes_mut()[start..chunk.encoded_bytes.min(start + FRAME_BYTES)];
        let stored_bytes = *stored_bytes as usize;
        let frame = stored.get(at..at + stored_bytes).filter(|_| stored_bytes <= plain.len());
        let frame = frame.ok_or_else(|| wrong("its stored length is wrong, or the chunk is cut off"))?;
        if crc32c(frame) != *checksum {
            return Err(wrong("checksum mismatch"));
        }
        // What did not become smaller was stored as it is, whatever the header says.
        let form = match stored_bytes == plain.len() {
            true => Stored { scheme: Scheme::Plain, stride: 1 },
            false => Stored { scheme: chunk.codec, stride: chunk.stride },
        };
        frame::decode(how.unpack, frame, form, 1, plain).map_err(|error| wrong(&error))?;
        at += stored_bytes;
    }
    let bytes = &memory.bytes()[..chunk.encoded_bytes];
    let check = |index: usize| {
        let (start, end) = super::block_range(&chunk.offsets, bytes.len(), index);
        let block = EncodedBlock::parse(&bytes[start..end])?;
        if block.physical() != physical {
            return Err(Error::corrupt(format!("it holds {:?} instead of {physical:?}", block.physical())));
        }
        Ok(block.header())
    };
    let headers = (0..chunk.offsets.len())
        .map(|index| check(index).context(|| format!("block {index} of a chunk")))
        .collect::<Result<_>>()?;
    Ok(InflatedChunk::new(memory, chunk.encoded_bytes, chunk.offsets, headers))
}

fn header_bytes(blocks: usize, frames: usize) -> usize {
    let tables = blocks * BLOCK_ENTRY_BYTES + frames * FRAME_ENTRY_BYTES;
    (CHUNK_FIXED_BYTES + tables + CHECKSUM_BYTES).next_multiple_of(SECTION_ALIGN)
}

/// What a chunk header says, checked.
struct ChunkHeader {
    codec: Scheme,
    stride: u8,
    header_bytes: usize,
    encoded_bytes: usize,
    /// Starts of the blocks: 0 first, increasing, inside of the encoded bytes.
    offsets: Vec<u32>,
    /// Stored length and checksum of every frame.
    frames: Vec<[u32; 2]>,
}

impl ChunkHeader {
    fn read(stored: &[u8]) -> Result<Self> {
        let wrong = |what: &str| Error::corrupt(format!("chunk header: {what}"));
        let words: &[[u8; 4]] = stored.as_chunks().0;
        let word = |index: usize| words.get(index).map_or(0, |word| u32::from_le_bytes(*word));
        if word(0) != CHUNK_MAGIC {
            return Err(wrong("it does not start with the magic number of chunks"));
        }
        let header_bytes = word(2) as usize;
        if header_bytes < CHUNK_FIXED_BYTES + CHECKSUM_BYTES
            || header_bytes > stored.len()
            || !header_bytes.is_multiple_of(SECTION_ALIGN)
        {
            return Err(wrong("its length is wrong, or the chunk is cut off"));
        }
        if crc32c(&stored[..header_bytes - CHECKSUM_BYTES]) != word(header_bytes / 4 - 1) {
            return Err(wrong("checksum mismatch"));
        }
        let version = word(1) as u16;
        if version != CHUNK_VERSION {
            let message = format!("a chunk has format version {version}, this program reads {CHUNK_VERSION}");
            return Err(
                Error::new(ErrorKind::Version, message).hint("Open the database with the program that wrote it")
            );
        }
        let codec = codec_of((word(1) >> 16) as u8).ok_or_else(|| wrong("unknown codec"))?;
        let stride = (word(1) >> 24) as u8;
        let (encoded_bytes, blocks, frames) = (word(3) as usize, word(5) as usize, word(6) as usize);
        let sizes_fit = encoded_bytes <= CHUNK_MAX_BYTES
            && encoded_bytes.is_multiple_of(SECTION_ALIGN)
            && word(4) as usize == FRAME_BYTES
            && frames == encoded_bytes.div_ceil(FRAME_BYTES)
            && (1..=encoded_bytes / SECTION_ALIGN).contains(&blocks)
            && header_bytes == self::header_bytes(blocks, frames);
        if !sizes_fit || !planes::STRIDES.contains(&stride) || word(7) != 0 {
            return Err(wrong("its sizes do not fit together"));
        }
        let tables = CHUNK_FIXED_BYTES / 4;
        let offsets: Vec<u32> = (0..blocks).map(|block| word(tables + block)).collect();
        let increasing = offsets.windows(2).all(|pair| pair[0] < pair[1]);
        let aligned = offsets.iter().all(|offset| (*offset as usize).is_multiple_of(SECTION_ALIGN));
        if offsets[0] != 0 || !increasing || !aligned || offsets[blocks - 1] as usize >= encoded_bytes {
            return Err(wrong("its block offsets are wrong"));
        }
        let frames = (0..frames).map(|frame| [0, 1].map(|half| word(tables + blocks + 2 * frame + half))).collect();
        Ok(Self { codec, stride, header_bytes, encoded_bytes, offsets, frames })
    }
}

/// The codecs that version 1 knew.
fn codec_of(code: u8) -> Option<Scheme> {
    [Scheme::Plain, Scheme::Lz4, Scheme::Zstd].into_iter().find(|scheme| *scheme as u8 == code)
}
