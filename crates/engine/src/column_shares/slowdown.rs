//! How many times as long as with everything in memory queries take, since there are other shares.
//!
//! Invariant: what a query takes when it runs for the first time since then does not count, as it brings chunks in. Must not know:
//! what is made of it.

use std::collections::{HashMap, HashSet, VecDeque};

use forebay_cache::ColumnKey;

/// What queries of about the same time have in common: of the pipeline that reads most, its columns, about how many rows (as a power of two),
/// its threads.
pub(super) type Kind = (Vec<ColumnKey>, u32, usize);

/// Queries that ran lately.
const QUERIES: usize = 64;
/// Kinds of queries whose times in memory are remembered.
const KINDS: usize = 1024;
/// What a new time counts beside those before.
const NEWS: f64 = 0.3;
/// Of the time in memory of all kinds that ran lately, the part that those take that have been measured, from which on they tell enough.
const TELLING_PART: f64 = 0.9;

/// What is known of how much longer pipelines take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Measured {
    /// Of no query that ran lately it is known what it takes with everything in memory.
    Unknown,
    /// Too few of them ran since.
    TooFew,
    /// So many times as long.
    Times(f64),
}

/// Queries' times beside those in memory.
#[derive(Debug, Clone, Default)]
pub(super) struct Slowdown {
    /// The kinds of the last queries, the oldest first.
    recent: VecDeque<Kind>,
    /// Seconds that queries took when everything was in memory.
    in_memory_s: HashMap<Kind, f64>,
    /// Of the kinds that have run since there are other shares, how often they have been measured.
    measured: HashMap<Kind, u32>,
    /// What they took then, and take in memory.
    took_s: f64,
    known_s: f64,
}

impl Slowdown {
    /// A query of this kind took so long, with everything in memory or not.
    pub(super) fn add(&mut self, kind: Kind, took_s: f64, was_in_memory: bool) {
        if self.recent.len() == QUERIES {
            self.recent.pop_front();
        }
        self.recent.push_back(kind.clone());
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
        if !was_in_memory {
            return;
        }
        if self.in_memory_s.len() >= KINDS {
            self.in_memory_s.clear();
        }
        let known_s = self.in_memory_s.entry(kind).or_insert(took_s);
        *known_s += (took_s - *known_s) * NEWS;
    }

    /// The slowdown since it was asked for last, or since there were other shares.
    pub(super) fn take(&mut self) -> Measured {
        let (mut all_s, mut measured_s) = (0.0, 0.0);
        for kind in self.recent.iter().collect::<HashSet<_>>() {
            let known_s = self.in_memory_s.get(kind).copied().unwrap_or_default();
            all_s += known_s;
            measured_s += if self.measured.get(kind).is_some_and(|times| *times > 0) { known_s } else { 0.0 };
        }
        if all_s == 0.0 {
            return Measured::Unknown;
        }
        if measured_s < all_s * TELLING_PART {
            return Measured::TooFew;
        }
        self.measured.values_mut().for_each(|times| *times = 0);
        Measured::Times(std::mem::take(&mut self.took_s) / std::mem::take(&mut self.known_s))
    }

    /// There are other shares: what runs next brings chunks in and out.
    pub(super) fn begin_anew(&mut self) {
        self.measured.clear();
        (self.took_s, self.known_s) = (0.0, 0.0);
    }
}
