//! The cache: a map of chunks that many threads look up at once, and a policy that decides what goes.
//!
//! The map is in shards, each with a lock of its own that is held for a look-up, so that looking up takes no lock that all take.
//! Uses are noted in the shard and told to the policy in batches, in their order (BP-Wrapper, Ding, Jiang, Zhang, ICDE 2009): at
//! the latest when it is asked for what to let go. Locks are taken in one order: the policy, then a shard.
//! Invariants: the sum of the bytes of all units never rises above the budget; a unit goes only while nobody else holds its
//! value, as is seen under the lock that handing it out takes. Must not know: how policies decide.

use std::collections::hash_map::{Entry, HashMap};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::hash::BuildHasher;
use std::sync::{Arc, PoisonError};

use forebay_base::TableId;

use crate::gone::Gone;
use crate::key_hasher::BuildKeyHasher;
use crate::policy::pinned::Pinned;
use crate::policy::{ColumnKey, Facts, Form, Goals, Policy, PolicyKind, ScanProgress, UnitKey};
use crate::sync::{AtomicBool, AtomicU64, AtomicUsize, Mutex, MutexGuard, Ordering};
use crate::uses::{NotedAt, Uses};

/// Parts of the map.
const SHARDS: usize = 16;
/// Uses that a shard notes before the policy is told, if nobody else talks to that just then.
const NOTED_USES: usize = 64;
/// Uses that a shard notes before the policy is told in any case.
const MOST_NOTED_USES: usize = 16 * NOTED_USES;

/// A cache of shared chunks by key, each in one or both of its forms: `V` inflated, `S` stored.
pub struct ChunkCache<K, V, S = ()> {
    shards: [Mutex<Shard<K, V, S>>; SHARDS],
    hasher: BuildKeyHasher,
    policy: Mutex<Chosen<K>>,
    /// Of all units.
    held_bytes: AtomicUsize,
    /// Most bytes ever held.
    budget_bytes: AtomicUsize,
    /// Counts uses.
    clock: AtomicU64,
    /// Whether the policy asks how often units are used.
    counts_uses: AtomicBool,
    /// Whether it is told of scans.
    watches_scans: AtomicBool,
    /// Whether a unit ever had no room without another one going.
    was_full: AtomicBool,
}

/// A chunk in a form.
type UnitOf<K> = (K, Form);

struct Chosen<K> {
    kind: PolicyKind,
    policy: Pinned<UnitOf<K>>,
}

struct Shard<K, V, S> {
    chunks: HashMap<K, Chunk<V, S>, BuildKeyHasher>,
    uses: Uses<K>,
}

struct Chunk<V, S> {
    inflated: Option<Held<V>>,
    stored: Option<Held<S>>,
    last_use: u64,
    noted: NotedAt,
}

struct Held<T> {
    value: Arc<T>,
    facts: Facts,
}

/// What a cache holds of a column.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ColumnUse {
    /// Chunks that are there inflated.
    pub inflated_chunks: usize,
    /// Bytes of memory that they take.
    pub inflated_bytes: usize,
    /// Chunks that are there as they are stored.
    pub stored_chunks: usize,
    /// Bytes of memory that they take.
    pub stored_bytes: usize,
    /// What all of them cost to make.
    pub make_ns: u64,
}

impl<T> Held<T> {
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.value) == 1
    }
}

impl<V, S> Chunk<V, S> {
    fn is_empty(&self) -> bool {
        self.inflated.is_none() && self.stored.is_none()
    }
}

impl<K: UnitKey, V, S> ChunkCache<K, V, S> {
    /// An empty cache of at most `budget_bytes`; 0 keeps nothing.
    pub fn new(budget_bytes: usize) -> Self {
        let kind = PolicyKind::default();
        let policy = kind.policy(budget_bytes);
        let counts_uses = AtomicBool::new(policy.counts_uses());
        let shard = || Mutex::new(Shard { chunks: HashMap::default(), uses: Uses::with_capacity(NOTED_USES) });
        Self {
            shards: std::array::from_fn(|_| shard()),
            hasher: BuildKeyHasher::default(),
            policy: Mutex::new(Chosen { kind, policy: Pinned::new(policy, budget_bytes) }),
            held_bytes: AtomicUsize::new(0),
            budget_bytes: AtomicUsize::new(budget_bytes),
            clock: AtomicU64::new(0),
            counts_uses,
            watches_scans: AtomicBool::new(false),
            was_full: AtomicBool::new(false),
        }
    }

