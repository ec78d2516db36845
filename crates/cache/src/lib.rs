//! Where bytes stay: inflated chunks kept in memory within a budget of bytes, so that a warm query reads nothing.
//!
//! Policy today: least recently used. The proportional policy (HPCache §4) takes its place behind the same calls.
//! Invariants: never holds more than its budget; values are shared, so eviction never takes bytes from a running scan.
//! Must not know: what the bytes mean.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A cache of shared values by key, bounded by the sum of the bytes given at insertion.
pub struct ChunkCache<K, V> {
    state: Mutex<State<K, V>>,
    /// Most bytes ever held.
    budget_bytes: usize,
}

struct State<K, V> {
    entries: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
    clock: u64,
    held_bytes: usize,
}

struct Entry<V> {
    value: Arc<V>,
    bytes: usize,
    last_use: u64,
}

impl<K: Hash + Eq + Clone, V> ChunkCache<K, V> {
    /// An empty cache of at most `budget_bytes`; 0 keeps nothing.
    pub fn new(budget_bytes: usize) -> Self {
        let state = State { entries: HashMap::new(), by_use: BTreeMap::new(), clock: 0, held_bytes: 0 };
        Self { state: Mutex::new(state), budget_bytes }
    }

    /// The value under `key`, marked as just used.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        let mut guard = self.lock();
        let state = &mut *guard;
        state.clock += 1;
        let entry = state.entries.get_mut(key)?;
        state.by_use.remove(&entry.last_use);
        entry.last_use = state.clock;
        state.by_use.insert(state.clock, key.clone());
        Some(Arc::clone(&entry.value))
    }

    /// The value under `key`; looking is no use of it.
    pub fn peek(&self, key: &K) -> Option<Arc<V>> {
        self.lock().entries.get(key).map(|entry| Arc::clone(&entry.value))
    }

    /// Whether there is a value under `key`; asking is no use of it.
    pub fn contains(&self, key: &K) -> bool {
        self.lock().entries.contains_key(key)
    }

    /// Keeps `value`, which takes `bytes` of memory, and evicts what was used longest ago. A value larger than the
    /// whole budget is not kept.
    pub fn insert(&self, key: K, value: Arc<V>, bytes: usize) {
        if bytes > self.budget_bytes {
            return;
        }
        let mut guard = self.lock();
        let state = &mut *guard;
        state.remove(&key);
        while state.held_bytes + bytes > self.budget_bytes {
            let Some((_, oldest)) = state.by_use.first_key_value() else { break };
            let oldest = oldest.clone();
            state.remove(&oldest);
        }
        state.clock += 1;
        state.by_use.insert(state.clock, key.clone());
        state.held_bytes += bytes;
        state.entries.insert(key, Entry { value, bytes, last_use: state.clock });
    }

    /// Drops the value that was used longest ago of those that nobody else holds, so that its memory is free at once; false
    /// where there is none.
    pub fn evict_unused(&self) -> bool {
        let mut state = self.lock();
        let is_unused = |key: &&K| state.entries.get(key).is_some_and(|entry| Arc::strong_count(&entry.value) == 1);
        let Some(oldest) = state.by_use.values().find(is_unused).cloned() else { return false };
        let evicted = state.remove(&oldest);
        // Its memory goes back to where it came from, which need not wait for us.
        drop(state);
        evicted.is_some()
    }

    /// Most bytes ever held.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes
    }

    /// Drops every value.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.entries.clear();
        state.by_use.clear();
        state.held_bytes = 0;
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> usize {
        self.lock().held_bytes
    }

    fn lock(&self) -> MutexGuard<'_, State<K, V>> {
        // Every change leaves the state whole, so a panicking holder is no reason to stop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Keys that were seen once, a bounded number of the last ones.
pub struct Seen<K> {
    /// The younger half, and the older one, which is forgotten when the younger is full.
    halves: Mutex<[HashSet<K>; 2]>,
    half_count: usize,
}

impl<K: Hash + Eq> Seen<K> {
    /// Remembers up to `count` keys, and at least half as many.
    pub fn new(count: usize) -> Self {
        Self { halves: Mutex::default(), half_count: (count / 2).max(1) }
    }

    /// Whether `key` was seen before; then it is forgotten, else remembered.
    pub fn note(&self, key: K) -> bool {
        let mut guard = self.halves.lock().unwrap_or_else(PoisonError::into_inner);
        let [young, old] = &mut *guard;
        if young.remove(&key) || old.remove(&key) {
            return true;
        }
        if young.len() >= self.half_count {
            *old = std::mem::take(young);
        }
        young.insert(key);
        false
    }
}

impl<K> fmt::Debug for Seen<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("half_count", &self.half_count).finish()
    }
}

impl<K: Hash + Eq + Clone, V> State<K, V> {
    fn remove(&mut self, key: &K) -> Option<Arc<V>> {
        let entry = self.entries.remove(key)?;
        self.by_use.remove(&entry.last_use);
        self.held_bytes -= entry.bytes;
        Some(entry.value)
    }
}

impl<K: Hash + Eq + Clone, V> fmt::Debug for ChunkCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let held_bytes = self.held_bytes();
        f.debug_struct("ChunkCache").field("held_bytes", &held_bytes).field("budget_bytes", &self.budget_bytes).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_what_was_used_longest_ago() {
        let cache = ChunkCache::new(30);
        for key in 0..3 {
            cache.insert(key, Arc::new(key * 10), 10);
        }
        assert_eq!(cache.get(&0).as_deref(), Some(&0));
        assert!(cache.contains(&1) && !cache.contains(&3));
        assert_eq!((cache.peek(&1).as_deref(), cache.peek(&3)), (Some(&10), None));
        cache.insert(3, Arc::new(30), 10);
        assert!(cache.get(&1).is_none());
        assert!(cache.get(&0).is_some() && cache.get(&2).is_some() && cache.get(&3).is_some());
        assert_eq!(cache.held_bytes(), 30);
    }

    #[test]
    fn what_somebody_uses_is_not_evicted_for_its_memory() {
        let cache = ChunkCache::new(30);
        for key in 0..3 {
            cache.insert(key, Arc::new(key), 10);
        }
        let used = cache.get(&1);
        cache.get(&0);
        assert!(cache.evict_unused() && !cache.contains(&2), "the one that was used longest ago");
        assert!(cache.evict_unused() && !cache.contains(&0));
        assert!(!cache.evict_unused() && cache.contains(&1), "its memory would not be free");
        drop(used);
        assert!(cache.evict_unused() && cache.held_bytes() == 0 && !cache.evict_unused());
    }

    #[test]
    fn keys_are_seen_once_and_forgotten_by_halves() {
        let seen = Seen::new(4);
        assert!(!seen.note(1) && seen.note(1) && !seen.note(1));
        assert!((2..6).all(|key| !seen.note(key)));
        assert!(seen.note(5) && seen.note(4) && seen.note(3) && !seen.note(1), "the last ones are known");
    }

    #[test]
    fn replaces_and_refuses() {
        let cache = ChunkCache::new(30);
        cache.insert("a", Arc::new(1), 10);
        cache.insert("a", Arc::new(2), 20);
        assert_eq!(cache.held_bytes(), 20);
        cache.insert("b", Arc::new(3), 31);
        assert!(cache.get(&"b").is_none());
        cache.clear();
        assert!(cache.get(&"a").is_none());
        assert_eq!(cache.held_bytes(), 0);
    }
}
