//! How the blocks of columns lie on a device, as kernels are told: made when their chunks are brought there, and looked up by
//! every later query.
//!
//! Invariants: a description holds neither the memory of the device nor the host's chunk: where one of them is gone, it is made
//! anew. Segments never change, so that it is true as long as both are there.
//! Must not know: queries, kernels.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard, Weak};

use forebay_base::{ColumnId, SegmentId, TableId};
use forebay_block::InflatedChunk;
use forebay_gpu::device::Buffer;
use forebay_gpu::parameters::Column;

/// Columns of segments of which descriptions are kept; with more, all are forgotten.
const MOST_COLUMNS: usize = 1 << 14;

/// A block of a column.
#[derive(Debug)]
pub(crate) struct DescribedBlock {
    /// As kernels read it.
    pub(crate) column: Column,
    /// Bytes of a row's codes.
    pub(crate) row_bytes: usize,
    /// Its number in the chunk that it lies in.
    pub(crate) index: usize,
    /// The chunk on the device.
    pub(crate) buffer: Weak<Buffer>,
    /// The chunk in the host's memory, which tests are translated with.
    pub(crate) chunk: Weak<InflatedChunk>,
}

/// Blocks of one row group, by number; none where a block was not brought to the device.
pub(crate) type DescribedGroup = Vec<Option<DescribedBlock>>;

/// The blocks of a column of one segment, by row group.
#[derive(Debug)]
pub(crate) struct DescribedColumn(Vec<RwLock<DescribedGroup>>);

/// Columns of segments.
#[derive(Debug, Default)]
pub(crate) struct DescribedColumns(Mutex<HashMap<(TableId, SegmentId, ColumnId), Arc<DescribedColumn>>>);

impl DescribedColumns {
    /// What is known of a column of a segment with so many row groups.
    pub(crate) fn of(&self, key: (TableId, SegmentId, ColumnId), groups: usize) -> Arc<DescribedColumn> {
        let mut columns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if columns.len() >= MOST_COLUMNS && !columns.contains_key(&key) {
            columns.clear();
        }
        let new = || Arc::new(DescribedColumn((0..groups).map(|_| RwLock::default()).collect()));
        Arc::clone(columns.entry(key).or_insert_with(new))
    }

    /// Forgets all of them.
    pub(crate) fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl DescribedColumn {
    /// The blocks of a row group.
    pub(crate) fn group(&self, group: usize) -> RwLockReadGuard<'_, DescribedGroup> {
        self.0[group].read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the description of a block.
    pub(crate) fn keep(&self, group: usize, block: usize, described: DescribedBlock) {
        let mut blocks = self.0[group].write().unwrap_or_else(PoisonError::into_inner);
        if blocks.len() <= block {
            blocks.resize_with(block + 1, || None);
        }
        blocks[block] = Some(described);
    }
}
