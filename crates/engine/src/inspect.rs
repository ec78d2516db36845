//! How a table lies on disk, read from its footers and directories, without its values.
//!
//! Must not know: what is done with the figures.

use std::collections::BTreeMap;

use forebay_base::Result;
use forebay_block::{Encoding, Scheme, SchemeSummary, directory_encodings, directory_summary};
use forebay_store::Table;

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

/// How every column of `table` is stored. Segments of a format that keeps no directories are counted without encodings and
/// schemes.
pub fn stored_columns(table: &Table) -> Result<Vec<StoredColumn>> {
    (0..table.columns.len()).map(|column| stored_column(table, column)).collect()
}

fn stored_column(table: &Table, column: usize) -> Result<StoredColumn> {
    let mut stored = StoredColumn::default();
    let mut encodings: BTreeMap<u8, (Encoding, u64)> = BTreeMap::new();
    let mut schemes: BTreeMap<Scheme, SchemeSummary> = BTreeMap::new();
    for segment in &table.segments {
        let Some(index) = segment.column_index(table.columns[column].id) else { continue };
        let physical = segment.columns()[index].1;
        for (number, group) in segment.groups()?.iter().enumerate() {
            let layout = &group.columns[index];
            stored.plain_bytes += layout.plain_bytes;
            stored.blocks += group.block_rows.len() as u64;
            for (chunk, location) in layout.chunks.iter().enumerate() {
                stored.encoded_bytes += location.encoded_bytes;
                stored.stored_bytes += location.stored_bytes;
                stored.chunks += 1;
                let directory = segment.directory(number, index, chunk)?;
                for (encoding, blocks) in directory_encodings(directory, physical)? {
                    encodings.entry(encoding as u8).or_insert((encoding, 0)).1 += blocks;
                }
                for summary in directory_summary(directory, physical)? {
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
