//! Pages of a column on their way to the reader: their headers are walked, and what they claim is held against the bytes
//! that are there, before memory is reserved for it.

use bytes::Bytes;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::column::page::{Page, PageReader};
use datafusion::parquet::errors::Result as ParquetResult;
use datafusion::parquet::file::metadata::ColumnChunkMetaData;
use datafusion::parquet::file::reader::{ChunkReader, Length};
use datafusion::parquet::file::serialized_reader::SerializedPageReader;
use forebay_base::units::format_bytes;
use forebay_base::{Context, Error, ErrorKind, Result};
use forebay_context::error::from_parquet;

use super::shapes;
use super::thrift::Walker;

/// `Encoding` of the format's specification, where lengths come before all values.
const DELTA_LENGTH_BYTE_ARRAY: i64 = 6;
const DELTA_BYTE_ARRAY: i64 = 7;

/// What a page's header says.
#[derive(Debug, Default)]
struct Header {
    plain_bytes: i64,
    stored_bytes: i64,
    values: i64,
    encoding: i64,
    is_dictionary: bool,
    /// Of pages of version 2: bytes of levels in front of the values.
    level_bytes: Option<i64>,
}

/// Checks pages that lie one behind the other in `bytes`, which begin at `at` in the file. Readers may take `memory_bytes`.
///
/// # Errors
/// What is wrong, with the byte where the page begins.
pub(super) fn check(bytes: &Bytes, at: u64, column: &ColumnChunkMetaData, memory_bytes: usize) -> Result<()> {
    let mut start = 0;
    while start < bytes.len() {
        let place = || format!("page at byte {}", at + start as u64);
        let (header, header_bytes) = header(&bytes[start..]).context(place)?;
        let rest = bytes.len() - start - header_bytes;
        let page_bytes = check_header(&header, column, rest, memory_bytes).context(place)?;
        let end = start + header_bytes + page_bytes;
        if matches!(header.encoding, DELTA_LENGTH_BYTE_ARRAY | DELTA_BYTE_ARRAY) && !header.is_dictionary {
            check_lengths(bytes.slice(start..end), at + start as u64, &header, column).context(place)?;
        }
        start = end;
    }
    Ok(())
}

fn header(bytes: &[u8]) -> Result<(Header, usize)> {
    let mut header = Header::default();
    let mut levels = [None, None];
    let mut walker = Walker::new(bytes);
    walker.structure(shapes::PAGE_HEADER, &mut |path, value| {
        let Some(value) = value else { return Ok(()) };
        match path {
            [2] => header.plain_bytes = value,
            [3] => header.stored_bytes = value,
            [5 | 7 | 8, 1] => header.values = value,
            [5 | 7, 2] | [8, 4] => header.encoding = value,
            [8, 5] => levels[0] = Some(value),
            [8, 6] => levels[1] = Some(value),
            _ => {}
        }
        header.is_dictionary |= path == [7, 1];
        Ok(())
    })?;
    if let [Some(first), Some(second)] = levels {
        if first < 0 || second < 0 {
            return Err(Error::input(format!("it claims {first} and {second} bytes of levels")));
        }
        header.level_bytes = Some(first + second);
    }
    Ok((header, walker.walked()))
}

/// The bytes of the page behind its header.
fn check_header(header: &Header, column: &ColumnChunkMetaData, rest: usize, memory_bytes: usize) -> Result<usize> {
    let Header { plain_bytes, stored_bytes, values, .. } = *header;
    let (Ok(plain), Ok(stored)) = (usize::try_from(plain_bytes), usize::try_from(stored_bytes)) else {
        return Err(Error::input(format!("it claims {stored_bytes} bytes, and {plain_bytes} when inflated")));
    };
    if stored > rest {
        return Err(Error::input(format!("it claims {stored} bytes, and {rest} are there")).hint("The file is damaged"));
    }
    // The most that the scheme can make of a byte.
    let most = match column.compression() {
        Compression::UNCOMPRESSED => Some(1),
        Compression::SNAPPY => Some(32),
        Compression::LZ4 | Compression::LZ4_RAW => Some(256),
        Compression::GZIP(_) => Some(1100),
        _ => None,
    };
    if most.is_some_and(|most| plain > stored.saturating_mul(most) + 64) {
        return Err(Error::input(format!("{stored} bytes do not inflate to the {plain} that it claims")));
    }
    if plain > memory_bytes / 2 {
        let message = format!("inflated it has {}, which leave too little memory", format_bytes(plain as u64));
        return Err(Error::new(ErrorKind::OutOfMemory, message).hint("Give Forebay more memory with --memory"));
    }
    let levels = header.level_bytes.unwrap_or(0);
    if levels > plain_bytes || levels > stored_bytes {
        return Err(Error::input(format!("it claims {levels} bytes of levels")));
    }
    // Values of a dictionary take a byte at least. Those of data may be runs.
    let most_values = if header.is_dictionary { plain_bytes } else { column.num_values() };
    if values < 0 || values > most_values {
        return Err(Error::input(format!("it claims {values} values, and can have {most_values}")));
    }
    Ok(stored)
}