    /// The inflated chunk under `key`, marked as just used.
    pub fn get(&self, key: &K) -> Option<Arc<V>> {
        self.used(key, Form::Inflated, |chunk| Some(Arc::clone(&chunk.inflated.as_ref()?.value)))
    }

    /// The stored bytes of the chunk under `key`, marked as just used.
    pub fn get_stored(&self, key: &K) -> Option<Arc<S>> {
        self.used(key, Form::Stored, |chunk| Some(Arc::clone(&chunk.stored.as_ref()?.value)))
    }

    /// The inflated chunk under `key`; looking is no use of it.
    pub fn peek(&self, key: &K) -> Option<Arc<V>> {
        let shard = self.shard(key);
        shard.chunks.get(key)?.inflated.as_ref().map(|held| Arc::clone(&held.value))
    }

    /// The stored bytes of the chunk under `key`; looking is no use of them.
    pub fn peek_stored(&self, key: &K) -> Option<Arc<S>> {
        let shard = self.shard(key);
        shard.chunks.get(key)?.stored.as_ref().map(|held| Arc::clone(&held.value))
    }

    /// Whether the chunk under `key` is there in any form; asking is no use of it.
    pub fn contains(&self, key: &K) -> bool {
        self.shard(key).chunks.contains_key(key)
    }

    /// Keeps an inflated chunk of which nothing is known but that it takes `bytes` of memory. Gives whether it is kept.
    pub fn insert(&self, key: K, value: Arc<V>, bytes: usize) -> bool {
        self.keep(key, value, Facts::of_bytes(bytes))
    }

    /// Keeps an inflated chunk, if the policy admits it and finds room for it: what is in use makes none. Gives whether it is
    /// kept.
    pub fn keep(&self, key: K, value: Arc<V>, facts: Facts) -> bool {
        let facts = Facts { form: Form::Inflated, ..facts };
        self.put(key, facts, |chunk| chunk.inflated = Some(Held { value, facts }))
    }

    /// Keeps the stored bytes of a chunk, likewise.
    pub fn keep_stored(&self, key: K, value: Arc<S>, facts: Facts) -> bool {
        let facts = Facts { form: Form::Stored, ..facts };
        self.put(key, facts, |chunk| chunk.stored = Some(Held { value, facts }))
    }

    /// The form in which a chunk that was just read is to stay for sure, if that is somebody's goal.
    pub fn wants(&self, facts: &Facts) -> Option<Form> {
        self.policy().policy.wants(facts)
    }

    /// Drops the unit that is worth least of those that nobody else holds, so that its memory is free at once; false where there
    /// is none.
    pub fn evict_unused(&self) -> bool {
        self.evict(1) > 0
    }

    /// Drops units that nobody else holds, those first that are worth least, until they were so many bytes; gives how many they
    /// were, which are fewer where there are no more.
    pub fn evict(&self, bytes: usize) -> usize {
        let mut gone = Vec::new();
        let mut chosen = self.policy();
        self.tell_uses(&mut chosen);
        let mut evicted_bytes = 0;
        self.was_full.store(true, Ordering::Relaxed);
        while evicted_bytes < bytes {
            let before = gone.len();
            if !self.evict_one(&mut chosen, None, &mut gone) {
                break;
            }
            evicted_bytes += gone[before..].iter().map(Gone::bytes).sum::<usize>();
        }
        // The lock first, then what went: its memory goes back to where it came from, which need not wait for us.
        drop(chosen);
        evicted_bytes
    }

