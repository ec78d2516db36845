//! The footer of a segment file: which rows, blocks and chunks it holds, and the zones of its blocks
//! (`docs/format.md`, "Segment file").
//!
//! Invariants: what [`decode`] returns is consistent (offsets inside the file, counts that match, bounds of the column's
//! own family), whatever the bytes were. Must not know: how chunks and blocks are encoded.

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, PhysicalType, Result, SegmentId, Value, limits};
use forebay_block::{ColumnStatistics, Zone};

use crate::serial::{Reader, Writer};

/// First bytes of a segment file.
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"FBAYSEG1";
/// First bytes of a footer.
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"FBAYFOOT";
/// Layout of header page and footer.
pub(crate) const SEGMENT_VERSION: u32 = 2;
/// Bytes of the header page, and so the offset of the first chunk.
pub(crate) const HEADER_BYTES: u64 = limits::IO_ALIGN as u64;

/// Up to so many registers that are not 0 are written one by one.
pub(crate) const SPARSE_REGISTERS: usize = 256;

/// What a footer holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Footer {
    /// Row groups, in row order.
    pub(crate) groups: Vec<Group>,
    /// Statistics of each column.
    pub(crate) statistics: Vec<ColumnStatistics>,
}

/// A row group: up to [`limits::GROUP_BLOCKS`] blocks of every column of the segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of the first row, counted from the segment's first.
    pub first_row: u64,
    /// Rows of the group.
    pub rows: u64,
    /// Rows of each block.
    pub block_rows: Vec<u32>,
    /// Columns, in the order of the segment's.
    pub columns: Vec<GroupColumn>,
}

/// One column of a row group.
#[derive(Debug, Clone, PartialEq)]
pub struct GroupColumn {
    /// A chunk has 2^`blocks_log2` blocks; the last may have fewer.
    pub blocks_log2: u8,
    /// Bytes of the plain values: their width, or the strings and four bytes each.
    pub plain_bytes: u64,
    /// Chunks, in row order.
    pub chunks: Vec<ChunkLocation>,
    /// One zone per block.
    pub zones: Vec<Zone>,
}

/// Where a chunk lies in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkLocation {
    /// First byte, a multiple of [`limits::IO_ALIGN`].
    pub offset: u64,
    /// Bytes in the file, padding included: a multiple of [`limits::IO_ALIGN`].
    pub stored_bytes: u64,
    /// Bytes of its encoded blocks, before the codec.
    pub encoded_bytes: u64,
}

/// What a footer is checked against: from the manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) id: SegmentId,
    pub(crate) columns: &'a [(ColumnId, PhysicalType)],
    pub(crate) rows: u64,
    /// Where the footer begins, and so all chunks end.
    pub(crate) offset: u64,
}

/// Number of chunks of `blocks` blocks.
pub(crate) fn chunk_count(blocks: usize, blocks_log2: u8) -> usize {
    blocks.div_ceil(1 << blocks_log2)
}

/// The header page: says what the file is, for people and recovery tools.
pub(crate) fn header_page(id: SegmentId) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&HEADER_MAGIC);
    writer.u32(SEGMENT_VERSION);
    writer.u64(id.0);
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes.resize(limits::IO_ALIGN, 0);
    writer.bytes
}

/// A footer as bytes, its CRC-32C in the last four.
pub(crate) fn encode(expected: Expected<'_>, footer: &Footer) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&FOOTER_MAGIC);
    writer.u32(SEGMENT_VERSION);
    writer.u64(expected.id.0);
    writer.u64(expected.rows);
    writer.count(expected.columns.len());
    for (id, physical) in expected.columns {
        writer.u32(id.0);
        writer.u8(*physical as u8);
    }
    writer.count(footer.groups.len());
    for group in &footer.groups {
        writer.count(group.block_rows.len());
        for rows in &group.block_rows {
            writer.u32(*rows);
        }
        for column in &group.columns {
            writer.u8(column.blocks_log2);
            writer.u64(column.plain_bytes);
            for chunk in &column.chunks {
                writer.u64(chunk.offset);
                writer.u64(chunk.stored_bytes);
                writer.u64(chunk.encoded_bytes);
            }
            for zone in &column.zones {
                writer.u32(zone.null_count);
                writer.value(zone.min.as_ref());
                writer.value(zone.max.as_ref());
            }
        }
    }
    footer.statistics.iter().for_each(|statistics| encode_statistics(&mut writer, statistics));
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes
}

fn encode_statistics(writer: &mut Writer, statistics: &ColumnStatistics) {
    let set = || statistics.registers().iter().enumerate().filter(|(_, rank)| **rank > 0);
    let count = set().count();
    writer.count(count);
    if count > SPARSE_REGISTERS {
        writer.bytes.extend_from_slice(statistics.registers());
    } else {
        for (index, rank) in set() {
            writer.u16(index as u16);
            writer.u8(*rank);
        }
    }
    writer.count(statistics.sample().len());
    for value in statistics.sample() {
        writer.i128(*value);
    }
}

