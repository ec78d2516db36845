//! What a database holds when it is opened: the manifest of the last checkpoint with its files of hot rows, and what the redo log has changed since.
//!
//! Invariants: nothing is written here; the same files give the same answer, however often that is interrupted. What is returned has been
//! verified as the rows of one commit. Must not know: what rows mean.

use std::collections::BTreeMap;

use forebay_base::{Context, Result};
use forebay_disk::Disk;

use crate::hot::{ChangedRows, FoundHotRows};
use crate::hot_files;
use crate::manifest::{self, MANIFEST_PATH, ManifestContent, ManifestRows};
use crate::redo_log::{CutTail, FoundLog, read_logs};
use crate::redo_record::{self, Replay};
use crate::rows::{self, Root, Rows};
use crate::serial::Reader;
use crate::small_file::SmallFile;
use crate::volume::FilePlace;

/// What was found.
#[derive(Debug)]
pub(crate) struct Found {
    /// The rows of the last commit.
    pub(crate) rows: Rows,
    pub(crate) root: Root,
    pub(crate) in_manifest: ManifestContent,
    /// Hot rows, and those that the log has changed.
    pub(crate) hot_rows: FoundHotRows,
    pub(crate) hot_changed: ChangedRows,
    /// Files of segments that are in the log.
    pub(crate) small_files: BTreeMap<FilePlace, SmallFile>,
    pub(crate) logs: Vec<FoundLog>,
    pub(crate) report: Recovery,
}

/// What the redo log had for whoever opened a database.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovery {
    /// Commits that were not in the manifest.
    pub commits: u64,
    /// Bytes of the log that was read.
    pub log_bytes: u64,
    /// The last commit.
    pub last_commit: u64,
    /// What lay behind it and is no whole commit.
    pub cut: Vec<CutTail>,
}

/// Reads manifest and log.
///
/// # Errors
/// `Corrupt`, `Version`.
pub(crate) fn load(disk: &dyn Disk) -> Result<Found> {
    found(disk, manifest::load(disk)?)
}

/// The same, and the manifest's file is durable as it was read.
pub(crate) fn load_durable(disk: &dyn Disk) -> Result<Found> {
    found(disk, manifest::load_durable(disk)?)
}

fn found(disk: &dyn Disk, in_manifest: ManifestRows) -> Result<Found> {
    let ManifestRows { rows: manifest_rows, hot_files, mut hot } = in_manifest;
    let of_file = rows::verify(&manifest_rows).context(|| format!("file {MANIFEST_PATH}"))?;
    hot_files.iter().try_for_each(|file| hot_files::read_into(disk, file, &mut hot))?;
    let logs = read_logs(disk)?;
    let mut replay = Replay {
        rows: manifest_rows.clone(),
        commit: of_file.commit,
        hot,
        hot_changed: ChangedRows::default(),
        files: BTreeMap::new(),
        commits: 0,
    };
    for log in &logs {
        for frame in &log.frames {
            replay_frame(&mut replay, log.records(*frame))
                .context(|| format!("file {} at {}", log.path, frame.offset))?;
        }
    }
    replay.keep_named_files();
    let Replay { rows, commits, hot: hot_rows, hot_changed, files: small_files, .. } = replay;
    let root = match commits {
        0 => of_file,
        _ => rows::verify(&rows).context(|| "the redo log does not fit the manifest")?,
    };
    let report = Recovery {
        commits,
        log_bytes: logs.iter().map(|log| log.bytes.len() as u64).sum(),
        last_commit: root.commit,
        cut: logs.iter().filter_map(|log| log.cut.clone()).collect(),
    };
    let in_manifest = ManifestContent { rows: manifest_rows, version: of_file.version, hot_files };
    Ok(Found { rows, root, in_manifest, hot_rows, hot_changed, small_files, logs, report })
}

fn replay_frame(replay: &mut Replay, records: &[u8]) -> Result<()> {
    let mut reader = Reader::new(records, "a record of the redo log");
    while !reader.is_empty() {
        replay.apply(redo_record::decode(&mut reader)?)?;
    }
    Ok(())
}
