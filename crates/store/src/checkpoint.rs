//! A checkpoint: the manifest gets what the redo log has, small files get their places in folders, and the log begins anew.
//!
//! ```text
//! begin     with the writer's turn: the log is synced and set aside, later commits go to a new file of it
//! finish    beside those who commit: small files, the manifest with the hot rows of that moment; then the old log goes
//! ```
//!
//! Invariants: files are durable before the manifest relies on them, and the manifest before the log goes; so a power loss at any point
//! leaves the old manifest with its logs, or the new one with the later log. Until it has succeeded, small files are read from memory. Must not
//! know: tables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_base::{DirectoryId, ErrorKind, Result, TableId};

use crate::catalog::Catalog;
use crate::hot::HotRowId;
use crate::manifest::Checkpointed;
use crate::rows::Rows;
use crate::store::{Inner, Store, WriterTurn};
use crate::volume::{FilePlace, SEGMENTS_DIRECTORY, Volume, locked};

/// Logs that have grown so many times as long as one is due at wait for the checkpoint.
const MOST_LOGS: u64 = 4;

impl Store {
    /// Writes the manifest and begins the redo log anew. Commits wait until the log is synced, and not for the manifest.
    ///
    /// # Errors
    /// `OutOfSpace` and others of writing: then all is as it was, in the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.checkpoint_beside(|| ())
    }

    /// The same; `meanwhile` is called once commits of others do not wait any more.
    ///
    /// # Errors
    /// As [`Store::checkpoint`].
    pub fn checkpoint_beside(&self, meanwhile: impl FnOnce()) -> Result<()> {
        self.check_writable()?;
        let inner = &self.inner;
        // Nobody has to wait for one that is being made already.
        drop(locked(&inner.checkpointed));
        let turn = WriterTurn::take(inner);
        inner.line.drain(inner);
        let mut checkpointed = locked(&inner.checkpointed);
        let Some(begun) = begin(inner)? else {
            drop((checkpointed, turn));
            meanwhile();
            return Ok(());
        };
        drop(turn);
        meanwhile();
        finish(inner, &mut checkpointed, begun)
    }

    /// Puts the hot rows of all tables into segments. Those of a table that a transaction is changing stay as they are.
    ///
    /// # Errors
    /// Those of writing.
    pub fn freeze(&self) -> Result<()> {
        self.check_writable()?;
        for id in self.catalog().hot_tables() {
            match self.freeze_table(id) {
                Err(error) if [ErrorKind::Conflict, ErrorKind::NotFound].contains(&error.kind()) => {}
                other => other?,
            }
        }
        self.inner.hot.tidy();
        Ok(())
    }

    /// Puts the hot rows of a table into segments.
    ///
    /// # Errors
    /// `Conflict` where a transaction is changing some; `NotFound`; those of writing.
    pub fn freeze_table(&self, id: TableId) -> Result<()> {
        let mut transaction = self.begin()?;
        transaction.freeze_hot(id)?;
        transaction.commit()
    }

    /// Puts hot rows into segments that have not been changed since this was done last, chunk by chunk: who meanwhile changes a row keeps that
    /// chunk hot. Rows of segments that were deleted one by one get marks. `rest` is called after each chunk with the time that it
    /// took; where it says so, the others stay hot.
    pub(crate) fn freeze_cold(&self, rest: &dyn Fn(Duration) -> bool) {
        let hot = &self.inner.hot;
        let deletions = hot.tables_with_deletions().into_iter().map(|id| (id, None));
        let chunks = hot
            .cold_chunks()
            .into_iter()
            .flat_map(|(id, chunks)| chunks.into_iter().map(move |chunk| (id, Some(chunk))));
        let all: Vec<(TableId, Option<u32>)> = deletions.chain(chunks).collect();
        for (id, chunk) in &all {
            let begun = Instant::now();
            self.freeze_chunk(*id, *chunk);
            // Whoever looks for rows of segments looks for their deletions, too: these do not wait.
            if chunk.is_some() && rest(begun.elapsed()) {
                break;
            }
        }
        if !all.is_empty() {
            hot.tidy();
        }
    }

    /// Puts hot rows into segments, whether they are cold or not, until they take little enough memory; those stay that open transactions
    /// have changed.
    fn freeze_most(&self) {
        let hot = &self.inner.hot;
        hot.memory.freezing();
        hot.close_chunks();
        self.freeze_cold(&|_| false);
        hot.tidy();
        for (id, chunk) in hot.unchanging_chunks() {
            if hot.memory.is_low() {
                return;
            }
            self.freeze_chunk(id, Some(chunk));
            hot.tidy();
        }
    }

    /// Puts the rows of a hot chunk into a segment, or makes marks of rows that were deleted one by one.
    fn freeze_chunk(&self, id: TableId, chunk: Option<u32>) {
        let frozen = self.begin_on(self.catalog()).and_then(|mut transaction| {
            match chunk {
                None => transaction.mark_deletions(id)?,
                Some(chunk) => transaction.freeze_chunks(id, &[chunk])?,
            }
            transaction.commit()
        });
        // They stay where they are; the next time tries again.
        let _they_are_hot_still = frozen;
    }
}