fn decode_statistics(reader: &mut Reader<'_>) -> Result<ColumnStatistics> {
    let wrong = |reader: &Reader<'_>| reader.wrong("the statistics of a column are none");
    let count = reader.u32()? as usize;
    let mut registers = vec![0; if count == 0 { 0 } else { limits::SKETCH_REGISTERS }];
    if count > SPARSE_REGISTERS {
        registers.copy_from_slice(reader.take(limits::SKETCH_REGISTERS)?);
    } else {
        for _ in 0..count {
            let (index, rank) = (reader.u16()?, reader.u8()?);
            *registers.get_mut(usize::from(index)).ok_or_else(|| wrong(reader))? = rank;
        }
    }
    if registers.iter().filter(|rank| **rank > 0).count() != count {
        return Err(wrong(reader));
    }
    let sample = (0..reader.count(size_of::<i128>())?).map(|_| reader.i128()).collect::<Result<Vec<_>>>()?;
    ColumnStatistics::from_parts(registers, sample).ok_or_else(|| wrong(reader))
}

/// What a footer holds whose checksum has been verified.
pub(crate) fn decode(bytes: &[u8], expected: Expected<'_>) -> Result<Footer> {
    let mut reader = Reader::new(bytes, "the footer");
    if reader.take(FOOTER_MAGIC.len())? != FOOTER_MAGIC || reader.u32()? != SEGMENT_VERSION {
        return Err(reader.wrong("it does not begin as a footer"));
    }
    if reader.u64()? != expected.id.0 || reader.u64()? != expected.rows {
        return Err(reader.wrong("it belongs to another segment"));
    }
    if reader.count(5)? != expected.columns.len() {
        return Err(reader.wrong("its columns are not those of the manifest"));
    }
    for (id, physical) in expected.columns {
        if reader.u32()? != id.0 || reader.u8()? != *physical as u8 {
            return Err(reader.wrong("its columns are not those of the manifest"));
        }
    }
    let group_count = reader.count(4)?;
    let mut groups = Vec::with_capacity(group_count);
    let mut first_row = 0;
    for _ in 0..group_count {
        let group = decode_group(&mut reader, expected, first_row)?;
        first_row += group.rows;
        groups.push(group);
    }
    let statistics = expected.columns.iter().map(|_| decode_statistics(&mut reader)).collect::<Result<Vec<_>>>()?;
    let _crc = reader.u32()?;
    if first_row != expected.rows {
        return Err(reader.wrong("its groups have other rows than the segment"));
    }
    reader.finish()?;
    Ok(Footer { groups, statistics })
}

fn decode_group(reader: &mut Reader<'_>, expected: Expected<'_>, first_row: u64) -> Result<Group> {
    let blocks = reader.count(4)?;
    if blocks == 0 || blocks > limits::GROUP_BLOCKS {
        return Err(reader.wrong("a row group has too many blocks or none"));
    }
    let mut block_rows = Vec::with_capacity(blocks);
    for _ in 0..blocks {
        let rows = reader.u32()?;
        if rows == 0 || rows as usize > limits::BLOCK_ROWS {
            return Err(reader.wrong("a block has too many rows or none"));
        }
        block_rows.push(rows);
    }
    let columns = expected
        .columns
        .iter()
        .map(|(_, physical)| decode_column(reader, &block_rows, *physical, expected.offset))
        .collect::<Result<Vec<_>>>()?;
    let rows = block_rows.iter().map(|rows| u64::from(*rows)).sum();
    Ok(Group { first_row, rows, block_rows, columns })
}

fn decode_column(reader: &mut Reader<'_>, block_rows: &[u32], physical: PhysicalType, end: u64) -> Result<GroupColumn> {
    let blocks_log2 = reader.u8()?;
    if 1usize.checked_shl(blocks_log2.into()).is_none_or(|blocks| blocks > limits::GROUP_BLOCKS) {
        return Err(reader.wrong("a chunk is larger than its row group"));
    }
    let plain_bytes = reader.u64()?;
    let count = chunk_count(block_rows.len(), blocks_log2);
    let mut chunks = Vec::with_capacity(count);
    for _ in 0..count {
        let chunk = ChunkLocation { offset: reader.u64()?, stored_bytes: reader.u64()?, encoded_bytes: reader.u64()? };
        if !chunk.is_plausible(end) {
            return Err(reader.wrong("a chunk lies outside the file"));
        }
        chunks.push(chunk);
    }
    let mut zones = Vec::with_capacity(block_rows.len());
    for rows in block_rows {
        let zone = Zone { rows: *rows, null_count: reader.u32()?, min: reader.value()?, max: reader.value()? };
        let families_match = [&zone.min, &zone.max].into_iter().flatten().all(|bound| has_family(bound, physical));
        if zone.null_count > zone.rows || !families_match {
            return Err(reader.wrong("the zone of a block does not fit its column"));
        }
        zones.push(zone);
    }
    Ok(GroupColumn { blocks_log2, plain_bytes, chunks, zones })
}

impl ChunkLocation {
    /// Whether this can be a chunk in a file whose chunks end at `end`.
    fn is_plausible(&self, end: u64) -> bool {
        let align = limits::IO_ALIGN as u64;
        self.offset >= HEADER_BYTES
            && self.stored_bytes > 0
            && self.offset.is_multiple_of(align)
            && self.stored_bytes.is_multiple_of(align)
            && self.offset.checked_add(self.stored_bytes).is_some_and(|chunk_end| chunk_end <= end)
            && self.encoded_bytes <= limits::CHUNK_MAX_BYTES as u64 + align
    }
}

fn has_family(value: &Value, physical: PhysicalType) -> bool {
    match value {
        Value::Int(_) => !matches!(physical, PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes),
        Value::Float(_) => matches!(physical, PhysicalType::F32 | PhysicalType::F64),
        Value::Bytes(_) => physical == PhysicalType::Bytes,
    }
}
