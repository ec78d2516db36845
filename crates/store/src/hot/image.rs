//! Hot rows of a table as segments: in memory for those who read at a snapshot, and in files when they are frozen.
//!
//! The rows of a hot chunk are a segment in memory, of one block or of several where its values are long, at the place of the chunk. Its
//! columns are made when somebody asks for them: a query after each commit costs what it reads, and not whole rows.
//! What has not changed between two snapshots they share. Must not know: which snapshot it is, who reads.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use forebay_base::{ColumnId, PhysicalType, Result, SegmentId};
use forebay_block::ColumnStatistics;
use forebay_hot::{HotTable, RowId, Snapshot, TransactionId, View};

use super::encoding::{Purpose, SeenRows};
use super::types;
use crate::catalog::Table;
use crate::footer::{ChunkLocation, GroupColumn};
use crate::group_columns::{ColumnMaker, MadeColumn};
use crate::segment::Segment;
use crate::volume::Volume;
use crate::writer::{SealedColumn, SealedGroup, SealedSegment, SegmentWriter};

/// Statistics of a chunk hold for a later state of it as long as it has at most so many times the rows.
const STATISTICS_ROWS: f64 = 1.25;

/// A moment at which somebody sees hot rows: a snapshot, and a transaction that sees its own changes.
pub(super) type Seen<'s> = (&'s Arc<Snapshot>, Option<TransactionId>);

/// The segments of a table's hot rows at a snapshot.
#[derive(Debug)]
pub(super) struct Images {
    /// By number of the chunk; of those of which the snapshot sees rows.
    segments: BTreeMap<u32, Arc<Segment>>,
    chunks: Arc<ChunkImages>,
}

/// What snapshots share that see the same.
#[derive(Debug)]
pub(super) struct ChunkImages {
    rows: HotTable,
    chunks: BTreeMap<u32, Arc<ChunkImage>>,
}

/// The rows of a chunk that a snapshot sees, as far as somebody has asked for them.
#[derive(Debug)]
struct ChunkImage {
    id: SegmentId,
    /// How often the chunk had been changed, where the snapshot sees all of these changes.
    changes: Option<u64>,
    rows: SeenRows,
    columns: Vec<OnceLock<MadeColumn>>,
    statistics: Vec<OnceLock<Arc<ColumnStatistics>>>,
}

/// The rows of a chunk, and the snapshot that sees them.
#[derive(Debug)]
struct SeenImage {
    table: HotTable,
    image: Arc<ChunkImage>,
    snapshot: Arc<Snapshot>,
    own: Option<TransactionId>,
}

impl ChunkImages {
    /// Those of the rows that are seen, with the columns of a table. `earlier` are those of an older snapshot.
    pub(super) fn of(rows: &HotTable, seen: Seen<'_>, volume: &Volume, earlier: Option<&Self>) -> Result<Self> {
        let view = view(seen);
        let earlier = earlier.filter(|earlier| earlier.rows.is_same(rows));
        let image = |chunk: u32| {
            let changes = rows.changes_seen(view, chunk);
            let known = earlier.and_then(|earlier| earlier.chunks.get(&chunk));
            match known.filter(|known| changes.is_some() && known.changes == changes) {
                Some(known) => Ok(Arc::clone(known)),
                None => Ok(Arc::new(ChunkImage::of((rows, view), chunk, (changes, known), volume)?)),
            }
        };
        let chunks = rows.chunks().map(|chunk| Ok((chunk, image(chunk)?))).collect::<Result<_>>()?;
        Ok(Self { rows: rows.clone(), chunks })
    }
}

impl ChunkImage {
    fn of(
        (rows, view): (&HotTable, View<'_>),
        chunk: u32,
        (changes, earlier): (Option<u64>, Option<&Arc<Self>>),
        volume: &Volume,
    ) -> Result<Self> {
        let count = rows.types().len();
        let seen = SeenRows::of(rows, view, std::iter::once(chunk))?;
        let holds = |earlier: &&Arc<Self>| {
            let [before, now] = [&earlier.rows, &seen].map(|rows| rows.len() as f64);
            before <= now * STATISTICS_ROWS && now <= before * STATISTICS_ROWS
        };
        let statistics = match earlier.filter(holds) {
            Some(earlier) => earlier.statistics.clone(),
            None => (0..count).map(|_| OnceLock::new()).collect(),
        };
        let columns = (0..count).map(|_| OnceLock::new()).collect();
        Ok(Self { id: volume.new_image(), changes, rows: seen, columns, statistics })
    }
}

impl Images {
    /// Those of chunks as they are seen.
    pub(super) fn new(
        chunks: &Arc<ChunkImages>,
        (snapshot, own): Seen<'_>,
        table: &Table,
        volume: &Arc<Volume>,
    ) -> Self {
        let segment = |image: &Arc<ChunkImage>| {
            let (table_rows, snapshot) = (chunks.rows.clone(), Arc::clone(snapshot));
            let maker: Arc<dyn ColumnMaker> =
                Arc::new(SeenImage { table: table_rows, image: Arc::clone(image), snapshot, own });
            if own.is_some() {
                // What the transaction changes from now on is no part of it.
                for column in 0..maker.columns() {
                    maker.column(column);
                }
            }
            let segment = Segment::image(volume, image.id, columns(table), image.rows.block_rows(), &maker);
            Arc::new(segment)
        };
        let seen = chunks.chunks.iter().filter(|(_, image)| !image.rows.is_empty());
        Self { segments: seen.map(|(chunk, image)| (*chunk, segment(image))).collect(), chunks: Arc::clone(chunks) }
    }

