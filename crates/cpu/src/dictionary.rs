//! Dictionaries: the strings that a query met in some columns, each with an id. Workers share them.
//!
//! Invariants: equal strings have equal ids; ids are given from 0 on without gaps and stay. Who interns strings that are
//! there already takes a shared lock once for all of them. Ids have no order.

use std::sync::{Arc, PoisonError, RwLock};

use forebay_base::{Error, ErrorKind, Result};

use crate::layout::{HASH_SEED, hash_bytes, hash_end, hash_word};

/// An id that no string has.
pub(crate) const UNKNOWN: u32 = u32::MAX;
/// Slots of the first table.
const FIRST_SLOTS: usize = 64;

/// Strings by id, and ids by string.
#[derive(Debug, Default)]
pub struct Dictionary {
    /// Behind an `Arc`, so that a snapshot costs nothing and is copied only if strings come after it.
    strings: RwLock<Arc<Strings>>,
}

/// The strings of a dictionary at one time, by id.
#[derive(Debug, Clone)]
pub struct Strings {
    /// All strings, one after the other.
    bytes: Vec<u8>,
    /// Where each string ends.
    ends: Vec<usize>,
    /// Hashes by id, so that a growing table need not read strings.
    hashes: Vec<u64>,
    /// Open addressing: ids by the top bits of the hash; [`UNKNOWN`] is free. At most half full.
    slots: Vec<u32>,
}

impl Default for Strings {
    fn default() -> Self {
        Self { bytes: Vec::new(), ends: Vec::new(), hashes: Vec::new(), slots: vec![UNKNOWN; FIRST_SLOTS] }
    }
}

impl Dictionary {
    /// The id of `value`, which it gets if it has none.
    pub fn intern(&self, value: &[u8]) -> Result<u32> {
        let mut id = [UNKNOWN];
        self.intern_all(std::iter::once(value), &mut id)?;
        Ok(id[0])
    }

    /// Writes the ids of `values` to `ids`, which has as many. Takes the lock once where all are known, else twice.
    pub fn intern_all<'a>(&self, values: impl Iterator<Item = &'a [u8]> + Clone, ids: &mut [u32]) -> Result<()> {
        let mut is_complete = true;
        {
            let known = self.strings.read().unwrap_or_else(PoisonError::into_inner);
            for (id, value) in ids.iter_mut().zip(values.clone()) {
                *id = known.find(hash(value), value).unwrap_or(UNKNOWN);
                is_complete &= *id != UNKNOWN;
            }
        }
        if is_complete {
            return Ok(());
        }
        let mut strings = self.strings.write().unwrap_or_else(PoisonError::into_inner);
        let strings = Arc::make_mut(&mut strings);
        for (id, value) in ids.iter_mut().zip(values).filter(|(id, _)| **id == UNKNOWN) {
            *id = strings.intern(value)?;
        }
        Ok(())
    }

    /// The strings at this time.
    pub fn snapshot(&self) -> Arc<Strings> {
        Arc::clone(&self.strings.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.strings.read().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of the string with this id. Panics where no string has it. For many strings take a snapshot.
    pub fn value(&self, id: u32) -> Vec<u8> {
        self.strings.read().unwrap_or_else(PoisonError::into_inner).get(id).to_vec()
    }

    /// Bytes of memory that the dictionary holds.
    pub fn memory_bytes(&self) -> usize {
        self.strings.read().unwrap_or_else(PoisonError::into_inner).memory_bytes()
    }
}

impl Strings {
    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// True where there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string with this id. Panics where no string has it.
    pub fn get(&self, id: u32) -> &[u8] {
        let id = id as usize;
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[id]]
    }

    /// Bytes of memory that they take.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.ends.capacity() * size_of::<usize>()
            + self.hashes.capacity() * size_of::<u64>()
            + self.slots.capacity() * size_of::<u32>()
    }

    fn find(&self, hash: u64, value: &[u8]) -> Option<u32> {
        let id = self.slots[self.slot(hash, |id| self.hashes[id as usize] == hash && self.get(id) == value)];
        (id != UNKNOWN).then_some(id)
    }

    fn intern(&mut self, value: &[u8]) -> Result<u32> {
        let hash = hash(value);
        if let Some(id) = self.find(hash, value) {
            return Ok(id);
        }
        let id = u32::try_from(self.len()).ok().filter(|id| *id != UNKNOWN);
        let id =
            id.ok_or_else(|| Error::new(ErrorKind::OutOfMemory, "a query met more than 2^32 different strings"))?;
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len());
        self.hashes.push(hash);
        if self.len() * 2 > self.slots.len() {
            self.slots = vec![UNKNOWN; self.slots.len() * 2];
            for id in 0..=id {
                self.take_slot(id);
            }
        } else {
            self.take_slot(id);
        }
        Ok(id)
    }

    fn take_slot(&mut self, id: u32) {
        let slot = self.slot(self.hashes[id as usize], |_| false);
        self.slots[slot] = id;
    }

    /// The first slot for `hash` that is free or whose id `is_it`.
    fn slot(&self, hash: u64, is_it: impl Fn(u32) -> bool) -> usize {
        let bits = self.slots.len().ilog2();
        let mut slot = (hash >> (u64::BITS - bits)) as usize;
        while self.slots[slot] != UNKNOWN && !is_it(self.slots[slot]) {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        slot
    }
}

fn hash(value: &[u8]) -> u64 {
    hash_end(hash_word(HASH_SEED, hash_bytes(value)))
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn text(number: usize) -> Vec<u8> {
        (0..number % 50).flat_map(|_| number.to_string().into_bytes()).collect()
    }

    #[test]
    fn equal_strings_have_equal_ids_whoever_interns_them() {
        let dictionary = Dictionary::default();
        let ids: Vec<Vec<u32>> = std::thread::scope(|scope| {
            let intern = |worker: usize| {
                let dictionary = &dictionary;
                move || {
                    let texts: Vec<Vec<u8>> = (0..5000).map(|row| text((row * (worker * 2 + 1)) % 1700)).collect();
                    let mut ids = vec![0; texts.len()];
                    for (texts, ids) in texts.chunks(100).zip(ids.chunks_mut(100)) {
                        let values = texts.iter().map(Vec::as_slice);
                        dictionary.intern_all(values, ids).expect("there are few strings");
                    }
                    ids
                }
            };
            let workers: Vec<_> = (0..4).map(|worker| scope.spawn(intern(worker))).collect();
            workers.into_iter().map(|worker| worker.join().expect("workers do not panic")).collect()
        });
        let snapshot = dictionary.snapshot();
        let mut known = HashMap::new();
        for (worker, ids) in ids.iter().enumerate() {
            for (row, id) in ids.iter().enumerate() {
                let text = text((row * (worker * 2 + 1)) % 1700);
                assert_eq!(snapshot.get(*id), text);
                assert_eq!(*known.entry(text).or_insert(*id), *id);
            }
        }
        assert_eq!(snapshot.len(), known.len());
    }

    #[test]
    fn a_snapshot_stays_as_it_is() {
        let dictionary = Dictionary::default();
        assert!(dictionary.is_empty());
        let empty = dictionary.intern(b"").expect("there are few strings");
        let snapshot = dictionary.snapshot();
        let other = dictionary.intern(b"other").expect("there are few strings");
        assert_eq!((empty, other, snapshot.len(), dictionary.len()), (0, 1, 1, 2));
        assert_eq!((dictionary.value(0), dictionary.value(1)), (b"".to_vec(), b"other".to_vec()));
        assert!(dictionary.memory_bytes() > 0);
    }
}
