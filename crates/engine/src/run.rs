//! The read flow of one morsel, on one screen: prune → read → inflate → test on codes → filter → collect.
//!
//! Workers share a [`Scan`] and take row groups, or parts of them where a table has few, from its cursor, one [`Morsel`]
//! at a time. Columns that no test or filter
//! needs are read only once a row of their chunk has survived (late materialisation).

mod account;
mod ahead;
mod chosen;
mod decided;
mod load;
mod narrow;
mod pieces;
mod prune;
mod ranked;
mod running;
mod runtime_filter;
mod settings;
mod times;
mod visible;
mod watched;
mod whole;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use arrow::array::{Array, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Field, Schema, SchemaRef};
use forebay_base::{ColumnId, Context, Error, LogicalType, Result, Value};
use forebay_block::{BlockSet, InflatedChunk};
use forebay_cpu::{BlockPredicate, Matches, Selection, translate};
use forebay_store::{BlockLayout, Column, GroupColumn, Segment, Table, TableSnapshot};

use crate::chunks::Engine;
use crate::collect::{BlockValues, collect_constant, collect_places};
use crate::facts::RuledOut;
use crate::morsel::{Morsel, SharedGroups, drives, morsels};
use crate::places::Places;
use crate::timeline::{Computing, SourceTimeline};
use crate::types::arrow_type;
use crate::{CancelToken, Metrics};
use decided::ZoneDecisions;
pub(crate) use decided::decision;
use narrow::Pending;
use pieces::pieces;

pub use ahead::Foreseen;
use ahead::Reads;
pub use ranked::AdaptivePredicate;
pub(crate) use running::RunningScans;
pub use runtime_filter::RuntimeFilter;
pub use settings::{Direction, ScanSettings};
use watched::Watched;

/// A predicate over rows that codes cannot answer, evaluated on Arrow batches by its owner.
pub trait RowFilter: Send {
    /// Positions in the table's list of columns that [`RowFilter::select`] reads, in the order of its batches.
    fn columns(&self) -> &[usize];
    /// Which rows of `batch` pass; NULL does not.
    fn select(&mut self, batch: &RecordBatch) -> Result<BooleanArray>;
    /// False when evaluating this filter does not pay at present (it lets nearly everything pass and others check too).
    fn pays(&self) -> bool {
        true
    }
}

/// A scan of one table, shared by its workers.
#[derive(Debug)]
pub struct Scan {
    engine: Arc<Engine>,
    table: Arc<TableSnapshot>,
    columns: Vec<usize>,
    schema: SchemaRef,
    morsels: Vec<Morsel>,
    /// Those that were left out before.
    ruled_out_morsels: Vec<Morsel>,
    /// How the table's blocks are numbered.
    layout: Arc<BlockLayout>,
    /// Whether whoever made it chose the morsels.
    is_ranged: bool,
    /// Of row groups not all of whose blocks are in one morsel each: the blocks of their morsels together.
    visits: BTreeMap<(usize, usize), usize>,
    cursor: AtomicUsize,
    /// What it is among the scans that run.
    place: running::Place,
    /// Data directories that the table lies in.
    drives: usize,
    /// Chunks of row groups that are being scanned.
    shared: SharedGroups,
    /// Chunks are read as a whole, however few of their blocks are needed.
    whole_chunks: bool,
    reads: Reads,
    metrics: Arc<Metrics>,
    cancel: CancelToken,
    settings: ScanSettings,
    /// Where it is noted when it did what, if somebody asks.
    timeline: Option<SourceTimeline>,
    /// What zones told of tests before the scan ran.
    zone_decisions: ZoneDecisions,
    /// Blocks that no row is needed of, as facts tell.
    ruled_out: RuledOut,
    /// Likewise, as the keys of joins tell that were known before the first morsel.
    ruled_out_by_keys: OnceLock<RuledOut>,
    /// What the cache was told of it.
    watched: Watched,
    /// Where its rows are, if they are asked for that.
    places: Option<Places>,
}

