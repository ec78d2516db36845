//! What the frames of a chunk take, by scheme, as its directory says: for reports, and for who models the time to decode.
//!
//! Invariants: plain bytes of all schemes are those of the blocks' sections. Must not know: the bytes of the frames.

use std::collections::BTreeMap;

use forebay_base::{PhysicalType, Result};

use super::directory::Directory;
use crate::encoding::Encoding;
use crate::frame::Scheme;

/// The frames of a chunk that are stored by one scheme.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SchemeSummary {
    /// The scheme.
    pub scheme: Scheme,
    /// Number of frames, at least one.
    pub frames: u64,
    /// Bytes of their sections' parts in memory.
    pub plain_bytes: u64,
    /// Bytes on disk, without those that align frames and the chunk.
    pub stored_bytes: u64,
}

/// The schemes of a chunk whose blocks have the type `physical`, in the order of their codes; those that no frame has are
/// left out. An empty directory stands for a chunk of version 1, which describes itself: there is nothing to tell.
/// Errors have the kind `Corrupt`.
pub fn directory_summary(directory: &[u8], physical: PhysicalType) -> Result<Vec<SchemeSummary>> {
    if directory.is_empty() {
        return Ok(Vec::new());
    }
    let directory = Directory::read(directory, physical)?;
    let mut schemes: BTreeMap<Scheme, SchemeSummary> = BTreeMap::new();
    for (frame, plain_bytes) in directory.frames.iter().zip(directory.plain_bytes()) {
        let scheme = frame.form.scheme;
        let summary =
            schemes.entry(scheme).or_insert(SchemeSummary { scheme, frames: 0, plain_bytes: 0, stored_bytes: 0 });
        summary.frames += 1;
        summary.plain_bytes += plain_bytes as u64;
        summary.stored_bytes += frame.stored_bytes as u64;
    }
    Ok(schemes.into_values().collect())
}

/// How many blocks of a chunk are encoded how, in the order of the encodings' codes; nothing for an empty directory, as above.
/// Errors have the kind `Corrupt`.
pub fn directory_encodings(directory: &[u8], physical: PhysicalType) -> Result<Vec<(Encoding, u64)>> {
    if directory.is_empty() {
        return Ok(Vec::new());
    }
    let mut blocks: BTreeMap<u8, (Encoding, u64)> = BTreeMap::new();
    for header in Directory::read(directory, physical)?.headers {
        blocks.entry(header.encoding as u8).or_insert((header.encoding, 0)).1 += 1;
    }
    Ok(blocks.into_values().collect())
}

#[cfg(test)]
mod tests {
    use forebay_base::limits::{BLOCK_ROWS, FRAME_BYTES};

    use super::*;
    use crate::chunk::{ChunkOptions, SealedChunk, seal_chunk};
    use crate::{Compression, EncodeOptions, Encoding, PlainColumn, PlainValues, encode_block};

    /// A chunk of two blocks: full and of 100 rows, NULL in the first row of both.
    fn chunk(compression: Compression) -> SealedChunk {
        let values: Vec<u8> = (0..BLOCK_ROWS as u64).flat_map(|row| (row * row).to_le_bytes()).collect();
        let mut validity = vec![0xff; BLOCK_ROWS / 8];
        validity[0] = 0xfe;
        let (mut encoded, mut offsets) = (Vec::new(), Vec::new());
        for rows in [BLOCK_ROWS, 100] {
            offsets.push(encoded.len() as u32);
            let column = PlainColumn {
                physical: PhysicalType::U64,
                rows,
                validity: Some(&validity),
                values: PlainValues::Fixed(&values[..rows * 8]),
            };
            let options = EncodeOptions { force: Some(Encoding::Uncompressed) };
            encode_block(&column, &options, &mut encoded).expect("a valid column encodes");
        }
        seal_chunk(&encoded, &offsets, &ChunkOptions { compression }).expect("valid blocks seal")
    }

    #[test]
    fn every_frame_is_counted_once() {
        let sealed = chunk(Compression::Force(Scheme::Delta));
        let summary = directory_summary(&sealed.directory, PhysicalType::U64).expect("own directories are read");
        let plain_bytes: u64 = summary.iter().map(|scheme| scheme.plain_bytes).sum();
        assert_eq!(plain_bytes, (BLOCK_ROWS / 8 + BLOCK_ROWS * 8 + 100_usize.div_ceil(8) + 800) as u64);
        let frames: u64 = summary.iter().map(|scheme| scheme.frames).sum();
        assert_eq!(frames, (1 + BLOCK_ROWS * 8 / FRAME_BYTES + 1 + 1) as u64);
        // Steps come in vectors of 1,024: nothing of the second block gets smaller.
        let [plain, delta] = summary[..] else { panic!("{summary:?}") };
        assert_eq!((plain.scheme, plain.frames, plain.plain_bytes, plain.stored_bytes), (Scheme::Plain, 2, 813, 813));
        assert_eq!(delta.scheme, Scheme::Delta);
        let encodings = directory_encodings(&sealed.directory, PhysicalType::U64).expect("own directories are read");
        assert_eq!(encodings, [(Encoding::Uncompressed, 2)]);
        assert!(delta.stored_bytes < delta.plain_bytes / 2, "{delta:?}");
        let stored_bytes = (plain.stored_bytes + delta.stored_bytes) as usize;
        let padding = sealed.bytes.len() - stored_bytes;
        assert!(padding < 4096 + 8 * frames as usize, "{padding} bytes of padding");
    }

    #[test]
    fn other_directories_are_refused() {
        assert_eq!(directory_summary(&[], PhysicalType::U64).expect("version 1 has none"), []);
        let sealed = chunk(Compression::Balanced);
        assert!(directory_summary(&sealed.directory, PhysicalType::I64).is_err());
        assert!(directory_summary(&sealed.directory[..50], PhysicalType::U64).is_err());
    }
}
