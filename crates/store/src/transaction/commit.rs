//! The commit of a transaction: what others have committed meanwhile is merged, the files that it adds are made durable, and it
//! gets in line for the redo log.
//!
//! Invariant: the writer's turn is held from the look at the newest catalog until the commit is in line behind it.

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_base::{DirectoryId, Result, SegmentId, TableId};

use super::{Transaction, Unchecked, merge};
use crate::catalog::Catalog;
use crate::checkpoint::checkpoint_if_due;
use crate::commit_log::lost_base;
use crate::data_file::DataFile;
use crate::fact::Fact;
use crate::hot::HotCommit;
use crate::segment::Segment;
use crate::store::WriterTurn;
use crate::volume::SEGMENTS_DIRECTORY;

impl Transaction {
    /// Makes all changes visible, and before that as durable as was asked for ([`Transaction::set_durability`]).
    ///
    /// # Errors
    /// `Conflict` where another transaction has changed the same and committed first, or rows of a table that this one relies on. The
    /// changes did not happen. Where even that is not certain (a failed write of the manifest), the store refuses further writes, and
    /// reopening it shows all of the changes or none.
    pub fn commit(self) -> Result<()> {
        match self.try_commit()? {
            None => Ok(()),
            Some(unchecked) => Err(merge::changed_beside(&unchecked)),
        }
    }

    /// The same, but that where another transaction has changed rows of a table that this one relies on it is given back, with its changes
    /// made to what is there now: whoever finds them right still tries again.
    ///
    /// # Errors
    /// As [`Transaction::commit`].
    pub fn try_commit(mut self) -> Result<Option<Self>> {
        if Arc::ptr_eq(&self.working, &self.base) {
            // Who has only looked at what others have done is not told before that is durable.
            return match self.failures {
                None => Ok(None),
                Some(failures) => self.inner.line.wait_for(&self.inner, self.base.commit, failures).map(|()| None),
            };
        }
        self.unchecked = self.unchecked.take().filter(|unchecked| !unchecked.is_told);
        let inner = Arc::clone(&self.inner);
        let had_turn = self.turn.is_some();
        let (turn, now, failures, hot_beside) = loop {
            let turn = self.turn.take().unwrap_or_else(|| WriterTurn::take(&inner));
            let (now, failures) = inner.line.newest();
            let hot_beside = inner.line.hot_changed_since(self.base.commit);
            let visible = inner.catalog();
            if visible.commit == now.commit {
                break (turn, visible, failures, hot_beside);
            }
            // Whoever looks at keys again, at what it has read, or at which rows are deleted has to see the rows of those who are in line. A
            // catalog in line sees hot rows as its own transaction does: not those of others, and its own no longer once they are everybody's.
            let is_asked = self.unchecked.is_some()
                || self.reads_any(&hot_beside)
                || !self.changed_beside(&now, &hot_beside).is_empty()
                || !self.deletions_to_check(&now, &hot_beside).is_empty()
                || !merge::added_segments(&self.relied_on_segments, &self.base, &now).is_empty();
            if had_turn || !is_asked {
                break (turn, now, failures, hot_beside);
            }
            drop(turn);
            inner.line.wait_for(&inner, now.commit, failures)?;
        };
        let is_base_lost = self.failures.is_some_and(|before| before != failures);
        if is_base_lost || had_turn && now.commit != self.base.commit {
            return Err(lost_base());
        }
        if now.commit != self.base.commit {
            self.failures = Some(failures);
        }
        self.build_on(now, &hot_beside)?;
        if let Some(unchecked) = &mut self.unchecked {
            unchecked.is_told = true;
            return Ok(Some(self));
        }
        let working = Arc::make_mut(&mut self.working);
        (working.commit, working.reads) = (inner.line.next_number(), None);
        inner.volume.check_writable()?;
        if !self.working.has_objects_of(&self.base) {
            self.change().next_object = inner.next_object.load(Ordering::Relaxed);
            self.raise_versions();
            if !self.working.has_schema_of(&self.base) {
                self.change().schema_commit = self.working.commit;
            }
            self.make_files_durable()?;
        }
        let hot = self.hot.take().map(|writes| HotCommit::of(writes, &self.working.hot)).transpose()?;
        let hot = hot.unwrap_or_default();
        let place = inner.line.join(&inner, (&self.base, &self.working), hot, self.durability);
        // From here on others build on it.
        drop(turn);
        inner.line.wait(&inner, &place)?;
        checkpoint_if_due(&inner);
        Ok(None)
    }

