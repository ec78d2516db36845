//! The directory of sections in a footer: kind, column, version, place and checksum of everything that is not a chunk.
//!
//! Invariants: what [`decode`] returns lies between header page and footer, does not overlap, and names no column twice
//! for one kind; what this program does not know is there only if its writer said that readers may skip it. Must not
//! know: what is in a section.

use std::collections::{BTreeMap, BTreeSet};

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, Error, ErrorKind, PhysicalType, Result};

use super::HEADER_BYTES;
use crate::serial::{Reader, Writer};

/// Rows of every block of every row group.
pub(crate) const SECTION_GROUPS: u16 = 1;
/// Chunks of one column.
pub(crate) const SECTION_CHUNKS: u16 = 2;
/// Zones of one column.
pub(crate) const SECTION_ZONES: u16 = 3;
/// Statistics of one column.
pub(crate) const SECTION_STATISTICS: u16 = 4;
/// What inflating needs to know of the frames of one column.
pub(crate) const SECTION_FRAMES: u16 = 5;

/// Layout of all sections that this program knows.
pub(crate) const SECTION_VERSION: u32 = 1;
/// Flag of a section that readers who do not know it may skip.
pub(crate) const SECTION_OPTIONAL: u16 = 1;
/// Stands for a column where a section is of the whole segment.
pub(crate) const SECTION_NO_COLUMN: u32 = u32::MAX;
/// Bytes of an entry in the directory.
pub(crate) const SECTION_ENTRY_BYTES: usize = 32;

/// An entry of the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Section {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    /// Id of the column, or [`SECTION_NO_COLUMN`].
    pub(crate) column: u32,
    pub(crate) version: u32,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) crc: u32,
}

/// Sections by kind and column.
pub(crate) type Sections = BTreeMap<(u16, u32), Section>;

fn column_code(column: Option<ColumnId>) -> u32 {
    column.map_or(SECTION_NO_COLUMN, |column| column.0)
}

/// Names a section in an error.
pub(crate) fn describe(kind: u16, column: u32) -> String {
    let kind = match kind {
        SECTION_GROUPS => "GROUPS".to_owned(),
        SECTION_CHUNKS => "CHUNKS".to_owned(),
        SECTION_ZONES => "ZONES".to_owned(),
        SECTION_STATISTICS => "STATISTICS".to_owned(),
        SECTION_FRAMES => "FRAMES".to_owned(),
        other => format!("of kind {other}"),
    };
    match column {
        SECTION_NO_COLUMN => format!("the section {kind}"),
        column => format!("the section {kind} of column {column}"),
    }
}

impl Section {
    /// The entry of a section with this content.
    pub(crate) fn of(kind: u16, column: Option<ColumnId>, offset: u64, content: &[u8]) -> Self {
        Self {
            kind,
            flags: 0,
            column: column_code(column),
            version: SECTION_VERSION,
            offset,
            bytes: content.len() as u64,
            crc: crc32c(content),
        }
    }

    /// Its name in errors.
    pub(crate) fn describe(&self) -> String {
        describe(self.kind, self.column)
    }

    /// Its content, which must lie in `bytes`, those of the file from `start` on; verified.
    pub(crate) fn content<'a>(&self, bytes: &'a [u8], start: u64) -> Result<&'a [u8]> {
        let outside = || Error::corrupt(format!("{} does not lie where it is read", self.describe()));
        let from = self.offset.checked_sub(start).and_then(|from| usize::try_from(from).ok()).ok_or_else(outside)?;
        let length = usize::try_from(self.bytes).map_err(|_| outside())?;
        let content = bytes.get(from..).and_then(|bytes| bytes.get(..length)).ok_or_else(outside)?;
        self.verify(content)?;
        Ok(content)
    }

    /// An error unless `content` has the checksum.
    pub(crate) fn verify(&self, content: &[u8]) -> Result<()> {
        match crc32c(content) == self.crc {
            true => Ok(()),
            false => Err(Error::corrupt(format!("checksum mismatch in {}", self.describe()))),
        }
    }

    /// Whether this program knows what is in it.
    pub(crate) fn is_known(&self) -> bool {
        (SECTION_GROUPS..=SECTION_FRAMES).contains(&self.kind) && self.version == SECTION_VERSION
    }

    /// An error if the section can be neither read nor skipped.
    fn check_version(&self) -> Result<()> {
        if self.is_known() || self.flags & SECTION_OPTIONAL != 0 {
            return Ok(());
        }
        let what = self.describe();
        let message = format!("{what} has version {}, which this program cannot read", self.version);
        Err(Error::new(ErrorKind::Version, message).hint("Upgrade Forebay"))
    }
}

/// The directory as bytes.
pub(crate) fn encode(writer: &mut Writer, sections: &[Section]) {
    writer.count(sections.len());
    for section in sections {
        writer.u16(section.kind);
        writer.u16(section.flags);
        writer.u32(section.column);
        writer.u32(section.version);
        writer.u64(section.offset);
        writer.u64(section.bytes);
        writer.u32(section.crc);
    }
}

/// The directory of a file with these columns, whose footer begins at `footer_offset`.
pub(crate) fn decode(
    reader: &mut Reader<'_>,
    columns: &[(ColumnId, PhysicalType)],
    footer_offset: u64,
) -> Result<Sections> {
    let ids: BTreeSet<u32> = columns.iter().map(|(id, _)| id.0).chain([SECTION_NO_COLUMN]).collect();
    let mut sections = Sections::new();
    for _ in 0..reader.count(SECTION_ENTRY_BYTES)? {
        let section = Section {
            kind: reader.u16()?,
            flags: reader.u16()?,
            column: reader.u32()?,
            version: reader.u32()?,
            offset: reader.u64()?,
            bytes: reader.u64()?,
            crc: reader.u32()?,
        };
        section.check_version()?;
        let wrong = |why: &str| Err(reader.wrong(&format!("{} {why}", section.describe())));
        if section.flags & !SECTION_OPTIONAL != 0 {
            return wrong("has an unknown flag");
        }
        if !ids.contains(&section.column) {
            return wrong("is of no column of the segment");
        }
        let end = section.offset.checked_add(section.bytes);
        if section.offset < HEADER_BYTES || end.is_none_or(|end| end > footer_offset) {
            return wrong("does not lie between header page and footer");
        }
        if sections.insert((section.kind, section.column), section).is_some() {
            return wrong("is listed twice");
        }
    }
    let mut by_place: Vec<&Section> = sections.values().collect();
    by_place.sort_by_key(|section| (section.offset, section.bytes));
    let overlap = by_place.windows(2).find(|pair| pair[0].offset + pair[0].bytes > pair[1].offset);
    match overlap {
        None => Ok(sections),
        Some(pair) => Err(reader.wrong(&format!("{} and {} overlap", pair[0].describe(), pair[1].describe()))),
    }
}

/// The section of this kind and column that this program can read.
pub(crate) fn find(sections: &Sections, kind: u16, column: Option<ColumnId>) -> Result<&Section> {
    let column = column_code(column);
    let found = sections.get(&(kind, column)).filter(|section| section.is_known());
    found.ok_or_else(|| Error::corrupt(format!("the footer is damaged: {} is missing", describe(kind, column))))
}
