//! The cache under many interleavings of a few threads, which take turns at every lock and every atomic (crate `shuttle`): none of
//! them waits for ever, what is in use does not go, and the sums are right.

use std::sync::Arc;

use forebay_base::{ColumnId, TableId};
use forebay_interleavings::{cache, policy};
use shuttle::rand::{Rng, thread_rng};

use policy::{ColumnKey, Facts, Form, Goal, Goals, PolicyKind};

type Cache = cache::ChunkCache<u32, u32, u32>;

/// Interleavings of each test.
const SCHEDULES: usize = 5000;
const KEYS: u32 = 6;
const BUDGET_BYTES: usize = 40;

fn facts(key: u32, form: Form) -> Facts {
    let bytes = if form == Form::Inflated { 10 } else { 4 };
    let column = ColumnKey { table: TableId(u64::from(key % 2)), column: ColumnId(0) };
    Facts { column, fraction: f64::from(key) / f64::from(KEYS), form, ..Facts::of_bytes(bytes) }
}

fn goals(inflated: f64) -> Goals {
    let goal = Goal { inflated, stored: (1.0 - inflated) / 2.0, bytes: 20.0 };
    (0..2).map(|table| (ColumnKey { table: TableId(table), column: ColumnId(0) }, goal)).collect()
}

/// What a scan does with a chunk: it takes it, or makes and keeps it.
fn scan(cache: &Cache, key: u32) {
    if let Some(value) = cache.get(&key) {
        assert_eq!(*value, key);
        let is_there = || cache.peek(&key).is_some_and(|there| Arc::ptr_eq(&there, &value));
        assert!(is_there(), "it is in use");
        shuttle::thread::yield_now();
        assert!(is_there(), "it is still in use");
    } else if let Some(stored) = cache.get_stored(&key) {
        assert_eq!(*stored, key + 100);
    } else if cache.wants(&facts(key, Form::Inflated)) == Some(Form::Stored) {
        cache.keep_stored(key, Arc::new(key + 100), facts(key, Form::Stored));
    } else {
        cache.keep(key, Arc::new(key), facts(key, Form::Inflated));
    }
}

/// The sums once nobody uses anything any more.
fn check(cache: &Cache) {
    let units = cache.columns();
    let bytes: usize = units.values().map(|column| column.inflated_bytes + column.stored_bytes).sum();
    assert_eq!(cache.held_bytes(), bytes, "{units:?}");
    cache.resize(cache.budget_bytes());
    assert!(cache.held_bytes() <= cache.budget_bytes());
    while cache.evict_unused() {}
    assert_eq!((cache.held_bytes(), cache.columns().len()), (0, 0), "the policy knows all of them");
}

/// Scans of which each has keys of its own, since whoever keeps a chunk anew takes the place of the one in use.
fn scans(cache: &Arc<Cache>, steps: u32) -> Vec<shuttle::thread::JoinHandle<()>> {
    let scan = |first: u32| {
        let cache = Arc::clone(cache);
        shuttle::thread::spawn(move || {
            (0..steps).for_each(|_| scan(&cache, first + 2 * thread_rng().gen_range(0..KEYS / 2)));
        })
    };
    (0..2).map(scan).collect()
}

fn joined(threads: Vec<shuttle::thread::JoinHandle<()>>) {
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
}

#[test]
fn scans_and_who_needs_memory() {
    let run = || {
        let cache = Arc::new(Cache::new(BUDGET_BYTES));
        let mut threads = scans(&cache, 6);
        let other = Arc::clone(&cache);
        threads.push(shuttle::thread::spawn(move || {
            for _ in 0..3 {
                other.evict(15);
                other.resize(thread_rng().gen_range(0..2 * BUDGET_BYTES));
            }
        }));
        joined(threads);
        check(&cache);
    };
    shuttle::check_random(run, SCHEDULES);
    shuttle::check_pct(run, SCHEDULES, 3);
}

#[test]
fn policies_and_goals_change() {
    let run = || {
        let cache = Arc::new(Cache::new(BUDGET_BYTES));
        cache.set_policy(PolicyKind::Proportional);
        let mut threads = scans(&cache, 5);
        let other = Arc::clone(&cache);
        threads.push(shuttle::thread::spawn(move || {
            other.aim(&goals(0.5));
            other.save(true);
            other.pin(TableId(1), true);
            other.set_policy(PolicyKind::TwoQ);
            other.pin(TableId(1), false);
            other.set_policy(PolicyKind::Proportional);
            other.aim(&goals(0.2));
        }));
        joined(threads);
        check(&cache);
    };
    shuttle::check_random(run, SCHEDULES);
    shuttle::check_pct(run, SCHEDULES, 3);
}

#[test]
fn uses_are_told_while_others_let_go() {
    let run = || {
        let cache = Arc::new(Cache::new(BUDGET_BYTES));
        (0..KEYS / 2).for_each(|key| assert!(cache.keep(key, Arc::new(key), facts(key, Form::Inflated))));
        let user = Arc::clone(&cache);
        // Enough uses that a shard tells of them itself.
        let uses = shuttle::thread::spawn(move || (0..70).for_each(|_| drop(user.get(&0))));
        let other = Arc::clone(&cache);
        let evictions = shuttle::thread::spawn(move || while other.evict_unused() {});
        joined(vec![uses, evictions]);
        check(&cache);
    };
    shuttle::check_random(run, SCHEDULES / 4);
}
