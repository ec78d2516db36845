//! The segments of one copy of a table's rows, in row order, and their places in it.
//!
//! Invariants: as many places as segments, and they ascend. They are what the manifest stores, so that appending a segment
//! rewrites nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use forebay_base::{Error, Result, SegmentId};

use crate::deleted::DeletedRows;
use crate::segment::{Deleted, Segment, SegmentVersion};

/// Segments in row order.
#[derive(Debug, Clone, Default)]
pub struct SegmentList {
    segments: Vec<Arc<Segment>>,
    /// For each segment its place.
    positions: Vec<u64>,
}

impl Deref for SegmentList {
    type Target = [Arc<Segment>];

    fn deref(&self) -> &[Arc<Segment>] {
        &self.segments
    }
}

impl<'s> IntoIterator for &'s SegmentList {
    type Item = &'s Arc<Segment>;
    type IntoIter = std::slice::Iter<'s, Arc<Segment>>;

    fn into_iter(self) -> Self::IntoIter {
        self.segments.iter()
    }
}

impl FromIterator<Arc<Segment>> for SegmentList {
    fn from_iter<I: IntoIterator<Item = Arc<Segment>>>(segments: I) -> Self {
        let mut list = Self::default();
        list.append(segments);
        list
    }
}

impl SegmentList {
    /// Segments at their places, ascending.
    pub(crate) fn placed(segments: impl IntoIterator<Item = (u64, Arc<Segment>)>) -> Self {
        let (positions, segments) = segments.into_iter().unzip();
        Self { segments, positions }
    }

    /// Every segment with its place.
    pub(crate) fn places(&self) -> impl Iterator<Item = (u64, &Arc<Segment>)> {
        self.positions.iter().copied().zip(&self.segments)
    }

    /// How many segments at the beginning of both lists are the same, at the same places: all but the last ones where segments were added.
    pub(crate) fn common_prefix(&self, other: &Self) -> usize {
        let both = self.places().zip(other.places());
        both.take_while(|((place, own), (others, other))| place == others && Arc::ptr_eq(own, other)).count()
    }

    /// Rows in all of them.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows()).sum()
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file_bytes()).sum()
    }

    /// Which versions of segments they are, in row order.
    pub fn versions(&self) -> Vec<SegmentVersion> {
        self.segments.iter().map(|segment| segment.as_version()).collect()
    }

    /// The segment of which somebody has read this version, if that is the one that is here.
    pub fn find_version(&self, version: SegmentVersion) -> Option<&Arc<Segment>> {
        self.find(version.id).filter(|segment| segment.as_version() == version)
    }

    /// The segment with this id, if it is here.
    pub fn find(&self, id: SegmentId) -> Option<&Arc<Segment>> {
        self.segments.iter().find(|segment| segment.id() == id)
    }

    /// Rows that are deleted in `now`, of segments that are in both.
    pub(crate) fn deleted_in(&self, now: &Self) -> Vec<Deleted> {
        let before: BTreeMap<SegmentId, &Arc<Segment>> = self.iter().map(|segment| (segment.id(), segment)).collect();
        let has_fewer = |segment: &&Arc<Segment>| !segment.deleted().is_empty();
        let deleted = |segment: &Arc<Segment>| {
            let before = before.get(&segment.id())?;
            let rows = segment.deleted().without(before.deleted());
            (!rows.is_empty()).then(|| Deleted { segment: before.as_version(), rows })
        };
        now.iter().filter(has_fewer).filter_map(deleted).collect()
    }

    /// Takes rows out of a segment that is here, and the segment where none is left.
    ///
    /// # Errors
    /// `Internal` where it has no such rows; those of reading its footer.
    pub(crate) fn delete(&mut self, id: SegmentId, rows: &DeletedRows) -> Result<()> {
        let Some(place) = self.segments.iter().position(|segment| segment.id() == id) else {
            return Err(Error::internal(format!("segment {id} is not there")));
        };
        let left = self.segments[place].without(rows)?;
        match left.rows() {
            0 => {
                self.segments.remove(place);
                self.positions.remove(place);
            }
            _ => self.segments[place] = Arc::new(left),
        }
        Ok(())
    }

    /// Leaves out rows that are known to be there, and segments where none is left.
    pub(crate) fn hide(&mut self, deleted: &BTreeMap<SegmentId, DeletedRows>) {
        for at in (0..self.segments.len()).rev() {
            let Some(rows) = deleted.get(&self.segments[at].id()) else { continue };
            let left = self.segments[at].hiding(rows);
            match left.rows() {
                0 => {
                    self.segments.remove(at);
                    self.positions.remove(at);
                }
                _ => self.segments[at] = Arc::new(left),
            }
        }
    }

    /// What became of this list in `now`: segments that went, and those that came to the place of the first of them, or behind all
    /// others where none went. Those that are in both are in the same order.
    pub(crate) fn changes_to(&self, now: &Self) -> Vec<(Vec<SegmentVersion>, Vec<Arc<Segment>>)> {
        let ids = |list: &Self| -> BTreeSet<SegmentId> { list.iter().map(|segment| segment.id()).collect() };
        let (before, after) = (ids(self), ids(now));
        let (mut old, mut new) = (self.iter().peekable(), now.iter().peekable());
        let mut changes = Vec::new();
        loop {
            let gone = std::iter::from_fn(|| old.next_if(|own| !after.contains(&own.id())));
            let gone: Vec<SegmentVersion> = gone.map(|own| own.as_version()).collect();
            let come: Vec<_> = std::iter::from_fn(|| new.next_if(|own| !before.contains(&own.id()))).cloned().collect();
            if !gone.is_empty() || !come.is_empty() {
                changes.push((gone, come));
            }
            if old.next().is_none() | new.next().is_none() {
                return changes;
            }
        }
    }

    /// Puts segments behind all others.
    pub(crate) fn append(&mut self, segments: impl IntoIterator<Item = Arc<Segment>>) {
        let next = self.positions.last().map_or(0, |last| last + 1);
        for (position, segment) in (next..).zip(segments) {
            self.segments.push(segment);
            self.positions.push(position);
        }
    }

    /// Puts `new` segments where the `old` ones are, at the first of them; behind all others where there are none.
    pub(crate) fn replace(&mut self, old: &[SegmentVersion], new: Vec<Arc<Segment>>) {
        let old: BTreeSet<SegmentId> = old.iter().map(|version| version.id).collect();
        let Self { segments, positions } = std::mem::take(self);
        let first = segments.iter().position(|segment| old.contains(&segment.id())).unwrap_or(segments.len());
        let mut places = Vec::with_capacity(segments.len() + new.len());
        let mut freed = Vec::new();
        let mut new = Some(new);
        for (index, (segment, position)) in segments.into_iter().zip(positions).enumerate() {
            if index == first {
                places.extend(new.take().into_iter().flatten().map(|segment| (segment, None)));
            }
            if old.contains(&segment.id()) {
                freed.push(position);
            } else {
                places.push((segment, Some(position)));
            }
        }
        places.extend(new.into_iter().flatten().map(|segment| (segment, None)));
        // Old positions are kept where they still ascend, and otherwise all are given anew.
        let mut freed = freed.into_iter();
        let kept: Option<Vec<u64>> = places.iter().map(|(_, position)| position.or_else(|| freed.next())).collect();
        self.positions = match kept {
            Some(kept) if kept.is_sorted_by(|a, b| a < b) => kept,
            _ => (0..places.len() as u64).collect(),
        };
        self.segments = places.into_iter().map(|(segment, _)| segment).collect();
    }
}
