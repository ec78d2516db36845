//! A table in the order of some columns, its own or those of the rows that it joins with: rows that queries ask for together lie in
//! the same blocks, so that bounds and facts rule out the others (GOLAP §4.4).
//!
//! An external distribution sort by [numbers of rows](crate::facts::OrderKey): a sample tells where parts of about equal size
//! end, rows go to a temporary file part by part, and each part is sorted in memory and written. Rows with equal numbers keep their
//! order. Memory: for each worker some parts of [`PART_BYTES`]; there are more workers than threads are asked for, so that some
//! compute while others wait for reads and writes. Nothing is published here.

pub(crate) mod carried;
mod moved;
mod parts;
pub(crate) mod sorted;

use std::sync::Arc;

use forebay_base::budget::{Client, Tier};
use forebay_base::units::format_bytes;
use forebay_base::{Error, ErrorKind, Result};
use forebay_block::ColumnStatistics;
use forebay_cpu::vector::{VECTOR_ROWS, Vector};
use forebay_store::{Catalog, GroupColumn, SealedSegment, TableSnapshot};

use crate::analyze::{Builder, Curve, Places, RowCodes, Unordered};
use crate::facts::OrderKey;
use crate::query::source::{EqualRows, VectorLoader};
use crate::{CancelToken, Engine, LoadOptions, LoadTarget, Loader, Metrics, Morsel, Scan};

use carried::{Carried, Rows};
use parts::{Part, Parts, PartsFile, split};
use sorted::{Dictionaries, SortedLoad};

/// Plain bytes of a part, about.
const PART_BYTES: u64 = 48 << 20;

/// Rows that a worker gathers before it writes them to their parts.
const GATHERED_ROWS: usize = 1 << 18;

/// Bytes of such rows, at most about.
const GATHERED_BYTES: usize = 64 << 20;

/// Rows whose numbers tell where parts end.
const SAMPLED_ROWS: usize = 1 << 20;

/// Bytes of memory for each plain byte of rows that are sorted: they lie there twice, as they came and as they are written.
const MEMORY_OF_ROWS: usize = 2;

/// Threads for each of which there is a worker more, to compute while others wait.
const THREADS_PER_WAITING: usize = 2;

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
        let carried = Carried::new(table, columns);
        let account = engine.open_account("sorting a table").part(Tier::Operator, "rows and row groups");
        let sort = Sort { engine, account, table, columns, codes: &codes, carried: &carried, metrics, threads, cancel };
        let plain_bytes = table.rows().saturating_mul(sort.row_bytes());
        check_space(engine, table, sort.stored_bytes(), plain_bytes)?;
        let wanted = (plain_bytes / PART_BYTES) as usize + 1;
        let bounds = split(sampled, wanted);
        let file = PartsFile::new(engine.temporary_file()?);
        let parts = sort.distribute(&bounds, &file)?;
        let target = LoadTarget::of_columns(engine.store(), table, columns, options)?;
        let target = target.knowing(counts_of(table, columns));
        sort.load(&parts, &file, &target)?;
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
    let (Some(here), Some(temporary)) = (engine.store().free_bytes(), engine.temporary().free_bytes()) else {
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
        "table {} cannot be sorted: its rows take about {rows} of temporary space in {}, where {temporary} are free, and its \
         new files up to {files} in {}, where {here} are free",
        table.name,
        engine.temporary().describe(),
        engine.store().describe_segments(),
    );
    Err(Error::new(ErrorKind::OutOfSpace, message).hint("Make room, or have temporary files elsewhere"))
}

/// How many different values the columns at these positions have; `None` where footers do not tell of all rows.
fn counts_of(table: &TableSnapshot, columns: &[usize]) -> Option<Vec<ColumnStatistics>> {
    let mut counts = vec![ColumnStatistics::default(); columns.len()];
    for segment in &table.segments {
        for (counts, column) in counts.iter_mut().zip(columns) {
            let index = segment.column_index(table.columns[*column].id)?;
            counts.merge_counts(segment.statistics(index).ok()?);
        }
    }
    Some(counts)
}

