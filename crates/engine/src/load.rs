//! The write flow: batches → blocks → chunks → row groups of a segment.
//!
//! One [`LoadTarget`] is one new segment; every worker has a [`Loader`] of its own and hands in whole row groups. The
//! order of rows is the order of loaders, then the order in which a loader got them. Where a database has several data
//! directories, a target is a segment in each, loaders deal their row groups to them in turn, and the order of a loader's
//! rows is that of a scan (`morsel.rs`).
//! Invariants: holds at most one block of plain rows and one row group of encoded bytes per loader, both of bounded size
//! ([`limits::BLOCK_BYTES`], [`limits::GROUP_BYTES`]).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use forebay_base::budget::{Client, Reservation};
use forebay_base::{Context, Error, ErrorKind, LogicalType, Result, limits};
use forebay_block::choose::{EncodedGroup, Plan};
use forebay_block::{
    ChunkOptions, ColumnStatistics, Compression, EncodeOptions, PlainColumn, PlainValues, SealedChunk, Zone,
    encode_block, seal_chunk,
};
use forebay_store::{Column, SealedColumn, SealedGroup, SealedSegment, Store, StripedWriter, Table, TableOptions};

use crate::goal::Goal;
use crate::plain::encode_array;
use crate::rates::RateSource;

/// How rows become chunks.
#[derive(Debug, Clone, Copy, Default)]
pub struct LoadOptions {
    /// How blocks are encoded.
    pub encode: EncodeOptions,
    /// What is asked of the compression of columns, where neither they nor their table have an option that says so.
    pub goal: Goal,
    /// The rates that plans are chosen by, where all of a table is written anew.
    pub rates: RateSource,
    /// Blocks of a row group, which is then one chunk of each column; a power of two up to [`limits::GROUP_BLOCKS_MAX`].
    /// `None` for row groups of [`limits::GROUP_BLOCKS`] and chunks of about [`limits::CHUNK_TARGET_BYTES`].
    pub chunk_blocks: Option<usize>,
}

/// How a column is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StoreAs {
    /// Frames as this says, in chunks as the options of the load say.
    Frames(Compression),
    /// By a plan that was chosen for the column; it goes before the options of the load.
    Plan(Plan),
}

/// A segment that is being written by several loaders, or one in each data directory.
#[derive(Debug)]
pub struct LoadTarget {
    writer: StripedWriter,
    columns: Vec<LoadColumn>,
    options: LoadOptions,
    rows: AtomicU64,
    /// How many different values each column has in all, where that is known before; the first row group takes it with it.
    known_counts: Option<Mutex<Vec<ColumnStatistics>>>,
}

#[derive(Debug)]
struct LoadColumn {
    name: String,
    logical: LogicalType,
    nullable: bool,
    store_as: StoreAs,
}

impl LoadTarget {
    /// A new segment of `store` for rows of these columns.
    pub fn new(store: &Store, columns: &[Column]) -> Result<Arc<Self>> {
        Self::with_options(store, columns, &TableOptions::default(), LoadOptions::default())
    }

    /// A new segment of `store` for rows of these columns, stored as the options of their table and `options` say.
    ///
    /// # Errors
    /// `Input` if the table's options name a goal that this program does not know.
    pub fn with_options(
        store: &Store,
        columns: &[Column],
        table: &TableOptions,
        options: LoadOptions,
    ) -> Result<Arc<Self>> {
        let goals = Goal::of_columns(table, columns, options.goal)?;
        let store_as: Vec<StoreAs> = goals.into_iter().map(|goal| StoreAs::Frames(goal.compression())).collect();
        Self::with_columns(store, columns, options, &store_as, usize::MAX)
    }

