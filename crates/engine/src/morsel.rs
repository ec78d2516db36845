//! What a worker takes of a table at a time: a row group, or a part of one where the table has few; and what the parts of a
//! row group share.
//!
//! Invariant: of [`morsels`], every block of a table is in one. Must not know: tests, rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use forebay_base::{DirectoryId, Result, limits};
use forebay_block::{BlockSet, InflatedChunk};
use forebay_store::{Group, Segment, Table};

/// Morsels that a table is cut into where it has the blocks: enough for the last ones to end at about the same time on
/// several workers.
const WANTED_MORSELS: usize = 16;

/// Blocks of one row group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Morsel {
    /// Segment of the table.
    pub(crate) segment: usize,
    /// Row group of the segment.
    pub(crate) group: usize,
    from: usize,
    to: usize,
}

impl Morsel {
    /// These blocks of a row group.
    pub(crate) fn new((segment, group): (usize, usize), blocks: Range<usize>) -> Self {
        Self { segment, group, from: blocks.start, to: blocks.end }
    }

    /// Its blocks, counted from the row group's first.
    pub(crate) fn blocks(&self) -> Range<usize> {
        self.from..self.to
    }

    /// Its row group; `segment` is the one that it is of.
    pub(crate) fn group_of<'s>(&self, segment: &'s Segment) -> &'s Group {
        &segment.groups().expect("the footer was read when the morsel was made")[self.group]
    }
}

/// All morsels of a table, in row order: that of segments and their row groups. Segments that follow one another and lie in
/// different data directories, as a load leaves them, are read side by side, so that all drives are at work: that is also the
/// order in which a loader had their rows.
pub fn morsels(table: &Table) -> Result<Vec<Morsel>> {
    let mut layouts = Vec::with_capacity(table.segments.len());
    for segment in &table.segments {
        layouts.push((segment.data_directory(), segment.groups()?));
    }
    let blocks: usize = layouts.iter().flat_map(|(_, groups)| *groups).map(|group| group.block_rows.len()).sum();
    let step = match blocks / WANTED_MORSELS {
        // Nearly whole row groups are better whole: they share their chunks with nobody.
        step if step > limits::GROUP_BLOCKS / 2 => limits::GROUP_BLOCKS,
        step => step.max(1),
    };
    let mut morsels = Vec::with_capacity(blocks.div_ceil(step));
    let counts: Vec<_> = layouts.iter().map(|(directory, groups)| (*directory, groups.len())).collect();
    for (segment, group) in interleaved(&counts) {
        let end = layouts[segment].1[group].block_rows.len();
        let part = |from| Morsel { segment, group, from, to: end.min(from + step) };
        morsels.extend((0..end).step_by(step).map(part));
    }
    Ok(morsels)
}

/// The number of data directories that a table lies in, at least 1.
pub(crate) fn drives(table: &Table) -> usize {
    let directories: BTreeSet<_> = table.segments.iter().map(|segment| segment.data_directory()).collect();
    directories.len().max(1)
}

/// The row groups of segments, each with its directory and the number of its row groups, in the order of [`morsels`]:
/// (segment, row group). Of segments that are read side by side all are done at about the same time.
fn interleaved(segments: &[(DirectoryId, usize)]) -> Vec<(usize, usize)> {
    let mut order = Vec::new();
    let mut first = 0;
    while first < segments.len() {
        let mut seen = BTreeSet::new();
        let apart = segments[first..].iter().take_while(|(directory, _)| seen.insert(*directory)).count();
        let start = order.len();
        let of_segment = |segment: usize| (0..segments[segment].1).map(move |group| (segment, group));
        order.extend((first..first + apart).flat_map(of_segment));
        // By the part of a segment that is before the middle of the row group. Equals stay in the order of segments.
        order[start..]
            .sort_by(|(a, of_a), (b, of_b)| ((2 * of_a + 1) * segments[*b].1).cmp(&((2 * of_b + 1) * segments[*a].1)));
        first += apart;
    }
    order
}

/// Chunks by column of the table and number.
pub(crate) type Chunks = BTreeMap<(usize, usize), Arc<InflatedChunk>>;

/// What the morsels of each row group of a scan have loaded, until the last one of the group is done: none loads a chunk
/// again that has its blocks, however small the cache is, and no two at once.
#[derive(Debug, Default)]
pub(crate) struct SharedGroups {
    groups: Mutex<BTreeMap<(usize, usize), SharedGroup>>,
    /// Some worker has loaded what it claimed.
    loaded: Condvar,
}

#[derive(Debug, Default)]
struct SharedGroup {
    blocks_done: usize,
    chunks: Chunks,
    /// What some worker is loading.
    claimed: BTreeSet<(usize, usize)>,
}

