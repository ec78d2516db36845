//! CHECK DATABASE: reads every byte that has a checksum, and says where one does not match.
//!
//! Must not know: what values mean; blocks are inflated and validated by `forebay_block`.

use forebay_base::{Context, Error, ErrorKind, Result};
use forebay_block::{Inflate, inflate_chunk};

use crate::catalog::{Catalog, Table};
use crate::head::Head;
use crate::hot_files;
use crate::leftovers::leftovers;
use crate::recovery;
use crate::rows;
use crate::segment::Segment;
use crate::store::Store;
use crate::volume::{DATABASE_DIRECTORY, locked};

/// Errors that a check reports in full; it counts the others.
pub const CHECK_ERRORS: usize = 100;

/// What a check found.
#[derive(Debug, Default)]
pub struct CheckReport {
    /// Tables looked at.
    pub tables: u64,
    /// Segment files looked at.
    pub segments: u64,
    /// Chunks looked at.
    pub chunks: u64,
    /// Bytes of segment files looked at.
    pub bytes: u64,
    /// The first [`CHECK_ERRORS`] errors; each names table, column, chunk and file as far as they are known.
    pub errors: Vec<Error>,
    /// Number of errors.
    pub error_count: u64,
    /// Files that neither a table nor the manifest names (the next read-write open removes them).
    pub orphans: Vec<String>,
}

impl CheckReport {
    /// Counts an error that says that something is damaged; any other one says that it could not be looked at.
    fn note(&mut self, error: Error) -> Result<()> {
        if !matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound) {
            return Err(error);
        }
        self.error_count += 1;
        if self.errors.len() < CHECK_ERRORS {
            self.errors.push(error);
        }
        Ok(())
    }
}

impl Store {
    /// Verifies `HEAD`, the manifest, every footer, every chunk and every fact. `progress` gets bytes done and in all; its error (a
    /// cancellation) ends the check. Commits wait meanwhile; readers do not.
    ///
    /// # Errors
    /// What is damaged is in the report. What cannot be read for another reason ends the check.
    pub fn check(&self, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<CheckReport> {
        let _files_stand_still = self.pause_writers();
        self.inner.line.drain(&self.inner);
        let volume = self.volume();
        let catalog = self.catalog();
        let mut report = CheckReport::default();
        for error in Head::check(&*volume.disk)? {
            report.note(error)?;
        }
        let checkpointed = locked(&self.inner.checkpointed);
        let loaded = recovery::load(&*volume.disk);
        report.orphans = hot_files::others(&*volume.disk, checkpointed.hot_files())?;
        drop(checkpointed);
        match loaded.and_then(|found| rows::decode(&found.rows, &found.root, volume).map(|_| found.root)) {
            Ok(root) if root.commit == catalog.commit_number() => {}
            Ok(root) => report.note(Error::corrupt(format!(
                "the manifest on disk is of commit {} instead of {}",
                root.commit,
                catalog.commit_number()
            )))?,
            Err(error) => report.note(error)?,
        }
        for (directory, disk) in volume.directories() {
            for path in leftovers(&**disk, directory, &catalog)? {
                // A reader may have let go of it, which removes it, since the folder was listed.
                if !volume.is_unnamed_path(directory, &path) && disk.exists(&path)? {
                    let is_own = directory == DATABASE_DIRECTORY;
                    report.orphans.push(if is_own { path } else { format!("{}/{path}", disk.describe()) });
                }
            }
        }
        check_tables(&catalog, &mut report, progress)?;
        check_facts(&catalog, &mut report)?;
        Ok(report)
    }
}

fn check_tables(
    catalog: &Catalog,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64, u64) -> Result<()>,
) -> Result<()> {
    let total = catalog.segments().map(|segment| segment.file_bytes()).sum();
    for table in catalog.tables() {
        report.tables += 1;
        for segment in table.all_segments().filter(|segment| !segment.is_hot()) {
            progress(report.bytes, total)?;
            let bytes_before = report.bytes;
            let checked = segment
                .check_frame()
                .and_then(|()| segment.check_deleted())
                .and_then(|()| check_chunks(table, segment, report, &mut |done| progress(done, total)))
                .context(|| format!("table {}", table.full_name()));
            if let Err(error) = checked {
                report.note(error)?;
            }
            report.segments += 1;
            report.bytes = bytes_before + segment.file_bytes();
        }
    }
    progress(total, total)
}

fn check_facts(catalog: &Catalog, report: &mut CheckReport) -> Result<()> {
    for fact in catalog.facts() {
        let table = catalog.table_by_id(fact.definition().table);
        let name = || table.map_or_else(String::new, |table| format!("table {}", table.full_name()));
        if let Err(error) = fact.read().context(name) {
            report.note(error)?;
        }
    }
    Ok(())
}

fn check_chunks(
    table: &Table,
    segment: &Segment,
    report: &mut CheckReport,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    for (group_index, group) in segment.groups()?.iter().enumerate() {
        for (column_index, column) in group.columns.iter().enumerate() {
            let id = segment.columns()[column_index].0;
            let name = table.column_by_id(id).map_or("(dropped)", |(_, column)| column.name.as_str());
            for (chunk, location) in column.chunks.iter().enumerate() {
                let checked = check_chunk(segment, group_index, column_index, chunk);
                if let Err(error) = checked {
                    let place = segment.describe_chunk(name, &table.full_name(), group_index, chunk);
                    report.note(error.context(place))?;
                }
                report.chunks += 1;
                report.bytes += location.stored_bytes;
                progress(report.bytes)?;
            }
        }
    }
    Ok(())
}

/// Reads and inflates one chunk, and compares it with what the footer says of it.
fn check_chunk(segment: &Segment, group_index: usize, column_index: usize, chunk: usize) -> Result<()> {
    let group = &segment.groups()?[group_index];
    let column = &group.columns[column_index];
    let directory = segment.directory(group_index, column_index, chunk)?;
    let stored = segment.read_chunk((group_index, column_index, chunk))?;
    let inflated = inflate_chunk(directory, &stored, segment.columns()[column_index].1, &Inflate::default())?;
    let first = chunk << column.blocks_log2;
    let zones = &column.zones[first..column.zones.len().min(first + (1 << column.blocks_log2))];
    if inflated.blocks() != zones.len() {
        return Err(Error::corrupt("the chunk has another number of blocks than the footer says"));
    }
    for (index, zone) in zones.iter().enumerate() {
        let block = inflated.block(index);
        if block.rows() as u64 != u64::from(zone.rows) || block.null_count() as u64 != u64::from(zone.null_count) {
            return Err(Error::corrupt(format!("block {index} has other rows or NULLs than the footer says")));
        }
    }
    Ok(())
}
