//! The manifest's file, and what it has: the database as of the last checkpoint.
//!
//! Must not know: when a checkpoint is made, the redo log.

use std::collections::BTreeSet;

use forebay_base::{Context, Result, TableId};

use super::{HotUpdate, Manifest};
use crate::catalog::Catalog;
use crate::head::FORMAT_VERSION;
use crate::hot::HotRowId;
use crate::outcome::Outcome;
use crate::rows::{self, Rows};
use crate::volume::Volume;

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
    /// Tables that it has hot rows of.
    pub(crate) hot_tables: BTreeSet<TableId>,
}

impl Checkpointed {
    /// A file with this in it.
    pub(crate) fn new(manifest: Manifest, content: ManifestContent) -> Self {
        Self { manifest, content }
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
        let is_gone = |id: &TableId| !rows.contains_key(&rows::key(rows::ROW_TABLE, id.0));
        let of_changed = changed.iter().map(|(table, _)| *table);
        let (gone, tables): (BTreeSet<_>, BTreeSet<_>) =
            of_changed.chain(self.content.hot_tables.iter().copied()).partition(is_gone);
        let bytes = |row: HotRowId| catalog.hot.bytes(row);
        let hot = HotUpdate { changed, bytes: &bytes, gone: gone.into_iter().collect() };
        match self.manifest.commit(&self.content.rows, &rows, &hot) {
            Outcome::Committed => {
                self.content = ManifestContent { rows, version: FORMAT_VERSION, hot_tables: tables };
                Ok(())
            }
            Outcome::Failed(error) => Err(error),
            Outcome::Unknown(error) => {
                volume.fail(&error);
                Err(error).context(|| "reopening the database shows what the manifest holds")
            }
        }
    }
}
