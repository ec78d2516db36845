//! Places of rows: numbers by which rows of a table are found again, as long as the table has the same rows.
//!
//! A place is the number of a row among those of the copy of the table that it was read of, in the order of segments and their
//! blocks, and which copy that is. Invariant: two rows of a table have different places, or are the same row in different copies.
//! Must not know: columns, chunks.

use forebay_base::{Error, ProjectionId, Result};
use forebay_store::TableSnapshot;

/// Bits of the number of a row; the copy stands above them, and the sign above both.
const ROW_BITS: u32 = 40;

/// The copies that have places: their numbers fit in.
const COPIES: u32 = 1 << (i64::BITS - 1 - ROW_BITS);

/// The places of the rows of one copy of a table.
#[derive(Debug)]
pub(crate) struct Places {
    copy: i64,
    /// By block of the table, in the order of its layout: the number of its first row; and at the end that of all rows.
    first_rows: Vec<u64>,
    /// By block: its segment, its row group in that, its number in that.
    blocks: Vec<(usize, usize, usize)>,
}

impl Places {
    /// Those of the rows that `table` is read with.
    ///
    /// # Errors
    /// Where a footer cannot be read, or there are more rows or copies than have places.
    pub(crate) fn of(table: &TableSnapshot) -> Result<Self> {
        let copy = table.copy_id();
        let (mut first_rows, mut blocks, mut rows) = (vec![0], Vec::new(), 0);
        for (number, segment) in table.segments.iter().enumerate() {
            for (group, layout) in segment.groups()?.iter().enumerate() {
                for (block, count) in layout.block_rows.iter().enumerate() {
                    rows += u64::from(*count);
                    first_rows.push(rows);
                    blocks.push((number, group, block));
                }
            }
        }
        if copy.0 >= COPIES || rows >= 1 << ROW_BITS {
            let error = Error::unsupported(format!("table {} has rows without places", table.full_name()));
            return Err(error.hint("SET late_materialization_max_rows = 0"));
        }
        Ok(Self { copy: i64::from(copy.0) << ROW_BITS, first_rows, blocks })
    }

    /// The place of the first row of a block, by its number among all.
    pub(crate) fn first_of(&self, block: usize) -> i64 {
        self.copy | self.first_rows[block] as i64
    }

    /// The block that a row of this copy is in, by its number among all, and which row of that it is; `None` where there is no such
    /// row.
    pub(crate) fn find(&self, place: i64) -> Option<(usize, u16)> {
        let row = row_of(place);
        let block = self.first_rows.partition_point(|first| *first <= row).checked_sub(1)?;
        (block < self.blocks.len()).then(|| (block, (row - self.first_rows[block]) as u16))
    }

    /// Segment, row group and number in that of a block.
    pub(crate) fn block(&self, block: usize) -> (usize, usize, usize) {
        self.blocks[block]
    }
}

fn row_of(place: i64) -> u64 {
    place as u64 & ((1 << ROW_BITS) - 1)
}

/// The copy of a table that a row was read of.
pub(crate) fn copy_of(place: i64) -> ProjectionId {
    ProjectionId((place >> ROW_BITS) as u32)
}