    /// The segments, by chunk.
    pub(super) fn by_chunk(&self) -> impl Iterator<Item = (u32, Arc<Segment>)> + '_ {
        self.segments.iter().map(|(chunk, segment)| (*chunk, Arc::clone(segment)))
    }

    /// By segment the numbers of its rows.
    pub(super) fn rows(&self) -> impl Iterator<Item = (SegmentId, impl Iterator<Item = RowId>)> {
        self.chunks.chunks.values().filter(|image| !image.rows.is_empty()).map(|image| (image.id, image.rows.ids()))
    }
}

impl ColumnMaker for SeenImage {
    fn columns(&self) -> usize {
        self.image.columns.len()
    }

    fn column(&self, index: usize) -> &MadeColumn {
        self.image.columns[index].get_or_init(|| {
            let sealed = self.image.rows.encode(self.rows(), index, Purpose::Memory);
            made(sealed.expect("rows that were taken in can be encoded in memory"))
        })
    }

    fn statistics(&self, index: usize) -> &ColumnStatistics {
        self.image.statistics[index].get_or_init(|| {
            // A transaction may have changed more of its own rows by now; then nothing is known.
            Arc::new(self.image.rows.statistics(self.rows(), index).unwrap_or_default())
        })
    }
}

impl SeenImage {
    fn rows(&self) -> (&HotTable, View<'_>) {
        (&self.table, view((&self.snapshot, self.own)))
    }
}

fn view((snapshot, own): Seen<'_>) -> View<'_> {
    own.map_or_else(|| snapshot.view(), |own| snapshot.view_of(own))
}

/// What a footer would say of a column, and its chunks. The places of chunks are those that they would have one after the other.
fn made(groups: Vec<SealedColumn>) -> MadeColumn {
    let mut offset = 0;
    let made = groups.into_iter().map(|group| {
        let SealedColumn { chunks, blocks_log2, plain_bytes, zones, .. } = group;
        let locations = chunks.iter().map(|chunk| {
            let stored_bytes = chunk.bytes.len() as u64;
            offset += stored_bytes;
            ChunkLocation { offset: offset - stored_bytes, stored_bytes, encoded_bytes: chunk.encoded_bytes }
        });
        let locations = locations.collect();
        (GroupColumn { blocks_log2, plain_bytes, chunks: locations, zones }, chunks)
    });
    let (groups, chunks) = made.unzip();
    MadeColumn { groups, chunks }
}

/// Writes the rows of chunks that a view sees to a segment of a table, which is to be published; with their numbers. `None` where it sees none.
pub(crate) fn frozen(
    rows: &HotTable,
    view: View<'_>,
    table: &Table,
    chunks: &[u32],
    writer: impl FnOnce(Vec<(ColumnId, PhysicalType)>) -> Result<SegmentWriter>,
) -> Result<Option<(SealedSegment, Vec<RowId>)>> {
    let seen = SeenRows::of(rows, view, chunks.iter().copied())?;
    if seen.is_empty() {
        return Ok(None);
    }
    let encode = |column: usize| Ok(seen.encode((rows, view), column, Purpose::File)?.into_iter());
    let mut columns = (0..rows.types().len()).map(encode).collect::<Result<Vec<_>>>()?;
    let writer = writer(self::columns(table))?;
    for (index, block_rows) in seen.block_rows().enumerate() {
        let columns = columns.iter_mut().filter_map(Iterator::next).collect();
        writer.append_group(index as u64, SealedGroup { block_rows, columns })?;
    }
    Ok(Some((writer.finish()?, seen.ids().collect())))
}

fn columns(table: &Table) -> Vec<(ColumnId, PhysicalType)> {
    table.columns.iter().map(|column| column.id).zip(types(table)).collect()
}