    /// Sees from now on what others have committed in the meantime, too, and what it has changed itself: for transactions each statement of which
    /// has a snapshot of its own.
    ///
    /// # Errors
    /// `Conflict` where it has changed the same; then it sees what it saw before.
    pub fn see_newest(&mut self) -> Result<()> {
        let inner = Arc::clone(&self.inner);
        let now = inner.catalog();
        if self.turn.is_some() || now.commit <= self.base.commit {
            return Ok(());
        }
        let hot_beside = inner.line.hot_changed_since(self.base.commit);
        self.build_on(now, &hot_beside)?;
        if let (Some(writes), Some(snapshot)) = (&mut self.hot, self.base.hot.snapshot()) {
            writes.see(snapshot);
        }
        Ok(())
    }

    /// Brings what it has changed into the catalog `now`; `hot_beside` are tables of whose hot rows others have changed some since its own.
    fn build_on(&mut self, now: Arc<Catalog>, hot_beside: &BTreeSet<TableId>) -> Result<()> {
        self.check_hot_conflicts(&now, hot_beside)?;
        self.check_reads(&now, hot_beside)?;
        if now.commit == self.base.commit {
            return Ok(());
        }
        let deletions = self.deletions_to_check(&now, hot_beside);
        let working = match Arc::ptr_eq(&self.working, &self.base) {
            true => Arc::clone(&now),
            false => Arc::new(self.merged((&self.base, &self.working), &now)?),
        };
        let own = std::mem::replace(&mut self.working, working);
        if let Err(error) = self.check_deletions(&deletions) {
            self.working = own;
            return Err(error);
        }
        let rows = self.changed_beside(&now, hot_beside);
        let segments = merge::added_segments(&self.relied_on_segments, &self.base, &now);
        let before = std::mem::replace(&mut self.base, now);
        self.known_hot.clear();
        if let Some(earlier) = &mut self.unchecked {
            earlier.rows.extend(rows);
            earlier.segments.extend(segments);
        } else if !rows.is_empty() || !segments.is_empty() {
            self.unchecked = Some(Unchecked { rows, segments, before, is_told: false });
        }
        Ok(())
    }

    /// Tables whose rows others have changed in `now`, where it depends on these rows whether its changes are right.
    fn changed_beside(&self, now: &Catalog, hot_beside: &BTreeSet<TableId>) -> BTreeSet<TableId> {
        let mut changed = merge::changed_rows(&self.relied_on, &self.base, now);
        changed.extend(self.relied_on.intersection(hot_beside));
        changed
    }

    /// Makes the names of files durable that the manifest is to name; those of small files are in the record.
    fn make_files_durable(&self) -> Result<()> {
        let volume = &self.inner.volume;
        let added = Files::missing_from(&self.working, &self.base);
        let in_folders = added.iter().filter(|file| volume.small_file(file.place()).is_none());
        let directories: BTreeSet<DirectoryId> = in_folders.map(DataFile::directory).collect();
        let disks = volume.directories().filter(|(id, _)| directories.contains(id)).map(|(_, disk)| disk);
        // Where a folder cannot even be opened, nothing is in doubt.
        let folders = disks.map(|disk| disk.open_directory(SEGMENTS_DIRECTORY)).collect::<Result<Vec<_>>>()?;
        folders.iter().try_for_each(|folder| folder.sync()).inspect_err(|error| volume.fail(error))
    }

    /// Gives tables that this transaction has touched their next version.
    fn raise_versions(&mut self) {
        let base = Arc::clone(&self.base);
        for (id, table) in &mut self.change().tables {
            let before = base.objects.tables.get(id);
            if before.is_none_or(|before| !Arc::ptr_eq(before, table)) {
                Arc::make_mut(table).raise_version();
            }
        }
    }
}

/// Segments and facts that one catalog has and another one has not.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    segments: Vec<Arc<Segment>>,
    facts: Vec<Arc<Fact>>,
}

impl Files {
    /// Those of `of` that `other` does not have.
    pub(crate) fn missing_from(of: &Catalog, other: &Catalog) -> Self {
        let mut segments = Vec::new();
        if of.has_objects_of(other) {
            return Self { segments, facts: Vec::new() };
        }
        for (id, table) in &of.objects.tables {
            let others = other.objects.tables.get(id);
            if others.is_some_and(|others| Arc::ptr_eq(others, table)) {
                continue;
            }
            let Some(others) = others else {
                segments.extend(table.all_segments().cloned());
                continue;
            };
            let known: HashSet<SegmentId> = others.segments_apart(table).map(|segment| segment.id()).collect();
            segments.extend(table.segments_apart(others).filter(|segment| !known.contains(&segment.id())).cloned());
        }
        let facts = of.facts().filter(|fact| other.fact(fact.id()).is_none()).cloned().collect();
        Self { segments, facts }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &DataFile> {
        let segments = self.segments.iter().map(|segment| segment.data_file());
        segments.chain(self.facts.iter().map(|fact| fact.data_file()))
    }
}
