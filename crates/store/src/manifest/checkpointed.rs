//! The manifest's file, and what it has: the database as of the last checkpoint.
//!
//! Must not know: when a checkpoint is made, the redo log.

use forebay_base::{Context, Result, TableId};

use super::Manifest;
use crate::catalog::Catalog;
use crate::head::FORMAT_VERSION;
use crate::hot::{HotRowId, HotView};
use crate::hot_files::{self, HotFile, NewHotFile};
use crate::outcome::Outcome;
use crate::rows::{self, Rows};
use crate::volume::Volume;

/// All hot rows are written anew where the files say so much more than twice as much as there are rows.
const SUPERSEDED_RECORDS: u64 = 1 << 16;

/// And where there are so many files.
const MOST_HOT_FILES: usize = 64;

/// The manifest's file, and what it has.
#[derive(Debug)]
pub(crate) struct Checkpointed {
    manifest: Manifest,
    content: ManifestContent,
}

/// What the manifest's file has.
#[derive(Debug)]
pub(crate) struct ManifestContent {
    pub(crate) rows: Rows,
    /// The format that the rows are of.
    pub(crate) version: u32,
    pub(crate) hot_files: Vec<HotFile>,
}

impl Checkpointed {
    /// A file with this in it.
    pub(crate) fn new(manifest: Manifest, content: ManifestContent) -> Self {
        Self { manifest, content }
    }

    /// The files of hot rows that the manifest names.
    pub(crate) fn hot_files(&self) -> &[HotFile] {
        &self.content.hot_files
    }

    /// Replaces the rows of the file by `rows`, and makes its hot rows those that the catalog of the same commit sees, of which these may have
    /// changed; in one durable step.
    ///
    /// # Errors
    /// Those of writing: the file is as it was then, or nothing is written to the database any more.
    pub(crate) fn replace(
        &mut self,
        volume: &Volume,
        rows: Rows,
        changed: &[HotRowId],
        catalog: &Catalog,
    ) -> Result<()> {
        let hot_files = self.with_hot_rows(volume, &rows, changed, &catalog.hot)?;
        let not_in = |files: &[HotFile], others: &[HotFile]| -> Vec<HotFile> {
            files.iter().filter(|file| !others.contains(file)).copied().collect()
        };
        let (new, old) = (not_in(&hot_files, &self.content.hot_files), not_in(&self.content.hot_files, &hot_files));
        match self.manifest.commit(&self.content.rows, &rows, &hot_files) {
            Outcome::Committed => {
                self.content = ManifestContent { rows, version: FORMAT_VERSION, hot_files };
                old.iter().for_each(|file| hot_files::remove(volume, file));
                Ok(())
            }
            Outcome::Failed(error) => {
                new.iter().for_each(|file| hot_files::remove(volume, file));
                Err(error)
            }
            Outcome::Unknown(error) => {
                volume.fail(&error);
                Err(error).context(|| "reopening the database shows what the manifest holds")
            }
        }
    }

    /// The files that have the hot rows of a view, of tables that are among `rows`; those that the manifest does not name yet are durable.
    fn with_hot_rows(
        &self,
        volume: &Volume,
        rows: &Rows,
        changed: &[HotRowId],
        view: &HotView,
    ) -> Result<Vec<HotFile>> {
        let ManifestContent { hot_files: known, version, .. } = &self.content;
        let is_there = |id: TableId| rows.contains_key(&rows::key(rows::ROW_TABLE, id.0));
        let (live, changes) = (view.count(is_there) as u64, changed.len() as u64);
        let records = known.iter().map(|file| file.records).sum::<u64>();
        // Older formats have no files of hot rows: they are in the manifest, or only in the log.
        let is_whole = *version < FORMAT_VERSION
            || live <= changes
            || records + changes > 2 * live + SUPERSEDED_RECORDS
            || known.len() >= MOST_HOT_FILES;
        if is_whole && live == 0 {
            return Ok(Vec::new());
        }
        if !is_whole && changes == 0 {
            return Ok(known.clone());
        }
        let number = known.iter().map(|file| file.number).max().unwrap_or_default() + 1;
        let mut file = NewHotFile::create(volume, number)?;
        let written = match is_whole {
            true => view.each(is_there, |id| file.row(id, |out| view.push(id, out))),
            false => changed.iter().try_for_each(|id| file.row(*id, |out| view.push(*id, out))),
        };
        if let Err(error) = written {
            file.remove();
            return Err(error);
        }
        let new = file.finish()?;
        Ok(if is_whole { vec![new] } else { known.iter().copied().chain([new]).collect() })
    }
}
