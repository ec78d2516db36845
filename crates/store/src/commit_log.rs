//! The commit point: commits get in line, and whoever finds nobody writing writes the records of all that wait, with one sync.
//!
//! So a commit costs one sync at most, and commits beside each other share them, without anybody waiting for company. A commit in line is
//! what the next one builds on; it becomes visible once it is written, and durable if it asks for that. Where its record cannot be written, all that build on it fail with it.
//!
//! Invariants: records are written in the order of their commits; a commit is written before it is visible, and as durable as it asks for (`forebay_base::Durability`) before it is acknowledged; lines are
//! joined by who has the writer's turn only. Must not know: what has changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forebay_base::{Durability, Error, ErrorKind, Result, TableId};

use crate::catalog::Catalog;
use crate::head::Head;
use crate::hot::{ChangedRows, HotCommit};
use crate::outcome::Outcome;
use crate::redo_log::{RedoLog, redo_path};
use crate::redo_record;
use crate::rows::{self, Rows};
use crate::signal::Signal;
use crate::store::Inner;
use crate::transaction::Files;
use crate::volume::{Volume, locked};

/// What is on disk of commits since the last checkpoint, changed by whoever writes commits, and by checkpoints.
#[derive(Debug)]
pub(crate) struct Written {
    pub(crate) head: Head,
    /// The file that takes records, once there are some.
    pub(crate) log: Option<RedoLog>,
    /// Names of other files of the log, which the manifest's file does not have everything of.
    pub(crate) old_logs: Vec<String>,
    /// Whether the manifest's file is of the newest format.
    pub(crate) is_newest_format: bool,
    /// What commits in the log have dropped that are not durable yet.
    pub(crate) dropped: Vec<Files>,
    /// The last commit in the log.
    pub(crate) last_commit: u64,
    /// Hot rows that have changed since the last checkpoint.
    pub(crate) hot_changed: ChangedRows,
}

impl Written {
    /// Makes the log durable as far as it is not, and lets go of what its commits have dropped.
    ///
    /// # Errors
    /// Those of the sync, after which nothing more is written.
    pub(crate) fn sync_log(&mut self, volume: &Volume) -> Result<()> {
        if let Some(log) = self.log.as_mut().filter(|log| log.has_unsynced()) {
            log.sync().inspect_err(|error| volume.fail(error))?;
            // The commits stand whatever happens here.
            let _the_commits_stand = self.head.note(self.last_commit);
        }
        // Files that they have dropped go as soon as nobody reads them.
        self.dropped.drain(..).for_each(|files| files.iter().for_each(|file| file.set_remove_on_drop(true)));
        Ok(())
    }
}

/// Commits that are not durable yet, and what the next one builds on.
#[derive(Debug)]
pub(crate) struct Line {
    state: Mutex<LineState>,
    moved: Signal,
}

#[derive(Debug)]
struct LineState {
    newest: Arc<Catalog>,
    /// The rows of `newest`.
    rows: Rows,
    /// The number of the last commit that was in line; those that failed have one, too.
    last_number: u64,
    waiting: Vec<Waiting>,
    is_writing: bool,
    /// How often commits in line have failed.
    failures: u64,
    /// By table the last commit in line that has changed hot rows of it.
    hot_changed: BTreeMap<TableId, u64>,
}

/// A commit in line.
#[derive(Debug)]
struct Waiting {
    record: Vec<u8>,
    catalog: Arc<Catalog>,
    hot: HotCommit,
    added: Files,
    dropped: Files,
    durability: Durability,
    outcome: Arc<Mutex<Option<Result<()>>>>,
}

/// The place of a commit in line.
#[derive(Debug)]
pub(crate) struct Place {
    outcome: Arc<Mutex<Option<Result<()>>>>,
}

impl Line {
    pub(crate) fn new(newest: Arc<Catalog>, rows: Rows) -> Self {
        let last_number = newest.commit;
        let (waiting, hot_changed) = (Vec::new(), BTreeMap::new());
        let state = LineState { newest, rows, last_number, waiting, is_writing: false, failures: 0, hot_changed };
        Self { state: Mutex::new(state), moved: Signal::default() }
    }

    /// The catalog that the next commit builds on, durable or not, and how often commits have failed so far.
    pub(crate) fn newest(&self) -> (Arc<Catalog>, u64) {
        let state = locked(&self.state);
        (Arc::clone(&state.newest), state.failures)
    }

    /// The number of the next commit.
    pub(crate) fn next_number(&self) -> u64 {
        locked(&self.state).last_number + 1
    }

    /// Tables whose hot rows were changed by commits after this one.
    pub(crate) fn hot_changed_since(&self, commit: u64) -> BTreeSet<TableId> {
        let state = locked(&self.state);
        state.hot_changed.iter().filter(|(_, last)| **last > commit).map(|(id, _)| *id).collect()
    }

