//! The rows of a load over all data directories: a segment in each, and row groups that are dealt to them in turn.
//!
//! Invariants: the first row group goes to the directory that the database has filled least; a directory that is full is
//! passed over, and what it has got stays there or is moved as a whole. With one directory there is one segment. Must not
//! know: what row groups hold.

use std::sync::{Arc, Mutex};

use forebay_base::{ColumnId, DirectoryId, Error, ErrorKind, PhysicalType, Result};

use crate::store::Store;
use crate::volume::locked;
use crate::writer::{SealedGroup, SealedSegment, SegmentWriter};

/// Writes a segment in each of several directories. Dropped unfinished, it removes the files.
#[derive(Debug)]
pub struct StripedWriter {
    store: Store,
    columns: Vec<(ColumnId, PhysicalType)>,
    /// In the order in which they take row groups.
    stripes: Vec<Stripe>,
}

#[derive(Debug)]
struct Stripe {
    directory: DirectoryId,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Made for the first row group that comes here.
    writer: Option<Arc<SegmentWriter>>,
    /// The drive had no room for a row group.
    is_full: bool,
}

impl StripedWriter {
    pub(crate) fn new(store: Store, columns: Vec<(ColumnId, PhysicalType)>, directories: Vec<DirectoryId>) -> Self {
        let stripe = |directory| Stripe { directory, state: Mutex::default() };
        Self { store, columns, stripes: directories.into_iter().map(stripe).collect() }
    }

    /// The most segments that there will be.
    pub fn most_segments(&self) -> usize {
        self.stripes.len()
    }

    /// Writes a row group, into the directory whose `turn` it is among all (turns count from 0, round and round), or into
    /// the next one with room. `index` gives its place in row order within its segment. Callable from several threads.
    ///
    /// # Errors
    /// `OutOfSpace` if no directory has room.
    pub fn append_group(&self, turn: u64, index: u64, group: SealedGroup) -> Result<()> {
        let count = self.stripes.len();
        let first = (turn % count as u64) as usize;
        for stripe in (0..count).map(|step| &self.stripes[(first + step) % count]) {
            let written = self.writer_of(stripe).and_then(|writer| match writer {
                Some(writer) => writer.write(&group).map(|offset| Some((writer, offset))),
                None => Ok(None),
            });
            match written {
                Ok(Some((writer, offset))) => return writer.record(index, group, offset),
                Ok(None) => {}
                Err(error) if error.kind() == ErrorKind::OutOfSpace && count > 1 => {
                    locked(&stripe.state).is_full = true;
                }
                Err(error) => return Err(error),
            }
        }
        Err(self.all_full())
    }

    /// Finishes the segments that have rows, in the order in which they got their first ones.
    pub fn finish(self) -> Result<Vec<SealedSegment>> {
        let Self { stripes, .. } = self;
        let directories: Vec<DirectoryId> = stripes.iter().map(|stripe| stripe.directory).collect();
        let mut sealed = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            let state = stripe.state.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
            let Some(writer) = state.writer else { continue };
            let writer = Arc::into_inner(writer).ok_or_else(|| Error::internal("a segment is still being written"))?;
            if writer.is_empty() {
                continue;
            }
            let others = directories.iter().copied().filter(|other| *other != stripe.directory);
            sealed.push(writer.finish_or_move(others)?);
        }
        Ok(sealed)
    }

    /// The writer of a stripe; `None` where it is full.
    fn writer_of(&self, stripe: &Stripe) -> Result<Option<Arc<SegmentWriter>>> {
        let mut state = locked(&stripe.state);
        match &state.writer {
            _ if state.is_full => Ok(None),
            Some(writer) => Ok(Some(Arc::clone(writer))),
            None => {
                let made = self.store.segment_writer_in(stripe.directory, self.columns.clone())?;
                Ok(Some(Arc::clone(state.writer.insert(Arc::new(made)))))
            }
        }
    }

    fn all_full(&self) -> Error {
        let volume = self.store.volume();
        let paths = volume.directories().filter(|(id, _)| self.stripes.iter().any(|stripe| stripe.directory == *id));
        let paths: Vec<String> = paths.map(|(_, disk)| disk.describe()).collect();
        let message = format!("no space left in any data directory: {}", paths.join(", "));
        let hint = "Free some disk space, or add a directory with forebay data-dirs add; nothing was lost";
        Error::new(ErrorKind::OutOfSpace, message).hint(hint)
    }
}
