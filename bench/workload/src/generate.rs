//! Writes the tables of a benchmark into files, one file a table, with all threads on one table at a time.
//!
//! A table is a sequence of parts whose number and content do not depend on threads. Threads take parts in order, make
//! and encode them, and append them to the file in order: files are equal byte for byte for any number of threads, and
//! at most one part a thread is in memory. A file is written under a temporary name and renamed when it is complete; the
//! temporary one never outlives its table.

mod file;
mod tbl;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};

use forebay::{Error, Result};

pub use crate::benchmark::Benchmark;
use crate::benchmark::check_scale_factor;
use crate::table_source::TableSource;
use crate::{schema, ssb, taxi, tpch, wide};
use file::TableFile;

/// The seed of data that nobody chose a seed for.
pub const DEFAULT_SEED: u64 = 42;

/// How tables are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Parquet with dictionaries and Snappy, row groups of about half a million rows. Snappy because it is what DuckDB
    /// and Spark write unasked: every reader has it, and sizes and load times compare with other people's files.
    Parquet,
    /// Text as dbgen writes it: `|` after every value, the last one included.
    Tbl,
}

impl Format {
    /// The ending of file names, without the dot.
    pub fn extension(self) -> &'static str {
        match self {
            Self::Parquet => "parquet",
            Self::Tbl => "tbl",
        }
    }
}

/// What to generate, and where to.
#[derive(Debug, Clone)]
pub struct GenerateOptions {
    /// Size of the data: 1 is about 6 million rows of the largest table of SSB and TPC-H, 1 million of the wide one, and 10
    /// million trips. Fractions are fine.
    pub scale_factor: f64,
    /// Folder for the files; made when missing. Files of the same names are replaced.
    pub out: PathBuf,
    /// Format of the files.
    pub format: Format,
    /// Threads; 0 means one per core.
    pub threads: usize,
    /// Seed of the data. TPC-H prescribes its own seeds and ignores this one.
    pub seed: u64,
    /// Only these tables; all when `None`.
    pub tables: Option<Vec<String>>,
}

/// How far a generation is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// The table being written.
    pub table: &'static str,
    /// Rows of it that are generated.
    pub rows: u64,
    /// Rows that it will have, about.
    pub expected_rows: u64,
    /// Share of all rows of all tables that are generated, 0 to 1.
    pub fraction: f64,
}

/// A complete file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Table.
    pub table: String,
    /// Where the file is.
    pub path: PathBuf,
    /// Rows in it.
    pub rows: u64,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Generates the tables of `benchmark`. `progress` is called often and from several threads.
///
/// Errors: an unusable scale factor, an unknown table, a folder that cannot be written, a full disk.
pub fn generate(
    benchmark: Benchmark,
    options: &GenerateOptions,
    progress: &(dyn Fn(Progress) + Sync),
) -> Result<Vec<GeneratedFile>> {
    check_scale_factor(options.scale_factor)?;
    if benchmark.has_nulls() && options.format == Format::Tbl {
        return Err(Error::input(format!(
            "{benchmark}: there are NULLs, which the tbl format cannot tell from empty text"
        ))
        .hint("Use --format parquet"));
    }
    let chosen = chosen_tables(benchmark, options.tables.as_deref())?;
    fs::create_dir_all(&options.out).map_err(|e| Error::io(format!("make folder {}", options.out.display()), &e))?;
    let sources = sources(benchmark, options.scale_factor, options.seed)?;
    let sources: Vec<_> = sources.into_iter().filter(|source| chosen.contains(&source.name())).collect();
    let all_rows = sources.iter().map(|source| source.expected_rows()).sum::<u64>().max(1);
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
        threads => threads,
    };
    let mut files = Vec::with_capacity(sources.len());
    let mut rows_before = 0;
    for source in &sources {
        let expected_rows = source.expected_rows();
        let report = |rows: u64| {
            let fraction = (rows_before + rows.min(expected_rows)) as f64 / all_rows as f64;
            progress(Progress { table: source.name(), rows, expected_rows, fraction });
        };
        let path = options.out.join(format!("{}.{}", source.name(), options.format.extension()));
        files.push(
            write_table(source.as_ref(), &path, options.format, threads, &report)
                .map_err(|e| e.context(format!("generating table {}", source.name())))?,
        );
        rows_before += expected_rows;
    }
    Ok(files)
}

/// All tables of `benchmark` at this size.
pub(crate) fn sources(benchmark: Benchmark, scale_factor: f64, seed: u64) -> Result<Vec<Box<dyn TableSource>>> {
    match benchmark {
        Benchmark::Ssb => Ok(ssb::tables(scale_factor, seed)),
        Benchmark::Tpch => tpch::tables(scale_factor),
        Benchmark::Wide => Ok(vec![wide::table(scale_factor, seed)]),
        Benchmark::Taxi => Ok(vec![taxi::table(scale_factor, seed)]),
    }
}