    /// How many commits wait to be written.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        locked(&self.state).waiting.len()
    }

    /// The rows of the last commit in line.
    pub(crate) fn rows(&self) -> Rows {
        locked(&self.state).rows.clone()
    }

    /// Puts a commit that builds on the newest one in line. For who has the writer's turn.
    pub(crate) fn join(
        &self,
        inner: &Inner,
        (base, working): (&Catalog, &Arc<Catalog>),
        hot: HotCommit,
        durability: Durability,
    ) -> Place {
        let (added, dropped) = (Files::missing_from(working, base), Files::missing_from(base, working));
        let places = added.iter().map(|file| file.place());
        let small: Vec<_> = places.filter_map(|place| Some((place, inner.volume.small_file(place)?))).collect();
        let next_file = inner.next_file.load(Ordering::Relaxed);
        let outcome = Arc::default();
        let mut state = locked(&self.state);
        let changes = rows::update(&mut state.rows, base, working, next_file);
        let files = small.iter().map(|(place, file)| (*place, &**file));
        let record = redo_record::encode((working.commit, base.commit), &changes, &hot.record, files);
        state.newest = Arc::clone(working);
        state.last_number = working.commit;
        state.hot_changed.extend(hot.tables.iter().map(|table| (table.id(), working.commit)));
        let catalog = Arc::clone(working);
        state.waiting.push(Waiting { record, catalog, hot, added, dropped, durability, outcome: Arc::clone(&outcome) });
        Place { outcome }
    }

    /// Waits until a commit is visible, and durable if it asks for that; or has failed.
    pub(crate) fn wait(&self, inner: &Inner, place: &Place) -> Result<()> {
        self.wait_until(inner, |_| locked(&place.outcome).take())
    }

    /// Waits until nobody is in line.
    pub(crate) fn drain(&self, inner: &Inner) {
        self.wait_until(inner, |state| (state.waiting.is_empty() && !state.is_writing).then_some(()));
    }

    /// Waits until this commit and all before it are written, as durable as they ask for.
    ///
    /// # Errors
    /// `Conflict` where commits have failed more often than when it was in line.
    pub(crate) fn wait_for(&self, inner: &Inner, commit: u64, failures: u64) -> Result<()> {
        self.wait_until(inner, |state| match state.failures == failures {
            true => (inner.catalog().commit >= commit).then_some(Ok(())),
            false => Some(Err(lost_base())),
        })
    }

    /// Writes commits in line while others do not, until `done` gives something.
    fn wait_until<T>(&self, inner: &Inner, mut done: impl FnMut(&LineState) -> Option<T>) -> T {
        let mut state = locked(&self.state);
        loop {
            if let Some(done) = done(&state) {
                return done;
            }
            if state.is_writing || state.waiting.is_empty() {
                state = self.moved.wait(state);
                continue;
            }
            state.is_writing = true;
            let batch = std::mem::take(&mut state.waiting);
            drop(state);
            let mut writing = Writing { line: self, inner, batch };
            let (committed, outcome) = write(inner, &writing.batch);
            writing.end(committed, outcome);
            state = locked(&self.state);
        }
    }
}

/// Commits that are being written. Where that panics, nobody waits for them for ever.
struct Writing<'a> {
    line: &'a Line,
    inner: &'a Inner,
    batch: Vec<Waiting>,
}

impl Writing<'_> {
    /// Says how it ended: the first ones are committed, and the others as the outcome says.
    fn end(&mut self, committed: usize, outcome: Outcome) {
        let mut state = locked(&self.line.state);
        state.finish(self.inner, &mut self.batch, committed, outcome);
        state.is_writing = false;
        if state.waiting.capacity() == 0 {
            // The next ones take its memory.
            state.waiting = std::mem::take(&mut self.batch);
        }
        self.line.moved.notify_all();
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        if !self.batch.is_empty() {
            self.end(0, Outcome::Unknown(Error::internal("the program failed while it wrote commits")));
        }
    }
}

impl LineState {
    /// Makes the first commits of a batch visible, which were written; or takes commits back, and what builds on them.
    fn finish(&mut self, inner: &Inner, batch: &mut Vec<Waiting>, committed: usize, outcome: Outcome) {
        let has_hot_changes = batch[..committed].iter().any(|commit| !commit.hot.rows.is_empty());
        batch[..committed].iter_mut().for_each(|commit| commit.hot.make_visible());
        if let Some(last) = batch[..committed].last() {
            let visible = inner.with_hot_rows(&last.catalog, has_hot_changes);
            if Arc::ptr_eq(&self.newest, &last.catalog) {
                self.newest = Arc::clone(&visible);
            }
            inner.set_catalog(visible);
        }
        for commit in batch.drain(..committed) {
            commit.added.iter().for_each(|file| file.set_remove_on_drop(false));
            *locked(&commit.outcome) = Some(Ok(()));
        }
        let (error, in_doubt) = match outcome {
            Outcome::Committed => return batch.clear(),
            Outcome::Failed(error) => (error, false),
            Outcome::Unknown(error) => {
                inner.volume.fail(&error);
                let error = error.context("whether the commit took place shows when the database is reopened");
                (error, true)
            }
        };
        for (number, commit) in batch.drain(..).enumerate() {
            if in_doubt {
                // The log may name these files: the next open decides.
                commit.added.iter().for_each(|file| file.set_remove_on_drop(false));
            }
            let is_first_or_in_doubt = number == 0 || in_doubt;
            *locked(&commit.outcome) = Some(Err(if is_first_or_in_doubt { error.clone() } else { lost_base() }));
        }
        for commit in std::mem::take(&mut self.waiting) {
            *locked(&commit.outcome) = Some(Err(lost_base()));
        }
        self.failures += 1;
        self.newest = inner.catalog();
        self.rows = rows::encode(&self.newest, inner.next_file.load(Ordering::Relaxed));
    }
}

