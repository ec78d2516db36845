//! 2Q (Johnson & Shasha, VLDB 1994, the full version): what came once waits in a queue of its own, and only what comes back after it
//! went from there is kept by its last use.
//!
//! Must not know: what units hold.

use super::queue::Queue;
use super::{Facts, Policy, UnitKey};

/// The part of the budget for units that came once (Kin).
const IN_SHARE: usize = 4;
/// The part of the budget whose units are remembered after they went (Kout).
const OUT_SHARE: usize = 2;

/// 2Q.
#[derive(Debug)]
pub struct TwoQ<K> {
    /// Came once (A1in), in the order of coming.
    once: Queue<K>,
    /// Went from there (A1out).
    gone: Queue<K>,
    /// Came back (Am), by use.
    again: Queue<K>,
    budget_bytes: usize,
}

impl<K: UnitKey> TwoQ<K> {
    /// Without units.
    pub fn new(budget_bytes: usize) -> Self {
        Self { once: Queue::new(), gone: Queue::new(), again: Queue::new(), budget_bytes }
    }

    fn take_once(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let Some((key, bytes)) = self.once.take_first(take) else { return false };
        self.gone.push(key, bytes);
        self.gone.trim(self.budget_bytes / OUT_SHARE);
        true
    }
}

impl<K: UnitKey> Policy<K> for TwoQ<K> {
    fn insert(&mut self, key: K, facts: Facts) {
        self.forget(&key);
        match self.gone.remove(&key) {
            Some(_) => self.again.push(key, facts.bytes),
            None => self.once.push(key, facts.bytes),
        }
    }

    fn touch(&mut self, key: &K) {
        self.again.renew(key);
    }

    fn counts_uses(&self) -> bool {
        false
    }

    fn forget(&mut self, key: &K) {
        self.once.remove(key);
        self.again.remove(key);
    }

    fn evict(&mut self, _incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let is_once_full = self.once.bytes() > self.budget_bytes / IN_SHARE;
        (is_once_full && self.take_once(take)) || self.again.take_first(take).is_some() || self.take_once(take)
    }

    fn resize(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.gone.trim(budget_bytes / OUT_SHARE);
    }
}