    /// Most bytes ever held.
    pub fn budget_bytes(&self) -> usize {
        self.budget_bytes.load(Ordering::Relaxed)
    }

    /// Holds at most `budget_bytes` from now on. What is in use beyond that stays until it is not.
    pub fn resize(&self, budget_bytes: usize) {
        let mut gone = Vec::new();
        let mut chosen = self.policy();
        self.budget_bytes.store(budget_bytes, Ordering::Relaxed);
        chosen.policy.resize(budget_bytes);
        self.tell_uses(&mut chosen);
        if self.held_bytes() > budget_bytes {
            self.was_full.store(true, Ordering::Relaxed);
        }
        while self.held_bytes() > budget_bytes && self.evict_one(&mut chosen, None, &mut gone) {}
    }

    /// Drops every unit.
    pub fn clear(&self) {
        let mut gone = Vec::new();
        let mut chosen = self.policy();
        for shard in &self.shards {
            let mut shard = lock(shard);
            shard.uses = Uses::with_capacity(NOTED_USES);
            gone.extend(shard.chunks.drain());
        }
        for (key, chunk) in &gone {
            let forms = [chunk.inflated.as_ref().map(|held| held.facts), chunk.stored.as_ref().map(|held| held.facts)];
            for facts in forms.into_iter().flatten() {
                self.held_bytes.fetch_sub(facts.bytes, Ordering::Relaxed);
                chosen.policy.forget(&(key.clone(), facts.form));
            }
        }
    }

    /// Whether there ever was too little room for all that came, so that it matters what stays.
    pub fn was_full(&self) -> bool {
        self.was_full.load(Ordering::Relaxed)
    }

    /// Bytes held now.
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// What it holds of each column.
    pub fn columns(&self) -> BTreeMap<ColumnKey, ColumnUse> {
        let mut columns: BTreeMap<ColumnKey, ColumnUse> = BTreeMap::new();
        for shard in &self.shards {
            for chunk in lock(shard).chunks.values() {
                if let Some(Held { facts, .. }) = &chunk.inflated {
                    let column = columns.entry(facts.column).or_default();
                    column.inflated_chunks += 1;
                    column.inflated_bytes += facts.bytes;
                    column.make_ns += facts.make_ns;
                }
                if let Some(Held { facts, .. }) = &chunk.stored {
                    let column = columns.entry(facts.column).or_default();
                    column.stored_chunks += 1;
                    column.stored_bytes += facts.bytes;
                    column.make_ns += facts.make_ns;
                }
            }
        }
        columns
    }

    /// What decides.
    pub fn policy_kind(&self) -> PolicyKind {
        self.policy().kind
    }

    /// Another policy decides from now on: it is told what is there, the longest unused first. What the last one knew beside
    /// that is forgotten.
    pub fn set_policy(&self, kind: PolicyKind) {
        let mut chosen = self.policy();
        if chosen.kind == kind {
            return;
        }
        self.tell_uses(&mut chosen);
        chosen.policy.set_others(kind.policy(self.budget_bytes()));
        for (key, facts) in self.units(|_| true) {
            chosen.policy.insert((key, facts.form), facts);
        }
        self.counts_uses.store(chosen.policy.counts_uses(), Ordering::Relaxed);
        self.watches_scans.store(chosen.policy.watches_scans(), Ordering::Relaxed);
        chosen.kind = kind;
    }

    /// The chunks of a table are to stay as long as there is room for them, or no longer.
    pub fn pin(&self, table: TableId, is_pinned: bool) {
        let mut chosen = self.policy();
        self.tell_uses(&mut chosen);
        if chosen.policy.set(table, is_pinned) {
            for (key, facts) in self.units(|facts| facts.column.table == table) {
                let unit = (key, facts.form);
                chosen.policy.forget(&unit);
                chosen.policy.insert(unit, facts);
            }
        }
    }

    /// The tables whose chunks are to stay, and the bytes that these take.
    pub fn pinned(&self) -> (BTreeSet<TableId>, usize) {
        let chosen = self.policy();
        (chosen.policy.tables().clone(), chosen.policy.bytes())
    }

