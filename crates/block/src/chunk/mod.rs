//! Chunks: consecutive encoded blocks of one column as they lie on disk, in frames that are compressed and checksummed on
//! their own, and the directory that says how. `docs/format.md`, "Chunk and frames".
//!
//! Invariants: no byte of a frame is used before its checksum is verified; what a directory says of sizes is checked
//! before memory is taken. Must not know: where chunk and directory lie on disk, whose memory they inflate into.

mod block_set;
pub(crate) mod directory;
mod parts;
mod rows;
mod summary;
mod version_1;

use std::fmt::Debug;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use forebay_base::checksum::crc32c;
use forebay_base::limits::{CHUNK_MAX_BYTES, FRAME_BYTES, IO_ALIGN};
use forebay_base::{Context, Error, ErrorKind, PhysicalType, Result};

pub use block_set::BlockSet;
pub use directory::{DIRECTORY_FIXED_BYTES, DIRECTORY_FRAME_BYTES};
pub use parts::{ChunkPart, block_places};
pub use rows::BlockRows;
pub use summary::{SchemeSummary, directory_encodings, directory_summary};
pub use version_1::{BLOCK_ENTRY_BYTES, CHUNK_FIXED_BYTES, CHUNK_MAGIC, CHUNK_VERSION, FRAME_ENTRY_BYTES};

use crate::frame::bits::{PortableUnpack, Unpack};
use crate::frame::{Compression, Encoder};
use crate::header::{Header, SECTION_ALIGN};
use crate::parse::EncodedBlock;
use crate::psma::Psma;
use directory::{Directory, Frame, sections};
use parts::FrameReader;

/// Frames start at multiples of so many bytes in a chunk, so that their words are read in place.
pub const FRAME_ALIGN: usize = 8;

/// How to seal a chunk.
#[derive(Debug, Clone, Copy, Default)]
pub struct ChunkOptions {
    /// What is asked of compression.
    pub compression: Compression,
}

/// A chunk as it is written to disk.
#[derive(Debug, Clone)]
pub struct SealedChunk {
    /// The frames, a multiple of `limits::IO_ALIGN`.
    pub bytes: Vec<u8>,
    /// What inflating needs to know of the blocks and frames; kept apart from them.
    pub directory: Vec<u8>,
    /// Bytes of its encoded blocks, as they lie in memory once inflated.
    pub encoded_bytes: u64,
}

/// Makes a chunk of the encoded blocks in `encoded`, which start at `block_offsets`.
pub fn seal_chunk(encoded: &[u8], block_offsets: &[u32], options: &ChunkOptions) -> Result<SealedChunk> {
    if encoded.len() > CHUNK_MAX_BYTES {
        return Err(Error::internal(format!("a chunk of {} bytes is larger than {CHUNK_MAX_BYTES}", encoded.len())));
    }
    let headers = block_headers(encoded, block_offsets).context(|| "cannot seal a chunk")?;
    let mut bytes = Vec::with_capacity((encoded.len() / 2).next_multiple_of(IO_ALIGN));
    let mut frames = Vec::new();
    let mut encoder = Encoder::default();
    for (header, start) in headers.iter().zip(block_offsets) {
        for framed in sections(header) {
            let section = framed.section.of(&encoded[*start as usize..]);
            for plain in section.chunks(FRAME_BYTES) {
                let from = bytes.len();
                let form = encoder.encode(plain, framed.elements, options.compression, &mut bytes);
                let stored = &bytes[from..];
                frames.push(Frame { stored_bytes: stored.len(), checksum: crc32c(stored), form });
                bytes.resize(bytes.len().next_multiple_of(FRAME_ALIGN), 0);
            }
        }
    }
    // Blocks without sections have no frame; a chunk has a place in its file all the same.
    bytes.resize(bytes.len().next_multiple_of(IO_ALIGN).max(IO_ALIGN), 0);
    Ok(SealedChunk { bytes, directory: directory::encode(&headers, &frames), encoded_bytes: encoded.len() as u64 })
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

/// Memory that a chunk inflates into, on a boundary of 8 bytes; of any content before.
pub trait ChunkMemory: Send + Sync + Debug {
    /// All of it.
    fn bytes(&self) -> &[u8];
    /// All of it, to be written.
    fn bytes_mut(&mut self) -> &mut [u8];
    /// Whether it may be held for as long as somebody likes.
    fn may_be_kept(&self) -> bool {
        true
    }
}

/// Gives memory of at least so many bytes, or an error of kind `OutOfMemory`.
pub type TakeMemory<'a> = dyn Fn(usize) -> Result<Box<dyn ChunkMemory>> + 'a;

/// How to inflate.
#[derive(Clone, Copy)]
pub struct Inflate<'a> {
    /// Where memory comes from.
    pub take: &'a TakeMemory<'a>,
    /// What unpacks bits.
    pub unpack: &'a dyn Unpack,
}

