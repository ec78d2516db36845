//! Chunks: consecutive encoded blocks of one column as they lie on disk, compressed and checksummed in frames.
//! `docs/format.md`, "Chunk and frames".
//!
//! Invariants: nothing is used before its checksum is verified; what a chunk says of sizes is checked against
//! `limits::CHUNK_MAX_BYTES` before memory is taken.

use std::sync::OnceLock;

use forebay_base::checksum::crc32c;
use forebay_base::limits::{CHUNK_MAX_BYTES, FRAME_BYTES, IO_ALIGN};
use forebay_base::{Context, Error, ErrorKind, PhysicalType, Result};

pub use crate::codec::Codec;
use crate::codec::{FrameCodec, with_frame_codec};
use crate::header::{Header, SECTION_ALIGN};
use crate::parse::EncodedBlock;
use crate::planes;
use crate::psma::Psma;

/// First four bytes of a chunk: `FBCK`.
pub const CHUNK_MAGIC: u32 = u32::from_le_bytes(*b"FBCK");
/// Version of the chunk and block format.
pub const CHUNK_VERSION: u16 = 1;
/// Bytes of a chunk header before its tables.
pub const CHUNK_FIXED_BYTES: usize = 32;
/// Bytes per block in a chunk header: its start.
pub const BLOCK_ENTRY_BYTES: usize = 4;
/// Bytes per frame in a chunk header: stored length and checksum.
pub const FRAME_ENTRY_BYTES: usize = 8;
/// Bytes of the header's checksum, its last ones.
const CHECKSUM_BYTES: usize = 4;
/// Share of the bytes, in percent, that a codec must save in the sample to be used.
const LEAST_SAVING_PERCENT: usize = 5;

/// Which codec a chunk gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CodecChoice {
    /// Zstandard where it saves at least 5 % of a sample frame, else none.
    #[default]
    Auto,
    /// This one.
    Force(Codec),
}

/// How to seal a chunk.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChunkOptions {
    /// The codec.
    pub codec: CodecChoice,
}

/// A chunk as it is written to disk.
#[derive(Debug, Clone)]
pub struct SealedChunk {
    /// The bytes, a multiple of `limits::IO_ALIGN`.
    pub bytes: Vec<u8>,
    /// Bytes of its encoded blocks, as they lie in memory once inflated.
    pub encoded_bytes: u64,
    /// The codec of its frames.
    pub codec: Codec,
    /// What inflating needs to know of the frames; kept in the segment's section of frames, not in the chunk. Empty where
    /// the chunk describes itself.
    pub directory: Vec<u8>,
}

/// Makes a chunk of the encoded blocks in `encoded`, which start at `block_offsets`.
pub fn seal_chunk(encoded: &[u8], block_offsets: &[u32], options: &ChunkOptions) -> Result<SealedChunk> {
    if encoded.len() > CHUNK_MAX_BYTES {
        return Err(Error::internal(format!("a chunk of {} bytes is larger than {CHUNK_MAX_BYTES}", encoded.len())));
    }
    let headers = block_headers(encoded, block_offsets).context(|| "cannot seal a chunk")?;
    let frames = encoded.len().div_ceil(FRAME_BYTES);
    let header_bytes = header_bytes(block_offsets.len(), frames);
    with_frame_codec(|state| {
        let (codec, stride) = choose(state, encoded, block_offsets, &headers, options.codec);
        let mut bytes = Vec::with_capacity((header_bytes + encoded.len()).next_multiple_of(IO_ALIGN));
        bytes.resize(header_bytes, 0);
        let mut entries = Vec::with_capacity(frames * 2);
        for frame in encoded.chunks(FRAME_BYTES) {
            let stored = state.compress(codec, stride, frame).unwrap_or(frame);
            entries.extend([stored.len() as u32, crc32c(stored)]);
            bytes.extend_from_slice(stored);
        }
        let fixed = [
            CHUNK_MAGIC,
            u32::from(CHUNK_VERSION) | u32::from(codec as u8) << 16 | u32::from(stride) << 24,
            header_bytes as u32,
            encoded.len() as u32,
            FRAME_BYTES as u32,
            block_offsets.len() as u32,
            frames as u32,
            0,
        ];
        let words = fixed.iter().chain(block_offsets).chain(&entries);
        for (slot, word) in bytes[..header_bytes].as_chunks_mut::<4>().0.iter_mut().zip(words) {
            *slot = word.to_le_bytes();
        }
        let checksum = crc32c(&bytes[..header_bytes - CHECKSUM_BYTES]);
        bytes[header_bytes - CHECKSUM_BYTES..header_bytes].copy_from_slice(&checksum.to_le_bytes());
        bytes.resize(bytes.len().next_multiple_of(IO_ALIGN), 0);
        Ok(SealedChunk { bytes, encoded_bytes: encoded.len() as u64, codec, directory: Vec::new() })
    })
}

