//! An immutable segment file as readers see it: rows, columns, row groups, and reads of its chunks; and which of its rows are there.
//!
//! Invariants: the footer is read once, on first use, and verified before anything is taken from it; the directories of a
//! column's frames likewise. The file is opened for a read and not kept. The file of a dropped segment is removed when the
//! last reader lets go of it. Must not know: tables, what chunks contain.

use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, OnceLock};

use forebay_base::checksum::crc32c;
use forebay_base::{ColumnId, Context, DirectoryId, Error, PhysicalType, Result, SegmentId, Value};
use forebay_block::ColumnStatistics;
use forebay_disk::{AlignedBuffer, DiskFile, ReadPath, ReadRequest, ReadTicket};

use crate::data_file::DataFile;
use crate::deleted::{DeletedRows, RowBits};
use crate::footer::directory::{self, SECTION_FRAMES, Section, Sections};
use crate::footer::frames::{self, FrameDirectories};
use crate::footer::{self, Expected, Footer, FooterLocation, Group, SEGMENT_VERSION, header_page};
use crate::group_columns::{ColumnMaker, GroupColumns};
use crate::volume::{DATABASE_DIRECTORY, FIRST_IMAGE, FilePlace, Volume, locked};

/// A segment as one version of a table has it: its file, and which rows of that are deleted.
#[derive(Debug, Clone)]
pub struct Segment {
    file: Arc<SegmentFile>,
    deleted: Arc<DeletedRows>,
}

/// Which version of a segment somebody has read. Deleted rows do not come back, so their number tells versions apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentVersion {
    /// The segment.
    pub id: SegmentId,
    /// How many of its rows are deleted.
    pub deleted: u64,
}

/// Rows of a segment that are to be deleted.
#[derive(Debug, Clone)]
pub struct Deleted {
    /// The segment as it was read.
    pub segment: SegmentVersion,
    /// Rows that it had.
    pub rows: DeletedRows,
}

/// The file of a segment. Shared by every snapshot that names it.
#[derive(Debug)]
pub struct SegmentFile {
    parts: SegmentParts,
    data_file: DataFile,
    content: OnceLock<Content>,
    /// Held while the footer or a section of frames is read, so that this happens once.
    loading: Mutex<()>,
    /// What makes its columns where there is no file.
    image: Option<Arc<dyn ColumnMaker>>,
}

/// What has been read of the file but for its chunks.
#[derive(Debug)]
struct Content {
    footer: Footer,
    /// The directories of frames of each column, once they were asked for.
    directories: Box<[OnceLock<FrameDirectories>]>,
}

/// A column that the rows of a segment are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SortColumn {
    /// The column.
    pub column: ColumnId,
    /// Whether greater values come first.
    pub descending: bool,
}

/// What the manifest says about a segment.
#[derive(Debug)]
pub(crate) struct SegmentParts {
    pub(crate) id: SegmentId,
    pub(crate) directory: DirectoryId,
    pub(crate) columns: Vec<(ColumnId, PhysicalType)>,
    pub(crate) rows: u64,
    pub(crate) file_bytes: u64,
    pub(crate) footer: FooterLocation,
    pub(crate) sort_order: Vec<SortColumn>,
}

impl SegmentParts {
    fn place(&self) -> FilePlace {
        FilePlace::of_segment(self.directory, self.id)
    }
}

impl Content {
    fn new(footer: Footer, columns: usize) -> Self {
        Self { footer, directories: (0..columns).map(|_| OnceLock::new()).collect() }
    }
}

impl Deref for Segment {
    type Target = SegmentFile;

    fn deref(&self) -> &SegmentFile {
        &self.file
    }
}

impl Segment {
    /// A segment that the manifest names, of which these rows are deleted.
    pub(crate) fn published(volume: Arc<Volume>, parts: SegmentParts, deleted: DeletedRows) -> Self {
        Self::of_file(SegmentFile::new(DataFile::named(volume, parts.place()), parts, OnceLock::new()), deleted)
    }

