//! The segments of one copy of a table's rows, in row order, and their places in it.
//!
//! Places are numbers that ascend in row order. They are what the manifest stores, so that appending a segment rewrites nothing. Hot rows of a table
//! have places, too: the rows of hot chunk `n` lie at the last place before `n + 1` × 2^32, and what has become of some of them from `n` × 2^32 + 2^31 on. Whoever appends segments to a table with hot rows has new rows go to a
//! new chunk, and puts its segments before that one. So hot rows and segments are in the order in which they came, and hot rows keep their place when
//! they become segments.
//!
//! Invariants: as many places as segments, and they ascend.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;
use std::sync::Arc;

use forebay_base::{Error, Result, SegmentId};

use crate::deleted::DeletedRows;
use crate::segment::{Deleted, Segment, SegmentVersion};

/// Places for each hot chunk: segments that were there before it, its rows, and what has become of them.
const CHUNK_PLACES_LOG2: u32 = 32;

/// The place of the rows of a hot chunk: the last one before the next chunk's.
pub fn place_of_chunk(chunk: u32) -> u64 {
    before_chunk(chunk + 1) - 1
}

/// The first place of what has become of rows of a hot chunk.
fn first_of_chunk(chunk: u32) -> u64 {
    before_chunk(chunk) | 1 << (CHUNK_PLACES_LOG2 - 1)
}

/// The first place behind the rows of the chunk before.
pub(crate) fn before_chunk(chunk: u32) -> u64 {
    u64::from(chunk) << CHUNK_PLACES_LOG2
}

/// Whether rows at a place were those of a hot chunk.
pub(crate) fn is_of_chunk(place: u64) -> bool {
    place & 1 << (CHUNK_PLACES_LOG2 - 1) != 0
}

/// The first chunk whose rows lie behind segments up to this place.
pub(crate) fn chunk_behind(place: u64) -> u32 {
    let chunk = (place >> CHUNK_PLACES_LOG2) as u32;
    if is_of_chunk(place) { chunk + 1 } else { chunk }
}

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
        list.append(0, segments);
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

    /// The place of the segment with this id, if it is here.
    pub(crate) fn place_of(&self, id: SegmentId) -> Option<u64> {
        self.places().find(|(_, segment)| segment.id() == id).map(|(place, _)| place)
    }

    /// The last place.
    pub(crate) fn last_place(&self) -> Option<u64> {
        self.positions.last().copied()
    }

    /// The place of the segment at an index.
    pub fn place(&self, index: usize) -> u64 {
        self.positions[index]
    }

    /// Puts segments behind all others, from this place on if that is behind them.
    pub(crate) fn append(&mut self, least: u64, segments: impl IntoIterator<Item = Arc<Segment>>) {
        let next = self
            .positions
            .last()
            .map_or(0, |last| if is_of_chunk(*last) { before_chunk(chunk_behind(*last)) } else { last + 1 });
        for (position, segment) in (next.max(least)..).zip(segments) {
            self.segments.push(segment);
            self.positions.push(position);
        }
        debug_assert!(self.positions.is_sorted_by(|one, next| one < next), "places ascend");
    }

    /// Puts segments at a place, behind those that are there; later ones make room if need be.
    pub(crate) fn insert(&mut self, place: u64, new: Vec<Arc<Segment>>) {
        let at = self.positions.partition_point(|position| *position <= place);
        self.insert_at(at, place, new);
    }

    /// Puts segments with rows of a hot chunk behind what has become of other rows of it.
    pub(crate) fn insert_of_chunk(&mut self, chunk: u32, new: Vec<Arc<Segment>>) {
        let at = self.positions.partition_point(|position| *position <= place_of_chunk(chunk));
        self.insert_at(at, first_of_chunk(chunk), new);
    }

    fn insert_at(&mut self, at: usize, place: u64, new: Vec<Arc<Segment>>) {
        let first = at.checked_sub(1).map_or(place, |before| place.max(self.positions[before] + 1));
        self.positions.splice(at..at, (first..).take(new.len()));
        self.segments.splice(at..at, new);
        for at in at + 1..self.positions.len() {
            self.positions[at] = self.positions[at].max(self.positions[at - 1] + 1);
        }
        debug_assert!(self.positions.is_sorted_by(|one, next| one < next), "places ascend");
    }

    /// Takes segments out.
    pub(crate) fn remove(&mut self, old: &[SegmentVersion]) {
        let old: BTreeSet<SegmentId> = old.iter().map(|version| version.id).collect();
        let is_old: Vec<bool> = self.segments.iter().map(|segment| old.contains(&segment.id())).collect();
        let (mut of_segments, mut of_positions) = (is_old.iter(), is_old.iter());
        self.segments.retain(|_| of_segments.next() == Some(&false));
        self.positions.retain(|_| of_positions.next() == Some(&false));
    }

    /// Puts `new` segments where the `old` ones are, at the first of them; behind all others where there are none.
    pub(crate) fn replace(&mut self, old: &[SegmentVersion], new: Vec<Arc<Segment>>) {
        let is_old = |segment: &Arc<Segment>| old.iter().any(|version| version.id == segment.id());
        match self.segments.iter().position(is_old).map(|first| self.positions[first]) {
            None => self.append(0, new),
            Some(place) => {
                self.remove(old);
                self.insert(place, new);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_chunks_lie_between_those_of_segments() {
        for chunk in [0, 1, 77, (1 << 31) - 1] {
            assert!(before_chunk(chunk) < place_of_chunk(chunk) && place_of_chunk(chunk) < before_chunk(chunk + 1));
            assert_eq!(chunk_behind(before_chunk(chunk)), chunk);
            assert_eq!(chunk_behind(place_of_chunk(chunk)), chunk + 1);
            assert!(is_of_chunk(place_of_chunk(chunk)) && !is_of_chunk(before_chunk(chunk)));
            assert!(is_of_chunk(first_of_chunk(chunk)) && first_of_chunk(chunk) < place_of_chunk(chunk));
        }
    }
}
