//! What a worker takes of a table at a time: a row group, or a part of one where the table has few; and what the parts of a
//! row group share.
//!
//! Invariant: every block of a table is in one morsel. Must not know: tests, rows.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use forebay_base::{Error, Result, limits};
use forebay_block::InflatedChunk;
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
    /// Its blocks, counted from the row group's first.
    pub(crate) fn blocks(&self) -> Range<usize> {
        self.from..self.to
    }

    /// Its row group; `segment` is the one that it is of.
    pub(crate) fn group_of<'s>(&self, segment: &'s Segment) -> &'s Group {
        &segment.groups().expect("the footer was read when the morsel was made")[self.group]
    }
}

/// All morsels of a table, in row order.
pub fn morsels(table: &Table) -> Result<Vec<Morsel>> {
    let mut blocks = 0;
    for segment in &table.segments {
        blocks += segment.groups()?.iter().map(|group| group.block_rows.len()).sum::<usize>();
    }
    let step = match blocks / WANTED_MORSELS {
        // Nearly whole row groups are better whole: they share their chunks with nobody.
        step if step > limits::GROUP_BLOCKS / 2 => limits::GROUP_BLOCKS,
        step => step.max(1),
    };
    let mut morsels = Vec::with_capacity(blocks.div_ceil(step));
    for (segment, stored) in table.segments.iter().enumerate() {
        for (group, layout) in stored.groups()?.iter().enumerate() {
            let end = layout.block_rows.len();
            let part = |from| Morsel { segment, group, from, to: end.min(from + step) };
            morsels.extend((0..end).step_by(step).map(part));
        }
    }
    Ok(morsels)
}

/// Chunks by column of the table and number.
pub(crate) type Chunks = BTreeMap<(usize, usize), Arc<InflatedChunk>>;

/// What the morsels of each row group of a scan have loaded, until the last one of the group is done: none loads a chunk
/// again, however small the cache is.
#[derive(Debug, Default)]
pub(crate) struct SharedGroups {
    groups: Mutex<BTreeMap<(usize, usize), SharedGroup>>,
}

#[derive(Debug, Default)]
struct SharedGroup {
    blocks_done: usize,
    chunks: Chunks,
}

impl SharedGroups {
    fn with<T>(&self, morsel: Morsel, look: impl FnOnce(&mut SharedGroup) -> T) -> Result<T> {
        let mut groups = self.groups.lock().map_err(|_| Error::internal("a scan's worker panicked"))?;
        Ok(look(groups.entry((morsel.segment, morsel.group)).or_default()))
    }

    /// Those of these chunks of a morsel's row group that are there.
    pub(crate) fn known(&self, morsel: Morsel, places: &[(usize, usize)]) -> Result<Vec<Option<Arc<InflatedChunk>>>> {
        self.with(morsel, |shared| places.iter().map(|place| shared.chunks.get(place).cloned()).collect())
    }

    /// Keeps chunks of a morsel's row group.
    pub(crate) fn keep(
        &self,
        morsel: Morsel,
        chunks: impl Iterator<Item = ((usize, usize), Arc<InflatedChunk>)>,
    ) -> Result<()> {
        self.with(morsel, |shared| shared.chunks.extend(chunks))
    }

    /// Takes note that a morsel is done; if it is the last one of a row group of so many blocks, all chunks of that.
    pub(crate) fn done(&self, morsel: Morsel, blocks: usize) -> Result<Option<Chunks>> {
        self.with(morsel, |shared| {
            shared.blocks_done += morsel.blocks().len();
            (shared.blocks_done == blocks).then(|| std::mem::take(&mut shared.chunks))
        })
    }
}
