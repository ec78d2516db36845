//! BACKUP TO: a copy of the database as of one commit, in a directory of its own, while others read and write.
//!
//! The catalog of that commit keeps its files of rows from being removed, and its snapshot keeps the hot rows that it sees; so nobody waits, and the copy is
//! what a reader of that moment sees. Files of segments and facts are copied as they are, from all data directories into the one of the copy; hot rows go to a
//! file of their own, as a checkpoint writes them.
//!
//! Invariants: nothing is written to the database itself; `HEAD` comes last, so that a copy that did not get to its end is no database. Must not
//! know: what is in files of rows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_base::{Context, Error, Result, TableId};
use forebay_disk::{Disk, OpenMode as FileMode};

use crate::catalog::Catalog;
use crate::data_directories::lock_home;
use crate::data_file::DataFile;
use crate::head::{HEAD_DRAFT_PATH, HEAD_PATH, Head};
use crate::hot_files::{HotFile, NewHotFile, is_hot_file};
use crate::log_limits::LogLimits;
use crate::manifest::{MANIFEST_PATH, Manifest};
use crate::rows;
use crate::store::{LOCK_PATH, OpenMode, Store};
use crate::volume::{DATABASE_DIRECTORY, FilePlace, SEGMENTS_DIRECTORY, Volume};

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// Hot rows that are written before it is asked whether to go on.
const ASKED_ROWS: u64 = 1 << 12;

/// What a backup has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupReport {
    /// The number of the commit after which it shows the database.
    pub commit: u64,
    /// Files of segments and facts.
    pub files: u64,
    /// Their bytes.
    pub file_bytes: u64,
    /// Hot rows, with what is noted of rows of segments that were deleted one by one.
    pub hot_rows: u64,
}

impl Store {
    /// Copies the database as of the last commit into the root of `target`, which is missing or empty, and makes the copy durable: a database of its
    /// own, all of whose tables lie in that directory. `progress` gets bytes done and in all; its error (a cancellation) ends the backup. `holder` says
    /// who is at it to those who open `target` too early.
    ///
    /// # Errors
    /// `Input` where there is something in `target` already; `Locked`; those of reading and writing. Nothing is left there then that could be
    /// taken for a backup.
    pub fn back_up(
        &self,
        target: Arc<dyn Disk>,
        holder: &str,
        progress: &mut dyn FnMut(u64, u64) -> Result<()>,
    ) -> Result<BackupReport> {
        target.create_directory("")?;
        check_empty(&*target)?;
        let home = lock_home(Arc::clone(&target), OpenMode::ReadWrite, holder)?;
        // Nobody else was at it meanwhile.
        check_empty(&*target)?;
        let copy = Volume::new(home, Vec::new(), BTreeMap::new(), LogLimits::default());
        let made = self.copy_to(&copy, progress);
        if made.is_err() {
            remove_all(&*target);
        }
        made.context(|| format!("a backup in {}", target.describe()))
    }

    fn copy_to(&self, copy: &Volume, progress: &mut dyn FnMut(u64, u64) -> Result<()>) -> Result<BackupReport> {
        let catalog = self.catalog();
        // Behind the catalog: all of its files have smaller numbers.
        let next_file = self.inner.next_file.load(Ordering::Relaxed);
        let disk = &copy.disk;
        disk.create_directory(SEGMENTS_DIRECTORY)?;
        let (mut files, mut done) = (0, 0);
        let all = catalog.segments().map(|segment| segment.file_bytes()).sum::<u64>()
            + catalog.facts().map(|fact| fact.file_bytes()).sum::<u64>();
        for file in files_of(&catalog) {
            files += 1;
            let mut noted = |bytes| progress(done + bytes, all);
            done += copy_file(file, &**disk, &mut noted)?;
        }
        disk.sync_directory(SEGMENTS_DIRECTORY)?;
        let rows = rows::encode_in_one_directory(&catalog, next_file);
        let hot = hot_rows(&catalog, copy, &mut || progress(done, all))?;
        let mut manifest = Manifest::new(Arc::clone(disk));
        manifest.create(&rows, hot.as_slice())?;
        // Closed, so that whoever opens it next finds nothing to repair.
        drop(manifest);
        disk.sync_directory("")?;
        Head::create(&**disk, catalog.commit_number())?;
        disk.sync_directory("")?;
        let hot_rows = hot.map_or(0, |file| file.records);
        Ok(BackupReport { commit: catalog.commit_number(), files, file_bytes: done, hot_rows })
    }
}