    /// A segment whose file was just written, and goes away with it unless it is published.
    pub(crate) fn sealed(volume: Arc<Volume>, parts: SegmentParts, content: Footer) -> Self {
        let content = Content::new(content, parts.columns.len());
        let file = SegmentFile::new(DataFile::unnamed(volume, parts.place()), parts, content.into());
        Self::of_file(file, DeletedRows::default())
    }

    /// Rows in memory, in row groups of these blocks. No catalog names it.
    pub(crate) fn image(
        volume: &Arc<Volume>,
        id: SegmentId,
        columns: Vec<(ColumnId, PhysicalType)>,
        block_rows: impl Iterator<Item = Vec<u32>>,
        maker: &Arc<dyn ColumnMaker>,
    ) -> Self {
        let mut rows = 0;
        let group = |(number, block_rows): (usize, Vec<u32>)| {
            let (first_row, of_group) = (rows, block_rows.iter().map(|rows| u64::from(*rows)).sum());
            rows += of_group;
            Group { first_row, rows: of_group, block_rows, columns: GroupColumns::made(Arc::clone(maker), number) }
        };
        let groups = block_rows.enumerate().map(group).collect();
        let footer = Footer { version: SEGMENT_VERSION, groups, statistics: Vec::new(), sections: Sections::new() };
        let content = Content::new(footer, 0);
        let nowhere = FooterLocation { metadata_offset: 0, offset: 0, bytes: 0, crc: 0 };
        let (directory, sort_order) = (DATABASE_DIRECTORY, Vec::new());
        let parts = SegmentParts { id, directory, columns, rows, file_bytes: 0, footer: nowhere, sort_order };
        let mut file = SegmentFile::new(DataFile::named(Arc::clone(volume), parts.place()), parts, content.into());
        file.image = Some(Arc::clone(maker));
        Self::of_file(file, DeletedRows::default())
    }

    fn of_file(file: SegmentFile, deleted: DeletedRows) -> Self {
        Self { file: Arc::new(file), deleted: Arc::new(deleted) }
    }

    /// Rows that are there.
    pub fn rows(&self) -> u64 {
        self.stored_rows() - self.deleted.count()
    }

    /// Rows of the file that are not there any more.
    pub fn deleted(&self) -> &Arc<DeletedRows> {
        &self.deleted
    }

    /// Which version of the segment this is.
    pub fn as_version(&self) -> SegmentVersion {
        SegmentVersion { id: self.id(), deleted: self.deleted.count() }
    }

    /// The same segment without these rows either.
    ///
    /// # Errors
    /// `Internal` where it has no such rows, or they were deleted before; those of reading the footer.
    pub(crate) fn without(&self, rows: &DeletedRows) -> Result<Self> {
        if !self.stores(rows)? || self.deleted.intersects(rows) {
            return Err(Error::internal(format!("rows are to be deleted that {} does not have", self.path())));
        }
        Ok(Self { file: Arc::clone(&self.file), deleted: Arc::new(self.deleted.union(rows)) })
    }

    /// The same segment without rows that are known to be there.
    pub(crate) fn hiding(&self, rows: &DeletedRows) -> Self {
        Self { file: Arc::clone(&self.file), deleted: Arc::new(self.deleted.union(rows)) }
    }

    /// The same segment with none but these rows, which are there.
    ///
    /// # Errors
    /// Those of reading the footer.
    pub fn only(&self, rows: &DeletedRows) -> Result<Self> {
        let blocks = self.groups()?.iter().flat_map(|group| group.block_rows.iter().copied());
        let deleted = DeletedRows::all_but(rows, blocks);
        Ok(Self { file: Arc::clone(&self.file), deleted: Arc::new(deleted) })
    }

    /// The rows at these places, counted from the segment's first row, the deleted ones included.
    ///
    /// # Errors
    /// `Internal` where it has no such row; those of reading the footer.
    pub fn rows_at(&self, places: &[u64]) -> Result<DeletedRows> {
        let mut starts = Vec::new();
        let mut rows = 0;
        for block in self.groups()?.iter().flat_map(|group| &group.block_rows) {
            starts.push(rows);
            rows += u64::from(*block);
        }
        let row = |place: &u64| {
            let block = starts.partition_point(|start| start <= place).checked_sub(1).filter(|_| *place < rows)?;
            Some((block as u32, (place - starts[block]) as u16))
        };
        let rows: Option<DeletedRows> = places.iter().map(row).collect();
        rows.ok_or_else(|| Error::internal(format!("{} does not have all of these rows", self.path())))
    }

