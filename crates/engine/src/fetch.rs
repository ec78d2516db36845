//! Rows by their places: chosen columns of a few rows of a table, from the frames that hold them.
//!
//! What is in the cache is taken from there. Of other blocks those frames are read that hold the rows ([`BlockRows`]), all columns and
//! blocks side by side, and none of it is kept: it is too little to be found again. Invariants: the rows come in the order of their
//! places as they were given, of the snapshot that the places are of. Must not know: why these rows are wanted.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use arrow::compute::interleave;
use arrow::datatypes::DataType;
use forebay_base::{ColumnId, Context, Error, ErrorKind, ProjectionId, Result, limits};
use forebay_block::{BlockRows, BlockSet, ChunkPart, InflatedChunk};
use forebay_cpu::Selection;
use forebay_cpu::simd::unpacking;
use forebay_disk::{AlignedBuffer, ReadTicket};
use forebay_store::{Segment, TableSnapshot};

use crate::chunks::{Costs, Place, WantedChunk, runs_of};
use crate::collect::{BlockValues, collect_constant};
use crate::memory::Urgency;
use crate::places::{Places, copy_of};
use crate::read_ahead::ReadAhead;
use crate::types::arrow_type;
use crate::{CancelToken, Engine, Metrics, ScanSettings};

/// Frames of one chunk that are no further from each other are read by one request.
const GAP_BYTES: usize = 4 * limits::IO_ALIGN;

/// Blocks whose frames are read side by side.
const READ_TOGETHER: usize = 64;

/// How rows are fetched.
#[derive(Debug, Clone, Copy)]
pub struct FetchOptions<'f> {
    /// As of scans.
    pub settings: ScanSettings,
    /// What it costs.
    pub metrics: &'f Metrics,
    /// Whether it goes on.
    pub cancel: &'f CancelToken,
}

/// The rows that are wanted of one block.
type RowsOfBlocks = BTreeMap<usize, Vec<u16>>;

/// One block of a column, of which some rows are wanted.
struct Wanted<'w> {
    segment: &'w Arc<Segment>,
    place: Place,
    /// Its number in the chunk.
    index: usize,
    rows: &'w [u16],
    ordinal: usize,
}

/// The same on its way.
struct Coming<'w> {
    wanted: Wanted<'w>,
    /// Which of the pieces that come of it.
    piece: usize,
    rows: BlockRows,
    reads: Option<(ReadTicket, Vec<Range<usize>>)>,
}

/// The columns at these positions of the rows at `places`, in this order, each with a value for every place; a row without a place is
/// NULL in all of them. `table` is the snapshot whose scan gave the places; which of its copies they are of they tell themselves.
///
/// # Errors
/// Those of reading; places that the snapshot does not have are a mistake of the caller.
pub fn fetch(
    engine: &Engine,
    table: &Arc<TableSnapshot>,
    columns: &[usize],
    places: &[Option<i64>],
    options: FetchOptions<'_>,
) -> Result<Vec<ArrayRef>> {
    let mut copies: BTreeMap<ProjectionId, RowsOfCopy> = BTreeMap::new();
    for copy in places.iter().flatten().map(|place| copy_of(*place)).collect::<BTreeSet<_>>() {
        copies.insert(copy, RowsOfCopy::of(table, copy, places)?);
    }
    let mut arrays = Vec::with_capacity(columns.len());
    let mut pieces_of: Vec<Vec<ArrayRef>> = vec![Vec::new(); columns.len()];
    for rows in copies.values() {
        let fetched = rows.fetch(engine, columns, options)?;
        pieces_of.iter_mut().zip(fetched).for_each(|(all, pieces)| all.extend(pieces));
    }
    // Where each row is: its piece, which are as many of each column, and its number in that.
    let mut firsts = BTreeMap::new();
    let mut count = 0;
    for (copy, rows) in &copies {
        firsts.insert(*copy, count);
        count += rows.blocks.len();
    }
    let find = |place: &Option<i64>| match place {
        None => (count, 0),
        Some(place) => {
            let copy = copy_of(*place);
            let (piece, row) = copies[&copy].find(*place);
            (firsts[&copy] + piece, row)
        }
    };
    let found: Vec<(usize, usize)> = places.iter().map(find).collect();
    for (column, mut pieces) in columns.iter().zip(pieces_of) {
        pieces.push(new_null_array(&arrow_type(&table.columns[*column].logical), 1));
        let pieces: Vec<&dyn Array> = pieces.iter().map(AsRef::as_ref).collect();
        let array = interleave(&pieces, &found);
        arrays.push(compact(array.map_err(|error| Error::internal(format!("fetched rows do not fit: {error}")))?));
    }
    Ok(arrays)
}

/// The same values, of which strings no longer hold the chunks that they lie in.
fn compact(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        _ => array,
    }
}

/// Rows of one copy of a table.
struct RowsOfCopy {
    copy: Arc<TableSnapshot>,
    places: Places,
    /// Ascending, each once.
    blocks: RowsOfBlocks,
}