/// The files of segments and facts that a catalog names.
fn files_of(catalog: &Catalog) -> impl Iterator<Item = &DataFile> {
    let segments = catalog.segments().filter(|segment| !segment.is_hot()).map(|segment| segment.data_file());
    segments.chain(catalog.facts().map(|fact| fact.data_file()))
}

/// Copies a file and makes it durable, but for its name; its bytes.
fn copy_file(file: &DataFile, target: &dyn Disk, progress: &mut dyn FnMut(u64) -> Result<()>) -> Result<u64> {
    let place = FilePlace { directory: DATABASE_DIRECTORY, ..file.place() };
    let (from, to) = (file.open()?, target.open(&place.path(), FileMode::Create)?);
    let bytes = from.len()?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let piece = &mut buffer[..usize::try_from(bytes - offset).map_or(COPY_BYTES, |rest| rest.min(COPY_BYTES))];
        from.read_at(offset, piece).context(|| format!("file {}", file.path()))?;
        to.write_at(offset, piece)?;
        offset += piece.len() as u64;
        progress(offset)?;
    }
    to.sync()?;
    Ok(bytes)
}

/// Writes the hot rows that a catalog sees to a file; `None` where there are none. `go_on` is asked now and then.
fn hot_rows(catalog: &Catalog, copy: &Volume, go_on: &mut dyn FnMut() -> Result<()>) -> Result<Option<HotFile>> {
    let (view, is_there) = (&catalog.hot, |id: TableId| catalog.stored_table(id).is_some());
    if view.count(is_there) == 0 {
        return Ok(None);
    }
    let (mut file, mut count) = (NewHotFile::create(copy, 1)?, 0_u64);
    let written = view.each(is_there, |id| {
        count += 1;
        if count % ASKED_ROWS == 0 {
            go_on()?;
        }
        file.row(id, |out| view.push(id, out))
    });
    match written {
        Ok(()) => file.finish().map(Some),
        Err(error) => {
            file.remove();
            Err(error)
        }
    }
}

/// An error where there is something in a directory but what a backup leaves that failed.
fn check_empty(target: &dyn Disk) -> Result<()> {
    let segments = format!("{SEGMENTS_DIRECTORY}/");
    for name in target.list("")? {
        let is_empty = match () {
            () if name == LOCK_PATH || name == "lost+found/" => true,
            () if name == segments => target.list(SEGMENTS_DIRECTORY)?.is_empty(),
            () => false,
        };
        if !is_empty {
            let message = format!("{} is not empty: it has {name}", target.describe());
            return Err(Error::input(message).hint("Name a new directory for the backup, or an empty one"));
        }
    }
    Ok(())
}

/// Removes what a backup has written, as far as that is possible.
fn remove_all(target: &dyn Disk) {
    // HEAD first: what has none is no database.
    let _may_not_be_there = target.remove(HEAD_PATH).and_then(|()| target.sync_directory(""));
    let mut names = vec![HEAD_DRAFT_PATH.to_owned(), MANIFEST_PATH.to_owned()];
    names.extend(target.list("").unwrap_or_default().into_iter().filter(|name| is_hot_file(name)));
    let segments = target.list(SEGMENTS_DIRECTORY).unwrap_or_default();
    names.extend(segments.into_iter().map(|name| format!("{SEGMENTS_DIRECTORY}/{name}")));
    for name in names {
        let _may_not_be_there = target.remove(&name);
    }
}
