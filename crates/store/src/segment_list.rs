//! The segments of one copy of a table's rows, in row order, and their places in it.
//!
//! Invariants: as many places as segments, and they ascend. They are what the manifest stores, so that appending a segment
//! rewrites nothing.

use std::collections::BTreeSet;
use std::ops::Deref;
use std::sync::Arc;

use forebay_base::SegmentId;

use crate::segment::Segment;

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

    /// Rows in all of them.
    pub fn rows(&self) -> u64 {
        self.segments.iter().map(|segment| segment.rows()).sum()
    }

    /// Bytes of all files.
    pub fn file_bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.file_bytes()).sum()
    }

    /// Their ids, in row order.
    pub fn ids(&self) -> Vec<SegmentId> {
        self.segments.iter().map(|segment| segment.id()).collect()
    }

    /// The segment with this id, if it is here.
    pub fn find(&self, id: SegmentId) -> Option<&Arc<Segment>> {
        self.segments.iter().find(|segment| segment.id() == id)
    }

    /// What became of this list in `now`: segments that went, and those that came to the place of the first of them, or behind all
    /// others where none went. Those that are in both are in the same order.
    pub(crate) fn changes_to(&self, now: &Self) -> Vec<(Vec<SegmentId>, Vec<Arc<Segment>>)> {
        let ids = |list: &Self| -> BTreeSet<SegmentId> { list.iter().map(|segment| segment.id()).collect() };
        let (before, after) = (ids(self), ids(now));
        let (mut old, mut new) = (self.iter().peekable(), now.iter().peekable());
        let mut changes = Vec::new();
        loop {
            let gone: Vec<SegmentId> =
                std::iter::from_fn(|| old.next_if(|own| !after.contains(&own.id()))).map(|own| own.id()).collect();
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
    pub(crate) fn replace(&mut self, old: &[SegmentId], new: Vec<Arc<Segment>>) {
        let old: BTreeSet<SegmentId> = old.iter().copied().collect();
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
