//! Predictive buffer management (Świtakowski, Boncz, Żukowski: From cooperative scans to predictive buffer management, VLDB 2012):
//! scans tell how far they are and how fast they go, and the unit goes whose next use is furthest away.
//!
//! With many units the one is chosen among a sample of them (as the sampled variant does), which costs the same however many
//! there are. What no scan needs is let go first, the longest unused of them. Must not know: clocks, why scans are as fast as
//! they are.

use std::collections::HashMap;

use super::{Facts, Policy, ScanProgress, UnitKey};

/// Units among which one is chosen.
pub(super) const SAMPLE: usize = 64;

/// Predictive buffer management.
#[derive(Debug)]
pub struct Pbm<K> {
    units: Vec<Unit<K>>,
    /// Where each is.
    places: HashMap<K, usize>,
    scans: HashMap<u64, ScanProgress>,
    /// Uses so far.
    clock: u64,
    /// Where the next sample begins.
    cursor: usize,
}

#[derive(Debug)]
struct Unit<K> {
    key: K,
    facts: Facts,
    last_use: u64,
}

impl<K: UnitKey> Pbm<K> {
    /// Without units and scans.
    #[expect(clippy::new_without_default, reason = "as the other policies")]
    pub fn new() -> Self {
        Self { units: Vec::new(), places: HashMap::new(), scans: HashMap::new(), clock: 0, cursor: 0 }
    }

    /// Seconds until the first scan needs a unit; `None` where none does.
    fn next_use(&self, facts: &Facts) -> Option<f64> {
        let needs = |scan: &&ScanProgress| {
            let column = facts.column;
            scan.table == column.table && scan.columns.contains(&column.column) && scan.position <= facts.ordinal
        };
        let needing = self.scans.values().filter(needs);
        needing.map(|scan| (facts.ordinal - scan.position) as f64 / scan.speed).min_by(f64::total_cmp)
    }

    /// Units of the next sample, the one first that is needed last.
    fn sample(&mut self) -> Vec<K> {
        let count = self.units.len();
        let chosen = (0..count.min(SAMPLE)).map(|step| &self.units[(self.cursor + step) % count]);
        let mut chosen: Vec<_> = chosen.map(|unit| (self.next_use(&unit.facts), unit)).collect();
        chosen.sort_by(|(a, first), (b, second)| {
            let [a, b] = [a, b].map(|next| next.unwrap_or(f64::INFINITY));
            b.total_cmp(&a).then(first.last_use.cmp(&second.last_use))
        });
        let keys = chosen.into_iter().map(|(_, unit)| unit.key.clone()).collect();
        self.cursor = if count > SAMPLE { (self.cursor + SAMPLE) % count } else { 0 };
        keys
    }
}

impl<K: UnitKey> Policy<K> for Pbm<K> {
    fn insert(&mut self, key: K, facts: Facts) {
        self.forget(&key);
        self.clock += 1;
        self.places.insert(key.clone(), self.units.len());
        self.units.push(Unit { key, facts, last_use: self.clock });
    }

    fn touch(&mut self, key: &K) {
        self.clock += 1;
        if let Some(place) = self.places.get(key) {
            self.units[*place].last_use = self.clock;
        }
    }

    fn forget(&mut self, key: &K) {
        let Some(place) = self.places.remove(key) else { return };
        self.units.swap_remove(place);
        if let Some(moved) = self.units.get(place) {
            self.places.insert(moved.key.clone(), place);
        }
    }

    fn evict(&mut self, _incoming: Option<&Facts>, take: &mut dyn FnMut(&K) -> bool) -> bool {
        // Where all of a sample are in use, there are others.
        for _ in 0..self.units.len().div_ceil(SAMPLE) + 1 {
            if let Some(key) = self.sample().into_iter().find(|key| take(key)) {
                self.forget(&key);
                return true;
            }
        }
        false
    }

    fn foresee(&mut self, progress: &ScanProgress) {
        match progress.is_over {
            true => drop(self.scans.remove(&progress.scan)),
            false => drop(self.scans.insert(progress.scan, progress.clone())),
        }
    }

    fn watches_scans(&self) -> bool {
        true
    }
}
