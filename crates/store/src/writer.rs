//! Writing a segment file: row groups arrive in any order, from any thread, and reach the disk at once, but for those of a segment
//! that stays small: it is in memory until its commit puts it into the redo log.
//!
//! Invariants: no file is left behind by a writer or a sealed segment that is dropped unpublished. A sealed segment is
//! durable but for its directory entry, which the commit that names it makes durable; a small one is not.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use forebay_base::{ColumnId, DirectoryId, Error, ErrorKind, PhysicalType, Result, SegmentId, limits};
use forebay_block::{ColumnStatistics, SealedChunk, Zone};
use forebay_disk::{AlignedBuffer, DiskFile};

use crate::footer::{
    self, ChunkLocation, Expected, Group, GroupColumn, HEADER_BYTES, SEGMENT_VERSION, Tail, chunk_count, frames,
    header_page,
};
use crate::segment::{Segment, SegmentParts};
use crate::small_file::{SmallFile, stored_bytes_of};
use crate::volume::{FilePlace, Volume, locked};

/// Bytes with their padding, against those that count, up to which it is worth looking for zeros.
const PADDED_TIMES: u64 = 16;

/// A row group ready to be written.
#[derive(Debug)]
pub struct SealedGroup {
    /// Rows of each block: 1 to [`limits::GROUP_BLOCKS_MAX`] blocks.
    pub block_rows: Vec<u32>,
    /// Columns, in the writer's order.
    pub columns: Vec<SealedColumn>,
}

/// One column of a row group ready to be written.
#[derive(Debug)]
pub struct SealedColumn {
    /// Chunks, in row order.
    pub chunks: Vec<SealedChunk>,
    /// A chunk has 2^`blocks_log2` blocks; the last may have fewer.
    pub blocks_log2: u8,
    /// Bytes of the plain values: their width, or the strings and four bytes each.
    pub plain_bytes: u64,
    /// One zone per block.
    pub zones: Vec<Zone>,
    /// Of its values.
    pub statistics: ColumnStatistics,
}

/// Writes one segment file. Dropped unfinished, it removes the file.
#[derive(Debug)]
pub struct SegmentWriter {
    place: FilePlace,
    columns: Vec<(ColumnId, PhysicalType)>,
    target: RwLock<Target>,
    volume: Arc<Volume>,
    state: Mutex<State>,
    /// The segment, not the writer, removes the file.
    is_finished: bool,
}

/// What is written to.
#[derive(Debug)]
enum Target {
    Memory(Arc<SmallFile>),
    File(Arc<dyn DiskFile>),
}

impl Target {
    fn file(&self) -> &dyn DiskFile {
        match self {
            Self::Memory(small) => &**small,
            Self::File(file) => &**file,
        }
    }
}

#[derive(Debug)]
struct State {
    /// Where the next group's chunks go.
    next_offset: u64,
    /// Groups that are in the file, by their index.
    groups: BTreeMap<u64, WrittenGroup>,
    /// Of all groups, per column.
    statistics: Vec<ColumnStatistics>,
}

/// A row group whose chunks are in the file.
#[derive(Debug)]
struct WrittenGroup {
    /// As the footer will have it, but for `first_row`, which is not yet known.
    group: Group,
    /// Per column its part of the section of frames.
    frames: Vec<Vec<u8>>,
}

/// A finished segment file that no table names yet. Dropped unpublished, it removes the file.
#[derive(Debug)]
pub struct SealedSegment {
    pub(crate) segment: Arc<Segment>,
}

impl SealedSegment {
    /// Its id.
    pub fn id(&self) -> SegmentId {
        self.segment.id()
    }

    /// The segment, which may be read already.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// Rows in it.
    pub fn rows(&self) -> u64 {
        self.segment.rows()
    }

    /// Bytes of its file.
    pub fn file_bytes(&self) -> u64 {
        self.segment.file_bytes()
    }
}