    /// New segments for rows of `table` with the columns at these positions of its list, stored as its options and `options` say.
    ///
    /// # Errors
    /// As [`LoadTarget::with_options`].
    pub(crate) fn of_columns(
        store: &Store,
        table: &Table,
        columns: &[usize],
        options: LoadOptions,
    ) -> Result<Arc<Self>> {
        let columns: Vec<Column> = columns.iter().map(|column| table.columns[*column].clone()).collect();
        Self::with_options(store, &columns, &table.options, options)
    }

    /// The same, with each of the columns stored as `store_as` says; in at most so many segments.
    pub(crate) fn with_columns(
        store: &Store,
        columns: &[Column],
        options: LoadOptions,
        store_as: &[StoreAs],
        most_segments: usize,
    ) -> Result<Arc<Self>> {
        assert_eq!(columns.len(), store_as.len(), "every column is stored somehow");
        let layout = columns.iter().map(|column| (column.id, column.logical.physical())).collect();
        let columns = columns
            .iter()
            .zip(store_as)
            .map(|(column, store_as)| LoadColumn {
                name: column.name.clone(),
                logical: column.logical.clone(),
                nullable: column.nullable,
                store_as: *store_as,
            })
            .collect();
        let writer = store.striped_writer(layout, most_segments)?;
        Ok(Arc::new(Self { writer, columns, options, rows: AtomicU64::new(0), known_counts: None }))
    }

    /// The same target, for rows of which it is known how many different values each column has, so that nobody counts them. Where there may
    /// be several segments, each counts its own.
    #[must_use]
    pub(crate) fn knowing(mut self: Arc<Self>, counts: Option<Vec<ColumnStatistics>>) -> Arc<Self> {
        if let Some(target) = Arc::get_mut(&mut self)
            && target.writer.most_segments() == 1
        {
            target.known_counts = counts.map(Mutex::new);
        }
        self
    }

    /// Rows in finished row groups.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Writes the footers and makes the files durable; all loaders must be finished. The segments, none when there were no
    /// rows; one where the database has one directory for them.
    pub fn finish(self) -> Result<Vec<SealedSegment>> {
        self.writer.finish()
    }
}

/// One worker's way into a [`LoadTarget`].
#[derive(Debug)]
pub struct Loader {
    target: Arc<LoadTarget>,
    /// Upper half of the group index: loaders come one after the other in the segment.
    loader: u64,
    groups: u64,
    /// Plain batches of the block in the making.
    batches: Vec<RecordBatch>,
    block_rows: usize,
    /// Plain bytes of the block in the making.
    block_bytes: usize,
    /// Bytes of its strings, per column.
    string_bytes: Vec<usize>,
    /// Plain bytes of rows that are about to be added, one by one.
    row_bytes: Vec<usize>,
    /// Encoded blocks of the group in the making.
    group: GroupBuilder,
    /// What is held for all of it, where there is an account.
    memory: Option<Reservation>,
}

#[derive(Debug, Default)]
struct GroupBuilder {
    rows: Vec<u32>,
    columns: Vec<EncodedColumn>,
}

#[derive(Debug, Default)]
struct EncodedColumn {
    bytes: Vec<u8>,
    block_offsets: Vec<u32>,
    zones: Vec<Zone>,
    statistics: ColumnStatistics,
    plain_bytes: u64,
}

impl Loader {
    /// The `loader`-th worker of `target`.
    pub fn new(target: Arc<LoadTarget>, loader: u32) -> Self {
        let columns = target.columns.len();
        let mut built = Self {
            target,
            loader: u64::from(loader),
            groups: 0,
            batches: Vec::new(),
            block_rows: 0,
            block_bytes: 0,
            string_bytes: vec![0; columns],
            row_bytes: Vec::new(),
            group: GroupBuilder::default(),
            memory: None,
        };
        built.group.columns.resize_with(columns, EncodedColumn::default);
        built
    }

    /// The same, which takes its memory of this client's: where that has too little, row groups end early.
    #[must_use]
    pub fn within(self, account: &Client) -> Self {
        Self { memory: Some(account.nothing()), ..self }
    }

