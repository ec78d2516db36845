//! Rows of hot chunks as blocks, column by column.
//!
//! Rows come in the order of their numbers. Must not know: which snapshot it is, where the blocks go.

use forebay_base::{Error, PhysicalType, Result, limits};
use forebay_block::{
    ChunkOptions, ColumnStatistics, Compression, EncodeOptions, Encoding, PlainColumn, PlainValues, Scheme,
    encode_block, seal_chunk,
};
use forebay_hot::{Batch, BatchColumn, Bits, Cell, HotTable, RANGE_ROWS, RowId, View};

use crate::writer::SealedColumn;

/// Rows that are copied below a chunk's latch at a time: about a microsecond, for which a writer waits without going to sleep.
pub(super) const SCAN_ROWS: usize = RANGE_ROWS;

/// How blocks are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To be read once or a few times: as they are.
    Memory,
    /// To be read from a drive.
    File,
}

/// The rows of chunks that a view sees, and how they are cut into blocks.
#[derive(Debug)]
pub(super) struct SeenRows {
    chunks: Vec<(u32, Bits)>,
    /// Rows of each block.
    block_rows: Vec<u32>,
}

impl SeenRows {
    /// Those of these chunks, ascending.
    pub(super) fn of(rows: &HotTable, view: View<'_>, chunks: impl Iterator<Item = u32>) -> Result<Self> {
        let chunks = chunks.map(|chunk| (chunk, rows.visible(view, chunk)));
        // A chunk of which it sees no row may be released at any time.
        let chunks = chunks.filter(|(_, seen)| seen.count_ones() > 0).collect();
        let mut seen = Self { chunks, block_rows: Vec::new() };
        seen.block_rows = seen.cut(rows, view)?;
        Ok(seen)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.block_rows.is_empty()
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.block_rows.iter().map(|rows| u64::from(*rows)).sum()
    }

    /// The numbers of the rows.
    pub(super) fn ids(&self) -> impl Iterator<Item = RowId> {
        self.chunks.iter().flat_map(|(chunk, seen)| seen.ones().map(|at| RowId::new(*chunk, at as u16)))
    }

    /// Rows of each block, by row group.
    pub(super) fn block_rows(&self) -> impl Iterator<Item = Vec<u32>> {
        self.block_rows.chunks(limits::GROUP_BLOCKS).map(<[u32]>::to_vec)
    }

