//! Keys that were seen once, a bounded number of them: what is needed a second time is worth keeping.
//!
//! Must not know: what the keys name.

use std::collections::HashSet;
use std::fmt;
use std::hash::Hash;
use std::sync::{Mutex, PoisonError};

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_seen_once_and_forgotten_by_halves() {
        let seen = Seen::new(4);
        assert!(!seen.note(1) && seen.note(1) && !seen.note(1));
        assert!((2..6).all(|key| !seen.note(key)));
        assert!(seen.note(5) && seen.note(4) && seen.note(3) && !seen.note(1), "the last ones are known");
    }
}
