//! What is read of a chunk: all of it, or the frames of the blocks that are needed, where that saves enough.
//!
//! Invariants: a part of a chunk has all frames of the blocks that it was made for; the same blocks of the same chunk always
//! give the same part. Must not know: the cache, why blocks are needed.

use std::ops::Range;

use forebay_base::{Result, limits};
use forebay_block::{BlockSet, block_places};
use forebay_store::Segment;

use super::Place;

/// One in so many bytes and blocks of a chunk may be read for it not to be read as a whole: who reads a part does without the
/// rest when that is needed next.
const SAVING: usize = 2;

/// All of a chunk or a part of it.
#[derive(Debug, Clone)]
pub(crate) struct Extent {
    /// The blocks whose frames it has.
    pub(crate) blocks: BlockSet,
    pub(crate) is_whole: bool,
    /// Bytes from the chunk's start, in multiples of [`limits::IO_ALIGN`], ascending.
    pub(crate) runs: Vec<Range<usize>>,
}

impl Extent {
    /// All of a chunk.
    pub(crate) fn whole(segment: &Segment, place: &Place) -> Result<Self> {
        let count = segment.groups()?[place.group].columns[place.column].blocks_of(place.chunk).len();
        let whole = 0..segment.chunk_bytes(place.in_segment())?;
        Ok(Self { blocks: BlockSet::first(count), is_whole: true, runs: vec![whole] })
    }

    /// The frames of the blocks of `place`, where that is at most half of the chunk; else all of it, as of a chunk that
    /// describes itself.
    pub(crate) fn of(segment: &Segment, place: &Place) -> Result<Self> {
        let whole = Self::whole(segment, place)?;
        // Before the directory is asked for, which may have to be read.
        if place.blocks.len() * SAVING > whole.blocks.len() {
            return Ok(whole);
        }
        let (group, column, chunk) = place.in_segment();
        let directory = segment.directory(group, column, chunk)?;
        if directory.is_empty() {
            return Ok(whole);
        }
        let places = block_places(directory, segment.columns()[column].1, &place.blocks)?;
        match runs_of(&places, whole.bytes(), limits::READ_GAP_BYTES) {
            Some(runs) if bytes_of(&runs) * SAVING <= whole.bytes() => {
                Ok(Self { blocks: place.blocks, is_whole: false, runs })
            }
            _ => Ok(whole),
        }
    }

    /// Bytes that are read.
    pub(crate) fn bytes(&self) -> usize {
        bytes_of(&self.runs)
    }
}

fn bytes_of(runs: &[Range<usize>]) -> usize {
    runs.iter().map(Range::len).sum()
}

/// Whole pages of a chunk of so many bytes that hold these places, ascending; up to `gap_bytes` between two of them are read along,
/// as far as that is cheaper than another request. `None` where a place is not in the chunk: whoever inflates it tells.
pub(crate) fn runs_of(places: &[Range<usize>], chunk_bytes: usize, gap_bytes: usize) -> Option<Vec<Range<usize>>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for place in places {
        let start = place.start / limits::IO_ALIGN * limits::IO_ALIGN;
        let end = place.end.next_multiple_of(limits::IO_ALIGN);
        if end > chunk_bytes {
            return None;
        }
        match runs.last_mut() {
            Some(last) if start <= last.end + gap_bytes => last.end = end,
            _ => runs.push(start..end),
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs_of(places: &[Range<usize>], chunk_bytes: usize) -> Option<Vec<Range<usize>>> {
        super::runs_of(places, chunk_bytes, limits::READ_GAP_BYTES)
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "lists of one range are meant")]
    fn runs_are_whole_pages_and_jump_over_large_gaps() {
        const PAGE: usize = limits::IO_ALIGN;
        let far = 3 * PAGE + limits::READ_GAP_BYTES;
        assert_eq!(runs_of(&[], PAGE), Some(vec![]));
        assert_eq!(runs_of(&[8..16], PAGE), Some(vec![0..PAGE]));
        assert_eq!(runs_of(&[PAGE..2 * PAGE, 2 * PAGE..2 * PAGE + 8], 9 * PAGE), Some(vec![PAGE..3 * PAGE]));
        assert_eq!(runs_of(&[0..8, 8..16], 9 * PAGE), Some(vec![0..PAGE]), "on one page");
        assert_eq!(runs_of(&[2 * PAGE..3 * PAGE, far..far + 8], far + PAGE), Some(vec![2 * PAGE..far + PAGE]));
        let further = far + PAGE;
        let runs = vec![2 * PAGE..3 * PAGE, further..further + PAGE];
        assert_eq!(runs_of(&[2 * PAGE..3 * PAGE, further..further + 8], further + PAGE), Some(runs));
        assert_eq!(runs_of(&[0..8, PAGE..PAGE + 8], PAGE), None, "behind the end");
    }
}
