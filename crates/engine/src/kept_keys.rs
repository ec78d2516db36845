//! Keys of blocks in their order, those of the blocks that were asked for lately.
//!
//! Invariant: what is kept takes no more memory than it may, but for one block. Must not know: where keys come from, what is done with them.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, PoisonError};

use forebay_base::{ColumnId, Error, Result, SegmentId};

/// The first bytes of a key, which are compared as one integer, the most significant byte first; zeros follow where it has fewer.
const PREFIX_BYTES: usize = size_of::<u128>();

/// Keys of a block, ascending, and the rows that have them. No key is the beginning of another one.
#[derive(Debug, Default)]
pub(crate) struct BlockKeys {
    prefixes: Vec<u128>,
    /// What follows the prefixes.
    rest: Vec<u8>,
    rows: Vec<u16>,
    /// The length of each key, where it ends in `rest`; nothing where all are as long as `width`.
    each: Vec<(u32, u32)>,
    width: usize,
    /// When they were last asked for (`Kept::clock`).
    last_use: AtomicU64,
}

impl BlockKeys {
    pub(crate) fn with_capacity(rows: usize) -> Self {
        let (prefixes, rows, each) = (Vec::with_capacity(rows), Vec::with_capacity(rows), Vec::with_capacity(rows));
        Self { prefixes, rows, each, ..Self::default() }
    }

    /// Adds the key of a row.
    ///
    /// # Errors
    /// `Unsupported` where they take 4 GiB.
    pub(crate) fn push(&mut self, key: &[u8], row: u16) -> Result<()> {
        let (prefix, rest) = split(key);
        self.rest.extend_from_slice(rest);
        let end = u32::try_from(self.rest.len()).map_err(|_| Error::unsupported("the keys of a block take 4 GiB"))?;
        self.prefixes.push(prefix);
        self.each.push((key.len() as u32, end));
        self.rows.push(row);
        Ok(())
    }

    /// The same in the order of the keys.
    pub(crate) fn sorted(mut self) -> Self {
        let mut order: Vec<usize> = (0..self.rows.len()).collect();
        if !order.is_sorted_by(|one, other| self.order(*one, &self, *other).is_le()) {
            order.sort_by(|one, other| self.order(*one, &self, *other));
            let mut sorted = Self::with_capacity(order.len());
            for at in order {
                sorted.rest.extend_from_slice(self.rest(at));
                sorted.prefixes.push(self.prefixes[at]);
                sorted.each.push((self.each[at].0, sorted.rest.len() as u32));
                sorted.rows.push(self.rows[at]);
            }
            self = sorted;
        }
        let width = self.each.first().map_or(0, |(length, _)| *length);
        if self.each.iter().all(|(length, _)| *length == width) {
            (self.width, self.each) = (width as usize, Vec::new());
        }
        self.rest.shrink_to_fit();
        self
    }

    /// The row with the key at this place.
    pub(crate) fn row(&self, at: usize) -> u16 {
        self.rows[at]
    }

    pub(crate) fn key(&self, at: usize) -> Vec<u8> {
        let length = self.each.get(at).map_or(self.width, |(length, _)| *length as usize);
        let prefix = self.prefixes[at].to_be_bytes();
        [&prefix[..length.min(PREFIX_BYTES)], self.rest(at)].concat()
    }

    /// How the key at a place is ordered to another block's.
    pub(crate) fn order(&self, at: usize, other: &Self, other_at: usize) -> Ordering {
        let prefixes = self.prefixes[at].cmp(&other.prefixes[other_at]);
        prefixes.then_with(|| self.rest(at).cmp(other.rest(other_at)))
    }

    /// The keys from `low` on and below `high`. Both are keys, beginnings of keys, or what lies behind all that begin likewise.
    pub(crate) fn between(&self, low: &[u8], high: Option<&[u8]>) -> Range<usize> {
        let start = self.first_from(low);
        start..high.map_or(self.rows.len(), |high| self.first_from(high)).max(start)
    }

    /// The place of the first key that is not less than these bytes. A key of the same prefix is less only if these go on behind it.
    fn first_from(&self, bytes: &[u8]) -> usize {
        let (prefix, rest) = split(bytes);
        let start = self.prefixes.partition_point(|own| *own < prefix);
        if rest.is_empty() {
            return start;
        }
        let (mut first, mut last) = (start, start + self.prefixes[start..].partition_point(|own| *own == prefix));
        while first < last {
            let middle = first + (last - first) / 2;
            match self.rest(middle) < rest {
                true => first = middle + 1,
                false => last = middle,
            }
        }
        first
    }

    fn rest(&self, at: usize) -> &[u8] {
        match self.each.get(at) {
            None => {
                let width = self.width.saturating_sub(PREFIX_BYTES);
                &self.rest[at * width..(at + 1) * width]
            }
            Some((length, end)) => {
                &self.rest[*end as usize - (*length as usize).saturating_sub(PREFIX_BYTES)..*end as usize]
            }
        }
    }

    fn memory_bytes(&self) -> usize {
        let of_each = size_of::<(u32, u32)>() * self.each.capacity();
        let of_rows = size_of::<u16>() * self.rows.capacity() + PREFIX_BYTES * self.prefixes.capacity();
        self.rest.capacity() + of_rows + of_each
    }
}

