//! Units in an order, from the one that came first to the one that came last, with the sum of their bytes.
//!
//! Must not know: why they stand in that order.

use std::collections::{BTreeMap, HashMap};

use super::UnitKey;
use crate::key_hasher::BuildKeyHasher;

/// Units in the order in which they were pushed.
#[derive(Debug)]
pub(super) struct Queue<K> {
    by_place: BTreeMap<u64, K>,
    /// The place and the bytes of each.
    places: HashMap<K, (u64, usize), BuildKeyHasher>,
    next: u64,
    bytes: usize,
}

impl<K: UnitKey> Queue<K> {
    pub(super) fn new() -> Self {
        Self { by_place: BTreeMap::new(), places: HashMap::default(), next: 0, bytes: 0 }
    }

    /// Puts a unit behind all others, wherever it was.
    pub(super) fn push(&mut self, key: K, bytes: usize) {
        if let Some((place, before)) = self.places.insert(key.clone(), (self.next, bytes)) {
            self.by_place.remove(&place);
            self.bytes -= before;
        }
        self.by_place.insert(self.next, key);
        self.next += 1;
        self.bytes += bytes;
    }

    /// Takes a unit out; gives its bytes, if it was there.
    pub(super) fn remove(&mut self, key: &K) -> Option<usize> {
        let (place, bytes) = self.places.remove(key)?;
        self.by_place.remove(&place);
        self.bytes -= bytes;
        Some(bytes)
    }

    /// Puts a unit that is there behind all others; false where it is not.
    pub(super) fn renew(&mut self, key: &K) -> bool {
        let Some((place, _)) = self.places.get_mut(key) else { return false };
        let before = std::mem::replace(place, self.next);
        if let Some(key) = self.by_place.remove(&before) {
            self.by_place.insert(self.next, key);
        }
        self.next += 1;
        true
    }

    pub(super) fn contains(&self, key: &K) -> bool {
        self.places.contains_key(key)
    }

    /// The unit that was pushed first.
    pub(super) fn front(&self) -> Option<&K> {
        self.by_place.first_key_value().map(|(_, key)| key)
    }

    /// Takes out the unit that was pushed first.
    pub(super) fn pop_front(&mut self) -> Option<(K, usize)> {
        let key = self.front()?.clone();
        let bytes = self.remove(&key)?;
        Some((key, bytes))
    }

    /// From the first to the last.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &K> {
        self.by_place.values()
    }

    /// Takes out the first unit that `take` takes; gives it.
    pub(super) fn take_first(&mut self, take: &mut dyn FnMut(&K) -> bool) -> Option<(K, usize)> {
        let key = self.iter().find(|key| take(key))?.clone();
        let bytes = self.remove(&key)?;
        Some((key, bytes))
    }

    /// Takes out the last unit that `take` takes; gives it.
    pub(super) fn take_last(&mut self, take: &mut dyn FnMut(&K) -> bool) -> Option<(K, usize)> {
        let key = self.iter().rev().find(|key| take(key))?.clone();
        let bytes = self.remove(&key)?;
        Some((key, bytes))
    }

    /// Drops the first ones until no more than so many bytes are left.
    pub(super) fn trim(&mut self, most_bytes: usize) {
        while self.bytes > most_bytes && self.pop_front().is_some() {}
    }

    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
