//! Rows of segments by their keys: for transactions that read and change single rows.
//!
//! Zones tell which blocks may have a key. Of those the keys are sorted, once per block, and kept in a bounded memory beside the cache of chunks;
//! values come from inflated chunks of the cache. So a row of a table that was loaded in the order of its key costs one search in the keys of one
//! block, and no code is compiled and no thread asked.
//!
//! Invariant: rows that are deleted in the snapshot are not found. Must not know: hot rows, what keys are for.

use std::sync::Arc;

use forebay_base::{ColumnId, Context, Error, PhysicalType, Result, SegmentId, Value};
use forebay_block::{Access, BlockSet, EncodedBlock, InflatedChunk, ValueRef, Values, Zone};
use forebay_store::{Cell, HotRow, Segment, TableSnapshot, push_key};

use crate::chunks::{Costs, Place, WantedChunk};
use crate::kept_keys::BlockKeys;
use crate::read_ahead::ReadAhead;
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
}

impl KeyColumns {
    /// The columns at these positions of a table.
    pub fn of(table: &TableSnapshot, positions: Vec<usize>) -> Self {
        let ids = positions.iter().map(|position| table.columns[*position].id).collect();
        Self { positions, ids }
    }

    /// Their positions in the table.
    pub fn positions(&self) -> &[usize] {
        &self.positions
    }
}

/// A row of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SegmentRow {
    /// Number of the segment in the table.
    segment: usize,
    /// Row group, and block in that.
    group: usize,
    block: usize,
    /// Number of the block in the segment.
    number: u32,
    row: u16,
}