/// The prefix of a key, and what follows.
fn split(key: &[u8]) -> (u128, &[u8]) {
    let (first, rest) = key.split_at(key.len().min(PREFIX_BYTES));
    let mut prefix = [0; PREFIX_BYTES];
    prefix[..first.len()].copy_from_slice(first);
    (u128::from_be_bytes(prefix), rest)
}

/// Which block's keys, and of which columns.
pub(crate) type KeysOf = (SegmentId, u32, Arc<[ColumnId]>);

/// Keys of blocks that were asked for lately.
#[derive(Debug, Default)]
pub(crate) struct KeptKeys {
    state: Mutex<Kept>,
    /// How often keys were kept.
    clock: AtomicU64,
}

#[derive(Debug, Default)]
struct Kept {
    blocks: HashMap<KeysOf, Arc<BlockKeys>>,
    bytes: usize,
}

impl KeptKeys {
    pub(crate) fn find(&self, of: &KeysOf) -> Option<Arc<BlockKeys>> {
        let kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let keys = kept.blocks.get(of)?;
        self.used(keys);
        Some(Arc::clone(keys))
    }

    /// Says that keys were asked for.
    pub(crate) fn used(&self, keys: &BlockKeys) {
        let now = self.clock.load(Relaxed);
        // Most were asked for already since others were kept: then nobody writes to what all read.
        if keys.last_use.load(Relaxed) != now {
            keys.last_use.store(now, Relaxed);
        }
    }

    /// Keeps keys; those that were used longest ago go where all take more than `most_bytes`.
    pub(crate) fn keep(&self, of: KeysOf, keys: &Arc<BlockKeys>, most_bytes: usize) {
        let mut kept = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut *kept;
        self.clock.fetch_add(1, Relaxed);
        self.used(keys);
        kept.bytes += keys.memory_bytes();
        if let Some(other) = kept.blocks.insert(of, Arc::clone(keys)) {
            kept.bytes -= other.memory_bytes();
        }
        while kept.bytes > most_bytes && kept.blocks.len() > 1 {
            let oldest = kept.blocks.iter().min_by_key(|(_, keys)| keys.last_use.load(Relaxed));
            let oldest = oldest.map(|(of, _)| of.clone());
            let Some(gone) = oldest.and_then(|of| kept.blocks.remove(&of)) else { return };
            kept.bytes -= gone.memory_bytes();
        }
    }
}

#[cfg(test)]
mod tests {
    use forebay_store::end_of_prefix;
    use proptest::prelude::*;

    use super::*;

    fn keys(of: &[&[u8]]) -> BlockKeys {
        let mut keys = BlockKeys::with_capacity(of.len());
        of.iter().enumerate().for_each(|(row, key)| keys.push(key, row as u16).expect("short"));
        keys.sorted()
    }

    /// Keys as rows have them: none begins another one.
    fn some_keys() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let of_one_length = (1_usize..20).prop_flat_map(|length| {
            let byte = prop_oneof![Just(0_u8), Just(1), Just(255)];
            prop::collection::vec(prop::collection::vec(byte, length), 0..20)
        });
        // A byte that ends them, as strings have two.
        let byte = prop_oneof![Just(1_u8), Just(255)];
        let ended = prop::collection::vec(byte, 0..20).prop_map(|bytes| [bytes, vec![0]].concat());
        prop_oneof![of_one_length, prop::collection::vec(ended, 0..20)]
    }

    proptest! {
        #[test]
        fn keys_are_found_by_their_order(all in some_keys(), ends in prop::collection::vec((any::<usize>(), 0_usize..21), 2)) {
            let keys = keys(&all.iter().map(|key| &key[..]).collect::<Vec<_>>());
            let mut sorted = all.clone();
            sorted.sort();
            prop_assert_eq!(&(0..all.len()).map(|at| keys.key(at)).collect::<Vec<_>>(), &sorted);
            prop_assert!((0..all.len()).all(|at| all[usize::from(keys.row(at))] == sorted[at]));
            // A key or its beginning, and what lies behind all that begin likewise.
            let bound = |(at, length): (usize, usize)| {
                let key = all.get(at % all.len().max(1)).cloned().unwrap_or_default();
                key[..length.min(key.len())].to_vec()
            };
            let (low, high) = (bound(ends[0]), end_of_prefix(&bound(ends[1])));
            let start = sorted.partition_point(|key| *key < low);
            let end = high.as_ref().map_or(sorted.len(), |high| sorted.partition_point(|key| key < high));
            prop_assert_eq!(keys.between(&low, high.as_deref()), start..end.max(start));
        }
    }

    #[test]
    fn what_was_not_used_goes_first() {
        let kept = KeptKeys::default();
        let of = |block: u32| -> KeysOf { (SegmentId(1), block, [ColumnId(0)].into()) };
        let block = || Arc::new(keys(&[&[7; 100]]));
        let most = 3 * block().memory_bytes();
        for number in 0..3 {
            kept.keep(of(number), &block(), most);
        }
        assert!(kept.find(&of(0)).is_some());
        kept.keep(of(3), &block(), most);
        let left: Vec<u32> = (0..4).filter(|number| kept.find(&of(*number)).is_some()).collect();
        assert_eq!(left, [0, 2, 3]);
        kept.keep(of(3), &block(), 0);
        assert_eq!((0..4).filter(|number| kept.find(&of(*number)).is_some()).count(), 1, "one always is");
    }
}
