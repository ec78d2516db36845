//! What a segment file says of itself behind its chunks: sections with row groups, chunks, zones and statistics, and the
//! footer that names their places (`docs/format.md`, "Segment file").
//!
//! Invariants: what [`decode`] returns is consistent (offsets inside the file, counts that match, bounds of the column's
//! own family), whatever the bytes were. Must not know: how chunks and blocks are encoded, what directories of frames say.

/// The footer's list of sections: kinds, places, checksums.
pub(crate) mod directory;
/// What a section of frames says.
pub(crate) mod frames;
/// What the other sections say, item by item.
pub(crate) mod sections;
/// The footer before there were sections.
mod version_2;

#[cfg(test)]
mod tests;

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, Error, ErrorKind, PhysicalType, Result, SegmentId, limits};
use forebay_block::ColumnStatistics;

pub(crate) use crate::group_columns::{ChunkLocation, GroupColumn, GroupColumns};
use crate::serial::{Reader, Writer};
use directory::{SECTION_CHUNKS, SECTION_FRAMES, SECTION_GROUPS, SECTION_STATISTICS, SECTION_ZONES, Section, Sections};

/// First bytes of a segment file.
pub(crate) const HEADER_MAGIC: [u8; 8] = *b"FBAYSEG1";
/// First bytes of a footer.
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"FBAYFOOT";
/// Layout of segment files that are written.
pub(crate) const SEGMENT_VERSION: u32 = 3;
/// The oldest layout of segment files that is read.
pub(crate) const SEGMENT_VERSION_OLDEST: u32 = version_2::VERSION;
/// Bytes of the header page, and so the offset of the first chunk.
pub(crate) const HEADER_BYTES: u64 = limits::IO_ALIGN as u64;
/// Bytes of a footer's checksum, its last ones.
const CRC_BYTES: usize = size_of::<u32>();

/// What footer and sections say that are read together.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Footer {
    /// Layout of the file.
    pub(crate) version: u32,
    /// Row groups, in row order.
    pub(crate) groups: Vec<Group>,
    /// Statistics of each column.
    pub(crate) statistics: Vec<ColumnStatistics>,
    /// Where everything lies that is not a chunk, also what this program does not know; empty in version 2.
    pub(crate) sections: Sections,
}

/// A row group: up to [`limits::GROUP_BLOCKS_MAX`] blocks of every column of the segment.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// Number of the first row, counted from the segment's first.
    pub first_row: u64,
    /// Rows of the group.
    pub rows: u64,
    /// Rows of each block.
    pub block_rows: Vec<u32>,
    /// Columns, in the order of the segment's.
    pub columns: GroupColumns,
}

/// What a footer is checked against: from the manifest.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Expected<'a> {
    pub(crate) id: SegmentId,
    pub(crate) columns: &'a [(ColumnId, PhysicalType)],
    pub(crate) rows: u64,
}

/// Where the footer lies, with the sections in front of it that are read together with it, and what it must sum up to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FooterLocation {
    /// Where the sections begin that are read with the footer: at its own offset where there are none.
    pub(crate) metadata_offset: u64,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

/// All that follows the chunks of a file.
#[derive(Debug)]
pub(crate) struct Tail {
    /// Sections and footer, to be written where the chunks end.
    pub(crate) bytes: Vec<u8>,
    pub(crate) location: FooterLocation,
    pub(crate) footer: Footer,
}

/// Number of chunks of `blocks` blocks.
pub(crate) fn chunk_count(blocks: usize, blocks_log2: u8) -> usize {
    blocks.div_ceil(1 << blocks_log2)
}

/// The header page: says what the file is, for people and recovery tools.
pub(crate) fn header_page(id: SegmentId, version: u32) -> Vec<u8> {
    let mut writer = Writer::default();
    writer.bytes.extend_from_slice(&HEADER_MAGIC);
    writer.u32(version);
    writer.u64(id.0);
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes.resize(limits::IO_ALIGN, 0);
    writer.bytes
}

/// Sections and footer of a file whose chunks end at `chunks_end`; `frames` is the content of each column's section of
/// frames. Those come first, because they are read only when a column is.
pub(crate) fn encode(
    expected: Expected<'_>,
    chunks_end: u64,
    groups: Vec<Group>,
    statistics: Vec<ColumnStatistics>,
    frames: &[Vec<u8>],
) -> Tail {
    let mut tail = SectionWriter { start: chunks_end, bytes: Vec::new(), sections: Vec::new() };
    let columns = || expected.columns.iter().map(|(id, _)| *id).enumerate();
    for (index, id) in columns() {
        tail.append(SECTION_FRAMES, Some(id), &frames[index]);
    }
    let metadata_offset = tail.end();
    tail.append(SECTION_GROUPS, None, &sections::encode_groups(&groups));
    for (index, id) in columns() {
        tail.append(SECTION_CHUNKS, Some(id), &sections::encode_chunks(&groups, index));
    }
    for (index, id) in columns() {
        tail.append(SECTION_ZONES, Some(id), &sections::encode_zones(&groups, index));
    }
    for (index, id) in columns() {
        tail.append(SECTION_STATISTICS, Some(id), &sections::encode_statistics(&statistics[index]));
    }
    let offset = tail.end();
    let SectionWriter { mut bytes, sections, .. } = tail;
    let footer = encode_footer(expected, &sections);
    let crc = crc32c(&footer[..footer.len() - CRC_BYTES]);
    let location = FooterLocation { metadata_offset, offset, bytes: footer.len() as u64, crc };
    bytes.extend_from_slice(&footer);
    let sections = sections.into_iter().map(|section| ((section.kind, section.column), section)).collect();
    Tail { bytes, location, footer: Footer { version: SEGMENT_VERSION, groups, statistics, sections } }
}