/// Chunks that one worker loads while all others wait for them; they go on once this is dropped.
#[derive(Debug)]
pub(crate) struct Claim<'a> {
    shared: &'a SharedGroups,
    morsel: Morsel,
    places: Vec<(usize, usize)>,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        let mut groups = self.shared.lock();
        if let Some(group) = groups.get_mut(&(self.morsel.segment, self.morsel.group)) {
            group.claimed.retain(|place| !self.places.contains(place));
        }
        self.shared.loaded.notify_all();
    }
}

impl SharedGroups {
    /// What a worker that panicked left is whole: chunks are put in by one call.
    fn lock(&self) -> MutexGuard<'_, BTreeMap<(usize, usize), SharedGroup>> {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn with<T>(&self, morsel: Morsel, look: impl FnOnce(&mut SharedGroup) -> T) -> T {
        look(self.lock().entry((morsel.segment, morsel.group)).or_default())
    }

    /// Those of these chunks of a morsel's row group that are there with all these blocks, after waiting for those that others
    /// load; the caller loads the rest, and keeps them before it drops the claim.
    pub(crate) fn claim(
        &self,
        morsel: Morsel,
        wanted: &[((usize, usize), BlockSet)],
    ) -> (Vec<Option<Arc<InflatedChunk>>>, Claim<'_>) {
        let mut groups = self.lock();
        loop {
            let group = groups.entry((morsel.segment, morsel.group)).or_default();
            if wanted.iter().any(|(place, _)| group.claimed.contains(place)) {
                groups = self.loaded.wait(groups).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let known = wanted.iter().map(|(place, blocks)| {
                let chunk = group.chunks.get(place).filter(|chunk| chunk.has_all(blocks));
                chunk.cloned()
            });
            let known: Vec<_> = known.collect();
            let missing = wanted.iter().zip(&known).filter(|(_, known)| known.is_none());
            let places: Vec<_> = missing.map(|((place, _), _)| *place).collect();
            group.claimed.extend(&places);
            return (known, Claim { shared: self, morsel, places });
        }
    }

    /// Keeps chunks of a morsel's row group.
    pub(crate) fn keep(&self, morsel: Morsel, chunks: impl Iterator<Item = ((usize, usize), Arc<InflatedChunk>)>) {
        self.with(morsel, |shared| shared.chunks.extend(chunks));
    }

    /// Takes note that a morsel is done; if it is the last one of a row group whose morsels have so many blocks, all chunks of
    /// that.
    pub(crate) fn done(&self, morsel: Morsel, blocks: usize) -> Option<Chunks> {
        self.with(morsel, |shared| {
            shared.blocks_done += morsel.blocks().len();
            (shared.blocks_done == blocks).then(|| std::mem::take(&mut shared.chunks))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(segments: &[(u32, usize)]) -> Vec<(usize, usize)> {
        let segments: Vec<_> = segments.iter().map(|(directory, groups)| (DirectoryId(*directory), *groups)).collect();
        interleaved(&segments)
    }

    #[test]
    fn one_directory_is_read_in_row_order() {
        assert_eq!(order(&[]), []);
        assert_eq!(order(&[(0, 2), (0, 0), (0, 3)]), [(0, 0), (0, 1), (2, 0), (2, 1), (2, 2)]);
    }

    /// However many row groups there were: the last ones may be missing in some directories.
    #[test]
    fn what_was_dealt_in_turn_is_read_in_turn() {
        for directories in 1..5usize {
            for groups in 0..40 {
                let dealt = |to: usize| (groups + directories - 1 - to) / directories;
                let segments: Vec<_> = (0..directories).map(|to| (9 - to as u32, dealt(to))).collect();
                let wanted: Vec<_> = (0..groups).map(|group| (group % directories, group / directories)).collect();
                assert_eq!(order(&segments), wanted, "{groups} over {directories}");
            }
        }
    }

    #[test]
    fn loads_stay_in_their_order_and_drives_are_busy_to_the_end() {
        // Two loads, and small ones behind them.
        assert_eq!(
            order(&[(1, 2), (2, 1), (1, 1), (2, 1), (2, 1), (1, 1)]),
            [(0, 0), (1, 0), (0, 1), (2, 0), (3, 0), (4, 0), (5, 0)]
        );
        let uneven = order(&[(1, 90), (2, 10)]);
        let second: Vec<_> = uneven.iter().enumerate().filter(|(_, place)| place.0 == 1).map(|(at, _)| at).collect();
        assert!(second.windows(2).all(|pair| pair[1] - pair[0] == 10), "{second:?}");
    }
}