    /// An error where rows are said to be deleted that the file does not have.
    pub(crate) fn check_deleted(&self) -> Result<()> {
        match self.stores(&self.deleted)? {
            true => Ok(()),
            false => Err(Error::corrupt("the manifest has deleted rows of it which it does not have")
                .context(format!("file {}", self.path()))),
        }
    }
}

impl SegmentFile {
    fn new(data_file: DataFile, parts: SegmentParts, content: OnceLock<Content>) -> Self {
        Self { parts, data_file, content, loading: Mutex::new(()), image: None }
    }

    /// Its id, which is also its file's name.
    pub fn id(&self) -> SegmentId {
        self.parts.id
    }

    /// Whether its rows are hot: it lies in memory, shows them at one moment, and no catalog has it.
    pub fn is_hot(&self) -> bool {
        self.parts.id.0 >= FIRST_IMAGE
    }

    /// Rows in all groups.
    pub fn stored_rows(&self) -> u64 {
        self.parts.rows
    }

    /// Columns in the file, which may be fewer or more than the table has now.
    pub fn columns(&self) -> &[(ColumnId, PhysicalType)] {
        &self.parts.columns
    }

    /// Position of a column in [`SegmentFile::columns`] and [`Group::columns`]; `None` where the segment is older than the
    /// column, whose rows then have `Column::missing`.
    pub fn column_index(&self, id: ColumnId) -> Option<usize> {
        self.parts.columns.iter().position(|(column, _)| *column == id)
    }

    /// The least and the greatest integer of a column; `None` where it has no values, or where they are not known.
    pub fn integers(&self, column: ColumnId) -> Option<(i128, i128)> {
        let index = self.column_index(column)?;
        let zones = self.groups().ok()?.iter().flat_map(|group| &group.columns[index].zones);
        let mut all: Option<(i128, i128)> = None;
        for zone in zones.filter(|zone| zone.null_count < zone.rows) {
            let (Some(Value::Int(min)), Some(Value::Int(max))) = (&zone.min, &zone.max) else { return None };
            all = Some(all.map_or((*min, *max), |(least, greatest)| (least.min(*min), greatest.max(*max))));
        }
        all
    }

    /// Bytes of the file; 0 where there is none.
    pub fn file_bytes(&self) -> u64 {
        self.parts.file_bytes
    }

    /// The directory that the file is in, and so the drive.
    pub fn data_directory(&self) -> DirectoryId {
        self.data_file.directory()
    }

    /// Path of the file: in the database directory, or from the root where it is in another data directory.
    pub fn path(&self) -> String {
        self.data_file.path()
    }

    /// Row groups in row order, from the footer.
    pub fn groups(&self) -> Result<&[Group]> {
        Ok(&self.content()?.footer.groups)
    }

    /// Statistics of a column of [`SegmentFile::columns`], from the footer; where rows are hot, about.
    pub fn statistics(&self, column: usize) -> Result<&ColumnStatistics> {
        match &self.image {
            Some(image) => Ok(image.statistics(column)),
            None => Ok(&self.content()?.footer.statistics[column]),
        }
    }

    /// Version of the file's format, from the footer.
    pub fn version(&self) -> Result<u32> {
        Ok(self.content()?.footer.version)
    }

    /// The columns that the rows are sorted by, the first one first; empty where no order is known.
    pub fn sort_order(&self) -> &[SortColumn] {
        &self.parts.sort_order
    }

    /// What inflating a chunk needs to know of its frames, by row group, column position in the segment and chunk; empty
    /// where the chunk describes itself, as all do in segments of version 2. A column's are read together, on first use.
    pub fn directory(&self, group: usize, column: usize, chunk: usize) -> Result<&[u8]> {
        if let Some(image) = &self.image {
            return Ok(&image.column(column).chunks[group][chunk].directory);
        }
        let content = self.content()?;
        if content.footer.sections.is_empty() {
            return Ok(&[]);
        }
        let place = &content.directories[column];
        if place.get().is_none() {
            let _loading = locked(&self.loading);
            if place.get().is_none() {
                let directories = self.read_directories(&*self.file()?, &content.footer, column)?;
                place.get_or_init(|| directories);
            }
        }
        let directories = place.get().expect("it was read above");
        Ok(directories.of_chunk(group, chunk))
    }