impl SegmentRow {
    /// The segment that it is of.
    pub fn segment<'t>(&self, table: &'t TableSnapshot) -> &'t Segment {
        &table.segments[self.segment]
    }

    /// The place of its segment in the table.
    pub fn segment_place(&self, table: &TableSnapshot) -> u64 {
        table.segments.place(self.segment)
    }

    /// Where it is: the segment, the number of the block in that, the row of the block.
    pub fn place(&self, table: &TableSnapshot) -> (SegmentId, u32, u16) {
        (table.segments[self.segment].id(), self.number, self.row)
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

/// Rows of a table's segments whose keys lie from `low` on and below `high` (`forebay_store::push_key`), in the order of the
/// keys, with these. All of the keys begin with `values`, which zones are asked for.
///
/// # Errors
/// Those of reading; `Unsupported` where more blocks may have some than are looked at.
pub fn rows_between(
    engine: &Engine,
    table: &TableSnapshot,
    key: &KeyColumns,
    values: &[Cell<'_>],
    (low, high): (&[u8], Option<&[u8]>),
    wanted: WantedRows<'_>,
) -> Result<Vec<(Vec<u8>, SegmentRow)>> {
    let WantedRows { most, next, most_blocks, is_there } = wanted;
    let (blocks, rows) = blocks_with(table, key, values, next)?;
    let key_bytes = rows * (KEY_BYTES * key.positions.len() + size_of::<u32>() + size_of::<u16>());
    let is_too_much = key_bytes > engine.cache().budget_bytes() / KEPT_PART / 2;
    if most_blocks < usize::MAX && blocks.len() > 1 && (blocks.len() > most_blocks || is_too_much) {
        return Err(Error::unsupported(format!(
            "{} blocks of table {} may have a key",
            blocks.len(),
            table.full_name()
        )));
    }
    let mut found = Vec::new();
    for at in blocks {
        let keys = keys_of(engine, table, key, at)?;
        let deleted = table.segments[at.segment].deleted().of_block(at.number);
        let is_marked = |row: u16| deleted.is_some_and(|deleted| deleted.contains(usize::from(row)));
        let rows = keys.between(low, high).filter(|place| !is_marked(keys.row(*place)));
        let rows = rows.map(|place| (place, SegmentRow { row: keys.row(place), ..at }));
        let rows = rows.filter(|(_, row)| is_there(row)).take(most);
        found.extend(rows.map(|(place, row)| (keys.key(place).to_vec(), row)));
    }
    found.sort_by(|(one, _), (other, _)| one.cmp(other));
    found.truncate(most);
    Ok(found)
}

/// The blocks that may have rows with these values of the first columns of a key and a value within `next` of the one behind, by their zones; and
/// how many rows they have.
fn blocks_with(
    table: &TableSnapshot,
    key: &KeyColumns,
    values: &[Cell<'_>],
    next: (Option<Cell<'_>>, Option<Cell<'_>>),
) -> Result<(Vec<SegmentRow>, usize)> {
    let bounds = values.iter().map(|value| (Some(*value), Some(*value))).chain([next]);
    let columns = key.positions.iter().map(|position| &table.columns[*position]);
    let bounds: Vec<(ColumnId, Wanted)> = columns
        .zip(bounds)
        .filter_map(|(column, bounds)| Some((column.id, Wanted::of(bounds, column.logical.physical())?)))
        .collect();
    let (mut blocks, mut rows, mut indexes) = (Vec::new(), 0, Vec::new());
    for (number, segment) in table.segments.iter().enumerate() {
        indexes.clear();
        indexes.extend(bounds.iter().filter_map(|(id, wanted)| Some((segment.column_index(*id)?, wanted))));
        let mut first_block = 0;
        for (group, layout) in segment.groups()?.iter().enumerate() {
            for (block, block_rows) in layout.block_rows.iter().enumerate() {
                let may_have = |(index, wanted): &(usize, &Wanted)| {
                    let zone: &Zone = &layout.columns[*index].zones[block];
                    wanted.may_be_in(zone)
                };
                if indexes.iter().all(may_have) {
                    rows += *block_rows as usize;
                    let in_segment = first_block + block as u32;
                    blocks.push(SegmentRow { segment: number, group, block, number: in_segment, row: 0 });
                }
            }
            first_block += layout.block_rows.len() as u32;
        }
    }
    Ok((blocks, rows))
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

/// The sorted keys of a row's block.
fn keys_of(engine: &Engine, table: &TableSnapshot, key: &KeyColumns, at: SegmentRow) -> Result<Arc<BlockKeys>> {
    let of = (table.segments[at.segment].id(), at.number, Arc::clone(&key.ids));
    if let Some(kept) = engine.kept_keys().find(&of) {
        return Ok(kept);
    }
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
    let keys = Arc::new(keys.sorted());
    engine.kept_keys().keep(of, &keys, engine.cache().budget_bytes() / KEPT_PART);
    Ok(keys)
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

/// What is wanted of a column's values.
enum Wanted {
    Null,
    /// From the first value on up to the second.
    Between(Option<Value>, Option<Value>),
}

impl Wanted {
    /// Values within these bounds, which both belong to them; NULL as both stands for NULL. `None` where there are no bounds.
    fn of((low, high): (Option<Cell<'_>>, Option<Cell<'_>>), physical: PhysicalType) -> Option<Self> {
        if low == Some(Cell::Null) {
            return Some(Self::Null);
        }
        let value = |bound: Option<Cell<'_>>| bound.and_then(|cell| cell.value(physical));
        (low.is_some() || high.is_some()).then(|| Self::Between(value(low), value(high)))
    }

    /// Whether a block may have such a value.
    fn may_be_in(&self, zone: &Zone) -> bool {
        let is_before = |one: &Value, other: &Value| match (one, other) {
            (Value::Int(one), Value::Int(other)) => one < other,
            (Value::Bytes(one), Value::Bytes(other)) => one < other,
            // Floats have an order of their own.
            _ => false,
        };
        let (low, high) = match self {
            Self::Null => return zone.null_count > 0,
            Self::Between(low, high) => (low.as_ref(), high.as_ref()),
        };
        let is_below = high.is_some_and(|high| zone.min.as_ref().is_some_and(|min| is_before(high, min)));
        let is_above = low.is_some_and(|low| zone.max.as_ref().is_some_and(|max| is_before(max, low)));
        zone.null_count < zone.rows && !is_below && !is_above
    }
}
