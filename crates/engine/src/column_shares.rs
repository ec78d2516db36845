//! How much of each column is to stay in memory (HPCache, DaMoN 2022, §4): learns from the pipelines of queries what their columns
//! cost, and finds the shares with which the last of them would take least time.
//!
//! What is known of a pipeline is told when its query ends. The program is solved in the background, where the cache's policy
//! has goals, and its outcome is taken for a gain only. Invariants: no answer depends on it; solving takes at most a hundredth of
//! the time of queries. Must not know: how the cache keeps shares, SQL.

mod history;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_cache::policy::UnitKey;
use forebay_cache::{ChunkCache, ColumnKey, Goal, Goals, PolicyKind};
use forebay_placement::{Shares, least_memory, least_time};

pub use forebay_placement::Model;
use history::History;
pub(crate) use history::Ran;

/// Time of queries for one of solving.
const QUERIES_PER_SOLVING: u32 = 100;
/// What another plan's time must be at most, as a part of today's: moving chunks costs reads.
const WORTH_MOVING: f64 = 0.98;

/// How much of each column is to stay.
#[derive(Debug, Default)]
pub struct ColumnShares {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    history: History,
    model: Model,
    /// Least memory for so many times the least time, instead of least time in all memory.
    slowdown: Option<f64>,
    plan: Plan,
    /// Of all queries.
    query_time: Duration,
    /// Of all solving.
    solving_time: Duration,
    is_solving: bool,
}

/// The shares that are the goal.
#[derive(Debug, Clone, Default, PartialEq)]
struct Plan {
    shares: BTreeMap<ColumnKey, Shares>,
    goals: Goals,
}

/// What is known of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ColumnFigures {
    /// Bytes of all of it as it is stored.
    pub stored_bytes: f64,
    /// Bytes of all of it once inflated.
    pub inflated_bytes: f64,
    /// Inflated bytes that one core makes of it in a second, where that was measured.
    pub inflate_bytes_per_s: Option<f64>,
    /// What is to stay of it, where there is a plan for it.
    pub goal: Option<Goal>,
}

impl ColumnShares {
    /// The model that shares are chosen by.
    pub fn model(&self) -> Model {
        self.lock().model
    }

    /// Another model, from the next plan on.
    pub fn set_model(&self, model: Model) {
        self.lock().model = model;
    }

    /// The slowdown for which least memory is to be taken, if it is.
    pub fn slowdown(&self) -> Option<f64> {
        self.lock().slowdown
    }

    /// Least memory for so much slowdown, or least time in all memory, from the next plan on.
    pub fn set_slowdown(&self, slowdown: Option<f64>) {
        self.lock().slowdown = slowdown;
    }

    /// What is known of the columns of the last pipelines.
    pub fn columns(&self) -> BTreeMap<ColumnKey, ColumnFigures> {
        let state = self.lock();
        let figures =
            |key: &ColumnKey| ColumnFigures { goal: state.plan.goals.get(key).copied(), ..state.history.column(key) };
        state.history.columns().map(|key| (*key, figures(key))).collect()
    }

    /// What a pipeline is expected to have taken, by what came from where; `None` where too little is known.
    pub(crate) fn expected(&self, ran: &Ran) -> Option<Duration> {
        self.lock().history.expected(ran)
    }

    /// Takes note of the pipelines of a query that took so long.
    pub(crate) fn note(&self, pipelines: Vec<Ran>, elapsed: Duration) {
        let mut state = self.lock();
        state.query_time += elapsed;
        pipelines.into_iter().for_each(|ran| state.history.add(ran));
    }

    /// Begins to solve in the background, where the cache has goals and it is time to.
    /// `disk_bytes_per_s` tells what was measured of the disk before.
    pub(crate) fn refresh<K: UnitKey, V: Send + Sync + 'static, S: Send + Sync + 'static>(
        self: &Arc<Self>,
        cache: &Arc<ChunkCache<K, V, S>>,
        disk_bytes_per_s: impl FnOnce() -> Option<f64>,
    ) {
        if cache.policy_kind() != PolicyKind::Proportional {
            return;
        }
        {
            let mut state = self.lock();
            let is_early = state.solving_time * QUERIES_PER_SOLVING > state.query_time;
            if state.is_solving || is_early || state.history.is_empty() {
                return;
            }
            state.is_solving = true;
        }
        let (shares, cache, disk_bytes_per_s) = (Arc::clone(self), Arc::clone(cache), disk_bytes_per_s());
        let solving = thread::Builder::new().name("cache shares".to_owned());
        if solving.spawn(move || shares.solve(&cache, disk_bytes_per_s)).is_err() {
            self.lock().is_solving = false;
        }
    }

    /// Finds the shares for what is known, and makes them the goal if they are better than today's.
    fn solve<K: UnitKey, V, S>(&self, cache: &ChunkCache<K, V, S>, disk_bytes_per_s: Option<f64>) {
        let started = Instant::now();
        let (keys, workload, now, slowdown) = {
            let state = self.lock();
            let (keys, workload) = state.history.workload(state.model, disk_bytes_per_s);
            let now: Vec<Shares> =
                keys.iter().map(|key| state.plan.shares.get(key).copied().unwrap_or_default()).collect();
            (keys, workload, now, state.slowdown)
        };
        let budget_bytes = cache.budget_bytes() as f64;
        let least = slowdown.and_then(|slowdown| least_memory(&workload, slowdown, &now));
        // What does not fit is bounded by memory, whatever was asked for.
        let least = least.filter(|shares| workload.memory_bytes(shares) <= budget_bytes);
        let found = least.or_else(|| least_time(&workload, budget_bytes, &now));
        let is_better = |found: &Vec<Shares>| {
            let fits = workload.memory_bytes(&now) <= budget_bytes;
            !fits || slowdown.is_some() || workload.time(found) < workload.time(&now) * WORTH_MOVING
        };
        let found = found.filter(is_better);
        let mut state = self.lock();
        state.solving_time += started.elapsed();
        state.is_solving = false;
        let Some(found) = found else { return };
        let goal = |(column, shares): (&forebay_placement::Column, &Shares)| Goal {
            inflated: shares.inflated,
            stored: shares.stored,
            bytes: column.inflated_bytes * shares.inflated + column.stored_bytes * shares.stored,
        };
        let goals = workload.columns.iter().zip(&found).map(goal);
        state.plan = Plan {
            goals: keys.iter().copied().zip(goals).collect(),
            shares: keys.iter().copied().zip(found.iter().copied()).collect(),
        };
        cache.aim(&state.plan.goals);
    }

    /// The plan is for another policy: there is none.
    pub fn forget_plan(&self) {
        self.lock().plan = Plan::default();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state whole, so a panicking holder is no reason to stop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
