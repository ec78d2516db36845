//! The chunks of a table, found without a latch: parts of 1, 2, 4, … chunks that never move.
//!
//! Invariant: chunks are added at the end and never taken out. Must not know: what a chunk is.

use std::sync::OnceLock;

/// Parts of a list of up to 2^32 - 1 chunks.
const PARTS: usize = 32;

/// A list that grows at its end while it is read. Whoever adds does so alone.
#[derive(Debug)]
pub(crate) struct ChunkList<T> {
    parts: [OnceLock<Box<[OnceLock<T>]>>; PARTS],
}

impl<T> Default for ChunkList<T> {
    fn default() -> Self {
        Self { parts: [const { OnceLock::new() }; PARTS] }
    }
}

impl<T> ChunkList<T> {
    /// The chunk at an index, once it was added.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<&T> {
        let (part, at) = place(index)?;
        self.parts[part].get()?[at].get()
    }

    /// Adds a chunk at an index, the next one.
    pub(crate) fn add(&self, index: usize, chunk: T) {
        let (part, at) = place(index).expect("a table has fewer than 2^32 hot chunks");
        let part = self.parts[part].get_or_init(|| (0..1_usize << part).map(|_| OnceLock::new()).collect());
        assert!(part[at].set(chunk).is_ok(), "chunks are added once");
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        (0..).map_while(|index| self.get(index))
    }
}

#[inline]
fn place(index: usize) -> Option<(usize, usize)> {
    let part = (index + 1).ilog2() as usize;
    (part < PARTS).then_some((part, index + 1 - (1 << part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_found_where_they_were_added() {
        let list = ChunkList::default();
        assert!(list.get(0).is_none());
        (0..1000).for_each(|index| list.add(index, index * 3));
        assert!((0..1000).all(|index| list.get(index) == Some(&(index * 3))));
        assert_eq!((list.get(1000), list.get(usize::MAX - 1), list.iter().count()), (None, None, 1000));
    }
}
