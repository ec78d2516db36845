//! The footer of segment files of version 2, which are read and never written: all that sections say now stood in it, row
//! group by row group (`docs/format.md`, "Version 2").

use forebay_base::{PhysicalType, Result};

use super::directory::Sections;
use super::{Expected, Footer, Group, GroupColumn, sections};
use crate::serial::Reader;

/// This version.
pub(crate) const VERSION: u32 = 2;
/// Most blocks of a row group.
pub(crate) const GROUP_BLOCKS: usize = 8;

/// Reads what follows the columns, up to the checksum; `offset` is where the footer begins, and so all chunks end.
pub(crate) fn decode(reader: &mut Reader<'_>, expected: Expected<'_>, offset: u64) -> Result<Footer> {
    let group_count = reader.count(size_of::<u32>())?;
    let mut groups = Vec::new();
    let mut first_row = 0;
    for _ in 0..group_count {
        let group = decode_group(reader, expected, offset, first_row)?;
        first_row += group.rows;
        groups.push(group);
    }
    let statistics = expected.columns.iter().map(|_| sections::statistics(reader)).collect::<Result<Vec<_>>>()?;
    Ok(Footer { version: VERSION, groups, statistics, sections: Sections::new() })
}

fn decode_group(reader: &mut Reader<'_>, expected: Expected<'_>, offset: u64, first_row: u64) -> Result<Group> {
    let block_rows = sections::block_rows(reader, GROUP_BLOCKS)?;
    let mut column = |physical: PhysicalType| {
        let chunks = sections::chunks(reader, block_rows.len(), GROUP_BLOCKS, offset)?;
        let zones = sections::zones(reader, &block_rows, physical)?;
        Ok(GroupColumn { zones, ..chunks })
    };
    let columns = expected.columns.iter().map(|(_, physical)| column(*physical)).collect::<Result<Vec<_>>>()?;
    let rows = block_rows.iter().map(|rows| u64::from(*rows)).sum();
    Ok(Group { first_row, rows, block_rows, columns: columns.into() })
}