fn header_bytes(blocks: usize, frames: usize) -> usize {
    let tables = blocks * BLOCK_ENTRY_BYTES + frames * FRAME_ENTRY_BYTES;
    (CHUNK_FIXED_BYTES + tables + CHECKSUM_BYTES).next_multiple_of(SECTION_ALIGN)
}

/// The header of every block; checks that the blocks fill `encoded`.
fn block_headers(encoded: &[u8], offsets: &[u32]) -> Result<Vec<Header>> {
    let starts_at_zero = offsets.first() == Some(&0);
    if !starts_at_zero || !encoded.len().is_multiple_of(SECTION_ALIGN) {
        return Err(Error::internal("blocks do not start at 0 or do not end at a multiple of 64"));
    }
    (0..offsets.len())
        .map(|block| {
            let (start, end) = block_range(offsets, encoded.len(), block);
            let bytes = encoded.get(start..end).filter(|_| start.is_multiple_of(SECTION_ALIGN));
            Header::read(bytes.unwrap_or_default()).context(|| format!("block {block}"))
        })
        .collect()
}

fn block_range(offsets: &[u32], encoded_bytes: usize, block: usize) -> (usize, usize) {
    (offsets[block] as usize, offsets.get(block + 1).map_or(encoded_bytes, |next| *next as usize))
}

/// Codec and stride, tried on the frame in the middle.
fn choose(
    state: &mut FrameCodec,
    encoded: &[u8],
    offsets: &[u32],
    headers: &[Header],
    choice: CodecChoice,
) -> (Codec, u8) {
    let codec = match choice {
        CodecChoice::Auto => Codec::Zstd,
        CodecChoice::Force(Codec::None) => return (Codec::None, 1),
        CodecChoice::Force(codec) => codec,
    };
    let start = encoded.len() / FRAME_BYTES / 2 * FRAME_BYTES;
    let sample = &encoded[start..encoded.len().min(start + FRAME_BYTES)];
    let block = offsets.partition_point(|offset| *offset as usize <= start) - 1;
    let element = headers[block].element_bytes().min(8) as u8;
    let strides = if element == 1 { &[1][..] } else { &[1, element][..] };
    let mut size = |stride: u8| state.compress(codec, stride, sample).map_or(sample.len(), <[u8]>::len);
    let (bytes, stride) = strides.iter().map(|stride| (size(*stride), *stride)).min().unwrap_or((sample.len(), 1));
    let saves = bytes * 100 <= sample.len() * (100 - LEAST_SAVING_PERCENT);
    match choice {
        CodecChoice::Auto if !saves => (Codec::None, 1),
        _ => (codec, stride),
    }
}

/// The encoded blocks of one chunk in memory, checked.
#[derive(Debug, Clone)]
pub struct InflatedChunk {
    /// Words, so that blocks are aligned to 8 bytes.
    memory: Vec<u64>,
    offsets: Vec<u32>,
    headers: Vec<Header>,
    /// Per block, once it was asked for.
    psmas: Vec<OnceLock<Option<Psma>>>,
}

impl InflatedChunk {
    /// Number of blocks.
    pub fn blocks(&self) -> usize {
        self.headers.len()
    }