/// Sections one after the other.
struct SectionWriter {
    start: u64,
    bytes: Vec<u8>,
    sections: Vec<Section>,
}

impl SectionWriter {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    fn append(&mut self, kind: u16, column: Option<ColumnId>, content: &[u8]) {
        self.sections.push(Section::of(kind, column, self.end(), content));
        self.bytes.extend_from_slice(content);
    }
}

/// A footer as bytes, its CRC-32C in the last four.
pub(crate) fn encode_footer(expected: Expected<'_>, sections: &[Section]) -> Vec<u8> {
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
    directory::encode(&mut writer, sections);
    let crc = crc32c(&writer.bytes);
    writer.u32(crc);
    writer.bytes
}

/// What the bytes from `location.metadata_offset` to the footer's end say. The footer's own checksum has been verified; those
/// of the sections are verified here.
pub(crate) fn decode(bytes: &[u8], location: FooterLocation, expected: Expected<'_>) -> Result<Footer> {
    let damaged = || Error::corrupt("the footer is damaged: it does not lie where the manifest says");
    let metadata_bytes = location.offset.checked_sub(location.metadata_offset).ok_or_else(damaged)?;
    let metadata_bytes = usize::try_from(metadata_bytes).map_err(|_| damaged())?;
    let (metadata, footer) = bytes.split_at_checked(metadata_bytes).ok_or_else(damaged)?;
    let mut reader = Reader::new(footer, "the footer");
    if reader.take(FOOTER_MAGIC.len())? != FOOTER_MAGIC {
        return Err(reader.wrong("it does not begin as a footer"));
    }
    let version = reader.u32()?;
    if !(SEGMENT_VERSION_OLDEST..=SEGMENT_VERSION).contains(&version) {
        let reads = format!("this program reads {SEGMENT_VERSION_OLDEST} to {SEGMENT_VERSION}");
        let message = format!("the segment file has format {version}, {reads}");
        return Err(Error::new(ErrorKind::Version, message).hint("Upgrade Forebay"));
    }
    check_head(&mut reader, expected)?;
    let footer = if version == version_2::VERSION {
        version_2::decode(&mut reader, expected, location.offset)?
    } else {
        decode_sections(&mut reader, metadata, location, expected)?
    };
    let _crc = reader.u32()?;
    if footer.groups.last().map_or(0, |group| group.first_row + group.rows) != expected.rows {
        return Err(reader.wrong("its groups have other rows than the segment"));
    }
    reader.finish()?;
    Ok(footer)
}

/// Reads what footers of all versions begin with.
fn check_head(reader: &mut Reader<'_>, expected: Expected<'_>) -> Result<()> {
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
    Ok(())
}

/// Reads the directory of sections, and the sections that lie in `metadata`.
fn decode_sections(
    reader: &mut Reader<'_>,
    metadata: &[u8],
    location: FooterLocation,
    expected: Expected<'_>,
) -> Result<Footer> {
    let listed = directory::decode(reader, expected.columns, location.offset)?;
    let find = |kind, column| directory::find(&listed, kind, column);
    let content = |kind, column| find(kind, column)?.content(metadata, location.metadata_offset);
    let chunks_end = listed.values().map(|section| section.offset).min().unwrap_or(location.offset);
    let block_rows = sections::decode_groups(content(SECTION_GROUPS, None)?)?;
    let mut columns = vec![Vec::with_capacity(expected.columns.len()); block_rows.len()];
    let mut statistics = Vec::with_capacity(expected.columns.len());
    for (id, physical) in expected.columns {
        let chunks = sections::decode_chunks(content(SECTION_CHUNKS, Some(*id))?, *id, chunks_end, &block_rows)?;
        let zones = sections::decode_zones(content(SECTION_ZONES, Some(*id))?, *id, *physical, &block_rows)?;
        for (columns, (column, zones)) in columns.iter_mut().zip(chunks.into_iter().zip(zones)) {
            columns.push(GroupColumn { zones, ..column });
        }
        statistics.push(sections::decode_statistics(content(SECTION_STATISTICS, Some(*id))?, *id)?);
        find(SECTION_FRAMES, Some(*id))?;
    }
    let mut first_row = 0;
    let group = |(block_rows, columns): (Vec<u32>, Vec<GroupColumn>)| {
        let rows = block_rows.iter().map(|rows| u64::from(*rows)).sum();
        let group = Group { first_row, rows, block_rows, columns: columns.into() };
        first_row += rows;
        group
    };
    let groups = block_rows.into_iter().zip(columns).map(group).collect();
    Ok(Footer { version: SEGMENT_VERSION, groups, statistics, sections: listed })
}
