//! How much of each column is to stay in memory (HPCache, DaMoN 2022, §4): learns from the pipelines of queries what their columns
//! cost, and finds the shares with which the last of them would take least time.
//!
//! What is known of a pipeline is told when its query ends, and every now and then while it runs for long. The program is solved in
//! the background, where the cache's policy has goals, and its outcome is taken for a gain only. Invariants: no answer depends on
//! it; solving takes at most a hundredth of the time of queries; who solves leaves word whatever becomes of it. Must not know: how
//! the cache keeps shares, SQL.

mod history;
mod plan_file;
mod slowdown;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use forebay_cache::policy::UnitKey;
use forebay_cache::{ChunkCache, ColumnKey, Goal, Goals, PolicyKind};
use forebay_placement::{Forms, Shares, Workload, least_memory, least_time};
use forebay_store::SideFile;

pub use forebay_placement::Model;
use history::History;
pub(crate) use history::Ran;
use plan_file::Kept;
use slowdown::Measured;

/// Time of queries for one of solving.
const QUERIES_PER_SOLVING: u32 = 100;
/// What another plan's time, or its memory where little is wanted, must be at most, as a part of today's: moving chunks costs reads.
const WORTH_MOVING: f64 = 0.98;

/// How much of what is missed is made up for at once, as an exponent, and the most that is made up for at all.
const CORRECTED_PART: f64 = 0.7;
const MOST_CORRECTION: f64 = 2.0;

/// Finds the best shares of a workload in so much memory, beside those of now; with a slowdown, in the least memory for that.
type Solver = fn(&Workload, Option<f64>, f64, &[Shares]) -> Option<Vec<Shares>>;

/// How much of each column is to stay.
pub struct ColumnShares {
    state: Mutex<State>,
    solver: Solver,
    /// Queries that ever ran.
    queries: AtomicU64,
    /// Where the plan is kept for the next process.
    kept: Option<SideFile>,
}

impl Default for ColumnShares {
    fn default() -> Self {
        Self { state: Mutex::default(), solver: best_shares, queries: AtomicU64::new(0), kept: None }
    }
}

impl fmt::Debug for ColumnShares {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ColumnShares").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    history: History,
    /// By query that runs for long.
    running: BTreeMap<u64, Running>,
    model: Model,
    /// In which columns may stay.
    forms: Forms,
    /// Least memory for so many times the least time, instead of least time in all memory.
    slowdown: Option<f64>,
    /// By what that is multiplied for the model, once it was seen to be wrong.
    correction: Option<f64>,
    /// Whether the plan is one for that, so that what it reaches is measured.
    is_measured: bool,
    plan: Plan,
    /// Of all queries that have ended.
    query_time: Duration,
    /// Of all solving.
    solving_time: Duration,
    is_solving: bool,
    /// Whether what the last process kept was looked for.
    has_recalled: bool,
}

/// A query that runs.
#[derive(Debug, Default)]
struct Running {
    elapsed: Duration,
    /// By number, what its pipelines will have done at their ends if they go on as they began.
    pipelines: BTreeMap<usize, Ran>,
}

impl State {
    /// The last pipelines, with those that run.
    fn known(&self) -> History {
        let mut known = self.history.clone();
        self.running.values().flat_map(|query| query.pipelines.values()).for_each(|ran| known.add(ran.clone()));
        known
    }

    /// The slowdown that the model is to allow, if there is one, and whether another plan may be for a gain: what is reached with the one
    /// before says whether it allowed too much or too little, once enough queries ran.
    fn next_slowdown(&mut self) -> (Option<f64>, bool) {
        let Some(slowdown) = self.slowdown else { return (None, true) };
        let measured = self.history.take_slowdown();
        if let Measured::Times(measured) = measured {
            let next = self.correction.unwrap_or(1.0) * (slowdown / measured).powf(CORRECTED_PART);
            self.correction = Some(next.clamp(slowdown.recip(), MOST_CORRECTION));
        }
        // Figures of pipelines change a little whenever they run: plans that follow each other would never be measured.
        let may_gain = !(self.is_measured && measured == Measured::TooFew);
        (Some(slowdown * self.correction.unwrap_or(1.0)), may_gain)
    }

    /// Of all queries, those that run among them.
    fn all_query_time(&self) -> Duration {
        self.query_time + self.running.values().map(|query| query.elapsed).sum::<Duration>()
    }
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
    /// Without a plan; those to come are kept in this file.
    pub(crate) fn kept_in(file: SideFile) -> Self {
        Self { kept: Some(file), ..Self::default() }
    }

    /// Keeps goals for the next process, and how fast the machine is.
    pub fn keep(&self, goals: Goals) {
        let kept = Kept { goals, rates: self.lock().history.rates() };
        self.kept.iter().for_each(|file| file.write(&plan_file::to_bytes(&kept)));
    }

    /// Makes the goals that were kept last the plan, if there are any and columns may stay in both forms; gives them. How fast the machine
    /// was is known again, too.
    pub(crate) fn recall(&self) -> Goals {
        let Kept { goals, rates } =
            plan_file::of_bytes(&self.kept.as_ref().and_then(SideFile::read).unwrap_or_default());
        let mut state = self.lock();
        state.has_recalled = true;
        state.history.recall(rates);
        if state.forms != Forms::BOTH {
            return Goals::new();
        }
        let shares = |goal: &Goal| Shares { inflated: goal.inflated, stored: goal.stored };
        let shares = goals.iter().map(|(key, goal)| (*key, shares(goal))).collect();
        state.plan = Plan { shares, goals: goals.clone() };
        goals
    }