    /// What is there of some units, the longest unused first.
    fn units(&self, wanted: impl Fn(&Facts) -> bool) -> impl Iterator<Item = (K, Facts)> {
        let mut units = Vec::new();
        for shard in &self.shards {
            for (key, chunk) in &lock(shard).chunks {
                let forms =
                    [chunk.inflated.as_ref().map(|held| held.facts), chunk.stored.as_ref().map(|held| held.facts)];
                let forms = forms.into_iter().flatten().filter(&wanted);
                units.extend(forms.map(|facts| (chunk.last_use, key.clone(), facts)));
            }
        }
        units.sort_by_key(|(last_use, _, _)| *last_use);
        units.into_iter().map(|(_, key, facts)| (key, facts))
    }

    /// The columns have other goals.
    pub fn aim(&self, goals: &Goals) {
        let mut chosen = self.policy();
        chosen.policy.aim(goals);
        self.shed(chosen);
    }

    /// Memory that no goal needs is to be saved from now on, where the policy has goals, or to be used.
    pub fn save(&self, saves: bool) {
        let mut chosen = self.policy();
        chosen.policy.save(saves);
        self.shed(chosen);
    }

    /// Drops what no goal needs, where memory is to be saved.
    fn shed(&self, mut chosen: MutexGuard<'_, Chosen<K>>) {
        let mut gone = Vec::new();
        while chosen.policy.shed(&mut |(key, form)| self.take(key, *form, false, &mut gone)) {}
        // The lock first, then what went.
        drop(chosen);
    }

    /// Whether the policy wants to know how far scans are ([`ChunkCache::foresee`]).
    pub fn watches_scans(&self) -> bool {
        self.watches_scans.load(Ordering::Relaxed)
    }

    /// A scan began, went on or is over.
    pub fn foresee(&self, progress: &ScanProgress) {
        self.policy().policy.foresee(progress);
    }

    fn shard_of(&self, key: &K) -> &Mutex<Shard<K, V, S>> {
        // Other bits than the map of the shard goes by.
        &self.shards[(self.hasher.hash_one(key) >> 40) as usize % SHARDS]
    }