impl RowsOfCopy {
    fn of(table: &Arc<TableSnapshot>, id: ProjectionId, places: &[Option<i64>]) -> Result<Self> {
        let copy = match id == table.copy_id() {
            true => Some(table),
            false => table.copies().iter().find(|copy| copy.copy_id() == id),
        };
        let lost =
            || Error::internal(format!("a row was read of a copy that table {} does not have", table.full_name()));
        let copy = Arc::clone(copy.ok_or_else(lost)?);
        let numbered = Places::of(&copy)?;
        let mut blocks = RowsOfBlocks::new();
        for place in places.iter().flatten().filter(|place| copy_of(**place) == id) {
            let found = numbered.find(*place);
            let gone = || Error::internal(format!("table {} has no row {place}", table.full_name()));
            let (block, row) = found.ok_or_else(gone)?;
            blocks.entry(block).or_default().push(row);
        }
        for rows in blocks.values_mut() {
            rows.sort_unstable();
            rows.dedup();
        }
        Ok(Self { copy, places: numbered, blocks })
    }

    /// The piece that a row is in, and its number there.
    fn find(&self, place: i64) -> (usize, usize) {
        let found = self.places.find(place).and_then(|(block, row)| {
            let piece = self.blocks.range(..block).count();
            Some((piece, self.blocks.get(&block)?.binary_search(&row).ok()?))
        });
        found.expect("the rows were made of these places")
    }

    /// Of each column one array for each block, of its rows.
    fn fetch(&self, engine: &Engine, columns: &[usize], options: FetchOptions<'_>) -> Result<Vec<Vec<ArrayRef>>> {
        let mut pieces: Vec<Vec<Option<ArrayRef>>> = vec![vec![None; self.blocks.len()]; columns.len()];
        let mut coming: Vec<(usize, Coming<'_>)> = Vec::new();
        for (number, column) in columns.iter().enumerate() {
            for (piece, (block, rows)) in self.blocks.iter().enumerate() {
                options.cancel.check()?;
                let Some(wanted) = self.wanted(*column, *block, rows)? else {
                    let definition = &self.copy.columns[*column];
                    let array = collect_constant(definition.missing.as_ref(), &definition.logical, rows.len())?;
                    pieces[number][piece] = Some(array);
                    continue;
                };
                let described = |wanted: &Wanted<'_>| self.describe(*column, wanted);
                if let Some(chunk) = self.whole(engine, *column, &wanted, options).context(|| described(&wanted))? {
                    let selection = Selection::Positions(rows.clone());
                    let array = self.collect(*column, (&chunk, wanted.index), &selection);
                    pieces[number][piece] = Some(array.context(|| described(&wanted))?);
                    continue;
                }
                let begun = self.begin(*column, wanted, piece)?;
                coming.push((number, begun));
                if coming.len() == READ_TOGETHER {
                    self.finish(engine, columns, std::mem::take(&mut coming), &mut pieces, options)?;
                }
            }
        }
        self.finish(engine, columns, coming, &mut pieces, options)?;
        Ok(pieces.into_iter().map(|pieces| pieces.into_iter().flatten().collect()).collect())
    }

    /// A block of a column; `None` where its segment is older than the column.
    fn wanted<'w>(&'w self, column: usize, block: usize, rows: &'w [u16]) -> Result<Option<Wanted<'w>>> {
        let (number, group, in_group) = self.places.block(block);
        let segment = &self.copy.segments[number];
        let id = self.copy.columns[column].id;
        if id == ColumnId::PLACES || !self.copy.has_column(column) {
            return Err(Error::internal("a column is fetched that the copy of its table does not have"));
        }
        let Some(index) = segment.column_index(id) else { return Ok(None) };
        let layout = &segment.groups()?[group].columns[index];
        let chunk = in_group >> layout.blocks_log2;
        let in_chunk = in_group - layout.blocks_of(chunk).start;
        let place = Place::new(
            &self.copy,
            column,
            (number, group),
            (index, chunk),
            BlockSet::of_range(0..in_chunk + 1, |b| b == in_chunk),
        );
        Ok(Some(Wanted { segment, place, index: in_chunk, rows, ordinal: block - in_chunk }))
    }

    fn describe(&self, column: usize, wanted: &Wanted<'_>) -> String {
        let Place { group, chunk, .. } = wanted.place;
        wanted.segment.describe_chunk(&self.copy.columns[column].name, &self.copy.full_name(), group, chunk)
    }

    /// The chunk, or the block of it, where it is in the cache, or cannot be read frame by frame.
    fn whole(
        &self,
        engine: &Engine,
        column: usize,
        wanted: &Wanted<'_>,
        options: FetchOptions<'_>,
    ) -> Result<Option<Arc<InflatedChunk>>> {
        let (group, index, chunk) = wanted.place.in_segment();
        let in_frames = !wanted.segment.directory(group, index, chunk)?.is_empty();
        if in_frames && !engine.is_cached(&wanted.place) {
            return Ok(None);
        }
        let definition = &self.copy.columns[column];
        let chunk = WantedChunk {
            place: wanted.place,
            physical: definition.logical.physical(),
            name: &definition.name,
            kept_at_once_bytes: 0,
            ordinal: wanted.ordinal,
        };
        let costs = Costs { metrics: options.metrics, timeline: None };
        let (ahead, name) = (ReadAhead::default(), self.copy.full_name());
        let how = (name.as_str(), &options.settings);
        engine.chunks(wanted.segment, &[chunk], &ahead, how, costs).map(|mut chunks| chunks.pop())
    }

    fn begin<'w>(&self, column: usize, wanted: Wanted<'w>, piece: usize) -> Result<Coming<'w>> {
        let (group, index, chunk) = wanted.place.in_segment();
        let directory = wanted.segment.directory(group, index, chunk)?;
        let physical = self.copy.columns[column].logical.physical();
        let rows = BlockRows::new(directory, physical, wanted.index, wanted.rows.to_vec());
        let rows = rows.context(|| self.describe(column, &wanted))?;
        Ok(Coming { wanted, piece, rows, reads: None })
    }

    /// Reads what blocks lack, as often as it takes, and makes arrays of their rows.
    fn finish(
        &self,
        engine: &Engine,
        columns: &[usize],
        mut coming: Vec<(usize, Coming<'_>)>,
        pieces: &mut [Vec<Option<ArrayRef>>],
        options: FetchOptions<'_>,
    ) -> Result<()> {
        while !coming.is_empty() {
            let mut left = Vec::with_capacity(coming.len());
            let mut first = 0;
            while first < coming.len() {
                options.cancel.check()?;
                // As many as there is memory for are on their way side by side; one always is.
                let mut begun = first;
                while let Some((number, next)) = coming.get_mut(begun) {
                    let urgency = if begun == first { Urgency::Now } else { Urgency::Next };
                    match next.submit(engine, options.settings, urgency) {
                        Err(error) if urgency == Urgency::Next && error.kind() == ErrorKind::OutOfMemory => break,
                        submitted => submitted.context(|| self.describe(columns[*number], &next.wanted))?,
                    }
                    begun += 1;
                }
                for (number, one) in &mut coming[first..begun] {
                    one.take(options).context(|| self.describe(columns[*number], &one.wanted))?;
                }
                first = begun;
            }
            for (number, one) in coming {
                let column = columns[number];
                if !one.rows.wanted().context(|| self.describe(column, &one.wanted))?.is_empty() {
                    left.push((number, one));
                    continue;
                }
                let Coming { wanted, piece, rows, .. } = one;
                let array = rows.finish().and_then(|chunk| {
                    let selection = Selection::Rows(0..wanted.rows.len() as u32);
                    self.collect(column, (&Arc::new(chunk), 0), &selection)
                });
                pieces[number][piece] = Some(array.context(|| self.describe(column, &wanted))?);
            }
            coming = left;
        }
        Ok(())
    }

    fn collect(
        &self,
        column: usize,
        (chunk, block): (&Arc<InflatedChunk>, usize),
        selection: &Selection,
    ) -> Result<ArrayRef> {
        let logical = &self.copy.columns[column].logical;
        let rows = chunk.block_rows().nth(block).unwrap_or_default();
        if selection.rows().last().is_some_and(|last| last >= rows as usize) {
            return Err(Error::corrupt("a block has fewer rows than the footer says"));
        }
        BlockValues::open(chunk, block, logical, selection.len())?.collect(selection)
    }
}

