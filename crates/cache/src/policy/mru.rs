//! Most recently used: what was used last goes first (Chou & DeWitt, Algorithmica 1986), the best that can be done for one scan that is
//! repeated over more than fits.
//!
//! Must not know: how large units are.

use super::queue::Queue;
use super::{Facts, Policy, UnitKey};

/// Most recently used.
#[derive(Debug)]
pub struct Mru<K> {
    by_use: Queue<K>,
}

impl<K: UnitKey> Mru<K> {
    /// Without units.
    #[expect(clippy::new_without_default, reason = "as the other policies")]
    pub fn new() -> Self {
        Self { by_use: Queue::new() }
    }
}

impl<K: UnitKey> Policy<K> for Mru<K> {
    fn insert(&mut self, key: K, facts: Facts) {
        self.by_use.push(key, facts.bytes);
    }

    fn touch(&mut self, key: &K) {
        self.by_use.renew(key);
    }

    fn forget(&mut self, key: &K) {
        self.by_use.remove(key);
    }

    fn evict(&mut self, _incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        self.by_use.take_last(take).is_some()
    }
}
