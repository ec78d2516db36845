//! What the metadata at the end of a Parquet file say, checked against the file before a reader believes it: lengths,
//! nesting, and where everything lies.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};

use datafusion::parquet::file::metadata::{
    ColumnChunkMetaData, PageIndexPolicy, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
    RowGroupMetaData,
};
use datafusion::parquet::file::page_index::column_index::ColumnIndexMetaData;
use forebay_base::units::format_bytes;
use forebay_base::{Context, Error, ErrorKind, Result, limits};
use forebay_context::error::from_parquet;
use forebay_context::panics::caught;

use super::thrift::Walker;
use super::{Known, shapes};

/// Length of the footer and magic bytes.
const TAIL_BYTES: u64 = 8;

/// Magic bytes at both ends.
const MAGIC: &[u8; 4] = b"PAR1";

/// Levels of a schema: readers descend into it, a frame of the stack for each.
const MOST_LEVELS: usize = 100;

/// Checks the metadata of a file, whose readers may take `memory_bytes`.
///
/// # Errors
/// What is wrong, without the file's name.
pub(super) fn check(path: &str, memory_bytes: usize) -> Result<()> {
    let mut file = File::open(path).map_err(|error| Error::io(format!("open {path}"), &error))?;
    let Known { metadata, file_bytes, .. } = known(&mut file, path, memory_bytes, None)?;
    let data_bytes = file_bytes - TAIL_BYTES;
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        let in_group = || format!("row group {group}");
        check_rows(row_group).context(in_group)?;
        for column in row_group.columns() {
            let checked = check_chunk(column, row_group.num_rows(), data_bytes, memory_bytes);
            checked.context(|| format!("column {}", column.column_path().string())).context(in_group)?;
        }
    }
    let rows = metadata.row_groups().iter().try_fold(0_i64, |sum, group| sum.checked_add(group.num_rows()));
    if rows.is_none() || metadata.file_metadata().num_rows() < 0 {
        return Err(Error::input("the footer claims more rows than can be counted"));
    }
    check_indexes(&mut file, path, metadata, memory_bytes)
}

/// The metadata of a file, which are whole, but not checked against what lies in front of them.
///
/// # Errors
/// What is wrong, without the file's name.
pub(super) fn known(
    file: &mut File,
    path: &str,
    memory_bytes: usize,
    options: Option<&ParquetMetaDataOptions>,
) -> Result<Known> {
    let file_bytes = file.metadata().map_err(|error| Error::io(format!("read {path}"), &error))?.len();
    let footer = footer(file, path, file_bytes, memory_bytes)?;
    check_structure(&footer).context(|| "footer")?;
    let decoded = caught(|| ParquetMetaDataReader::decode_metadata_with_options(&footer, options));
    let metadata = decoded.and_then(|all| all.map_err(from_parquet)).context(|| "footer")?;
    Ok(Known { metadata, file_bytes, footer_bytes: footer.len() as u64 })
}

