//! How a table lies on disk, read from its footers and directories, without its values.
//!
//! Must not know: what is done with the figures.

use std::collections::BTreeMap;

use forebay_base::Result;
use forebay_block::{Encoding, Scheme, SchemeSummary, directory_encodings, directory_summary};
use forebay_store::{Segment, Table};

/// How one column is stored.
#[derive(Debug, Clone, Default)]
pub struct StoredColumn {
    /// Bytes of the plain values: their width, or the strings and four bytes each.
    pub plain_bytes: u64,
    /// Bytes of the encoded blocks, as a warm scan reads them.
    pub encoded_bytes: u64,
    /// Bytes of the chunks on disk.
    pub stored_bytes: u64,
    /// Chunks.
    pub chunks: u64,
    /// Blocks of all chunks.
    pub blocks: u64,
    /// How many blocks are encoded how.
    pub encodings: Vec<(Encoding, u64)>,
    /// By which schemes frames are stored.
    pub schemes: Vec<SchemeSummary>,
}

/// How one chunk is stored.
#[derive(Debug, Clone, Default)]
pub struct StoredChunk {
    /// How many of its blocks are encoded how.
    pub encodings: Vec<(Encoding, u64)>,
    /// By which schemes its frames are stored.
    pub schemes: Vec<SchemeSummary>,
}

/// How a chunk is stored that is named by row group, column of the segment and chunk. Those of segments of a format that keeps no
/// directories have neither encodings nor schemes.
///
/// # Errors
/// If the segment's directories cannot be read.
pub fn stored_chunk(segment: &Segment, (group, column, chunk): (usize, usize, usize)) -> Result<StoredChunk> {
    let (directory, physical) = (segment.directory(group, column, chunk)?, segment.columns()[column].1);
    let (encodings, schemes) = (directory_encodings(directory, physical)?, directory_summary(directory, physical)?);
    Ok(StoredChunk { encodings, schemes })
}

/// How every column of `table` is stored.
///
/// # Errors
/// As [`stored_chunk`].
pub fn stored_columns(table: &Table) -> Result<Vec<StoredColumn>> {
    (0..table.columns.len()).map(|column| stored_column(table, column)).collect()
}

/// How a column of `table` is stored.
///
/// # Errors
/// As [`stored_chunk`].
pub fn stored_column(table: &Table, column: usize) -> Result<StoredColumn> {
    let mut stored = StoredColumn::default();
    let mut encodings: BTreeMap<u8, (Encoding, u64)> = BTreeMap::new();
    let mut schemes: BTreeMap<Scheme, SchemeSummary> = BTreeMap::new();
    for segment in &table.segments {
        let Some(index) = segment.column_index(table.columns[column].id) else { continue };
        for (number, group) in segment.groups()?.iter().enumerate() {
            let layout = &group.columns[index];
            stored.plain_bytes += layout.plain_bytes;
            stored.blocks += group.block_rows.len() as u64;
            for (chunk, location) in layout.chunks.iter().enumerate() {
                stored.encoded_bytes += location.encoded_bytes;
                stored.stored_bytes += location.stored_bytes;
                stored.chunks += 1;
                let of_chunk = stored_chunk(segment, (number, index, chunk))?;
                for (encoding, blocks) in of_chunk.encodings {
                    encodings.entry(encoding as u8).or_insert((encoding, 0)).1 += blocks;
                }
                for summary in of_chunk.schemes {
                    let empty = SchemeSummary { frames: 0, plain_bytes: 0, stored_bytes: 0, ..summary };
                    let sum = schemes.entry(summary.scheme).or_insert(empty);
                    sum.frames += summary.frames;
                    sum.plain_bytes += summary.plain_bytes;
                    sum.stored_bytes += summary.stored_bytes;
                }
            }
        }
    }
    stored.encodings = encodings.into_values().collect();
    stored.schemes = schemes.into_values().collect();
    Ok(stored)
}