    /// Whether the file has all of these rows.
    fn stores(&self, rows: &DeletedRows) -> Result<bool> {
        let block_rows: Vec<u32> = self.groups()?.iter().flat_map(|group| group.block_rows.iter().copied()).collect();
        let has = |(block, rows): (u32, &Arc<RowBits>)| {
            let stored = block_rows.get(block as usize).copied().unwrap_or_default();
            rows.rows().all(|row| row < stored)
        };
        Ok(rows.blocks().all(has))
    }

    fn content(&self) -> Result<&Content> {
        if let Some(content) = self.content.get() {
            return Ok(content);
        }
        let _loading = locked(&self.loading);
        if let Some(content) = self.content.get() {
            return Ok(content);
        }
        let footer = self.read_footer(&*self.file()?)?;
        Ok(self.content.get_or_init(|| Content::new(footer, self.parts.columns.len())))
    }

    /// Reads a chunk named by (row group, column position in the segment, chunk): its stored bytes, unverified, which
    /// `forebay_block::inflate_chunk` verifies with [`SegmentFile::directory`].
    pub fn read_chunk(&self, place: (usize, usize, usize)) -> Result<AlignedBuffer> {
        let whole = 0..self.chunk_bytes(place)?;
        let mut read = self.submit_chunk(place, &[whole], &AlignedBuffer::try_zeroed, ReadPath::Direct)?.wait()?;
        read.pop().map(|read| read.buffer).ok_or_else(|| Error::internal("a read gave no buffer"))
    }

    /// Stored bytes of a chunk, as [`SegmentFile::read_chunk`] names them.
    pub fn chunk_bytes(&self, (group, column, chunk): (usize, usize, usize)) -> Result<usize> {
        let bytes = self.groups()?[group].columns[column].chunks[chunk].stored_bytes;
        usize::try_from(bytes).map_err(|_| Error::corrupt(format!("chunk {chunk} of {} is too large", self.path())))
    }

    /// Begins to read these parts of a chunk, as [`SegmentFile::read_chunk`] names them: ranges of bytes from its start, multiples of
    /// [`IO_ALIGN`](forebay_base::limits::IO_ALIGN), each into a buffer of exactly its length that `take` provides.
    pub fn submit_chunk(
        &self,
        (group, column, chunk): (usize, usize, usize),
        parts: &[Range<usize>],
        take: &dyn Fn(usize) -> Result<AlignedBuffer>,
        path: ReadPath,
    ) -> Result<ReadTicket> {
        if let Some(image) = &self.image {
            let bytes = &image.column(column).chunks[group][chunk].bytes;
            // Without memory nothing is begun, as with files.
            return Ok(ReadTicket::served(Ok(copies(bytes, parts, take)?)));
        }
        let start = self.groups()?[group].columns[column].chunks[chunk].offset;
        let request =
            |part: &Range<usize>| Ok(ReadRequest { offset: start + part.start as u64, buffer: take(part.len())? });
        let requests = parts.iter().map(request).collect::<Result<Vec<_>>>()?;
        match requests.is_empty() {
            true => Ok(ReadTicket::served(Ok(requests))),
            false => self.file()?.submit_reads(requests, path),
        }
    }

    /// Names a chunk in an error: table, column, chunk and file.
    pub fn describe_chunk(&self, column_name: &str, table: &str, group: usize, chunk: usize) -> String {
        let path = self.path();
        format!("table {table}, column {column_name}, row group {group}, chunk {chunk}, file {path}")
    }

    pub(crate) fn footer(&self) -> FooterLocation {
        self.parts.footer
    }

    /// Its file.
    pub(crate) fn data_file(&self) -> &DataFile {
        &self.data_file
    }