impl SegmentWriter {
    pub(crate) fn create(
        volume: Arc<Volume>,
        place: FilePlace,
        columns: Vec<(ColumnId, PhysicalType)>,
    ) -> Result<Self> {
        volume.check_writable()?;
        let target = match volume.create_small_file(place) {
            Some(small) => Target::Memory(small),
            None => Target::File(volume.create_file(place)?),
        };
        let statistics = vec![ColumnStatistics::default(); columns.len()];
        let state = Mutex::new(State { next_offset: HEADER_BYTES, groups: BTreeMap::new(), statistics });
        let target = RwLock::new(target);
        let writer = Self { place, columns, target, volume, state, is_finished: false };
        writer.with_file(|file| file.write_at(0, &header_page(SegmentId(place.number), SEGMENT_VERSION)))?;
        Ok(writer)
    }

    /// Id of the segment that is being written.
    pub fn id(&self) -> SegmentId {
        SegmentId(self.place.number)
    }

    /// Whether no row group is in the file.
    pub(crate) fn is_empty(&self) -> bool {
        locked(&self.state).groups.is_empty()
    }

    /// Writes a row group. `index` gives its place in row order; indices need not be dense. Callable from several
    /// threads at once.
    pub fn append_group(&self, index: u64, group: SealedGroup) -> Result<()> {
        let offset = self.write(&group)?;
        self.record(index, group, offset)
    }

    /// Writes the chunks of a row group, which is in the segment once it is recorded; where they are. What a failure leaves
    /// in the file is no part of the segment.
    pub(crate) fn write(&self, group: &SealedGroup) -> Result<u64> {
        self.check(group)?;
        self.leave_memory_for(chunks(group).map(|chunk| chunk.bytes.as_slice()))?;
        let bytes: u64 = chunks(group).map(|chunk| chunk.bytes.len() as u64).sum();
        let offset = {
            let mut state = locked(&self.state);
            let offset = state.next_offset;
            state.next_offset += bytes;
            offset
        };
        self.write_chunks(offset, group)?;
        Ok(offset)
    }

    /// Makes a row group that was written at `offset` part of the segment.
    pub(crate) fn record(&self, index: u64, group: SealedGroup, mut offset: u64) -> Result<()> {
        if locked(&self.state).groups.contains_key(&index) {
            return Err(Error::internal(format!("row group {index} was written twice")));
        }
        let mut columns = Vec::with_capacity(group.columns.len());
        let mut statistics = Vec::with_capacity(group.columns.len());
        let mut frames = Vec::with_capacity(group.columns.len());
        for column in group.columns {
            let locations = column.chunks.iter().map(|chunk| {
                let stored_bytes = chunk.bytes.len() as u64;
                offset += stored_bytes;
                ChunkLocation { offset: offset - stored_bytes, stored_bytes, encoded_bytes: chunk.encoded_bytes }
            });
            let chunks = locations.collect();
            frames.push(frames::encode(column.chunks.iter().map(|chunk| chunk.directory.as_slice())));
            let SealedColumn { blocks_log2, plain_bytes, zones, statistics: of_group, .. } = column;
            statistics.push(of_group);
            columns.push(GroupColumn { blocks_log2, plain_bytes, chunks, zones });
        }
        let rows = group.block_rows.iter().map(|rows| u64::from(*rows)).sum();
        let group = Group { first_row: 0, rows, block_rows: group.block_rows, columns: columns.into() };
        let mut state = locked(&self.state);
        state.groups.insert(index, WrittenGroup { group, frames });
        for (whole, of_group) in state.statistics.iter_mut().zip(&statistics) {
            whole.merge(of_group);
        }
        Ok(())
    }

    /// Writes sections and footer and makes the file durable.
    pub fn finish(self) -> Result<SealedSegment> {
        self.finish_or_move(std::iter::empty())
    }