/// While cold rows are put into segments nothing is done for so many times as long as something was: others have the processor.
const RESTS: u32 = 3;

/// Has a checkpoint made where the log has grown long, and hot rows put into segments: those that nobody has changed since the last one, and
/// most of them where they take too much memory. For who has committed.
pub(crate) fn checkpoint_if_due(inner: &Arc<Inner>) {
    let bytes = inner.log_bytes.load(Ordering::Relaxed);
    let memory = &inner.hot.memory;
    if bytes < inner.volume.limits.log_bytes && !memory.is_high() {
        if memory.is_higher() {
            inner.maintenance.wait();
        }
        return;
    }
    let database = Arc::downgrade(inner);
    // The database is held while something is done only.
    let work = move || drop(database.upgrade().inspect(maintain));
    match inner.volume.limits.beside_others && inner.maintenance.request(work) {
        true if bytes >= MOST_LOGS * inner.volume.limits.log_bytes || memory.is_higher() => {
            inner.maintenance.wait();
        }
        true => {}
        false => maintain(inner),
    }
}

/// Makes the checkpoint that is due, and puts hot rows into segments. What stands in its way is tried again when the log has grown as much
/// again.
fn maintain(inner: &Arc<Inner>) {
    let is_made = make_due(inner);
    let (store, hot) = (Store::internal(inner), &inner.hot);
    if hot.memory.is_high() {
        return store.freeze_most();
    }
    if is_made && hot.are_many(inner.volume.limits.hot_bytes) {
        let rest = |took: Duration| match inner.volume.limits.beside_others {
            true => inner.maintenance.rest(took * RESTS),
            false => false,
        };
        store.freeze_cold(&rest);
    }
}

/// Makes the checkpoint that is due; whether there is a new one.
fn make_due(inner: &Arc<Inner>) -> bool {
    let is_due = || inner.log_bytes.load(Ordering::Relaxed) >= inner.volume.limits.log_bytes;
    // Most of it is durable before anybody has to wait for that.
    let log = if is_due() { locked(&inner.written).log.as_ref().map(|log| log.file()) } else { return false };
    if let Some(Err(error)) = log.map(|file| file.sync()) {
        inner.volume.fail(&error);
        return false;
    }
    let turn = WriterTurn::take(inner);
    inner.line.drain(inner);
    // Somebody else may be making one, or have made it.
    let Ok(mut checkpointed) = inner.checkpointed.try_lock() else { return false };
    let begun = if is_due() { begin(inner) } else { Ok(None) };
    drop(turn);
    match begun {
        Ok(Some(begun)) => finish(inner, &mut checkpointed, begun).is_ok(),
        _ => false,
    }
}

/// Makes a checkpoint, for who has the writer's turn or is the last one.
pub(crate) fn checkpoint(inner: &Inner) -> Result<()> {
    inner.line.drain(inner);
    let mut checkpointed = locked(&inner.checkpointed);
    match begin(inner)? {
        Some(begun) => finish(inner, &mut checkpointed, begun),
        None => Ok(()),
    }
}

