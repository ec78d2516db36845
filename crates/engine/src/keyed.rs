//! Rows of segments by their keys: for transactions that read and change single rows.
//!
//! Zones tell which blocks may have a key. Of those the keys are sorted, once per block, and kept in a bounded memory beside the cache of chunks;
//! values come from inflated chunks of the cache. So a row of a table that was loaded in the order of its key costs one search in the keys of one
//! block, and no code is compiled and no thread asked.
//!
//! Invariant: rows that are deleted in the snapshot are not found. Must not know: hot rows, what keys are for.

use std::sync::{Arc, PoisonError};

use forebay_base::{ColumnId, Context, Error, PhysicalType, Result};
use forebay_block::{Access, BlockSet, EncodedBlock, InflatedChunk, ValueRef, Values};
use forebay_store::{Cell, HotRow, Segment, TableSnapshot, push_key};

use crate::chunks::{Costs, Place, WantedChunk};
use crate::kept_keys::BlockKeys;
use crate::key_zones::{KeyZones, KnownZones, Wanted, ZonedBlock};
use crate::read_ahead::ReadAhead;
pub use crate::segment_row::SegmentRow;
use crate::{Engine, Metrics, ScanSettings};

/// The part of the memory for chunks that keys of blocks may take beside it.
const KEPT_PART: usize = 16;

/// Bytes of a value in a key, about.
const KEY_BYTES: usize = 9;

/// The columns of a key of a table.
#[derive(Debug, Clone)]
pub struct KeyColumns {
    positions: Vec<usize>,
    ids: Arc<[ColumnId]>,
    zones: Arc<KnownZones>,
}

impl KeyColumns {
    /// The columns at these positions of a table.
    pub fn of(table: &TableSnapshot, positions: Vec<usize>) -> Self {
        let ids = positions.iter().map(|position| table.columns[*position].id).collect();
        Self { positions, ids, zones: Arc::default() }
    }

    /// Their positions in the table.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }
}

/// Which rows are wanted of those that are found.
#[derive(Clone, Copy)]
pub struct WantedRows<'w> {
    /// At most so many, the first ones in the order of the keys.
    pub most: usize,
    /// Least and greatest value of the column of the key that follows.
    pub next: (Option<Cell<'w>>, Option<Cell<'w>>),
    /// Only where so many blocks may have some, and their keys fit into half of the memory for keys: they are sorted and kept.
    pub most_blocks: usize,
    /// Those for which this holds.
    pub is_there: &'w dyn Fn(&SegmentRow) -> bool,
}

/// Rows that were found, in the order of their keys.
#[derive(Debug, Default)]
pub struct FoundRows {
    /// Each with its place among the keys of its block.
    rows: Vec<(SegmentRow, Arc<BlockKeys>, usize)>,
}

impl FoundRows {
    /// Whether none was found.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows.
    pub fn rows(&self) -> impl Iterator<Item = SegmentRow> {
        self.rows.iter().map(|(row, _, _)| *row)
    }

    /// The rows, each with the bytes of its key.
    pub fn with_keys(&self) -> impl Iterator<Item = (Vec<u8>, SegmentRow)> {
        self.rows.iter().map(|(row, keys, place)| (keys.key(*place), *row))
    }
}

