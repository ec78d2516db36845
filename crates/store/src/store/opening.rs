//! Opening a database: what is found becomes the catalog, hot rows, and what is written from now on.
//!
//! Invariant: nothing is written to a directory before it is known to be a sound database or empty.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, RwLock};

use forebay_base::{Context, Error, Result};
use forebay_disk::Disk;

use super::making::{check_directory, create};
use super::{Inner, OpenMode, Store};
use crate::catalog::Catalog;
use crate::checkpoint::checkpoint_found;
use crate::commit_log::{Line, Written};
use crate::data_directories::{DataDirectories, lock_home};
use crate::head::{FORMAT_VERSION, HEAD_PATH, Head};
use crate::hot::HotTables;
use crate::hot_files::remove_others;
use crate::leftovers::remove_leftovers;
use crate::log_limits::LogLimits;
use crate::maintenance::Maintenance;
use crate::manifest::{Checkpointed, MANIFEST_PATH, Manifest};
use crate::recovery::{self, Found, Recovery};
use crate::rows;
use crate::signal::Signal;
use crate::small_file::SmallFile;
use crate::syncer::Syncer;
use crate::volume::{FilePlace, Volume, locked};

impl Store {
    /// Opens a database whose data directories are where `place` leaves them.
    pub(super) fn open_with(
        disk: Arc<dyn Disk>,
        mode: OpenMode,
        holder: &str,
        limits: LogLimits,
        place: impl FnOnce(&mut DataDirectories) -> Result<()>,
    ) -> Result<Self> {
        check_directory(&*disk, mode)?;
        let home = lock_home(disk, mode, holder)?;
        if mode == OpenMode::ReadWrite {
            if !home.disk.exists(HEAD_PATH)? {
                create(&home.disk, DataDirectories::default())?;
            }
            // Also for whoever made the database and failed or was killed just before this.
            home.disk.sync_directory("")?;
        }
        let head = Head::open(&*home.disk, file_mode(mode))?;
        let found = match mode {
            OpenMode::ReadWrite => recovery::load_durable(&*home.disk)?,
            OpenMode::ReadOnly => recovery::load(&*home.disk)?,
        };
        check_complete(&found, head.commit(), &*home.disk)?;
        let mut directories = rows::data_directories(&found.rows).context(|| format!("file {MANIFEST_PATH}"))?;
        place(&mut directories)?;
        let data = directories.open(&*home.disk, mode, holder)?;
        let volume = |files| Arc::new(Volume::new(home, data, files, limits));
        let inner = begun(mode, head, found, volume)?;
        if mode == OpenMode::ReadWrite {
            checkpoint_found(&inner)?;
        }
        Ok(Self::kept(Arc::new(inner)))
    }
}

/// An error where commits are missing that `HEAD` knows of.
fn check_complete(found: &Found, last_commit: u64, disk: &dyn Disk) -> Result<()> {
    let commit = found.root.commit;
    if commit >= last_commit {
        return Ok(());
    }
    let message = format!("the manifest and its redo log end with commit {commit} though {last_commit} was the last");
    let hint = "Commits that were durable are lost: restore the directory from a backup";
    Err(Error::corrupt(message).context(place_of_commits(disk, &found.report)).hint(hint))
}

/// The state of a database that was found so.
fn begun(
    mode: OpenMode,
    head: Head,
    found: Found,
    volume: impl FnOnce(BTreeMap<FilePlace, SmallFile>) -> Arc<Volume>,
) -> Result<Inner> {
    let Found { rows, root, in_manifest, hot_rows, hot_changed, small_files, logs, report } = found;
    let volume = volume(small_files);
    let mut catalog = rows::decode(&rows, &root, &volume).context(|| format!("file {MANIFEST_PATH}"))?;
    let hot = HotTables::found(&hot_rows, &catalog, &volume).context(|| format!("file {MANIFEST_PATH}"))?;
    hot.publish(&mut catalog, &Catalog::default(), true);
    if mode == OpenMode::ReadWrite {
        volume.directories().try_for_each(|(id, disk)| remove_leftovers(&**disk, id, &catalog))?;
        remove_others(&*volume.disk, &in_manifest.hot_files)?;
        logs.iter().try_for_each(|log| log.make_durable(&*volume.disk))?;
    }
    let catalog = Arc::new(catalog);
    // Commits change rows of the newest format only.
    let rows = if root.version == FORMAT_VERSION { rows } else { rows::encode(&catalog, root.next_file) };
    let manifest = Manifest::new(Arc::clone(&volume.disk));
    let old_logs = logs.into_iter().map(|log| log.path).collect();
    let (log, dropped, last_commit) = (None, Vec::new(), catalog.commit);
    let is_newest_format = in_manifest.version == FORMAT_VERSION;
    let written = Written { head, log, old_logs, is_newest_format, dropped, last_commit, hot_changed };
    let checkpointed = Checkpointed::new(manifest, in_manifest);
    let written = Arc::new(Mutex::new(written));
    Ok(Inner {
        syncer: Syncer::new(sync_of(&written, &volume)),
        written,
        checkpointed: Mutex::new(checkpointed),
        maintenance: Maintenance::default(),
        volume,
        mode,
        hot,
        line: Line::new(Arc::clone(&catalog), rows),
        log_bytes: AtomicU64::new(0),
        recovery: report,
        catalog: RwLock::new(catalog),
        next_file: AtomicU64::new(root.next_file),
        next_object: AtomicU64::new(root.next_object),
        writing: Mutex::new(false),
        written_or_dropped: Signal::default(),
        held: Arc::default(),
    })
}

/// What makes commits durable later. A sync that fails closes the database, which the next commit is told.
fn sync_of(written: &Arc<Mutex<Written>>, volume: &Arc<Volume>) -> impl Fn() + Send + Sync + 'static {
    let (written, volume) = (Arc::clone(written), Arc::clone(volume));
    move || drop(locked(&written).sync_log(&volume))
}

fn file_mode(mode: OpenMode) -> forebay_disk::OpenMode {
    match mode {
        OpenMode::ReadWrite => forebay_disk::OpenMode::Write,
        OpenMode::ReadOnly => forebay_disk::OpenMode::Read,
    }
}

/// Where commits are missing: what was cut from the log, or the manifest.
fn place_of_commits(disk: &dyn Disk, report: &Recovery) -> String {
    match report.cut.last() {
        Some(cut) => format!("file {} at {} of {}", cut.file, cut.offset, disk.describe()),
        None => format!("file {MANIFEST_PATH} of {}", disk.describe()),
    }
}