/// What is sorted.
struct Sort<'s> {
    engine: &'s Arc<Engine>,
    account: Client,
    table: &'s Arc<TableSnapshot>,
    columns: &'s [usize],
    codes: &'s RowCodes,
    carried: &'s Carried,
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

    /// Rows that a worker gathers, about, at most.
    fn gathered_rows(&self) -> usize {
        let fitting = GATHERED_BYTES as u64 / self.row_bytes().max(1);
        fitting.min(self.table.rows()).min(GATHERED_ROWS as u64) as usize
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
    fn distribute(&self, bounds: &[u64], file: &PartsFile) -> Result<Vec<Part>> {
        let scan = self.scan(self.columns.to_vec(), self.metrics)?;
        let of_share = |_: usize, morsels: &[Morsel]| {
            let parts = Parts::new(bounds.len() + 1);
            let mut share = Share { bounds, file, rows: self.carried.no_rows(), parts };
            share.rows.reserve(self.gathered_rows() + VECTOR_ROWS);
            let (mut worker, mut held) = (self.codes.worker(), self.account.nothing());
            let mut keys = VectorLoader::new(&self.codes.source, &self.codes.dictionaries);
            let mut loader = VectorLoader::new(&self.carried.source, &self.carried.dictionaries);
            let (mut numbers, mut all_rows) = (Vec::new(), Vec::new());
            for morsel in morsels {
                self.cancel.check()?;
                let rows = scan.run(*morsel, &mut [], &mut [])?;
                // Both loaders give the same rows at a time.
                while let (Some(keys), Some(loaded)) =
                    (keys.next(&rows, EqualRows::Ignored)?, loader.next(&rows, EqualRows::Ignored)?)
                {
                    all_rows.extend(all_rows.len()..loaded.rows);
                    numbers.clear();
                    worker.add(keys.vectors, &all_rows[..keys.rows], &mut numbers);
                    share.add(loaded.vectors, &numbers)?;
                    // Workers go on whatever others need, but for no more than these.
                    held.follow_in_any_case(MEMORY_OF_ROWS * share.rows.bytes());
                }
            }
            share.flush()?;
            Ok(share.parts)
        };
        self.shared(&self.morsels(&scan), of_share).map(Parts::joined)
    }

    /// Sorts the parts and hands them to `target` one after the other.
    fn load(&self, parts: &[Part], file: &PartsFile, target: &Arc<LoadTarget>) -> Result<()> {
        let dictionaries = Dictionaries::of(self.carried);
        let of_share = |worker: usize, parts: &[Part]| {
            let loader = Loader::new(Arc::clone(target), worker as u32).within(&self.account);
            let mut held = self.account.nothing();
            held.follow_in_any_case(MEMORY_OF_ROWS * PART_BYTES as usize);
            let mut load = SortedLoad::new(loader, self.carried, &dictionaries);
            for part in parts {
                self.cancel.check()?;
                load.add(part, file, PART_BYTES)?;
            }
            load.finish()
        };
        self.shared(parts, of_share).map(drop)
    }
}

/// One worker's share of the rows.
struct Share<'s> {
    bounds: &'s [u64],
    file: &'s PartsFile,
    /// Rows that are not in the file yet.
    rows: Rows,
    parts: Parts,
}

impl Share<'_> {
    /// Takes in rows with their numbers.
    fn add(&mut self, vectors: &[Vector], numbers: &[u64]) -> Result<()> {
        self.rows.add(vectors, Some(numbers));
        let is_enough = self.rows.len() >= GATHERED_ROWS || self.rows.bytes() >= GATHERED_BYTES;
        if is_enough { self.flush() } else { Ok(()) }
    }

    /// Writes what is gathered, part by part.
    fn flush(&mut self) -> Result<()> {
        if self.rows.len() > 0 {
            let (order, counts) = self.by_part();
            self.file.write(&self.rows, (&order, &counts), &mut self.parts)?;
            self.rows.clear();
        }
        Ok(())
    }

    /// The gathered rows by their parts, in each as they were; and how many each part has.
    fn by_part(&self) -> (Vec<u32>, Vec<usize>) {
        let part_of = |number: u64| self.bounds.partition_point(|bound| *bound <= number) as u32;
        let of_rows: Vec<u32> = self.rows.numbers().map(part_of).collect();
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
