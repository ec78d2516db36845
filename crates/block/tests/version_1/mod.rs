//! Chunks as programs before version 2 wrote them. Beside the cases, since other crates' tests share those and have no codecs.

use forebay_base::{checksum::crc32c, limits};
use forebay_block::Scheme;

/// A chunk of version 1 of these blocks: what programs before version 2 wrote, without byte planes.
pub(crate) fn seal_v1(encoded: &[u8], offsets: &[u32], codec: Scheme) -> Vec<u8> {
    let frames = encoded.len().div_ceil(limits::FRAME_BYTES);
    let header_bytes = (32 + 4 * offsets.len() + 8 * frames + 4).next_multiple_of(64);
    let mut bytes = vec![0; header_bytes];
    let mut entries = vec![];
    for frame in encoded.chunks(limits::FRAME_BYTES) {
        let packed = match codec {
            Scheme::Lz4 => lz4_flex::block::compress(frame),
            Scheme::Zstd => zstd::bulk::compress(frame, 1).expect("any frame compresses"),
            _ => frame.to_vec(),
        };
        let stored = if packed.len() < frame.len() { &packed } else { frame };
        entries.extend([stored.len() as u32, crc32c(stored)]);
        bytes.extend_from_slice(stored);
    }
    let fixed = [
        u32::from_le_bytes(*b"FBCK"),
        1 | u32::from(codec as u8) << 16 | 1 << 24,
        header_bytes as u32,
        encoded.len() as u32,
        limits::FRAME_BYTES as u32,
        offsets.len() as u32,
        frames as u32,
        0,
    ];
    for (index, word) in fixed.iter().chain(offsets).chain(&entries).enumerate() {
        bytes[4 * index..4 * index + 4].copy_from_slice(&word.to_le_bytes());
    }
    let checksum = crc32c(&bytes[..header_bytes - 4]);
    bytes[header_bytes - 4..header_bytes].copy_from_slice(&checksum.to_le_bytes());
    bytes.resize(bytes.len().next_multiple_of(limits::IO_ALIGN), 0);
    bytes
}