impl Scan {
    /// A scan of `table` that gives the columns at these positions of its list.
    pub fn new(
        engine: Arc<Engine>,
        table: Arc<TableSnapshot>,
        columns: Vec<usize>,
        metrics: Arc<Metrics>,
        cancel: CancelToken,
    ) -> Result<Self> {
        let (morsels, drives) = (morsels(&table)?, drives(&table));
        let layout = table.layout().cloned().ok_or_else(|| Error::internal("a footer that was read cannot be read"))?;
        let schema = schema_of(&table, &columns);
        let (cursor, settings) = (AtomicUsize::new(0), ScanSettings::default());
        let (shared, reads, timeline) = (SharedGroups::default(), Reads::default(), None);
        let gives_places = columns.iter().any(|column| table.columns[*column].id == ColumnId::PLACES);
        let places = if gives_places { Some(Places::of(&table)?) } else { None };
        Ok(Self {
            engine,
            table,
            columns,
            schema,
            morsels,
            ruled_out_morsels: Vec::new(),
            layout,
            is_ranged: false,
            visits: BTreeMap::new(),
            cursor,
            place: running::Place::default(),
            drives,
            shared,
            whole_chunks: false,
            reads,
            metrics,
            cancel,
            settings,
            timeline,
            zone_decisions: ZoneDecisions::default(),
            ruled_out: RuledOut::default(),
            ruled_out_by_keys: OnceLock::new(),
            watched: Watched::default(),
            places,
        })
    }

    /// The same scan, run as `settings` say.
    pub fn with_settings(self, settings: ScanSettings) -> Self {
        Self { settings, ..self }
    }

    /// The same scan, of these morsels, which may have blocks in common. Whoever takes them begins the reads ahead of them
    /// ([`Scan::read_ahead_of`]).
    #[must_use]
    pub(crate) fn of_morsels(self, morsels: Vec<Morsel>) -> Self {
        let mut visits = BTreeMap::new();
        for morsel in &morsels {
            *visits.entry((morsel.segment, morsel.group)).or_insert(0) += morsel.blocks().len();
        }
        Self { morsels, visits, is_ranged: true, ..self }
    }

    /// The columns of the batches.
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Prunes and selects in one morsel; the rows come from [`MorselRows::next_block`].
    pub fn run(
        self: &Arc<Self>,
        morsel: Morsel,
        tests: &mut [AdaptivePredicate],
        filters: &mut [Box<dyn RowFilter>],
    ) -> Result<MorselRows> {
        self.run_with_keys(morsel, tests, &mut [], filters)
    }

    /// The same, where build sides told what keys to look for.
    pub fn run_with_keys(
        self: &Arc<Self>,
        morsel: Morsel,
        tests: &mut [AdaptivePredicate],
        keys: &mut [RuntimeFilter],
        filters: &mut [Box<dyn RowFilter>],
    ) -> Result<MorselRows> {
        let blocks = morsel.blocks();
        tests.iter_mut().for_each(|test| test.find_in(self));
        let mut rows = self.rows_of(morsel)?;
        self.read_ahead(tests, keys, filters);
        let mut order: Vec<usize> = (0..tests.len()).collect();
        order.sort_by(|a, b| tests[*b].rank().total_cmp(&tests[*a].rank()));
        let mut pending = rows.prune(tests, &order);
        rows.load(pending.iter().map(|pending| tests[pending.test].test.column))?;
        rows.narrow(tests, &mut pending);
        let mut matches = rows.matches();
        for Pending { test, blocks } in pending {
            rows.test(&mut tests[test], blocks, &mut matches)?;
        }
        rows.selections = matches.into_iter().map(Matches::finish).collect();
        rows.leave_out_deleted();
        for filter in keys.iter_mut().filter(|filter| filter.pays()) {
            rows.load(filter.columns())?;
            for block in blocks.clone() {
                rows.filter_keys(block, filter)?;
            }
        }
        if !filters.is_empty() {
            self.metrics.rows_filtered.add(rows.selections.iter().map(|selection| selection.len() as u64).sum());
        }
        for filter in filters.iter_mut().filter(|filter| filter.pays()) {
            rows.load(filter.columns().iter().copied())?;
            for block in blocks.clone() {
                rows.filter(block, filter.as_mut())?;
            }
        }
        rows.load(self.columns.iter().copied())?;
        rows.note_loads(tests, keys, filters);
        rows.account(tests, filters);
        Ok(rows)
    }

    /// All rows of a morsel.
    fn rows_of(self: &Arc<Self>, morsel: Morsel) -> Result<MorselRows> {
        let segment = Arc::clone(&self.table.segments[morsel.segment]);
        let blocks = morsel.blocks();
        // Other morsels have the other blocks: here they have no rows.
        let first =
            self.layout.of_group((morsel.segment, morsel.group)).start - self.layout.of_segment(morsel.segment).start;
        let is_gone = |block: usize, rows: u32| {
            segment.deleted().of_block((first + block) as u32).is_some_and(|gone| gone.count() >= rows)
        };
        let is_here = |block: usize, rows: u32| blocks.contains(&block) && !is_gone(block, rows);
        let rows_of = |(block, rows): (usize, &u32)| Selection::Rows(0..if is_here(block, *rows) { *rows } else { 0 });
        let block_rows = &segment.groups()?[morsel.group].block_rows;
        let selections = block_rows.iter().enumerate().map(rows_of).collect();
        let others = (0..block_rows.len()).filter(|block| !blocks.contains(block)).collect();
        Ok(MorselRows {
            scan: Arc::clone(self),
            segment,
            morsel,
            chunks: vec![Vec::new(); self.table.columns.len()],
            selections,
            others,
            next: 0,
            computing: self.computing(morsel),
        })
    }
}

