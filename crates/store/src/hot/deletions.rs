//! Rows of segments that transactions have deleted one by one: each is a hot row of its own that names the deleted one, so that it has
//! versions, conflicts, a place in the log and a moment at which others see it like any other change of hot rows. When hot rows are frozen,
//! they become marks in the catalog.
//!
//! Invariant: a row that is named is in a segment of the catalog, which has no mark for it. Must not know: who deletes.

use std::collections::BTreeMap;
use std::sync::Arc;

use forebay_base::{Error, PhysicalType, Result, SegmentId};
use forebay_hot::{Batch, Blocker, Cell, Commits, HotTable, RowId, Transaction, TransactionId, UniqueIndex, View};

use super::encoding::SCAN_ROWS;
use super::row_bytes::decode_row;
use crate::catalog::Table;
use crate::deleted::DeletedRows;
use crate::segment_list::SegmentList;

/// Chunks from here on have deletions; those before have rows.
const FIRST_CHUNK: u32 = 1 << 31;

/// What a deletion names: the segment; the block, counted from its first, and the row of that, in one number.
const TYPES: [PhysicalType; 2] = [PhysicalType::I64, PhysicalType::I64];

/// A row of a segment: the segment, the block, the row of the block.
pub(crate) type StoredPlace = (SegmentId, u32, u16);

/// Deleted rows of the segments of one table.
#[derive(Debug, Clone)]
pub(crate) struct Deletions {
    pub(super) rows: HotTable,
    index: Arc<UniqueIndex>,
}

/// Whether a hot row is one of these.
pub(super) fn is_deletion(row: RowId) -> bool {
    row.chunk() >= FIRST_CHUNK
}

/// The first hot row that is one.
pub(crate) fn first_deletion() -> RowId {
    RowId::new(FIRST_CHUNK, 0)
}

fn cells(place: StoredPlace) -> [Cell<'static>; 2] {
    let (segment, block, row) = place;
    [Cell::i64(segment.0 as i64), Cell::i64(i64::from(block) << 16 | i64::from(row))]
}

fn place(segment: Cell<'_>, row: Cell<'_>) -> Option<StoredPlace> {
    let (segment, row) = (segment.as_i64()? as u64, row.as_i64()?);
    Some((SegmentId(segment), u32::try_from(row >> 16).ok()?, row as u16))
}

impl Deletions {
    /// None of a table; the first chunk has this number, or the least that one may have.
    pub(super) fn new(table: &Table, first_chunk: u32, commits: &Arc<Commits>) -> Self {
        let name = format!("deleted rows of {}", table.full_name());
        let rows = HotTable::new(table.id.0, name, TYPES.to_vec(), first_chunk.max(FIRST_CHUNK), commits);
        let index = Arc::new(UniqueIndex::new(&rows, vec![0, 1]));
        Self { rows, index }
    }

    /// The hot rows that they are.
    pub(crate) fn rows(&self) -> &HotTable {
        &self.rows
    }

    /// How many there are in its index.
    pub(super) fn entries(&self) -> usize {
        self.index.len()
    }

    /// Puts one where it was.
    pub(super) fn put(&self, id: RowId, bytes: &[u8]) -> Result<()> {
        let row = decode_row(bytes, &TYPES)?;
        let cells: Vec<Cell<'_>> = row.cells().collect();
        self.rows.put(id, &cells)?;
        self.index.add(&self.index.columns().prefix_of(&cells), id);
        Ok(())
    }

    /// Deletes a row that the transaction sees.
    ///
    /// # Errors
    /// `Conflict` where another transaction has deleted it; `Internal` where this one has.
    pub(crate) fn add(&self, writes: &mut Transaction, place: StoredPlace) -> Result<()> {
        let cells = cells(place);
        let id = self.rows.insert(writes, &cells)?;
        let key = self.index.columns().prefix_of(&cells);
        if let Err(error) = self.index.insert(writes.view(), &key, id) {
            let blocker = self.index.blocker(writes.view(), &key);
            self.rows.delete(writes, id)?;
            writes.blocked_by(blocker);
            return Err(match error.kind() {
                forebay_base::ErrorKind::Conflict => error,
                _ => Error::internal("a row is deleted that is deleted already"),
            });
        }
        Ok(())
    }

    /// Whether a view sees that a row is deleted.
    pub(crate) fn has(&self, view: View<'_>, place: StoredPlace) -> bool {
        self.index.has_been_used() && self.index.find(view, &self.index.columns().prefix_of(&cells(place))).is_some()
    }

    /// What a view sees: the deleted rows by segment, and the numbers of the deletions.
    pub(crate) fn seen(&self, view: View<'_>) -> Result<(BTreeMap<SegmentId, DeletedRows>, Vec<RowId>)> {
        let (mut places, mut ids) = (BTreeMap::<SegmentId, Vec<(u32, u16)>>::new(), Vec::new());
        let mut batch = Batch::default();
        for chunk in self.rows.chunks() {
            for start in (0..self.rows.chunk_rows(chunk)).step_by(SCAN_ROWS) {
                self.rows.scan(view, chunk, start..start + SCAN_ROWS, &[0, 1], &mut batch)?;
                for at in batch.visible().ones() {
                    let [segment, row] = [0, 1].map(|column| batch.columns()[column].cell(at));
                    let (segment, block, row) =
                        place(segment, row).ok_or_else(|| Error::internal("a deletion of no row"))?;
                    places.entry(segment).or_default().push((block, row));
                    ids.push(RowId::new(chunk, (start + at) as u16));
                }
            }
        }
        let deleted = places.into_iter().map(|(segment, rows)| (segment, rows.into_iter().collect()));
        Ok((deleted.collect(), ids))
    }

    /// Whether all rows that anybody has deleted, or is about to delete, are in these segments, and have no marks there; `own` is the transaction that
    /// may have made marks of some. Another one that makes marks may take that back.
    pub(crate) fn are_of(&self, segments: &SegmentList, own: Option<TransactionId>) -> bool {
        let by_id: BTreeMap<SegmentId, &DeletedRows> =
            segments.iter().map(|segment| (segment.id(), &**segment.deleted())).collect();
        let mut are_of = true;
        self.rows.each_lasting(own, &[0, 1], |row| {
            let found = place(row.cell(0), row.cell(1));
            are_of &= found.is_some_and(|(segment, block, row)| {
                let is_marked = |deleted: &&DeletedRows| {
                    deleted.of_block(block).is_some_and(|deleted| deleted.contains(row.into()))
                };
                by_id.get(&segment).is_some_and(|deleted| !is_marked(deleted))
            });
        });
        are_of
    }

    /// Whom to wait for where another transaction, which has not ended, has deleted one of these rows.
    pub(crate) fn pending(&self, view: View<'_>, is_one: impl Fn(StoredPlace) -> bool) -> Option<Blocker> {
        self.rows.pending(view, &[0, 1], |row| place(row.cell(0), row.cell(1)).is_some_and(&is_one))
    }

    pub(super) fn sweep(&self) {
        self.rows.prune();
        self.rows.release_empty();
        self.index.sweep_if_worthwhile();
    }
}
