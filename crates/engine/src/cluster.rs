//! A table in the order of some columns, its own or those of the rows that it joins with: rows that queries ask for together lie in
//! the same blocks, so that bounds and facts rule out the others (GOLAP §4.4).
//!
//! An external distribution sort by [numbers of rows](crate::facts::OrderKey): a sample tells where parts of about equal size
//! end, rows go to a temporary file part by part, and each part is sorted in memory and written. Rows with equal numbers keep their
//! order. Memory: for each worker some parts of [`PART_BYTES`]; there are more workers than threads are asked for, so that some
//! compute while others wait for reads and writes. Nothing is published here.

mod parts;

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt32Array, UInt64Array};
use arrow::compute::{concat_batches, take_record_batch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use forebay_base::units::format_bytes;
use forebay_base::{Error, ErrorKind, Result};
use forebay_store::{Catalog, GroupColumn, SealedSegment, TableSnapshot};

use crate::analyze::{Builder, Curve, Places, RowCodes, Unordered};
use crate::facts::OrderKey;
use crate::query::source::{EqualRows, VectorLoader};
use crate::{CancelToken, Engine, LoadOptions, LoadTarget, Loader, Metrics, Morsel, Scan};

use parts::{Parts, PartsFile, split};

/// Plain bytes of a part, about.
const PART_BYTES: u64 = 48 << 20;

/// Rows that a worker gathers before it writes them to their parts.
const GATHERED_ROWS: usize = 1 << 18;

/// Rows whose numbers tell where parts end.
const SAMPLED_ROWS: usize = 1 << 20;

/// Threads for each of which there is a worker more, to compute while others wait.
const THREADS_PER_WAITING: usize = 2;

/// Rows that a loader gets at a time.
const LOADED_ROWS: usize = forebay_base::limits::BLOCK_ROWS;

/// Plain bytes of a string that is counted by its view, where it is not known how long they are.
const STRING_BYTES: u64 = 16;

/// The order of a table: columns, and how they go together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOrder {
    /// The columns.
    pub keys: Vec<OrderKey>,
    /// How they go together.
    pub curve: Curve,
}

/// What sorts tables, and how their rows are written.
#[derive(Debug, Clone, Copy)]
pub struct Sorter<'s> {
    /// The engine of the database.
    pub engine: &'s Arc<Engine>,
    /// Where the tables are that orders lead to.
    pub catalog: &'s Catalog,
    /// How segments are written.
    pub options: LoadOptions,
    /// What reading the rows costs.
    pub metrics: &'s Arc<Metrics>,
    /// Workers.
    pub threads: usize,
    /// Stops it.
    pub cancel: &'s CancelToken,
}

impl Sorter<'_> {
    /// Writes the rows of `table` in this order into new segments, which have the columns at these positions of its list, those of
    /// the order among them. None where it has no rows.
    ///
    /// # Errors
    /// Those of reading and writing, and where `unordered` refuses them, `Input` and `Unsupported` where a key cannot be ordered by.
    pub fn sort(
        &self,
        table: &Arc<TableSnapshot>,
        TableOrder { keys, curve }: &TableOrder,
        columns: &[usize],
        unordered: Unordered,
    ) -> Result<Vec<SealedSegment>> {
        if table.rows() == 0 {
            return Ok(Vec::new());
        }
        let Self { engine, catalog, options, metrics, threads, cancel } = *self;
        let builder = Builder { engine, catalog, threads, cancel };
        let codes = RowCodes::new(&builder, table, keys, unordered)?;
        let mut sampled = codes.sample(&builder, table, SAMPLED_ROWS)?.numbers;
        let places = Places::of(*curve, &sampled, keys.len());
        places.iter().for_each(|places| places.replace(&mut sampled));
        let codes = codes.along(places);
        let sort = Sort { engine, table, columns, codes: &codes, metrics, threads, cancel };
        let plain_bytes = table.rows().saturating_mul(sort.row_bytes());
        check_space(engine, table, sort.stored_bytes(), plain_bytes)?;
        let wanted = (plain_bytes / PART_BYTES) as usize + 1;
        let bounds = split(sampled, wanted);
        let parts = sort.distribute(&bounds)?;
        let target = LoadTarget::of_columns(engine.store(), table, columns, options)?;
        sort.load(&parts, &target)?;
        match Arc::into_inner(target) {
            Some(target) => target.finish(),
            None => Err(Error::internal("a loader is left over")),
        }
    }
}

