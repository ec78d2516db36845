//! Parquet files that may hold anything. Before a reader sees them, lengths, nesting and inflated sizes are checked: what is
//! wrong there would end the process, which no catching of panics prevents.
//!
//! Reading order: [`footer`] checks a file when it is opened, [`pages`] what [`reader`] hands over of it; both walk the
//! metadata with [`thrift`]. [`metadata_rows`] and [`schema_rows`] tell what it says. Must not know: what a query asks.

mod footer;
pub(crate) mod metadata_rows;
mod pages;
mod reader;
pub(crate) mod schema_rows;
mod shapes;
mod thrift;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use datafusion::catalog::Session;
use datafusion::datasource::physical_plan::ParquetSource;
use datafusion::execution::memory_pool::MemoryLimit;
use datafusion::parquet::file::metadata::{ParquetMetaData, ParquetMetaDataOptions};
use forebay_base::{Context, Error, Result, limits};
use forebay_context::lock::lock;

use reader::CheckedReaders;

/// What readers of files may take of the memory for queries.
pub(crate) fn memory_bytes(state: &dyn Session) -> usize {
    match state.runtime_env().memory_pool.memory_limit() {
        MemoryLimit::Finite(bytes) => bytes,
        MemoryLimit::Infinite | MemoryLimit::Unknown => usize::MAX,
    }
}

/// What the end of a file says.
pub(crate) struct Known {
    pub(crate) metadata: ParquetMetaData,
    pub(crate) file_bytes: u64,
    pub(crate) footer_bytes: u64,
}

/// What the end of a file says, which is checked.
///
/// # Errors
/// What is wrong, without the file's name.
pub(crate) fn metadata(path: &str, memory_bytes: usize) -> Result<Known> {
    footer::check(path, memory_bytes)?;
    let mut file = std::fs::File::open(path).map_err(|error| Error::io(format!("open {path}"), &error))?;
    let options = ParquetMetaDataOptions::new().with_encoding_stats_as_mask(false);
    footer::known(&mut file, path, memory_bytes, Some(&options))
}

/// Checks what the ends of `files` say.
///
/// # Errors
/// With the file, and the place in it.
pub fn check_files(state: &dyn Session, files: &[String]) -> Result<()> {
    for file in files {
        let metadata = std::fs::metadata(file).map_err(|error| Error::io(format!("read {file}"), &error))?;
        let version = metadata.modified().ok().map(|modified| (metadata.len(), modified, memory_bytes(state)));
        if version.is_some() && last_checked(file) == version {
            continue;
        }
        footer::check(file, memory_bytes(state)).context(|| format!("file {file}"))?;
        if let Some(version) = version {
            note_checked(file, version);
        }
    }
    Ok(())
}

/// A file's length and time, and the memory that it was checked for.
type Version = (u64, SystemTime, usize);

/// Files that were found to be whole, so that queries of the same file do not check it each time.
static CHECKED: Mutex<Option<HashMap<PathBuf, Version>>> = Mutex::new(None);

fn last_checked(file: &str) -> Option<Version> {
    let path = std::path::absolute(file).ok()?;
    lock(&CHECKED).as_ref()?.get(&path).copied()
}

fn note_checked(file: &str, version: Version) {
    let Ok(path) = std::path::absolute(file) else { return };
    let mut known = lock(&CHECKED);
    let known = known.get_or_insert_default();
    if known.len() >= limits::CHECKED_FILES {
        known.clear();
    }
    known.insert(path, version);
}

/// The scan of Parquet files whose readers get nothing unchecked.
///
/// # Errors
/// If nothing reads the files yet, which is a mistake in the program.
pub fn checked_source(source: &ParquetSource, state: &dyn Session) -> Result<ParquetSource> {
    let Some(readers) = source.parquet_file_reader_factory().cloned() else {
        return Err(Error::internal("a Parquet file is scanned without a reader"));
    };
    let readers = CheckedReaders { readers, memory_bytes: memory_bytes(state) };
    Ok(source.clone().with_parquet_file_reader_factory(Arc::new(readers)))
}
