//! Files that no manifest names: of writers that crashed, and of drops that were not finished.

use std::collections::BTreeSet;

use forebay_base::{DirectoryId, Result};
use forebay_disk::Disk;

use crate::catalog::Catalog;
use crate::data_directories::MARKER_DRAFT_PATH;
use crate::head::HEAD_DRAFT_PATH;
use crate::volume::{DATABASE_DIRECTORY, FilePlace, SEGMENTS_DIRECTORY, is_data_file};

/// Removes files of a directory that the manifest does not name: writers that crashed, drops that were not finished.
pub(crate) fn remove_leftovers(disk: &dyn Disk, id: DirectoryId, catalog: &Catalog) -> Result<()> {
    let mut removed = false;
    for path in leftovers(disk, id, catalog)? {
        disk.remove(&path)?;
        removed = true;
    }
    let draft = if id == DATABASE_DIRECTORY { HEAD_DRAFT_PATH } else { MARKER_DRAFT_PATH };
    if disk.exists(draft)? {
        disk.remove(draft)?;
        disk.sync_directory("")?;
    }
    if id == DATABASE_DIRECTORY {
        for name in disk.list("")?.iter().filter(|name| forebay_disk::is_temporary(name)) {
            disk.remove(name)?;
        }
    }
    if removed {
        // Their names are about to be used again.
        disk.sync_directory(SEGMENTS_DIRECTORY)?;
    }
    Ok(())
}

/// Paths of the files in a directory's segments folder that `catalog` does not name.
pub(crate) fn leftovers(disk: &dyn Disk, id: DirectoryId, catalog: &Catalog) -> Result<Vec<String>> {
    let here = catalog.segments().filter(|segment| segment.data_directory() == id);
    let mut named: BTreeSet<String> = here.map(|segment| FilePlace::of_segment(id, segment.id()).path()).collect();
    let here = catalog.facts().filter(|fact| fact.data_directory() == id);
    named.extend(here.map(|fact| FilePlace::of_fact(id, fact.id()).path()));
    let files = disk.list(SEGMENTS_DIRECTORY)?.into_iter().filter(|file| is_data_file(file));
    let paths = files.map(|file| format!("{SEGMENTS_DIRECTORY}/{file}"));
    Ok(paths.filter(|path| !named.contains(path)).collect())
}