    fn shard(&self, key: &K) -> MutexGuard<'_, Shard<K, V, S>> {
        lock(self.shard_of(key))
    }

    fn policy(&self) -> MutexGuard<'_, Chosen<K>> {
        lock(&self.policy)
    }

    /// A part of the chunk under `key`, whose use in this form is noted.
    fn used<T>(&self, key: &K, form: Form, of: impl FnOnce(&Chunk<V, S>) -> Option<T>) -> Option<T> {
        let mut guard = self.shard(key);
        let shard = &mut *guard;
        let chunk = shard.chunks.get_mut(key)?;
        let found = of(chunk)?;
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        chunk.last_use = now;
        let all_count = self.counts_uses.load(Ordering::Relaxed);
        shard.uses.note(now, (key, form), &mut chunk.noted, all_count);
        if form == Form::Inflated && chunk.stored.is_some() {
            // Of a chunk that is there in both forms the stored one counts as used behind the inflated one, so that it is what is
            // left when one of them goes.
            shard.uses.note(now, (key, Form::Stored), &mut chunk.noted, all_count);
        }
        let noted = shard.uses.len();
        drop(guard);
        if noted >= NOTED_USES {
            let chosen = match noted < MOST_NOTED_USES {
                true => self.policy.try_lock().ok(),
                false => Some(self.policy()),
            };
            chosen.into_iter().for_each(|mut chosen| self.tell_uses(&mut chosen));
        }
        Some(found)
    }

    /// Tells the policy of all uses that were noted, in their order.
    fn tell_uses(&self, chosen: &mut Chosen<K>) {
        let taken = self.shards.iter().map(|shard| {
            let uses = &mut lock(shard).uses;
            std::mem::replace(uses, Uses::with_capacity(uses.len()))
        });
        Uses::in_order(taken).for_each(|unit| chosen.policy.touch(&unit));
    }

    fn put(&self, key: K, facts: Facts, set: impl FnOnce(&mut Chunk<V, S>)) -> bool {
        let mut gone = Vec::new();
        let mut chosen = self.policy();
        self.tell_uses(&mut chosen);
        self.take(&key, facts.form, true, &mut gone);
        chosen.policy.forget(&(key.clone(), facts.form));
        let free_bytes = |cache: &Self| cache.budget_bytes().saturating_sub(cache.held_bytes());
        if facts.bytes > free_bytes(self) {
            self.was_full.store(true, Ordering::Relaxed);
        }
        if facts.bytes > self.budget_bytes() || !chosen.policy.admits(&facts, free_bytes(self)) {
            return false;
        }
        while facts.bytes > free_bytes(self) {
            if !self.evict_one(&mut chosen, Some(&facts), &mut gone) {
                return false;
            }
        }
        // All that adds to them holds the policy's lock.
        self.held_bytes.fetch_add(facts.bytes, Ordering::Relaxed);
        chosen.policy.insert((key.clone(), facts.form), facts);
        let now = self.clock.fetch_add(1, Ordering::Relaxed);
        let mut shard = self.shard(&key);
        let chunk = shard.chunks.entry(key).or_insert(Chunk {
            inflated: None,
            stored: None,
            last_use: now,
            noted: NotedAt::default(),
        });
        chunk.last_use = now;
        set(chunk);
        true
    }

    /// Lets the policy choose a unit, which goes. A chunk that is there in both forms is demoted: its inflated form goes,
    /// whichever of them was chosen, unless the policy chooses forms.
    fn evict_one(&self, chosen: &mut Chosen<K>, incoming: Option<&Facts>, gone: &mut Vec<Gone<V, S>>) -> bool {
        let mut demoted = None;
        let chooses_forms = chosen.policy.chooses_forms();
        let went = chosen.policy.evict(incoming, &mut |(key, form)| {
            if !chooses_forms && *form == Form::Stored && self.take(key, Form::Inflated, false, gone) {
                demoted = Some(key.clone());
                return true;
            }
            self.take(key, *form, false, gone)
        });
        if let Some(key) = demoted {
            chosen.policy.forget(&(key.clone(), Form::Inflated));
            let stored = self.shard(&key).chunks.get(&key).and_then(|chunk| Some(chunk.stored.as_ref()?.facts));
            stored.into_iter().for_each(|facts| chosen.policy.insert((key.clone(), Form::Stored), facts));
        }
        went
    }

    /// Takes a unit out; false where it is not there, or where it is in use and that matters.
    fn take(&self, key: &K, form: Form, even_in_use: bool, gone: &mut Vec<Gone<V, S>>) -> bool {
        let mut shard = self.shard(key);
        let Entry::Occupied(mut chunk) = shard.chunks.entry(key.clone()) else { return false };
        let (inflated, stored) = {
            let Chunk { inflated, stored, .. } = chunk.get_mut();
            match form {
                Form::Inflated => (inflated.take_if(|held| even_in_use || held.is_unused()), None),
                Form::Stored => (None, stored.take_if(|held| even_in_use || held.is_unused())),
            }
        };
        if chunk.get().is_empty() {
            chunk.remove();
        }
        let went = match (inflated, stored) {
            (Some(held), _) => Gone::Inflated(held.value, held.facts.bytes),
            (_, Some(held)) => Gone::Stored(held.value, held.facts.bytes),
            (None, None) => return false,
        };
        self.held_bytes.fetch_sub(went.bytes(), Ordering::Relaxed);
        gone.push(went);
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change leaves what is locked whole, so a panicking holder is no reason to stop.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<K: UnitKey, V, S> fmt::Debug for ChunkCache<K, V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChunkCache")
            .field("held_bytes", &self.held_bytes())
            .field("budget_bytes", &self.budget_bytes())
            .finish_non_exhaustive()
    }
}