    /// Block `index`. Cheap: it was validated when the chunk was inflated.
    pub fn block(&self, index: usize) -> EncodedBlock<'_> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.memory);
        let (start, end) = block_range(&self.offsets, bytes.len(), index);
        EncodedBlock::reopen(&bytes[start..end], self.headers[index])
    }

    /// The positional aggregates of block `index`, made when they are asked for first; `None` where they would narrow
    /// nothing.
    pub fn psma(&self, index: usize) -> Option<&Psma> {
        self.psmas[index].get_or_init(|| Psma::of_block(&self.block(index))).as_ref()
    }

    /// All encoded bytes, so that views into strings can keep the chunk as their owner.
    pub fn as_bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.memory)
    }

    /// Bytes of memory that the chunk holds, or will hold with all its positional aggregates.
    pub fn memory_bytes(&self) -> usize {
        self.memory.capacity() * size_of::<u64>()
            + self.offsets.capacity() * size_of::<u32>()
            + self.headers.capacity() * size_of::<Header>()
            + self.psmas.capacity() * size_of::<OnceLock<Option<Psma>>>()
            + self.headers.iter().map(|header| Psma::largest_bytes(header.element_bytes())).sum::<usize>()
            + size_of::<Self>()
    }
}

/// Verifies and inflates a chunk as read from disk (padding allowed behind it), and validates all its blocks, which must
/// have the type `physical`. Errors have the kind `Corrupt` and name the frame or block.
pub fn inflate_chunk(stored: &[u8], physical: PhysicalType) -> Result<InflatedChunk> {
    let chunk = ChunkHeader::read(stored)?;
    let mut memory: Vec<u64> = Vec::new();
    let words = chunk.encoded_bytes / size_of::<u64>();
    memory.try_reserve_exact(words).map_err(|_| {
        Error::new(ErrorKind::OutOfMemory, format!("no memory for a chunk of {} bytes", chunk.encoded_bytes))
    })?;
    let mut at = chunk.header_bytes;
    let frames = chunk.frames.len();
    with_frame_codec(|state| {
        for (index, [stored_bytes, checksum]) in chunk.frames.iter().enumerate() {
            let wrong = |what: &str| Error::corrupt(format!("frame {index} of {frames} of a chunk: {what}"));
            let plain_bytes = FRAME_BYTES.min(chunk.encoded_bytes - index * FRAME_BYTES);
            let stored_bytes = *stored_bytes as usize;
            let frame = stored.get(at..at + stored_bytes).filter(|_| stored_bytes <= plain_bytes);
            let frame = frame.ok_or_else(|| wrong("its stored length is wrong, or the chunk is cut off"))?;
            if crc32c(frame) != *checksum {
                return Err(wrong("checksum mismatch"));
            }
            state.decompress(chunk.codec, chunk.stride, frame, plain_bytes, &mut memory).map_err(|e| wrong(&e))?;
            at += stored_bytes;
        }
        Ok(())
    })?;
    let mut inflated = InflatedChunk { memory, offsets: chunk.offsets, headers: Vec::new(), psmas: Vec::new() };
    inflated.headers = inflated.check_blocks(physical)?;
    inflated.psmas.resize_with(inflated.headers.len(), OnceLock::new);
    Ok(inflated)
}

impl InflatedChunk {
    fn check_blocks(&self, physical: PhysicalType) -> Result<Vec<Header>> {
        let bytes: &[u8] = bytemuck::cast_slice(&self.memory);
        let check = |index: usize| {
            let (start, end) = block_range(&self.offsets, bytes.len(), index);
            let block = EncodedBlock::parse(&bytes[start..end])?;
            if block.physical() != physical {
                return Err(Error::corrupt(format!("it holds {:?} instead of {physical:?}", block.physical())));
            }
            Ok(block.header())
        };
        (0..self.offsets.len()).map(|index| check(index).context(|| format!("block {index} of a chunk"))).collect()
    }
}

/// What a chunk header says, checked.
struct ChunkHeader {
    codec: Codec,
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
        let codec = Codec::from_code((word(1) >> 16) as u8).ok_or_else(|| wrong("unknown codec"))?;
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
