//! `forebay.chunks`: the chunks of every column, in every copy of its table's rows, with what is known of their values and how they are stored.

use std::sync::Arc;

use forebay_base::{Result, Value};
use forebay_engine::inspect::{StoredChunk, stored_chunk};
use forebay_store::{ChunkLocation, ColumnBounds, Group, GroupColumn, Segment};

use crate::bounds;
use crate::columns::{Column, Of, known, read};
use crate::listing::{Batches, Passes, Rows};
use crate::seen::Seen;
use crate::shown::{ShownTable, copies, shares};

/// The chunks of all tables.
#[derive(Debug)]
pub(crate) struct Chunks(pub(crate) Arc<dyn Seen>);

/// A chunk. The row group is known to be readable.
pub(crate) struct ChunkRow {
    of: Arc<ShownTable>,
    segment: usize,
    group: usize,
    /// Of the table.
    column: usize,
    /// Where it is in the segment.
    index: usize,
    chunk: usize,
}

impl ChunkRow {
    fn segment(&self) -> &Segment {
        &self.of.table.segments[self.segment]
    }

    fn group(&self) -> Result<&Group> {
        Ok(&self.segment().groups()?[self.group])
    }

    fn layout(&self) -> Result<&GroupColumn> {
        Ok(&self.group()?.columns[self.index])
    }

    fn location(&self) -> Result<ChunkLocation> {
        Ok(self.layout()?.chunks[self.chunk])
    }

    fn bounds(&self) -> Result<Option<ColumnBounds>> {
        let layout = self.layout()?;
        Ok(ColumnBounds::of_zones(&layout.zones[layout.blocks_of(self.chunk)]))
    }

    fn rows(&self) -> Result<u64> {
        let blocks = self.layout()?.blocks_of(self.chunk);
        Ok(self.group()?.block_rows[blocks].iter().map(|rows| u64::from(*rows)).sum())
    }

    /// The number of its first row in the segment.
    fn first_row(&self) -> Result<u64> {
        let (group, blocks) = (self.group()?, self.layout()?.blocks_of(self.chunk));
        Ok(group.first_row + group.block_rows[..blocks.start].iter().map(|rows| u64::from(*rows)).sum::<u64>())
    }

    /// Bytes of its plain values. Those of texts are counted for row groups.
    fn plain_bytes(&self) -> Result<Option<u64>> {
        let (layout, width) = (self.layout()?, self.of.table.columns[self.column].logical.physical().width());
        Ok(match width {
            Some(bytes) => Some(bytes as u64 * self.rows()?),
            None => (layout.chunks.len() == 1).then_some(layout.plain_bytes),
        })
    }

    fn bound(&self, of: fn(ColumnBounds) -> Option<Value>) -> Result<Option<String>> {
        let logical = &self.of.table.columns[self.column].logical;
        Ok(self.bounds()?.and_then(of).and_then(|value| bounds::text(&value, logical)))
    }

    fn stored(&self) -> Result<StoredChunk> {
        stored_chunk(self.segment(), (self.group, self.index, self.chunk))
    }
}

/// Columns that a copy of a table's rows alone tells, and with its segments.
const OF_TABLES: usize = 3;
const OF_SEGMENTS: usize = 4;

impl Rows for Chunks {
    type Row = ChunkRow;

    const COLUMNS: &'static [Column<ChunkRow>] = &[
        known("schema_name", Of::Text(|row| Ok(Some(row.of.schema.clone())))),
        known("table_name", Of::Text(|row| Ok(Some(row.of.table.name.clone())))),
        known("projection_name", Of::Text(|row| Ok(row.of.projection()))),
        known("segment_id", Of::Count(|row| Ok(Some(row.segment().id().0)))),
        known("row_group", Of::Count(|row| Ok(Some(row.group as u64)))),
        known("column_name", Of::Text(|row| Ok(Some(row.of.table.columns[row.column].name.clone())))),
        known("chunk", Of::Count(|row| Ok(Some(row.chunk as u64)))),
        known("first_row", Of::Count(|row| row.first_row().map(Some))),
        known("rows", Of::Count(|row| row.rows().map(Some))),
        known("blocks", Of::Count(|row| Ok(Some(row.layout()?.blocks_of(row.chunk).len() as u64)))),
        known("nulls", Of::Count(|row| Ok(row.bounds()?.map(|bounds| bounds.nulls)))),
        known("min", Of::Text(|row| row.bound(|bounds| bounds.min))),
        known("max", Of::Text(|row| row.bound(|bounds| bounds.max))),
        read(
            "encodings",
            Of::Text(|row| Ok(shares(row.stored()?.encodings.iter().map(|(known, blocks)| (known.name(), *blocks))))),
        ),
        read(
            "schemes",
            Of::Text(|row| Ok(shares(row.stored()?.schemes.iter().map(|known| (known.scheme.name(), known.frames))))),
        ),
        known("plain_bytes", Of::Count(ChunkRow::plain_bytes)),
        known("encoded_bytes", Of::Count(|row| Ok(Some(row.location()?.encoded_bytes)))),
        known("stored_bytes", Of::Count(|row| Ok(Some(row.location()?.stored_bytes)))),
        known("file_offset", Of::Count(|row| Ok(Some(row.location()?.offset)))),
    ];

    fn batches(&self, passes: Passes<ChunkRow>) -> Batches<ChunkRow> {
        let first_of = |of: &Arc<ShownTable>, segment| ChunkRow {
            of: Arc::clone(of),
            segment,
            group: 0,
            column: 0,
            index: 0,
            chunk: 0,
        };
        let all = copies(&self.0).iter().map(|of| first_of(of, 0)).collect();
        let segments = passes.of_first(OF_TABLES, all).and_then(|wanted| {
            let of_table = |row: &ChunkRow| {
                (0..row.of.table.segments.len()).map(|segment| first_of(&row.of, segment)).collect::<Vec<_>>()
            };
            passes.of_first(OF_SEGMENTS, wanted.iter().flat_map(of_table).collect())
        });
        match segments {
            Err(error) => Box::new(std::iter::once(Err(error))),
            Ok(segments) => Box::new(segments.into_iter().map(|row| of_segment(&row))),
        }
    }
}

/// The chunks of a segment, column by column of each row group, of the columns that the table still has.
fn of_segment(row: &ChunkRow) -> Result<Vec<ChunkRow>> {
    let (of, segment) = (&row.of, row.segment());
    let places: Vec<(usize, usize)> = of
        .table
        .columns
        .iter()
        .enumerate()
        .filter_map(|(column, known)| Some((column, segment.column_index(known.id)?)))
        .collect();
    let mut rows = Vec::new();
    for (group, layout) in segment.groups()?.iter().enumerate() {
        for (column, index) in places.iter().copied() {
            let chunks = 0..layout.columns[index].chunks.len();
            rows.extend(chunks.map(|chunk| ChunkRow {
                of: Arc::clone(of),
                segment: row.segment,
                group,
                column,
                index,
                chunk,
            }));
        }
    }
    Ok(rows)
}
