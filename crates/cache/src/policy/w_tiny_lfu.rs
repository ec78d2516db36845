//! W-TinyLFU (Einziger, Friedman, Manes: TinyLFU, a highly efficient cache admission policy, ACM Transactions on Storage 2017): what
//! comes waits in a small window, and takes the place of another unit only if a sketch says that it is used more often.
//!
//! Must not know: what units hold.

use std::hash::{DefaultHasher, Hasher};

use super::queue::Queue;
use super::{Facts, Policy, UnitKey};

/// The part of the budget that the window has.
const WINDOW_SHARE: usize = 100;
/// Of five parts of the rest, those for units that were used again.
const PROTECTED_FIFTHS: usize = 4;
/// Counters of a row of the sketch.
const COUNTERS: usize = 1 << 14;
/// Rows of the sketch.
const ROWS: usize = 4;
/// The most that a counter counts.
const MOST: u8 = 15;
/// Uses, as a multiple of the counters of a row, after which all counters are halved.
const SAMPLE: usize = 10;

/// How often keys were used lately: a count-min sketch whose counters are halved from time to time (TinyLFU §3).
#[derive(Debug)]
pub(super) struct Sketch {
    counters: Vec<u8>,
    uses: usize,
}

impl Sketch {
    pub(super) fn new() -> Self {
        Self { counters: vec![0; ROWS * COUNTERS], uses: 0 }
    }

    fn places<K: UnitKey>(key: &K) -> [usize; ROWS] {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        // Each row has a part of the hash of its own.
        std::array::from_fn(|row| row * COUNTERS + (hash >> (row * 14)) as usize % COUNTERS)
    }

    pub(super) fn count<K: UnitKey>(&mut self, key: &K) {
        for place in Self::places(key) {
            self.counters[place] = (self.counters[place] + 1).min(MOST);
        }
        self.uses += 1;
        if self.uses >= SAMPLE * COUNTERS {
            self.counters.iter_mut().for_each(|counter| *counter /= 2);
            self.uses /= 2;
        }
    }

    pub(super) fn of<K: UnitKey>(&self, key: &K) -> u8 {
        Self::places(key).into_iter().map(|place| self.counters[place]).min().unwrap_or_default()
    }
}

/// W-TinyLFU.
#[derive(Debug)]
pub struct WTinyLfu<K> {
    sketch: Sketch,
    /// By use.
    window: Queue<K>,
    /// Left the window when the main part was full, and have to show that they are worth more than another.
    candidates: Queue<K>,
    /// The main part: used once since they came, and more than that.
    probation: Queue<K>,
    protected: Queue<K>,
    budget_bytes: usize,
}

impl<K: UnitKey> WTinyLfu<K> {
    /// Without units.
    pub fn new(budget_bytes: usize) -> Self {
        let (window, candidates, probation, protected) = (Queue::new(), Queue::new(), Queue::new(), Queue::new());
        Self { sketch: Sketch::new(), window, candidates, probation, protected, budget_bytes }
    }

    fn main_bytes(&self) -> usize {
        self.budget_bytes - self.budget_bytes / WINDOW_SHARE
    }

    /// Moves what the window has too much: into the main part, where there is room.
    fn narrow_window(&mut self) {
        while self.window.len() > 1 && self.window.bytes() > self.budget_bytes / WINDOW_SHARE {
            let Some((key, bytes)) = self.window.pop_front() else { return };
            let main_bytes = self.probation.bytes() + self.protected.bytes();
            match main_bytes + bytes <= self.main_bytes() {
                true => self.probation.push(key, bytes),
                false => self.candidates.push(key, bytes),
            }
        }
    }

    fn protect(&mut self, key: &K, bytes: usize) {
        self.protected.push(key.clone(), bytes);
        while self.protected.len() > 1 && self.protected.bytes() > self.main_bytes() / 5 * PROTECTED_FIFTHS {
            let Some((key, bytes)) = self.protected.pop_front() else { return };
            self.probation.push(key, bytes);
        }
    }

    /// Lets the first candidate and the main unit that is worth least compete; gives whether one of them went.
    fn compete(&mut self, take: &mut dyn FnMut(&K) -> bool) -> bool {
        let Some(candidate) = self.candidates.front().cloned() else { return false };
        let victim = self.probation.front().or_else(|| self.protected.front());
        let wins = victim.is_some_and(|victim| self.sketch.of(&candidate) > self.sketch.of(victim));
        if wins && (self.probation.take_first(take).is_some() || self.protected.take_first(take).is_some()) {
            let bytes = self.candidates.remove(&candidate).unwrap_or_default();
            self.probation.push(candidate, bytes);
            return true;
        }
        self.candidates.take_first(take).is_some()
    }
}

impl<K: UnitKey> Policy<K> for WTinyLfu<K> {
    fn insert(&mut self, key: K, facts: Facts) {
        self.forget(&key);
        self.sketch.count(&key);
        self.window.push(key, facts.bytes);
        self.narrow_window();
    }

    fn touch(&mut self, key: &K) {
        self.sketch.count(key);
        if self.window.renew(key) || self.protected.renew(key) {
            return;
        }
        if let Some(bytes) = self.probation.remove(key).or_else(|| self.candidates.remove(key)) {
            self.protect(key, bytes);
        }
    }

    fn forget(&mut self, key: &K) {
        for queue in [&mut self.window, &mut self.candidates, &mut self.probation, &mut self.protected] {
            queue.remove(key);
        }
    }

    fn evict(&mut self, _incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        if self.compete(take) {
            return true;
        }
        let queues = [&mut self.probation, &mut self.protected, &mut self.window];
        queues.into_iter().any(|queue| queue.take_first(take).is_some())
    }

    fn resize(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
        self.narrow_window();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sketch_counts_lately_and_never_too_little() {
        let mut sketch = Sketch::new();
        for key in 0..1000_u32 {
            (0..key % 7).for_each(|_| sketch.count(&key));
        }
        assert!((0..1000_u32).all(|key| u32::from(sketch.of(&key)) >= key % 7));
        assert!((0..1000_u32).filter(|key| u32::from(sketch.of(key)) > key % 7).count() < 10);
        for _ in 0..SAMPLE * COUNTERS {
            sketch.count(&u32::MAX);
        }
        assert!(sketch.of(&6_u32) <= 3, "halved");
    }
}