/// The error of what was built on a commit that was taken back.
pub(crate) fn lost_base() -> Error {
    let message = "a commit that this transaction builds on could not be written";
    Error::new(ErrorKind::Conflict, message).hint("Run the transaction again")
}

/// Writes the records of these commits, and makes them durable as soon as they ask for that. Gives how many of them are committed, and what
/// became of the others.
fn write(inner: &Inner, batch: &[Waiting]) -> (usize, Outcome) {
    if let Err(error) = inner.volume.check_writable().and_then(|()| keep_older_programs_out(inner)) {
        return (0, Outcome::Failed(error));
    }
    let mut written = locked(&inner.written);
    let written = &mut *written;
    let log = match log_for(inner, written, &batch[0]) {
        Ok(log) => log,
        Err(error) => return (0, Outcome::Failed(error)),
    };
    let (appended, outcome) = append(log, batch);
    inner.log_bytes.store(log.bytes(), Ordering::Relaxed);
    if matches!(outcome, Outcome::Unknown(_)) {
        return (0, outcome);
    }
    let batch = &batch[..appended];
    let Some(last) = batch.last() else { return (0, outcome) };
    written.last_commit = last.catalog.commit;
    written.dropped.extend(batch.iter().map(|commit| commit.dropped.clone()));
    batch.iter().for_each(|commit| written.hot_changed.add(&commit.hot.rows));
    let synced = match batch.iter().map(|commit| commit.durability).min_by_key(|durability| urgency(*durability)) {
        None | Some(Durability::Off) => Ok(()),
        Some(Durability::Within(time)) => inner.syncer.sync_within(time).or_else(|_| written.sync_log(&inner.volume)),
        Some(Durability::Full) => written.sync_log(&inner.volume),
    };
    match synced {
        Ok(()) => (appended, outcome),
        Err(error) => (0, Outcome::Unknown(error)),
    }
}

/// How soon a commit is to be durable.
fn urgency(durability: Durability) -> Duration {
    match durability {
        Durability::Full => Duration::ZERO,
        Durability::Within(time) => time.max(Duration::from_nanos(1)),
        Durability::Off => Duration::MAX,
    }
}

/// Writes the records of these commits in one frame; where there is no room for all, as many of the first ones as there is room for. Gives how
/// many were written.
fn append(log: &mut RedoLog, batch: &[Waiting]) -> (usize, Outcome) {
    let mut outcome = log.append(batch.iter().map(|commit| commit.record.as_slice()));
    if matches!(outcome, Outcome::Committed) {
        return (batch.len(), outcome);
    }
    let mut appended = 0;
    while batch.len() > 1 && matches!(outcome, Outcome::Failed(_)) {
        match log.append(std::iter::once(batch[appended].record.as_slice())) {
            Outcome::Committed => appended += 1,
            other => return (appended, other),
        }
        if appended == batch.len() {
            outcome = Outcome::Committed;
        }
    }
    (appended, outcome)
}

/// Makes a manifest of an older format one of the newest, before there is a log beside it.
fn keep_older_programs_out(inner: &Inner) -> Result<()> {
    if locked(&inner.written).is_newest_format {
        return Ok(());
    }
    let mut checkpointed = locked(&inner.checkpointed);
    let mut written = locked(&inner.written);
    written.head.refresh()?;
    written.head.sync().inspect_err(|error| inner.volume.fail(error))?;
    let catalog = inner.catalog();
    // All hot rows go to a file, those of logs that there was no room to make a checkpoint of among them.
    checkpointed.replace(
        &inner.volume,
        rows::encode(&catalog, inner.next_file.load(Ordering::Relaxed)),
        &[],
        &catalog,
    )?;
    written.is_newest_format = true;
    Ok(())
}

/// The file that takes the records of this commit and later ones.
fn log_for<'w>(inner: &Inner, written: &'w mut Written, first: &Waiting) -> Result<&'w mut RedoLog> {
    if written.log.is_none() {
        written.head.refresh()?;
        written.head.sync().inspect_err(|error| inner.volume.fail(error))?;
        let number = first.catalog.commit;
        if written.old_logs.contains(&redo_path(number)) {
            // No commit in it is whole.
            inner.volume.disk.remove(&redo_path(number))?;
        }
        written.log = Some(RedoLog::create(&inner.volume, number)?);
    }
    written.log.as_mut().ok_or_else(|| Error::internal("the redo log was just made"))
}