/// The footer's bytes.
fn footer(file: &mut File, path: &str, file_bytes: u64, memory_bytes: usize) -> Result<Vec<u8>> {
    if file_bytes < TAIL_BYTES + MAGIC.len() as u64 {
        return Err(Error::input(format!("{file_bytes} bytes are too few for a Parquet file")));
    }
    let tail = read(file, path, file_bytes - TAIL_BYTES, TAIL_BYTES)?;
    let (length, magic) = tail.split_at(4);
    if magic == b"PARE" {
        return Err(Error::unsupported("encrypted Parquet files are not supported"));
    }
    if magic != MAGIC {
        return Err(Error::input("a Parquet file ends with PAR1, and this one does not"));
    }
    let length = u64::from(u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    let most = file_bytes - TAIL_BYTES - MAGIC.len() as u64;
    if length > most {
        let message = format!("the footer claims {length} bytes, and the file has {most} in front of its end");
        return Err(Error::input(message).hint("The file is cut off or damaged"));
    }
    if length > memory_bytes as u64 {
        let message = format!("the footer has {}, more than there is memory", format_bytes(length));
        return Err(Error::new(ErrorKind::OutOfMemory, message).hint("Give Forebay more memory with --memory"));
    }
    read(file, path, file_bytes - TAIL_BYTES - length, length)
}

fn read(file: &mut File, path: &str, start: u64, length: u64) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| Error::io(format!("read {length} bytes at {start} of {path}"), &error);
    let mut bytes = vec![0; usize::try_from(length).map_err(|_| Error::input("the file is too large"))?];
    file.seek(SeekFrom::Start(start)).map_err(failed)?;
    file.read_exact(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

/// Walks the footer, and the tree of its schema.
fn check_structure(footer: &[u8]) -> Result<()> {
    // By level, the children that are still to come.
    let mut open: Vec<i64> = Vec::new();
    let mut children = 0;
    Walker::new(footer).structure(shapes::FILE, &mut |path, value| {
        match value {
            Some(value) if path == shapes::CHILDREN_PATH => children = value,
            None if path == shapes::SCHEMA_PATH => {
                if let Some(last) = open.last_mut() {
                    *last -= 1;
                }
                match std::mem::take(&mut children) {
                    ..0 => return Err(Error::input("an element of the schema has less than no children")),
                    0 => {}
                    count => open.push(count),
                }
                if open.len() > MOST_LEVELS {
                    return Err(Error::input(format!("the schema has more than {MOST_LEVELS} levels")));
                }
                while open.last() == Some(&0) {
                    open.pop();
                }
            }
            _ => {}
        }
        Ok(())
    })
}

fn check_rows(group: &RowGroupMetaData) -> Result<()> {
    match group.num_rows() < 0 {
        true => Err(Error::input(format!("it claims {} rows", group.num_rows()))),
        false => Ok(()),
    }
}

/// `start..start + length`, which must lie in front of `end`.
fn range(what: &str, start: i64, length: i64, end: u64) -> Result<std::ops::Range<u64>> {
    let range = u64::try_from(start).ok().zip(u64::try_from(length).ok());
    let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
    range.filter(|range| range.start >= MAGIC.len() as u64 && range.end <= end).ok_or_else(|| {
        Error::input(format!("{what} claims {length} bytes at {start}, and the file has {end}"))
            .hint("The file is cut off or damaged")
    })
}

fn check_chunk(column: &ColumnChunkMetaData, rows: i64, data_bytes: u64, memory_bytes: usize) -> Result<()> {
    if column.file_path().is_some() {
        return Err(Error::unsupported("the column lies in another file"));
    }
    let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    let chunk = range("the column", start, column.compressed_size(), data_bytes)?;
    range("its first page", column.data_page_offset(), 0, chunk.end)?;
    if let Some(offset) = column.bloom_filter_offset() {
        let length = column.bloom_filter_length().unwrap_or(1);
        range("its Bloom filter", offset, i64::from(length), data_bytes)?;
    }
    let descriptor = column.column_descr();
    let (values, is_flat) = (column.num_values(), descriptor.max_rep_level() == 0);
    if values < 0 || column.uncompressed_size() < 0 || (is_flat && values != rows) {
        let message = format!("it claims {values} values of {} bytes in {rows} rows", column.uncompressed_size());
        return Err(Error::input(message));
    }
    let value_bytes = usize::try_from(descriptor.type_length()).unwrap_or(0);
    if value_bytes.saturating_mul(limits::BATCH_ROWS) > memory_bytes {
        let message = format!(
            "each value has {value_bytes} bytes, and {} at once are more than there is memory",
            limits::BATCH_ROWS
        );
        return Err(Error::new(ErrorKind::OutOfMemory, message).hint("Give Forebay more memory with --memory"));
    }
    Ok(())
}

/// Checks where pages lie and what is said of their values.
fn check_indexes(file: &mut File, path: &str, metadata: ParquetMetaData, memory_bytes: usize) -> Result<()> {
    let data_bytes = file.metadata().map_err(|error| Error::io(format!("read {path}"), &error))?.len() - TAIL_BYTES;
    // Readers take all of them at once.
    let mut all: Option<std::ops::Range<u64>> = None;
    for (group, row_group) in metadata.row_groups().iter().enumerate() {
        for column in row_group.columns() {
            let indexes = [
                ("its column index", column.column_index_offset(), column.column_index_length(), shapes::COLUMN_INDEX),
                ("its offset index", column.offset_index_offset(), column.offset_index_length(), shapes::OFFSET_INDEX),
            ];
            for (what, offset, length, fields) in indexes {
                let (Some(offset), Some(length)) = (offset, length) else { continue };
                let mut checked = || {
                    let place = range(what, offset, i64::from(length), data_bytes)?;
                    let covered =
                        all.as_ref().map_or(place.clone(), |all| all.start.min(place.start)..all.end.max(place.end));
                    if covered.end - covered.start > memory_bytes as u64 / 2 {
                        return Err(Error::input(format!("{what} lies too far from others")));
                    }
                    all = Some(covered);
                    let bytes = read(file, path, place.start, place.end - place.start)?;
                    Walker::new(&bytes).structure(fields, &mut |_, _| Ok(())).context(|| what)
                };
                checked()
                    .context(|| format!("column {}", column.column_path().string()))
                    .context(|| format!("row group {group}"))?;
            }
        }
    }
    if all.is_none() {
        return Ok(());
    }
    let mut reader =
        ParquetMetaDataReader::new_with_metadata(metadata).with_page_index_policy(PageIndexPolicy::Optional);
    let decoded = caught(|| reader.read_page_indexes(&*file).and_then(|()| reader.finish()));
    let metadata = decoded.and_then(|all| all.map_err(from_parquet)).context(|| "page indexes")?;
    check_pages(&metadata)
}

/// Pages lie in their column one behind the other, and rows in them.
fn check_pages(metadata: &ParquetMetaData) -> Result<()> {
    let Some(offsets) = metadata.offset_index() else { return Ok(()) };
    for (group, (row_group, offsets)) in metadata.row_groups().iter().zip(offsets).enumerate() {
        for (index, (column, offsets)) in row_group.columns().iter().zip(offsets).enumerate() {
            let wrong = |what: String| {
                let error = Error::input(what).context("its offset index");
                error.context(format!("column {}", column.column_path().string())).context(format!("row group {group}"))
            };
            // Checked before: neither is negative, and both are in the file.
            let (mut at, length) = column.byte_range();
            let end = at + length;
            let mut rows = 0;
            for (number, page) in offsets.page_locations().iter().enumerate() {
                let place = u64::try_from(page.offset).ok().zip(u64::try_from(page.compressed_page_size).ok());
                let place = place.filter(|(start, length)| *start >= at && *length > 0 && start + length <= end);
                let is_next = page.first_row_index >= rows && (number > 0 || page.first_row_index == 0);
                let (Some((start, length)), true) = (place, is_next && page.first_row_index <= row_group.num_rows())
                else {
                    return Err(wrong(format!(
                        "page {number} claims {} bytes at {} from row {}",
                        page.compressed_page_size, page.offset, page.first_row_index
                    )));
                };
                (at, rows) = (start + length, page.first_row_index);
            }
            let bounds = metadata.column_index().and_then(|all| all.get(group)?.get(index));
            let pages = offsets.page_locations().len() as u64;
            // A column without bounds has none for any page.
            if let Some(bounds) = bounds
                && !matches!(bounds, ColumnIndexMetaData::NONE)
                && bounds.num_pages() != pages
            {
                return Err(wrong(format!("it has {pages} pages, and bounds are given for others")));
            }
        }
    }
    Ok(())
}