    /// Whether [`ColumnShares::recall`] was called.
    pub(crate) fn has_recalled(&self) -> bool {
        self.lock().has_recalled
    }

    /// The model that shares are chosen by.
    pub fn model(&self) -> Model {
        self.lock().model
    }

    /// Another model, from the next plan on.
    pub fn set_model(&self, model: Model) {
        self.lock().model = model;
    }

    /// Columns stay in these forms, from the next plan on: there is none before that.
    pub(crate) fn set_forms(&self, forms: Forms) {
        let mut state = self.lock();
        if state.forms != forms {
            (state.forms, state.is_measured) = (forms, false);
            state.plan = Plan::default();
        }
    }

    /// The slowdown for which least memory is to be taken, if it is.
    pub fn slowdown(&self) -> Option<f64> {
        self.lock().slowdown
    }

    /// Least memory for so much slowdown, or least time in all memory, from the next plan on.
    pub(crate) fn set_slowdown(&self, slowdown: Option<f64>) {
        let mut state = self.lock();
        (state.slowdown, state.correction, state.is_measured) = (slowdown, None, false);
        state.history.begin_anew();
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
        let forms = state.forms;
        state.history.add_query(pipelines, elapsed, forms);
    }

    /// A number for a query that begins.
    pub(crate) fn next_query(&self) -> u64 {
        self.queries.fetch_add(1, Ordering::Relaxed)
    }

    /// Takes note of a pipeline of a query that has run so long: what it will have done if it goes on as it began.
    pub(crate) fn note_running(&self, query: u64, pipeline: usize, ran: Ran, elapsed: Duration) {
        let mut state = self.lock();
        let running = state.running.entry(query).or_default();
        running.elapsed = elapsed;
        running.pipelines.insert(pipeline, ran);
    }

    /// A query does not run any more.
    pub(crate) fn forget_running(&self, query: u64) {
        self.lock().running.remove(&query);
    }

    /// Begins to solve in the background, where the cache has goals and it is time to: not while there is memory for all chunks, unless
    /// little memory is wanted.
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
            if state.slowdown.is_none() && !cache.was_full() {
                return;
            }
            let is_early = state.solving_time * QUERIES_PER_SOLVING > state.all_query_time();
            if state.is_solving || is_early || (state.history.is_empty() && state.running.is_empty()) {
                return;
            }
            state.is_solving = true;
        }
        let solving = Solving { shares: Arc::clone(self), started: Instant::now() };
        let (cache, disk_bytes_per_s) = (Arc::clone(cache), disk_bytes_per_s());
        let thread = thread::Builder::new().name("cache shares".to_owned());
        // Where there can be no thread it is left for the next time.
        let _ = thread.spawn(move || {
            let solving = solving;
            solving.shares.solve(&cache, disk_bytes_per_s);
        });
    }

    /// Finds the shares for what is known, and makes them the goal if they are better than today's.
    fn solve<K: UnitKey, V, S>(&self, cache: &ChunkCache<K, V, S>, disk_bytes_per_s: Option<f64>) {
        if !self.has_recalled() {
            cache.aim(&self.recall());
        }
        let (pinned, pinned_bytes) = cache.pinned();
        let (keys, workload, now, slowdown, may_gain) = {
            let mut state = self.lock();
            let (slowdown, may_gain) = state.next_slowdown();
            // What is to stay in any case is there.
            let known = state.known().without(&pinned);
            let (keys, workload) = known.workload((state.model, state.forms), disk_bytes_per_s);
            let now: Vec<Shares> =
                keys.iter().map(|key| state.plan.shares.get(key).copied().unwrap_or_default()).collect();
            (keys, workload, now, slowdown, may_gain)
        };
        let budget_bytes = cache.budget_bytes().saturating_sub(pinned_bytes) as f64;
        let found = (self.solver)(&workload, slowdown, budget_bytes, &now);
        let is_better = |found: &Vec<Shares>| {
            let (found_bytes, bytes) = (workload.memory_bytes(found), workload.memory_bytes(&now));
            let (found_time, time) = (workload.time(found), workload.time(&now));
            let saves_memory = slowdown.is_some() && found_bytes < bytes * WORTH_MOVING;
            bytes > budget_bytes || may_gain && (found_time < time * WORTH_MOVING || saves_memory)
        };
        let found = found.filter(is_better);
        let Some(found) = found else { return };
        let mut state = self.lock();
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
        state.is_measured = slowdown.is_some();
        state.history.begin_anew();
        cache.aim(&state.plan.goals);
        let goals = state.plan.goals.clone();
        drop(state);
        self.keep(goals);
    }

    /// The plan is for another policy: there is none.
    pub(crate) fn forget_plan(&self) {
        let mut state = self.lock();
        (state.plan, state.is_measured) = (Plan::default(), false);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change leaves the state whole, so a panicking holder is no reason to stop.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// While somebody solves. Dropped, also by a panic, it says that nobody does, and what it took.
struct Solving {
    shares: Arc<ColumnShares>,
    started: Instant,
}

impl Drop for Solving {
    fn drop(&mut self) {
        let mut state = self.shares.lock();
        state.solving_time += self.started.elapsed();
        state.is_solving = false;
    }
}

fn best_shares(workload: &Workload, slowdown: Option<f64>, budget_bytes: f64, now: &[Shares]) -> Option<Vec<Shares>> {
    let least = slowdown.and_then(|slowdown| least_memory(workload, slowdown, now));
    // What does not fit is bounded by memory, whatever was asked for.
    let least = least.filter(|shares| workload.memory_bytes(shares) <= budget_bytes);
    least.or_else(|| least_time(workload, budget_bytes, now))
}

#[cfg(test)]
mod tests;
