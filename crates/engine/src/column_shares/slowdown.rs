//! How many times as long as with everything in memory pipelines take, since there are other shares.
//!
//! Invariant: what a pipeline takes when it runs for the first time since then does not count, as it brings chunks in. Must not know:
//! what is made of it.

use std::collections::HashMap;

use forebay_cache::ColumnKey;

/// What pipelines of about the same time have in common: their columns, about how many rows (as a power of two), their threads.
pub(super) type Kind = (Vec<ColumnKey>, u32, usize);

/// Kinds of pipelines whose times in memory are remembered.
const KINDS: usize = 1024;
/// What a new time counts beside those before.
const NEWS: f64 = 0.3;
/// Of the time in memory of all kinds that ran lately, the part that those take that have been measured, from which on they tell enough.
const TELLING_PART: f64 = 0.9;

/// Pipelines' times beside those in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Slowdown {
    /// Seconds that pipelines took when they read nothing.
    in_memory_s: HashMap<Kind, f64>,
    /// Of the kinds that have run since there are other shares, how often they have been measured.
    measured: HashMap<Kind, u32>,
    /// What they took then, and take in memory.
    took_s: f64,
    known_s: f64,
}

impl Slowdown {
    /// A pipeline of this kind took so long, and read nothing, or something.
    pub(super) fn add(&mut self, kind: Kind, took_s: f64, has_read: bool) {
        if let Some(known_s) = self.in_memory_s.get(&kind) {
            match self.measured.get_mut(&kind) {
                None => {
                    self.measured.insert(kind.clone(), 0);
                }
                Some(times) => {
                    *times += 1;
                    self.took_s += took_s;
                    self.known_s += known_s;
                }
            }
        }
        if has_read {
            return;
        }
        if self.in_memory_s.len() >= KINDS {
            self.in_memory_s.clear();
        }
        let known_s = self.in_memory_s.entry(kind).or_insert(took_s);
        *known_s += (took_s - *known_s) * NEWS;
    }

    /// The slowdown since it was asked for last, or since there were other shares, of pipelines that are mostly of `kinds`, each told once;
    /// `None` where too few of them ran since.
    pub(super) fn take(&mut self, kinds: impl Iterator<Item = Kind>) -> Option<f64> {
        let (mut all_s, mut measured_s) = (0.0, 0.0);
        for kind in kinds {
            let known_s = self.in_memory_s.get(&kind).copied().unwrap_or_default();
            all_s += known_s;
            measured_s += if self.measured.get(&kind).is_some_and(|times| *times > 0) { known_s } else { 0.0 };
        }
        if self.known_s == 0.0 || measured_s < all_s * TELLING_PART {
            return None;
        }
        self.measured.values_mut().for_each(|times| *times = 0);
        Some(std::mem::take(&mut self.took_s) / std::mem::take(&mut self.known_s))
    }

    /// There are other shares: what runs next brings chunks in and out.
    pub(super) fn begin_anew(&mut self) {
        self.measured.clear();
        (self.took_s, self.known_s) = (0.0, 0.0);
    }
}
