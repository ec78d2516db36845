//! Keys of blocks in their order, those of the blocks that were asked for lately.
//!
//! Invariant: what is kept takes no more memory than it may, but for one block. Must not know: where keys come from, what is done with them.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{ColumnId, Error, Result, SegmentId};

/// Keys of a block, ascending, and the rows that have them.
#[derive(Debug)]
pub(crate) struct BlockKeys {
    bytes: Vec<u8>,
    /// Where each key ends.
    ends: Vec<u32>,
    rows: Vec<u16>,
}

impl BlockKeys {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        Self { bytes: Vec::new(), ends: Vec::with_capacity(rows), rows: Vec::with_capacity(rows) }
    }

    /// Adds the key of a row.
    ///
    /// # Errors
    /// `Unsupported` where they take 4 GiB.
    pub(crate) fn push(&mut self, key: &[u8], row: u16) -> Result<()> {
        self.bytes.extend_from_slice(key);
        let end = u32::try_from(self.bytes.len());
        self.ends.push(end.map_err(|_| Error::unsupported("the keys of a block take 4 GiB"))?);
        self.rows.push(row);
        Ok(())
    }

    /// The same in the order of the keys.
    pub(crate) fn sorted(self) -> Self {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        if order.is_sorted_by_key(|at| self.key(*at)) {
            return self;
        }
        order.sort_by(|one, other| self.key(*one).cmp(self.key(*other)));
        let (mut bytes, mut ends) = (Vec::with_capacity(self.bytes.len()), Vec::with_capacity(order.len()));
        for at in &order {
            bytes.extend_from_slice(self.key(*at));
            ends.push(bytes.len() as u32);
        }
        Self { bytes, ends, rows: order.into_iter().map(|at| self.rows[at]).collect() }
    }

    /// The row with the key at this place.
    pub(crate) fn row(&self, at: usize) -> u16 {
        self.rows[at]
    }

    pub(crate) fn key(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] as usize };
        &self.bytes[start..self.ends[at] as usize]
    }

    /// The keys from `low` on and below `high`.
    pub(crate) fn between(&self, low: &[u8], high: Option<&[u8]>) -> Range<usize> {
        let first_not = |is_before: &dyn Fn(&[u8]) -> bool| {
            let (mut first, mut last) = (0, self.rows.len());
            while first < last {
                let middle = first + (last - first) / 2;
                match is_before(self.key(middle)) {
                    true => first = middle + 1,
                    false => last = middle,
                }
            }
            first
        };
        let start = first_not(&|key| key < low);
        start..high.map_or(self.rows.len(), |high| first_not(&|key| key < high)).max(start)
    }

    fn memory_bytes(&self) -> usize {
        self.bytes.capacity() + self.ends.capacity() * size_of::<u32>() + self.rows.capacity() * size_of::<u16>()
    }
}

/// Which block's keys, and of which columns.
pub(crate) type KeysOf = (SegmentId, u32, Arc<[ColumnId]>);

/// Keys of blocks that were asked for lately.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    state: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// With the time of their last use.
    blocks: HashMap<KeysOf, (Arc<BlockKeys>, u64)>,
    bytes: usize,
    clock: u64,
}

impl KeptKeys {
    pub(crate) fn find(&self, of: &KeysOf) -> Option<Arc<BlockKeys>> {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock += 1;
        let now = kept.clock;
        let (keys, last_use) = kept.blocks.get_mut(of)?;
        *last_use = now;
        Some(Arc::clone(keys))
    }

    /// Keeps keys; those that were used longest ago go where all take more than `most_bytes`.
    pub(crate) fn keep(&self, of: KeysOf, keys: &Arc<BlockKeys>, most_bytes: usize) {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        kept.clock += 1;
        kept.bytes += keys.memory_bytes();
        if let Some((other, _)) = kept.blocks.insert(of, (Arc::clone(keys), kept.clock)) {
            kept.bytes -= other.memory_bytes();
        }
        while kept.bytes > most_bytes && kept.blocks.len() > 1 {
            let oldest = kept.blocks.iter().min_by_key(|(_, (_, last_use))| *last_use).map(|(of, _)| of.clone());
            let Some((gone, _)) = oldest.and_then(|of| kept.blocks.remove(&of)) else { return };
            kept.bytes -= gone.memory_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(of: &[&[u8]]) -> BlockKeys {
        let mut keys = BlockKeys::with_capacity(of.len());
        of.iter().enumerate().for_each(|(row, key)| keys.push(key, row as u16).expect("short"));
        keys.sorted()
    }

    #[test]
    fn keys_are_found_by_their_order() {
        let keys = keys(&[b"b", b"", b"ab", b"b", b"c"]);
        let rows = |low: &[u8], high: Option<&[u8]>| keys.between(low, high).map(|at| keys.row(at)).collect::<Vec<_>>();
        assert_eq!(rows(b"", None), [1, 2, 0, 3, 4]);
        assert_eq!((rows(b"b", Some(b"c")), rows(b"a", Some(b"b"))), (vec![0, 3], vec![2]));
        assert_eq!((rows(b"d", None), rows(b"c", Some(b"a"))), (vec![], vec![]));
        assert_eq!(keys.key(1), b"ab");
    }

    #[test]
    fn what_was_not_used_goes_first() {
        let kept = KeptKeys::default();
        let of = |block: u32| -> KeysOf { (SegmentId(1), block, [ColumnId(0)].into()) };
        let block = Arc::new(keys(&[&[7; 100]]));
        let most = 3 * block.memory_bytes();
        for number in 0..3 {
            kept.keep(of(number), &block, most);
        }
        assert!(kept.find(&of(0)).is_some());
        kept.keep(of(3), &block, most);
        let left: Vec<u32> = (0..4).filter(|number| kept.find(&of(*number)).is_some()).collect();
        assert_eq!(left, [0, 2, 3]);
        kept.keep(of(3), &block, 0);
        assert_eq!((0..4).filter(|number| kept.find(&of(*number)).is_some()).count(), 1, "one always is");
    }
}
