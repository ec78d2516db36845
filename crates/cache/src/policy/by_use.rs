//! By the time of the last use: what was used longest ago goes first (LRU), or what was used last (MRU, Chou & DeWitt, Algorithmica
//! 1986), the best that can be done for one scan that is repeated over more than fits.
//!
//! Must not know: how large units are.

use super::queue::Queue;
use super::{Facts, Policy, UnitKey};

/// Least or most recently used.
#[derive(Debug)]
pub struct ByUse<K> {
    by_use: Queue<K>,
    /// What was used last goes first.
    is_last_first: bool,
}

impl<K: UnitKey> ByUse<K> {
    /// Without units, of which the least recently used go first.
    pub fn least_recent() -> Self {
        Self { by_use: Queue::new(), is_last_first: false }
    }

    /// Without units, of which the most recently used go first.
    pub fn most_recent() -> Self {
        Self { is_last_first: true, ..Self::least_recent() }
    }
}

impl<K: UnitKey> Policy<K> for ByUse<K> {
    fn insert(&mut self, key: K, facts: Facts) {
        self.by_use.push(key, facts.bytes);
    }

    fn touch(&mut self, key: &K) {
        self.by_use.renew(key);
    }

    fn counts_uses(&self) -> bool {
        false
    }

    fn forget(&mut self, key: &K) {
        self.by_use.remove(key);
    }

    fn evict(&mut self, _incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let gone = if self.is_last_first { self.by_use.take_last(take) } else { self.by_use.take_first(take) };
        gone.is_some()
    }
}