impl Coming<'_> {
    /// Puts what it lacks on its way.
    fn submit(&mut self, engine: &Engine, settings: ScanSettings, urgency: Urgency) -> Result<()> {
        let (segment, place) = (self.wanted.segment, self.wanted.place.in_segment());
        let runs = runs_of(&self.rows.wanted()?, segment.chunk_bytes(place)?, GAP_BYTES);
        let runs = runs.ok_or_else(|| Error::corrupt("a frame lies behind the end of its chunk"))?;
        let take = |bytes| engine.memory().stored(bytes, urgency);
        let ticket = segment.submit_chunk(place, &runs, &take, settings.read_path)?;
        self.reads = Some((ticket, runs));
        Ok(())
    }

    /// Waits for that, and takes it.
    fn take(&mut self, options: FetchOptions<'_>) -> Result<()> {
        let Some((ticket, runs)) = self.reads.take() else { return Ok(()) };
        let started = Instant::now();
        let buffers: Vec<AlignedBuffer> = ticket.wait()?.into_iter().map(|read| read.buffer).collect();
        let arrived = Instant::now();
        options.metrics.read_ns.add((arrived - started).as_nanos() as u64);
        options.metrics.read_bytes.add(runs.iter().map(|run| run.len() as u64).sum());
        let parts = runs.iter().zip(&buffers).map(|(run, bytes)| ChunkPart { start: run.start, bytes });
        self.rows.take(&parts.collect::<Vec<_>>(), unpacking(options.settings.simd))?;
        options.metrics.inflate_ns.add(arrived.elapsed().as_nanos() as u64);
        Ok(())
    }
}
