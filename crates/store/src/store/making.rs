//! Making a database, and what a folder has to be like for that.
//!
//! Invariant: nothing of a folder is touched that may be anything else.

use std::sync::Arc;

use forebay_base::{Error, ErrorKind, Result};
use forebay_disk::Disk;

use super::{LOCK_PATH, OpenMode};
use crate::catalog::{Catalog, DEFAULT_SCHEMA, Objects, Schema, fold};
use crate::data_directories::{DataDirectories, MARKER_PATH};
use crate::head::{HEAD_DRAFT_PATH, HEAD_PATH, Head};
use crate::hot_files::is_hot_file;
use crate::manifest::{self, MANIFEST_PATH, Manifest};
use crate::record_log::{LOG_OLD_PATH, LOG_PATH};
use crate::redo_log::is_redo_log;
use crate::rows;
use crate::side_file::{PLAN_DRAFT_PATH, PLAN_PATH};
use crate::volume::SEGMENTS_DIRECTORY;

/// An error where there is a database.
pub(super) fn check_absent(disk: &dyn Disk) -> Result<()> {
    if !disk.exists(HEAD_PATH)? {
        return Ok(());
    }
    let message = format!("there is a database in {} already", disk.describe());
    Err(Error::new(ErrorKind::AlreadyExists, message).hint("Name another directory, or remove that one first"))
}

/// Refuses a directory that is not a database and cannot become one, before anything in it is touched.
pub(super) fn check_directory(disk: &dyn Disk, mode: OpenMode) -> Result<()> {
    if disk.exists(HEAD_PATH)? {
        return Ok(());
    }
    let segments = format!("{SEGMENTS_DIRECTORY}/");
    let side_files = [LOG_PATH, LOG_OLD_PATH, PLAN_PATH, PLAN_DRAFT_PATH];
    let ours = [LOCK_PATH, MANIFEST_PATH, HEAD_DRAFT_PATH, &segments];
    let names = disk.list("")?;
    let has = |path: &str| names.iter().any(|name| name == path);
    let place = disk.describe();
    if has(MARKER_PATH) {
        let message = format!("{place} is a data directory of a database, not a database: it has a file {MARKER_PATH}");
        return Err(Error::input(message).hint("Name the directory of the database itself"));
    }
    let is_of_commits = |name: &&String| is_redo_log(name) || is_hot_file(name);
    let has_commits = names.iter().any(|name| is_of_commits(&name));
    if let Some(foreign) = names
        .iter()
        .filter(|name| !is_of_commits(name))
        .find(|name| !ours.iter().chain(&side_files).any(|known| known == name))
    {
        let message = format!("{place} is not a Forebay database: it has no file {HEAD_PATH}, but it has {foreign}");
        return Err(Error::input(message).hint("Name another directory; a new or empty one becomes a database"));
    }
    // A database is made HEAD last. Without HEAD there is nothing to lose, unless HEAD itself was lost.
    let has_segments = has(&segments) && !disk.list(SEGMENTS_DIRECTORY)?.is_empty();
    if has_segments || has_commits || (has(MANIFEST_PATH) && has_history(disk)?) {
        let message = format!("the file {HEAD_PATH} of database {place} is missing");
        return Err(Error::corrupt(message).hint("Restore it from a backup of the directory"));
    }
    match mode {
        OpenMode::ReadWrite => Ok(()),
        OpenMode::ReadOnly => {
            let message = format!("there is no database at {place}");
            Err(Error::new(ErrorKind::NotFound, message).hint("Open it without read-only to make one"))
        }
    }
}

/// Whether the manifest has seen a commit after the one that made it. One that a crash left half made has not.
fn has_history(disk: &dyn Disk) -> Result<bool> {
    match manifest::load(disk).and_then(|found| rows::verify(&found.rows)) {
        Ok(root) => Ok(root.commit > 0),
        Err(error) if error.kind() == ErrorKind::Corrupt => Ok(false),
        Err(error) => Err(error),
    }
}

/// Makes an empty database where there is none, or where a crash interrupted this: `HEAD` comes last, and its name is
/// not yet durable.
pub(super) fn create(disk: &Arc<dyn Disk>, directories: DataDirectories) -> Result<()> {
    for leftover in [MANIFEST_PATH, HEAD_DRAFT_PATH] {
        if disk.exists(leftover)? {
            disk.remove(leftover)?;
        }
    }
    disk.create_directory(SEGMENTS_DIRECTORY)?;
    let main = Schema { id: 0, name: DEFAULT_SCHEMA.to_owned() };
    let mut objects = Objects { next_object: 1, directories: Arc::new(directories), ..Objects::default() };
    objects.schemas.insert(fold(&main.name), Arc::new(main));
    let catalog = Catalog { objects: Arc::new(objects), ..Catalog::default() };
    let mut manifest = Manifest::new(Arc::clone(disk));
    manifest.create(&rows::encode(&catalog, 1), &[])?;
    // Closed, so that whoever opens it next finds nothing to repair.
    drop(manifest);
    disk.sync_directory("")?;
    Head::create(&**disk, catalog.commit)
}