/// Rows of a table's segments whose keys lie from `low` on and below `high` (`forebay_store::push_key`), in the order of the
/// keys. All of the keys begin with `values`, which zones are asked for.
///
/// # Errors
/// Those of reading; `Unsupported` where more blocks may have some than are looked at.
pub fn rows_between(
    engine: &Engine,
    table: &Arc<TableSnapshot>,
    key: &KeyColumns,
    values: &[Cell<'_>],
    (low, high): (&[u8], Option<&[u8]>),
    wanted: WantedRows<'_>,
) -> Result<FoundRows> {
    let WantedRows { most, next, most_blocks, is_there } = wanted;
    let zones = key.zones.get(table, || KeyZones::of(table, &key.positions, &key.ids))?;
    let bounds = values.iter().map(|value| (Some(*value), Some(*value))).chain([next]);
    let physical = |position: &usize| table.columns[*position].logical.physical();
    let bounds = key.positions.iter().zip(bounds).map(|(position, bounds)| Wanted::of(bounds, physical(position)));
    let bounds: Vec<Option<Wanted>> = bounds.collect();
    let blocks = zones.blocks_with(table, &bounds)?;
    let rows: usize = blocks.iter().map(|block| block.rows as usize).sum();
    let key_bytes = rows * (KEY_BYTES * key.positions.len() + size_of::<u32>() + size_of::<u16>());
    let is_too_much = key_bytes > engine.cache().budget_bytes() / KEPT_PART / 2;
    if most_blocks < usize::MAX && blocks.len() > 1 && (blocks.len() > most_blocks || is_too_much) {
        return Err(Error::unsupported(format!(
            "{} blocks of table {} may have a key",
            blocks.len(),
            table.full_name()
        )));
    }
    let mut found = FoundRows::default();
    let mut blocks_with_rows = 0;
    for block in blocks {
        let at = block.first;
        let keys = keys_of(engine, table, key, block)?;
        let deleted = table.segments[at.segment].deleted().of_block(at.number);
        let is_marked = |row: u16| deleted.is_some_and(|deleted| deleted.contains(usize::from(row)));
        let rows = keys.between(low, high).filter(|place| !is_marked(keys.row(*place)));
        let rows = rows.map(|place| (SegmentRow { row: keys.row(place), ..at }, place));
        let rows = rows.filter(|(row, _)| is_there(row)).take(most);
        let before = found.rows.len();
        found.rows.extend(rows.map(|(row, place)| (row, Arc::clone(&keys), place)));
        blocks_with_rows += usize::from(found.rows.len() > before);
    }
    if blocks_with_rows > 1 {
        found.rows.sort_by(|(_, one, at), (_, other, other_at)| one.order(*at, other, *other_at));
        found.rows.truncate(most);
    }
    Ok(found)
}

/// Adds the values of these columns of a row to `out`.
///
/// # Errors
/// Those of reading.
pub fn read_row(
    engine: &Engine,
    table: &TableSnapshot,
    row: SegmentRow,
    columns: &[usize],
    out: &mut HotRow,
) -> Result<()> {
    for column in columns {
        let physical = table.columns[*column].logical.physical();
        match block_of(engine, table, *column, row)? {
            None => out.push(Cell::of(table.columns[*column].missing.as_ref(), physical)),
            Some((chunk, block)) => out.push(cell_at(&chunk.block(block), usize::from(row.row), physical)?),
        }
    }
    Ok(())
}

/// Calls `each` with these columns of all rows of a table, one after the other, in their order: for few rows.
///
/// # Errors
/// Those of reading, and of `each`.
pub fn each_row(
    engine: &Engine,
    table: &TableSnapshot,
    columns: &[usize],
    mut each: impl FnMut(&HotRow) -> Result<()>,
) -> Result<()> {
    let mut row = HotRow::default();
    for (number, segment) in table.segments.iter().enumerate() {
        let mut first_block = 0;
        for (group, layout) in segment.groups()?.iter().enumerate() {
            for (block, rows) in layout.block_rows.iter().enumerate() {
                let at = SegmentRow { segment: number, group, block, number: first_block + block as u32, row: 0 };
                let found =
                    columns.iter().map(|column| block_of(engine, table, *column, at)).collect::<Result<Vec<_>>>()?;
                let opened: Vec<Option<EncodedBlock<'_>>> =
                    found.iter().map(|found| found.as_ref().map(|(chunk, block)| chunk.block(*block))).collect();
                let deleted = segment.deleted().of_block(at.number);
                for own in 0..*rows as usize {
                    if deleted.is_some_and(|deleted| deleted.contains(own)) {
                        continue;
                    }
                    row.clear();
                    for (column, block) in columns.iter().zip(&opened) {
                        let physical = table.columns[*column].logical.physical();
                        row.push(match block {
                            None => Cell::of(table.columns[*column].missing.as_ref(), physical),
                            Some(block) => cell_at(block, own, physical)?,
                        });
                    }
                    each(&row)?;
                }
            }
            first_block += layout.block_rows.len() as u32;
        }
    }
    Ok(())
}

/// The sorted keys of a block.
fn keys_of(engine: &Engine, table: &TableSnapshot, key: &KeyColumns, block: &ZonedBlock) -> Result<Arc<BlockKeys>> {
    let known = || block.keys.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(keys) = known().upgrade() {
        engine.kept_keys().used(&keys);
        return Ok(keys);
    }
    let of = (table.segments[block.first.segment].id(), block.first.number, Arc::clone(&key.ids));
    let keys = match engine.kept_keys().find(&of) {
        Some(kept) => kept,
        None => {
            let keys = Arc::new(read_keys(engine, table, key, block.first)?);
            engine.kept_keys().keep(of, &keys, engine.cache().budget_bytes() / KEPT_PART);
            keys
        }
    };
    *known() = Arc::downgrade(&keys);
    Ok(keys)
}

/// The same, read and sorted.
fn read_keys(engine: &Engine, table: &TableSnapshot, key: &KeyColumns, at: SegmentRow) -> Result<BlockKeys> {
    let rows = table.segments[at.segment].groups()?[at.group].block_rows[at.block] as usize;
    let mut keys = BlockKeys::with_capacity(rows);
    let physical = |column: usize| table.columns[column].logical.physical();
    let blocks = key.positions.iter().map(|column| block_of(engine, table, *column, at)).collect::<Result<Vec<_>>>()?;
    let opened: Vec<Option<EncodedBlock<'_>>> =
        blocks.iter().map(|found| found.as_ref().map(|(chunk, block)| chunk.block(*block))).collect();
    let mut own = Vec::new();
    for row in 0..rows {
        own.clear();
        for (column, block) in key.positions.iter().zip(&opened) {
            let cell = match block {
                None => Cell::of(table.columns[*column].missing.as_ref(), physical(*column)),
                Some(block) => cell_at(block, row, physical(*column))?,
            };
            push_key(&mut own, cell, physical(*column));
        }
        keys.push(&own, row as u16)?;
    }
    Ok(keys.sorted())
}

/// The inflated chunk of a column that has a row, and which of its blocks; `None` where the segment is older than the column.
fn block_of(
    engine: &Engine,
    table: &TableSnapshot,
    column: usize,
    at: SegmentRow,
) -> Result<Option<(Arc<InflatedChunk>, usize)>> {
    let (segment, definition): (&Arc<Segment>, _) = (&table.segments[at.segment], &table.columns[column]);
    let Some(index) = segment.column_index(definition.id) else { return Ok(None) };
    let layout = &segment.groups()?[at.group].columns[index];
    let chunk = at.block >> layout.blocks_log2;
    let in_chunk = at.block - layout.blocks_of(chunk).start;
    let blocks = BlockSet::of_range(0..in_chunk + 1, |block| block == in_chunk);
    let place = Place::new(table, column, (at.segment, at.group), (index, chunk), blocks);
    let chunk = match engine.kept_chunk(&place) {
        Some(chunk) => chunk,
        None => read_chunk(engine, table, column, (segment, place), at.number as usize - in_chunk)?,
    };
    let rows = chunk.block_rows().nth(in_chunk).unwrap_or_default();
    match u32::from(at.row) < rows {
        true => Ok(Some((chunk, in_chunk))),
        false => Err(Error::corrupt("a block has fewer rows than the footer says")).context(|| {
            let (group, _, chunk) = (at.group, index, at.block >> layout.blocks_log2);
            segment.describe_chunk(&definition.name, &table.full_name(), group, chunk)
        }),
    }
}

/// A chunk of a column, which is read if it is not on its way. `ordinal` is the number of its first block in the segment.
fn read_chunk(
    engine: &Engine,
    table: &TableSnapshot,
    column: usize,
    (segment, place): (&Segment, Place),
    ordinal: usize,
) -> Result<Arc<InflatedChunk>> {
    let definition = &table.columns[column];
    let wanted = WantedChunk {
        place,
        physical: definition.logical.physical(),
        name: &definition.name,
        // Who asks for one row asks for others of the same block later.
        kept_at_once_bytes: usize::MAX,
        ordinal,
    };
    let metrics = Metrics::default();
    let costs = Costs { metrics: &metrics, timeline: None };
    let name = table.full_name();
    let how = (name.as_str(), &ScanSettings::default());
    let mut chunks = engine.chunks(segment, &[wanted], &ReadAhead::default(), how, costs)?;
    chunks.pop().ok_or_else(|| Error::internal("a chunk was asked for and none came"))
}

/// The value of a row of a block.
fn cell_at<'b>(block: &EncodedBlock<'b>, row: usize, physical: PhysicalType) -> Result<Cell<'b>> {
    if block.validity().is_some_and(|valid| valid[row / 8] >> (row % 8) & 1 == 0) {
        return Ok(Cell::Null);
    }
    let of = |values: &Values<'b>, at: usize| match values {
        Values::Fixed(values) => {
            let mut bits = [0; 16];
            let value = values.get(at);
            bits[..value.len()].copy_from_slice(value);
            Cell::Fixed(u128::from_le_bytes(bits))
        }
        Values::Strings(values) => Cell::Bytes(values.get(at)),
    };
    let cell = match block.access() {
        Access::AllNull => Cell::Null,
        Access::Constant(value) => match value {
            ValueRef::Int(int) => integer(int, physical),
            ValueRef::Float32(float) => Cell::Fixed(float.to_bits().into()),
            ValueRef::Float64(float) => Cell::Fixed(float.to_bits().into()),
            ValueRef::Bytes(bytes) => Cell::Bytes(bytes),
        },
        Access::FrameOfReference { base, codes } => integer(base + i128::from(codes.get(row)), physical),
        Access::Dictionary { values, codes } => of(&values, codes.get(row) as usize),
        Access::Plain(values) => of(&values, row),
        Access::RunLength { ends, values } => of(&values, ends.run_of(row)),
    };
    match cell.fits(physical) {
        true => Ok(cell),
        false => Err(Error::corrupt("a block has values of another type than its column")),
    }
}

fn integer<'c>(int: i128, physical: PhysicalType) -> Cell<'c> {
    let bits = 8 * physical.width().unwrap_or(16) as u32;
    let mask = if bits == u128::BITS { u128::MAX } else { (1 << bits) - 1 };
    Cell::Fixed(int as u128 & mask)
}