/// An error where there is too little space for the rows on their way, and for new files beside the old ones.
fn check_space(engine: &Engine, table: &TableSnapshot, stored: u64, plain_bytes: u64) -> Result<()> {
    // Another order may compress less.
    let new_bytes = stored.saturating_add(stored / 2);
    let (Some(here), Some(temporary)) = (engine.store().free_bytes(), engine.temporary_free_bytes()) else {
        return Ok(());
    };
    // Equal numbers are those of one file system.
    let fits = match here == temporary {
        true => plain_bytes.saturating_add(new_bytes) <= here,
        false => plain_bytes <= temporary && new_bytes <= here,
    };
    if fits {
        return Ok(());
    }
    let [rows, files, here, temporary] = [plain_bytes, new_bytes, here, temporary].map(format_bytes);
    let message = format!(
        "table {} cannot be sorted: its rows take about {rows} of temporary space, where {temporary} are free, and its new \
         files up to {files}, where {here} are free",
        table.name
    );
    Err(Error::new(ErrorKind::OutOfSpace, message).hint("Make room, or have temporary files elsewhere"))
}

/// What is sorted.
struct Sort<'s> {
    engine: &'s Arc<Engine>,
    table: &'s Arc<TableSnapshot>,
    columns: &'s [usize],
    codes: &'s RowCodes,
    metrics: &'s Arc<Metrics>,
    threads: usize,
    cancel: &'s CancelToken,
}