fn chosen_tables(benchmark: Benchmark, wanted: Option<&[String]>) -> Result<Vec<&'static str>> {
    let all = schema::table_names(benchmark);
    let Some(wanted) = wanted else { return Ok(all.to_vec()) };
    wanted
        .iter()
        .map(|name| {
            all.iter().copied().find(|known| known.eq_ignore_ascii_case(name)).ok_or_else(|| {
                Error::input(format!("{benchmark} has no table {name:?}"))
                    .hint(format!("Its tables are {}", all.join(", ")))
            })
        })
        .collect()
}

/// Ends the work of all threads if this one panics: nobody would take its turn.
struct EndOnPanic<'a> {
    turn: &'a Mutex<Turn>,
    turned: &'a Condvar,
}

impl Drop for EndOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let mut held = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
            held.failure.get_or_insert_with(|| Error::internal("a generator thread panicked"));
            self.turned.notify_all();
        }
    }
}

/// What threads share while they write one table.
struct Turn {
    /// The part whose turn it is to be appended.
    next: usize,
    file: TableFile,
    failure: Option<Error>,
}

/// Writes one table as a Parquet file of its name into a folder, which is made when missing.
pub(crate) fn write_parquet(source: &dyn TableSource, folder: &Path, threads: Option<usize>) -> Result<GeneratedFile> {
    fs::create_dir_all(folder).map_err(|e| Error::io(format!("make folder {}", folder.display()), &e))?;
    let path = folder.join(format!("{}.{}", source.name(), Format::Parquet.extension()));
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get()));
    write_table(source, &path, Format::Parquet, threads, &|_| ())
}

fn write_table(
    source: &dyn TableSource,
    path: &Path,
    format: Format,
    threads: usize,
    report: &(dyn Fn(u64) + Sync),
) -> Result<GeneratedFile> {
    let (file, encoder) = TableFile::create(path, format, &source.schema())?;
    let parts = source.parts();
    let claimed = AtomicUsize::new(0);
    let rows_done = AtomicU64::new(0);
    let turn = Mutex::new(Turn { next: 0, file, failure: None });
    let turned = Condvar::new();
    let work = || {
        let _guard = EndOnPanic { turn: &turn, turned: &turned };
        loop {
            let index = claimed.fetch_add(1, Ordering::Relaxed);
            if index >= parts {
                return;
            }
            let encoded = encoder.encode(source.part(index), |rows| {
                report(rows_done.fetch_add(rows, Ordering::Relaxed) + rows);
            });
            let held = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let mut held = turned
                .wait_while(held, |turn| turn.next != index && turn.failure.is_none())
                .unwrap_or_else(PoisonError::into_inner);
            if held.failure.is_some() {
                return;
            }
            match encoded.and_then(|part| held.file.append(part)) {
                Ok(()) => held.next += 1,
                Err(failure) => held.failure = Some(failure),
            }
            turned.notify_all();
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(parts) {
            scope.spawn(work);
        }
        work();
    });
    let Turn { file, failure, .. } = turn.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let (rows, bytes) = file.finish()?;
    Ok(GeneratedFile { table: source.name().to_owned(), path: path.to_owned(), rows, bytes })
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Arc;

    use arrow::array::{Int32Array, RecordBatch};
    use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

    use super::*;
    use crate::table_source::Batches;

    /// A table whose part 3 panics.
    struct Broken;

    impl TableSource for Broken {
        fn name(&self) -> &'static str {
            "broken"
        }

        fn schema(&self) -> SchemaRef {
            Arc::new(Schema::new(vec![Field::new("a", DataType::Int32, false)]))
        }

        fn parts(&self) -> usize {
            8
        }

        fn expected_rows(&self) -> u64 {
            8
        }

        fn part(&self, index: usize) -> Batches {
            assert_ne!(index, 3, "this part cannot be made");
            let batch = RecordBatch::try_new(self.schema(), vec![Arc::new(Int32Array::from(vec![1]))]);
            Box::new(std::iter::once(batch.map_err(|error| Error::internal(error.to_string()))))
        }
    }

    #[test]
    fn a_panic_ends_all_threads_and_leaves_no_file() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let path = folder.path().join("broken.tbl");
        for threads in [1, 4] {
            let write = || write_table(&Broken, &path, Format::Tbl, threads, &|_| ());
            // The panic goes on, or what it left is reported.
            let outcome = catch_unwind(AssertUnwindSafe(write));
            assert!(!matches!(outcome, Ok(Ok(_))), "{threads} threads");
            assert_eq!(fs::read_dir(folder.path()).expect("a folder").count(), 0, "{threads} threads");
        }
    }
}
