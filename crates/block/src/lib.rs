//! What bytes mean: plain columns become encoded blocks (Data Blocks §3), encoded blocks become chunks on disk, and
//! back. The byte layouts are in `docs/format.md`.
//!
//! Invariants: a block is flat, without pointers, little-endian and self-contained; whatever [`EncodedBlock::parse`]
//! accepted can be read at any row without a panic. Pure code: no file, clock, environment or random source.
//! Must not know: tables, files, tests of queries, Arrow.
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("encoded blocks are read in place and are little-endian");

pub mod access;
pub mod choose;
pub mod chunk;
pub mod column;
mod distinct;
pub mod encode;
mod encoding;
mod frame;
pub mod header;
pub mod native;
pub mod parse;
pub mod psma;
pub mod statistics;
pub mod validity;
pub mod zone;
mod zones;

pub use access::{
    Access, Codes, DictionaryValues, FixedValues, PlainAccess, RunEnds, RunValues, StringValues, ValueRef, Values,
};
pub use chunk::{
    BlockRows, BlockSet, ChunkMemory, ChunkOptions, ChunkPart, Inflate, InflatedChunk, SchemeSummary, SealedChunk,
    TakeMemory, block_places, directory_encodings, directory_summary, heap_memory, inflate_blocks, inflate_chunk,
    seal_chunk,
};
pub use column::{PlainColumn, PlainValues};
pub use encode::{EncodeOptions, encode_block};
pub use encoding::Encoding;
pub use frame::bits::{PortableUnpack, Unpack};
pub use frame::{Compression, Scheme};
pub use native::Native;
pub use parse::EncodedBlock;
pub use psma::Psma;
pub use statistics::ColumnStatistics;
pub use zone::Zone;
pub use zones::{ColumnZones, IntegerZones};

#[doc(hidden)]
pub use forebay_base::PhysicalType as __PhysicalType;
