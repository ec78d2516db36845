//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: FIFO queues are all you need for cache eviction, SOSP 2023): a small queue, from which
//! what is not used again goes soon, a main one, and a memory of what went from the small one.
//!
//! Must not know: what units hold.

use std::collections::HashMap;

use super::queue::Queue;
use super::{Facts, Policy, UnitKey};
use crate::key_hasher::BuildKeyHasher;

/// The part of the budget that the small queue has.
const SMALL_SHARE: usize = 10;
/// Uses that are counted.
const MOST_USES: u8 = 3;

/// S3-FIFO.
#[derive(Debug)]
pub struct S3Fifo<K> {
    small: Queue<K>,
    main: Queue<K>,
    /// Went from the small queue.
    ghosts: Queue<K>,
    uses: HashMap<K, u8, BuildKeyHasher>,
    budget_bytes: usize,
}

impl<K: UnitKey> S3Fifo<K> {
    /// Without units.
    pub fn new(budget_bytes: usize) -> Self {
        let (small, main, ghosts) = (Queue::new(), Queue::new(), Queue::new());
        Self { small, main, ghosts, uses: HashMap::default(), budget_bytes }
    }

    fn main_bytes(&self) -> usize {
        self.budget_bytes - self.budget_bytes / SMALL_SHARE
    }

    fn uses(&self, key: &K) -> u8 {
        self.uses.get(key).copied().unwrap_or_default()
    }

    /// Looks at all units of the small queue once: those that were used twice go to the main one, those that are in use stay.
    fn evict_small(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        for _ in 0..self.small.len() {
            let Some((key, bytes)) = self.small.pop_front() else { return false };
            if self.uses(&key) > 1 {
                self.uses.remove(&key);
                self.main.push(key, bytes);
            } else if take(&key) {
                self.uses.remove(&key);
                self.ghosts.push(key, bytes);
                self.ghosts.trim(self.main_bytes());
                return true;
            } else {
                self.small.push(key, bytes);
            }
        }
        false
    }

    /// Looks at the units of the main queue until one goes, each as often as it was used.
    fn evict_main(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        for _ in 0..self.main.len() * (usize::from(MOST_USES) + 1) {
            let Some((key, bytes)) = self.main.pop_front() else { return false };
            match self.uses(&key) {
                0 if take(&key) => {
                    self.uses.remove(&key);
                    return true;
                }
                0 => {}
                uses => drop(self.uses.insert(key.clone(), uses - 1)),
            }
            self.main.push(key, bytes);
        }
        false
    }
}

impl<K: UnitKey> Policy<K> for S3Fifo<K> {
    fn insert(&mut self, key: K, facts: Facts) {
        self.forget(&key);
        match self.ghosts.remove(&key) {
            Some(_) => self.main.push(key, facts.bytes),
            None => self.small.push(key, facts.bytes),
        }
    }

    fn touch(&mut self, key: &K) {
        if self.small.contains(key) || self.main.contains(key) {
            let uses = (self.uses(key) + 1).min(MOST_USES);
            self.uses.insert(key.clone(), uses);
        }
    }

    fn forget(&mut self, key: &K) {
        self.small.remove(key);
        self.main.remove(key);
        self.uses.remove(key);
    }

    fn evict(&mut self, _incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let is_small_full = self.small.bytes() >= self.budget_bytes / SMALL_SHARE;
        if is_small_full && self.evict_small(take) {
            return true;
        }
        self.evict_main(take) || self.evict_small(take) || self.evict_main(take)
    }

    fn resize(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.ghosts.trim(self.main_bytes());
    }
}
