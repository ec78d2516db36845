//! Random traces: every policy does what its naive twin does, holds what fits, and lets go of nothing that is in use.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use forebay_base::{ColumnId, TableId};

use super::naive::{PinnedTwin, twin};
use super::pinned::Pinned;
use super::{ColumnKey, Facts, Form, Goal, Goals, Policy, PolicyKind, ScanProgress};

/// Traces for each policy.
const TRACES: u64 = 10_000;
const STEPS: usize = 120;
const KEYS: u64 = 40;

/// What a policy lets go of first, if it can.
pub(super) fn evicted<K: Copy>(policy: &mut impl Policy<K>, incoming: Option<&Facts>) -> Option<K> {
    let mut gone = None;
    policy.evict(incoming, &mut |key| {
        gone = Some(*key);
        true
    });
    gone
}

/// Numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % below
    }

    fn share(&mut self) -> f64 {
        self.next(5) as f64 / 4.0
    }
}

/// What a key names: the same facts whenever it comes.
fn facts(key: u32, random: &mut Random) -> Facts {
    let column = ColumnKey { table: TableId(u64::from(key % 2)), column: ColumnId(key % 3) };
    let form = if key.is_multiple_of(5) { Form::Stored } else { Form::Inflated };
    let fraction = f64::from(key / 6) / 7.0;
    Facts { column, fraction, ordinal: u64::from(key / 6), form, bytes: 1 + random.next(20) as usize, make_ns: 0 }
}

fn goals(random: &mut Random) -> Goals {
    let mut goals = Goals::new();
    for number in 0..6 {
        if random.next(4) > 0 {
            let column = ColumnKey { table: TableId(number % 2), column: ColumnId(number as u32 % 3) };
            let inflated = random.share();
            let stored = random.share() * (1.0 - inflated);
            goals.insert(column, Goal { inflated, stored, bytes: random.next(50) as f64 });
        }
    }
    goals
}

/// A policy and its twin with what they hold.
struct Pair {
    seed: u64,
    policy: Pinned<u32>,
    twin: PinnedTwin,
    held: BTreeMap<u32, Facts>,
    pinned: BTreeSet<u32>,
    budget: usize,
}

impl Pair {
    fn both(&mut self) -> [&mut dyn Policy<u32>; 2] {
        [&mut self.policy, &mut self.twin]
    }

    fn held_bytes(&self) -> usize {
        self.held.values().map(|facts| facts.bytes).sum()
    }

    /// A table is to stay, or no longer.
    fn pin(&mut self, table: TableId, is_pinned: bool) {
        let changes = self.policy.set(table, is_pinned);
        self.twin.set(table, is_pinned);
        let of_table = self.held.iter().filter(|(_, facts)| changes && facts.column.table == table);
        for (key, facts) in of_table {
            for policy in [&mut self.policy as &mut dyn Policy<u32>, &mut self.twin] {
                policy.forget(key);
                policy.insert(*key, *facts);
            }
        }
    }

    /// Has both make room; gives whether one went.
    fn evict(&mut self, incoming: Option<&Facts>) -> bool {
        self.let_go(|policy, take| policy.evict(incoming, take))
    }

    /// Has both save memory.
    fn shed(&mut self) -> bool {
        self.let_go(|policy, take| policy.shed(take))
    }

    /// Lets both choose; gives whether one went.
    fn let_go(&mut self, choose: impl Fn(&mut dyn Policy<u32>, &mut dyn FnMut(&u32) -> bool) -> bool) -> bool {
        let (held, pinned, seed) = (&self.held, &self.pinned, self.seed);
        let gone = [Cell::new(None), Cell::new(None)];
        for (policy, gone) in [&mut self.policy as &mut dyn Policy<u32>, &mut self.twin].into_iter().zip(&gone) {
            let took = choose(policy, &mut |key| {
                assert!(held.contains_key(key), "seed {seed}: {key} is not there");
                if !pinned.contains(key) {
                    gone.set(Some(*key));
                }
                !pinned.contains(key)
            });
            assert_eq!(took, gone.get().is_some(), "seed {seed}");
        }
        assert_eq!(gone[0], gone[1], "seed {seed}: of {:?} without {:?}", self.held, self.pinned);
        gone[0].get().is_some_and(|key| self.held.remove(&key).is_some())
    }