    /// Verifies header page, length, footer and all sections of the file as it is on disk now.
    pub(crate) fn check_frame(&self) -> Result<()> {
        let file = self.file()?;
        let footer = self.read_footer(&*file)?;
        let expected = header_page(self.parts.id, footer.version);
        let mut header = vec![0; expected.len()];
        file.read_at(0, &mut header)?;
        if header != expected {
            return Err(Error::corrupt("the header page is damaged").context(format!("file {}", self.path())));
        }
        let bytes = file.len()?;
        if bytes != self.parts.file_bytes {
            let message = format!("the file has {bytes} bytes instead of {}", self.parts.file_bytes);
            return Err(Error::corrupt(message).context(format!("file {}", self.path())));
        }
        if footer.sections.is_empty() {
            return Ok(());
        }
        for column in 0..self.parts.columns.len() {
            self.read_directories(&*file, &footer, column)?;
        }
        let mut skipped = footer.sections.values().filter(|section| !section.is_known());
        skipped.try_for_each(|section| self.read_section(&*file, section).map(drop))
    }

    fn file(&self) -> Result<Arc<dyn DiskFile>> {
        self.data_file.open()
    }

    fn read_footer(&self, file: &dyn DiskFile) -> Result<Footer> {
        let location = self.parts.footer;
        let FooterLocation { metadata_offset, offset, bytes, crc } = location;
        let wrong = || Error::corrupt("checksum mismatch in the footer");
        let read = || {
            let end = offset.checked_add(bytes).filter(|end| *end <= self.parts.file_bytes).ok_or_else(wrong)?;
            if bytes < size_of::<u32>() as u64 || metadata_offset > offset {
                return Err(wrong());
            }
            // A hostile length is refused before memory is taken for it.
            if end > file.len()? {
                return Err(Error::corrupt("the file is shorter than its footer's place"));
            }
            let mut metadata = vec![0; usize::try_from(end - metadata_offset).map_err(|_| wrong())?];
            file.read_at(metadata_offset, &mut metadata)?;
            let footer = &metadata[metadata.len() - bytes as usize..];
            let (payload, stored_crc) = footer.split_last_chunk::<4>().ok_or_else(wrong)?;
            if crc32c(payload) != crc || u32::from_le_bytes(*stored_crc) != crc {
                return Err(wrong());
            }
            let SegmentParts { id, columns, rows, .. } = &self.parts;
            footer::decode(&metadata, location, Expected { id: *id, columns, rows: *rows })
        };
        read().context(|| format!("file {}", self.path()))
    }

    fn read_directories(&self, file: &dyn DiskFile, footer: &Footer, column: usize) -> Result<FrameDirectories> {
        let id = self.parts.columns[column].0;
        let section = directory::find(&footer.sections, SECTION_FRAMES, Some(id))?;
        let bytes = self.read_section(file, section)?;
        frames::decode(bytes, id, &footer.groups, column).context(|| format!("file {}", self.path()))
    }

    /// The verified content of a section, which lies in front of the footer.
    fn read_section(&self, file: &dyn DiskFile, section: &Section) -> Result<Vec<u8>> {
        let read = || {
            let cut = || Error::corrupt(format!("the file is shorter than the place of {}", section.describe()));
            if section.offset + section.bytes > file.len()? {
                return Err(cut());
            }
            let mut content = vec![0; usize::try_from(section.bytes).map_err(|_| cut())?];
            file.read_at(section.offset, &mut content)?;
            section.verify(&content)?;
            Ok(content)
        };
        read().context(|| format!("file {}", self.path()))
    }
}

/// Copies of these parts of what lies in memory.
fn copies(
    bytes: &[u8],
    parts: &[Range<usize>],
    take: &dyn Fn(usize) -> Result<AlignedBuffer>,
) -> Result<Vec<ReadRequest>> {
    let copy = |part: &Range<usize>| {
        let from = bytes.get(part.clone()).ok_or_else(|| Error::internal("a part of a chunk lies outside it"))?;
        let mut buffer = take(part.len())?;
        buffer.copy_from_slice(from);
        Ok(ReadRequest { offset: part.start as u64, buffer })
    };
    parts.iter().map(copy).collect()
}