    /// A column of them, by row group.
    pub(super) fn encode(
        &self,
        (rows, view): (&HotTable, View<'_>),
        column: usize,
        purpose: Purpose,
    ) -> Result<Vec<SealedColumn>> {
        let (force, compression) = match purpose {
            Purpose::Memory => (Some(Encoding::Uncompressed), Compression::Force(Scheme::Plain)),
            Purpose::File => (None, Compression::default()),
        };
        let options = ChunkOptions { compression };
        let new = || SealedColumn {
            chunks: Vec::new(),
            blocks_log2: 0,
            plain_bytes: 0,
            zones: Vec::new(),
            statistics: ColumnStatistics::default(),
        };
        let mut groups: Vec<SealedColumn> = Vec::new();
        self.each_block((rows, view), column, |block| {
            let group = match groups.last_mut().filter(|group| group.chunks.len() < limits::GROUP_BLOCKS) {
                Some(group) => group,
                None => {
                    groups.push(new());
                    groups.last_mut().expect("it was just pushed")
                }
            };
            let mut encoded = Vec::new();
            group.zones.push(encode_block(block, &EncodeOptions { force }, &mut encoded)?);
            group.chunks.push(seal_chunk(&encoded, &[0], &options)?);
            group.plain_bytes += match block.values {
                PlainValues::Fixed(values) => values.len() as u64,
                PlainValues::Bytes(strings) => strings.iter().map(|string| 4 + string.len() as u64).sum(),
            };
            if purpose == Purpose::File {
                group.statistics.add(block);
            }
            Ok(())
        })?;
        Ok(groups)
    }

    /// The statistics of a column of them.
    pub(super) fn statistics(&self, rows: (&HotTable, View<'_>), column: usize) -> Result<ColumnStatistics> {
        let mut statistics = ColumnStatistics::default();
        self.each_block(rows, column, |block| {
            statistics.add(block);
            Ok(())
        })?;
        Ok(statistics)
    }

    /// Rows of each block: as many as a block may have, or as have so many bytes in all columns as a block may have.
    fn cut(&self, rows: &HotTable, view: View<'_>) -> Result<Vec<u32>> {
        let total: usize = self.chunks.iter().map(|(_, seen)| seen.count_ones()).sum();
        let most_bytes: usize = self.chunks.iter().map(|(chunk, _)| rows.value_bytes_at_most(*chunk)).sum();
        if total == 0 {
            return Ok(Vec::new());
        }
        if total <= limits::BLOCK_ROWS && most_bytes <= limits::BLOCK_BYTES {
            return Ok(vec![total as u32]);
        }
        let (strings, fixed): (Vec<usize>, Vec<usize>) =
            (0..rows.types().len()).partition(|column| rows.types()[*column] == PhysicalType::Bytes);
        let fixed: usize = fixed.iter().filter_map(|column| rows.types()[*column].width()).sum();
        let (mut blocks, mut block_rows, mut block_bytes) = (Vec::new(), 0, 0);
        self.each_piece((rows, view), &strings, |batch| {
            for at in batch.visible().ones() {
                let bytes = batch.columns().iter().map(|column| match column.cell(at) {
                    Cell::Bytes(string) => string.len(),
                    _ => 0,
                });
                let bytes = fixed + bytes.sum::<usize>();
                if block_rows as usize == limits::BLOCK_ROWS
                    || block_rows > 0 && block_bytes + bytes > limits::BLOCK_BYTES
                {
                    blocks.push(std::mem::take(&mut block_rows));
                    block_bytes = 0;
                }
                block_rows += 1;
                block_bytes += bytes;
            }
            Ok(())
        })?;
        blocks.push(block_rows);
        Ok(blocks)
    }

    /// Calls `each` with some thousand positions after the other, of which the rows that are seen have values in these columns.
    fn each_piece(
        &self,
        (rows, view): (&HotTable, View<'_>),
        columns: &[usize],
        mut each: impl FnMut(&Batch) -> Result<()>,
    ) -> Result<()> {
        let mut batch = Batch::default();
        for (chunk, seen) in &self.chunks {
            for start in (0..seen.len()).step_by(SCAN_ROWS) {
                let end = (start + SCAN_ROWS).min(seen.len());
                rows.scan(view, *chunk, start..end, columns, &mut batch)?;
                each(&batch)?;
            }
        }
        Ok(())
    }

    /// Calls `each` with the values of every block.
    fn each_block(
        &self,
        (rows, view): (&HotTable, View<'_>),
        column: usize,
        mut each: impl FnMut(&PlainColumn<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut block = BlockValues::new(rows.types()[column]);
        let mut sizes = self.block_rows.iter().map(|rows| *rows as usize);
        let mut size = sizes.next().unwrap_or_default();
        let differs = || Error::internal("other rows are seen than those that were counted");
        self.each_piece((rows, view), &[column], |batch| {
            for mut run in batch.visible().runs() {
                while !run.is_empty() {
                    let end = run.end.min(run.start.saturating_add(size - block.rows));
                    block.push(&batch.columns()[0], run.start..end);
                    run.start = end;
                    if block.rows == size {
                        block.end(&mut each)?;
                        size = sizes.next().unwrap_or(usize::MAX);
                    }
                }
            }
            Ok(())
        })?;
        if block.rows == 0 && size == usize::MAX || self.is_empty() { Ok(()) } else { Err(differs()) }
    }
}

/// Values of the block in the making.
struct BlockValues {
    physical: PhysicalType,
    rows: usize,
    /// Of fixed width, or strings one after the other, with their ends.
    values: Vec<u8>,
    ends: Vec<usize>,
    /// One bit for each row, once there may be NULLs among them.
    valid: Vec<u8>,
    may_have_nulls: bool,
}

impl BlockValues {
    fn new(physical: PhysicalType) -> Self {
        let (values, ends, valid) = (Vec::new(), Vec::new(), Vec::new());
        Self { physical, rows: 0, values, ends, valid, may_have_nulls: false }
    }

    fn push(&mut self, column: &BatchColumn, rows: std::ops::Range<usize>) {
        if column.valid().is_some() && !self.may_have_nulls {
            self.may_have_nulls = true;
            (0..self.rows).for_each(|row| self.push_valid(row, true));
        }
        if self.may_have_nulls {
            let valid = column.valid();
            let first = self.rows;
            rows.clone().for_each(|row| {
                self.push_valid(first + row - rows.start, valid.is_none_or(|valid| valid.get(row)));
            });
        }
        self.rows += rows.len();
        match column.fixed() {
            Some(values) => values.write_to(rows, &mut self.values),
            None => rows.for_each(|row| {
                if let Cell::Bytes(string) = column.cell(row) {
                    self.values.extend_from_slice(string);
                }
                self.ends.push(self.values.len());
            }),
        }
    }

    fn push_valid(&mut self, row: usize, is_valid: bool) {
        if row.is_multiple_of(8) {
            self.valid.push(0);
        }
        self.valid[row / 8] |= u8::from(is_valid) << (row % 8);
    }

    /// Gives the block away; the next one begins.
    fn end(&mut self, each: &mut impl FnMut(&PlainColumn<'_>) -> Result<()>) -> Result<()> {
        let mut start = 0;
        let string = |end: &usize| &self.values[std::mem::replace(&mut start, *end)..*end];
        let strings: Vec<&[u8]> = self.ends.iter().map(string).collect();
        let values = match self.physical.width() {
            Some(_) => PlainValues::Fixed(&self.values),
            None => PlainValues::Bytes(&strings),
        };
        let validity = self.may_have_nulls.then_some(self.valid.as_slice());
        each(&PlainColumn { physical: self.physical, rows: self.rows, validity, values })?;
        self.rows = 0;
        self.values.clear();
        self.ends.clear();
        self.valid.clear();
        self.may_have_nulls = false;
        Ok(())
    }
}