/// A page's bytes at their place in the file.
struct Window {
    bytes: Bytes,
    at: u64,
}

impl Window {
    fn from(&self, start: u64) -> Bytes {
        let start = usize::try_from(start.saturating_sub(self.at)).unwrap_or(usize::MAX);
        self.bytes.slice(start.min(self.bytes.len())..)
    }
}

impl Length for Window {
    fn len(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }
}

impl ChunkReader for Window {
    type T = std::io::Cursor<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(std::io::Cursor::new(self.from(start)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start);
        Ok(bytes.slice(..length.min(bytes.len())))
    }
}

/// Checks the lengths in front of the strings of a page, for which readers reserve memory at once.
fn check_lengths(bytes: Bytes, at: u64, header: &Header, column: &ColumnChunkMetaData) -> Result<()> {
    let page = column.clone().into_builder();
    let page = page.set_data_page_offset(at as i64).set_dictionary_page_offset(None);
    let page = page.set_total_compressed_size(bytes.len() as i64).build().map_err(from_parquet)?;
    let rows = usize::try_from(header.values).unwrap_or(0);
    let reader = SerializedPageReader::new(std::sync::Arc::new(Window { bytes, at }), &page, rows, None);
    let page = reader.and_then(|mut reader| reader.get_next_page()).map_err(from_parquet)?;
    let values: &[u8] = match &page {
        Some(Page::DataPage { buf, .. }) => {
            let descriptor = column.column_descr();
            let levels = i32::from(descriptor.max_rep_level() > 0) + i32::from(descriptor.max_def_level() > 0);
            let mut rest: &[u8] = buf;
            for _ in 0..levels {
                rest = behind_levels(rest).ok_or_else(|| Error::input("its levels end behind it"))?;
            }
            rest
        }
        Some(Page::DataPageV2 { buf, .. }) => {
            let levels = usize::try_from(header.level_bytes.unwrap_or(0)).unwrap_or(usize::MAX);
            buf.get(levels..).ok_or_else(|| Error::input("its levels end behind it"))?
        }
        _ => return Ok(()),
    };
    let lengths = if header.encoding == DELTA_BYTE_ARRAY { 2 } else { 1 };
    let mut rest = values;
    for _ in 0..lengths {
        let end = Deltas { bytes: rest, at: 0 }.end(header.values);
        rest = end.map(|end| &rest[end..]).ok_or_else(|| Error::input("its strings have no plausible lengths"))?;
    }
    Ok(())
}

/// What lies behind levels, which their length precedes.
fn behind_levels(bytes: &[u8]) -> Option<&[u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.get(usize::try_from(u32::from_le_bytes(*length)).ok()?..)
}

/// Numbers as differences in packed bits (`DELTA_BINARY_PACKED`).
struct Deltas<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Deltas<'_> {
    /// Where at most `most` numbers end; `None` where they do not lie in the bytes.
    fn end(mut self, most: i64) -> Option<usize> {
        let block = usize::try_from(self.varint()?).ok()?;
        let parts = usize::try_from(self.varint()?).ok()?;
        let count = i64::try_from(self.varint()?).ok().filter(|count| *count <= most)?;
        self.varint()?;
        let each = block.checked_div(parts).filter(|each| *each > 0 && each.is_multiple_of(32) && *each <= 1 << 20)?;
        let mut left = usize::try_from(count).ok()?.saturating_sub(1);
        while left > 0 {
            self.varint()?;
            let widths = self.bytes.get(self.at..self.at.checked_add(parts)?)?;
            self.at += parts;
            for width in widths {
                if left > 0 {
                    self.at = self.at.checked_add(usize::from(*width).checked_mul(each)? / 8)?;
                    left = left.saturating_sub(each);
                }
            }
        }
        (self.at <= self.bytes.len()).then_some(self.at)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = *self.bytes.get(self.at)?;
            self.at += 1;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_lengths_end_where_they_lie() {
        // Blocks of 128 numbers in 4 parts; 3 numbers, the first 5; smallest step 0, one part of 1 bit.
        let bytes = [128, 1, 4, 3, 10, 0, 1, 0, 0, 0, 9, 9, 9, 9, 77];
        assert_eq!(Deltas { bytes: &bytes, at: 0 }.end(3), Some(14));
        assert_eq!(Deltas { bytes: &bytes, at: 0 }.end(2), None);
        assert_eq!(Deltas { bytes: &bytes[..12], at: 0 }.end(3), None);
        for wrong in [[128, 1, 0, 3, 10, 0], [0, 0, 4, 3, 10, 0], [255, 255, 255, 255, 255, 1]] {
            assert_eq!(Deltas { bytes: &wrong, at: 0 }.end(3), None);
        }
        assert_eq!(behind_levels(&[2, 0, 0, 0, 1, 1, 7]), Some(&[7][..]));
        assert_eq!(behind_levels(&[9, 0, 0, 0, 1]), None);
    }
}