impl Sort<'_> {
    /// Plain bytes of a row and its number, about.
    fn row_bytes(&self) -> u64 {
        let of_column = |column: &usize| match self.table.columns[*column].logical.physical().width() {
            Some(bytes) => bytes as u64,
            None => STRING_BYTES,
        };
        let fixed = self.columns.iter().map(of_column).sum::<u64>();
        // What strings have beyond their views is in the plain bytes of the footers.
        let plain: u64 = self.stored().map(|column| column.plain_bytes).sum();
        size_of::<u64>() as u64 + fixed.max(plain / self.table.rows().max(1))
    }

    /// Bytes that the columns take now.
    fn stored_bytes(&self) -> u64 {
        self.stored().flat_map(|column| &column.chunks).map(|chunk| chunk.stored_bytes).sum()
    }

    /// The columns in all row groups, as far as footers can be read: whoever scans them is told.
    fn stored(&self) -> impl Iterator<Item = &GroupColumn> {
        self.table.segments.iter().flat_map(|segment| {
            let index = |column: &usize| segment.column_index(self.table.columns[*column].id);
            let indexes: Vec<usize> = self.columns.iter().filter_map(index).collect();
            let groups = segment.groups().unwrap_or_default();
            groups.iter().flat_map(move |group| indexes.clone().into_iter().map(|index| &group.columns[index]))
        })
    }

    fn scan(&self, columns: Vec<usize>, metrics: &Arc<Metrics>) -> Result<Arc<Scan>> {
        let (table, cancel) = (Arc::clone(self.table), self.cancel.clone());
        Ok(Arc::new(Scan::new(Arc::clone(self.engine), table, columns, Arc::clone(metrics), cancel)?))
    }

    fn morsels(&self, scan: &Arc<Scan>) -> Vec<Morsel> {
        std::iter::from_fn(|| scan.next_morsel()).collect()
    }

    /// Has workers do neighbouring shares of `items`; what they give, in that order.
    fn shared<I: Sync, R: Send>(&self, items: &[I], work: impl Fn(usize, &[I]) -> Result<R> + Sync) -> Result<Vec<R>> {
        let share = items.len().div_ceil(self.threads + self.threads.div_ceil(THREADS_PER_WAITING)).max(1);
        std::thread::scope(|scope| {
            let work = &work;
            let workers: Vec<_> = items
                .chunks(share)
                .enumerate()
                .map(|(number, share)| scope.spawn(move || work(number, share)))
                .collect();
            let panicked = |_| Err(Error::internal("a worker that sorted a table panicked"));
            workers.into_iter().map(|worker| worker.join().unwrap_or_else(panicked)).collect()
        })
    }

    /// Puts all rows into their parts.
    fn distribute(&self, bounds: &[u64]) -> Result<Parts> {
        let scan = self.scan(self.columns.to_vec(), self.metrics)?;
        let file = PartsFile::new(self.engine.temporary_file()?);
        let of_share = |_: usize, morsels: &[Morsel]| {
            let parts = Parts::new(bounds.len() + 1);
            let (gathered, numbers, bytes) = (Vec::new(), Vec::new(), Vec::new());
            let mut share = Share { bounds, file: &file, gathered, numbers, bytes, parts };
            let mut worker = self.codes.worker();
            let mut loader = VectorLoader::new(&self.codes.source, &self.codes.dictionaries);
            let (mut numbers, mut all_rows) = (Vec::new(), Vec::new());
            for morsel in morsels {
                self.cancel.check()?;
                let mut rows = scan.run(*morsel, &mut [], &mut [])?;
                numbers.clear();
                while let Some(loaded) = loader.next(&rows, EqualRows::Ignored)? {
                    all_rows.extend(all_rows.len()..loaded.rows);
                    worker.add(loaded.vectors, &all_rows[..loaded.rows], &mut numbers);
                }
                let mut done = 0;
                while let Some(batches) = rows.next_block()? {
                    for batch in batches {
                        let next = done + batch.num_rows();
                        share.add(batch, &numbers[done..next])?;
                        done = next;
                    }
                }
            }
            share.flush()?;
            Ok(share.parts)
        };
        let shares = self.shared(&self.morsels(&scan), of_share)?;
        Ok(Parts::joined(shares, file))
    }

    /// Sorts the parts and hands them to `target` one after the other.
    fn load(&self, parts: &Parts, target: &Arc<LoadTarget>) -> Result<()> {
        let numbers: Vec<usize> = (0..parts.len()).collect();
        let of_share = |worker: usize, numbers: &[usize]| {
            let mut loader = Loader::new(Arc::clone(target), worker as u32);
            for part in numbers {
                self.cancel.check()?;
                if parts.has_one_number(*part) {
                    for batch in parts.read(*part) {
                        loader.push(&without_numbers(&batch?))?;
                    }
                    continue;
                }
                let batches = parts.read(*part).collect::<Result<Vec<_>>>()?;
                let Some(first) = batches.first() else { continue };
                let whole = concat_batches(&first.schema(), &batches).map_err(of_arrow)?;
                drop(batches);
                let sorted = numbers_of(&whole)?;
                let mut order: Vec<(u64, u32)> = sorted.values().iter().copied().zip(0..).collect();
                order.sort_unstable();
                let plain = without_numbers(&whole);
                for rows in order.chunks(LOADED_ROWS) {
                    let rows = UInt32Array::from_iter_values(rows.iter().map(|(_, row)| *row));
                    loader.push(&take_record_batch(&plain, &rows).map_err(of_arrow)?)?;
                }
            }
            loader.finish()
        };
        self.shared(&numbers, of_share).map(drop)
    }
}

/// One worker's share of the rows.
struct Share<'s> {
    bounds: &'s [u64],
    file: &'s PartsFile,
    /// Rows that are not in the file yet, and their numbers.
    gathered: Vec<RecordBatch>,
    numbers: Vec<u64>,
    /// Memory that rows are written from.
    bytes: Vec<u8>,
    parts: Parts,
}