/// The surviving rows of a morsel.
#[derive(Debug)]
pub struct MorselRows {
    scan: Arc<Scan>,
    segment: Arc<Segment>,
    morsel: Morsel,
    /// Per column of the table: its chunks in this row group, or the parts of them that were needed.
    chunks: Vec<Vec<Option<Arc<InflatedChunk>>>>,
    /// Per block of the row group.
    selections: Vec<Selection>,
    /// Blocks of the row group that other morsels have and that zones do not rule out.
    others: BlockSet,
    next: usize,
    /// As long as they are worked on.
    computing: Option<Computing>,
}

/// Where a column's values of one block are.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Stored<'a> {
    /// In this block of the chunk.
    Block(&'a Arc<InflatedChunk>, usize),
    /// The segment is older than the column: every row has this value.
    Missing(Option<&'a Value>),
    /// Nowhere: they are the places of the rows, of which this is the first.
    Places(i64),
}

/// What one column of a block's batches is made from.
struct Source<'a> {
    column: usize,
    block: usize,
    values: SourceValues<'a>,
}

enum SourceValues<'a> {
    Block(BlockValues<'a>),
    Missing(Option<&'a Value>, &'a LogicalType),
    Places(i64),
}

impl MorselRows {
    /// The batches of the next block that has rows; `None` at the end of the morsel.
    pub fn next_block(&mut self) -> Result<Option<Vec<RecordBatch>>> {
        while self.next < self.selections.len() {
            let block = self.next;
            self.next += 1;
            if self.selections[block].is_empty() {
                continue;
            }
            self.scan.cancel.check()?;
            let sources = self.sources(block, &self.scan.columns)?;
            let batch = |piece: Selection| self.batch(&sources, &self.scan.schema, &piece);
            return pieces(&self.selections[block]).into_iter().map(batch).collect::<Result<_>>().map(Some);
        }
        Ok(None)
    }

    /// The surviving rows of each block.
    pub(crate) fn selections(&self) -> &[Selection] {
        &self.selections
    }