    /// Adds rows. Columns must have the Arrow types of the target's columns, in order.
    pub fn push(&mut self, batch: &RecordBatch) -> Result<()> {
        self.check_nulls(batch)?;
        let mut start = 0;
        while start < batch.num_rows() {
            let rows = self.fitting_rows(batch, start)?;
            self.batches.push(batch.slice(start, rows));
            self.block_rows += rows;
            start += rows;
            if start < batch.num_rows() || self.block_rows == limits::BLOCK_ROWS {
                self.end_block()?;
            }
        }
        self.account()
    }

    /// Adds so many rows as a block of their own, at most [`limits::BLOCK_ROWS`] and, but for a single row, [`limits::BLOCK_BYTES`] of
    /// values. `column` is called with the place of each column and what adds its values, which it calls.
    pub(crate) fn push_block(
        &mut self,
        rows: usize,
        mut column: impl FnMut(usize, &mut dyn FnMut(&PlainColumn<'_>) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        self.end_block()?;
        let target = Arc::clone(&self.target);
        for (index, loaded) in target.columns.iter().enumerate() {
            let encoded = &mut self.group.columns[index];
            column(index, &mut |plain| {
                let string_bytes = match plain.values {
                    PlainValues::Fixed(_) => 0,
                    PlainValues::Bytes(values) => values.iter().map(|value| value.len()).sum(),
                };
                encoded
                    .add(loaded, (rows, string_bytes), |out, statistics| {
                        match &target.known_counts {
                            Some(_) => statistics.add_sampled(plain),
                            None => statistics.add(plain),
                        }
                        encode_block(plain, &target.options.encode, out)
                    })
                    .context(|| format!("column {}", loaded.name))
            })?;
        }
        self.end_encoded_block(rows)
    }

    /// Encodes what is left and hands in the last row group.
    pub fn finish(mut self) -> Result<()> {
        self.end_block()?;
        self.end_group()
    }

    fn check_nulls(&self, batch: &RecordBatch) -> Result<()> {
        for (column, array) in self.target.columns.iter().zip(batch.columns()) {
            if !column.nullable && array.null_count() > 0 {
                return Err(Error::new(
                    ErrorKind::Constraint,
                    format!("NULL in column {}, which is NOT NULL; no row was added", column.name),
                ));
            }
        }
        Ok(())
    }

    /// How many rows from `start` on go into the current block: up to its row limit, and until its values reach
    /// [`limits::BLOCK_BYTES`]. At least one, so that a very long row makes a block of its own.
    fn fitting_rows(&mut self, batch: &RecordBatch, start: usize) -> Result<usize> {
        self.measure_rows(batch, start, (batch.num_rows() - start).min(limits::BLOCK_ROWS - self.block_rows))?;
        let (mut rows, mut block_bytes) = (0, self.block_bytes);
        for row_bytes in &self.row_bytes {
            let is_first = self.block_rows + rows == 0;
            if block_bytes + row_bytes > limits::BLOCK_BYTES && !is_first {
                break;
            }
            block_bytes += row_bytes;
            rows += 1;
        }
        if rows == 0 {
            // The next row opens a new block.
            self.end_block()?;
            return self.fitting_rows(batch, start);
        }
        self.block_bytes = block_bytes;
        for (bytes, array) in self.string_bytes.iter_mut().zip(batch.columns()) {
            if let Some(length_of) = string_lengths(array) {
                *bytes += (start..start + rows).map(length_of).sum::<usize>();
            }
        }
        Ok(rows)
    }

    /// Fills [`Loader::row_bytes`] for `rows` rows from `start` on.
    fn measure_rows(&mut self, batch: &RecordBatch, start: usize, rows: usize) -> Result<()> {
        let fixed_bytes = self.target.columns.iter().filter_map(|column| column.logical.physical().width()).sum();
        self.row_bytes.clear();
        self.row_bytes.resize(rows, fixed_bytes);
        for (column, array) in self.target.columns.iter().zip(batch.columns()) {
            let Some(length_of) = string_lengths(array) else { continue };
            for (row, bytes) in self.row_bytes.iter_mut().enumerate() {
                let length = length_of(start + row);
                if length > limits::STRING_MAX_BYTES {
                    return Err(Error::input(format!(
                        "a value of column {} has {length} bytes; the longest possible value has {}",
                        column.name,
                        limits::STRING_MAX_BYTES
                    )));
                }
                *bytes += length;
            }
        }
        Ok(())
    }

    fn end_block(&mut self) -> Result<()> {
        if self.block_rows == 0 {
            return Ok(());
        }
        let target = Arc::clone(&self.target);
        for (index, column) in target.columns.iter().enumerate() {
            let array = self.take_column(index)?;
            let sizes = (self.block_rows, self.string_bytes[index]);
            self.group.columns[index]
                .add(column, sizes, |out, statistics| {
                    encode_array(&array, &column.logical, &target.options.encode, out, statistics)
                })
                .context(|| format!("column {}", column.name))?;
        }
        self.batches.clear();
        let rows = std::mem::take(&mut self.block_rows);
        self.block_bytes = 0;
        self.string_bytes.fill(0);
        self.end_encoded_block(rows)
    }

    /// Counts a block whose columns are encoded, and ends its row group where that is full.
    fn end_encoded_block(&mut self, rows: usize) -> Result<()> {
        self.group.rows.push(rows as u32);
        let encoded_bytes: usize = self.group.columns.iter().map(|column| column.bytes.len()).sum();
        let most_blocks = self.target.options.chunk_blocks.unwrap_or(limits::GROUP_BLOCKS);
        if self.group.rows.len() >= most_blocks || encoded_bytes >= limits::GROUP_BYTES {
            self.end_group()?;
        }
        self.account()
    }

    /// Takes note of what the rows at hand take. Where there is no room for that, the row group ends here: smaller ones cost some
    /// compression and nothing else.
    fn account(&mut self) -> Result<()> {
        let bytes = self.memory_bytes();
        if self.memory.as_mut().is_none_or(|memory| memory.follow(bytes)) {
            return Ok(());
        }
        self.end_group()?;
        self.group.columns.iter_mut().for_each(|column| column.bytes.shrink_to_fit());
        let bytes = self.memory_bytes();
        self.memory.iter_mut().for_each(|memory| memory.follow_in_any_case(bytes));
        Ok(())
    }

    /// Bytes of memory that the rows at hand take.
    fn memory_bytes(&self) -> usize {
        self.block_bytes + self.group.columns.iter().map(|column| column.bytes.capacity()).sum::<usize>()
    }

    fn take_column(&self, index: usize) -> Result<ArrayRef> {
        let parts: Vec<&dyn Array> = self.batches.iter().map(|batch| batch.column(index).as_ref()).collect();
        match parts.len() {
            1 => Ok(Arc::clone(self.batches[0].column(index))),
            _ => {
                arrow::compute::concat(&parts).map_err(|error| Error::internal(format!("cannot join batches: {error}")))
            }
        }
    }

    fn end_group(&mut self) -> Result<()> {
        if self.group.rows.is_empty() {
            return Ok(());
        }
        let block_rows = std::mem::take(&mut self.group.rows);
        let rows: u64 = block_rows.iter().map(|rows| u64::from(*rows)).sum();
        let options = self.target.options;
        if let Some(known) = &self.target.known_counts {
            let known = std::mem::take(&mut *known.lock().unwrap_or_else(PoisonError::into_inner));
            let columns = self.group.columns.iter_mut().zip(&known);
            columns.for_each(|(column, known)| column.statistics.merge_counts(known));
        }
        let columns = self.group.columns.iter_mut().zip(&self.target.columns);
        let columns =
            columns.map(|(encoded, column)| encoded.seal(&options, column.store_as)).collect::<Result<_>>()?;
        let index = (self.loader << 32) | self.groups;
        self.target.writer.append_group(self.loader + self.groups, index, SealedGroup { block_rows, columns })?;
        self.target.rows.fetch_add(rows, Ordering::Relaxed);
        self.groups += 1;
        Ok(())
    }
}

impl EncodedColumn {
    /// Adds a block of so many rows with so many bytes of strings.
    fn add(
        &mut self,
        column: &LoadColumn,
        (rows, string_bytes): (usize, usize),
        encode: impl FnOnce(&mut Vec<u8>, &mut ColumnStatistics) -> Result<Zone>,
    ) -> Result<()> {
        self.block_offsets.push(self.bytes.len() as u32);
        self.zones.push(encode(&mut self.bytes, &mut self.statistics)?);
        self.plain_bytes += match column.logical.physical().width() {
            Some(width) => (width * rows) as u64,
            None => (string_bytes + size_of::<u32>() * rows) as u64,
        };
        Ok(())
    }

    /// Cuts the encoded blocks into chunks of 2^k blocks, of about [`limits::CHUNK_TARGET_BYTES`] where nobody chose k, and
    /// empties `self`.
    fn seal(&mut self, options: &LoadOptions, store_as: StoreAs) -> Result<SealedColumn> {
        let blocks = self.block_offsets.len();
        let block_bytes = (self.bytes.len() / blocks).max(1);
        let fitting =
            || (0..=limits::GROUP_BLOCKS.ilog2()).rev().find(|k| block_bytes << k <= limits::CHUNK_TARGET_BYTES);
        let blocks_log2 = match (store_as, options.chunk_blocks) {
            (StoreAs::Plan(plan), _) => {
                let group = EncodedGroup { bytes: &self.bytes, block_offsets: &self.block_offsets };
                u32::from(plan.fitting(&group).blocks_per_chunk.max(1)).ilog2()
            }
            (StoreAs::Frames(_), Some(chunk_blocks)) => chunk_blocks.ilog2(),
            (StoreAs::Frames(_), None) => fitting().unwrap_or(0),
        };
        let compression = match store_as {
            StoreAs::Frames(compression) => compression,
            StoreAs::Plan(plan) => plan.compression,
        };
        let options = ChunkOptions { compression };
        let mut chunks: Vec<SealedChunk> = Vec::with_capacity(blocks.div_ceil(1 << blocks_log2));
        for first in (0..blocks).step_by(1 << blocks_log2) {
            let start = self.block_offsets[first];
            let after = first + (1 << blocks_log2);
            let end = self.block_offsets.get(after).map_or(self.bytes.len(), |end| *end as usize);
            let offsets: Vec<u32> =
                self.block_offsets[first..after.min(blocks)].iter().map(|offset| offset - start).collect();
            chunks.push(seal_chunk(&self.bytes[start as usize..end], &offsets, &options)?);
        }
        self.bytes.clear();
        self.block_offsets.clear();
        let zones = std::mem::take(&mut self.zones);
        let plain_bytes = std::mem::take(&mut self.plain_bytes);
        let statistics = std::mem::take(&mut self.statistics);
        Ok(SealedColumn { chunks, blocks_log2: blocks_log2 as u8, plain_bytes, zones, statistics })
    }
}

/// Length in bytes of a row's string, for arrays of strings or blobs.
fn string_lengths(array: &ArrayRef) -> Option<impl Fn(usize) -> usize + use<'_>> {
    let views = match array.data_type() {
        arrow::datatypes::DataType::Utf8View => array.as_string_view().views(),
        arrow::datatypes::DataType::BinaryView => array.as_binary_view().views(),
        _ => return None,
    };
    // The low four bytes of a view are the length (Arrow columnar format, variable-size binary view).
    Some(move |row: usize| views[row] as u32 as usize)
}