impl Share<'_> {
    /// Takes in rows with their numbers.
    fn add(&mut self, batch: RecordBatch, numbers: &[u64]) -> Result<()> {
        self.gathered.push(batch);
        self.numbers.extend(numbers);
        if self.numbers.len() >= GATHERED_ROWS { self.flush() } else { Ok(()) }
    }

    /// Writes what is gathered, part by part.
    fn flush(&mut self) -> Result<()> {
        let batches = std::mem::take(&mut self.gathered);
        let Some(first) = batches.first() else { return Ok(()) };
        let whole = concat_batches(&first.schema(), &batches).map_err(of_arrow)?;
        drop(batches);
        let (order, counts) = self.by_part();
        let numbers: Vec<u64> = order.iter().map(|row| self.numbers[*row as usize]).collect();
        self.numbers.clear();
        let sorted = take_record_batch(&whole, &UInt32Array::from(order)).map_err(of_arrow)?;
        drop(whole);
        let mut start = 0;
        for (part, count) in counts.into_iter().enumerate().filter(|(_, count)| *count > 0) {
            let numbers = &numbers[start..start + count];
            let least_and_greatest = numbers.iter().min().copied().zip(numbers.iter().max().copied());
            let rows = compacted(&with_numbers(&sorted.slice(start, count), numbers)?)?;
            self.parts.add(part, self.file.write(&rows, &mut self.bytes)?, least_and_greatest);
            start += count;
        }
        Ok(())
    }

    /// The gathered rows by their parts, in each as they were; and how many each part has.
    fn by_part(&self) -> (Vec<u32>, Vec<usize>) {
        let part_of = |number: &u64| self.bounds.partition_point(|bound| bound <= number) as u32;
        let of_rows: Vec<u32> = self.numbers.iter().map(part_of).collect();
        let mut ends = vec![0; self.bounds.len() + 1];
        of_rows.iter().for_each(|part| ends[*part as usize] += 1);
        let counts: Vec<usize> = ends.clone();
        let mut start = 0;
        ends.iter_mut().for_each(|end| start += std::mem::replace(end, start));
        let mut order = vec![0; of_rows.len()];
        for (row, part) in of_rows.iter().enumerate() {
            order[ends[*part as usize]] = row as u32;
            ends[*part as usize] += 1;
        }
        (order, counts)
    }
}

/// These rows with their numbers.
fn with_numbers(rows: &RecordBatch, numbers: &[u64]) -> Result<RecordBatch> {
    let numbers: ArrayRef = Arc::new(UInt64Array::from(numbers.to_vec()));
    let columns = rows.columns().iter().cloned().chain([numbers]).collect();
    RecordBatch::try_new(with_number(rows), columns).map_err(of_arrow)
}

/// The columns of a batch, and the number.
fn with_number(batch: &RecordBatch) -> SchemaRef {
    let number = Arc::new(Field::new("", DataType::UInt64, false));
    Arc::new(Schema::new(batch.schema_ref().fields().iter().cloned().chain([number]).collect::<Vec<_>>()))
}

/// The same rows, whose strings share no memory with others.
fn compacted(batch: &RecordBatch) -> Result<RecordBatch> {
    let compact = |column: &ArrayRef| -> ArrayRef {
        match column.data_type() {
            DataType::Utf8View => Arc::new(column.as_string_view().gc()),
            DataType::BinaryView => Arc::new(column.as_binary_view().gc()),
            _ => Arc::clone(column),
        }
    };
    let columns = batch.columns().iter().map(compact).collect();
    RecordBatch::try_new(batch.schema(), columns).map_err(of_arrow)
}

fn numbers_of(batch: &RecordBatch) -> Result<&UInt64Array> {
    let last = batch.columns().last().and_then(|column| column.as_primitive_opt::<UInt64Type>());
    last.ok_or_else(|| Error::internal("rows of a part have no numbers"))
}

fn without_numbers(batch: &RecordBatch) -> RecordBatch {
    let mut batch = batch.clone();
    batch.remove_column(batch.num_columns() - 1);
    batch
}

/// An error of arrow's kernels, which these rows do not give them a reason for.
fn of_arrow(error: arrow::error::ArrowError) -> Error {
    Error::internal(format!("rows could not be sorted: {error}"))
}