    /// Where the values of a column are for one block that has surviving rows. The scan must give the column.
    pub(crate) fn stored(&self, column: usize, block: usize) -> Result<Stored<'_>> {
        match self.chunk_of(column, block) {
            Some((chunk, index)) => Ok(Stored::Block(chunk, index)),
            None if self.group_column(column).is_some() => {
                let name = &self.scan.table.columns[column].name;
                Err(Error::internal(format!("column {name} was not loaded")))
            }
            None if self.scan.table.columns[column].id == ColumnId::PLACES => {
                let places = self.scan.places.as_ref();
                let places = places.ok_or_else(|| Error::internal("a scan gives places that it was not asked for"))?;
                let first = self.scan.layout.of_group((self.morsel.segment, self.morsel.group)).start;
                Ok(Stored::Places(places.first_of(first + block)))
            }
            None => Ok(Stored::Missing(self.scan.table.columns[column].missing.as_ref())),
        }
    }

    /// The rows of each block before tests on codes.
    fn matches(&mut self) -> Vec<Matches> {
        let rows = self.morsel.group_of(&self.segment).block_rows.iter();
        let simd = self.scan.settings.simd;
        let matches = |(selection, rows): (Selection, &u32)| Matches::new(selection, *rows as usize, simd);
        self.selections.drain(..).zip(rows).map(matches).collect()
    }

    /// Evaluates one test on the codes of these blocks.
    fn test(
        &self,
        ranked: &mut AdaptivePredicate,
        blocks: Vec<(usize, Option<BlockPredicate>)>,
        matches: &mut [Matches],
    ) -> Result<()> {
        let test = &ranked.test;
        let mut code_bytes = 0;
        for (block, translated) in blocks {
            let matches = &mut matches[block];
            if matches.is_empty() {
                continue;
            }
            self.scan.cancel.check()?;
            let Some((chunk, index)) = self.chunk_of(test.column, block) else {
                return Err(Error::internal("a test's column was not loaded"));
            };
            let chunk = Arc::clone(chunk);
            let view = chunk.block(index);
            ranked.rows_in += matches.len() as u64;
            let before = matches.looked_at();
            let translated = translated.unwrap_or_else(|| translate(&view, &test.test, self.scan.settings.simd));
            ranked.cost += translated.select(&view, matches) * view.rows() as f64;
            ranked.block_rows += view.rows() as u64;
            code_bytes += ((matches.looked_at() - before) * view.row_bytes()) as u64;
            ranked.rows_out += matches.len() as u64;
        }
        self.scan.metrics.code_bytes.add(code_bytes);
        Ok(())
    }

    /// Keeps the rows of one block that pass `filter`.
    fn filter(&mut self, block: usize, filter: &mut dyn RowFilter) -> Result<()> {
        if self.selections[block].is_empty() || !filter.pays() {
            return Ok(());
        }
        self.scan.cancel.check()?;
        let columns = filter.columns().to_vec();
        let schema = schema_of(&self.scan.table, &columns);
        let mut kept: Vec<u16> = Vec::new();
        self.scan.metrics.code_bytes.add(self.row_bytes(block, &columns));
        let sources = self.sources(block, &columns)?;
        for piece in pieces(&self.selections[block]) {
            let batch = self.batch(&sources, &schema, &piece)?;
            let mask = filter.select(&batch)?;
            let passing = match mask.nulls() {
                Some(nulls) => mask.values() & nulls.inner(),
                None => mask.values().clone(),
            };
            match &piece {
                Selection::Rows(rows) => kept.extend(passing.set_indices().map(|row| (row as u32 + rows.start) as u16)),
                Selection::Positions(positions) => kept.extend(passing.set_indices().map(|row| positions[row])),
            }
        }
        if kept.len() < self.selections[block].len() {
            self.selections[block] = Selection::Positions(kept);
        }
        Ok(())
    }

    /// Names a chunk in an error.
    fn place(&self, column: usize, chunk: usize) -> String {
        let table = &self.scan.table;
        self.segment.describe_chunk(&table.columns[column].name, &table.full_name(), self.morsel.group, chunk)
    }

    fn group_column(&self, column: usize) -> Option<&GroupColumn> {
        let index = self.segment.column_index(self.scan.table.columns[column].id)?;
        Some(&self.morsel.group_of(&self.segment).columns[index])
    }

    fn chunk_of(&self, column: usize, block: usize) -> Option<(&Arc<InflatedChunk>, usize)> {
        let log2 = self.group_column(column)?.blocks_log2;
        let chunk = self.chunks[column].get(block >> log2)?.as_ref()?;
        let index = block & ((1 << log2) - 1);
        chunk.has(index).then_some((chunk, index))
    }

    /// What the columns of one block's batches are made from.
    fn sources<'a>(&'a self, block: usize, columns: &[usize]) -> Result<Vec<Source<'a>>> {
        let rows = self.selections[block].len();
        columns
            .iter()
            .map(|&column| {
                let logical = &self.scan.table.columns[column].logical;
                let values = match self.stored(column, block)? {
                    Stored::Missing(value) => SourceValues::Missing(value, logical),
                    Stored::Places(first) => SourceValues::Places(first),
                    Stored::Block(chunk, index) => {
                        let values = BlockValues::open(chunk, index, logical, rows);
                        SourceValues::Block(values.context(|| self.place_of_block(column, block))?)
                    }
                };
                Ok(Source { column, block, values })
            })
            .collect()
    }

    fn place_of_block(&self, column: usize, block: usize) -> String {
        match self.group_column(column) {
            Some(layout) => self.place(column, block >> layout.blocks_log2),
            None => {
                let table = &self.scan.table;
                format!("table {}, default of column {}", table.full_name(), table.columns[column].name)
            }
        }
    }

    fn batch(&self, sources: &[Source<'_>], schema: &SchemaRef, selection: &Selection) -> Result<RecordBatch> {
        let array = |source: &Source<'_>| {
            let array = match &source.values {
                SourceValues::Block(values) => values.collect(selection),
                SourceValues::Missing(value, logical) => collect_constant(*value, logical, selection.len()),
                SourceValues::Places(first) => Ok(collect_places(*first, selection)),
            };
            array.context(|| self.place_of_block(source.column, source.block))
        };
        let arrays = sources.iter().map(array).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(selection.len()));
        RecordBatch::try_new_with_options(Arc::clone(schema), arrays, &options)
            .map_err(|error| Error::internal(format!("a scan made an invalid batch: {error}")))
    }
}

/// The Arrow schema of these columns of `table`.
pub fn schema_of(table: &Table, columns: &[usize]) -> SchemaRef {
    schema_of_columns(columns.iter().map(|column| &table.columns[*column]))
}

/// The Arrow schema of columns.
pub fn schema_of_columns<'a>(columns: impl IntoIterator<Item = &'a Column>) -> SchemaRef {
    let field = |column: &Column| Field::new(&column.name, arrow_type(&column.logical), column.nullable);
    Arc::new(Schema::new(columns.into_iter().map(field).collect::<Vec<_>>()))
}
