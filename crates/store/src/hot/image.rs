//! Hot rows of a table as segments: in memory for those who read at a snapshot, and in files when they are frozen.
//!
//! Rows come in the order of their numbers; those of a hot chunk are a segment in memory, of one block or of several where its values are long, at the place of the chunk.
//! What has not changed between two snapshots they share. Must not know: which snapshot it is, who reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{ColumnId, PhysicalType, Result, SegmentId, limits};
use forebay_block::{
    ChunkOptions, ColumnStatistics, Compression, EncodeOptions, PlainColumn, PlainValues, encode_block, seal_chunk,
};
use forebay_hot::{Batch, Cell, HotTable, RANGE_ROWS, RowId, View};

use super::types;
use crate::catalog::Table;
use crate::segment::Segment;
use crate::volume::Volume;
use crate::writer::{SealedColumn, SealedGroup, SealedSegment, SegmentWriter};

/// Rows that are copied below a chunk's latch at a time.
const SCAN_ROWS: usize = 4 * RANGE_ROWS;

/// The segments of a table's hot rows at a snapshot.
#[derive(Debug)]
pub(super) struct Images {
    rows: HotTable,
    /// By number of the chunk; of those of which the snapshot sees rows.
    chunks: BTreeMap<u32, Arc<ChunkImage>>,
}

/// The rows of a chunk that a snapshot sees.
#[derive(Debug)]
struct ChunkImage {
    /// How often the chunk had been changed, where the snapshot sees all of these changes.
    changes: Option<u64>,
    /// `None` where it sees no rows.
    segment: Option<Arc<Segment>>,
    ids: Vec<RowId>,
}

impl Images {
    /// Those of the rows that a view sees, with the columns of `table`; in memory. `earlier` are those of an older view.
    pub(super) fn of(
        rows: &HotTable,
        view: View<'_>,
        table: &Table,
        volume: &Arc<Volume>,
        earlier: Option<&Self>,
    ) -> Result<Self> {
        let earlier = earlier.filter(|earlier| earlier.rows.is_same(rows));
        let image = |chunk: u32| {
            let changes = rows.changes_seen(view, chunk);
            let known = earlier.and_then(|earlier| earlier.chunks.get(&chunk));
            if let Some(known) = known.filter(|known| changes.is_some() && known.changes == changes) {
                return Ok(Arc::clone(known));
            }
            let mut blocks = Blocks::new(columns(table));
            let ids = blocks.take(rows, view, std::iter::once(chunk))?;
            let segment = match ids.is_empty() {
                true => None,
                false => {
                    let writer = SegmentWriter::of_image(volume, columns(table))?;
                    let sealed = blocks.write(writer, Compression::Force(forebay_block::Scheme::Plain))?;
                    Some(Arc::clone(sealed.segment()))
                }
            };
            let changes = changes.filter(|_| rows.changes_seen(view, chunk) == changes);
            Ok(Arc::new(ChunkImage { changes, segment, ids }))
        };
        let chunks = rows.chunks().map(|chunk| Ok((chunk, image(chunk)?))).collect::<Result<_>>()?;
        Ok(Self { rows: rows.clone(), chunks })
    }

    /// The segments, by chunk.
    pub(super) fn by_chunk(&self) -> impl Iterator<Item = (u32, Arc<Segment>)> + '_ {
        self.chunks.iter().filter_map(|(number, chunk)| Some((*number, chunk.segment.clone()?)))
    }

    /// By segment the numbers of its rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (SegmentId, &[RowId])> {
        self.chunks.values().filter_map(|chunk| Some((chunk.segment.as_ref()?.id(), chunk.ids.as_slice())))
    }
}

/// Writes the rows of chunks that a view sees to a segment of a table, which is to be published; with their numbers. `None` where it sees none.
pub(crate) fn frozen(
    rows: &HotTable,
    view: View<'_>,
    table: &Table,
    chunks: &[u32],
    writer: impl FnOnce(Vec<(ColumnId, PhysicalType)>) -> Result<SegmentWriter>,
) -> Result<Option<(SealedSegment, Vec<RowId>)>> {
    let mut blocks = Blocks::new(columns(table));
    let ids = blocks.take(rows, view, chunks.iter().copied())?;
    match ids.is_empty() {
        true => Ok(None),
        false => Ok(Some((blocks.write(writer(columns(table))?, Compression::default())?, ids))),
    }
}

fn columns(table: &Table) -> Vec<(ColumnId, PhysicalType)> {
    table.columns.iter().map(|column| column.id).zip(types(table)).collect()
}

/// Encoded blocks.
struct Blocks {
    columns: Vec<EncodedColumn>,
    rows: Vec<u32>,
}

struct EncodedColumn {
    physical: PhysicalType,
    /// Values of the block in the making: of fixed width, or strings one after the other, with their ends.
    values: Vec<u8>,
    ends: Vec<usize>,
    valid: Vec<u8>,
    has_nulls: bool,
    /// Blocks, one after the other.
    encoded: Vec<Vec<u8>>,
    sealed: SealedColumn,
}

impl Blocks {
    fn new(columns: Vec<(ColumnId, PhysicalType)>) -> Self {
        let column = |(_, physical)| EncodedColumn::new(physical);
        Self { columns: columns.into_iter().map(column).collect(), rows: Vec::new() }
    }