    /// The same; where the drive has no room for that any more, in the first of the `others` that has room for the whole
    /// segment.
    pub(crate) fn finish_or_move(mut self, others: impl Iterator<Item = DirectoryId>) -> Result<SealedSegment> {
        let id = self.id();
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        let chunks =
            state.groups.values().flat_map(|written| written.group.columns.iter()).flat_map(|column| &column.chunks);
        let offset = chunks.map(|chunk| chunk.offset + chunk.stored_bytes).max().unwrap_or(HEADER_BYTES);
        // What is behind was written by halves.
        let is_cut = offset < state.next_offset;
        let mut rows = 0;
        let mut groups = Vec::with_capacity(state.groups.len());
        let mut frames = vec![Vec::new(); self.columns.len()];
        for WrittenGroup { mut group, frames: of_group } in std::mem::take(&mut state.groups).into_values() {
            group.first_row = rows;
            rows += group.rows;
            groups.push(group);
            frames.iter_mut().zip(of_group).for_each(|(all, part)| all.extend_from_slice(&part));
        }
        let mut statistics = std::mem::take(&mut state.statistics);
        statistics.iter_mut().for_each(ColumnStatistics::thin);
        let expected = Expected { id, columns: &self.columns, rows };
        let Tail { mut bytes, location, footer } = footer::encode(expected, offset, groups, statistics, &frames);
        bytes.resize(bytes.len().next_multiple_of(limits::IO_ALIGN), 0);
        if is_cut {
            self.with_file(|file| file.set_len(offset))?;
        }
        let left = self.leave_memory_for(std::iter::once(bytes.as_slice()));
        let mut written = left.and_then(|()| self.with_file(|file| file.write_at(offset, &bytes)));
        for other in others {
            if !written.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfSpace) {
                break;
            }
            let moved = self.move_to(other, offset);
            written = moved.and_then(|()| self.with_file(|file| file.write_at(offset, &bytes)));
        }
        written?;
        match self.target.get_mut().unwrap_or_else(PoisonError::into_inner) {
            Target::Memory(_) => self.volume.count_small_file(self.place),
            Target::File(file) => self.volume.sync(&**file)?,
        }
        let parts = SegmentParts {
            id,
            directory: self.place.directory,
            columns: std::mem::take(&mut self.columns),
            rows,
            file_bytes: offset + bytes.len() as u64,
            footer: location,
            sort_order: Vec::new(),
        };
        self.is_finished = true;
        let segment = Segment::sealed(Arc::clone(&self.volume), parts, footer);
        Ok(SealedSegment { segment: Arc::new(segment) })
    }

    /// Goes on in a file, unless the segment is still small with these bytes. Where there is no room for a file all is as it was.
    fn leave_memory_for<'b>(&self, more: impl Iterator<Item = &'b [u8]>) -> Result<()> {
        let is_small = |small: &SmallFile| {
            let most = self.volume.limits.small_bytes;
            let mut bytes = small.stored_bytes();
            // What is padded to much more is not looked at.
            let mut padded = 0;
            for part in more {
                padded += part.len() as u64;
                if padded > PADDED_TIMES * most {
                    return false;
                }
                bytes += stored_bytes_of(part);
            }
            bytes <= most
        };
        match &*self.target.read().unwrap_or_else(PoisonError::into_inner) {
            Target::Memory(small) if !is_small(small) => {}
            Target::Memory(_) | Target::File(_) => return Ok(()),
        }
        let mut target = self.target.write().unwrap_or_else(PoisonError::into_inner);
        if let Target::Memory(small) = &*target {
            let small = Arc::clone(small);
            let file = self.volume.create_file(self.place).inspect_err(|_| self.volume.note_unnamed(self.place))?;
            if let Err(error) = small.write_to(&*file) {
                let _garbage_if_it_fails = self.volume.disk_of(self.place).remove(&self.place.path());
                return Err(error);
            }
            self.volume.forget_small_file(self.place);
            *target = Target::File(file);
        }
        Ok(())
    }

    /// Copies the first `bytes` of the file into another directory, and goes on there.
    fn move_to(&mut self, directory: DirectoryId, bytes: u64) -> Result<()> {
        let place = FilePlace { directory, ..self.place };
        let copy = self.volume.create_file(place)?;
        let copied = self.with_file(|file| copy_file(file, &*copy, bytes));
        let old = if copied.is_ok() { std::mem::replace(&mut self.place, place) } else { place };
        if copied.is_ok() {
            self.target = RwLock::new(Target::File(copy));
        }
        self.volume.remove_file(old);
        copied
    }

    /// Writes all chunks one after the other. Direct writes were up to twice as fast until durable as buffered ones
    /// (`examples/write_bandwidth.rs`), but each waits for the drive: small chunks go together.
    fn write_chunks(&self, mut offset: u64, group: &SealedGroup) -> Result<()> {
        let all: Vec<&[u8]> = chunks(group).map(|chunk| chunk.bytes.as_slice()).collect();
        let mut rest = all.as_slice();
        while !rest.is_empty() {
            let mut bytes = 0;
            let together = rest.iter().take_while(|chunk| {
                let is_first = bytes == 0;
                bytes += chunk.len();
                is_first || bytes <= limits::CHUNK_TARGET_BYTES
            });
            let (run, later) = rest.split_at(together.count());
            let mut buffer = AlignedBuffer::try_zeroed(run.iter().map(|chunk| chunk.len()).sum())?;
            let mut unfilled = &mut buffer[..];
            for chunk in run {
                let (place, behind) = unfilled.split_at_mut(chunk.len());
                place.copy_from_slice(chunk);
                unfilled = behind;
            }
            self.with_file(|file| file.write_direct(offset, &buffer))?;
            offset += buffer.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// Does something with the file; it stays the same one meanwhile.
    fn with_file<T>(&self, act: impl FnOnce(&dyn DiskFile) -> T) -> T {
        act(self.target.read().unwrap_or_else(PoisonError::into_inner).file())
    }

    /// Groups come from the loader: anything inconsistent is a bug there, caught before it reaches the disk.
    fn check(&self, group: &SealedGroup) -> Result<()> {
        let blocks = group.block_rows.len();
        let wrong = |what: &str| Err(Error::internal(format!("a row group of segment {} {what}", self.id())));
        if blocks == 0 || blocks > limits::GROUP_BLOCKS_MAX || group.columns.len() != self.columns.len() {
            return wrong("has the wrong number of blocks or columns");
        }
        if group.block_rows.iter().any(|rows| *rows == 0 || *rows as usize > limits::BLOCK_ROWS) {
            return wrong("has an empty or oversized block");
        }
        for column in &group.columns {
            let zones_match = column.zones.iter().map(|zone| zone.rows).eq(group.block_rows.iter().copied());
            if usize::from(column.blocks_log2) > limits::GROUP_BLOCKS_MAX.ilog2() as usize
                || column.chunks.len() != chunk_count(blocks, column.blocks_log2)
                || !zones_match
            {
                return wrong("has chunks or zones that do not match its blocks");
            }
        }
        if chunks(group).any(|chunk| chunk.bytes.is_empty() || !chunk.bytes.len().is_multiple_of(limits::IO_ALIGN)) {
            return wrong("has a chunk that is not padded");
        }
        Ok(())
    }
}

/// Copies the first `bytes` of a file, whole pages, in pieces of a chunk.
fn copy_file(from: &dyn DiskFile, to: &dyn DiskFile, bytes: u64) -> Result<()> {
    let mut offset = 0;
    while offset < bytes {
        let piece = (bytes - offset).min(limits::CHUNK_TARGET_BYTES as u64) as usize;
        let mut buffer = AlignedBuffer::try_zeroed(piece)?;
        from.read_at(offset, &mut buffer)?;
        to.write_direct(offset, &buffer)?;
        offset += piece as u64;
    }
    Ok(())
}

fn chunks(group: &SealedGroup) -> impl Iterator<Item = &SealedChunk> {
    group.columns.iter().flat_map(|column| &column.chunks)
}

impl Drop for SegmentWriter {
    fn drop(&mut self) {
        if !self.is_finished {
            self.volume.remove_file(self.place);
        }
    }
}
