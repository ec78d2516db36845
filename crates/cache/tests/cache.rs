//! The cache through its calls: what goes, what stays while it is in use, and many threads at once.

use std::sync::Arc;

use forebay_cache::*;

#[test]
fn evicts_what_was_used_longest_ago() {
    let cache: ChunkCache<i32, i32> = ChunkCache::new(30);
    for key in 0..3 {
        assert!(cache.insert(key, Arc::new(key * 10), 10));
    }
    assert_eq!(cache.get(&0).as_deref(), Some(&0));
    assert!(cache.contains(&1) && !cache.contains(&3));
    assert_eq!((cache.peek(&1).as_deref(), cache.peek(&3)), (Some(&10), None));
    assert!(cache.insert(3, Arc::new(30), 10));
    assert!(cache.get(&1).is_none());
    assert!(cache.get(&0).is_some() && cache.get(&2).is_some() && cache.get(&3).is_some());
    assert_eq!(cache.held_bytes(), 30);
}

#[test]
fn what_somebody_uses_is_not_evicted() {
    let cache: ChunkCache<i32, i32> = ChunkCache::new(30);
    for key in 0..3 {
        cache.insert(key, Arc::new(key), 10);
    }
    let used = cache.get(&1);
    cache.get(&0);
    assert!(cache.evict_unused() && !cache.contains(&2), "the one that was used longest ago");
    assert!(cache.evict_unused() && !cache.contains(&0));
    assert!(!cache.evict_unused() && cache.contains(&1), "its memory would not be free");
    assert!(!cache.insert(3, Arc::new(3), 25) && cache.held_bytes() == 10, "nor for a chunk that comes");
    cache.resize(5);
    assert_eq!((cache.held_bytes(), cache.budget_bytes()), (10, 5));
    assert!(!cache.insert(4, Arc::new(4), 1), "it is beyond its budget");
    drop(used);
    assert!(cache.insert(4, Arc::new(4), 1) && cache.held_bytes() == 1);
    assert!(cache.evict_unused() && cache.held_bytes() == 0 && !cache.evict_unused());
}

#[test]
fn replaces_and_refuses() {
    let cache: ChunkCache<&str, i32> = ChunkCache::new(30);
    cache.insert("a", Arc::new(1), 10);
    cache.insert("a", Arc::new(2), 20);
    assert_eq!(cache.held_bytes(), 20);
    assert!(!cache.insert("b", Arc::new(3), 31));
    assert!(cache.get(&"b").is_none());
    cache.clear();
    assert!(cache.get(&"a").is_none() && !cache.evict_unused());
    assert_eq!(cache.held_bytes(), 0);
}

/// Which form of a chunk goes first, where it has both, whatever the policy.
#[test]
fn an_inflated_chunk_goes_before_its_stored_bytes() {
    PolicyKind::ALL.into_iter().for_each(demotes);
}

fn demotes(kind: PolicyKind) {
    let cache: ChunkCache<i32, &str, &str> = ChunkCache::new(40);
    cache.set_policy(kind);
    let facts = Facts::of_bytes(20);
    assert!(cache.keep_stored(1, Arc::new("stored"), Facts { bytes: 10, ..facts }));
    assert!(cache.keep(1, Arc::new("inflated"), facts));
    assert_eq!(cache.get(&1).as_deref(), Some(&"inflated"));
    let column = cache.columns()[&facts.column];
    assert_eq!((column.inflated_chunks, column.inflated_bytes), (1, 20));
    assert_eq!((column.stored_chunks, column.stored_bytes, cache.held_bytes()), (1, 10, 30));
    let in_use = cache.get(&1);
    assert!(cache.evict_unused() && cache.peek_stored(&1).is_none() && cache.contains(&1), "{kind:?}: one is in use");
    drop(in_use);
    assert!(cache.keep_stored(1, Arc::new("stored"), Facts { bytes: 10, ..facts }));
    assert!(cache.evict_unused() && cache.get(&1).is_none() && cache.contains(&1), "{kind:?}");
    assert_eq!((cache.get_stored(&1).as_deref(), cache.peek_stored(&1).as_deref()), (Some(&"stored"), Some(&"stored")));
    assert!(cache.evict_unused() && !cache.contains(&1) && cache.held_bytes() == 0);
}

#[test]
fn another_policy_takes_over_what_is_there() {
    let cache: ChunkCache<i32, i32> = ChunkCache::new(100);
    for kind in PolicyKind::ALL.into_iter().rev() {
        for key in 0..10 {
            cache.insert(key, Arc::new(key), 10);
        }
        cache.set_policy(kind);
        assert_eq!((cache.policy_kind(), cache.held_bytes()), (kind, 100));
        cache.get(&0);
        for step in 0..5 {
            assert!(cache.evict_unused(), "{kind:?} {step}");
        }
        assert_eq!(cache.held_bytes(), 50);
    }
}

/// Threads look up, insert, pin and evict at once under every policy, while the budget changes: what they find is what was put
/// there, and what a count of their own says is within the greatest budget.
#[test]
fn threads_find_what_was_put_there() {
    for kind in PolicyKind::ALL {
        let cache: ChunkCache<u64, u64, u64> = ChunkCache::new(1000);
        cache.set_policy(kind);
        std::thread::scope(|scope| {
            for thread in 0..4_u64 {
                let cache = &cache;
                scope.spawn(move || {
                    let mut random = 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(thread + 1);
                    let mut pinned = Vec::new();
                    for step in 0..20_000_u64 {
                        random ^= random << 13;
                        random ^= random >> 7;
                        random ^= random << 17;
                        let key = random % 200;
                        match random >> 32 & 15 {
                            0..8 => {
                                if let Some(value) = cache.get(&key) {
                                    assert_eq!(*value, key * 3);
                                    pinned.push(value);
                                }
                                assert!(cache.get_stored(&key).is_none_or(|value| *value == key * 5));
                            }
                            8..11 => drop(cache.insert(key, Arc::new(key * 3), 10 + key as usize % 7)),
                            11 => drop(cache.keep_stored(key, Arc::new(key * 5), Facts::of_bytes(5))),
                            12 => drop(cache.evict_unused()),
                            13 if thread == 0 => cache.resize(500 + key as usize * 2),
                            14 if step % 1000 == 0 => cache.clear(),
                            _ => pinned.truncate(3),
                        }
                        assert!(cache.held_bytes() <= 1000, "{kind:?}");
                    }
                });
            }
        });
        let columns = cache.columns();
        let held: usize = columns.values().map(|column| column.inflated_bytes + column.stored_bytes).sum();
        assert_eq!(held, cache.held_bytes(), "{kind:?}");
        while cache.evict_unused() {}
        assert_eq!((cache.held_bytes(), cache.columns().len()), (0, 0), "{kind:?}");
    }
}