    /// Takes in the rows of chunks that a view sees; their numbers.
    fn take(&mut self, rows: &HotTable, view: View<'_>, chunks: impl Iterator<Item = u32>) -> Result<Vec<RowId>> {
        let all: Vec<usize> = (0..self.columns.len()).collect();
        let (mut ids, mut batch) = (Vec::new(), Batch::default());
        let (mut block_rows, mut block_bytes) = (0, 0);
        for chunk in chunks {
            for start in (0..rows.chunk_rows(chunk)).step_by(SCAN_ROWS) {
                rows.scan(view, chunk, start..start + SCAN_ROWS, &all, &mut batch)?;
                for at in batch.visible().ones() {
                    let row = || batch.columns().iter().map(|column| column.cell(at));
                    let bytes: usize = row().zip(&self.columns).map(|(cell, column)| column.bytes(cell)).sum();
                    if block_rows == limits::BLOCK_ROWS || block_rows > 0 && block_bytes + bytes > limits::BLOCK_BYTES {
                        self.end_block(block_rows)?;
                        (block_rows, block_bytes) = (0, 0);
                    }
                    self.columns.iter_mut().zip(row()).for_each(|(column, cell)| column.push(block_rows, cell));
                    ids.push(RowId::new(chunk, (start + at) as u16));
                    block_rows += 1;
                    block_bytes += bytes;
                }
            }
        }
        if block_rows > 0 {
            self.end_block(block_rows)?;
        }
        Ok(ids)
    }

    fn end_block(&mut self, rows: usize) -> Result<()> {
        self.rows.push(rows as u32);
        self.columns.iter_mut().try_for_each(|column| column.end_block(rows))
    }

    fn write(self, writer: SegmentWriter, compression: Compression) -> Result<SealedSegment> {
        let options = ChunkOptions { compression };
        let Self { columns, rows } = self;
        let mut columns: Vec<(Vec<Vec<u8>>, SealedColumn)> =
            columns.into_iter().map(|column| (column.encoded, column.sealed)).collect();
        for (index, block_rows) in rows.chunks(limits::GROUP_BLOCKS).enumerate() {
            let first = index * limits::GROUP_BLOCKS;
            let blocks = first..first + block_rows.len();
            let sealed = columns.iter_mut().map(|(encoded, column)| {
                let chunks = encoded[blocks.clone()].iter().map(|block| seal_chunk(block, &[0], &options));
                Ok(SealedColumn {
                    chunks: chunks.collect::<Result<_>>()?,
                    blocks_log2: 0,
                    plain_bytes: if index == 0 { column.plain_bytes } else { 0 },
                    zones: column.zones[blocks.clone()].to_vec(),
                    statistics: if index == 0 {
                        std::mem::take(&mut column.statistics)
                    } else {
                        ColumnStatistics::default()
                    },
                })
            });
            let columns = sealed.collect::<Result<Vec<_>>>()?;
            writer.append_group(index as u64, SealedGroup { block_rows: block_rows.to_vec(), columns })?;
        }
        writer.finish()
    }
}

impl EncodedColumn {
    fn new(physical: PhysicalType) -> Self {
        let sealed = SealedColumn {
            chunks: Vec::new(),
            blocks_log2: 0,
            plain_bytes: 0,
            zones: Vec::new(),
            statistics: ColumnStatistics::default(),
        };
        let (values, ends, valid, encoded) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { physical, values, ends, valid, has_nulls: false, encoded, sealed }
    }

    /// Plain bytes of a value.
    fn bytes(&self, cell: Cell<'_>) -> usize {
        match (self.physical.width(), cell) {
            (Some(width), _) => width,
            (None, Cell::Bytes(string)) => string.len(),
            (None, _) => 0,
        }
    }

    /// Adds the value of a block's row of this number.
    fn push(&mut self, row: usize, cell: Cell<'_>) {
        if row.is_multiple_of(8) {
            self.valid.push(0);
        }
        match cell {
            Cell::Null => self.has_nulls = true,
            _ => self.valid[row / 8] |= 1 << (row % 8),
        }
        match (self.physical.width(), cell) {
            (Some(width), Cell::Fixed(bits)) => self.values.extend_from_slice(&bits.to_le_bytes()[..width]),
            (Some(width), _) => self.values.resize(self.values.len() + width, 0),
            (None, Cell::Bytes(string)) => self.values.extend_from_slice(string),
            (None, _) => {}
        }
        if self.physical.width().is_none() {
            self.ends.push(self.values.len());
        }
    }

    fn end_block(&mut self, rows: usize) -> Result<()> {
        let mut start = 0;
        let string = |end: &usize| &self.values[std::mem::replace(&mut start, *end)..*end];
        let strings: Vec<&[u8]> = self.ends.iter().map(string).collect();
        let values = match self.physical.width() {
            Some(_) => PlainValues::Fixed(&self.values),
            None => PlainValues::Bytes(&strings),
        };
        let validity = self.has_nulls.then_some(self.valid.as_slice());
        let plain = PlainColumn { physical: self.physical, rows, validity, values };
        let mut encoded = Vec::new();
        self.sealed.statistics.add(&plain);
        self.sealed.zones.push(encode_block(&plain, &EncodeOptions::default(), &mut encoded)?);
        self.sealed.plain_bytes += (self.values.len() + size_of::<u32>() * self.ends.len()) as u64;
        self.encoded.push(encoded);
        self.values.clear();
        self.ends.clear();
        self.valid.clear();
        self.has_nulls = false;
        Ok(())
    }
}