impl Default for Inflate<'_> {
    /// Into memory from the heap, by plain loops.
    fn default() -> Self {
        Self { take: &heap_memory, unpack: &PortableUnpack }
    }
}

impl ChunkMemory for Vec<u64> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        bytemuck::cast_slice_mut(self)
    }
}

/// Memory from the heap: a [`TakeMemory`].
pub fn heap_memory(bytes: usize) -> Result<Box<dyn ChunkMemory>> {
    let mut memory: Vec<u64> = Vec::new();
    let words = bytes.div_ceil(size_of::<u64>());
    memory
        .try_reserve_exact(words)
        .map_err(|_| Error::new(ErrorKind::OutOfMemory, format!("no memory for a chunk of {bytes} bytes")))?;
    memory.resize(words, 0);
    Ok(Box::new(memory))
}

/// Stands for the place of a block that was not inflated. Chunks are far shorter than that.
const ABSENT: u32 = u32::MAX;

/// The encoded blocks of one chunk in memory, checked: all of them, or some.
#[derive(Debug)]
pub struct InflatedChunk {
    memory: Box<dyn ChunkMemory>,
    encoded_bytes: usize,
    /// Where each block starts; [`ABSENT`] for those that are not there.
    offsets: Vec<u32>,
    /// Of all blocks.
    headers: Vec<Header>,
    /// Per block, once it was asked for.
    psmas: Vec<OnceLock<Option<Psma>>>,
    /// Whether it was found in memory by somebody who needed it again.
    reused: AtomicBool,
}

impl InflatedChunk {
    fn new(memory: Box<dyn ChunkMemory>, encoded_bytes: usize, offsets: Vec<u32>, headers: Vec<Header>) -> Self {
        let mut psmas = Vec::new();
        psmas.resize_with(headers.len(), OnceLock::new);
        Self { memory, encoded_bytes, offsets, headers, psmas, reused: AtomicBool::new(false) }
    }

    /// Number of blocks of the chunk, whether they are there or not.
    pub fn blocks(&self) -> usize {
        self.headers.len()
    }

    /// Rows of each block of the chunk, whether it is there or not.
    pub fn block_rows(&self) -> impl Iterator<Item = u32> + '_ {
        self.headers.iter().map(|header| header.rows)
    }

    /// Whether block `index` is there.
    pub fn has(&self, index: usize) -> bool {
        self.offsets.get(index).is_some_and(|start| *start != ABSENT)
    }

    /// Whether all these blocks are there.
    pub fn has_all(&self, blocks: &BlockSet) -> bool {
        blocks.iter().all(|block| self.has(block))
    }

    /// Whether all blocks of the chunk are there.
    pub fn is_whole(&self) -> bool {
        !self.offsets.contains(&ABSENT)
    }

    /// Block `index`. Cheap: it was validated when the chunk was inflated.
    ///
    /// # Panics
    /// If the block is not there ([`InflatedChunk::has`]).
    pub fn block(&self, index: usize) -> EncodedBlock<'_> {
        assert!(self.has(index), "block {index} of a chunk was not inflated");
        let (start, header) = (self.offsets[index] as usize, self.headers[index]);
        EncodedBlock::reopen(&self.as_bytes()[start..start + header.layout().end], header)
    }

    /// Where each block starts in [`InflatedChunk::as_bytes`], of a chunk that [is whole](InflatedChunk::is_whole).
    pub fn block_offsets(&self) -> &[u32] {
        &self.offsets
    }

    /// Takes note that the chunk stayed in memory and is needed again.
    pub fn note_reuse(&self) {
        // Those who read the same chunk on other cores keep its line in their caches.
        if !self.reused.load(Ordering::Relaxed) {
            self.reused.store(true, Ordering::Relaxed);
        }
    }

    /// The positional aggregates of block `index`, made when they are asked for first; `None` where they would narrow
    /// nothing, and in a chunk that was just read: making them costs as much as the look that they spare, and pays from
    /// the second look on.
    pub fn psma(&self, index: usize) -> Option<&Psma> {
        if !self.reused.load(Ordering::Relaxed) {
            return None;
        }
        self.psmas[index].get_or_init(|| Psma::of_block(&self.block(index))).as_ref()
    }

    /// All encoded bytes of the blocks that are there, so that views into strings can keep the chunk as their owner.
    pub fn as_bytes(&self) -> &[u8] {
        &self.memory.bytes()[..self.encoded_bytes]
    }

    /// Whether the chunk may stay in memory when nobody uses it.
    pub fn may_be_kept(&self) -> bool {
        self.memory.may_be_kept()
    }

    /// Bytes of memory that the chunk holds, or will hold with all its positional aggregates.
    pub fn memory_bytes(&self) -> usize {
        self.memory.bytes().len()
            + self.offsets.capacity() * size_of::<u32>()
            + self.headers.capacity() * size_of::<Header>()
            + self.psmas.capacity() * size_of::<OnceLock<Option<Psma>>>()
            + self.psma_bytes()
            + size_of::<Self>()
    }

    /// Most bytes that the positional aggregates of the blocks that are there take.
    fn psma_bytes(&self) -> usize {
        let blocks = self.headers.iter().enumerate().filter(|(index, _)| self.has(*index));
        blocks.map(|(_, header)| Psma::largest_bytes(header.element_bytes())).sum()
    }
}

