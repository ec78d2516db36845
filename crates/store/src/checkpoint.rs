//! A checkpoint: the manifest gets what the redo log has, small files get their places in folders, and the log begins anew.
//!
//! Invariants: files are durable before the manifest relies on them, and the manifest before the log goes; so a power loss at any point
//! leaves the old manifest with its log, or the new one. Until it has succeeded, small files are read from memory. Must not know: tables.

use std::collections::BTreeSet;

use forebay_base::{DirectoryId, ErrorKind, Result, TableId};
use std::sync::atomic::Ordering;

use crate::commit_log::replace_manifest;
use crate::store::{Inner, Store, WriterTurn};
use crate::volume::{FilePlace, SEGMENTS_DIRECTORY, Volume, locked};

impl Store {
    /// Writes the manifest and begins the redo log anew. Commits wait meanwhile; readers do not.
    ///
    /// # Errors
    /// `OutOfSpace` and others of writing: then all is as it was, in the log.
    pub fn checkpoint(&self) -> Result<()> {
        self.check_writable()?;
        let _turn = WriterTurn::take(&self.inner);
        checkpoint(&self.inner)
    }

    /// Puts the hot rows of all tables into segments. Those of a table that a transaction is changing stay as they are.
    ///
    /// # Errors
    /// Those of writing.
    pub fn freeze(&self) -> Result<()> {
        self.check_writable()?;
        for id in self.catalog().hot_tables() {
            let mut transaction = self.begin()?;
            let frozen = transaction.freeze_hot(id).and_then(|()| transaction.commit());
            match frozen {
                Err(error) if [ErrorKind::Conflict, ErrorKind::NotFound].contains(&error.kind()) => {}
                other => other?,
            }
        }
        self.inner.hot.tidy();
        Ok(())
    }

    /// Makes a checkpoint where the log has grown long, and puts hot rows into segments that nobody has changed since the last one. What stands
    /// in its way is tried again when the log has grown as much again.
    pub(crate) fn checkpoint_if_due(&self) {
        let inner = &self.inner;
        if inner.log_bytes.load(Ordering::Relaxed) < inner.checkpoint_at.load(Ordering::Relaxed) {
            return;
        }
        let turn = WriterTurn::take(inner);
        // Somebody else may have made it meanwhile.
        let bytes = inner.log_bytes.load(Ordering::Relaxed);
        if bytes < inner.checkpoint_at.load(Ordering::Relaxed) {
            return;
        }
        let made = checkpoint(inner);
        drop(turn);
        match made {
            Ok(()) => self.freeze_cold(),
            Err(_) => inner.checkpoint_at.store(bytes + inner.volume.limits.log_bytes, Ordering::Relaxed),
        }
    }

    /// Puts hot rows into segments that have not been changed since this was done last, chunk by chunk: who meanwhile changes a row keeps that
    /// chunk hot. Rows of segments that were deleted one by one get marks.
    pub(crate) fn freeze_cold(&self) {
        let hot = &self.inner.hot;
        let deletions = hot.tables_with_deletions().into_iter().map(|id| (id, None));
        let chunks = hot
            .cold_chunks()
            .into_iter()
            .flat_map(|(id, chunks)| chunks.into_iter().map(move |chunk| (id, Some(chunk))));
        let all: Vec<(TableId, Option<u32>)> = deletions.chain(chunks).collect();
        for (id, chunk) in &all {
            let frozen = self.begin_on(self.catalog()).and_then(|mut transaction| {
                match chunk {
                    None => transaction.mark_deletions(*id)?,
                    Some(chunk) => transaction.freeze_chunks(*id, &[*chunk])?,
                }
                transaction.commit()
            });
            // They stay where they are; the next checkpoint tries again.
            let _they_are_hot_still = frozen;
        }
        if !all.is_empty() {
            hot.tidy();
        }
    }
}

/// The same for who has the writer's turn, or is the last one.
pub(crate) fn checkpoint(inner: &Inner) -> Result<()> {
    inner.line.drain(inner);
    let volume = &inner.volume;
    volume.check_writable()?;
    let mut written = locked(&inner.written);
    let written = &mut *written;
    if written.log.is_none() && written.found_logs.is_empty() {
        return Ok(());
    }
    // HEAD is to tell of no commit that a power loss could take.
    written.sync_log(volume)?;
    let catalog = inner.catalog();
    let places = catalog.segments().map(|segment| segment.data_file().place());
    let small: Vec<FilePlace> = places.filter(|place| volume.small_file(*place).is_some()).collect();
    write_files(volume, &small).inspect_err(|_| remove_files(volume, &small))?;
    written.head.refresh()?;
    written.head.sync().inspect_err(|error| volume.fail(error))?;
    written.head.note(catalog.commit)?;
    written.head.sync().inspect_err(|error| volume.fail(error))?;
    replace_manifest(inner, written, inner.line.rows())?;
    small.iter().for_each(|place| volume.forget_small_file(*place));
    let done = written.log.take().map(|log| log.path());
    for path in written.found_logs.drain(..).chain(done) {
        // What stays has nothing that the manifest lacks.
        let _later_checkpoints_skip_it = volume.disk.remove(&path);
    }
    inner.log_bytes.store(0, Ordering::Relaxed);
    inner.checkpoint_at.store(volume.limits.log_bytes, Ordering::Relaxed);
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
