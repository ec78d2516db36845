//! The content of the sections that are read with the footer: row groups, and per column chunks, zones and statistics.
//!
//! Invariants: everything that is decoded is within limits and consistent, and bytes are left over nowhere. Must not know:
//! where sections lie, what else there is.

use forebay_base::{ColumnId, PhysicalType, Result, Value, limits};
use forebay_block::{ColumnStatistics, Zone};

use super::directory::{
    SECTION_CHUNKS, SECTION_GROUPS, SECTION_NO_COLUMN, SECTION_STATISTICS, SECTION_ZONES, describe,
};
use super::{ChunkLocation, Group, GroupColumn, HEADER_BYTES, chunk_count};
use crate::serial::{Reader, Writer};

/// Up to so many registers that are not 0 are written one by one.
pub(crate) const SPARSE_REGISTERS: usize = 256;

/// Rows of the blocks of all groups.
pub(crate) fn encode_groups(groups: &[Group]) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.count(groups.len());
    for group in groups {
        writer.count(group.block_rows.len());
        group.block_rows.iter().for_each(|rows| writer.u32(*rows));
    }
    writer.bytes
}

/// Rows of the blocks of each group.
pub(crate) fn decode_groups(bytes: &[u8]) -> Result<Vec<Vec<u32>>> {
    let what = describe(SECTION_GROUPS, SECTION_NO_COLUMN);
    let mut reader = Reader::new(bytes, &what);
    let groups = reader.count(2 * size_of::<u32>())?;
    let groups = (0..groups).map(|_| block_rows(&mut reader, limits::GROUP_BLOCKS_MAX)).collect::<Result<_>>()?;
    reader.finish()?;
    Ok(groups)
}

/// Rows of the blocks of a group that has up to `most_blocks`.
pub(crate) fn block_rows(reader: &mut Reader<'_>, most_blocks: usize) -> Result<Vec<u32>> {
    let blocks = reader.count(size_of::<u32>())?;
    if blocks == 0 || blocks > most_blocks {
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
    Ok(block_rows)
}

/// Chunks of one column in all groups.
pub(crate) fn encode_chunks(groups: &[Group], column: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    for column in groups.iter().map(|group| &group.columns[column]) {
        writer.u8(column.blocks_log2);
        writer.u64(column.plain_bytes);
        for chunk in &column.chunks {
            writer.u64(chunk.offset);
            writer.u64(chunk.stored_bytes);
            writer.u64(chunk.encoded_bytes);
        }
    }
    writer.bytes
}

/// A column in all groups, with chunks that end at `chunks_end` at the latest and without zones.
pub(crate) fn decode_chunks(
    bytes: &[u8],
    column: ColumnId,
    chunks_end: u64,
    block_rows: &[Vec<u32>],
) -> Result<Vec<GroupColumn>> {
    let what = describe(SECTION_CHUNKS, column.0);
    let mut reader = Reader::new(bytes, &what);
    let of_group = |rows: &Vec<u32>| chunks(&mut reader, rows.len(), limits::GROUP_BLOCKS_MAX, chunks_end);
    let columns = block_rows.iter().map(of_group).collect::<Result<_>>()?;
    reader.finish()?;
    Ok(columns)
}

/// A column of a group of `blocks` blocks, still without zones.
pub(crate) fn chunks(reader: &mut Reader<'_>, blocks: usize, most_blocks: usize, end: u64) -> Result<GroupColumn> {
    let blocks_log2 = reader.u8()?;
    if 1usize.checked_shl(blocks_log2.into()).is_none_or(|blocks| blocks > most_blocks) {
        return Err(reader.wrong("a chunk is larger than its row group"));
    }
    let plain_bytes = reader.u64()?;
    let count = chunk_count(blocks, blocks_log2);
    let mut chunks = Vec::with_capacity(count);
    for _ in 0..count {
        let chunk = ChunkLocation { offset: reader.u64()?, stored_bytes: reader.u64()?, encoded_bytes: reader.u64()? };
        if !chunk.is_plausible(end) {
            return Err(reader.wrong("a chunk lies outside the file"));
        }
        chunks.push(chunk);
    }
    Ok(GroupColumn { blocks_log2, plain_bytes, chunks, zones: Vec::new() })
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

/// Zones of one column in all groups.
pub(crate) fn encode_zones(groups: &[Group], column: usize) -> Vec<u8> {
    let mut writer = Writer::default();
    for zone in groups.iter().flat_map(|group| &group.columns[column].zones) {
        writer.u32(zone.null_count);
        writer.value(zone.min.as_ref());
        writer.value(zone.max.as_ref());
    }
    writer.bytes
}

/// The zones of a column in all groups.
pub(crate) fn decode_zones(
    bytes: &[u8],
    id: ColumnId,
    physical: PhysicalType,
    block_rows: &[Vec<u32>],
) -> Result<Vec<Vec<Zone>>> {
    let what = describe(SECTION_ZONES, id.0);
    let mut reader = Reader::new(bytes, &what);
    let found = block_rows.iter().map(|rows| zones(&mut reader, rows, physical)).collect::<Result<_>>()?;
    reader.finish()?;
    Ok(found)
}

/// Zones of a column in a group with these blocks.
pub(crate) fn zones(reader: &mut Reader<'_>, block_rows: &[u32], physical: PhysicalType) -> Result<Vec<Zone>> {
    let mut zones = Vec::with_capacity(block_rows.len());
    for rows in block_rows {
        let zone = Zone { rows: *rows, null_count: reader.u32()?, min: reader.value()?, max: reader.value()? };
        let families_match = [&zone.min, &zone.max].into_iter().flatten().all(|bound| has_family(bound, physical));
        if zone.null_count > zone.rows || !families_match {
            return Err(reader.wrong("the zone of a block does not fit its column"));
        }
        zones.push(zone);
    }
    Ok(zones)
}

fn has_family(value: &Value, physical: PhysicalType) -> bool {
    match value {
        Value::Int(_) => !matches!(physical, PhysicalType::F32 | PhysicalType::F64 | PhysicalType::Bytes),
        Value::Float(_) => matches!(physical, PhysicalType::F32 | PhysicalType::F64),
        Value::Bytes(_) => physical == PhysicalType::Bytes,
    }
}

/// Statistics of one column.
pub(crate) fn encode_statistics(statistics: &ColumnStatistics) -> Vec<u8> {
    let mut writer = Writer::default();
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
    statistics.sample().iter().for_each(|value| writer.i128(*value));
    writer.bytes
}

/// Statistics of one column.
pub(crate) fn decode_statistics(bytes: &[u8], id: ColumnId) -> Result<ColumnStatistics> {
    let what = describe(SECTION_STATISTICS, id.0);
    let mut reader = Reader::new(bytes, &what);
    let found = statistics(&mut reader)?;
    reader.finish()?;
    Ok(found)
}

/// Statistics of one column, with whatever follows them left unread.
pub(crate) fn statistics(reader: &mut Reader<'_>) -> Result<ColumnStatistics> {
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