/// Verifies and inflates a chunk as read from disk (padding allowed behind it), and validates all its blocks, which must
/// have the type `physical`. Without a directory it is a chunk of version 1, which describes itself. Errors have the kind
/// `Corrupt` and name the frame or block.
pub fn inflate_chunk(
    directory: &[u8],
    stored: &[u8],
    physical: PhysicalType,
    inflate: &Inflate<'_>,
) -> Result<InflatedChunk> {
    if directory.is_empty() {
        return version_1::inflate(stored, physical, inflate);
    }
    let whole = [ChunkPart { start: 0, bytes: stored }];
    inflate_where(Directory::read(directory, physical)?, &whole, |_| true, inflate)
}

/// Verifies and inflates some blocks of a chunk, as [`inflate_chunk`] does all of them, from parts of the stored bytes that
/// have their frames ([`block_places`] tells where those lie). No byte of other blocks is looked at.
pub fn inflate_blocks(
    directory: &[u8],
    parts: &[ChunkPart<'_>],
    blocks: &BlockSet,
    physical: PhysicalType,
    inflate: &Inflate<'_>,
) -> Result<InflatedChunk> {
    inflate_where(Directory::read(directory, physical)?, parts, |block| blocks.contains(block), inflate)
}

fn inflate_where(
    directory: Directory,
    parts: &[ChunkPart<'_>],
    is_wanted: impl Fn(usize) -> bool,
    inflate: &Inflate<'_>,
) -> Result<InflatedChunk> {
    let wanted = directory.headers.iter().enumerate().filter(|(index, _)| is_wanted(*index));
    let encoded_bytes = wanted.map(|(_, header)| header.layout().end).sum();
    let mut memory = (inflate.take)(encoded_bytes)?;
    let mut offsets = Vec::with_capacity(directory.headers.len());
    let mut frames = FrameReader::new(inflate.unpack, parts, &directory.frames);
    let mut start = 0;
    for (index, header) in directory.headers.iter().enumerate() {
        if !is_wanted(index) {
            frames.skip(directory::frame_count(header));
            offsets.push(ABSENT);
            continue;
        }
        let end = start + header.layout().end;
        let block = &mut memory.bytes_mut()[start..end];
        inflate_block(header, block, &mut frames)?;
        EncodedBlock::reopen(block, *header).check().context(|| format!("block {index} of a chunk"))?;
        offsets.push(start as u32);
        start = end;
    }
    Ok(InflatedChunk::new(memory, encoded_bytes, offsets, directory.headers))
}

/// Writes a block's header and sections, and zeros where it has neither.
fn inflate_block(header: &Header, block: &mut [u8], frames: &mut FrameReader<'_>) -> Result<()> {
    let head = header.to_bytes();
    block[..head.len()].copy_from_slice(&head);
    for framed in sections(header).iter().filter(|framed| framed.section.bytes > 0) {
        let end = framed.section.start + framed.section.bytes;
        for plain in block[framed.section.start..end].chunks_mut(FRAME_BYTES) {
            frames.next_into(plain, framed.elements.bytes)?;
        }
        block[end..end.next_multiple_of(SECTION_ALIGN)].fill(0);
    }
    Ok(())
}