/// A checkpoint that has begun.
struct Begun {
    catalog: Arc<Catalog>,
    rows: Rows,
    /// Hot rows that have changed since the one before.
    hot: Vec<HotRowId>,
    /// Files of the log that go.
    logs: Vec<String>,
}

/// Begins one of everything that is committed, for who has the writer's turn while nobody is in line; `None` where the manifest has all of it.
fn begin(inner: &Inner) -> Result<Option<Begun>> {
    let volume = &inner.volume;
    volume.check_writable()?;
    let mut written = locked(&inner.written);
    if written.log.is_none() && written.old_logs.is_empty() {
        return Ok(None);
    }
    // HEAD is to tell of no commit that a power loss could take, and no log is to begin before the one before it is durable.
    written.sync_log(volume)?;
    let catalog = inner.catalog();
    written.head.refresh()?;
    written.head.sync().inspect_err(|error| volume.fail(error))?;
    written.head.note(catalog.commit)?;
    written.head.sync().inspect_err(|error| volume.fail(error))?;
    let log = written.log.take().map(|log| log.path());
    written.old_logs.extend(log);
    inner.log_bytes.store(0, Ordering::Relaxed);
    let (hot, logs) = (written.hot_changed.take(), written.old_logs.clone());
    Ok(Some(Begun { catalog, rows: inner.line.rows(), hot, logs }))
}

/// Writes what has begun. Where that fails all is as it was, in the logs.
fn finish(inner: &Inner, checkpointed: &mut Checkpointed, begun: Begun) -> Result<()> {
    let Begun { catalog, rows, hot, logs } = begun;
    let volume = &inner.volume;
    let places = catalog.segments().map(|segment| segment.data_file().place());
    let small: Vec<FilePlace> = places.filter(|place| volume.small_file(*place).is_some()).collect();
    let made = write_files(volume, &small)
        .inspect_err(|_| remove_files(volume, &small))
        .and_then(|()| checkpointed.replace(volume, rows, &hot, &catalog));
    if let Err(error) = made {
        locked(&inner.written).hot_changed.add(&hot);
        return Err(error);
    }
    small.iter().for_each(|place| volume.forget_small_file(*place));
    locked(&inner.written).old_logs.retain(|path| !logs.contains(path));
    for path in logs {
        // What stays has nothing that the manifest lacks.
        let _later_checkpoints_skip_it = volume.disk.remove(&path);
    }
    Ok(())
}

/// Writes files that are in memory to their folders, durably.
fn write_files(volume: &Volume, places: &[FilePlace]) -> Result<()> {
    for place in places {
        let Some(small) = volume.small_file(*place) else { continue };
        let disk = volume.disk_of(*place);
        let path = place.path();
        // A checkpoint that did not get to its end may have left it.
        if disk.exists(&path)? {
            disk.remove(&path)?;
        }
        let file = disk.open(&path, forebay_disk::OpenMode::Create)?;
        small.write_to(&*file)?;
        volume.sync(&*file)?;
    }
    let directories: BTreeSet<DirectoryId> = places.iter().map(|place| place.directory).collect();
    for (_, disk) in volume.directories().filter(|(id, _)| directories.contains(id)) {
        let folder = disk.open_directory(SEGMENTS_DIRECTORY)?;
        folder.sync().inspect_err(|error| volume.fail(error))?;
    }
    Ok(())
}

/// Removes files of a checkpoint that came to nothing.
fn remove_files(volume: &Volume, places: &[FilePlace]) {
    for place in places {
        let _left_for_the_next_one = volume.disk_of(*place).remove(&place.path());
    }
}

/// Makes a checkpoint of a log that was found when the database was opened. Where there is no room for it the log stays.
pub(crate) fn checkpoint_found(inner: &Inner) -> Result<()> {
    match checkpoint(inner) {
        Err(error) if error.kind() == ErrorKind::OutOfSpace => inner.volume.check_writable(),
        other => other,
    }
}