    fn insert(&mut self, key: u32, facts: Facts) {
        self.held.remove(&key);
        self.both().into_iter().for_each(|policy| policy.forget(&key));
        let free_bytes = self.budget.saturating_sub(self.held_bytes());
        if self.policy.tables().contains(&facts.column.table) {
            assert_eq!(self.policy.wants(&facts), self.twin.wants(&facts), "seed {}", self.seed);
        }
        if !self.policy.admits(&facts, free_bytes) {
            return;
        }
        while self.held_bytes() + facts.bytes > self.budget {
            // What is in use counts, so that there need not be room.
            if !self.evict(Some(&facts)) {
                return;
            }
        }
        self.held.insert(key, facts);
        self.both().into_iter().for_each(|policy| policy.insert(key, facts));
        assert!(self.held_bytes() <= self.budget, "seed {}", self.seed);
    }

    fn step(&mut self, random: &mut Random) {
        let key = random.next(KEYS) as u32;
        match random.next(32) {
            // A read that fails is one after which nothing comes.
            0..10 if random.next(10) > 0 => {
                let facts = facts(key, random);
                if !self.pinned.contains(&key) {
                    self.insert(key, facts);
                }
            }
            10..20 => self.both().into_iter().for_each(|policy| policy.touch(&key)),
            20..23 if self.held.contains_key(&key) => drop(self.pinned.insert(key)),
            23 => self.pin(TableId(random.next(2)), random.next(3) == 0),
            24..26 => self.pinned.retain(|pinned| pinned % 2 != key % 2),
            26 if !self.pinned.contains(&key) => {
                self.held.remove(&key);
                self.both().into_iter().for_each(|policy| policy.forget(&key));
            }
            27 => drop(self.evict(None)),
            28 => {
                self.budget = 40 + random.next(260) as usize;
                let budget = self.budget;
                self.both().into_iter().for_each(|policy| policy.resize(budget));
                while self.held_bytes() > self.budget && self.evict(None) {}
            }
            29 | 30 => {
                let progress = ScanProgress {
                    scan: random.next(3),
                    table: TableId(random.next(2)),
                    columns: (0..random.next(4) as u32).map(ColumnId).collect(),
                    position: random.next(8),
                    speed: 0.5 + random.next(4) as f64,
                    is_over: random.next(4) == 0,
                };
                self.both().into_iter().for_each(|policy| policy.foresee(&progress));
            }
            31 => {
                let goals = goals(random);
                let saves = random.next(3) == 0;
                for policy in self.both() {
                    policy.aim(&goals);
                    policy.save(saves);
                }
                while self.shed() {}
            }
            _ => {}
        }
    }
}

fn check(kind: PolicyKind) {
    for seed in 1..=TRACES {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let budget = 40 + random.next(260) as usize;
        let (policy, twin) = (Pinned::new(kind.policy(budget), budget), PinnedTwin::new(twin(kind, budget), budget));
        let mut pair = Pair { seed, policy, twin, held: BTreeMap::new(), pinned: BTreeSet::new(), budget };
        (0..STEPS).for_each(|_| pair.step(&mut random));
        pair.pinned.clear();
        while pair.evict(None) {}
        assert!(pair.held.is_empty(), "seed {seed}: {:?} never go", pair.held);
    }
}

#[test]
fn lru_does_what_its_twin_does() {
    check(PolicyKind::Lru);
}

#[test]
fn mru_does_what_its_twin_does() {
    check(PolicyKind::Mru);
}

#[test]
fn two_q_does_what_its_twin_does() {
    check(PolicyKind::TwoQ);
}

#[test]
fn s3_fifo_does_what_its_twin_does() {
    check(PolicyKind::S3Fifo);
}

#[test]
fn w_tiny_lfu_does_what_its_twin_does() {
    check(PolicyKind::WTinyLfu);
}

#[test]
fn pbm_does_what_its_twin_does() {
    check(PolicyKind::Pbm);
}

#[test]
fn proportional_does_what_its_twin_does() {
    check(PolicyKind::Proportional);
}
